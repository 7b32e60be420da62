"""The core: which methods of a storage are called, what they may return or raise, and when they are released."""

import math
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any, BinaryIO

import orjson
import pytest
from marshmallow import Schema
from werkzeug.local import LocalProxy

from flask_notifications import AccessDenied, SessionCredential, SessionRefused, Statuses, StorageUnavailable
from flask_notifications.service import NotificationService
from tests.service_calls import (
    CREDENTIAL,
    FAILURES,
    Down,
    ServiceCall,
    both_operations,
    call_current_user,
    make_service,
    status_and_code,
)
from tests.storages import SECRET, SESSION_ID, OneSession, OneUnit, Source, raising, rows

# Which methods of a storage are called, and in which order.


def test_the_storage_is_asked_for_the_session_then_for_the_records() -> None:
    storage = OneSession(lambda: [{"n": 1}])
    assert make_service(storage).current_user(CREDENTIAL).body == b'[{"n":1}]'
    assert storage.calls == [("resolve_session", SESSION_ID), ("current_user_notifications", "alice")]


def test_the_account_operation_passes_the_caller_and_the_account_id() -> None:
    storage = OneSession(lambda: [{"n": 1}])
    assert make_service(storage).account(CREDENTIAL, "Konto-Ä".encode()).body == b'[{"n":1}]'
    assert storage.calls == [("resolve_session", SESSION_ID), ("account_notifications", "alice", "Konto-Ä")]


@pytest.mark.parametrize("caller", [0, "", False, (), b"", 0.0, {}], ids=repr)
@both_operations
def test_only_none_is_an_unknown_session(call: ServiceCall, caller: object) -> None:
    storage = OneSession(caller=caller)
    assert status_and_code(call(make_service(storage))) == ("200 OK", None)
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
def test_without_a_session_the_storage_is_not_called(
    session: SessionRefused | None, expected: tuple[str, str], account_id: bytes
) -> None:
    storage = OneSession()
    assert status_and_code(make_service(storage).current_user(session)) == expected
    assert status_and_code(make_service(storage).account(session, account_id)) == expected
    assert storage.calls == []


def test_no_records_are_read_for_an_unknown_session() -> None:
    storage = OneSession()
    unknown = SessionCredential("unknown", "query")
    assert status_and_code(make_service(storage).current_user(unknown)) == ("401 Unauthorized", "session_invalid")
    assert status_and_code(make_service(storage).account(unknown, b"acc0")) == ("401 Unauthorized", "session_invalid")
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
    pytest.param(b"a\xc3", False, id="UTF-8 that is truncated"),
    pytest.param(b"\xc0\x80", False, id="UTF-8 that is overlong"),
    pytest.param(b"\xed\xa0\x80", False, id="UTF-8 of a surrogate"),
]


@pytest.mark.parametrize(("sent", "valid"), ACCOUNT_IDS)
def test_an_account_id_is_checked_before_the_storage_is_called(sent: bytes, valid: bool) -> None:
    storage = OneSession()
    response = make_service(storage).account(CREDENTIAL, sent)
    if valid:
        assert status_and_code(response) == ("200 OK", None)
        assert storage.calls[1:] == [("account_notifications", "alice", sent.decode())]
    else:
        assert status_and_code(response) == ("400 Bad Request", "invalid_account_id")
        assert storage.calls == []


def test_every_control_character_is_refused_and_no_other() -> None:
    refused = [
        code
        for code in range(0x300)
        if "400" in make_service(OneSession()).account(CREDENTIAL, chr(code).encode()).status
    ]
    assert refused == [*range(0x20), *range(0x7F, 0xA0)]


# What a storage may raise or return.


@pytest.mark.parametrize(("failure", "expected"), FAILURES)
@both_operations
def test_an_exception_of_a_call_gets_its_response(
    call: ServiceCall, failure: Exception, expected: tuple[str, str]
) -> None:
    assert status_and_code(call(make_service(OneSession(raising(failure))))) == expected


@pytest.mark.parametrize(("failure", "expected"), FAILURES)
@pytest.mark.parametrize("count", [0, 1, 127, 128, 300])
@both_operations
def test_an_exception_of_a_generator_gets_its_response(
    call: ServiceCall, failure: Exception, expected: tuple[str, str], count: int, spooled: list[BinaryIO]
) -> None:
    assert status_and_code(call(make_service(OneSession(rows(failure, count)), threshold=500))) == expected
    assert bool(spooled) is (count > 127)  # only a full batch opens a file
    assert all(file.closed for file in spooled)


@pytest.mark.parametrize(("failure", "expected"), FAILURES)
@both_operations
def test_an_exception_of_resolve_session_gets_its_response(
    call: ServiceCall, failure: Exception, expected: tuple[str, str]
) -> None:
    class Failing(OneSession):
        def resolve_session(self, session_id: str) -> Any:
            raise failure from KeyError(session_id)

    assert status_and_code(call(make_service(Failing()))) == expected


@pytest.mark.parametrize("records", [None, 3, object()], ids=["None", "number", "object"])
def test_a_result_that_is_not_iterable_is_a_storage_error(records: object) -> None:
    assert status_and_code(call_current_user(make_service(OneSession(lambda: records)))) == (
        "500 Internal Server Error",
        "storage_error",
    )


@pytest.mark.parametrize("records", ["text", b"bytes", {"key": 1}, [1]], ids=repr)
def test_an_iterable_of_other_things_than_records_is_refused(records: object) -> None:
    expected = ("500 Internal Server Error", "unserialisable_record")
    assert status_and_code(call_current_user(make_service(OneSession(lambda: records)))) == expected


@pytest.mark.parametrize(
    ("seconds", "header"),
    [(None, "30"), (0, "0"), (0.2, "1"), (1, "1"), (2.5, "3"), (1e-9, "1"), (3600, "3600"), (Decimal("1.5"), "2")],
    ids=repr,
)
@both_operations
def test_retry_after_is_in_whole_seconds_rounded_up(call: ServiceCall, seconds: Any, header: str) -> None:
    for records in (raising(StorageUnavailable(retry_after=seconds)), rows(StorageUnavailable(retry_after=seconds))):
        response = call(make_service(OneSession(records)))
        assert [value for name, value in response.headers if name == "Retry-After"] == [header]


def test_an_unavailable_storage_without_a_retry_after_gets_the_default() -> None:
    response = call_current_user(make_service(OneSession(raising(Down("db")))))
    assert ("Retry-After", "30") in response.headers


# Storage is released, exactly once, on every path.


@pytest.mark.parametrize("failure", [None, AccessDenied(), StorageUnavailable(), ValueError(), OSError()], ids=repr)
@pytest.mark.parametrize("count", [0, 1, 128, 300])
@pytest.mark.parametrize("threshold", [1_000_000, 10])
@both_operations
def test_records_are_closed_exactly_once_before_the_response(
    call: ServiceCall, failure: Exception | None, count: int, threshold: int
) -> None:
    source = Source(({"n": number} for number in range(count)), failure=failure)
    response = call(make_service(OneSession(lambda: source), threshold))
    assert source.closed == 1
    assert response.status.startswith("200") is (failure is None)
    response.close()


@pytest.mark.parametrize("position", [0, 1, 5, 127, 128, 299])
def test_records_are_closed_once_when_one_of_them_is_wrong(position: int, spooled: list[BinaryIO]) -> None:
    source = Source([None if number == position else {"n": number} for number in range(300)])
    response = call_current_user(make_service(OneSession(lambda: source), threshold=10))
    assert status_and_code(response) == ("500 Internal Server Error", "unserialisable_record")
    assert source.closed == 1
    assert all(file.closed for file in spooled)


@pytest.mark.parametrize("count", [2, 300])
def test_a_generator_is_closed_at_a_wrong_record(count: int) -> None:
    steps: list[str] = []

    def records() -> Iterator[Any]:
        try:
            yield None
            yield from ({"n": number} for number in range(count))
            steps.append("end")
        finally:
            steps.append("released")

    assert "500" in call_current_user(make_service(OneSession(records))).status
    assert steps.count("released") == 1


@pytest.mark.parametrize("failure", [ValueError(SECRET), StorageUnavailable(SECRET), OSError(SECRET)], ids=repr)
@pytest.mark.parametrize("threshold", [1_000_000, 10])
def test_a_failing_close_does_not_harm_a_complete_array(
    failure: Exception, threshold: int, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source([{"n": 1}, {"n": 2}], closing=failure)
    response = call_current_user(make_service(OneSession(lambda: source), threshold))
    assert response.status == "200 OK"
    assert (response.body if isinstance(response.body, bytes) else response.body.read()) == b'[{"n":1},{"n":2}]'
    assert source.closed == 1
    assert len(caplog.records) == 1
    assert SECRET not in caplog.text
    response.close()


def test_a_failing_close_does_not_hide_the_exception_before_it() -> None:
    source = Source(failure=AccessDenied(), closing=ValueError())
    assert status_and_code(call_current_user(make_service(OneSession(lambda: source)))) == (
        "403 Forbidden",
        "access_denied",
    )
    assert source.closed == 1


class Fatal(BaseException):
    """An exception that ends a worker, such as gevent's Timeout and GreenletExit."""


@pytest.mark.parametrize("fatal", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), Fatal()], ids=repr)
@pytest.mark.parametrize("count", [0, 1, 300])
def test_an_exception_that_ends_the_process_is_not_swallowed(
    fatal: BaseException, count: int, spooled: list[BinaryIO]
) -> None:
    source = Source(({"n": number} for number in range(count)), failure=fatal)
    with pytest.raises(type(fatal)):
        call_current_user(make_service(OneSession(lambda: source), threshold=10))
    assert source.closed == 1
    assert all(file.closed for file in spooled)
    with pytest.raises(type(fatal)):
        call_current_user(make_service(OneSession(raising(fatal))))


def test_an_exception_in_close_that_ends_the_process_leaves_no_file(spooled: list[BinaryIO]) -> None:
    source = Source([{"n": 1}], closing=SystemExit(3))
    with pytest.raises(SystemExit):
        call_current_user(make_service(OneSession(lambda: source), threshold=0))
    (file,) = spooled
    closed = file.closed
    file.close()  # so that a failure of this test does not affect others
    assert closed


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


async def encode_later(_records: list[Any]) -> bytes:
    return b"[]"


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
        pytest.param("storage", AwaitedUnit(), id="a storage with an asynchronous unit of work"),
        pytest.param("storage", NoUnit(), id="a storage whose unit of work is no method"),
        pytest.param("schema", Schema, id="a schema class"),
        pytest.param("schema", dict, id="another class"),
        pytest.param("schema", object(), id="an object that is no schema"),
        pytest.param("encode", None, id="no encode"),
        pytest.param("encode", "utf-8", id="encode by name"),
        pytest.param("encode", encode_later, id="encode as a coroutine"),
        pytest.param("statuses", {"access_denied": 410}, id="statuses in a dict"),
        pytest.param("statuses", Statuses, id="the Statuses class"),
        pytest.param("spool_threshold", -1, id="negative threshold"),
        pytest.param("spool_threshold", 1.5, id="threshold in parts of a byte"),
        pytest.param("spool_threshold", True, id="bool for a threshold"),
        pytest.param("spool_threshold", None, id="no threshold"),
        pytest.param("realm", 'a"b', id="quote in the realm"),
        pytest.param("realm", "a\\b", id="backslash in the realm"),
        pytest.param("realm", "a\r\nb", id="a line end in the realm"),
        pytest.param("realm", "Zürich", id="realm that is not ASCII"),
        pytest.param("realm", None, id="no realm"),
    ],
)
def test_an_invalid_argument_is_refused_by_name(argument: str, value: object) -> None:
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


def test_any_iterable_of_records_is_served() -> None:
    class Sequence:
        def __getitem__(self, index: int) -> Any:
            if index > 1:
                raise IndexError
            return {"n": index}

    for records in ([{"n": 0}, {"n": 1}], ({"n": 0}, {"n": 1}), rows(count=2)(), Sequence()):
        storage = OneSession(partial(identity, records))
        assert call_current_user(make_service(storage)).body == b'[{"n":0},{"n":1}]'


def identity(records: Any) -> Any:
    return records


@pytest.mark.parametrize(
    "wait", ["60", -1, math.nan, math.inf, 1e300, Decimal("NaN"), timedelta(seconds=5), None], ids=repr
)
def test_an_invalid_retry_after_of_a_subclass_is_replaced_by_the_default(wait: Any) -> None:
    class Busy(StorageUnavailable):
        retry_after = wait

        def __init__(self) -> None:
            Exception.__init__(self)

    response = call_current_user(make_service(OneSession(raising(Busy()))))
    assert ("Retry-After", "30") in response.headers


def test_a_retry_after_that_cannot_be_read_or_compared_is_replaced_by_the_default() -> None:
    class Incomparable(float):
        def __ge__(self, other: object) -> bool:
            raise ValueError

    class Busy(StorageUnavailable):
        @property
        def retry_after(self) -> float:
            raise OSError

        @retry_after.setter
        def retry_after(self, value: float) -> None:
            """Ignore it."""

    unusual = StorageUnavailable()
    unusual.retry_after = Incomparable()
    for error in (Busy(), unusual):
        response = call_current_user(make_service(OneSession(raising(error))))
        assert ("Retry-After", "30") in response.headers


def test_a_proxy_of_a_caller_is_a_caller() -> None:
    caller: LocalProxy[str] = LocalProxy(lambda: "alice")
    storage = OneSession(lambda: [{"n": 1}], caller=caller)
    assert call_current_user(make_service(storage)).body == b'[{"n":1}]'
