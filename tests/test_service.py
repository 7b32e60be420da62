"""The core: the calls of a storage, what they may return or raise, when they are
released, and the log.
"""

import contextlib
import gc
import logging
import math
import re
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from inspect import stack
from itertools import product
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

ServiceCall = Callable[["NotificationService[Any]"], PlainResponse]


def call_current_user(service: "NotificationService[Any]") -> PlainResponse:
    return service.current_user(CREDENTIAL, {})


def call_account(service: "NotificationService[Any]") -> PlainResponse:
    return service.account(CREDENTIAL, b"acc0", {})


both_operations = pytest.mark.parametrize("call", [call_current_user, call_account])


def make_service(
    storage: Any, threshold: int = 1_000_000, **changed: Any
) -> "NotificationService[Any]":
    arguments: dict[str, Any] = {
        "schema": None,
        "encode": orjson.dumps,
        "spool_threshold": threshold,
    }
    problems = Problems(statuses=Statuses(), realm="r")
    return NotificationService(
        storage, writer=ArrayWriter(**arguments | changed), problems=problems
    )


def status_and_code(response: PlainResponse) -> tuple[str, str | None]:
    """Return a response's status line and the code in its body, and check that it has
    no secret.
    """
    assert isinstance(response.body, bytes)
    assert SECRET not in f"{response.headers}{response.body!r}"
    assert SESSION_ID not in f"{response.headers}{response.body!r}"
    body = orjson.loads(response.body)
    return response.status, body["code"] if isinstance(body, dict) else None


def with_method(name: str, function: Any) -> Any:
    return type("Storage", (OneUnit,), {name: staticmethod(function)})(
        lambda: [{"n": 1}]
    )


FAILURES = [
    pytest.param(
        AccessDenied(SECRET), ("403 Forbidden", "access_denied"), id="access denied"
    ),
    pytest.param(
        AccountNotFound(SECRET),
        ("404 Not Found", "account_not_found"),
        id="account not found",
    ),
    pytest.param(
        StorageUnavailable(SECRET),
        ("503 Service Unavailable", "storage_unavailable"),
        id="unavailable",
    ),
    pytest.param(
        StorageError(SECRET),
        ("500 Internal Server Error", "storage_error"),
        id="storage error",
    ),
    pytest.param(
        OSError(28, SECRET),
        ("500 Internal Server Error", "storage_error"),
        id="full disk of the storage",
    ),
    pytest.param(
        StopIteration(SECRET),
        ("500 Internal Server Error", "storage_error"),
        id="StopIteration",
    ),
    pytest.param(
        ExceptionGroup(SECRET, [AccessDenied()]),
        ("500 Internal Server Error", "storage_error"),
        id="group",
    ),
]


@pytest.mark.parametrize("caller", [0, "", False, (), b"", 0.0, {}], ids=repr)
@both_operations
def test_only_none_is_an_unknown_session(call: ServiceCall, caller: object) -> None:
    storage = OneSession(caller=caller)
    assert status_and_code(call(make_service(storage))) == ("200 OK", None)
    assert storage.calls[1][1] is caller


@pytest.mark.parametrize(("failure", "expected"), FAILURES)
@both_operations
def test_an_exception_anywhere_gets_its_response_and_leaves_no_file(
    call: ServiceCall,
    failure: Exception,
    expected: tuple[str, str],
    spooled: list[BinaryIO],
    caplog: Any,
) -> None:
    class Failing(OneSession):
        def resolve_session(self, session_id: str) -> Any:
            raise failure from KeyError(session_id)

    units = (
        OneUnit(raising(failure)),
        OneUnit(rows(failure, 300)),
        OneUnit(rows(), opening=failure),
    )
    generating = (OneSession(rows(failure, count)) for count in (0, 1, 128, 300))
    for storage in (
        OneSession(raising(failure)),
        Failing(),
        *generating,
        *units,
        OneUnit(rows(), closing=failure),
    ):
        assert status_and_code(call(make_service(storage, threshold=1))) == expected
    for unit in units:
        assert unit.calls.count(("enter",)) == 1
        assert unit.calls[-1] in {
            ("exit", type(failure)),
            ("exit", RuntimeError),
            ("enter",),
        }
    assert [file.closed for file in spooled] == [True] * 4
    assert (caplog.records == []) == isinstance(failure, AccessDenied | AccountNotFound)


def test_an_account_that_is_not_found_is_not_tried_again_although_its_exception_is_an_outage_too() -> (
    None
):
    both = type("Both", (StorageUnavailable, AccountNotFound), {})
    response = call_account(make_service(OneSession(raising(both()))))
    assert status_and_code(response) == ("404 Not Found", "account_not_found")
    assert "Retry-After" not in dict(response.headers)


@pytest.mark.parametrize(
    ("seconds", "header"),
    [
        *((None, "30"), (0, "0"), (0.2, "1"), (1, "1"), (2.5, "3"), (1e-9, "1")),
        (31_536_000, "31536000"),
    ],
    ids=repr,
)
@both_operations
def test_retry_after_is_in_whole_seconds_rounded_up(
    call: ServiceCall, seconds: Any, header: str
) -> None:
    for records in (
        raising(StorageUnavailable(retry_after=seconds)),
        rows(StorageUnavailable(retry_after=seconds)),
    ):
        response = call(make_service(OneSession(records)))
        assert [value for name, value in response.headers if name == "Retry-After"] == [
            header
        ]


@pytest.mark.parametrize(
    "failure",
    [None, AccessDenied(), StorageUnavailable(), ValueError(), OSError()],
    ids=repr,
)
@pytest.mark.parametrize("count", [0, 1, 128, 300])
@pytest.mark.parametrize("threshold", [1_000_000, 10])
@both_operations
def test_records_are_closed_once_before_a_response(
    call: ServiceCall, failure: Any, count: int, threshold: int
) -> None:
    source = Source(({"n": number} for number in range(count)), failure=failure)
    response = call(make_service(OneSession(lambda: source), threshold))
    assert source.closed == 1
    assert response.status.startswith("200") is (failure is None)
    response.close()


@pytest.mark.parametrize(
    "failure",
    [ValueError(SECRET), StorageUnavailable(SECRET), OSError(SECRET)],
    ids=repr,
)
@pytest.mark.parametrize("threshold", [1_000_000, 10])
def test_a_failing_close_leaves_the_array_whole(
    failure: Any, threshold: int, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source([{"n": 1}, {"n": 2}], closing=failure)
    response = call_current_user(make_service(OneSession(lambda: source), threshold))
    assert response.status == "200 OK"
    assert (
        response.body if isinstance(response.body, bytes) else response.body.read()
    ) == b'[{"n":1},{"n":2}]'
    assert source.closed == 1
    assert len(caplog.records) == 1
    assert SECRET not in caplog.text
    response.close()


class Fatal(BaseException):
    """An exception that ends a worker, such as gevent's Timeout and GreenletExit."""


@pytest.mark.parametrize(
    "fatal", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), Fatal()], ids=repr
)
@pytest.mark.parametrize("count", [0, 1, 300])
def test_an_exception_that_ends_the_process_is_not_swallowed(
    fatal: Any, count: int, spooled: list[BinaryIO]
) -> None:
    source = Source(({"n": number} for number in range(count)), failure=fatal)
    with pytest.raises(type(fatal)):
        call_current_user(make_service(OneSession(lambda: source), threshold=10))
    assert source.closed == 1
    assert all(file.closed for file in spooled)
    with pytest.raises(type(fatal)):
        call_current_user(make_service(OneSession(raising(fatal))))


def test_an_exception_in_close_that_ends_the_process_leaves_no_file(
    spooled: list[BinaryIO],
) -> None:
    source = Source([{"n": 1}], closing=SystemExit(3))
    with pytest.raises(SystemExit):
        call_current_user(make_service(OneSession(lambda: source), threshold=0))
    assert [file.closed for file in spooled] == [True]


async def coroutine(*_arguments: object) -> Any:
    return "alice"


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        pytest.param("storage", OneSession, id="a storage class"),
        pytest.param(
            "storage",
            MagicMock(spec=["resolve_session"]),
            id="a storage without its methods",
        ),
        pytest.param(
            "storage",
            with_method("unit_of_work", "SERIALIZABLE"),
            id="a unit of work that is no method",
        ),
        pytest.param("schema", fields.Integer, id="the class of a field"),
        pytest.param("spool_threshold", -1, id="negative threshold"),
    ],
)
def test_an_invalid_argument_is_refused_by_name(argument: str, value: object) -> None:
    arguments: dict[str, Any] = {"storage": OneSession(), argument: value}
    with pytest.raises(ValueError, match=rf"^{argument}\b"):
        make_service(**arguments)


@pytest.mark.parametrize(
    "seconds",
    [
        *(-1, -0.001, 31_536_000.5, math.inf, -math.inf, math.nan),
        *("60", timedelta(seconds=5)),
    ],
    ids=repr,
)
def test_an_invalid_retry_after_is_refused(seconds: Any) -> None:
    with pytest.raises(ValueError, match=r"^retry_after\b"):
        StorageUnavailable(retry_after=seconds)


@pytest.mark.parametrize("count", [0, 1, 200])
def test_a_wrong_record_is_logged_with_its_index(
    count: int, caplog: pytest.LogCaptureFixture
) -> None:
    records: list[Any] = [{"n": number} for number in range(count)]
    call_current_user(
        make_service(OneSession(lambda: [*records, {"a": {SECRET}}, None]))
    )
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("flask_notifications", logging.ERROR)
    message = record.getMessage()
    assert f"at record {count}: record {count} of type dict cannot" in message


FRAME = r"\S+\.py:\d+ in [\w<>]+"
EXCEPTION = rf"([\w.]+) \((?:{FRAME}(?:, {FRAME})*)?\)"


class EmptyGroup(Exception):
    """A collection of errors that is empty, and so false."""

    __module__ = "builtins"

    def __len__(self) -> int:
        return 0


CIRCLE = KeyError()
CIRCLE.__cause__ = CIRCLE


@pytest.mark.parametrize(
    ("chained", "kinds"),
    [
        pytest.param(
            {"__cause__": KeyError()}, ["ValueError", "KeyError"], id="from another"
        ),
        pytest.param(
            {"__context__": KeyError()},
            ["ValueError", "KeyError"],
            id="while another is handled",
        ),
        pytest.param(
            {"__context__": KeyError(), "__suppress_context__": True},
            ["ValueError"],
            id="from None",
        ),
        pytest.param(
            {"__context__": KeyError(), "__cause__": OSError()},
            ["ValueError", "OSError"],
            id="from a third",
        ),
        pytest.param(
            {"__cause__": EmptyGroup()},
            ["ValueError", "EmptyGroup"],
            id="from a false one",
        ),
        pytest.param(
            {"__cause__": CIRCLE},
            ["ValueError", "KeyError"],
            id="from one that is its own cause",
        ),
    ],
)
def test_the_log_has_the_exceptions_of_a_traceback(
    chained: dict[str, Any], kinds: list[str]
) -> None:
    failure = ValueError()
    for name, value in chained.items():
        setattr(failure, name, value)
    logged = describe_exception(failure).split("; caused by ")
    assert [re.sub(EXCEPTION, r"\1", part) for part in logged] == [
        f"builtins.{kind}" for kind in kinds
    ]


def make_leaking_exception(session_id: str) -> Exception:
    """Return the exception of a careless driver, with strings of the request in it and
    in its cause.
    """
    cause = raise_and_catch(
        KeyError(
            f"SELECT {SECRET} {session_id} /API/Notification/?sessionId={session_id}"
        )
    )
    failure = raise_and_catch(ValueError(session_id, SECRET))
    failure.__cause__ = cause
    return failure


@pytest.mark.parametrize(
    "place", ["call", "iteration", "record", "close", "unavailable"]
)
def test_the_log_has_the_types_and_places_of_exceptions_and_neither_it_nor_a_local_variable_their_strings(
    place: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = make_leaking_exception(SESSION_ID)
    unavailable = StorageUnavailable(SESSION_ID, SECRET)
    unavailable.__cause__ = failure
    record = type(
        "Record", (dict,), {"__getattr__": raising(failure), "items": raising(failure)}
    )
    responses: dict[str, Callable[[], Any]] = {
        "call": raising(failure),
        "iteration": rows(failure),
        "record": lambda: [{SECRET: record(), "a": object()}],
        "close": lambda: Source(closing=failure),
        "unavailable": raising(unavailable),
    }
    variables: list[str] = []

    def keep_variables(_record: logging.LogRecord) -> bool:  # as monitoring tools may
        # Only of the library, because the exception is a local variable of the storage
        # in any case.
        variables.extend(
            repr(each.frame.f_locals)
            for each in stack()
            if "/flask_notifications/" in each.filename
        )
        return True

    monkeypatch.setattr(caplog.handler, "filter", keep_variables)
    with caplog.at_level(logging.DEBUG):
        call_current_user(make_service(OneSession(responses[place])))
    assert variables
    assert not [each for each in variables if SESSION_ID in each or SECRET in each]
    assert place == "record" or "builtins.KeyError" in caplog.text
    assert place == "record" or f"{storages.__file__}:" in caplog.text
    for string in (SESSION_ID, SECRET, "SELECT", "/API/Notification"):
        assert string not in caplog.text
    assert not any(record.exc_info or record.stack_info for record in caplog.records)


@pytest.mark.parametrize("threshold", [1_000_000, 0])
@both_operations
def test_a_unit_of_work_includes_the_session_and_the_records(
    call: ServiceCall, threshold: int
) -> None:
    source = Source([{"n": 1}])
    storage = OneUnit(lambda: source)
    response = call(make_service(storage, threshold))
    assert response.status == "200 OK"
    assert [name for name, *_arguments in storage.calls][:2] == [
        "enter",
        "resolve_session",
    ]
    assert storage.calls[-1] == ("exit", None)
    assert source.closed == 1
    assert len(storage.calls) == 4
    response.close()


@pytest.mark.parametrize(
    "storage",
    [
        pytest.param(
            OneUnit(raising(AccessDenied()), swallows=True), id="swallows an exception"
        ),
        pytest.param(
            with_method("unit_of_work", contextlib.nullcontext), id="yields no storage"
        ),
    ],
)
def test_a_wrong_unit_of_work_is_a_storage_error(storage: Any) -> None:
    assert status_and_code(call_account(make_service(storage))) == (
        "500 Internal Server Error",
        "storage_error",
    )


def test_a_storage_that_invents_every_attribute_has_no_unit_of_work() -> None:
    storage = MagicMock(
        **{
            "resolve_session.return_value": 7,
            "current_user_notifications.return_value": [{"n": 1}],
        }
    )
    assert call_current_user(make_service(storage)).body == b'[{"n":1}]'
    storage.current_user_notifications.assert_called_once_with(7)
    storage.unit_of_work.assert_not_called()


def test_a_unit_of_work_yields_the_storage_to_use() -> None:
    bound = OneSession(lambda: [{"n": 1}])
    unbound = with_method("unit_of_work", lambda: contextlib.nullcontext(bound))
    for call in (call_current_user, call_account):
        assert call(make_service(unbound)).body == b'[{"n":1}]'
    assert unbound.calls == []
    assert len(bound.calls) == 4


async def asynchronous_generator(*_arguments: object) -> Any:
    yield "alice"


def generator(*_arguments: object) -> Iterator[Any]:
    yield "alice"


class AsynchronousCall:
    async def __call__(self, *_arguments: object) -> Any:
        return "alice"


def result_of_a_pool(*_arguments: object) -> Any:
    with ThreadPool(1) as pool:
        return pool.apply_async(lambda: "alice")


def hide(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that its kind cannot be recognised."""
    return lambda *_arguments: function()


NESTED = partial(partial(coroutine, 1), 2)
VISIBLE_PROMISES = [
    coroutine,
    NESTED,
    asynchronous_generator,
    partial(AsynchronousCall(), 1),
]
# Promises that cannot be recognised before the call.
AWAITABLE = type("Awaitable", (), {"__await__": iter})
HIDDEN_PROMISES = [
    hide(coroutine),
    hide(asynchronous_generator),
    hide(AWAITABLE),
    hide(Future),
    result_of_a_pool,
]
METHODS_WITHOUT_AN_ITERABLE = ["resolve_session", "unit_of_work"]
METHODS = [
    *METHODS_WITHOUT_AN_ITERABLE,
    "current_user_notifications",
    "account_notifications",
]


def pair(promises: list[Any], generators: list[Any]) -> list[Any]:
    """Return pairs of a method and a function; a generator is a valid iterable of
    records.
    """
    return [
        *product(METHODS, promises),
        *product(METHODS_WITHOUT_AN_ITERABLE, generators),
    ]


@pytest.mark.parametrize(
    ("method", "function"), pair(VISIBLE_PROMISES, [generator, partial(generator, 1)])
)
def test_a_method_that_visibly_promises_its_result_is_refused(
    method: str, function: Callable[..., Any]
) -> None:
    with pytest.raises(
        ValueError,
        match=rf"^storage must be an instance with a method {method} that returns its result",
    ):
        make_service(with_method(method, function))


@pytest.mark.parametrize(
    ("method", "function"), pair(HIDDEN_PROMISES, [hide(generator)])
)
def test_a_promised_result_is_a_500_without_records(
    method: str, function: Callable[..., Any]
) -> None:
    call = call_account if method == "account_notifications" else call_current_user
    with warnings.catch_warnings(record=True) as left_behind:
        warnings.simplefilter("always")
        response = call(make_service(with_method(method, function)))
        gc.collect(1)  # young objects only, because a full collection is slow
    assert status_and_code(response) == ("500 Internal Server Error", "storage_error")
    assert left_behind == []
