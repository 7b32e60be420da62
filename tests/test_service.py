"""Session, operation and storage in, a reply out: what storages may do, and what becomes of it."""

import contextlib
import logging
import math
import re
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from functools import partial
from types import FrameType
from typing import Any, BinaryIO
from unittest.mock import MagicMock

import orjson
import pytest
from marshmallow import Schema

from flask_notifications import (
    AccessDenied,
    AccountNotFound,
    SessionCredential,
    SessionRefused,
    Statuses,
    StorageError,
    StorageUnavailable,
)
from flask_notifications.replies import Reply
from flask_notifications.service import NotificationService
from tests.storages import SECRET, SESSION_ID, OneSession, OneUnit, Source, keep_temporary_files, raising

CREDENTIAL = SessionCredential(SESSION_ID, "header")

Ask = Callable[["NotificationService[Any]"], Reply]


@pytest.fixture
def spooled(monkeypatch: pytest.MonkeyPatch) -> list[BinaryIO]:
    return keep_temporary_files(monkeypatch)


def ask_current_user(service: "NotificationService[Any]") -> Reply:
    return service.current_user(CREDENTIAL)


def ask_account(service: "NotificationService[Any]") -> Reply:
    return service.account(CREDENTIAL, b"acc0")


both = pytest.mark.parametrize("ask", [ask_current_user, ask_account])


def service(storage: Any, threshold: int = 1_000_000) -> "NotificationService[Any]":
    return NotificationService(
        storage, schema=None, encode=orjson.dumps, statuses=Statuses(), spool_threshold=threshold, realm="r"
    )


def seen(reply: Reply) -> tuple[str, str | None]:
    """Return a reply's status line and the code in its body; it must hold no secret."""
    assert isinstance(reply.body, bytes)
    assert SECRET not in f"{reply.fields}{reply.body!r}"
    assert SESSION_ID not in f"{reply.fields}{reply.body!r}"
    body = orjson.loads(reply.body)
    return reply.status, body["code"] if isinstance(body, dict) else None


def rows(fault: BaseException | None = None, count: int = 0) -> Callable[[], Iterator[Any]]:
    """Return a storage's generator function: it fails while it is read."""

    def generate() -> Iterator[Any]:
        for number in range(count):
            yield {"n": number}
        if fault is not None:
            raise fault

    return generate


# Who is asked, and in which order.


def test_the_storage_is_asked_for_the_session_then_for_the_records() -> None:
    storage = OneSession(lambda: [{"n": 1}])
    assert service(storage).current_user(CREDENTIAL).body == b'[{"n":1}]'
    assert storage.calls == [("resolve_session", SESSION_ID), ("current_user_notifications", "alice")]


def test_the_account_operation_hands_on_the_caller_and_the_account() -> None:
    storage = OneSession(lambda: [{"n": 1}])
    assert service(storage).account(CREDENTIAL, "Konto-Ä".encode()).body == b'[{"n":1}]'
    assert storage.calls == [("resolve_session", SESSION_ID), ("account_notifications", "alice", "Konto-Ä")]


@pytest.mark.parametrize("caller", [0, "", False, (), b"", 0.0, {}], ids=repr)
@both
def test_only_none_is_an_unknown_session(ask: Ask, caller: object) -> None:
    storage = OneSession(caller=caller)
    assert seen(ask(service(storage))) == ("200 OK", None)
    assert storage.calls[1][1] is caller


@pytest.mark.parametrize(
    ("session", "expected"),
    [
        pytest.param(None, ("401 Unauthorized", "session_missing"), id="none"),
        pytest.param(SessionRefused(400, "invalid_request", "x"), ("400 Bad Request", "invalid_request"), id="400"),
        pytest.param(SessionRefused(401, "invalid_token", "x"), ("401 Unauthorized", "invalid_token"), id="401"),
    ],
)
@pytest.mark.parametrize("account_id", [b"acc0", b"\x00", b""], ids=["account", "invalid account", "no account"])
def test_without_a_session_nobody_is_asked(
    session: SessionRefused | None, expected: tuple[str, str], account_id: bytes
) -> None:
    storage = OneSession()
    assert seen(service(storage).current_user(session)) == expected
    assert seen(service(storage).account(session, account_id)) == expected
    assert storage.calls == []


def test_an_unknown_session_reads_nothing() -> None:
    storage = OneSession()
    unknown = SessionCredential("unknown", "query")
    assert seen(service(storage).current_user(unknown)) == ("401 Unauthorized", "session_invalid")
    assert seen(service(storage).account(unknown, b"acc0")) == ("401 Unauthorized", "session_invalid")
    assert storage.calls == [("resolve_session", "unknown")] * 2


ACCOUNT_IDS = [
    pytest.param(b"a", True, id="one character"),
    pytest.param(b" ", True, id="space"),
    pytest.param(b"%2F;x=1/..\\'\"<>", True, id="punctuation"),
    pytest.param("Zürich 東京 \U0001f600".encode(), True, id="not ASCII"),
    pytest.param("\xa0\xad\u2028\u200b\ufeff".encode(), True, id="other categories than Cc"),
    pytest.param(b"a" * 512, True, id="512 characters"),
    pytest.param("é".encode() * 512, True, id="512 characters of two bytes"),
    pytest.param(b"a" * 513, False, id="513 characters"),
    pytest.param("é".encode() * 513, False, id="513 characters of two bytes"),
    pytest.param(b"", False, id="empty"),
    pytest.param(b"\x00", False, id="NUL"),
    pytest.param(b"a\x1fb", False, id="last of C0"),
    pytest.param(b"a\n", False, id="newline at the end"),
    pytest.param(b"\x7f", False, id="DEL"),
    pytest.param("\x80".encode(), False, id="first of C1"),
    pytest.param("\x9f".encode(), False, id="last of C1"),
    pytest.param(b"\xff", False, id="not UTF-8"),
    pytest.param(b"a\xc3", False, id="UTF-8 cut"),
    pytest.param(b"\xc0\x80", False, id="UTF-8 overlong"),
    pytest.param(b"\xed\xa0\x80", False, id="UTF-8 of a surrogate"),
]


@pytest.mark.parametrize(("sent", "valid"), ACCOUNT_IDS)
def test_an_account_id_is_checked_before_the_storage_is_asked(sent: bytes, valid: bool) -> None:
    storage = OneSession()
    reply = service(storage).account(CREDENTIAL, sent)
    if valid:
        assert seen(reply) == ("200 OK", None)
        assert storage.calls[1:] == [("account_notifications", "alice", sent.decode())]
    else:
        assert seen(reply) == ("400 Bad Request", "invalid_account_id")
        assert storage.calls == []


def test_every_control_character_is_refused_and_no_other() -> None:
    refused = [
        code for code in range(0x300) if "400" in service(OneSession()).account(CREDENTIAL, chr(code).encode()).status
    ]
    assert refused == [*range(0x20), *range(0x7F, 0xA0)]


# What storages raise.


class Down(StorageUnavailable):
    """A host's own kind, that does not call the constructor of its parent."""

    def __init__(self, server: str) -> None:
        self.server = server


FAULTS = [
    pytest.param(AccessDenied(SECRET), ("403 Forbidden", "access_denied"), id="access denied"),
    pytest.param(AccountNotFound(SECRET), ("404 Not Found", "account_not_found"), id="account not found"),
    pytest.param(StorageUnavailable(SECRET), ("503 Service Unavailable", "storage_unavailable"), id="unavailable"),
    pytest.param(Down(SECRET), ("503 Service Unavailable", "storage_unavailable"), id="a kind of unavailable"),
    pytest.param(StorageError(SECRET), ("500 Internal Server Error", "storage_error"), id="storage error"),
    pytest.param(KeyError(SECRET), ("500 Internal Server Error", "storage_error"), id="bug"),
    pytest.param(OSError(28, SECRET), ("500 Internal Server Error", "storage_error"), id="full disk of the storage"),
    pytest.param(BrokenPipeError(SECRET), ("500 Internal Server Error", "storage_error"), id="broken pipe"),
    pytest.param(StopIteration(SECRET), ("500 Internal Server Error", "storage_error"), id="StopIteration"),
    pytest.param(RecursionError(SECRET), ("500 Internal Server Error", "storage_error"), id="recursion"),
    pytest.param(MemoryError(SECRET), ("500 Internal Server Error", "storage_error"), id="memory"),
    pytest.param(
        ExceptionGroup(SECRET, [AccessDenied()]), ("500 Internal Server Error", "storage_error"), id="exception group"
    ),
]


@pytest.mark.parametrize(("fault", "expected"), FAULTS)
@both
def test_a_fault_raised_by_the_call(ask: Ask, fault: Exception, expected: tuple[str, str]) -> None:
    assert seen(ask(service(OneSession(raising(fault))))) == expected


@pytest.mark.parametrize(("fault", "expected"), FAULTS)
@pytest.mark.parametrize("count", [0, 1, 127, 128, 300])
@both
def test_a_fault_raised_while_a_generator_is_read(
    ask: Ask, fault: Exception, expected: tuple[str, str], count: int, spooled: list[BinaryIO]
) -> None:
    assert seen(ask(service(OneSession(rows(fault, count)), threshold=500))) == expected
    assert bool(spooled) is (count > 127)  # a batch that is not full waits for nothing
    assert all(file.closed for file in spooled)


@pytest.mark.parametrize(("fault", "expected"), FAULTS)
@both
def test_a_fault_raised_by_the_session(ask: Ask, fault: Exception, expected: tuple[str, str]) -> None:
    class Failing(OneSession):
        def resolve_session(self, session_id: str) -> Any:
            raise fault from KeyError(session_id)

    assert seen(ask(service(Failing()))) == expected


@pytest.mark.parametrize("answer", [None, 3, object()], ids=["None", "number", "object"])
def test_an_answer_that_is_not_iterable_is_a_failure_of_the_storage(answer: object) -> None:
    assert seen(ask_current_user(service(OneSession(lambda: answer)))) == ("500 Internal Server Error", "storage_error")


@pytest.mark.parametrize("answer", ["text", b"bytes", {"key": 1}, [1]], ids=repr)
def test_an_answer_of_something_else_than_records_is_refused(answer: object) -> None:
    expected = ("500 Internal Server Error", "unserialisable_record")
    assert seen(ask_current_user(service(OneSession(lambda: answer)))) == expected


@pytest.mark.parametrize(
    ("seconds", "field"),
    [(None, "30"), (0, "0"), (0.2, "1"), (1, "1"), (2.5, "3"), (1e-9, "1"), (3600, "3600"), (Decimal("1.5"), "2")],
    ids=repr,
)
@both
def test_retry_after_is_in_whole_seconds_rounded_up(ask: Ask, seconds: Any, field: str) -> None:
    for records in (raising(StorageUnavailable(retry_after=seconds)), rows(StorageUnavailable(retry_after=seconds))):
        reply = ask(service(OneSession(records)))
        assert [value for name, value in reply.fields if name == "Retry-After"] == [field]


def test_a_kind_of_unavailable_that_names_no_time_gets_the_usual_one() -> None:
    reply = ask_current_user(service(OneSession(raising(Down("db")))))
    assert ("Retry-After", "30") in reply.fields


@pytest.mark.parametrize("seconds", [-1, -0.001, math.inf, math.nan])
def test_a_storage_cannot_name_a_time_that_is_none(seconds: float) -> None:
    with pytest.raises(ValueError, match="retry_after"):
        StorageUnavailable(retry_after=seconds)


# Storage is released, exactly once, on every path.


@pytest.mark.parametrize("fault", [None, AccessDenied(), StorageUnavailable(), ValueError(), OSError()], ids=repr)
@pytest.mark.parametrize("count", [0, 1, 128, 300])
@pytest.mark.parametrize("threshold", [1_000_000, 10])
@both
def test_records_are_closed_once_before_there_is_a_reply(
    ask: Ask, fault: Exception | None, count: int, threshold: int
) -> None:
    source = Source(({"n": number} for number in range(count)), fault=fault)
    reply = ask(service(OneSession(lambda: source), threshold))
    assert source.closed == 1
    assert reply.status.startswith("200") is (fault is None)
    reply.close()


@pytest.mark.parametrize("position", [0, 1, 5, 127, 128, 299])
def test_records_are_closed_once_when_one_of_them_is_wrong(position: int, spooled: list[BinaryIO]) -> None:
    source = Source([None if number == position else {"n": number} for number in range(300)])
    reply = ask_current_user(service(OneSession(lambda: source), threshold=10))
    assert seen(reply) == ("500 Internal Server Error", "unserialisable_record")
    assert source.closed == 1
    assert all(file.closed for file in spooled)


@pytest.mark.parametrize("count", [2, 300])
def test_a_generator_is_closed_at_the_record_at_fault(count: int) -> None:
    steps: list[str] = []

    def records() -> Iterator[Any]:
        try:
            yield None
            yield from ({"n": number} for number in range(count))
            steps.append("end")
        finally:
            steps.append("released")

    assert "500" in ask_current_user(service(OneSession(records))).status
    assert steps.count("released") == 1


@pytest.mark.parametrize("fault", [ValueError(SECRET), StorageUnavailable(SECRET), OSError(SECRET)], ids=repr)
@pytest.mark.parametrize("threshold", [1_000_000, 10])
def test_a_failing_close_does_not_harm_a_whole_array(
    fault: Exception, threshold: int, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source([{"n": 1}, {"n": 2}], closing=fault)
    reply = ask_current_user(service(OneSession(lambda: source), threshold))
    assert reply.status == "200 OK"
    assert (reply.body if isinstance(reply.body, bytes) else reply.body.read()) == b'[{"n":1},{"n":2}]'
    assert source.closed == 1
    assert len(caplog.records) == 1
    assert SECRET not in caplog.text
    reply.close()


def test_a_failing_close_does_not_hide_the_fault_before_it() -> None:
    source = Source(fault=AccessDenied(), closing=ValueError())
    assert seen(ask_current_user(service(OneSession(lambda: source)))) == ("403 Forbidden", "access_denied")
    assert source.closed == 1


# A unit of work is around all that is asked of a storage, and over before there is a reply.


@pytest.mark.parametrize("threshold", [1_000_000, 0])
@both
def test_a_unit_of_work_is_around_session_and_records(ask: Ask, threshold: int) -> None:
    source = Source([{"n": 1}])
    storage = OneUnit(lambda: source)
    reply = ask(service(storage, threshold))
    assert reply.status == "200 OK"
    assert [call[0] for call in storage.calls][:2] == ["enter", "resolve_session"]
    assert storage.calls[-1] == ("exit", None)
    assert source.closed == 1
    assert len(storage.calls) == 4
    reply.close()


@pytest.mark.parametrize(("fault", "expected"), FAULTS)
@both
def test_a_unit_of_work_is_told_of_a_fault_and_changes_no_answer(
    ask: Ask, fault: Exception, expected: tuple[str, str]
) -> None:
    for storage in (OneUnit(raising(fault)), OneUnit(rows(fault, 300)), OneUnit(rows(), opening=fault)):
        assert seen(ask(service(storage))) == expected
        assert storage.calls.count(("enter",)) == 1
        assert storage.calls[-1] in {("exit", type(fault)), ("exit", RuntimeError), ("enter",)}


def test_a_unit_of_work_ends_for_an_unknown_session_too() -> None:
    storage = OneUnit()
    assert seen(service(storage).current_user(SessionCredential("unknown", "header")))[1] == "session_invalid"
    assert storage.calls == [("enter",), ("resolve_session", "unknown"), ("exit", None)]


def test_no_unit_of_work_begins_without_a_question_to_the_storage() -> None:
    storage = OneUnit()
    assert seen(service(storage).current_user(None))[1] == "session_missing"
    assert seen(service(storage).account(CREDENTIAL, b""))[1] == "invalid_account_id"
    assert storage.calls == []


@pytest.mark.parametrize(("fault", "expected"), FAULTS)
@both
def test_a_unit_of_work_that_fails_at_its_end_leaves_no_answer(
    ask: Ask, fault: Exception, expected: tuple[str, str], spooled: list[BinaryIO]
) -> None:
    assert seen(ask(service(OneUnit(rows(count=1), closing=fault), threshold=0))) == expected
    assert [file.closed for file in spooled] == [True]


def test_the_end_of_the_process_at_the_end_of_a_unit_of_work_leaves_no_file(spooled: list[BinaryIO]) -> None:
    with pytest.raises(SystemExit):
        ask_current_user(service(OneUnit(rows(count=1), closing=SystemExit(3)), threshold=0))
    assert [file.closed for file in spooled] == [True]


def test_a_unit_of_work_that_swallows_a_fault_does_not_make_it_an_answer() -> None:
    storage = OneUnit(raising(AccessDenied()), swallows=True)
    assert seen(ask_account(service(storage))) == ("500 Internal Server Error", "storage_error")


def test_a_storage_that_has_whatever_it_is_asked_for_has_no_unit_of_work() -> None:
    storage = MagicMock(**{"resolve_session.return_value": 7, "current_user_notifications.return_value": [{"n": 1}]})
    assert ask_current_user(service(storage)).body == b'[{"n":1}]'
    storage.current_user_notifications.assert_called_once_with(7)
    storage.unit_of_work.assert_not_called()


class Fatal(BaseException):
    """What a worker that must end raises; gevent's Timeout and GreenletExit are of this kind."""


@pytest.mark.parametrize("fatal", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), Fatal()], ids=repr)
@pytest.mark.parametrize("count", [0, 1, 300])
def test_the_end_of_the_process_is_not_swallowed(fatal: BaseException, count: int, spooled: list[BinaryIO]) -> None:
    source = Source(({"n": number} for number in range(count)), fault=fatal)
    with pytest.raises(type(fatal)):
        ask_current_user(service(OneSession(lambda: source), threshold=10))
    assert source.closed == 1
    assert all(file.closed for file in spooled)
    with pytest.raises(type(fatal)):
        ask_current_user(service(OneSession(raising(fatal))))


def test_the_end_of_the_process_while_closing_leaves_no_file(spooled: list[BinaryIO]) -> None:
    source = Source([{"n": 1}], closing=SystemExit(3))
    with pytest.raises(SystemExit):
        ask_current_user(service(OneSession(lambda: source), threshold=0))
    (file,) = spooled
    closed = file.closed
    file.close()  # or a failure of this test would trouble others
    assert closed


# The log.


@pytest.mark.parametrize("count", [0, 1, 200])
def test_a_wrong_record_is_logged_with_its_index(count: int, caplog: pytest.LogCaptureFixture) -> None:
    records: list[Any] = [{"n": number} for number in range(count)]
    ask_current_user(service(OneSession(lambda: [*records, {"a": {SECRET}}, None])))
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("flask_notifications", logging.ERROR)
    assert f"unserialisable_record at record {count}:" in record.getMessage()


FRAME = r"\S+\.py:\d+ in [\w<>]+"
KIND = rf"([\w.]+) \((?:{FRAME}(?:, {FRAME})*)?\)"


@pytest.mark.parametrize(
    ("answer", "code", "kind"),
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
def test_a_line_of_the_log_is_a_code_a_kind_and_places(
    answer: Callable[[], Any], code: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    ask_current_user(service(OneSession(answer)))
    (record,) = caplog.records
    line = re.fullmatch(rf"{code}: {KIND}", record.getMessage())
    assert line is not None
    assert line[1] == kind


@pytest.mark.parametrize(
    ("chained", "kinds"),
    [
        pytest.param({}, ["ValueError"], id="alone"),
        pytest.param({"__cause__": KeyError()}, ["ValueError", "KeyError"], id="from another"),
        pytest.param({"__context__": KeyError()}, ["ValueError", "KeyError"], id="while another was handled"),
        pytest.param({"__context__": KeyError(), "__suppress_context__": True}, ["ValueError"], id="from None"),
        pytest.param({"__context__": KeyError(), "__cause__": OSError()}, ["ValueError", "OSError"], id="from a third"),
    ],
)
def test_the_log_names_what_a_traceback_would(
    chained: dict[str, Any], kinds: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    fault = ValueError()
    for name, value in chained.items():
        setattr(fault, name, value)
    ask_current_user(service(OneSession(raising(fault))))
    (record,) = caplog.records
    told = record.getMessage().removeprefix("storage_error: ").split("; caused by ")
    assert [re.sub(KIND, r"\1", part) for part in told] == [f"builtins.{kind}" for kind in kinds]


def test_the_log_of_a_deep_fault_ends_with_its_last_twenty_frames(caplog: pytest.LogCaptureFixture) -> None:
    def sink(depth: int) -> Any:
        return sink(depth - 1) if depth else raising(ValueError())()

    ask_current_user(service(OneSession(partial(sink, 50))))
    assert caplog.text.count(" in sink") == 19
    assert " in call)" in caplog.text


def leaking(session_id: str) -> Exception:
    """Return what a careless driver raises: the texts of the request in the exception, and in its cause."""
    cause = raised(KeyError(f"SELECT {SECRET} {session_id} /API/Notification/?sessionId={session_id}"))
    fault = raised(ValueError(session_id, SECRET))
    fault.__cause__ = cause
    return fault


def raised(fault: Exception) -> Exception:
    """Return an exception with a traceback."""
    with contextlib.suppress(type(fault)):
        raise fault
    return fault


@pytest.mark.parametrize("place", ["call", "iteration", "record", "close", "unavailable"])
def test_the_log_tells_the_kinds_and_places_of_faults_and_no_texts(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    fault = leaking(SESSION_ID)
    unavailable = StorageUnavailable(SESSION_ID, SECRET)
    unavailable.__cause__ = fault
    record = type("Record", (dict,), {"__getattr__": raising(fault), "items": raising(fault)})
    answers: dict[str, Callable[[], Any]] = {
        "call": raising(fault),
        "iteration": rows(fault),
        "record": lambda: [{SECRET: record(), "a": object()}],
        "close": lambda: Source(closing=fault),
        "unavailable": raising(unavailable),
    }
    with caplog.at_level(logging.DEBUG):
        ask_current_user(service(OneSession(answers[place])))
    assert caplog.records
    assert place == "record" or "builtins.KeyError" in caplog.text
    assert place == "record" or f"{__file__}:" in caplog.text
    for text in (SESSION_ID, SECRET, "SELECT", "/API/Notification"):
        assert text not in caplog.text
    assert not any(record.exc_info or record.stack_info for record in caplog.records)


@pytest.mark.parametrize("fault", [AccessDenied(SECRET), AccountNotFound(SECRET)], ids=repr)
def test_a_refusal_by_the_storage_is_no_fault_to_log(fault: Exception, caplog: pytest.LogCaptureFixture) -> None:
    ask_account(service(OneSession(raising(fault))))
    assert caplog.records == []


@pytest.fixture
def in_time() -> Iterator[None]:
    """Let a test fail that would never end."""

    def give_up(_number: int, _frame: FrameType | None) -> None:
        message = "takes too long"
        raise TimeoutError(message)

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, 2, 0.1)  # again and again: the first may hit where exceptions are ignored
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


@pytest.mark.usefixtures("in_time")
@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="has no alarm signal")
@pytest.mark.parametrize("length", [1, 2])
def test_a_fault_that_is_among_its_own_causes_is_answered(length: int) -> None:
    """``raise fault from fault`` is all that it takes."""
    faults: list[Exception] = [ValueError(number) for number in range(length)]
    for fault, cause in zip(faults, [*faults[1:], faults[0]], strict=True):
        fault.__cause__ = cause
    reply = ask_current_user(service(OneSession(raising(faults[0]))))
    assert seen(reply) == ("500 Internal Server Error", "storage_error")


# Arguments.


class Awaited(OneSession):
    async def current_user_notifications(self, caller: Any) -> Any:
        return [caller]


class Streaming(OneSession):
    async def account_notifications(self, caller: Any, account_id: str) -> Any:
        yield caller, account_id


class AwaitedUnit(OneSession):
    async def unit_of_work(self) -> None:
        pass


class NoUnit(OneSession):
    unit_of_work = "SERIALIZABLE"


class Incomplete:
    def resolve_session(self, session_id: str) -> str:
        return session_id


class UnitOnly(Incomplete):
    unit_of_work = OneUnit.unit_of_work


class Sessionless:
    current_user_notifications = account_notifications = OneSession.account_notifications


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        pytest.param("storage", OneSession, id="a storage class"),
        pytest.param("storage", Incomplete(), id="a storage without its methods"),
        pytest.param("storage", UnitOnly(), id="a storage without its methods but a unit of work"),
        pytest.param("storage", Sessionless(), id="a storage without sessions"),
        pytest.param("storage", None, id="no storage"),
        pytest.param("storage", Awaited(), id="a storage with a coroutine"),
        pytest.param("storage", Streaming(), id="a storage with an asynchronous generator"),
        pytest.param("storage", AwaitedUnit(), id="a storage whose unit of work is to be awaited"),
        pytest.param("storage", NoUnit(), id="a storage whose unit of work is no method"),
        pytest.param("schema", Schema, id="a schema class"),
        pytest.param("schema", dict, id="another class"),
        pytest.param("schema", object(), id="a schema that is none"),
        pytest.param("encode", None, id="no encode"),
        pytest.param("encode", "utf-8", id="encode by name"),
        pytest.param("statuses", {"access_denied": 410}, id="statuses in a dict"),
        pytest.param("statuses", Statuses, id="the Statuses class"),
        pytest.param("spool_threshold", -1, id="negative threshold"),
        pytest.param("spool_threshold", 1.5, id="threshold in parts of a byte"),
        pytest.param("spool_threshold", True, id="bool for a threshold"),
        pytest.param("spool_threshold", None, id="no threshold"),
        pytest.param("realm", 'a"b', id="quote in the realm"),
        pytest.param("realm", "a\\b", id="backslash in the realm"),
        pytest.param("realm", "a\r\nb", id="lines in the realm"),
        pytest.param("realm", "Zürich", id="realm that is not ASCII"),
        pytest.param("realm", None, id="no realm"),
    ],
)
def test_an_argument_that_does_not_fit_is_named_at_once(argument: str, value: object) -> None:
    arguments: dict[str, Any] = {
        "storage": OneSession(),
        "schema": None,
        "encode": orjson.dumps,
        "statuses": Statuses(),
        "spool_threshold": 0,
        "realm": "",
    }
    with pytest.raises(ValueError, match=rf"^{argument}\b"):
        NotificationService(**{**arguments, argument: value})


def test_any_iterable_is_an_answer() -> None:
    class Sequence:
        def __getitem__(self, index: int) -> Any:
            if index > 1:
                raise IndexError
            return {"n": index}

    for answer in ([{"n": 0}, {"n": 1}], ({"n": 0}, {"n": 1}), rows(count=2)(), Sequence()):
        storage = OneSession(partial(identity, answer))
        assert ask_current_user(service(storage)).body == b'[{"n":0},{"n":1}]'


def identity(answer: Any) -> Any:
    return answer


@pytest.mark.parametrize(
    "wait", ["60", -1, math.nan, math.inf, 1e300, Decimal("NaN"), timedelta(seconds=5), None], ids=repr
)
def test_a_wait_that_is_no_time_is_replaced(wait: Any) -> None:
    class Down(StorageUnavailable):
        retry_after = wait

        def __init__(self) -> None:
            Exception.__init__(self)

    reply = ask_current_user(service(OneSession(raising(Down()))))
    assert ("Retry-After", "30") in reply.fields


@pytest.mark.parametrize("wait", ["60", -1, math.nan, math.inf, 1e300, Decimal("NaN"), timedelta(seconds=5)], ids=repr)
def test_a_wait_that_is_no_time_is_refused_where_it_is_named(wait: Any) -> None:
    with pytest.raises(ValueError, match="retry_after"):
        StorageUnavailable(retry_after=wait)


def test_a_promise_of_a_caller_is_no_caller() -> None:
    class Promise:
        def __await__(self) -> Iterator[None]:
            yield

    reply = ask_current_user(service(OneSession(lambda: [{"n": 1}], caller=Promise())))
    assert seen(reply) == ("500 Internal Server Error", "storage_error")
