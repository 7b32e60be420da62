"""Rows of psycopg as they arrive, from a real PostgreSQL."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, CursorResult, Engine, Executable, create_engine, text
from sqlalchemy.exc import DataError, ProgrammingError

from flask_notifications.cursor import StreamingCursor, streaming
from tests.services import postgresql_schema

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with postgresql_schema() as url:
        engine = create_engine(url, pool_size=1, max_overflow=0)
        yield engine
        engine.dispose()


def executed(connection: Connection, statement: str, **values: object) -> CursorResult[Any]:
    """Run a statement that SQLAlchemy would give a cursor on the server."""
    return streaming(plainly)(connection, text(statement), values)


def plainly(connection: Connection, statement: Executable, values: dict[str, Any]) -> CursorResult[Any]:
    return connection.execute(statement, values, execution_options={"yield_per": 100})


def rows(result: CursorResult[Any]) -> Iterator[Any]:
    while found := result.fetchmany(100):
        yield from found


def numbers(connection: Connection, count: int) -> CursorResult[Any]:
    return executed(connection, "SELECT n, 'n' || n AS name FROM generate_series(1, :count) n", count=count)


def memory() -> int:
    """Return the most memory, in bytes, that this process has ever had."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)[0]) * 1024


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 1_000])
def test_all_rows_come_in_their_order(engine: Engine, count: int) -> None:
    with engine.connect() as connection, numbers(connection, count) as result:
        assert [tuple(row) for row in rows(result)] == [(n, f"n{n}") for n in range(1, count + 1)]


def test_a_row_has_the_names_of_its_columns(engine: Engine) -> None:
    with engine.connect() as connection, numbers(connection, 1) as result:
        assert isinstance(result.cursor, StreamingCursor)
        assert [row._asdict() for row in rows(result)] == [{"n": 1, "name": "n1"}]


def test_without_rows_no_column_is_known(engine: Engine) -> None:
    with engine.connect() as connection, numbers(connection, 0) as result:
        assert list(result.keys()) == []


def test_rows_that_nobody_fetches_do_not_come(engine: Engine) -> None:
    before = memory()
    statement = "SELECT repeat('n', 1000) FROM generate_series(1, 300000)"
    with engine.connect() as connection, executed(connection, statement) as result:
        assert len(list(islice(rows(result), 300))) == 300
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT 1")) == 1
    assert memory() - before < 32 * MIB


def test_a_fault_among_the_rows_is_raised_there_and_the_connection_is_as_good_as_new(engine: Engine) -> None:
    with (
        engine.connect() as connection,
        executed(connection, "SELECT 1 / (900 - n) FROM generate_series(1, 1000) n") as r,
    ):
        found = rows(r)
        assert next(found)[0] == 0
        with pytest.raises(DataError):
            list(found)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT 1")) == 1


@pytest.mark.parametrize("statement", ["CREATE TEMPORARY TABLE t (n int)", "SELECT nothing", "no statement"])
def test_what_is_no_select_is_an_error_at_once(engine: Engine, statement: str) -> None:
    with engine.connect() as connection, pytest.raises(ProgrammingError):
        executed(connection, statement)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT 1")) == 1


@pytest.mark.parametrize("statement", ["SELECT 1", "SELECT nothing"])
def test_the_hosts_own_cursors_are_as_before(engine: Engine, statement: str) -> None:
    with engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        driver.server_cursor_factory = own = type("Own", (psycopg.ServerCursor,), {})
        try:
            executed(connection, statement).close()
        except ProgrammingError:
            assert statement == "SELECT nothing"
        assert driver.server_cursor_factory is own
        driver.server_cursor_factory = psycopg.ServerCursor
