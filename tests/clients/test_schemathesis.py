"""Schemathesis tests the example application against the OpenAPI document that it
publishes.
"""

from collections.abc import Iterator
from typing import Any
from wsgiref.types import WSGIApplication

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openapi_spec_validator import validate

from tests.test_example import ADMIN, ALICE, served
from tests.wsgi import call


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WSGIApplication]:
    with served(
        f"sqlite:///{tmp_path_factory.mktemp('example')}/example.sqlite3"
    ) as application:
        yield application


def test_every_response_is_in_the_document(application: WSGIApplication) -> None:
    validate(call(application, "GET", "/openapi.json").json)
    schema = schemathesis.openapi.from_wsgi("/openapi.json", application)
    results: Any = schema.get_all_operations()
    operations = [result.ok() for result in results]
    assert len(operations) == 4

    @given(st.data(), st.sampled_from(operations), st.sampled_from([ALICE, ADMIN]))
    @settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
    def check(data: st.DataObject, operation: Any, session: str) -> None:
        case = data.draw(operation.as_strategy())
        # Those that schemathesis generates are ambiguous or malformed.
        case.query.pop("sessionId", None)
        case.call_and_validate(headers={"Authorization": f"Bearer {session}"})

    check()
