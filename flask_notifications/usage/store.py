"""The two tables of the usage record, and how calls are added to them by many processes at the same time.

Knows SQLAlchemy Core on SQLite and PostgreSQL; knows nothing of threads, requests or verdicts.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Date,
    DateTime,
    Dialect,
    Engine,
    Integer,
    MetaData,
    NullPool,
    SingletonThreadPool,
    StaticPool,
    String,
    Table,
    and_,
    case,
    cast,
    create_engine,
    delete,
    func,
    inspect,
    make_url,
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.schema import CreateTable

from flask_notifications.validation import require

# The client of a call that only proves that calls are recorded: that of the command ``check``, whose module needs more
# than a recorder should import.
CANARY = "flask-notifications-check"
# The caller and the client of all calls beyond PAIRS. No product of a User-Agent has parentheses.
OTHER = "(other)"
# Pairs of a caller and a client that are kept for an operation and a day.
PAIRS = 200

Pair: TypeAlias = tuple[str, str]
"""A caller and a client; an empty string where there is none."""
Group: TypeAlias = tuple[date, str]
"""A UTC day and the name of an operation."""
Key: TypeAlias = tuple[date, str, str, str, str]
"""A UTC day, the name of an operation, a caller, a client and a source, which may be empty."""
Values = TypeVar("Values", bound=Container[object])
Timeouts: TypeAlias = Mapping[str, Mapping[str, float]]
"""For each driver, arguments of its connections in seconds."""

metadata: MetaData = MetaData()

# Without a caller, client or source the column has an empty string, since a primary key allows no NULL. Times are UTC.
_usage = Table(
    "flask_notifications_usage",
    metadata,
    Column("day", Date, primary_key=True),
    Column("operation", String, primary_key=True),
    Column("caller", String, primary_key=True),
    Column("client", String, primary_key=True),
    Column("source", String, primary_key=True),
    Column("first_at", DateTime, nullable=False),
    Column("last_at", DateTime, nullable=False),
    Column("answered", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("closed", BigInteger, nullable=False),
    sqlite_with_rowid=False,  # rows of a day lie together
)

# Two kinds of rows. With an operation and no recorder: the hours of the day in which it was covered, one bit each, the
# lowest for the first. With a recorder and no operation: the number of the last batch that this recorder has written.
_coverage = Table(
    "flask_notifications_coverage",
    metadata,
    Column("operation", String, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("recorder", String, primary_key=True),
    Column("hours", Integer, nullable=False),
    Column("batches", BigInteger, nullable=False),
)

_SQLITE, _POSTGRESQL = "sqlite", "postgresql"
_INSERT: dict[str, Callable[[Table], sqlite.Insert | postgresql.Insert]] = {
    _SQLITE: sqlite.insert,
    _POSTGRESQL: postgresql.insert,
}

_ISOLATION = {_SQLITE: "SERIALIZABLE", _POSTGRESQL: "READ COMMITTED"}

# Functions that make an array, and an array of all of a group.
_JSON = {
    _SQLITE: (func.json_array, func.json_group_array),
    _POSTGRESQL: (func.json_build_array, func.json_agg),
}

# SQLSTATE: serialization failure, deadlock; and two processes that create the same table at the same time.
_CONFLICTS = frozenset({"40001", "40P01", "23505", "42P07"})

# Primary result codes: SQLITE_BUSY, SQLITE_LOCKED.
_SQLITE_CONFLICTS = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})

# Seconds. PostgreSQL's client gives up after them when the network does.
_NETWORK = {"connect_timeout": 3, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
_TIMEOUTS: Timeouts = {"psycopg": _NETWORK, "psycopg2": _NETWORK}
# A writer tries again later rather than wait: SQLite waits in C code, which stops all greenlets of a process.
_SHORT_TIMEOUTS: Timeouts = {"pysqlite": {"timeout": 0.2}, **_TIMEOUTS}

# Rows that one transaction deletes, so that it holds no lock for long.
_DELETED = 1_000
# Days after which no batch is tried again, so that its recorder's row may go.
_BATCH_DAYS = timedelta(days=7)


class StoreUnavailable(Exception):
    """There is no such database, it cannot be reached, or its tables are missing or have foreign content."""


@dataclass(slots=True)
class Count:
    """The calls with one key; times are aware, in UTC."""

    first_at: datetime
    last_at: datetime
    answered: int = 0
    failed: int = 0
    closed: int = 0

    def add(self, other: "Count") -> None:
        """Add the calls of another one."""
        self.first_at = min(self.first_at, other.first_at)
        self.last_at = max(self.last_at, other.last_at)
        self.answered += other.answered
        self.failed += other.failed
        self.closed += other.closed


@dataclass(frozen=True, slots=True)
class Batch:
    """What one recorder writes in one transaction: at most once, however often it is tried.

    ``number`` counts the batches of ``recorder`` from 1; ``day`` is the last day that it has calls or hours of.
    ``hours`` has every group with calls, because the store locks its row. ``fresh`` are the groups with pairs that the
    store may not have yet.
    """

    recorder: str
    number: int
    day: date
    counts: Mapping[Key, Count]
    hours: Mapping[Group, int]
    fresh: AbstractSet[Group]


def open_engine(database: str | URL | Engine, timeouts: Timeouts) -> Engine:
    """Return the engine itself, or a new one without a pool for a URL; no connection is made.

    :param timeouts: arguments of the connections that the URL does not have.
    :raises ValueError: for another kind of database than SQLite and PostgreSQL, and for one in memory.
    """
    if isinstance(database, Engine):
        _require_dialect(database.dialect)
        return database
    try:
        url = make_url(database)
        dialect = url.get_dialect()
    except (ArgumentError, ValueError):
        message = "database must be an SQLAlchemy URL or engine"  # without the value, which may hold a password
        raise ValueError(message) from None
    _require_dialect(dialect)
    in_memory = dialect.name == _SQLITE and url.database in {None, "", ":memory:"}
    require(not in_memory, "database", "a file that other processes can read", "an SQLite database in memory")
    arguments = {name: value for name, value in timeouts.get(dialect.driver, {}).items() if name not in url.query}
    return create_engine(url, poolclass=NullPool, connect_args=arguments)


def _require_dialect(dialect: Dialect | type[Dialect]) -> None:
    fits = dialect.name in _INSERT and not dialect.is_async
    require(fits, "database", "SQLite or PostgreSQL with a synchronous driver", dialect.name)


def is_conflict(error: Exception) -> bool:
    """Return whether a transaction failed because of another one, so that it can be tried again at once."""
    cause = error.orig if isinstance(error, DBAPIError) else None
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    return state in _CONFLICTS or getattr(cause, "sqlite_errorcode", 0) & 0xFF in _SQLITE_CONFLICTS


def other_key(key: Key) -> Key:
    """Return the key under which calls beyond the limit of pairs are counted; a canary stays one."""
    day, operation, _caller, client, source = key
    return day, operation, OTHER, CANARY if is_canary(client) else OTHER, source


def is_canary(client: str | None) -> bool:
    """Return whether a client is the one whose calls only prove that calls are recorded, in any version."""
    return (client or "").partition("/")[0] == CANARY


def _is_other(caller: str, client: str) -> bool:
    return caller == OTHER and client in {OTHER, CANARY}


class UsageStore:
    """Write batches to the tables, from any number of processes.

    An engine is the application's and stays open; a URL is connected to for each batch.
    """

    def __init__(self, database: str | URL | Engine, *, create_tables: bool) -> None:
        self._engine = open_engine(database, _SHORT_TIMEOUTS)
        self._insert = _INSERT[self._engine.dialect.name]
        self._create_tables = create_tables
        self._has_tables = False

    def write(self, batch: Batch) -> dict[Group, set[Pair]]:
        """Add a batch, unless it has been added, and return the pairs that the store keeps of each fresh group.

        The first statement of the transaction locks the row of the recorder: where an earlier attempt is still being
        committed, this one waits for it. Then the row of each operation and day is locked, in order, so that one
        process after another decides which pairs are kept, and none waits for another in a circle.
        """
        if self._create_tables and not self._has_tables:
            self._create_missing_tables()
        self._has_tables = False  # look again after a failure
        with self._begin() as connection:
            if not self._is_first_attempt(connection, batch):
                return {}
            self._add_hours(connection, batch)
            kept = {group: _pairs(connection, group) for group in batch.fresh}
            self._add_counts(connection, _admit(batch.counts, kept))
        self._has_tables = True
        return kept

    def forget_connections(self) -> None:
        """Leave the pooled connections to the parent, as a process does that has just been forked.

        A database in memory lives in its connections, so those stay.
        """
        if not isinstance(self._engine.pool, StaticPool | SingletonThreadPool):
            self._engine.dispose(close=False)

    def delete_before(self, day: date, today: date) -> bool:
        """Delete some of the rows of earlier days, and return whether there may be more."""
        old_batches = and_(_coverage.c.recorder != "", _coverage.c.day < today - _BATCH_DAYS)
        with self._begin() as connection:
            deleted = [
                _delete_some(connection, _usage, _usage.c.day < day),
                _delete_some(connection, _coverage, or_(_coverage.c.day < day, old_batches)),
            ]
        return _DELETED in deleted

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        with self._engine.connect() as connection:
            # Whatever the application's engine has for its own: under AUTOCOMMIT a batch would be written in part.
            connection.execution_options(isolation_level=_ISOLATION[self._engine.dialect.name])
            with connection.begin():
                yield connection

    def _create_missing_tables(self) -> None:
        """Create the tables unless they are there, since creating may be forbidden then."""
        with self._engine.begin() as connection:
            for table in _missing_tables(connection):
                connection.execute(CreateTable(table, if_not_exists=True))

    def _is_first_attempt(self, connection: Connection, batch: Batch) -> bool:
        row = {"operation": "", "day": batch.day, "recorder": batch.recorder, "hours": 0, "batches": batch.number}
        statement = self._insert(_coverage)
        counted = statement.on_conflict_do_update(
            index_elements=list(_coverage.primary_key),
            set_={"batches": statement.excluded.batches},
            where=_coverage.c.batches < statement.excluded.batches,
        )
        return connection.execute(counted, row, execution_options={"preserve_rowcount": True}).rowcount != 0

    def _add_hours(self, connection: Connection, batch: Batch) -> None:
        """Add the hours that were covered, which locks the row of each group."""
        statement = self._insert(_coverage)
        added = statement.on_conflict_do_update(
            index_elements=list(_coverage.primary_key),
            set_={"hours": _coverage.c.hours.bitwise_or(statement.excluded.hours)},
        )
        rows = [
            {"operation": operation, "day": day, "recorder": "", "hours": mask, "batches": 0}
            for (day, operation), mask in sorted(batch.hours.items())
        ]
        connection.execute(added, rows)

    def _add_counts(self, connection: Connection, counts: Mapping[Key, Count]) -> None:
        statement = self._insert(_usage)
        new, old = statement.excluded, _usage.c
        added = statement.on_conflict_do_update(
            index_elements=list(_usage.primary_key),
            set_={
                **{name: old[name] + new[name] for name in ("answered", "failed", "closed")},
                "first_at": case((new.first_at < old.first_at, new.first_at), else_=old.first_at),
                "last_at": case((new.last_at > old.last_at, new.last_at), else_=old.last_at),
            },
        )
        if counts:
            connection.execute(added, [_row(*each) for each in sorted(counts.items(), key=lambda item: item[0])])


def _pairs(connection: Connection, group: Group) -> set[Pair]:
    """Return the pairs that the store keeps by name for an operation and a day."""
    day, operation = group
    query = select(_usage.c.caller, _usage.c.client).where(_usage.c.day == day, _usage.c.operation == operation)
    pairs = (tuple(row) for row in connection.execute(query.distinct()))
    return {(caller, client) for caller, client in pairs if not _is_other(caller, client)}


def _admit(counts: Mapping[Key, Count], kept: Mapping[Group, set[Pair]]) -> dict[Key, Count]:
    """Add pairs to those that are kept, up to the limit, and return the counts with the rest as others."""
    named: dict[Key, Count] = {}
    for key, count in counts.items():
        day, operation, caller, client, _source = key
        pairs = kept.get((day, operation))
        if pairs is not None and not _is_other(caller, client) and (caller, client) not in pairs:
            if len(pairs) < PAIRS:
                pairs.add((caller, client))
            else:
                key = other_key(key)  # noqa: PLW2901
        if key in named:
            named[key].add(count)
        else:
            named[key] = replace(count)
    return named


def _row(key: Key, count: Count) -> dict[str, object]:
    day, operation, caller, client, source = key
    return {
        "day": day,
        "operation": operation,
        "caller": caller,
        "client": client,
        "source": source,
        "first_at": count.first_at.replace(tzinfo=None),
        "last_at": count.last_at.replace(tzinfo=None),
        "answered": count.answered,
        "failed": count.failed,
        "closed": count.closed,
    }


def _delete_some(connection: Connection, table: Table, condition: ColumnElement[bool]) -> int:
    """Delete rows that no other process deletes, and return their number."""
    key = list(table.primary_key)
    chosen = select(*key).where(condition).limit(_DELETED).with_for_update(skip_locked=True)
    return connection.execute(delete(table).where(tuple_(*key).in_(chosen))).rowcount


@contextmanager
def reading(database: str | URL | Engine) -> Iterator[Connection]:
    """Lend a connection to a database that has the tables.

    :raises StoreUnavailable: when there is no such database, it cannot be reached, or its tables are missing or have
        foreign content.
    """
    engine = open_engine(database, _TIMEOUTS)
    try:
        _require_file(engine)
        with engine.connect() as connection:
            _require_tables(connection)
            yield connection
    except (DBAPIError, ValueError) as error:  # SQLite stores anything in a column
        message = f"the database cannot be read: {explain(error)}"
        raise StoreUnavailable(message) from error
    finally:
        if engine is not database:
            engine.dispose()


def _require_file(engine: Engine) -> None:
    """Keep SQLite from creating an empty file; the file of an SQLite URI is not looked for."""
    name = engine.url.database or ":memory:"
    if (
        engine.dialect.name == _SQLITE
        and name != ":memory:"
        and not name.startswith("file:")
        and not Path(name).exists()
    ):
        message = f"there is no file {name}"
        raise StoreUnavailable(message)


def _require_tables(connection: Connection) -> None:
    missing = _missing_tables(connection)
    if missing:
        message = f"the database has no table {' and no table '.join(table.name for table in missing)}"
        raise StoreUnavailable(message)


def _missing_tables(connection: Connection) -> list[Table]:
    tables = inspect(connection)
    return [table for name, table in metadata.tables.items() if not tables.has_table(name)]


def explain(error: Exception) -> str:
    """Return the database's message about an error in one line, without the statement and its values."""
    cause = getattr(error, "orig", None) or error
    return f"{type(cause).__name__}: {' '.join(str(cause).split())[:200]}"


class Calls(NamedTuple):
    """The calls of a caller with a client and a source during some days; an empty string where there is none.

    ``days`` is a JSON array with an array for each day: the day, and the calls answered, failed and closed.
    """

    operation: str
    caller: str
    client: str
    source: str
    answered: int
    failed: int
    closed: int
    first_at: datetime
    last_at: datetime
    days: str


def read_calls(connection: Connection, first: date, until: datetime, operations: list[str] | None) -> Iterator[Calls]:
    """Return the calls from a day on, of all operations or of those that are listed; the database adds them up."""
    key = [_usage.c[name] for name in ("operation", "caller", "client", "source")]
    counts = [_usage.c[name] for name in ("answered", "failed", "closed")]
    to_array, to_arrays = _JSON[connection.dialect.name]
    query = (
        select(
            *key,
            *(cast(func.sum(count), BigInteger) for count in counts),
            func.min(_usage.c.first_at),
            func.max(_usage.c.last_at),
            cast(to_arrays(to_array(_usage.c.day, *counts)), String),
        )
        .where(_usage.c.day.between(first, until.date()), _usage.c.first_at <= until)
        .group_by(*key)
    )
    if operations is not None:
        query = query.where(_usage.c.operation.in_(operations))
    return (Calls._make(_require_values(row)) for row in connection.execute(query))


def read_coverage(connection: Connection, operations: list[str] | None) -> dict[str, dict[date, int]]:
    """Return for each operation the hours of all days in which it was covered: bit 0 is the first of a day."""
    query = select(_coverage.c.operation, _coverage.c.day, _coverage.c.hours).where(_coverage.c.recorder == "")
    if operations is not None:
        query = query.where(_coverage.c.operation.in_(operations))
    coverage: dict[str, dict[date, int]] = defaultdict(dict)
    for operation, day, hours in map(_require_values, connection.execute(query)):
        coverage[operation][day] = int(hours)
    return coverage


def _require_values(row: Values) -> Values:
    if None in row:
        message = "a value is missing"
        raise ValueError(message)
    return row
