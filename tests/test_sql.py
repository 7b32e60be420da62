"""The host's own SELECTs as a storage, on SQLite and on PostgreSQL."""

import gc
import json
import socket
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import (
    Engine,
    Executable,
    Row,
    Text,
    TypeDecorator,
    bindparam,
    column,
    create_engine,
    event,
    select,
    table,
    text,
)
from sqlalchemy.exc import OperationalError as SQLOperationalError
from sqlalchemy.exc import ProgrammingError

from flask_notifications import AccessDenied, AccountNotFound, NotificationApp, NotificationStorage, StorageUnavailable
from flask_notifications.sql import SQLAlchemyStorage
from flask_notifications.testing import StorageContract
from tests.services import postgresql_schema
from tests.storages import ACCOUNT, CURRENT_USER
from tests.wsgi import Answer, call

TABLES = """
CREATE TABLE accounts (id TEXT PRIMARY KEY);
CREATE TABLE sessions (id TEXT PRIMARY KEY, user_id TEXT NOT NULL, is_admin BOOLEAN NOT NULL);
CREATE TABLE notifications (id INTEGER PRIMARY KEY, account TEXT NOT NULL, document TEXT NOT NULL);
INSERT INTO accounts VALUES ('alice'), ('bob'), ('carol');
INSERT INTO sessions VALUES ('a1', 'alice', false), ('b2', 'bob', false), ('c3', 'carol', true);
INSERT INTO notifications VALUES
    (1, 'alice', '{"name": "first",  "n": 1.50, "ü": null}'),
    (2, 'alice', '{"name":"second"}'),
    (3, 'bob', '{"name":"third"}')
"""
DOCUMENTS = "SELECT document FROM notifications WHERE account = {} ORDER BY id"


def may_see(caller: Row[Any], account_id: str) -> bool:
    return bool(caller.is_admin) or caller.user_id == account_id


def storage_on(engine: Engine, **changed: Any) -> SQLAlchemyStorage:
    arguments: dict[str, Any] = {
        "session_query": "SELECT user_id, is_admin FROM sessions WHERE id = :session_id",
        "current_user_query": DOCUMENTS.format(":user_id"),
        "account_query": DOCUMENTS.format(":account_id"),
        "account_exists_query": "SELECT 1 FROM accounts WHERE id = :account_id",
        "may_see_account": may_see,
    }
    return SQLAlchemyStorage(engine, **arguments | changed)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/test.sqlite3"
    else:
        with postgresql_schema() as schema:
            yield schema


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = create_engine(url, pool_size=1, max_overflow=0, pool_timeout=0.05)
    with engine.begin() as connection:
        for statement in TABLES.split(";"):
            connection.execute(text(statement.replace(":", r"\:")))
    yield engine
    engine.dispose()


class TestContract(StorageContract):
    """The contract that is shipped to hosts, on both databases, with a pool that lets two threads in."""

    session_id, other_session_id, administrator_session_id = "a1", "b2", "c3"
    account_id, other_account_id = "alice", "bob"

    @pytest.fixture(autouse=True)
    def _pool_for_two(self, engine: Engine) -> Iterator[None]:
        self.engine = create_engine(engine.url)
        yield
        self.engine.dispose()

    def make_storage(self) -> NotificationStorage[Any]:
        return storage_on(self.engine)

    def make_unreachable_storage(self) -> NotificationStorage[Any]:
        return storage_on(unreachable(self.engine))


def unreachable(engine: Engine) -> Engine:
    """Return an engine of the same kind whose database is not there."""
    if engine.dialect.name == "sqlite":
        return create_engine("sqlite:////nowhere/at/all.sqlite3")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return create_engine(engine.url.set(port=free.getsockname()[1]))


def test_documents_pass_as_the_bytes_that_are_stored(engine: Engine) -> None:
    answer = call(NotificationApp(storage_on(engine)), "GET", "/API/Notification/", "sessionId=a1")
    assert answer.body == '[{"name": "first",  "n": 1.50, "ü": null},{"name":"second"}]'.encode()


def test_rows_of_several_columns_become_objects_in_the_order_of_the_select(engine: Engine) -> None:
    storage = storage_on(engine, current_user_query="SELECT id, account AS owner FROM notifications WHERE id = 1")
    answer = call(NotificationApp(storage), "GET", "/API/Notification/", "sessionId=a1")
    assert answer.body == b'[{"id":1,"owner":"alice"}]'


def test_a_document_may_be_stored_as_bytes(engine: Engine) -> None:
    octets = "CAST(document AS BLOB)" if engine.dialect.name == "sqlite" else "convert_to(document, 'UTF8')"
    storage = storage_on(engine, current_user_query=DOCUMENTS.replace("document", octets, 1).format(":user_id"))
    answer = call(NotificationApp(storage), "GET", "/API/Notification/", "sessionId=a1")
    assert answer.body == '[{"name": "first",  "n": 1.50, "ü": null},{"name":"second"}]'.encode()


def test_the_account_query_knows_the_caller_too(engine: Engine) -> None:
    storage = storage_on(engine, account_query="SELECT :user_id AS caller, :account_id AS account")
    answer = call(NotificationApp(storage), "POST", "/API/Notification/GetNotificationsForAccount/bob/", "sessionId=c3")
    assert answer.json == [{"caller": "carol", "account": "bob"}]


def test_core_statements_serve_as_well_as_texts(engine: Engine) -> None:
    notifications = table("notifications", column("id"), column("account"), column("document"))
    documents = select(notifications.c.document).where(notifications.c.account == bindparam("account_id"))
    storage = storage_on(engine, account_query=documents.order_by(notifications.c.id))
    answer = call(NotificationApp(storage), "POST", "/API/Notification/GetNotificationsForAccount/bob/", "sessionId=c3")
    assert answer.json == [{"name": "third"}]


@pytest.mark.parametrize(
    ("query", "bind"),
    [
        ("sessionId=a1%27--", None),
        ("sessionId=a1", "alice' OR '1'='1"),
        ("sessionId=c3", "bob'; DROP TABLE accounts; --"),
    ],
    ids=["session", "denied account", "unknown account"],
)
def test_values_are_bound_and_never_part_of_a_statement(engine: Engine, query: str, bind: str | None) -> None:
    app = NotificationApp(storage_on(engine))
    path = "/API/Notification/" if bind is None else f"/API/Notification/GetNotificationsForAccount/{bind}/"
    assert call(app, "GET" if bind is None else "POST", path, query).code in {401, 403, 404}
    assert call(app, "GET", "/API/Notification/", "sessionId=a1").code == 200


def test_an_account_id_in_the_callers_row_never_replaces_the_one_asked_for(engine: Engine) -> None:
    storage = storage_on(
        engine, session_query="SELECT user_id, is_admin, 'alice' AS account_id FROM sessions WHERE id = :session_id"
    )
    caller = storage.resolve_session("c3")
    assert caller is not None
    assert list(storage.account_notifications(caller, "bob")) == [b'{"name":"third"}']


def test_without_a_rule_nobody_may_see_any_account(engine: Engine) -> None:
    storage = SQLAlchemyStorage(
        engine,
        session_query="SELECT user_id FROM sessions WHERE id = :session_id",
        current_user_query=DOCUMENTS.format(":user_id"),
        account_query=DOCUMENTS.format(":account_id"),
    )
    caller = storage.resolve_session("a1")
    assert caller is not None
    with pytest.raises(AccessDenied):
        list(storage.account_notifications(caller, "alice"))


def test_without_a_query_for_accounts_an_unknown_one_is_empty(engine: Engine) -> None:
    storage = storage_on(engine, account_exists_query=None)
    caller = storage.resolve_session("c3")
    assert caller is not None
    assert list(storage.account_notifications(caller, "nobody")) == []


def test_an_unknown_account_is_told_apart_from_an_empty_one(engine: Engine) -> None:
    storage = storage_on(engine)
    caller = storage.resolve_session("c3")
    assert caller is not None
    assert list(storage.account_notifications(caller, "carol")) == []
    with pytest.raises(AccountNotFound):
        list(storage.account_notifications(caller, "nobody"))


@pytest.mark.parametrize("count", [0, 1], ids=["unread", "half read"])
def test_a_reader_who_stops_gives_the_connection_back(engine: Engine, count: int) -> None:
    storage = storage_on(engine)
    caller = storage.resolve_session("a1")
    assert caller is not None
    records = storage.current_user_notifications(caller)
    for _ in range(count):
        next(records)
    records.close()
    assert storage.resolve_session("b2") is not None  # the pool has one connection only


def test_a_pool_without_a_free_connection_is_out_of_reach(engine: Engine) -> None:
    with engine.connect(), pytest.raises(StorageUnavailable):
        storage_on(engine).resolve_session("a1")


# A request takes one connection, and gives it back before anything is sent.


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
def test_a_request_takes_one_connection(engine: Engine, method: str, path: str, session: str, code: int) -> None:
    taken: list[object] = []
    event.listen(engine, "checkout", lambda *connection: taken.append(connection))
    assert call(NotificationApp(storage_on(engine)), method, path, f"sessionId={session}").code == code
    assert len(taken) == 1
    with engine.connect():  # the only one is there again
        pass


def test_a_request_is_one_transaction(engine: Engine) -> None:
    begun: list[object] = []
    event.listen(engine, "begin", begun.append)
    storage = storage_on(engine)
    assert call(NotificationApp(storage), "GET", CURRENT_USER, "sessionId=a1").code == 200
    assert len(begun) == 1


def test_a_unit_of_work_is_that_of_its_own_thread(engine: Engine) -> None:
    storage = storage_on(engine)
    with storage.unit_of_work(), ThreadPoolExecutor(1) as threads:
        assert storage.resolve_session("a1") is not None
        # Another thread waits for a connection of its own, and the pool has none.
        assert isinstance(threads.submit(storage.resolve_session, "a1").exception(), StorageUnavailable)
    assert storage.resolve_session("a1") is not None


def test_what_is_asked_while_rows_are_read_takes_another_connection(engine: Engine) -> None:
    both = create_engine(engine.url, pool_size=2, max_overflow=0, pool_timeout=0.05)
    taken: list[object] = []
    event.listen(both, "checkout", lambda *connection: taken.append(connection))
    storage = storage_on(both)
    with storage.unit_of_work():
        caller = storage.resolve_session("a1")
        assert caller is not None
        mine = storage.current_user_notifications(caller)
        first = next(mine)
        other = storage.resolve_session("b2")
        assert other is not None
        theirs = list(storage.current_user_notifications(other))
        assert [first, *mine] != theirs
        assert len(taken) == 3
        assert storage.resolve_session("a1") == caller
        assert len(taken) == 3  # that of the unit is free again
    both.dispose()


def test_a_storage_that_overrides_a_method_is_asked_in_a_unit_of_work_too(engine: Engine) -> None:
    class Own(SQLAlchemyStorage):
        def resolve_session(self, session_id: str) -> Row[Any] | None:
            return super().resolve_session(session_id.removeprefix("own-"))

    storage = Own(
        engine,
        session_query="SELECT user_id FROM sessions WHERE id = :session_id",
        current_user_query=DOCUMENTS.format(":user_id"),
        account_query=DOCUMENTS.format(":account_id"),
    )
    assert len(call(NotificationApp(storage), "GET", CURRENT_USER, "sessionId=own-a1").json) == 2


# What a host's own methods may do in a unit of work.

NUMBERED = {
    "sqlite": """WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 600)
        SELECT '{"n": ' || n || '}' AS document FROM number WHERE :user_id = 'alice'""",
    "postgresql": """SELECT '{"n": ' || n || '}' AS document FROM generate_series(1, 600) n
        WHERE CAST(:user_id AS TEXT) = 'alice'""",
}


class Host(SQLAlchemyStorage):
    """Six hundred records for alice, without those that a host does not show."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(
            engine,
            session_query="SELECT user_id FROM sessions WHERE id = :session_id",
            current_user_query=NUMBERED[engine.dialect.name],
            account_query=DOCUMENTS.format(":account_id"),
        )

    @staticmethod
    def visible(record: bytes) -> bool:
        if record == b'{"n": 300}':
            raise KeyError
        return True


class Filters(Host):
    def current_user_notifications(self, caller: Row[Any]) -> Any:
        return filter(self.visible, super().current_user_notifications(caller))


class Generates(Host):
    def current_user_notifications(self, caller: Row[Any]) -> Any:
        return (record for record in super().current_user_notifications(caller) if self.visible(record))


class Keeps(Host):
    def current_user_notifications(self, caller: Row[Any]) -> Any:
        records = super().current_user_notifications(caller)
        for record in records:
            if self.visible(record):
                yield record


class KeepsTwo(Host):
    def current_user_notifications(self, caller: Row[Any]) -> Any:
        mine, others = super().current_user_notifications(caller), super().current_user_notifications(caller)
        yield next(mine)
        yield next(others)
        raise KeyError(mine, others)


@pytest.mark.parametrize("kind", [Filters, Generates, Keeps, KeepsTwo])
def test_rows_that_an_override_leaves_open_do_not_keep_the_connection(engine: Engine, kind: type[Host]) -> None:
    engine = create_engine(engine.url, pool_size=2, max_overflow=0, pool_timeout=0.05)
    app, answers = NotificationApp(kind(engine)), list[Answer]()
    thread = Thread(target=lambda: answers.append(call(app, "GET", CURRENT_USER, "sessionId=a1")), daemon=True)
    thread.start()
    thread.join(timeout=10)  # or it would wait for ever
    assert [(answer.code, answer.json["code"]) for answer in answers] == [(500, "storage_error")]
    gc.collect()
    with engine.connect(), engine.connect():
        pass
    engine.dispose()


def test_rows_that_are_closed_after_their_unit_harm_nothing(engine: Engine) -> None:
    storage = Host(engine)
    with storage.unit_of_work():
        caller = storage.resolve_session("a1")
        assert caller is not None
        records = storage.current_user_notifications(caller)
        assert next(records) == b'{"n": 1}'
    records.close()
    assert storage.resolve_session("a1") == caller


class TriesAgain(Host):
    """Ask another way when the first one fails."""

    failing: str | Executable = "SELECT nothing FROM nowhere"

    def resolve_session(self, session_id: str) -> Row[Any] | None:
        right, self._session_query = self._session_query, text(str(self.failing))
        with pytest.raises((ProgrammingError, SQLOperationalError)):
            super().resolve_session(session_id)
        self._session_query = right
        return super().resolve_session(session_id)


class Peeks(Host):
    """Look at the first record before all are read."""

    def current_user_notifications(self, caller: Row[Any]) -> Any:
        first = super().current_user_notifications(caller)
        assert next(first) == b'{"n": 1}'
        first.close()
        return super().current_user_notifications(caller)


@pytest.mark.parametrize("kind", [TriesAgain, Peeks])
def test_a_call_that_fails_or_stops_harms_no_later_call_of_its_unit(engine: Engine, kind: type[Host]) -> None:
    answer = call(NotificationApp(kind(engine)), "GET", CURRENT_USER, "sessionId=a1")
    assert [record["n"] for record in answer.json] == list(range(1, 601))


def test_a_unit_of_work_is_not_for_a_copy_of_its_context(engine: Engine) -> None:
    storage = storage_on(engine)
    with storage.unit_of_work():
        assert storage.resolve_session("a1") is not None
        context = copy_context()
        with ThreadPoolExecutor(1) as threads:
            elsewhere = threads.submit(context.run, storage.resolve_session, "a1")
            assert isinstance(elsewhere.exception(), StorageUnavailable)  # it waits for a connection of its own
    assert context.run(storage.resolve_session, "a1") is not None


def test_what_looks_like_an_end_in_a_columns_type_is_none(engine: Engine) -> None:
    class Wanted(TypeDecorator[Any]):
        impl = Text
        cache_ok = True

        def process_result_value(self, value: Any, _dialect: object) -> Any:
            return next(each for each in (value,) if each != '{"n": 300}')

    storage = storage_on(engine, current_user_query=text(NUMBERED[engine.dialect.name]).columns(document=Wanted))
    answer = call(NotificationApp(storage), "GET", CURRENT_USER, "sessionId=a1")
    assert (answer.code, answer.json["code"]) == (500, "storage_error")


def test_a_mistake_in_a_statement_is_not_taken_for_an_outage(engine: Engine) -> None:
    storage = storage_on(engine, current_user_query="SELECT nothing FROM nowhere")
    caller = storage.resolve_session("a1")
    assert caller is not None
    with pytest.raises((ProgrammingError, SQLOperationalError)):
        list(storage.current_user_notifications(caller))
    answer = call(NotificationApp(storage), "GET", "/API/Notification/", "sessionId=a1")
    assert (answer.code, answer.json["code"]) == (500, "storage_error")


def test_a_database_that_is_down_is_answered_503(engine: Engine) -> None:
    answer = call(NotificationApp(storage_on(unreachable(engine))), "GET", "/API/Notification/", "sessionId=a1")
    assert (answer.code, answer.json["code"], answer.one("Retry-After")) == (503, "storage_unavailable", "30")


def test_nothing_is_created_in_the_database(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/empty.sqlite3")
    storage_on(engine)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM sqlite_master")).scalar() == 0
    engine.dispose()


def test_memory_does_not_grow_with_the_result(engine: Engine) -> None:
    """Ten thousand documents of a kilobyte each: ten megabytes, of which a fraction is ever in memory."""
    series = (
        "generate_series(10, 10009) AS s(n)"
        if engine.dialect.name == "postgresql"
        else "(WITH RECURSIVE s(n) AS (SELECT 10 UNION ALL SELECT n + 1 FROM s WHERE n < 10009) SELECT n FROM s)"
    )
    document = json.dumps({"text": "x" * 1000})
    with engine.begin() as connection:
        insert = f"INSERT INTO notifications SELECT n, 'carol', :document FROM {series}"  # noqa: S608 - one of two texts above
        connection.execute(text(insert), {"document": document})
    storage = storage_on(engine)
    caller = storage.resolve_session("c3")
    assert caller is not None
    tracemalloc.start()
    assert sum(1 for _ in storage.current_user_notifications(caller)) == 10_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3_000_000


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        pytest.param({"session_query": 3}, "session_query", id="not a statement"),
        pytest.param({"account_query": "SELECT 1"}, "account_query", id="no account_id"),
        pytest.param({"session_query": "SELECT 1"}, "session_query", id="no session_id"),
        pytest.param({"account_exists_query": "SELECT 1"}, "account_exists_query", id="exists without account_id"),
        pytest.param({"current_user_query": column("x")}, "current_user_query", id="an expression"),
        pytest.param({"may_see_account": "yes"}, "may_see_account", id="no function"),
    ],
)
def test_arguments_that_do_not_fit_are_named(arguments: dict[str, Any], named: str) -> None:
    engine = create_engine("sqlite://")
    with pytest.raises(ValueError, match=named):
        storage_on(engine, **arguments)


def test_columns_of_one_name_are_refused_and_not_lost(engine: Engine) -> None:
    storage = storage_on(
        engine, current_user_query="SELECT id, account AS id FROM notifications WHERE account = :user_id"
    )
    caller = storage.resolve_session("a1")
    assert caller is not None
    with pytest.raises(ValueError, match="columns"):
        list(storage.current_user_notifications(caller))


def test_an_engine_is_wanted_and_not_its_url() -> None:
    with pytest.raises(ValueError, match="engine"):
        storage_on("sqlite://")  # type: ignore[arg-type]


def postgresql_faults() -> list[Any]:
    return [
        pytest.param("SELECT pg_terminate_backend(pg_backend_pid())", id="terminated backend"),
        pytest.param("SELECT pg_sleep(5)", id="statement timeout"),
    ]


@pytest.mark.parametrize("statement", postgresql_faults())
def test_a_connection_that_breaks_is_out_of_reach_and_the_next_request_works(statement: str) -> None:
    with postgresql_schema() as url:
        engine = create_engine(url.replace("options=", "options=-cstatement_timeout%3D100%20"))
        with engine.begin() as connection:
            for each in TABLES.split(";"):
                connection.execute(text(each.replace(":", r"\:")))
        storage = storage_on(engine, current_user_query=statement)
        caller = storage.resolve_session("a1")
        assert caller is not None
        with pytest.raises(StorageUnavailable):
            list(storage.current_user_notifications(caller))
        assert storage.resolve_session("a1") is not None
        engine.dispose()
