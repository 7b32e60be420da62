"""The core: the calls of a storage, what they may return or raise, when they are
released, and the log.
"""

import contextlib
import gc
import logging
import math
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from multiprocessing.pool import ThreadPool
from typing import Any, BinaryIO
from unittest.mock import MagicMock

import orjson
import pytest
from marshmallow import fields

from flask_notifications import (
    AccessDenied,
    AccountNotFound,
    SessionCredential,
    StorageError,
    StorageUnavailable,
)
from flask_notifications.log import describe_exception
from flask_notifications.problems import Problems, Statuses
from flask_notifications.responses import PlainResponse
from flask_notifications.serving.records import ArrayWriter
from flask_notifications.serving.service import NotificationService
from tests import storages
from tests.storages import (
    SECRET,
    SESSION_ID,
    OneSession,
    OneUnit,
    Source,
    raise_and_catch,
    raising,
    rows,
)

CREDENTIAL = SessionCredential(SESSION_ID, "header")


def make_service(
    storage: Any, threshold: int = 1_000_000
) -> "NotificationService[Any]":
    writer = ArrayWriter(encode=orjson.dumps, schema=None, spool_threshold=threshold)
    problems = Problems(statuses=Statuses(), realm="r")
    return NotificationService(storage, writer=writer, problems=problems)


def respond(storage: Any, threshold: int = 1_000_000) -> PlainResponse:
    """Return the response to the user of the session."""
    return make_service(storage, threshold).current_user(CREDENTIAL, {})


def status_and_code(response: PlainResponse) -> tuple[str, str]:
    """Return the status line and the code of an error, which must have no secret."""
    assert isinstance(response.body, bytes)
    for string in (SECRET, SESSION_ID):
        assert string not in f"{response.headers}{response.body!r}"
    return response.status, orjson.loads(response.body)["code"]


def with_method(name: str, function: Any) -> Any:
    return type("Storage", (OneUnit,), {name: staticmethod(function)})(
        lambda: [{"n": 1}]
    )


STORAGE_ERROR = ("500 Internal Server Error", "storage_error")
FAILURES: list[tuple[Exception, tuple[str, str]]] = [
    (AccessDenied(SECRET), ("403 Forbidden", "access_denied")),
    (AccountNotFound(SECRET), ("404 Not Found", "account_not_found")),
    (
        StorageUnavailable(SECRET),
        ("503 Service Unavailable", "storage_unavailable"),
    ),
    (StorageError(SECRET), STORAGE_ERROR),
    (OSError(28, SECRET), STORAGE_ERROR),
    (StopIteration(SECRET), STORAGE_ERROR),
    (ExceptionGroup(SECRET, [AccessDenied()]), STORAGE_ERROR),
]


@pytest.mark.parametrize("caller", [0, "", {}], ids=repr)
def test_only_none_is_an_unknown_session(caller: object) -> None:
    storage = OneSession(caller=caller)
    assert respond(storage).body == b"[]"
    assert storage.calls[1][1] is caller


@pytest.mark.parametrize(("failure", "expected"), FAILURES, ids=repr)
def test_an_exception_anywhere_gets_its_response_and_leaves_no_file(
    failure: Exception,
    expected: tuple[str, str],
    spooled: list[BinaryIO],
    caplog: Any,
) -> None:
    class Failing(OneSession):
        def resolve_session(self, session_id: str) -> Any:
            raise failure from KeyError(session_id)

    units = [
        OneUnit(raising(failure)),
        OneUnit(rows(failure, 300)),
        OneUnit(rows(), opening=failure),
        OneUnit(rows(), closing=failure),
    ]
    for storage in (
        OneSession(raising(failure)),
        Failing(),
        OneSession(rows(failure, 0)),
        OneSession(rows(failure, 128)),
        *units,
    ):
        assert status_and_code(respond(storage, threshold=1)) == expected
    for unit in units[:2]:
        # A generator turns StopIteration into another exception.
        assert unit.calls[-1] in {("exit", type(failure)), ("exit", RuntimeError)}
    assert {file.closed for file in spooled} == {True}
    assert (caplog.records == []) == isinstance(failure, AccessDenied | AccountNotFound)


@pytest.mark.parametrize(("seconds", "header"), [(None, "30"), (0, "0"), (1e-9, "1")])
def test_retry_after_is_in_whole_seconds_rounded_up(
    seconds: float | None, header: str
) -> None:
    storage = OneSession(raising(StorageUnavailable(retry_after=seconds)))
    response = respond(storage)
    assert dict(response.headers)["Retry-After"] == header


@pytest.mark.parametrize("failure", [None, AccessDenied(), OSError()], ids=repr)
@pytest.mark.parametrize("count", [0, 300])
@pytest.mark.parametrize("threshold", [1_000_000, 10])
def test_records_are_closed_once_before_a_response(
    failure: Any, count: int, threshold: int
) -> None:
    source = Source([{"n": 1}] * count, failure=failure)
    response = respond(OneSession(lambda: source), threshold)
    assert source.closed == 1
    assert response.status.startswith("200") is (failure is None)
    response.close()


@pytest.mark.parametrize("threshold", [1_000_000, 10])
def test_a_failing_close_leaves_the_array_whole(
    threshold: int, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source([{"n": 1}, {"n": 2}], closing=OSError(SECRET))
    response = respond(OneSession(lambda: source), threshold)
    assert response.status == "200 OK"
    assert dict(response.headers)["Content-Length"] == "17"
    assert "storage_error: builtins.OSError" in caplog.text
    assert SECRET not in caplog.text
    response.close()


@pytest.mark.parametrize("count", [0, 300])
def test_an_exception_that_ends_the_process_is_not_swallowed(
    count: int, spooled: list[BinaryIO]
) -> None:
    source = Source([{"n": 1}] * count, failure=SystemExit(3))
    for records in (lambda: source, raising(SystemExit(3))):
        with pytest.raises(SystemExit):
            respond(OneSession(records), threshold=10)
    assert source.closed == 1
    assert all(file.closed for file in spooled)


def test_an_exception_in_close_that_ends_the_process_leaves_no_file(
    spooled: list[BinaryIO],
) -> None:
    source = Source([{"n": 1}], closing=SystemExit(3))
    with pytest.raises(SystemExit):
        respond(OneSession(lambda: source), threshold=0)
    assert [file.closed for file in spooled] == [True]


async def coroutine(*_arguments: object) -> Any:
    return "alice"


@pytest.mark.parametrize(
    "storage",
    [
        OneSession,
        MagicMock(spec=["resolve_session"]),
        with_method("unit_of_work", "SERIALIZABLE"),
    ],
)
def test_a_storage_that_lacks_a_method_is_refused(storage: object) -> None:
    with pytest.raises(ValueError, match=r"^storage must be an instance"):
        make_service(storage)


@pytest.mark.parametrize(
    "change", [{"schema": fields.Integer}, {"spool_threshold": -1}, {"encode": None}]
)
def test_an_invalid_argument_of_the_writer_is_refused_by_name(
    change: dict[str, Any],
) -> None:
    (name,) = change
    arguments = {"encode": orjson.dumps, "schema": None, "spool_threshold": 0}
    with pytest.raises(ValueError, match=rf"^{name} must be"):
        ArrayWriter(**arguments | change)


@pytest.mark.parametrize("seconds", [-0.001, 31_536_000.5, math.nan, "60"])
def test_an_invalid_retry_after_is_refused(seconds: Any) -> None:
    with pytest.raises(ValueError, match=r"^retry_after\b"):
        StorageUnavailable(retry_after=seconds)


def test_a_wrong_record_is_logged_with_its_index(
    caplog: pytest.LogCaptureFixture,
) -> None:
    records: list[Any] = [{"n": 1}] * 200 + [{"a": {SECRET}}, None]
    respond(OneSession(lambda: records))
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("flask_notifications", logging.ERROR)
    assert "at record 200: record 200 of type dict cannot" in record.getMessage()


CIRCLE = KeyError()
CIRCLE.__cause__ = CIRCLE


@pytest.mark.parametrize(
    ("chained", "expected"),
    [
        ({"__cause__": CIRCLE}, "; caused by builtins.KeyError ()"),
        ({"__context__": KeyError()}, "; caused by builtins.KeyError ()"),
        ({"__context__": KeyError(), "__suppress_context__": True}, ""),
    ],
)
def test_the_log_has_the_exceptions_of_a_traceback(
    chained: dict[str, Any], expected: str
) -> None:
    failure = ValueError()
    for name, value in chained.items():
        setattr(failure, name, value)
    assert describe_exception(failure) == f"builtins.ValueError (){expected}"


def make_leaking_exception() -> Exception:
    """Return the exception of a careless driver, with strings of the request in it and
    in its cause.
    """
    statement = f"SELECT {SECRET} /API/Notification/?sessionId={SESSION_ID}"
    failure = raise_and_catch(ValueError(SESSION_ID, SECRET))
    failure.__cause__ = raise_and_catch(KeyError(statement))
    return failure


LEAKING = make_leaking_exception()
UNAVAILABLE = StorageUnavailable(SESSION_ID, SECRET)
UNAVAILABLE.__cause__ = LEAKING
LEAKS: dict[str, Callable[[], Any]] = {
    "call": raising(LEAKING),
    "iteration": rows(LEAKING),
    "close": lambda: Source(closing=LEAKING),
    "unavailable": raising(UNAVAILABLE),
    "record": lambda: [{SECRET: object()}],
}


@pytest.mark.parametrize("place", LEAKS)
def test_the_log_holds_no_strings_of_exceptions(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    respond(OneSession(LEAKS[place]))
    if place != "record":
        assert "builtins.KeyError" in caplog.text
        assert f"{storages.__file__}:" in caplog.text
    for string in (SESSION_ID, SECRET, "SELECT", "/API/Notification"):
        assert string not in caplog.text


def test_a_unit_of_work_includes_the_session_and_the_records() -> None:
    source = Source([{"n": 1}])
    storage = OneUnit(lambda: source)
    assert respond(storage).body == b'[{"n":1}]'
    names = [name for name, *_arguments in storage.calls]
    assert names[:2] == ["enter", "resolve_session"]
    assert names[3:] == ["exit"]
    assert source.closed == 1


@pytest.mark.parametrize(
    "storage",
    [
        OneUnit(raising(AccessDenied()), swallows=True),
        with_method("unit_of_work", contextlib.nullcontext),
    ],
    ids=["swallows an exception", "yields no storage"],
)
def test_a_wrong_unit_of_work_is_a_storage_error(storage: Any) -> None:
    assert status_and_code(respond(storage)) == STORAGE_ERROR


def test_a_storage_that_invents_every_attribute_has_no_unit_of_work() -> None:
    storage = MagicMock()
    storage.resolve_session.return_value = 7
    storage.current_user_notifications.return_value = [{"n": 1}]
    assert respond(storage).body == b'[{"n":1}]'
    storage.current_user_notifications.assert_called_once_with(7)
    storage.unit_of_work.assert_not_called()


def test_a_unit_of_work_yields_the_storage_to_use() -> None:
    bound = OneSession(lambda: [{"n": 1}])
    unbound = with_method("unit_of_work", lambda: contextlib.nullcontext(bound))
    assert respond(unbound).body == b'[{"n":1}]'
    assert unbound.calls == []
    assert len(bound.calls) == 2


async def asynchronous_generator(*_arguments: object) -> Any:
    yield "alice"


def generator(*_arguments: object) -> Iterator[Any]:
    yield "alice"


class AsynchronousCall:
    async def __call__(self, *_arguments: object) -> Any:
        return "alice"


def result_of_a_pool() -> Any:
    with ThreadPool(1) as pool:
        return pool.apply_async(str)


def hide(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that its kind cannot be recognised."""
    return lambda *_arguments: function()


# A generator is a valid iterable of records, and nothing else.
VISIBLE = [
    ("resolve_session", generator),
    ("resolve_session", partial(partial(coroutine, 1), 2)),
    ("unit_of_work", generator),
    ("current_user_notifications", asynchronous_generator),
    ("account_notifications", partial(AsynchronousCall(), 1)),
]
# Promises that cannot be recognised before the call.
HIDDEN = [
    ("resolve_session", hide(generator)),
    ("resolve_session", hide(coroutine)),
    ("resolve_session", hide(Future)),
    ("resolve_session", hide(result_of_a_pool)),
    ("unit_of_work", hide(coroutine)),
    ("current_user_notifications", hide(asynchronous_generator)),
    ("current_user_notifications", hide(type("Awaitable", (), {"__await__": iter}))),
]


@pytest.mark.parametrize(("method", "function"), VISIBLE)
def test_a_method_that_visibly_promises_its_result_is_refused(
    method: str, function: Callable[..., Any]
) -> None:
    expected = f"^storage must be an instance with a method {method} that returns its"
    with pytest.raises(ValueError, match=expected):
        make_service(with_method(method, function))


@pytest.mark.parametrize(("method", "function"), HIDDEN)
def test_a_promised_result_is_a_500_without_records(
    method: str, function: Callable[..., Any]
) -> None:
    storage = with_method(method, function)
    with warnings.catch_warnings(record=True) as left_behind:
        warnings.simplefilter("always")
        response = respond(storage)
        gc.collect(1)  # young objects only, because a full collection is slow
    assert status_and_code(response) == STORAGE_ERROR
    assert left_behind == []
