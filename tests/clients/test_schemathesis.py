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
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation

from tests.test_example import ADMIN, ALICE, EXPIRED, served
from tests.wsgi import call


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WSGIApplication]:
    with served(
        f"sqlite:///{tmp_path_factory.mktemp('example')}/example.sqlite3"
    ) as application:
        yield application


@pytest.fixture(scope="module")
def operations(application: WSGIApplication) -> list[APIOperation[Any, Any, Any, Any]]:
    schema = schemathesis.openapi.from_wsgi("/openapi.json", application)
    return [
        result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)
    ]


def test_the_published_document_is_valid(application: WSGIApplication) -> None:
    validate(call(application, "GET", "/openapi.json").json)


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_every_response_is_in_the_document(
    operations: Any, mode: GenerationMode
) -> None:
    assert sorted(operation.label for operation in operations) == [
        "GET /API/Notification/",
        "GET /API/Notification/Account",
        "GET /API/Notification/CurrentUser",
        "POST /API/Notification/GetNotificationsForAccount/{id}/",
    ]

    @given(st.data(), st.sampled_from([None, ALICE, ADMIN, EXPIRED]))
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    def check(data: st.DataObject, session: str | None) -> None:
        case = data.draw(
            data.draw(st.sampled_from(operations)).as_strategy(generation_mode=mode)
        )
        if mode is GenerationMode.POSITIVE:
            # The sessions that schemathesis generates are ambiguous or malformed, and
            # rightly refused.
            case.query.pop("sessionId", None)
            case.headers.pop("Authorization", None)
        case.call_and_validate(
            headers={} if session is None else {"Authorization": f"Bearer {session}"}
        )

    check()
