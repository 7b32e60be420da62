"""The log of the service: the code, the type and the places of an exception, and nothing of the request."""

import logging
import re
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import pytest

from flask_notifications import AccessDenied, AccountNotFound, StorageUnavailable
from tests import storages
from tests.service_calls import call_account, call_current_user, make_service, status_and_code
from tests.storages import SECRET, SESSION_ID, OneSession, Source, raising, rows
from tests.tracebacks import raise_and_catch


@pytest.mark.parametrize("count", [0, 1, 200])
def test_a_wrong_record_is_logged_with_its_index(count: int, caplog: pytest.LogCaptureFixture) -> None:
    records: list[Any] = [{"n": number} for number in range(count)]
    call_current_user(make_service(OneSession(lambda: [*records, {"a": {SECRET}}, None])))
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("flask_notifications", logging.ERROR)
    assert f"unserialisable_record at record {count}:" in record.getMessage()


FRAME = r"\S+\.py:\d+ in [\w<>]+"
EXCEPTION = rf"([\w.]+) \((?:{FRAME}(?:, {FRAME})*)?\)"


@pytest.mark.parametrize(
    ("records", "code", "kind"),
    [
        pytest.param(raising(ValueError()), "storage_error", "builtins.ValueError", id="a failure"),
        pytest.param(
            raising(StorageUnavailable()),
            "storage_unavailable",
            "flask_notifications.storage.StorageUnavailable",
            id="out of reach",
        ),
        pytest.param(lambda: Source(closing=KeyError()), "storage_error", "builtins.KeyError", id="while closing"),
    ],
)
def test_a_log_line_has_a_code_the_type_of_an_exception_and_its_places(
    records: Callable[[], Any], code: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    call_current_user(make_service(OneSession(records)))
    (record,) = caplog.records
    line = re.fullmatch(rf"{code}: {EXCEPTION}", record.getMessage())
    assert line is not None
    assert line[1] == kind


@pytest.mark.parametrize(
    ("chained", "kinds"),
    [
        pytest.param({}, ["ValueError"], id="alone"),
        pytest.param({"__cause__": KeyError()}, ["ValueError", "KeyError"], id="from another"),
        pytest.param({"__context__": KeyError()}, ["ValueError", "KeyError"], id="while another is handled"),
        pytest.param({"__context__": KeyError(), "__suppress_context__": True}, ["ValueError"], id="from None"),
        pytest.param({"__context__": KeyError(), "__cause__": OSError()}, ["ValueError", "OSError"], id="from a third"),
    ],
)
def test_the_log_has_the_exceptions_that_a_traceback_would_show(
    chained: dict[str, Any], kinds: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    failure = ValueError()
    for name, value in chained.items():
        setattr(failure, name, value)
    call_current_user(make_service(OneSession(raising(failure))))
    (record,) = caplog.records
    logged = record.getMessage().removeprefix("storage_error: ").split("; caused by ")
    assert [re.sub(EXCEPTION, r"\1", part) for part in logged] == [f"builtins.{kind}" for kind in kinds]


def test_the_log_of_a_long_chain_ends_with_its_tenth_exception(caplog: pytest.LogCaptureFixture) -> None:
    failure: Exception = ValueError()
    for _number in range(100):
        cause, failure = failure, ValueError()
        failure.__cause__ = cause
    call_current_user(make_service(OneSession(raising(failure))))
    assert caplog.text.count("ValueError") == 10


def test_the_log_of_a_deep_recursion_ends_with_its_last_twenty_frames(caplog: pytest.LogCaptureFixture) -> None:
    def recurse(depth: int) -> Any:
        return recurse(depth - 1) if depth else raising(ValueError())()

    call_current_user(make_service(OneSession(partial(recurse, 50))))
    assert caplog.text.count(" in recurse") == 19
    assert " in call)" in caplog.text


def make_leaking_exception(session_id: str) -> Exception:
    """Return the exception of a careless driver, with strings of the request in it and in its cause."""
    cause = raise_and_catch(KeyError(f"SELECT {SECRET} {session_id} /API/Notification/?sessionId={session_id}"))
    failure = raise_and_catch(ValueError(session_id, SECRET))
    failure.__cause__ = cause
    return failure


class LocalVariables(logging.Handler):
    """Keep the local variables of every frame of the library while it logs, as monitoring tools may."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def emit(self, _record: logging.LogRecord) -> None:
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            if "/flask_notifications/" in frame.f_code.co_filename:
                self.seen.append(repr(frame.f_locals))
            frame = frame.f_back


@pytest.mark.parametrize("place", ["call", "close", "unavailable"])
def test_no_local_variable_shows_the_exception_while_it_is_logged(place: str) -> None:
    responses: dict[str, Callable[[], Any]] = {
        "call": raising(make_leaking_exception(SESSION_ID)),
        "close": lambda: Source(closing=make_leaking_exception(SESSION_ID)),
        "unavailable": raising(StorageUnavailable(SESSION_ID)),
    }
    handler = LocalVariables()
    logging.getLogger("flask_notifications").addHandler(handler)
    try:
        call_current_user(make_service(OneSession(responses[place])))
    finally:
        logging.getLogger("flask_notifications").removeHandler(handler)
    assert handler.seen
    # Only of the library, because the exception is a local variable of the storage in any case.
    assert not [seen for seen in handler.seen if SESSION_ID in seen or SECRET in seen]


@pytest.mark.parametrize("place", ["call", "iteration", "record", "close", "unavailable"])
def test_the_log_has_the_types_and_places_of_exceptions_and_no_strings(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    failure = make_leaking_exception(SESSION_ID)
    unavailable = StorageUnavailable(SESSION_ID, SECRET)
    unavailable.__cause__ = failure
    record = type("Record", (dict,), {"__getattr__": raising(failure), "items": raising(failure)})
    responses: dict[str, Callable[[], Any]] = {
        "call": raising(failure),
        "iteration": rows(failure),
        "record": lambda: [{SECRET: record(), "a": object()}],
        "close": lambda: Source(closing=failure),
        "unavailable": raising(unavailable),
    }
    with caplog.at_level(logging.DEBUG):
        call_current_user(make_service(OneSession(responses[place])))
    assert caplog.records
    assert place == "record" or "builtins.KeyError" in caplog.text
    assert place == "record" or f"{storages.__file__}:" in caplog.text
    for string in (SESSION_ID, SECRET, "SELECT", "/API/Notification"):
        assert string not in caplog.text
    assert not any(record.exc_info or record.stack_info for record in caplog.records)


@pytest.mark.parametrize("failure", [AccessDenied(SECRET), AccountNotFound(SECRET)], ids=repr)
def test_a_refusal_by_the_storage_is_not_logged(failure: Exception, caplog: pytest.LogCaptureFixture) -> None:
    call_account(make_service(OneSession(raising(failure))))
    assert caplog.records == []


@pytest.fixture
def in_time() -> Iterator[None]:
    """Fail a test that does not end."""

    def give_up(_number: int, _frame: FrameType | None) -> None:
        message = "this takes too long"
        raise TimeoutError(message)

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, 2, 0.1)  # repeatedly, because the first exception may be ignored
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


@pytest.mark.usefixtures("in_time")
@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="has no alarm signal")
@pytest.mark.parametrize("length", [1, 2])
def test_an_exception_that_is_its_own_cause_is_a_storage_error(length: int) -> None:
    """``raise error from error`` is enough to make one."""
    failures: list[Exception] = [ValueError(number) for number in range(length)]
    for failure, cause in zip(failures, [*failures[1:], failures[0]], strict=True):
        failure.__cause__ = cause
    response = call_current_user(make_service(OneSession(raising(failures[0]))))
    assert status_and_code(response) == ("500 Internal Server Error", "storage_error")
