"""Observers are called once for each matched request, with one ``Call``."""

import logging
from collections.abc import Iterator
from itertools import islice
from typing import Any
from unittest.mock import MagicMock, Mock
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

from flask_notifications import Call, DeprecationMiddleware, Operation
from flask_notifications.plans import Plan
from tests.middleware import DATE_ONLY, NOW, OPERATIONS, PATH, SESSION, Spy, wrap
from tests.storages import Source, raising
from tests.wsgi import call, environ_of, plain_app, run

ACCOUNT = "/API/Notification/GetNotificationsForAccount/x"
CLIENT = {
    "HTTP_AUTHORIZATION": "Bearer s",
    "HTTP_USER_AGENT": "erp-client/7.1 (x; y) python/3",
}


@pytest.mark.parametrize(
    ("request_line", "headers", "expected"),
    [
        (("GET", PATH), {}, ("current_user", "GET", 418, None, None)),
        (
            ("HEAD", "/api/notification", "sessionId=s"),
            {},
            ("current_user", "HEAD", 418, "query", None),
        ),
        (
            ("POST", ACCOUNT),
            CLIENT,
            ("account", "POST", 418, "header", "erp-client/7.1"),
        ),
        (
            ("GET", PATH, "sessionId=s&sessionId=s"),
            {},
            ("current_user", "GET", 400, None, None),
        ),
    ],
)
def test_observers_see_each_matched_request(
    request_line: tuple[str, ...], headers: Any, expected: Any
) -> None:
    calls: list[Call] = []
    app = wrap(plain_app("418 Teapot"), observers=[calls.append])
    call(app, *request_line, **headers)
    (seen,) = calls
    actual = (seen.operation, seen.method, seen.status, seen.source, seen.client)
    assert actual == expected
    assert (seen.phase, seen.at) == ("deprecated", NOW)
    assert "'s'" not in repr(seen)


def test_an_observer_that_raises_affects_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[Call] = []

    def fail(call: Call) -> None:
        raise ValueError(call)

    fails = Mock(side_effect=ArithmeticError)
    unnamed = MagicMock(side_effect=ArithmeticError, __repr__=fails)
    app = wrap(observers=[fail, calls.append, unnamed, calls.append])
    response = call(app, "GET", PATH, "sessionId=s3cret-session")
    assert response.wire == call(wrap(), "GET", PATH, "sessionId=s3cret-session").wire
    assert len(calls) == 2
    assert len(caplog.records) == 2
    for record in caplog.records:
        assert (record.name, record.levelno) == ("flask_notifications", logging.ERROR)
    assert f"observer {fail!r} failed: Traceback" in caplog.text
    assert "s3cret-session" not in caplog.text


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (b"418 Teapot", 418),  # which some servers accept
        ("Teapot", None),
        ("\xb2\xb2\xb2 Teapot", None),
    ],
)
def test_an_unusual_status_line_is_sent_unchanged(
    status: Any, code: int | None
) -> None:
    calls: list[Call] = []
    response = run(wrap(Spy(status), observers=[calls.append]), environ_of(path=PATH))
    assert (response.status, response.body) == (status, b"ok")
    assert calls[0].status == code


@pytest.mark.parametrize("error", [ValueError(), SystemExit(3)], ids=repr)
def test_an_application_that_fails_during_iteration_before_its_start_is_reported(
    error: BaseException,
) -> None:
    calls: list[Call] = []
    body = Source(failure=error)
    app = wrap(lambda *_arguments: body, observers=[calls.append])
    with pytest.raises(type(error)) as caught:
        run(app, environ_of(path=PATH))
    assert caught.value is error
    assert [call.status for call in calls] == [None]
    assert body.closed == 1


@pytest.mark.parametrize("parts", [0, 1])
def test_an_application_that_is_closed_before_it_starts_is_reported(parts: int) -> None:
    calls: list[Call] = []
    body = MagicMock(__next__=Mock(return_value=b"a"))
    body.__iter__.side_effect = lambda: body
    app = wrap(lambda *_arguments: body, observers=[calls.append])
    wrapped = app(environ_of(path=PATH), lambda *_arguments: None)
    assert list(islice(wrapped, parts)) == [b"a"] * parts
    wrapped.close()
    assert [call.status for call in calls] == [None]
    assert body.close.call_count == 1


PAGE = [Operation("x", "GET", PATH)]
TWICE = "sessionId=other&sessionId=s3cret-session"


@pytest.mark.parametrize("operations", [PAGE, OPERATIONS])
@pytest.mark.parametrize(
    ("query", "authorization"),
    [
        ("sessionId=s3cret-session", ""),
        ("", "Bearer s3cret-session"),
        (TWICE, ""),
        ("", "Bearer other,Bearer s3cret-session"),
        ("", "Bearer s3cret-session,Basic x"),
    ],
)
def test_a_label_or_client_with_a_session_id_is_never_kept(
    operations: Any, query: str, authorization: str
) -> None:
    calls: list[Call] = []

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        if operations is OPERATIONS:
            for key in ("HTTP_AUTHORIZATION", SESSION, "QUERY_STRING"):
                environ.pop(key, None)
        environ["flask_notifications.caller"] = "user s3cret-session"
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b""]

    environ = environ_of("GET", PATH, query, HTTP_AUTHORIZATION=authorization)
    environ["HTTP_USER_AGENT"] = "job-s3cret-session/1"
    run(wrap(app, operations=operations, observers=[calls.append]), environ)
    (seen,) = calls
    assert (seen.caller, seen.client) == (None, None)


@pytest.mark.parametrize("operations", [PAGE, OPERATIONS])
def test_an_inner_middleware_keeps_no_session_id_that_an_outer_one_has_moved(
    operations: Any,
) -> None:
    calls: list[Call] = []
    options: Any = {"operations": operations, "observers": [calls.append]}
    inner = wrap(identify=lambda environ: environ[SESSION].value, **options)
    environ = environ_of("GET", PATH, "sessionId=s3cret-session")
    environ |= {"HTTP_AUTHORIZATION": "Basic x", "HTTP_USER_AGENT": "s3cret-session/1"}
    run(wrap(inner), environ)
    assert (calls[0].caller, calls[0].client) == (None, None)


@pytest.mark.parametrize(
    ("session_id", "name"), [("a" * 7, "x" + "a" * 7), ("a" * 8, None)]
)
def test_a_session_id_of_a_few_characters_hides_no_caller(
    session_id: str, name: str | None
) -> None:
    calls: list[Call] = []
    label = f"x{session_id}"
    app = wrap(observers=[calls.append], identify=lambda _environ: label)
    query = f"sessionId={session_id}"
    call(app, "GET", PATH, query, HTTP_USER_AGENT=label)
    assert (calls[0].caller, calls[0].client) == (name, name)


LONG = "x" * 1000


@pytest.mark.parametrize(
    ("user_agent", "session_id", "client"),
    [
        ("curl", "", "curl"),
        ("a/b/c d", "", "a/b"),
        ("", "", None),
        ("(x) y/1", "", None),
        ("\xe9/1", "", None),
        (LONG, "", LONG[:64]),
        (LONG, LONG, None),
        ("s3/cr/et/id x", "s3/cr/et/id", None),
        ("curl/8 (s3cret-session)", "s3cret-session", "curl/8"),
    ],
)
def test_a_client_is_the_first_product_and_has_no_session_id(
    user_agent: str, session_id: str, client: str | None
) -> None:
    calls: list[Call] = []
    app = wrap(observers=[calls.append])
    query = f"sessionId={session_id}"
    call(app, "GET", PATH, query, HTTP_USER_AGENT=user_agent)
    assert calls[0].client == client


class Watcher:
    """An observer that is also notified that requests arrive."""

    def __init__(self) -> None:
        self.awaits_request = True
        self.plans: list[Plan] = []
        self.passed = 0

    def __call__(self, call: Call) -> None:
        pass

    def listen(self, plan: Plan) -> None:
        self.plans.append(plan)

    def request_passed(self) -> None:
        self.awaits_request = False
        self.passed += 1
        raise LookupError


def test_a_watcher_gets_the_plan_and_is_notified_once_that_requests_pass(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watcher = Watcher()
    page, live = Operation("a", "GET", "/{page}"), Operation("b", "GET", "/live")
    plan = {page: DATE_ONLY, live: None}
    app = DeprecationMiddleware(plain_app(), plan, observers=[watcher])
    for path in ("/a/b", "/live", "/x"):  # the first matches nothing
        assert call(app, "GET", path).code == 200
        assert (watcher.plans, watcher.passed) == ([plan], 1)
    assert "LookupError" in caplog.text


def test_observers_of_a_lazy_application_are_called_when_it_starts() -> None:
    calls: list[Call] = []

    def app(
        _environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterator[bytes]:
        assert not calls
        start_response("202 Accepted", [("Content-Type", "text/plain")])
        assert len(calls) == 1
        yield b"a"
        yield b"b"

    assert call(wrap(app, observers=[calls.append]), "GET", PATH).body == b"ab"
    assert calls[0].status == 202


def test_an_observer_that_ends_the_process_leaves_no_body_open() -> None:
    body = Source([b"a"])
    for iterable in (body, [b"a"]):
        app = wrap(Spy(body=iterable), observers=[raising(SystemExit(3))])
        with pytest.raises(SystemExit):
            run(app, environ_of(path=PATH))
    assert body.closed == 1


@pytest.mark.parametrize("failure", [ValueError(), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("started", [True, False])
def test_observers_are_called_when_the_application_raises(
    failure: BaseException, started: bool
) -> None:
    calls: list[Call] = []

    def app(_environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        if started:
            start_response("200 OK", [("Content-Type", "text/plain")])
        raise failure

    with pytest.raises(type(failure)) as caught:
        run(wrap(app, observers=[calls.append]), environ_of(path=PATH))
    assert caught.value is failure
    (seen,) = calls
    assert seen.status is None
