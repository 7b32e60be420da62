"""The middleware matches requests, passes all others untouched, and changes nothing else in responses."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation, Use
from tests.middleware import (
    ACTIVE_OPERATION,
    ANNOUNCED,
    DATE_ONLY,
    DEPRECATED_AT,
    LEAKING_ENVIRON,
    ORIGINAL_PATH,
    PATH,
    POLICY,
    Spy,
    wrap,
)
from tests.wsgi import call, environ_of, plain_app, run

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

MATCHED_REQUESTS = [
    ("GET", "/API/Notification/"),
    ("GET", "/API/Notification"),
    ("GET", "/api/notification"),
    ("HEAD", "/aPI/NOTIFICATION/"),
    ("get", "/API/Notification/"),
    ("POST", "/API/Notification/GetNotificationsForAccount/x/"),
    ("POST", "/api/notification/getnotificationsforaccount/a b;c=\xff"),
]
OTHER_REQUESTS = [
    ("POST", "/API/Notification/"),
    ("PUT", "/API/Notification/"),
    ("DELETE", "/API/Notification"),
    ("OPTIONS", "/API/Notification/"),
    ("OPTIONS", "/API/Notification/GetNotificationsForAccount/x/"),
    ("GET", "/API/Notification/4f2c"),
    ("GET", "/API/Notification/CurrentUser"),
    ("POST", "/API/Notification/query"),
    ("GET", "/API/Notification//"),
    ("GET", "/API//Notification"),
    ("GET", "//API/Notification/"),
    ("GET", "/API/./Notification/"),
    ("GET", "/API/x/../Notification/"),
    ("GET", "/API/Notification;v=1/"),
    ("GET", "/API/NotificationX/"),
    ("GET", "/API/Notification2"),
    ("GET", "/v1/API/Notification/"),
    ("GET", "/API/Notification/GetNotificationsForAccount/x/"),
    ("POST", "/API/Notification/GetNotificationsForAccount/"),
    ("POST", "/API/Notification/GetNotificationsForAccount//"),
    ("POST", "/API/Notification/GetNotificationsForAccount/../"),
    ("POST", "/API/Notification/GetNotificationsForAccount/x/y"),
    ("GET", ""),
    ("GET", "/"),
    ("OPTIONS", "*"),
]


@pytest.mark.parametrize(("method", "path"), MATCHED_REQUESTS)
@pytest.mark.parametrize("mount", ["", "/erp"])
def test_a_request_for_an_operation_matches(method: str, path: str, mount: str) -> None:
    spy = Spy()
    environ = environ_of(method, path, SCRIPT_NAME=mount)
    assert run(wrap(spy), environ).one("Deprecation") == "@1767225600"
    assert spy.calls[0][0] is environ
    assert spy.seen[ACTIVE_OPERATION] == ("current_user" if method.upper() in {"GET", "HEAD"} else "account")
    assert ACTIVE_OPERATION not in environ
    assert environ[ORIGINAL_PATH] == path
    assert environ["PATH_INFO"].startswith("/API/Notification/")
    assert environ["PATH_INFO"].endswith("/")
    assert environ["SCRIPT_NAME"] == mount


def test_a_parameter_keeps_its_bytes_and_its_letter_case() -> None:
    spy = Spy()
    call(wrap(spy), "POST", "/api/NOTIFICATION/getnotificationsforaccount/A b;C=\xff%2F")
    assert spy.seen["PATH_INFO"] == "/API/Notification/GetNotificationsForAccount/A b;C=\xff%2F/"


@pytest.mark.parametrize(("method", "path"), OTHER_REQUESTS)
@pytest.mark.parametrize("mount", ["", "/API/Notification"])
def test_every_other_request_passes_untouched(method: str, path: str, mount: str) -> None:
    headers = [("Deprecation", "?1"), ("Vary", "x"), ("Access-Control-Allow-Origin", "*"), ("Set-Cookie", "a=1")]
    spy = Spy(headers=headers)
    started: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], _exc_info: Any = None) -> Callable[[bytes], object]:
        started.append((status, headers))
        return lambda _data: None

    uses: list[Use] = []
    environ = {**environ_of(method, path, SCRIPT_NAME=mount), **LEAKING_ENVIRON}
    before = dict(environ)
    body = wrap(spy, observers=[uses.append], require_session=True)(environ, start_response)
    assert body is spy.body
    assert spy.calls == [(environ, start_response)]
    assert spy.calls[0][0] is environ
    assert environ == before == spy.seen
    assert list(environ) == list(before)
    assert started == [(spy.status, spy.headers)]
    assert started[0][1] is spy.headers
    assert uses == []


def test_an_environ_without_optional_keys_matches_too() -> None:
    environ = environ_of(path=PATH)
    del environ["QUERY_STRING"], environ["SCRIPT_NAME"]
    before = set(environ)
    response = run(wrap(observers=[lambda _use: None]), environ)
    assert response.headers[-5:] == ANNOUNCED
    assert set(environ) - before == {ORIGINAL_PATH}


def test_an_environ_without_a_path_is_a_request_for_the_root() -> None:
    spy = Spy()
    environ = environ_of(path="")
    del environ["PATH_INFO"]
    run(wrap(spy, operations=[Operation("root", "GET", "/", rewrite_path=True)]), environ)
    assert (spy.seen[ORIGINAL_PATH], spy.seen["PATH_INFO"]) == ("", "/")


def test_start_response_gets_no_third_argument_unless_the_application_passes_one() -> None:
    given: list[tuple[Any, ...]] = []

    def start_response(*arguments: Any) -> Any:
        given.append(arguments)

    wrap()(environ_of(path=PATH), start_response)
    assert [len(arguments) for arguments in given] == [2]


def test_the_iterable_of_the_application_is_returned_as_the_same_object() -> None:
    for body in ([b"a", b"b"], (b"",), iter([b"a"]), (part for part in [b"a"]), object()):
        spy = Spy(body=body)
        assert wrap(spy)(environ_of(path=PATH), lambda *_arguments: lambda _data: None) is body


def test_the_applications_own_list_of_headers_is_not_changed() -> None:
    spy = Spy(headers=[("Deprecation", "?1"), ("Vary", "Accept"), ("Access-Control-Allow-Origin", "*")])
    before = list(spy.headers)
    for _time in range(2):
        response = call(wrap(spy), "GET", PATH, "sessionId=x")
        assert response.all("Deprecation") == ["@1767225600"]
    assert spy.headers == before


def test_one_response_does_not_leak_into_the_next() -> None:
    app = wrap(plain_app(headers=[("Access-Control-Allow-Origin", "*")]))
    first = call(app, "GET", PATH, SCRIPT_NAME="/one")
    second = call(app, "GET", PATH, "sessionId=x", SCRIPT_NAME="/two")
    assert first.all("Link")[0] == '</one/API/Notification/CurrentUser>; rel="successor-version"'
    assert second.all("Link")[0] == '</two/API/Notification/CurrentUser>; rel="successor-version"'
    assert call(app, "GET", PATH, SCRIPT_NAME="/one").wire == first.wire
    assert len(call(app, "GET", PATH).all("Link")) == 3


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("query", ["", "a=1&sessionId=x", "sessionId=x&sessionId=y"])
def test_a_second_middleware_changes_nothing_and_observers_are_called_once(times: int, query: str) -> None:
    uses: list[Use] = []
    headers = [("Access-Control-Allow-Origin", "*"), ("Link", "<a>; rel=next"), ("Location", PATH)]
    once = repeated = wrap(plain_app("302 Found", headers), observers=[uses.append])
    for _time in range(times - 1):
        repeated = wrap(repeated, observers=[uses.append])
    expected = call(once, "GET", PATH, query)
    assert len(uses) == 1
    uses.clear()
    assert call(repeated, "GET", PATH, query).wire == expected.wire
    assert len(uses) == 1
    assert call(repeated, "POST", PATH).all("Deprecation") == []


def test_the_policy_of_the_outermost_middleware_applies() -> None:
    inner = wrap(policy=DATE_ONLY)
    assert call(wrap(inner), "GET", PATH).headers[-5:] == ANNOUNCED


def test_an_inner_middleware_matches_requests_that_the_outer_one_does_not() -> None:
    inner = wrap(policy=DATE_ONLY, operations=[Operation("x", "GET", "/x")])
    app = wrap(inner)
    assert call(app, "GET", "/X").headers[-1] == ("Deprecation", "@1767225600")
    assert call(app, "GET", PATH).headers[-5:] == ANNOUNCED


def test_an_inner_middleware_ignores_the_request_where_its_application_is_mounted() -> None:
    uses: list[Use] = []
    inner = wrap(policy=DATE_ONLY, operations=[Operation("inner", "GET", "/{id}")], observers=[uses.append])

    def mount(environ: "WSGIEnvironment", start_response: "StartResponse") -> Any:
        return inner(environ | {"SCRIPT_NAME": "/users", "PATH_INFO": "/7"}, start_response)

    app = wrap(mount, operations=[Operation("outer", "GET", "/users/{id}")], observers=[uses.append])
    assert call(app, "GET", "/users/7").one("Sunset") == "Fri, 01 Jan 2027 00:00:00 GMT"
    assert [use.operation for use in uses] == ["outer"]


@pytest.mark.parametrize(("left_out", "code"), [({ACTIVE_OPERATION}, 410), (set(), 200)])
def test_a_call_with_a_copied_environ_is_served_if_the_operation_is_left_out(left_out: set[str], code: int) -> None:
    """As that of a batch endpoint that is itself retired."""

    def app(environ: "WSGIEnvironment", start_response: "StartResponse") -> Any:
        if environ["PATH_INFO"] != "/batch":
            return plain_app()(environ, start_response)
        copied = {key: value for key, value in environ.items() if key not in left_out}
        return middleware(copied | {"REQUEST_METHOD": "GET", "PATH_INFO": "/old"}, start_response)

    ended = DeprecationPolicy(deprecated_at=DEPRECATED_AT, sunset_at=DEPRECATED_AT, enforce_sunset=True)
    plan = {Operation("batch", "POST", "/batch"): POLICY, Operation("old", "GET", "/old"): ended}
    middleware = DeprecationMiddleware(app, plan)
    assert call(middleware, "POST", "/batch").code == code


def test_headers_may_come_from_a_generator() -> None:
    def app(_environ: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
        start_response("200 OK", (header for header in [("X-Own", "1")]))  # type: ignore[arg-type]
        return []

    sent = list[tuple[str, str]]()
    wrap(app)(environ_of(path=PATH), lambda _status, headers, *_: sent.extend(headers))
    assert sent[0] == ("X-Own", "1")
    assert sent[-5:] == ANNOUNCED


def test_an_environ_that_is_used_again_matches_again() -> None:
    """Test clients and dispatchers reuse environs."""
    uses: list[Use] = []
    app, environ = wrap(observers=[uses.append]), environ_of(path=PATH)
    assert run(app, environ).headers == run(app, environ).headers
    assert len(uses) == 2


def test_the_response_of_a_custom_operation_gets_only_the_announcement() -> None:
    spy = Spy(headers=[("Location", PATH), ("Vary", "Accept")], status="302 Found")
    environ = {**environ_of(path="/api/notification"), **LEAKING_ENVIRON}
    before = dict(environ)
    response = run(wrap(spy, operations=[Operation("x", "GET", PATH, "/API/Notification/CurrentUser")]), environ)
    assert response.headers == [*spy.headers, *ANNOUNCED]
    assert spy.seen == before | {ACTIVE_OPERATION: "x"}
    assert environ == before
