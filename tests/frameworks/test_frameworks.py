"""Operations of all frameworks are announced the same way, and their own redirects keep
the session.
"""

from dataclasses import replace
from functools import partial
from io import StringIO
from itertools import product
from typing import Any
from urllib.parse import urlsplit
from wsgiref.types import WSGIApplication

import pytest

from flask_notifications import Call, Operation
from flask_notifications.plans.announcement import DeprecationHeaders
from tests.frameworks.applications import APPLICATIONS, PAGES
from tests.middleware import POLICY, wrap
from tests.wsgi import Response, between_validators, call, environ_of, run

OLD = Operation("old", "GET", "/old/{page}", "/new/items/")
ANNOUNCED = DeprecationHeaders(POLICY).render(OLD.successor, "")
SESSION_ID = "4f2c1e9a7b3d4c5e8f6a0b1c2d3e4f50"
QUERY = f"a=1&SessionID=%34{SESSION_ID[1:]}&b=%20"

every_application = pytest.mark.parametrize("name", APPLICATIONS)


def guard(
    app: WSGIApplication, operation: Operation = OLD, **options: Any
) -> WSGIApplication:
    """Return an application inside the middleware, with a WSGI validator before and
    after it.
    """
    return between_validators(partial(wrap, operations=[operation], **options), app)


def ask(app: WSGIApplication, path: str, method: str = "GET") -> Response:
    return call(app, method, path, QUERY, **{"wsgi.errors": StringIO()})


@every_application
def test_a_response_is_unchanged_but_for_the_announcement(name: str) -> None:
    for method, (page, code) in product(("GET", "HEAD"), PAGES.items()):
        plain = ask(APPLICATIONS[name](), f"/old/{page}", method)
        assert plain.code == code
        announced = ask(guard(APPLICATIONS[name]()), f"/old/{page}", method)
        assert announced.wire == (
            plain.status,
            [*plain.headers, *ANNOUNCED],
            plain.body,
        )


@every_application
def test_a_response_to_a_crash_announces_unless_the_framework_propagates_it(
    name: str,
) -> None:
    calls: list[Call] = []
    app = guard(APPLICATIONS[name](), observers=[calls.append])
    if name == "pyramid":
        with pytest.raises(RuntimeError, match="on purpose"):
            ask(app, "/old/crash")
    else:
        response = ask(app, "/old/crash")
        assert (response.code, response.headers[-len(ANNOUNCED) :]) == (500, ANNOUNCED)
    assert [call.status for call in calls] == [None if name == "pyramid" else 500]


@every_application
def test_the_slash_redirect_of_a_router_keeps_the_session(name: str) -> None:
    app = guard(APPLICATIONS[name](), replace(OLD, unify_session=True))
    location = urlsplit(ask(app, "/old/items").one("Location"))
    assert location[2:4] == ("/old/items/", QUERY)
    # As an old client does, which sends no other header.
    response = run(app, environ_of("GET", location.path, location.query))
    assert response.body == SESSION_ID.encode()
