"""Your own SELECTs as a storage, on SQLite and on PostgreSQL."""

import gc
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from operator import methodcaller
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Any

import pytest
from sqlalchemy import (
    Engine,
    Row,
    Text,
    TypeDecorator,
    column,
    create_engine,
    event,
    select,
)
from sqlalchemy.exc import OperationalError as SQLOperationalError
from sqlalchemy.exc import ProgrammingError, ResourceClosedError, SQLAlchemyError

from flask_notifications import AccessDenied, NotificationApp, StorageUnavailable
from flask_notifications.sql import SQLAlchemyStorage, rows
from flask_notifications.sql import storage as sql_storage
from tests.drivers.drivers import (
    POSTGRESQL,
    SQLITE,
    create_tables,
    read,
    select_documents,
    storage_on,
)
from tests.storages import ACCOUNT, CURRENT_USER
from tests.usage.databases import empty_database
from tests.wsgi import Response, call

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with empty_database(request.param, tmp_path) as url:
        engine = create_engine(url, pool_size=1, max_overflow=0, pool_timeout=0.05)
        create_tables(engine)
        yield engine
        engine.dispose()


def many_documents(engine: Engine) -> Any:
    return select_documents(
        {"sqlite": SQLITE, "postgresql": POSTGRESQL}[engine.dialect.name], 2_500
    )


@pytest.mark.parametrize(
    ("method", "path", "session_id", "code"),
    [
        ("GET", CURRENT_USER, "a1%27--", 401),
        ("POST", ACCOUNT.format("alice' OR '1'='1"), "a1", 403),
        ("POST", ACCOUNT.format("b'; DROP TABLE alerts; --"), "c3", 404),
    ],
)
def test_values_are_bound_and_never_part_of_a_statement(
    engine: Engine, method: str, path: str, session_id: str, code: int
) -> None:
    app = NotificationApp(storage_on(engine))
    assert call(app, method, path, f"sessionId={session_id}").code == code
    assert call(app, "GET", "/API/Notification/", "sessionId=a1").code == 200


def test_an_account_id_in_the_callers_row_never_replaces_that_of_the_request(
    engine: Engine,
) -> None:
    query = "SELECT login, is_admin, 'alice' AS account_id FROM users WHERE session = :session_id"
    storage = storage_on(engine, session_query=query)
    assert list(read(storage, "c3", "bob")) == [b'{"n":3}']


def test_without_a_rule_no_caller_may_see_any_account(engine: Engine) -> None:
    storage = storage_on(engine, may_see_account=None, account_exists_query=None)
    with pytest.raises(AccessDenied):
        list(read(storage, "a1", "alice"))


@pytest.mark.parametrize(
    ("method", "path", "session", "code"),
    [
        ("GET", CURRENT_USER, "a1", 200),
        ("GET", CURRENT_USER, "nobody", 401),
        ("POST", ACCOUNT.format("bob"), "c3", 200),
        ("POST", ACCOUNT.format("bob"), "a1", 403),
        ("POST", ACCOUNT.format("nobody"), "c3", 404),
    ],
)
def test_a_request_uses_one_connection(
    engine: Engine, method: str, path: str, session: str, code: int
) -> None:
    checkouts: list[object] = []
    event.listen(engine, "checkout", lambda *connection: checkouts.append(connection))
    app = NotificationApp(storage_on(engine))
    assert call(app, method, path, f"sessionId={session}").code == code
    assert len(checkouts) == 1
    with engine.connect():  # the only connection is free again
        pass


def test_a_unit_of_work_applies_to_the_storage_that_it_yields_only(
    engine: Engine,
) -> None:
    storage = storage_on(engine)
    with storage.unit_of_work() as bound:
        assert bound.resolve_session("a1") is not None
        # It needs another connection, and the pool has none.
        with pytest.raises(StorageUnavailable):
            storage.resolve_session("a1")
    with pytest.raises(ResourceClosedError):
        bound.resolve_session("a1")
    assert storage.resolve_session("a1") is not None


@pytest.mark.parametrize(
    "use", [list, methodcaller("close")], ids=["read on", "closed"]
)
def test_records_of_a_nested_unit_of_work_that_has_ended_do_not_block(
    engine: Engine, use: Any
) -> None:
    two_connections = create_engine(engine.url, pool_size=2, max_overflow=0)
    storage = storage_on(two_connections, many_documents(engine))
    with storage.unit_of_work() as outer:
        with storage.unit_of_work() as inner:
            records = read(inner, "a1")
            assert next(records).startswith(b'{"n":1,')

        def use_records() -> None:
            with suppress(SQLAlchemyError):
                use(records)

        thread = Thread(target=use_records, daemon=True)
        thread.start()
        thread.join(timeout=10)
        assert not thread.is_alive()
        assert outer.resolve_session("a1") is not None
    with two_connections.connect(), two_connections.connect():
        pass
    two_connections.dispose()


class Interrupted(Exception):
    """An exception of a signal handler, such as that for the timeout of a worker."""


def interrupt_at(number: int) -> None:
    """Raise after a number of calls and returns in the storage, between which a signal
    handler may run.
    """
    remaining = count(number, -1)

    def profile(frame: FrameType, _event: str, _argument: object) -> None:
        is_ours = frame.f_code.co_filename in {sql_storage.__file__, rows.__file__}
        if is_ours and next(remaining) == 0:
            raise Interrupted

    sys.setprofile(profile)


def test_an_exception_of_a_signal_handler_at_any_moment_releases_the_connection(
    engine: Engine,
) -> None:
    app = NotificationApp(storage_on(engine))
    interrupted, expected = 0, call(app, "GET", CURRENT_USER, "sessionId=a1").body
    for number in count():
        interrupt_at(number)
        response = call(app, "GET", CURRENT_USER, "sessionId=a1")
        sys.setprofile(None)
        gc.collect(0)
        assert engine.pool.checkedout() == 0, f"after {number} calls and returns"  # type: ignore[attr-defined]
        if response.code == 200:
            break
        interrupted += 1
    assert interrupted > 40
    assert response.body == expected


def is_visible(record: bytes) -> bool:
    """Return whether to show a record; this fails for one of them."""
    if record.startswith(b'{"n":300,'):
        raise KeyError
    return True


class Filters(SQLAlchemyStorage):
    def current_user_notifications(self, caller: Row[Any]) -> Any:
        return filter(is_visible, super().current_user_notifications(caller))


class Generates(SQLAlchemyStorage):
    def current_user_notifications(self, caller: Row[Any]) -> Any:
        for record in super().current_user_notifications(caller):
            if is_visible(record):
                yield record


@pytest.mark.parametrize("kind", [Filters, Generates])
def test_rows_that_an_override_leaves_open_do_not_block_the_connection(
    engine: Engine, kind: type[SQLAlchemyStorage]
) -> None:
    engine = create_engine(engine.url, pool_size=2, max_overflow=0, pool_timeout=0.05)
    app = NotificationApp(storage_on(engine, many_documents(engine), kind=kind))
    responses = list[Response]()

    def send() -> None:
        responses.append(call(app, "GET", CURRENT_USER, "sessionId=a1"))

    thread = Thread(target=send, daemon=True)
    thread.start()
    thread.join(timeout=10)  # it must not wait forever
    (response,) = responses
    assert (response.code, response.json["code"]) == (500, "storage_error")
    gc.collect()
    with engine.connect(), engine.connect():
        pass
    engine.dispose()


@pytest.mark.parametrize("name", ["account_query", "account_exists_query"])
def test_a_query_that_fails_does_not_affect_the_next_one(
    engine: Engine, name: str
) -> None:
    query = "SELECT nothing FROM nowhere WHERE owner = :account_id"
    storage = storage_on(engine, **{name: query})
    with storage.unit_of_work() as bound:
        with pytest.raises((ProgrammingError, SQLOperationalError)):
            list(read(bound, "a1", "alice"))
        assert len(list(read(bound, "a1"))) == 2


def test_stop_iteration_in_the_type_of_a_column_is_an_error_and_not_the_end(
    engine: Engine,
) -> None:
    class Wanted(TypeDecorator[Any]):
        impl = Text
        cache_ok = True

        def process_result_value(self, value: Any, _dialect: object) -> Any:
            if value.startswith('{"n":300,'):
                raise StopIteration
            return value

    query = many_documents(engine).columns(document=Wanted)
    storage = storage_on(engine, current_user_query=query)
    response = call(NotificationApp(storage), "GET", CURRENT_USER, "sessionId=a1")
    assert (response.code, response.json["code"]) == (500, "storage_error")


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_documents_may_be_bytes_of_any_kind(engine: Engine, kind: Any) -> None:
    class Document(TypeDecorator[Any]):
        impl = Text
        cache_ok = True

        def process_result_value(self, value: Any, _dialect: object) -> Any:
            return kind(value.encode())

    query = many_documents(engine).columns(document=Document)
    (first, *_others) = read(storage_on(engine, query), "a1")
    assert first.startswith(b'{"n":1,')


async def promise_permission(_caller: object, _account_id: object) -> bool:
    return True


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("session_query", 3),
        ("account_query", "SELECT 1"),
        ("session_query", "SELECT 1"),
        ("may_see_account", "yes"),
        ("may_see_account", promise_permission),
    ],
)
def test_an_invalid_argument_is_refused_by_name(argument: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{argument} must"):
        storage_on(create_engine("sqlite://"), **{argument: value})


def test_a_statement_without_its_parameter_is_shown_as_sql() -> None:
    with pytest.raises(
        ValueError,
        match=r"^session_query must be a SELECT with .* :session_id, not 'SELECT",
    ):
        storage_on(create_engine("sqlite://"), session_query=select(column("login")))


@pytest.mark.parametrize(
    ("argument", "query"),
    [
        (
            "current_user_query",
            "SELECT id, owner AS id FROM alerts WHERE owner = :login",
        ),
        (
            "session_query",
            "SELECT login, session AS login FROM users WHERE session = :session_id",
        ),
    ],
)
def test_two_columns_with_the_same_name_are_refused(
    engine: Engine, argument: str, query: str
) -> None:
    storage = storage_on(engine, **{argument: query})
    with pytest.raises(ValueError, match="columns"):
        list(read(storage, "a1"))


@pytest.mark.parametrize(
    "returned",
    [
        lambda: promise_permission(None, None),
        Future,
        lambda: "no",
        lambda: column("is_admin") == 1,
    ],
    ids=["coroutine", "future", "string", "SQL"],
)
def test_only_a_truth_value_is_a_permission(
    engine: Engine, returned: Callable[[], Any]
) -> None:
    def may_see_account(_caller: object, _account_id: object) -> Any:
        return returned()

    app = NotificationApp(storage_on(engine, may_see_account=may_see_account))
    with warnings.catch_warnings(record=True) as left_behind:
        warnings.simplefilter("always")
        refused = call(app, "POST", ACCOUNT.format("bob"), "sessionId=a1")
        gc.collect(1)  # young objects only, because a full collection is slow
    assert (refused.code, refused.json["code"]) == (500, "storage_error")
    assert left_behind == []


def test_an_asynchronous_engine_is_refused() -> None:
    engine = create_engine("sqlite://")
    engine.dialect.is_async = True
    with pytest.raises(ValueError, match=r"^engine must be .* not asynchronous"):
        storage_on(engine)
