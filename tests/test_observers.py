"""Observers are called once for each matched request, with one ``Use``."""

import logging
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from flask_notifications import NOTIFICATION_OPERATIONS, DeprecationMiddleware, Operation, Use
from tests.middleware import DATE_ONLY, NOW, PATH, POLICY, SESSION, Spy, wrap
from tests.storages import SESSION_ID
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
    uses: list[Use] = []
    call(wrap(plain_app("418 Teapot"), observers=[uses.append]), method, path, query, **headers)
    (use,) = uses
    assert (use.operation, use.method, use.status, use.phase, use.source, use.client) == expected
    assert use.at == NOW
    assert "'s'" not in repr(use)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda environ: environ.update(REQUEST_METHOD="POST", HTTP_USER_AGENT="other/1"), id="other"),
        pytest.param(lambda environ: environ.update(HTTP_USER_AGENT=None), id="None"),
        pytest.param(lambda environ: environ.clear(), id="nothing left"),
    ],
)
def test_an_observer_sees_the_request_as_it_came(change: "Callable[[WSGIEnvironment], None]") -> None:
    def app(environ: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
        start_response("200 OK", [])
        change(environ)
        return []

    uses: list[Use] = []
    environ = environ_of("HEAD", PATH, HTTP_USER_AGENT="erp/1")
    assert run(wrap(app, observers=[uses.append]), environ).code == 200
    assert [(use.method, use.client) for use in uses] == [("HEAD", "erp/1")]


def test_a_use_is_immutable_and_has_the_documented_attributes() -> None:
    uses: list[Use] = []
    call(wrap(observers=[uses.append]), "GET", PATH)
    with pytest.raises(AttributeError):
        uses[0].status = 1  # type: ignore[misc]
    assert list(Use.__slots__) == [
        "operation",
        "method",
        "status",
        "phase",
        "source",
        "client",
        "at",
        "caller",
    ]


def test_an_observer_that_raises_affects_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    uses: list[Use] = []

    def fail(use: Use) -> None:
        raise ValueError(use)

    app = wrap(observers=[fail, uses.append, fail, uses.append])
    response = call(app, "GET", PATH, "sessionId=s3cret")
    assert response.wire == call(wrap(), "GET", PATH, "sessionId=s3cret").wire
    assert len(uses) == 2
    assert uses[0] is not None
    assert [(record.name, record.levelno) for record in caplog.records] == [("flask_notifications", logging.ERROR)] * 2
    assert "s3cret" not in caplog.text


def test_observers_are_called_before_the_body_is_read() -> None:
    uses: list[Use] = []

    def parts() -> Iterator[bytes]:
        assert len(uses) == 1
        yield b"a"

    assert call(wrap(Spy(body=parts()), observers=[uses.append]), "GET", PATH).body == b"a"
    assert len(uses) == 1


@pytest.mark.parametrize(
    ("status", "code"),
    [
        pytest.param(b"418 Teapot", 418, id="bytes, which some servers accept"),
        pytest.param("Teapot", None, id="no code"),
        pytest.param("\xb2\xb2\xb2 Teapot", None, id="superscript digits"),
    ],
)
def test_an_unusual_status_line_is_sent_unchanged(status: Any, code: int | None) -> None:
    uses: list[Use] = []
    response = run(wrap(Spy(status), observers=[uses.append]), environ_of(path=PATH))
    assert (response.status, response.body) == (status, b"ok")
    assert [use.status for use in uses] == [code]


def test_observers_are_called_once_with_the_status_that_replaced_another() -> None:
    uses: list[Use] = []

    def app(_environ: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        assert not uses
        try:
            raise ValueError  # noqa: TRY301 - PEP 3333 requires an exception that is being handled
        except ValueError:
            start_response("500 Oops", [("Content-Type", "text/plain")], sys.exc_info())
        assert not uses
        return [b"x"]

    assert call(wrap(app, observers=[uses.append]), "GET", PATH).code == 500
    assert [use.status for use in uses] == [500]


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
    uses: list[Use] = []
    app = LazyFailure(error)
    with pytest.raises(type(error)) as caught:
        run(wrap(app, observers=[uses.append]), environ_of(path=PATH))
    assert caught.value is error
    assert [use.status for use in uses] == [None]
    assert app.closed == 1


def test_an_application_that_is_closed_before_it_starts_is_reported() -> None:
    uses: list[Use] = []
    app = LazyFailure(ValueError())
    body: Any = wrap(app, observers=[uses.append])(environ_of(path=PATH), lambda *_arguments: lambda _data: None)
    assert not uses
    body.close()
    assert [use.status for use in uses] == [None]
    assert app.closed == 1


@pytest.mark.parametrize(
    ("label", "caller"),
    [
        pytest.param("tenant-7", "tenant-7", id="a label"),
        pytest.param("a" * 64, "a" * 64, id="the longest label"),
        pytest.param("M\xfcller \u0433", "M\xfcller \u0433", id="any printable characters"),
        pytest.param(None, None, id="no label"),
        pytest.param("", None, id="an empty one"),
        pytest.param("a" * 65, None, id="one that is too long"),
        pytest.param("a\nb", None, id="one with a line end"),
        pytest.param("a\u2028b", None, id="one with a line separator"),
        pytest.param(7, None, id="one that is no string"),
        pytest.param("user s3cret", None, id="one with the session ID"),
    ],
)
@pytest.mark.parametrize("query", ["sessionId=s3cret", ""])
def test_the_application_can_label_its_caller(label: Any, caller: str | None, query: str) -> None:
    uses: list[Use] = []

    def app(environ: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        environ["flask_notifications.caller"] = label
        return [b""]

    headers = {} if query else {"HTTP_AUTHORIZATION": "Bearer s3cret"}
    call(wrap(app, observers=[uses.append]), "GET", PATH, query, **headers)
    assert [use.caller for use in uses] == [caller]


@pytest.mark.parametrize("operations", [[Operation("x", "GET", PATH)], NOTIFICATION_OPERATIONS])
@pytest.mark.parametrize("query", ["sessionId=s3cret", "sessionId=s3cret&sessionId=other", ""])
def test_a_label_with_a_session_id_is_dropped_even_if_the_environ_was_changed(operations: Any, query: str) -> None:
    uses: list[Use] = []

    def app(environ: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
        if operations is NOTIFICATION_OPERATIONS:
            for key in ("HTTP_AUTHORIZATION", SESSION, "QUERY_STRING"):
                environ.pop(key, None)
        environ["flask_notifications.caller"] = "user s3cret"
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b""]

    wrapped = DeprecationMiddleware(app, POLICY, operations=operations, observers=[uses.append])
    run(wrapped, environ_of("GET", PATH, query, HTTP_AUTHORIZATION="Bearer s3cret"))
    assert [use.caller for use in uses] == [None]


def test_without_observers_a_lazy_iterable_is_returned_as_the_same_object() -> None:
    app = LazyFailure(ValueError())
    assert wrap(app)(environ_of(path=PATH), lambda *_arguments: lambda _data: None) is app


def test_the_name_of_a_client_is_cut_to_64_characters() -> None:
    uses: list[Use] = []
    call(wrap(observers=[uses.append]), "GET", PATH, HTTP_USER_AGENT="x" * 1000)
    assert [use.client for use in uses] == ["x" * 64]


class Watcher:
    """An observer that is also notified that requests arrive."""

    def __init__(self) -> None:
        self.awaits_request = True
        self.passed: list[tuple[Operation, ...]] = []

    def __call__(self, use: Use) -> None:
        pass

    def request_passed(self, operations: tuple[Operation, ...]) -> None:
        self.awaits_request = False
        self.passed.append(operations)
        message = "broken"
        raise ValueError(message)


def test_a_watcher_is_notified_once_that_requests_reach_retired_operations(caplog: pytest.LogCaptureFixture) -> None:
    watcher = Watcher()
    retired, live = Operation("retired", "GET", "/{page}"), Operation("live", "GET", "/live")
    app = DeprecationMiddleware(plain_app(), {retired: DATE_ONLY, live: None}, observers=[watcher])
    assert [call(app, "GET", path).code for path in ("/a/b", "/live", "/x")] == [200] * 3
    assert watcher.passed == [(retired,)]
    assert "broken" in caplog.text


def test_observers_of_a_lazy_application_are_called_when_it_starts() -> None:
    uses: list[Use] = []

    def app(_environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterator[bytes]:
        assert not uses
        start_response("202 Accepted", [("Content-Type", "text/plain")])
        assert len(uses) == 1
        yield b"a"
        yield b"b"

    assert call(wrap(app, observers=[uses.append]), "GET", PATH).body == b"ab"
    assert [use.status for use in uses] == [202]


@pytest.mark.parametrize("closable", [True, False])
def test_an_observer_that_ends_the_process_leaves_no_body_open(closable: bool) -> None:
    class Body(list[bytes]):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    def observer(_use: Use) -> None:
        raise SystemExit(3)

    body = Body([b"a"]) if closable else [b"a"]
    with pytest.raises(SystemExit):
        run(wrap(Spy(body=body), observers=[observer]), environ_of(path=PATH))
    assert not isinstance(body, Body) or body.closed == 1


@pytest.mark.parametrize("failure", [ValueError(), SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
@pytest.mark.parametrize("started", [True, False])
def test_observers_are_called_when_the_application_raises(failure: BaseException, started: bool) -> None:
    uses: list[Use] = []

    def app(_environ: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
        if started:
            start_response("200 OK", [("Content-Type", "text/plain")])
        raise failure

    environ = environ_of(path=PATH)
    for number in (1, 2):
        with pytest.raises(type(failure)) as caught:
            run(wrap(app, observers=[uses.append]), environ)
        assert caught.value is failure
        assert [use.status for use in uses] == [None] * number


def test_the_log_of_a_failing_observer_omits_the_applications_exception(caplog: pytest.LogCaptureFixture) -> None:
    def app(_environ: Any, _start_response: Any) -> Any:
        raise RuntimeError(SESSION_ID)

    def observer(_use: Use) -> None:
        message = "the observer's own"
        raise KeyError(message)

    with pytest.raises(RuntimeError):
        call(
            DeprecationMiddleware(app, POLICY, observers=[observer]),
            "GET",
            PATH,
            f"sessionId={SESSION_ID}",
        )
    assert "the observer's own" in caplog.text
    assert SESSION_ID not in caplog.text


def test_a_status_line_without_a_code_is_reported_as_none() -> None:
    uses: list[Use] = []

    def app(_environ: Any, start_response: Any) -> Any:
        start_response("fine", [])
        return []

    run(DeprecationMiddleware(app, POLICY, observers=[uses.append]), environ_of("GET", PATH))
    assert [use.status for use in uses] == [None]
