"""Observers are called once for each matched request, with one ``Call``."""

import logging
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from flask_notifications import Call, DeprecationMiddleware, Operation
from flask_notifications.plans import Plan
from tests.middleware import DATE_ONLY, NOW, OPERATIONS, PATH, POLICY, SESSION, Spy, wrap
from tests.wsgi import call, environ_of, plain_app, run

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "expected"),
    [
        ("GET", PATH, "", {}, ("current_user", "GET", 418, "deprecated", None, None)),
        ("HEAD", "/api/notification", "sessionId=s", {}, ("current_user", "HEAD", 418, "deprecated", "query", None)),
        (
            "POST",
            "/API/Notification/GetNotificationsForAccount/x",
            "",
            {"HTTP_AUTHORIZATION": "Bearer s", "HTTP_USER_AGENT": "erp-client/7.1 (x; y) python/3"},
            ("account", "POST", 418, "deprecated", "header", "erp-client/7.1"),
        ),
        ("GET", PATH, "sessionId=s&sessionId=s", {}, ("current_user", "GET", 400, "deprecated", None, None)),
        ("GET", PATH, "", {"HTTP_USER_AGENT": "curl"}, ("current_user", "GET", 418, "deprecated", None, "curl")),
        ("GET", PATH, "", {"HTTP_USER_AGENT": ""}, ("current_user", "GET", 418, "deprecated", None, None)),
        ("GET", PATH, "", {"HTTP_USER_AGENT": "(x) y/1"}, ("current_user", "GET", 418, "deprecated", None, None)),
        ("GET", PATH, "", {"HTTP_USER_AGENT": "\xe9\xe9/1"}, ("current_user", "GET", 418, "deprecated", None, None)),
        ("GET", PATH, "", {"HTTP_USER_AGENT": "a/b/c d"}, ("current_user", "GET", 418, "deprecated", None, "a/b")),
    ],
)
def test_an_observer_is_called_for_each_matched_request(
    method: str, path: str, query: str, headers: dict[str, str], expected: tuple[object, ...]
) -> None:
    calls: list[Call] = []
    call(wrap(plain_app("418 Teapot"), observers=[calls.append]), method, path, query, **headers)
    (seen,) = calls
    assert (seen.operation, seen.method, seen.status, seen.phase, seen.source, seen.client) == expected
    assert seen.at == NOW
    assert "'s'" not in repr(seen)


def test_an_observer_that_raises_affects_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[Call] = []

    def fail(call: Call) -> None:
        raise ValueError(call)

    app = wrap(observers=[fail, calls.append, fail, calls.append])
    response = call(app, "GET", PATH, "sessionId=s3cret")
    assert response.wire == call(wrap(), "GET", PATH, "sessionId=s3cret").wire
    assert len(calls) == 2
    assert calls[0] is not None
    assert [(record.name, record.levelno) for record in caplog.records] == [("flask_notifications", logging.ERROR)] * 2
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    ("status", "code"),
    [
        pytest.param(b"418 Teapot", 418, id="bytes, which some servers accept"),
        pytest.param("Teapot", None, id="no code"),
        pytest.param("\xb2\xb2\xb2 Teapot", None, id="superscript digits"),
    ],
)
def test_an_unusual_status_line_is_sent_unchanged(status: Any, code: int | None) -> None:
    calls: list[Call] = []
    response = run(wrap(Spy(status), observers=[calls.append]), environ_of(path=PATH))
    assert (response.status, response.body) == (status, b"ok")
    assert [call.status for call in calls] == [code]


def test_observers_are_called_once_with_the_status_that_replaced_another() -> None:
    calls: list[Call] = []

    def app(_environ: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        assert not calls
        try:
            raise ValueError  # noqa: TRY301 - PEP 3333 requires an exception that is being handled
        except ValueError:
            start_response("500 Oops", [("Content-Type", "text/plain")], sys.exc_info())
        assert not calls
        return [b"x"]

    assert call(wrap(app, observers=[calls.append]), "GET", PATH).code == 500
    assert [call.status for call in calls] == [500]


class LazyFailure:
    """An application whose iterable raises an exception before it calls ``start_response``."""

    def __init__(self, error: BaseException) -> None:
        self.error, self.closed = error, 0

    def __call__(self, _environ: "WSGIEnvironment", _start_response: "StartResponse") -> "LazyFailure":
        return self

    def __iter__(self) -> "LazyFailure":
        return self

    def __next__(self) -> bytes:
        raise self.error

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("error", [ValueError(), SystemExit(3)], ids=repr)
def test_an_application_that_fails_during_iteration_before_its_start_is_reported(error: BaseException) -> None:
    calls: list[Call] = []
    app = LazyFailure(error)
    with pytest.raises(type(error)) as caught:
        run(wrap(app, observers=[calls.append]), environ_of(path=PATH))
    assert caught.value is error
    assert [call.status for call in calls] == [None]
    assert app.closed == 1


def test_an_application_that_is_closed_before_it_starts_is_reported() -> None:
    calls: list[Call] = []
    app = LazyFailure(ValueError())
    body: Any = wrap(app, observers=[calls.append])(environ_of(path=PATH), lambda *_arguments: lambda _data: None)
    assert not calls
    body.close()
    assert [call.status for call in calls] == [None]
    assert app.closed == 1


@pytest.mark.parametrize(
    ("label", "caller"),
    [
        pytest.param("tenant-7", "tenant-7", id="a label"),
        pytest.param("a" * 64, "a" * 64, id="the longest label"),
        pytest.param(None, None, id="no label"),
        pytest.param("a" * 65, None, id="one that is too long"),
        pytest.param("a\nb", None, id="one with a line end"),
    ],
)
def test_the_application_can_label_its_caller(label: Any, caller: str | None) -> None:
    calls: list[Call] = []

    def app(environ: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        environ["flask_notifications.caller"] = label
        return [b""]

    call(wrap(app, observers=[calls.append]), "GET", PATH, "sessionId=s3cret")
    assert [call.caller for call in calls] == [caller]


@pytest.mark.parametrize("operations", [[Operation("x", "GET", PATH)], OPERATIONS])
@pytest.mark.parametrize(
    ("query", "authorization"),
    [("sessionId=s3cret", ""), ("sessionId=s3cret&sessionId=other", "Bearer s3cret"), ("", "Bearer s3cret")],
)
def test_a_label_with_a_session_id_is_dropped_even_if_the_environ_was_changed(
    operations: Any, query: str, authorization: str
) -> None:
    calls: list[Call] = []

    def app(environ: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
        if operations is OPERATIONS:
            for key in ("HTTP_AUTHORIZATION", SESSION, "QUERY_STRING"):
                environ.pop(key, None)
        environ["flask_notifications.caller"] = "user s3cret"
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b""]

    wrapped = DeprecationMiddleware(app, dict.fromkeys(operations, POLICY), observers=[calls.append])
    run(wrapped, environ_of("GET", PATH, query, HTTP_AUTHORIZATION=authorization))
    assert [call.caller for call in calls] == [None]


LONG = "x" * 1000


@pytest.mark.parametrize(
    ("user_agent", "query", "authorization", "client"),
    [
        pytest.param(LONG, "", "", LONG[:64], id="a long name"),
        pytest.param(LONG, f"sessionId={LONG}", "", None, id="a long session ID"),
        pytest.param("job-s3cret/1", "sessionId=s3cret", "", None, id="in the query"),
        pytest.param("s3/cr/et x", "sessionId=s3/cr/et", "", None, id="longer than a product"),
        pytest.param("job-s3cret/1", "", "Bearer other,Bearer s3cret", None, id="refused: two credentials"),
        pytest.param("job-s3cret/1", "sessionId=other&sessionId=s3cret", "", None, id="refused: repeated"),
    ],
)
@pytest.mark.parametrize("operations", [[Operation("x", "GET", PATH)], OPERATIONS])
def test_a_client_is_cut_to_64_characters_and_dropped_with_a_session_id(
    operations: Any, user_agent: str, query: str, authorization: str, client: str | None
) -> None:
    calls: list[Call] = []
    headers = {"HTTP_USER_AGENT": user_agent, "HTTP_AUTHORIZATION": authorization}
    call(wrap(operations=operations, observers=[calls.append]), "GET", PATH, query, **headers)
    assert [call.client for call in calls] == [client]


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
        message = "broken"
        raise ValueError(message)


def test_a_watcher_gets_the_plan_and_is_notified_once_that_requests_pass(caplog: pytest.LogCaptureFixture) -> None:
    watcher = Watcher()
    retired, live = Operation("retired", "GET", "/{page}"), Operation("live", "GET", "/live")
    plan = {retired: DATE_ONLY, live: None}
    app = DeprecationMiddleware(plain_app(), plan, observers=[watcher])
    for path in ("/a/b", "/live", "/x"):  # the first matches nothing
        assert call(app, "GET", path).code == 200
        assert (watcher.plans, watcher.passed) == ([plan], 1)
    assert "broken" in caplog.text


def test_observers_of_a_lazy_application_are_called_when_it_starts() -> None:
    calls: list[Call] = []

    def app(_environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterator[bytes]:
        assert not calls
        start_response("202 Accepted", [("Content-Type", "text/plain")])
        assert len(calls) == 1
        yield b"a"
        yield b"b"

    assert call(wrap(app, observers=[calls.append]), "GET", PATH).body == b"ab"
    assert [call.status for call in calls] == [202]


@pytest.mark.parametrize("closable", [True, False])
def test_an_observer_that_ends_the_process_leaves_no_body_open(closable: bool) -> None:
    class Body(list[bytes]):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    def observer(_call: Call) -> None:
        raise SystemExit(3)

    body = Body([b"a"]) if closable else [b"a"]
    with pytest.raises(SystemExit):
        run(wrap(Spy(body=body), observers=[observer]), environ_of(path=PATH))
    assert not isinstance(body, Body) or body.closed == 1


@pytest.mark.parametrize("failure", [ValueError(), SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
@pytest.mark.parametrize("started", [True, False])
def test_observers_are_called_when_the_application_raises(failure: BaseException, started: bool) -> None:
    calls: list[Call] = []

    def app(_environ: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
        if started:
            start_response("200 OK", [("Content-Type", "text/plain")])
        raise failure

    environ = environ_of(path=PATH)
    for number in (1, 2):
        with pytest.raises(type(failure)) as caught:
            run(wrap(app, observers=[calls.append]), environ)
        assert caught.value is failure
        assert [call.status for call in calls] == [None] * number
