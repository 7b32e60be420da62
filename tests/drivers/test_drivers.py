"""With every driver, clients get the whole array or a clean error, whatever happens to
the database.
"""

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    NullPool,
    create_engine,
    event,
    make_url,
    text,
)

from flask_notifications import NotificationApp, NotificationStorage, StorageUnavailable
from flask_notifications.testing import StorageContract
from tests.drivers.drivers import (
    DRIVERS,
    Driver,
    create_tables,
    read,
    select_documents,
    storage_on,
)
from tests.servers.process import eventually, free_port, peak_memory
from tests.services import MARIADB, POSTGRESQL, new_database, service_or_skip
from tests.storages import CURRENT_USER
from tests.wsgi import Response, call

# PyMySQL and pg8000 leave lost connections to the garbage collector, which warns about
# them.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)

MIB = 1024 * 1024
ROWS = 100_000


class Database(NamedTuple):
    driver: Driver
    url: URL


@pytest.fixture(scope="module", params=DRIVERS)
def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    driver = DRIVERS[request.param]
    service_or_skip(
        request.param, find_spec(driver.module.partition(".")[0]) is not None
    )
    sqlite = nullcontext(
        make_url(f"sqlite:///{tmp_path_factory.mktemp('sqlite')}/database.sqlite3")
    )
    server = {"postgresql": POSTGRESQL, "mysql": MARIADB}.get(driver.dialect.name)
    with sqlite if server is None else new_database(server) as created:
        url = created.set(drivername=driver.url)
        engine = create_engine(url)
        create_tables(engine)
        engine.dispose()
        yield Database(driver, url)
        gc.collect()


@pytest.fixture
def engine(database: Database) -> Iterator[Engine]:
    engine = create_engine(database.url, pool_size=1, max_overflow=0, pool_timeout=0.05)
    yield engine
    engine.dispose()


def ask(storage: Any) -> Response:
    return call(NotificationApp(storage), "GET", CURRENT_USER, "sessionId=a1")


def assert_whole(response: Response, count: int) -> None:
    assert response.code == 200
    assert [record["n"] for record in response.json] == list(range(1, count + 1))


class TestContract(StorageContract):
    session_id, other_session_id, administrator_session_id = "a1", "b2", "c3"
    account_id, other_account_id = "alice", "bob"

    @pytest.fixture(autouse=True)
    def _pool_for_two(self, database: Database) -> Iterator[None]:
        self.engine = create_engine(database.url)
        yield
        self.engine.dispose()

    def make_storage(self) -> NotificationStorage[Any]:
        return storage_on(self.engine)

    def make_unreachable_storage(self) -> NotificationStorage[Any]:
        return storage_on(unreachable(self.engine))


def unreachable(engine: Engine) -> Engine:
    if engine.dialect.name == "sqlite":
        return create_engine("sqlite:////nowhere/at/all.sqlite3")
    return create_engine(engine.url.set(port=free_port()))


def test_stored_documents_are_sent_byte_for_byte(engine: Engine) -> None:
    body = '[{"name": "first",  "n": 1.50, "ü": null},{"name":"second"}]'
    assert ask(storage_on(engine)).body == body.encode()


# Options of an application that asks SQLAlchemy for streaming, or does not.
every_option = pytest.mark.parametrize(
    "option", [{}, {"stream_results": True}, {"yield_per": 7}], ids=str
)


@every_option
@pytest.mark.parametrize("count", [1, 1_000, 2_001])
def test_all_rows_are_returned_in_order(
    database: Database, engine: Engine, count: int, option: dict[str, Any]
) -> None:
    statement = select_documents(database.driver.dialect, count)
    assert_whole(ask(storage_on(engine.execution_options(**option), statement)), count)
    assert_whole(ask(storage_on(engine, statement.execution_options(**option))), count)


@every_option
def test_a_row_that_cannot_be_computed_is_a_500(
    database: Database, engine: Engine, option: dict[str, Any]
) -> None:
    statement = text(failing_in(database)).execution_options(**option)
    response = ask(storage_on(engine, statement))
    assert (response.code, response.json["code"]) == (500, "storage_error")


def failing_in(database: Database) -> str:
    """Return a statement that fails at one of its rows."""
    dialect = database.driver.dialect
    return (
        f"SELECT n, {dialect.failure} AS failure FROM {dialect.numbers.format(4_000)}"  # noqa: S608 - constants
    )


@pytest.mark.parametrize(
    "database", [name for name, driver in DRIVERS.items() if driver.flat], indirect=True
)
def test_memory_stays_flat_over_many_rows_if_the_driver_streams(
    database: Database, engine: Engine
) -> None:
    storage = storage_on(engine, select_documents(database.driver.dialect, ROWS))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
    before = peak_memory(Path("/proc/self"))
    last, count = b"", 0
    for record in read(storage, "a1"):
        last, count = record, count + 1
    assert (count, last[:13]) == (ROWS, b'{"n":100000,"')
    assert peak_memory(Path("/proc/self")) - before < 8 * MIB


def is_unavailable(response: Response) -> bool:
    return (response.code, response.json["code"]) == (503, "storage_unavailable")


SERVERS = [name for name, driver in DRIVERS.items() if driver.dialect.endless]
on_servers = pytest.mark.parametrize("database", SERVERS, indirect=True)


@on_servers
def test_a_statement_that_exceeds_its_time_limit_is_a_503(
    database: Database, engine: Engine
) -> None:
    def limit(connection: Any, _record: object) -> None:
        connection.cursor().execute(database.driver.dialect.limit)
        connection.commit()

    event.listen(engine, "connect", limit)
    discarded = list[object]()
    event.listen(engine, "invalidate", lambda *connection: discarded.append(connection))
    assert is_unavailable(ask(storage_on(engine, database.driver.dialect.endless)))
    assert len(discarded) == 1
    assert ask(storage_on(engine)).code == 200


@contextmanager
def administrator(database: Database) -> Iterator[Callable[[str], list[Any]]]:
    """Yield a function that executes a statement on a new connection, and returns the
    first column.
    """
    names = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
    url = database.url.set(drivername=names[database.driver.dialect.name])
    admin = create_engine(url, isolation_level="AUTOCOMMIT")

    def execute(statement: str) -> list[Any]:
        with admin.connect() as connection:
            result = connection.exec_driver_sql(statement)
            return list(result.scalars()) if result.returns_rows else []

    yield execute
    admin.dispose()


@on_servers
@pytest.mark.parametrize("end", ["cancel", "disconnect"])
def test_a_statement_that_is_ended_while_it_runs_is_a_503(
    database: Database, engine: Engine, end: str
) -> None:
    dialect = database.driver.dialect
    with administrator(database) as execute, ThreadPoolExecutor(1) as threads:
        response = threads.submit(ask, storage_on(engine, dialect.endless))
        running = dialect.running.format(database.url.database)
        eventually(lambda: execute(running))
        execute(getattr(dialect, end).format(*execute(running)))
        assert is_unavailable(response.result(10))
    assert ask(storage_on(engine)).code == 200


@on_servers
@pytest.mark.parametrize("end", ["cancel", "disconnect"])
def test_a_result_that_is_ended_halfway_is_whole_or_an_error(
    database: Database, engine: Engine, end: str
) -> None:
    """Some drivers have all rows by then, and the others raise an error, but none
    returns fewer rows.
    """
    dialect, connections = database.driver.dialect, list[int]()

    @event.listens_for(engine, "connect")
    def add_number(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        cursor.execute(dialect.connection)
        connections.extend(cursor.fetchone())
        cursor.close()

    rows, count = 50_000, 0  # larger than the network buffers
    storage = storage_on(engine, select_documents(database.driver.dialect, rows))
    try:
        with administrator(database) as execute, storage.unit_of_work() as bound:
            for _record in read(bound, "a1"):
                if count == 0:
                    execute(getattr(dialect, end).format(connections[0]))
                count += 1
    except StorageUnavailable:
        assert 0 < count <= rows
    else:
        assert count == rows
    assert ask(storage_on(engine)).code == 200


@on_servers
def test_a_connection_lost_between_requests_is_a_503_at_most_once(
    database: Database, engine: Engine
) -> None:
    dialect = database.driver.dialect
    with engine.connect() as connection:
        number = connection.exec_driver_sql(dialect.connection).scalar()
    with administrator(database) as execute:
        execute(dialect.disconnect.format(number))
    responses = [ask(storage_on(engine)) for _ in range(2)]
    assert responses[0].code == 200 or is_unavailable(responses[0])
    assert responses[1].code == 200


def test_a_connection_in_autocommit_reads_one_whole_result_after_the_other(
    database: Database,
) -> None:
    with create_engine(database.url, poolclass=NullPool).connect() as connection:
        levels = connection.dialect.get_isolation_level_values(
            connection.connection.dbapi_connection  # type: ignore[arg-type]
        )
    if "AUTOCOMMIT" not in levels:
        pytest.skip("this SQLAlchemy has no AUTOCOMMIT for the driver")
    engine = create_engine(
        database.url, pool_size=1, max_overflow=0, isolation_level="AUTOCOMMIT"
    )
    storage = storage_on(engine, select_documents(database.driver.dialect, 2_001))
    assert_whole(ask(storage), 2_001)
    assert ask(storage_on(engine, failing_in(database))).code == 500
    assert_whole(ask(storage), 2_001)
    with storage.unit_of_work() as bound:
        left_open = read(bound, "a1")
        next(left_open)
    insert = "INSERT INTO alerts VALUES (9, 'nobody else', '{}')"
    with engine.connect() as connection:
        connection.execute(text(insert))
    engine.dispose()
    with create_engine(database.url, poolclass=NullPool).begin() as connection:
        assert connection.execute(text("DELETE FROM alerts WHERE id = 9")).rowcount == 1


def test_an_event_may_set_the_tenant(database: Database, engine: Engine) -> None:
    @event.listens_for(engine, "before_cursor_execute")
    def set_tenant(_connection: object, cursor: Any, *_arguments: object) -> None:
        cursor.execute(database.driver.dialect.tenant)

    statement = select_documents(database.driver.dialect, 2_001)
    assert_whole(ask(storage_on(engine, statement)), 2_001)


@pytest.mark.filterwarnings(
    "ignore:Previous unbuffered result"
)  # PyMySQL only warns when it drops rows
def test_an_event_may_explain_the_statement(database: Database, engine: Engine) -> None:
    plans = list[object]()

    @event.listens_for(engine, "after_cursor_execute")
    def explain(
        connection: Connection,
        _cursor: object,
        statement: str,
        parameters: Any,
        *_arguments: object,
    ) -> None:
        if statement.startswith("SELECT document"):
            plans.append(
                connection.exec_driver_sql(f"EXPLAIN {statement}", parameters).all()
            )

    response = ask(storage_on(engine))
    if database.driver.exclusive:  # an error, not an empty array
        assert (response.code, response.json["code"]) == (500, "storage_error")
    else:
        assert len(response.json) == 2
        assert len(plans) == 1
