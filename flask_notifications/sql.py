"""The host's own SELECTs as a notification storage, through SQLAlchemy Core (extra ``sqlalchemy``).

Knows no table: which rows there are, and what a record holds, is in the host's statements. Creates nothing.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from itertools import chain
from threading import get_ident
from typing import TYPE_CHECKING, Any

from .fields import expect
from .storage import AccessDenied, AccountNotFound, Record, StorageUnavailable

if find_spec("sqlalchemy") is None:
    message = "flask_notifications.sql needs: pip install 'Flask-Notifications[sqlalchemy]'"
    raise ModuleNotFoundError(message, name="sqlalchemy")

from sqlalchemy import ClauseElement, Connection, CursorResult, Engine, Executable, Row, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

if TYPE_CHECKING:
    from .cursor import Execute

# Rows fetched from the database at a time.
_ROWS = 256


MaySeeAccount = Callable[[Row[Any], str], bool]


def nobody(_caller: Row[Any], _account_id: str) -> bool:
    """Let no caller see any account: the rule of a storage that was given none."""
    return False


class SQLAlchemyStorage:
    """Read notifications with the host's own SELECT statements.

    ``engine`` is the host's, with its pool and timeouts. A statement is a text with ``:name`` parameters, or a Core
    statement; values are always bound, never written into it.

    - ``session_query`` gets ``session_id``. Its first row is the caller; no row: there is no such session.
    - ``current_user_query`` gets the caller's columns by their names.
    - ``account_query`` gets them too, and ``account_id``, always the one that was asked for.
    - ``account_exists_query``, where given, gets the same; no row: there is no such account. Without it an unknown
      account has no notifications.
    - ``may_see_account`` is a function of the caller's row and the account ID, asked before any of those; without
      it nobody may see any account.

    A row of one column is a record: a JSON document as text or bytes, passed on as it is, or what the column's type
    makes of it. A row of several columns is a record of its column names and values. Rows are fetched as they are
    encoded, so that memory does not grow with the result.

    A request takes one connection from the pool, for the session and for the records, and gives it back before anything
    is sent (``unit_of_work``). ``may_see_account`` is asked meanwhile, within the transaction: if it reads from the
    same engine, it takes a second one, and what it fails with counts as this database's.

    A database that refuses, hangs up, times out or has no connection left is ``StorageUnavailable``; any other error of
    SQLAlchemy passes. Raises ``ValueError`` naming the argument that does not fit.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        session_query: str | Executable,
        current_user_query: str | Executable,
        account_query: str | Executable,
        account_exists_query: str | Executable | None = None,
        may_see_account: MaySeeAccount = nobody,
    ) -> None:
        if not isinstance(engine, Engine):
            message = f"engine must be an SQLAlchemy engine, not {type(engine).__qualname__}"
            raise ValueError(message)
        expect(
            callable(may_see_account), "may_see_account", "a function of a caller and an account ID", may_see_account
        )
        self._engine = engine
        self._execute = _executing(engine)
        self._unit: ContextVar[_Unit | None] = ContextVar("unit", default=None)
        self._may_see_account = may_see_account
        self._session_query = self._statement("session_query", session_query, "session_id")
        self._current_user_query = self._statement("current_user_query", current_user_query)
        self._account_query = self._statement("account_query", account_query, "account_id")
        self._account_exists_query = None
        if account_exists_query is not None:
            self._account_exists_query = self._statement("account_exists_query", account_exists_query, "account_id")

    @contextmanager
    def unit_of_work(self) -> Iterator[None]:
        """Let the calls that are made meanwhile, by this thread, share one connection and one transaction.

        A call that fails, or is closed before its end, ends the transaction; the next one begins another.
        """
        with _REACHING, self._connection() as connection:
            unit = _Unit(connection)
            token = self._unit.set(unit)
            try:
                yield
            finally:
                self._unit.reset(token)
                unit.close()

    def resolve_session(self, session_id: str) -> Row[Any] | None:
        """Return the first row of ``session_query``, or ``None``."""
        with _REACHING, self._connection() as connection:
            return connection.execute(self._session_query, {"session_id": session_id}).first()

    def current_user_notifications(self, caller: Row[Any]) -> Generator[Record, None, None]:
        """Yield the records of ``current_user_query``."""
        with (
            _REACHING,
            self._connection() as connection,
            self._rows(connection, self._current_user_query, caller._asdict()) as result,
        ):
            yield from _records(result)

    def account_notifications(self, caller: Row[Any], account_id: str) -> Generator[Record, None, None]:
        """Yield the records of ``account_query``, when the caller may see the account and it is there."""
        if not self._may_see_account(caller, account_id):
            raise AccessDenied
        values = caller._asdict() | {"account_id": account_id}
        with _REACHING, self._connection() as connection:
            exists = self._account_exists_query
            if exists is not None and connection.execute(exists, values).first() is None:
                raise AccountNotFound
            with self._rows(connection, self._account_query, values) as result:
                yield from _records(result)

    def _statement(self, name: str, query: str | Executable, parameter: str | None = None) -> Executable:
        """Return a statement, after a look whether it is one and takes the parameter that it must depend on."""
        statement = text(query) if isinstance(query, str) else query
        if not isinstance(statement, ClauseElement) or not isinstance(statement, Executable):
            message = f"{name} must be a SELECT as text or as an SQLAlchemy statement, not {query!r}"
            raise ValueError(message)
        if parameter is not None and parameter not in (statement.compile(self._engine).params or {}):
            message = f"{name} must have a parameter :{parameter}: {query}"
            raise ValueError(message)
        return statement

    def _connection(self) -> AbstractContextManager[Connection]:
        """Return a connection for one call: that of the unit of work, if there is one that is free."""
        unit = self._unit.get()
        return self._engine.connect() if unit is None or not unit.is_free else unit

    def _rows(self, connection: Connection, statement: Executable, values: dict[str, Any]) -> CursorResult[Any]:
        result = self._execute(connection, statement, values)
        unit = self._unit.get()
        if unit is not None and unit.connection is connection:
            unit.result = result
        return result


class _Reaching:
    """Tell a database that is out of reach from one that answers with an error."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, fault: BaseException | None, _traceback: object) -> None:
        if isinstance(fault, PoolTimeout) or (isinstance(fault, DBAPIError) and _out_of_reach(fault)):
            raise StorageUnavailable from fault


_REACHING = _Reaching()


class _Unit:
    """The connection of a unit of work, for one at a time: it cannot run a statement while it hands over rows."""

    __slots__ = ("_is_lent", "_thread", "connection", "result")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.result: CursorResult[Any] | None = None
        self._is_lent = False
        self._thread = get_ident()

    @property
    def is_free(self) -> bool:
        """Whether a call may have it; not one of another thread, or later, to which a copy of the context has come."""
        return not self._is_lent and self._thread == get_ident() and not self.connection.closed

    def __enter__(self) -> Connection:
        self._is_lent = True
        return self.connection

    def __exit__(self, kind: object, *_fault: object) -> None:
        self._is_lent = False
        self.result = None
        if kind is not None:  # PostgreSQL refuses what follows a fault in the same transaction
            self.connection.rollback()

    def close(self) -> None:
        """Close the rows that a call was still reading: to give the connection back, psycopg would wait for them."""
        if self.result is not None:
            self.result.close()


def _out_of_reach(fault: DBAPIError) -> bool:
    # SQLite reports a mistake in a statement as an operational error too; only its own code tells them apart.
    if getattr(fault.orig, "sqlite_errorname", None) == "SQLITE_ERROR":
        return False
    return fault.connection_invalidated or isinstance(fault, OperationalError | InterfaceError)


def _executing(engine: Engine) -> "Execute":
    """Return what executes a statement so that the driver hands over its rows as they arrive."""
    if engine.driver != "psycopg":
        return _execute
    from .cursor import streaming  # noqa: PLC0415 - psycopg is there only where it is the driver

    return streaming(_execute)


def _execute(connection: Connection, statement: Executable, values: dict[str, Any]) -> CursorResult[Any]:
    return connection.execute(statement, values, execution_options={"yield_per": _ROWS})


def _records(result: CursorResult[Any]) -> Iterator[Record]:
    return chain.from_iterable(_batches(result))


def _batches(result: CursorResult[Any]) -> Iterator[list[Record]]:
    # A generator: to any other iterator, a StopIteration out of a column's type looks like the end.
    while rows := result.fetchmany(_ROWS):
        yield _documents(rows) if len(rows[0]) == 1 else _mappings(rows)


def _documents(rows: Sequence[Row[Any]]) -> list[Record]:
    return [value.encode() if isinstance(value, str) else value for (value,) in rows]


def _mappings(rows: Sequence[Row[Any]]) -> list[Record]:
    # The names once for all rows: each row by itself would look them up again, at four times the cost.
    columns = rows[0]._fields
    if len(set(columns)) < len(columns):
        message = f"the columns of a record must have different names, not {columns}"
        raise ValueError(message)
    return [dict(zip(columns, row, strict=True)) for row in rows]
