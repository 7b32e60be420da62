"""Connections to the database of the record, with limits for each wait.

No connection waits for more than a few seconds, even from the engine of an application.
Knows no tables.
"""

import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Self, TypeAlias

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError

from flask_notifications.sql.outages import find_code
from flask_notifications.validation import require

from .threads import new_lock, start_thread

Database: TypeAlias = str | sa.URL | sa.Engine

SQLITE, POSTGRESQL, MYSQL, MARIADB = "sqlite", "postgresql", "mysql", "mariadb"
_DIALECTS = {SQLITE, POSTGRESQL, MYSQL, MARIADB}
# The drivers that a recorder supports, and their limits for connecting and for a silent
# network; in seconds, unless a comment has another unit.
_POSTGRESQL: Mapping[str, Any] = {
    "connect_timeout": 3,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
    # In a database without an encoding, psycopg would return bytes.
    "client_encoding": "utf8",
}
_SOCKET = {"connect_timeout": 3, "read_timeout": 5, "write_timeout": 5}
_ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "pysqlite": {"timeout": 2.0},
    "psycopg": _POSTGRESQL,
    "psycopg2": _POSTGRESQL,
    "pg8000": {"timeout": 5},
    "pymysql": _SOCKET,
    "mysqldb": _SOCKET,
    "mysqlconnector": {"connection_timeout": 5},
    "mariadbconnector": _SOCKET,
}
# The packages of drivers whose names differ from the package's.
_PACKAGES = {
    "psycopg": "psycopg[binary]",
    "psycopg2": "psycopg2-binary",
    "mysqldb": "mysqlclient",
    "mysqlconnector": "mysql-connector-python",
    "mariadbconnector": "mariadb",
}
_NOW = {
    SQLITE: "SELECT CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
    POSTGRESQL: (
        "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
    ),
    # Not now(), which has the same hour twice when summer time ends.
    MYSQL: "SELECT timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))",
}
# The limits for waiting for locks.
LOCK_LIMIT: Mapping[str, str] = {
    SQLITE: "PRAGMA busy_timeout = 2000",
    POSTGRESQL: "SET LOCAL lock_timeout = '2s'",
    MYSQL: "SET innodb_lock_wait_timeout = 2, lock_wait_timeout = 2",
}
# The statements that begin a transaction: limits for locks and statements, and last the
# time. Only MariaDB reads the special comment; in MySQL, only the limit of the driver's
# socket ends a statement.
_BEGIN: Mapping[str, Sequence[str]] = {
    SQLITE: (LOCK_LIMIT[SQLITE], _NOW[SQLITE]),
    POSTGRESQL: (
        (
            f"{_NOW[POSTGRESQL]}, set_config('lock_timeout', '2s', true), "
            "set_config('statement_timeout', '4s', true)"
        ),
    ),
    MYSQL: (f"{LOCK_LIMIT[MYSQL]} /*M!100101 , max_statement_time = 4 */", _NOW[MYSQL]),
}

# Drivers whose connections we pool ourselves, because our settings end with the
# transaction.
_POOLED = {"psycopg", "psycopg2"}

# MySQL's errors for a transaction that another one has ended, like the class 40 of
# SQLSTATE; Galera raises all three.
_CONFLICTS = {1213, 1305, 1180}
# Seconds after which a transaction without an answer is given up.
_SILENCE = 5.0
# The server process of a connection and the beginning of its transaction; and the
# statement that cancels this transaction, unless it has ended.
_SERVED = "SELECT pg_backend_pid(), CAST(extract(epoch FROM now()) * 1000000 AS bigint)"
_CANCEL = sa.text(
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = :process "
    "AND CAST(extract(epoch FROM xact_start) * 1000000 AS bigint) = :began"
)

# Set while a connection is made for a recorder or a report: removes our limits from the
# options afterwards, because SQLAlchemy below 2.1 passes the same dictionary for every
# connection of an engine.
_undo: ContextVar[ExitStack | None] = ContextVar("undo", default=None)


class _OwnPool(sa.QueuePool):
    """The pool of an engine that this library made."""

    # The pool's logger takes its name from this, so that SQLAlchemy's settings apply.
    __module__ = "sqlalchemy.pool"


def open_engine(database: Database) -> sa.Engine:
    """Return the engine itself, or a new one for a URL, with limits for connecting.

    No connection is made.
    """
    engine = database if isinstance(database, sa.Engine) else _new_engine(database)
    _require_driver(engine.dialect)
    # SQLAlchemy calls a listener once, however often it is added.
    sa.event.listen(engine, "do_connect", _set_limits)
    return engine


def _new_engine(database: str | sa.URL) -> sa.Engine:
    try:
        url = sa.make_url(database)
        dialect = url.get_dialect()
    except (ArgumentError, AttributeError, ValueError):
        examples = "sqlite:///usage.sqlite3 or postgresql+psycopg://user@host/name"
        # Without the value, which may contain a password.
        message = f"database must be an SQLAlchemy URL or engine, such as {examples}"
        raise ValueError(message) from None
    _require_driver(dialect)
    in_memory = dialect.name == SQLITE and url.database in {None, "", ":memory:"}
    require(
        not in_memory,
        "database",
        "a file that other processes can read",
        "an SQLite database in memory",
    )
    pool = _OwnPool if dialect.driver in _POOLED else sa.NullPool
    try:
        return sa.create_engine(url, poolclass=pool)
    except ModuleNotFoundError as error:
        package = _PACKAGES.get(dialect.driver, dialect.driver)
        message = f"{error}: pip install '{package}'"
        raise ModuleNotFoundError(message, name=error.name) from None


def _require_driver(dialect: sa.Dialect | type[sa.Dialect]) -> None:
    expected = (
        "SQLite, PostgreSQL, MySQL or MariaDB with one of the drivers "
        f"{', '.join(_ARGUMENTS)}"
    )
    is_supported = dialect.driver in _ARGUMENTS and dialect.name in _DIALECTS
    require(is_supported, "database", expected, f"{dialect.name}+{dialect.driver}")


def _set_limits(
    dialect: sa.Dialect, _record: object, _arguments: object, options: dict[str, Any]
) -> None:
    """Limit a connection that an engine makes for us, not one for the application.

    Listens for SQLAlchemy's event ``do_connect``.
    """
    undo = _undo.get()
    if undo is None:
        return
    for name, value in _ARGUMENTS[dialect.driver].items():
        if name not in options:
            options[name] = value
            undo.callback(options.pop, name)


def is_in_memory(engine: sa.Engine) -> bool:
    """Return whether the pool is one for databases in memory, which end with it."""
    return isinstance(engine.pool, sa.StaticPool | sa.pool.SingletonThreadPool)


@contextmanager
def connect(engine: sa.Engine, isolation: str) -> Iterator[sa.Connection]:
    """Lend a connection with an isolation level, which replaces the engine's.

    In SQLite it is always the highest.
    """
    # `_set_limits` finds this stack, and adds what removes the limits again.
    with ExitStack() as undo:
        undo.callback(_undo.reset, _undo.set(undo))
        connection = engine.connect()
    with connection:
        driver: Any = connection.connection.dbapi_connection
        if hasattr(driver, "prepare_threshold"):
            # Psycopg must not prepare statements, because PgBouncer may use another
            # connection for each transaction.
            driver.prepare_threshold = None
        if backend(engine) == SQLITE:
            isolation = "SERIALIZABLE"
        try:
            connection.execution_options(isolation_level=isolation)
        except BaseException:  # for example, a node of a cluster without a quorum
            _throw_away(connection)
            raise
        if not isinstance(engine.pool, _OwnPool) and not is_in_memory(engine):
            # Take it out of the application's pool: the application must neither get a
            # connection with our settings nor wait until we return it.
            connection.detach()
        yield connection


@contextmanager
def begin(engine: sa.Engine) -> Iterator[tuple[sa.Connection, int]]:
    """Lend a connection with a transaction, and yield it with the database's time.

    The transaction has limits for locks and statements. After an error the connection
    is thrown away without a rollback, which could hang or fail as well.
    """
    with connect(engine, "READ COMMITTED") as connection:
        transaction = connection.begin()
        with _Watch(connection) as watch:
            try:
                watch.ask_who_serves()
                *limits, clock = _BEGIN[backend(engine)]
                for statement in limits:
                    connection.exec_driver_sql(statement)
                yield connection, int(connection.exec_driver_sql(clock).scalar_one())
                transaction.commit()
            except BaseException:
                _throw_away(connection)
                if watch.is_silent:
                    watch.cancel(engine)
                raise


class _Watch:
    """Give up a transaction of libpq that gets no answer for five seconds.

    libpq has no limit for an answer: a COMMIT may wait for a synchronous standby
    forever. A thread therefore watches the transaction and shuts its socket down.
    Other drivers have limits for their sockets.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self.is_silent: bool = False
        self._driver: Any = connection.connection.dbapi_connection
        self._connection = connection
        is_postgresql = backend(connection.engine) == POSTGRESQL
        self._is_libpq = is_postgresql and hasattr(self._driver, "fileno")
        # Held until the transaction has ended.
        self._has_ended = new_lock()
        self._answered_at = time.monotonic()
        self._served = (0, 0)  # no process

    def __enter__(self) -> Self:
        if self._is_libpq:
            self._has_ended.acquire()
            sa.event.listen(self._connection, "after_cursor_execute", self._note_answer)
            start_thread(self._run)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._has_ended.locked():
            self._has_ended.release()

    def ask_who_serves(self) -> None:
        """Ask the server what :meth:`cancel` would have to cancel."""
        if self._is_libpq:
            process, began = self._connection.exec_driver_sql(_SERVED).one()
            self._served = (process, began)

    def cancel(self, engine: sa.Engine) -> None:
        """Cancel the transaction at the server, where it may still hold locks."""
        process, began = self._served
        with (
            suppress(Exception),
            connect(engine, "READ COMMITTED") as connection,
            _Watch(connection),
        ):
            try:
                connection.execute(_CANCEL, {"process": process, "began": began})
            finally:
                _throw_away(connection)

    def _note_answer(self, *_arguments: object) -> None:
        self._answered_at = time.monotonic()

    def _run(self) -> None:
        """Wait, in a thread, until the transaction ends or was silent for too long."""
        while (rest := self._answered_at + _SILENCE - time.monotonic()) > 0:
            if self._has_ended.acquire(timeout=rest):
                self._has_ended.release()
                return
        self.is_silent = True
        # Wake the thread that waits for this socket; the copy of its number is ours to
        # close.
        with (
            suppress(Exception),
            socket.socket(fileno=os.dup(self._driver.fileno())) as end,
        ):
            end.shutdown(socket.SHUT_RDWR)


def _throw_away(connection: sa.Connection) -> None:
    if is_in_memory(connection.engine):
        connection.rollback()
    elif not connection.invalidated:
        driver: Any = connection.connection.dbapi_connection
        connection.invalidate()
        # SQLAlchemy does not close a connection that was detached from its pool.
        with suppress(Exception):
            driver.close()


def backend(engine: sa.Engine) -> str:
    """Return the kind of a database; MariaDB counts as ``MYSQL``."""
    return MYSQL if engine.dialect.name == MARIADB else engine.dialect.name


def read_clock(connection: sa.Connection) -> int:
    """Return the time of the database."""
    return int(
        connection.exec_driver_sql(_NOW[backend(connection.engine)]).scalar_one()
    )


def is_conflict(error: DBAPIError) -> bool:
    """Return whether another transaction ended this one, which can be repeated."""
    code = find_code(error.orig)
    if isinstance(code, int):
        return code in _CONFLICTS
    return code is not None and code.startswith("40")
