"""Recognise the errors of a database that is out of reach, with every driver.

The class of an exception is not enough: PyMySQL and mysqlclient raise an
``OperationalError`` for an unknown column, pg8000 a ``ProgrammingError`` for a timeout.
The error's code is: an SQLSTATE, MySQL's number or SQLite's name.
"""

from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

# The beginnings of SQLSTATEs, as PostgreSQL uses them (appendix A of its manual).
_SQLSTATES = (
    "08",  # connection exception
    "40",  # transaction rollback: a serialization failure or a deadlock
    "53",  # insufficient resources
    "55",  # object not in prerequisite state: a lock timeout
    "57",  # operator intervention: a timeout, a cancelled statement, a shutdown
    "58",  # system error: input or output failed
    "HV",  # foreign data wrapper error
    "25P03",  # idle_in_transaction_session_timeout
    "25P04",  # transaction_timeout
)
# One line for each kind of outage, from the manuals of MySQL and MariaDB.
_MYSQL_NUMBERS = {
    *(1021, 1037, 1041),  # no disk space, memory or other resource is left
    *(1040, 1203, 1226),  # no connection is left, of the server or of the user
    *(1158, 1159, 1160, 1161),  # the network failed
    *(1205, 1213),  # another transaction has a lock
    *(1969, 3024, 4031),  # a time limit was exceeded
    *(1317, 1927, 3169),  # somebody ended the statement or the connection
    *(1047, 1053, 3168),  # the server is not ready, or ends
}
# The numbers of errors that MySQL's client library reports itself: it cannot connect,
# or the connection is lost.
_MYSQL_CLIENT = range(2000, 3000)


def is_outage(error: Exception) -> bool:
    """Return whether the database is out of reach, or has given up a statement."""
    if not isinstance(error, DBAPIError):
        # Some drivers let an ``OSError`` of their socket pass.
        return isinstance(error, PoolTimeout | OSError)
    if error.connection_invalidated:
        return True
    code = find_code(error.orig)
    if isinstance(code, int):
        return code in _MYSQL_NUMBERS or code in _MYSQL_CLIENT
    if code is None:
        return isinstance(error, OperationalError)
    if code.startswith("SQLITE_"):
        return isinstance(error, OperationalError) and not code.startswith(
            "SQLITE_ERROR"
        )
    return code.startswith(_SQLSTATES)


def find_code(error: object) -> str | int | None:
    """Return a driver's error code: MySQL's number, an SQLSTATE or SQLite's name."""
    first = next(iter(getattr(error, "args", ())), None)
    if isinstance(first, int):  # PyMySQL, mysqlclient
        return first
    if isinstance(first, dict):  # pg8000: the fields of PostgreSQL's message
        return first.get("C")
    if type(error).__module__ == "sqlite3":
        # Errors of the Python module, not of SQLite, have no name.
        return getattr(error, "sqlite_errorname", "SQLITE_ERROR")
    # In this order: MariaDB and mysql-connector, psycopg and pg8000, psycopg2.
    for name in ("errno", "sqlstate", "pgcode"):
        code: str | int | None = getattr(error, name, None)
        if code is not None:
            return code
    return None
