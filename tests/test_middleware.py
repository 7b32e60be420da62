"""The middleware matches requests, refuses wrong arguments, follows PEP 3333 and keeps
sessions private.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from inspect import stack
from io import BytesIO, StringIO
from itertools import product
from typing import Any
from unittest.mock import Mock
from wsgiref.handlers import BaseCGIHandler
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import flask
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from werkzeug.middleware.proxy_fix import ProxyFix

from flask_notifications import Call, DeprecationMiddleware, Operation, Statuses
from tests.middleware import (
    ANNOUNCED,
    CLOSED,
    DATE_ONLY,
    NOW,
    PATH,
    PLAN,
    POLICY,
    SESSION,
    Spy,
    wrap,
)
from tests.wsgi import call, environ_of, plain_app, run

SERVED = "flask_notifications.served"
ORIGINAL_PATH = "flask_notifications.original_path"
LEAKING_ENVIRON = {
    "QUERY_STRING": "a=1&sessionId=secret&sessionid=again",
    **dict.fromkeys(["RAW_URI", "REQUEST_URI", "HTTP_REFERER"], "/x?sessionId=secret"),
}
MATCHED_REQUESTS = [
    ("GET", "/API/Notification/"),
    ("GET", "/api/notification"),
    ("Head", "/aPI/NOTIFICATION/"),
    ("get", "/API/Notification/"),
    ("POST", "/api/notification/getnotificationsforaccount/a b;c=\xff"),
]
OTHER_REQUESTS = [
    ("POST", "/API/Notification/"),
    ("OPTIONS", "/API/Notification/"),
    ("GET", "/API/Notification/CurrentUser"),
    ("GET", "/"),
]


@pytest.mark.parametrize(("method", "path"), MATCHED_REQUESTS)
@pytest.mark.parametrize("mount", ["", "/erp"])
def test_a_request_for_an_operation_matches(method: str, path: str, mount: str) -> None:
    spy = Spy()
    environ = environ_of(method, path, SCRIPT_NAME=mount)
    assert run(wrap(spy), environ).one("Deprecation") == "@1767225600"
    assert spy.calls[0][0] is environ
    assert environ[ORIGINAL_PATH] == path
    assert environ["PATH_INFO"].startswith("/API/Notification/")
    assert environ["PATH_INFO"].endswith("/")
    assert environ["SCRIPT_NAME"] == mount


@pytest.mark.parametrize(("method", "path"), OTHER_REQUESTS)
@pytest.mark.parametrize("mount", ["", "/API/Notification"])
def test_every_other_request_passes_untouched(
    method: str, path: str, mount: str
) -> None:
    headers = [
        ("Deprecation", "?1"),
        ("Vary", "x"),
        ("Access-Control-Allow-Origin", "*"),
        ("Set-Cookie", "a=1"),
    ]
    spy = Spy(headers=headers)
    calls: list[Call] = []
    start_response = Mock()
    environ = environ_of(method, path, SCRIPT_NAME=mount) | LEAKING_ENVIRON
    before = dict(environ)
    app = wrap(spy, observers=[calls.append], require_session=True)
    assert app(environ, start_response) is spy.body
    assert spy.calls == [(environ, start_response)]
    assert spy.calls[0][0] is environ
    assert environ == before == spy.seen
    assert calls == []


def test_an_environ_without_optional_keys_is_a_request_for_the_root() -> None:
    root = Operation("root", "GET", "/", rewrite_path=True, unify_session=True)
    environ = environ_of(path="")
    del environ["PATH_INFO"], environ["QUERY_STRING"], environ["SCRIPT_NAME"]
    before = set(environ)
    assert run(wrap(operations=[root]), environ).one("Deprecation") == "@1767225600"
    assert set(environ) - before == {ORIGINAL_PATH, "PATH_INFO", SERVED}
    assert (environ[ORIGINAL_PATH], environ["PATH_INFO"]) == ("", "/")


@pytest.mark.parametrize("body", [[b"a"], iter([b"a"]), object()], ids=type)
@pytest.mark.parametrize("is_started", [True, False])
def test_the_iterable_of_the_application_is_returned_as_the_same_object(
    body: Any, is_started: bool
) -> None:
    app: Any = Mock(return_value=body)
    if is_started:
        app = Spy(body=body)
    assert wrap(app)(environ_of(path=PATH), lambda *_arguments: len) is body


@pytest.mark.parametrize("query", ["", "a=1&sessionId=x", "sessionId=x&sessionId=y"])
def test_a_second_middleware_changes_nothing_and_reports_its_own_call(
    query: str,
) -> None:
    calls: list[Call] = []
    headers = [
        ("Access-Control-Allow-Origin", "*"),
        ("Link", "<a>; rel=next"),
        ("Location", PATH),
    ]
    once = wrap(plain_app("302 Found", headers), observers=[calls.append])
    twice = wrap(once, observers=[calls.append])
    expected = call(once, "GET", PATH, query)
    (reported,) = calls
    assert call(twice, "GET", PATH, query).wire == expected.wire
    # The outer one refuses a request before the inner one.
    assert calls == [reported] * (3 - (expected.code == 400))


def test_an_inner_middleware_reports_its_operation_where_it_is_mounted() -> None:
    calls: list[Call] = []
    options: Any = {"observers": [calls.append]}
    inner = wrap(None, DATE_ONLY, [Operation("inner", "GET", "/{id}")], **options)

    def mount(environ: WSGIEnvironment, start_response: StartResponse) -> Any:
        place = {"SCRIPT_NAME": "/users", "PATH_INFO": "/7"}
        return inner(environ | place, start_response)

    outer = Operation("outer", "GET", "/users/{id}")
    app = wrap(mount, operations=[outer], **options)
    assert call(app, "GET", "/users/7").one("Sunset") == "Fri, 01 Jan 2027 00:00:00 GMT"
    assert [call.operation for call in calls] == ["inner", "outer"]


def test_headers_may_come_from_a_generator_and_no_third_argument_is_added() -> None:
    def app(_environ: WSGIEnvironment, start_response: Any) -> list[bytes]:
        start_response("200 OK", iter([("X-Page", "1"), ("Sunset", "1")]))
        return []

    lines: list[tuple[str, str]] = []
    wrap(app)(environ_of(path=PATH), lambda _status, headers: lines.extend(headers))
    assert lines == [("X-Page", "1"), ("Vary", "Authorization"), *ANNOUNCED]


async def asynchronous_app(_scope: Any, _receive: Any, _send: Any) -> None:
    pass


BASE_URLS = [
    "/erp",
    "https://a/?x=1",
    "https://[::1",
    "https://\xe4.example",
    "https://a/#",
]
BASE_URLS += ["https://a:0", "https://api.example:99999", "https://api.example:port"]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("app", None),
        ("app", asynchronous_app),
        ("require_session", "yes"),
        *product(["base_url"], BASE_URLS),
        ("clock", NOW),
        ("clock", asynchronous_app),
        ("observers", [None]),
        ("observers", print),
        ("observers", [asynchronous_app]),
        ("observers", [lambda _call: (yield)]),
        ("observers", [Spy]),
    ],
)
def test_an_invalid_argument_is_refused_by_name(argument: str, value: Any) -> None:
    arguments: dict[str, Any] = {"app": plain_app(), "plan": PLAN, argument: value}
    with pytest.raises(ValueError, match=rf"^{argument}\b"):
        DeprecationMiddleware(arguments.pop("app"), arguments.pop("plan"), **arguments)


@pytest.mark.parametrize(
    "around",
    [
        wrap,
        lambda app: ProxyFix(wrap(app)),
        lambda app: wrap(ProxyFix(app)),
        lambda app: wrap(wrap(app)),
    ],
    ids=["alone", "inside another middleware", "around another middleware", "twice"],
)
def test_an_application_that_is_wrapped_around_itself_is_refused(around: Any) -> None:
    app = flask.Flask("shop")
    app.wsgi_app = around(app)  # type: ignore[method-assign]
    line = "write app.wsgi_app = DeprecationMiddleware(app.wsgi_app, plan)"
    with pytest.raises(RuntimeError, match=re.escape(line)):
        call(app, "GET", PATH)


@pytest.mark.parametrize(
    "conditions",
    [
        {"query": {"sessionId": "*"}},
        {"query": {"sessionId": "a+="}},
        {"headers": {"Authorization": ""}},
    ],
    ids=str,
)
def test_an_inner_middleware_sees_the_session_where_the_client_sent_it(
    conditions: dict[str, Any],
) -> None:
    carrier = Operation("carrier", "GET", PATH, **conditions)
    app = wrap(wrap(policy=CLOSED, operations=[carrier]))
    assert call(app, "GET", PATH, "x=1&SessionID=a%2B=").code == 410
    in_header = environ_of("GET", PATH, HTTP_AUTHORIZATION="Bearer a+=")
    del in_header["QUERY_STRING"]  # PEP 3333 lets a server leave it out
    assert run(app, in_header).code == 200


def test_local_variables_of_an_inner_middleware_show_no_session_id() -> None:
    variables: list[str] = []

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        for caller in stack():
            if "/flask_notifications/" in caller.filename:
                variables.append(repr(caller.frame.f_locals))
        return plain_app()(environ, start_response)

    extra = {"HTTP_AUTHORIZATION": "Basic x"}
    assert call(wrap(wrap(app)), "GET", PATH, "sessionId=secret", **extra).code == 200
    assert variables
    assert "secret" not in "".join(variables)


@pytest.mark.parametrize(
    "query",
    ["sessionId=a&sessionId=b", "sessionId=", "sessionId=%22", "sessionId=\u20ac"],
)
@pytest.mark.parametrize("policy", [POLICY, CLOSED], ids=["refused", "sunset"])
def test_sessions_are_masked_in_the_environ_of_a_refused_request(
    query: str, policy: Any
) -> None:
    spy = Spy()
    environ = {
        **environ_of(path=PATH),
        **LEAKING_ENVIRON,
        "QUERY_STRING": f"a=1&{query}",
        SESSION: "forged",
    }
    assert run(wrap(spy, policy), environ).code >= 400
    assert spy.calls == []
    assert SESSION not in environ
    assert re.fullmatch(
        r"a=1(&flask_notifications\.session=[0-9a-f]{16})+", environ["QUERY_STRING"]
    )
    assert "secret" not in str(environ)


def test_a_request_without_a_required_session_is_refused() -> None:
    spy = Spy()
    response = call(wrap(spy, require_session=True), "GET", PATH)
    assert response.status == "401 Unauthorized"
    assert response.json["code"] == "session_missing"
    assert response.all("WWW-Authenticate") == ['Bearer realm="notifications"']
    options: Any = {"realm": "r s", "statuses": Statuses(session_missing=440)}
    response = call(wrap(spy, require_session=True, **options), "GET", PATH)
    assert (response.code, response.json["status"]) == (440, 440)
    assert response.all("WWW-Authenticate") == ['Bearer realm="r s"']
    assert spy.calls == []


ADDED = b"""Vary: Authorization\r
Deprecation: @1767225600\r
Link: </new>; rel="successor-version"\r
"""
PAGE = Operation("page", "GET", "/page", "/new", rewrite_path=True, unify_session=True)
TEXT = ("Content-Type", "text/plain")


class Failure(Exception):
    """Raised by the applications of these tests."""


Step = tuple[str, Any]


def serve(app: WSGIApplication) -> bytes:
    """Return what wsgiref sends, which replaces a failure before the headers with a 500
    of its own.
    """
    output = BytesIO()
    BaseCGIHandler(BytesIO(), output, StringIO(), environ_of("GET", "/page")).run(app)
    return output.getvalue()


class Scripted:
    """An application that takes given steps when it is called, and further steps before
    each part of its body.
    """

    def __init__(self, called: list[Step], read: list[list[Step]]) -> None:
        self._called, self._read = called, read
        self.closed = 0

    def __call__(self, _environ: WSGIEnvironment, start_response: Any) -> Any:
        self._start_response = start_response
        self._write: Any = None
        self._do(self._called)
        return self

    def __iter__(self) -> Iterator[bytes]:
        for number, steps in enumerate(self._read):
            self._do(steps)
            yield b"part %d" % number

    def close(self) -> None:
        self.closed += 1

    def _do(self, steps: list[Step]) -> None:
        for kind, value in steps:
            if kind == "start":
                self._write = self._start_response(*value)
            elif kind == "restart":
                try:
                    raise Failure  # noqa: TRY301 - an exception that is being handled
                except Failure:
                    self._write = self._start_response(*value, sys.exc_info())
            elif kind == "write" and self._write is not None:
                self._write(value)
            elif kind == "raise":
                raise Failure


COOKIES = [TEXT, ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]
STARTS = st.sampled_from(
    [("200 OK", [TEXT]), ("404 Not Found", COOKIES), ("304 Not Modified", [])]
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["start", "restart"]), STARTS)
    | st.tuples(st.just("write"), st.sampled_from([b"", b"written"]))
    | st.tuples(st.just("raise"), st.none()),
    max_size=4,
)


@given(STEPS, st.lists(STEPS, max_size=3))
@example([], [[("start", ("200 OK", [TEXT]))], []])  # it starts when it is read
def test_any_sequence_of_calls_is_as_without_the_middleware(
    called: list[Step], read: list[Any]
) -> None:
    bare, app, calls = Scripted(called, read), Scripted(called, read), list[Call]()
    plan, observers = {PAGE: DATE_ONLY}, [calls.append]
    once = DeprecationMiddleware(app, plan, observers=observers)
    twice = DeprecationMiddleware(once, plan, observers=observers)
    expected, received = serve(bare), serve(twice)
    assert received.replace(ADDED, b"", 1) == expected
    assert (ADDED in received) == (b"Status: 500 Internal Server" not in received)
    assert app.closed == bare.closed
    assert len(calls) == 2
