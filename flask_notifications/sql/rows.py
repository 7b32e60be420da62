"""Read rows in batches, so that memory does not grow with the result.

How that is done depends on the database:

- PostgreSQL sends a whole result at once, unless a cursor is declared in SQL. The
  statement is executed as ``DECLARE ... CURSOR FOR`` and read with ``FETCH``, both with
  an ordinary cursor of the driver. Engine events can use that cursor and the
  connection, because no rows are on their way then.
- MySQL and MariaDB stream rows, and cannot execute another statement meanwhile. PyMySQL
  then drops the unread rows, so such a statement is refused.
- MariaDB Connector/Python loses errors while it streams, so it fetches all rows at
  once.
- Every other driver that can stream does so with SQLAlchemy's ``yield_per``.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from sqlalchemy import Connection, Engine, Executable, ExecutionContext, Row, event
from sqlalchemy.exc import DBAPIError

from flask_notifications.serving.storage import StorageUnavailable

from .outages import is_outage

# Rows.
_BATCH = 1_000

# The execution option of a statement that is read with a cursor of PostgreSQL; its
# value is a ``_ServerCursor``.
_CURSOR_OPTION = "flask_notifications_fetch"
# The execution option of a statement whose rows MySQL streams, and of the connection
# meanwhile.
_STREAM_OPTION = "flask_notifications_stream"
_IS_STREAMING_OPTION = "flask_notifications_streaming"
# The execution options of a statement whose rows the driver must not stream, even if
# the engine or the statement asks for that.
_AT_ONCE = {"stream_results": False, "yield_per": None}

Parameters = Mapping[str, Any]
Batches = Generator[Sequence[Row[Any]], None, None]
Listener = Callable[[Any, str, Any, ExecutionContext], bool | None]


@dataclass(slots=True)
class _ServerCursor:
    """The name of a cursor of PostgreSQL, and whether it exists."""

    name: str
    is_declared: bool = False


def prepare_engine(engine: Engine) -> None:
    """Let an engine execute the statements of a ``RowReader``.

    That may be repeated, because SQLAlchemy adds a listener only once.
    """
    listener = _LISTENERS.get(engine.dialect.name)
    if listener is not None:
        event.listen(engine.dialect, "do_execute", listener)


class RowReader:
    """Read rows on one connection.

    After an error that says that the database is out of reach, the connection is
    discarded. After another error of the database, the transaction is rolled back,
    because PostgreSQL refuses every further statement in it.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._reads: list[Batches] = []
        self._numbers = count(1)

    def read_first(self, statement: Executable, values: Parameters) -> Row[Any] | None:
        """Return the first row of a statement, or ``None``."""
        try:
            return self._connection.execute(
                statement, values, execution_options=_AT_ONCE
            ).first()
        except (DBAPIError, OSError) as error:
            self._recover(error)
            raise

    def read_batches(self, statement: Executable, values: Parameters) -> Batches:
        """Yield the rows of a statement in batches."""
        batches = self._read(statement, values)
        self._reads.append(batches)
        return batches

    def close(self) -> None:
        """End what is still being read, and close the connection."""
        with self._connection:
            for batches in self._reads:
                batches.close()

    def _read(self, statement: Executable, values: Parameters) -> Batches:
        read = self._read_stream
        if self._connection.dialect.name == "postgresql":
            read = self._read_with_cursor
        try:
            yield from read(statement, values)
        except (DBAPIError, OSError) as error:
            self._recover(error)
            raise

    def _read_stream(self, statement: Executable, values: Parameters) -> Batches:
        try:
            dialect = self._connection.dialect
            options: dict[str, Any] = _AT_ONCE
            if (
                dialect.supports_server_side_cursors
                and dialect.driver != "mariadbconnector"
            ):
                options = {"yield_per": _BATCH, _STREAM_OPTION: True}
            with self._connection.execute(
                statement, values, execution_options=options
            ) as result:
                while rows := result.fetchmany(_BATCH):
                    yield rows
        finally:  # ``_execute_on_mysql`` has set it
            if self._connection.get_execution_options().get(_IS_STREAMING_OPTION):
                self._connection.execution_options(**{_IS_STREAMING_OPTION: False})

    def _read_with_cursor(self, statement: Executable, values: Parameters) -> Batches:
        is_autocommit = self._is_autocommit()
        if is_autocommit:  # a cursor needs a transaction
            self._connection.exec_driver_sql("BEGIN")
        server_cursor = _ServerCursor(f"flask_notifications_{next(self._numbers)}")
        options = {_CURSOR_OPTION: server_cursor, **_AT_ONCE}
        is_complete = False
        try:
            while not is_complete:
                rows = self._connection.execute(
                    statement, values, execution_options=options
                ).all()
                yield rows
                # Without a cursor, another listener has read all rows at once.
                is_complete = len(rows) < _BATCH or not server_cursor.is_declared
        finally:
            if is_autocommit:
                self._roll_back()

    def _recover(self, error: DBAPIError | OSError) -> None:
        is_out_of_reach = is_outage(error)
        if is_out_of_reach:
            self._connection.invalidate(error)
        self._roll_back()
        if is_out_of_reach:
            raise StorageUnavailable from error

    def _roll_back(self) -> None:
        # With autocommit, the ``rollback()`` of some drivers does nothing.
        if not self._connection.invalidated and self._is_autocommit():
            self._connection.exec_driver_sql("ROLLBACK")
        self._connection.rollback()

    def _is_autocommit(self) -> bool:
        connection = self._connection.connection.dbapi_connection
        return self._connection.dialect.name == "postgresql" and bool(
            getattr(connection, "autocommit", False)
        )


def _execute_on_postgresql(
    cursor: Any, statement: str, parameters: Any, context: ExecutionContext
) -> bool | None:
    """Fetch the next batch of a statement with a cursor, if ``_CURSOR_OPTION`` is set.

    Return ``True`` to SQLAlchemy if there is nothing left for it to execute.
    """
    server_cursor: _ServerCursor | None = context.execution_options.get(_CURSOR_OPTION)
    if server_cursor is None:
        return None
    name = server_cursor.name
    if not server_cursor.is_declared:
        cursor.execute(f"DECLARE {name} NO SCROLL CURSOR FOR {statement}", parameters)
        server_cursor.is_declared = True
    cursor.execute(f"FETCH FORWARD {_BATCH} FROM {name}")
    return True


def _execute_on_mysql(
    _cursor: Any, _statement: str, _parameters: Any, context: ExecutionContext
) -> None:
    """Refuse a statement on a connection that is streaming rows."""
    connection = context.root_connection
    if connection.get_execution_options().get(_IS_STREAMING_OPTION):
        message = (
            "no statement can be executed on this connection until all rows of the last"
            " one have been read"
        )
        raise RuntimeError(message)
    if context.execution_options.get(_STREAM_OPTION):
        connection.execution_options(**{_IS_STREAMING_OPTION: True})


_LISTENERS: dict[str, Listener] = {
    "postgresql": _execute_on_postgresql,
    "mysql": _execute_on_mysql,
    "mariadb": _execute_on_mysql,
}
