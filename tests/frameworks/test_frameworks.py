"""Operations of all frameworks are announced, closed and counted the same way, and read the same session."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from io import BytesIO, StringIO
from itertools import product
from typing import Any
from urllib.parse import unquote_to_bytes, urljoin, urlsplit
from wsgiref.types import WSGIApplication

import pytest

from flask_notifications import Call, DeprecationMiddleware, DeprecationPolicy, Operation
from flask_notifications.sessions import digest_of
from tests.frameworks.applications import APPLICATIONS, OPERATIONS, PAGES, POLICY, TARGET, application_of
from tests.wsgi import Response, between_validators, call, environ_of, run

# Operations that leave the session where it is, and those of the applications, which unify it.
PLAIN = (Operation("items", "GET", "/old/items/", "/new/items/"), Operation("old", "GET", "/old/{page}", "/new/items/"))
ANNOUNCED = [
    ("Deprecation", "@1767225600"),
    ("Sunset", "Fri, 01 Jan 2027 00:00:00 GMT"),
    ("Link", '</new/items/>; rel="successor-version"'),
    ("Link", '</docs>; rel="deprecation"; type="text/html"'),
]
CLOSED = replace(POLICY, enforce_sunset=True)

SESSION_ID = "4f2c1e9a7b3d4c5e8f6a0b1c2d3e4f50"
QUERY = f"a=1&SessionID=%34{SESSION_ID[1:]}&b=%20"
ADDRESSES = {"HTTP_REFERER": f"http://api.example/?{QUERY}", "RAW_URI": f"/old/items/?{QUERY}"}

every_application = pytest.mark.parametrize("name", APPLICATIONS)


def guard(
    app: WSGIApplication, operations: Iterable[Operation] = PLAIN, policy: DeprecationPolicy = POLICY, **options: Any
) -> WSGIApplication:
    """Return an application inside the middleware, with a WSGI validator before and after it."""
    return between_validators(partial(DeprecationMiddleware, plan=dict.fromkeys(operations, policy), **options), app)


def ask(app: WSGIApplication, path: str, method: str = "GET", query: str = QUERY, **extra: Any) -> Response:
    environ = {TARGET: "/old/cookies", "wsgi.errors": StringIO(), **ADDRESSES}
    return call(app, method, path, query, **{**environ, **extra})


@every_application
def test_a_response_is_unchanged_but_for_the_announcement(name: str) -> None:
    for method, (page, code) in product(("GET", "HEAD"), PAGES.items()):
        plain = ask(application_of(name), f"/old/{page}", method)
        assert plain.code == code
        announced = ask(guard(application_of(name)), f"/old/{page}", method)
        assert announced.wire == (plain.status, [*plain.headers, *ANNOUNCED], plain.body)


@every_application
def test_a_response_to_a_crash_announces_unless_the_framework_propagates_it(name: str) -> None:
    calls: list[Call] = []
    app = guard(application_of(name), observers=[calls.append])
    if name == "pyramid":
        with pytest.raises(RuntimeError, match="on purpose"):
            ask(app, "/old/crash")
    else:
        response = ask(app, "/old/crash")
        assert (response.code, response.headers[-len(ANNOUNCED) :]) == (500, ANNOUNCED)
    assert [call.status for call in calls] == [None if name == "pyramid" else 500]


@every_application
def test_a_closed_operation_is_refused_before_the_application_and_others_are_served(name: str) -> None:
    app = guard(application_of(name), policy=CLOSED, clock=lambda: CLOSED.sunset_at)
    for page in (*PAGES, "crash", "Q3/"):
        response, head = (ask(app, f"/old/{page}", method) for method in ("GET", "HEAD"))
        assert (response.status, response.json["code"]) == ("410 Gone", "sunset")
        assert (head.headers, head.body) == (response.headers, b"")
        assert SESSION_ID not in repr(response.wire)
    for path in (*(f"/new/{page}" for page in PAGES), "/old/a/b", "/oldX/cookies"):
        assert ask(app, path).wire == ask(application_of(name), path).wire
    assert ask(app, "/q3", "POST").code == 200


@every_application
def test_every_application_reads_the_session_of_the_query(name: str) -> None:
    body = BytesIO(b"sessionId=of-the-body&x=1")
    form: dict[str, Any] = {"CONTENT_TYPE": "application/x-www-form-urlencoded", "wsgi.input": body}
    app = guard(application_of(name), OPERATIONS)
    seen = ask(app, "/q3", "POST", CONTENT_LENGTH=str(len(body.getvalue())), **form).json
    assert seen == {
        "session": [SESSION_ID, "query"],
        "authorization": f"Bearer {SESSION_ID}",
        "query": f"a=1&{digest_of(SESSION_ID)}&b=%20",
        "body": body.getvalue().decode(),
    }


def follow(app: WSGIApplication, response: Response) -> Response:
    """Request the target of a redirect without any header, as an old client does."""
    url = urlsplit(urljoin(f"http://api.example{response.environ['PATH_INFO']}", response.one("Location")))
    return run(app, environ_of("GET", unquote_to_bytes(url.path).decode("latin-1"), url.query, **{TARGET: "/"}))


@pytest.mark.parametrize(("name", "status"), [("django", 301), ("flask", 308), ("pyramid", 307)])
def test_the_slash_redirect_of_a_router_keeps_the_session(name: str, status: int) -> None:
    app = guard(application_of(name), [Operation("old", "GET", "/old/{page}", unify_session=True)])
    response = ask(app, "/old/items")
    assert response.code == status
    assert urlsplit(response.one("Location"))[2:4] == ("/old/items/", QUERY)
    assert follow(app, response).json["session"] == [SESSION_ID, "query"]


@every_application
def test_only_a_redirect_to_an_operation_keeps_the_session(name: str) -> None:
    for target, is_kept in (("http://API.example:80/old/items/", True), ("https://other.example/old/items/", False)):
        response = ask(guard(application_of(name), OPERATIONS), "/old/moved", **{TARGET: target})
        plain = ask(application_of(name), "/old/moved", query=QUERY if is_kept else "a=1&b=%20", **{TARGET: target})
        assert response.one("Location") == plain.one("Location")
        assert is_kept or SESSION_ID[1:] not in repr(response.wire)
