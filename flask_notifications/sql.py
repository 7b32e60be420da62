"""The host's own SELECTs as a notification storage, through SQLAlchemy Core (extra ``sqlalchemy``).

Knows no table: which rows there are, and what a record holds, is in the host's statements. Creates nothing.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from typing import Any

from .fields import expect
from .storage import AccessDenied, AccountNotFound, Record, StorageUnavailable

if find_spec("sqlalchemy") is None:
    message = "flask_notifications.sql needs: pip install 'Flask-Notifications[sqlalchemy]'"
    raise ModuleNotFoundError(message, name="sqlalchemy")

from sqlalchemy import ClauseElement, Connection, CursorResult, Engine, Executable, Row, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

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
        self._streaming = _streaming(engine)
        self._may_see_account = may_see_account
        self._session_query = self._statement("session_query", session_query, "session_id")
        self._current_user_query = self._statement("current_user_query", current_user_query)
        self._account_query = self._statement("account_query", account_query, "account_id")
        self._account_exists_query = None
        if account_exists_query is not None:
            self._account_exists_query = self._statement("account_exists_query", account_exists_query, "account_id")

    def resolve_session(self, session_id: str) -> Row[Any] | None:
        """Return the first row of ``session_query``, or ``None``."""
        with self._connection() as connection:
            return connection.execute(self._session_query, {"session_id": session_id}).first()

    def current_user_notifications(self, caller: Row[Any]) -> Generator[Record, None, None]:
        """Yield the records of ``current_user_query``."""
        with self._connection() as connection:
            yield from self._read(connection, self._current_user_query, caller._asdict())

    def account_notifications(self, caller: Row[Any], account_id: str) -> Generator[Record, None, None]:
        """Yield the records of ``account_query``, when the caller may see the account and it is there."""
        if not self._may_see_account(caller, account_id):
            raise AccessDenied
        values = caller._asdict() | {"account_id": account_id}
        with self._connection() as connection:
            exists = self._account_exists_query
            if exists is not None and connection.execute(exists, values).first() is None:
                raise AccountNotFound
            yield from self._read(connection, self._account_query, values)

    def _read(self, connection: Connection, statement: Executable, values: dict[str, Any]) -> Iterator[Record]:
        with self._streaming(connection):
            result = connection.execute(statement, values, execution_options={"yield_per": _ROWS})
        with result:
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

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """Lend a connection, and tell a database that is out of reach from one that answers with an error."""
        try:
            with self._engine.connect() as connection:
                yield connection
        except PoolTimeout as fault:
            raise StorageUnavailable from fault
        except DBAPIError as fault:
            if not _out_of_reach(fault):
                raise
            raise StorageUnavailable from fault


def _out_of_reach(fault: DBAPIError) -> bool:
    # SQLite reports a mistake in a statement as an operational error too; only its own code tells them apart.
    if getattr(fault.orig, "sqlite_errorname", None) == "SQLITE_ERROR":
        return False
    return fault.connection_invalidated or isinstance(fault, OperationalError | InterfaceError)


def _streaming(engine: Engine) -> Callable[[Connection], AbstractContextManager[None]]:
    """Return what makes a driver hand over rows as they arrive."""
    if engine.driver != "psycopg":
        return lambda _connection: nullcontext()
    from .cursor import streaming  # noqa: PLC0415 - psycopg is there only where it is the driver

    return streaming


def _records(result: CursorResult[Any]) -> Iterator[Record]:
    columns = list(result.keys())
    if len(set(columns)) < len(columns):
        message = f"the columns of a record must have different names, not {columns}"
        raise ValueError(message)
    while rows := result.fetchmany(_ROWS):
        if len(columns) == 1:
            yield from [value.encode() if isinstance(value, str) else value for (value,) in rows]
        else:
            yield from [row._asdict() for row in rows]
