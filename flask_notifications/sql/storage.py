"""The storage that reads notifications with your own SELECT statements.

It knows no table, because your statements select the rows and the values of a record,
and it creates nothing.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from copy import copy
from typing import Any, Self

from sqlalchemy import ClauseElement, Engine, Executable, Row, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from flask_notifications.deferred import is_deferring, refuse_deferred
from flask_notifications.serving.storage import (
    AccessDenied,
    AccountNotFound,
    Record,
    StorageUnavailable,
)
from flask_notifications.validation import require

from .outages import is_outage
from .rows import Parameters, RowReader, prepare_engine

MaySeeAccount = Callable[[Row[Any], str], bool]


def deny_all(_caller: Row[Any], _account_id: str) -> bool:
    """Let no caller see any account: the default of ``may_see_account``."""
    return False


class SQLAlchemyStorage:
    """Read notifications with your own SELECT statements.

    A statement is a string with ``:name`` parameters or a Core statement. Values are
    always bound, never written into the statement. A row with one column is a record: a
    JSON document as a string or bytes is passed on as it is. A row with several columns
    is a record of its column names and values.

    A request takes one connection from the pool and returns it before the response is
    sent (``unit_of_work``). Memory does not grow with the result if the driver streams,
    which MySQL and MariaDB Connector/Python do not.

    If the database refuses connections, disconnects, times out or has no connection
    left, ``StorageUnavailable`` is raised. Every other error of SQLAlchemy passes. Not
    checked: that the statements return rows, and that the caller has a column for each
    of their parameters.

    :param engine: your engine, with its pool and timeouts. Asynchronous engines are
        refused.
    :param session_query: gets ``session_id``. Its first row is the caller; without a
        row, the session is unknown.
    :param current_user_query: gets the columns of the caller by their names.
    :param account_query: gets them too, and ``account_id``, which is always the one
        that the client sent.
    :param account_exists_query: gets the same. Without a row, the account does not
        exist. By default an unknown account has no notifications.
    :param may_see_account: a function of the caller's row and the account ID, called
        before the account is read. It returns ``True`` or ``False`` (or 1, 0 or
        ``None``, as a database does). By default no caller may see any account. It runs
        within the transaction; if it reads from the same engine, it takes a second
        connection.
    :raises ValueError: an argument does not fit; the message names it.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        session_query: str | Executable,
        current_user_query: str | Executable,
        account_query: str | Executable,
        account_exists_query: str | Executable | None = None,
        may_see_account: MaySeeAccount = deny_all,
    ) -> None:
        require(isinstance(engine, Engine), "engine", "an SQLAlchemy engine", engine)
        require(
            not engine.dialect.is_async,
            "engine",
            "an engine with a driver that is not asynchronous",
            engine,
        )
        is_check = callable(may_see_account) and not is_deferring(may_see_account)
        expected = "a function that returns True or False and is not asynchronous"
        require(is_check, "may_see_account", expected, may_see_account)
        prepare_engine(engine)
        self._engine = engine
        self._reader: RowReader | None = None
        self._may_see_account = may_see_account
        self._session_query = self._make_statement(
            "session_query", session_query, "session_id"
        )
        self._current_user_query = self._make_statement(
            "current_user_query", current_user_query
        )
        self._account_query = self._make_statement(
            "account_query", account_query, "account_id"
        )
        self._account_exists_query = None
        if account_exists_query is not None:
            self._account_exists_query = self._make_statement(
                "account_exists_query", account_exists_query, "account_id"
            )

    @contextmanager
    def unit_of_work(self) -> Iterator[Self]:
        """Yield a copy of this storage with one connection and one transaction.

        The copy is for one thread, and cannot be used after the unit of work.
        """
        with self._open_reader() as reader:
            bound = copy(self)
            bound._reader = reader
            yield bound

    def resolve_session(self, session_id: str) -> Row[Any] | None:
        """Return the first row of ``session_query``, or ``None``.

        :param session_id: the session ID that the client sent.
        :raises StorageUnavailable: the database is out of reach.
        :raises ValueError: two columns of the row have the same name.
        """
        with self._open_reader() as reader:
            caller = reader.read_first(self._session_query, {"session_id": session_id})
        if caller is not None:
            _values_of(caller)  # checks the names of its columns
        return caller

    def current_user_notifications(
        self, caller: Row[Any]
    ) -> Generator[Record, None, None]:
        """Yield the records of ``current_user_query``.

        :param caller: the row that ``resolve_session`` returned.
        :raises StorageUnavailable: the database is out of reach.
        """
        with self._open_reader() as reader:
            yield from _read_records(
                reader, self._current_user_query, _values_of(caller)
            )

    def account_notifications(
        self, caller: Row[Any], account_id: str
    ) -> Generator[Record, None, None]:
        """Yield the records of ``account_query`` if the caller may see the account.

        :param caller: the row that ``resolve_session`` returned.
        :param account_id: the account ID that the client sent.
        :raises AccessDenied: ``may_see_account`` does not allow it.
        :raises AccountNotFound: ``account_exists_query`` has no row.
        :raises StorageUnavailable: the database is out of reach.
        """
        with self._open_reader() as reader:
            if not _require_truth_value(self._may_see_account(caller, account_id)):
                raise AccessDenied
            values = _values_of(caller) | {"account_id": account_id}
            exists = self._account_exists_query
            if exists is not None and reader.read_first(exists, values) is None:
                raise AccountNotFound
            yield from _read_records(reader, self._account_query, values)

    def _open_reader(self) -> AbstractContextManager[RowReader]:
        """Return the reader of the unit of work, or a new one on a new connection."""
        if self._reader is None:
            return self._connect()
        return nullcontext(self._reader)

    @contextmanager
    def _connect(self) -> Iterator[RowReader]:
        try:
            connection = self._engine.connect()
        # Without a connection, every error of the driver is an outage.
        except (DBAPIError, PoolTimeout, OSError) as error:
            raise StorageUnavailable from error
        try:
            with closing(RowReader(connection)) as reader:
                yield reader
        except SQLAlchemyError as error:
            if is_outage(error):
                raise StorageUnavailable from error
            raise

    def _make_statement(
        self, name: str, query: str | Executable, parameter: str | None = None
    ) -> Executable:
        """Return a query as a statement, which must have the parameter."""
        statement = text(query) if isinstance(query, str) else query
        if not isinstance(statement, ClauseElement) or not isinstance(
            statement, Executable
        ):
            message = (
                f"{name} must be a SELECT as a string or as an SQLAlchemy statement,"
                f" not {query!r}"
            )
            raise ValueError(message)
        if parameter is not None:
            compiled = statement.compile(self._engine)
            has_parameter = parameter in (compiled.params or {})
            require(
                has_parameter,
                name,
                f"a SELECT with the parameter :{parameter}",
                str(compiled),
            )
        return statement


def _require_truth_value(value: object) -> bool:
    """Return the result of ``may_see_account`` as a Boolean.

    Another object is refused: almost every object is true, which would let callers see
    accounts by mistake.
    """
    refuse_deferred(value, "may_see_account")
    if value is None or value in (True, False):
        return bool(value)
    message = (
        "may_see_account must return True or False, not an object of type"
        f" {type(value).__qualname__}"
    )
    raise TypeError(message)


def _read_records(
    reader: RowReader, statement: Executable, values: Parameters
) -> Generator[Record, None, None]:
    with closing(reader.read_batches(statement, values)) as batches:
        for rows in filter(None, batches):
            if len(rows[0]) == 1:
                yield from (_make_document(row[0]) for row in rows)
            else:
                # The column names of a ``Table`` are of a subclass of ``str``, which
                # orjson refuses as keys.
                columns = [str(name) for name in _values_of(rows[0])]
                yield from (dict(zip(columns, row, strict=True)) for row in rows)


def _values_of(row: Row[Any]) -> dict[str, Any]:
    """Return the values of a row by the names of its columns, which must differ."""
    values = dict(zip(row._fields, row, strict=True))
    if len(values) < len(row):
        message = (
            "the columns of a row must have different names, not"
            f" {', '.join(row._fields)}"
        )
        raise ValueError(message)
    return values


def _make_document(value: Any) -> Record:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return value
