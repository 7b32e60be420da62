"""Which exceptions of a database driver mean that the database is out of reach."""

import sqlite3
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.exc import (
    DBAPIError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from flask_notifications.sql.outages import is_outage


def wrap(
    driver: Any, kind: type[DBAPIError] = ProgrammingError, *, lost: bool = False
) -> DBAPIError:
    return kind("SELECT", {}, driver, connection_invalidated=lost)


def sqlite_error(name: str) -> Exception:
    error: Any = sqlite3.OperationalError("message")
    error.sqlite_errorname = name
    return error  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(PoolTimeout(), True, id="no connection left in the pool"),
        pytest.param(OSError(), True, id="an error of a socket"),
        pytest.param(ValueError(), False, id="something else"),
        pytest.param(wrap(Exception(), lost=True), True, id="a lost connection"),
        pytest.param(
            wrap(Exception(), OperationalError), True, id="operational, without a code"
        ),
        pytest.param(
            wrap(Exception(), InterfaceError),
            False,
            id="of the interface, without a code",
        ),
        pytest.param(wrap(Exception()), False, id="of programming, without a code"),
        pytest.param(
            wrap(SimpleNamespace(sqlstate="25P03")),
            True,
            id="psycopg, idle in transaction",
        ),
        pytest.param(
            wrap(SimpleNamespace(sqlstate="25P02")),
            False,
            id="psycopg, failed transaction",
        ),
        pytest.param(
            wrap(SimpleNamespace(pgcode=None), OperationalError),
            True,
            id="psycopg2, no code",
        ),
        pytest.param(wrap(Exception({"C": "57014"})), True, id="pg8000, timeout"),
        pytest.param(
            wrap(Exception(2013, "lost"), OperationalError),
            True,
            id="PyMySQL, lost connection",
        ),
        pytest.param(
            wrap(Exception(1054, "column"), OperationalError),
            False,
            id="PyMySQL, unknown column",
        ),
        pytest.param(
            wrap(SimpleNamespace(errno=1969, sqlstate="70100")),
            True,
            id="MariaDB, timeout",
        ),
        pytest.param(
            wrap(sqlite_error("SQLITE_BUSY"), OperationalError),
            True,
            id="SQLite, locked",
        ),
        pytest.param(
            wrap(sqlite_error("SQLITE_ERROR"), OperationalError),
            False,
            id="SQLite, mistake",
        ),
        pytest.param(
            wrap(sqlite3.OperationalError("UTF-8"), OperationalError),
            False,
            id="SQLite, undecodable text",
        ),
    ],
)
def test_the_code_says_whether_a_database_is_out_of_reach(
    error: Exception, expected: bool
) -> None:
    assert is_outage(error) is expected
