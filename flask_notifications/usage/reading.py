"""One snapshot of the store: the recorders and the calls. Writes nothing."""

import json
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from sys import maxsize
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Connection, Engine, func, select
from sqlalchemy.exc import DBAPIError

from flask_notifications.usage import store

from .connections import LOCK_LIMIT, Database, backend, connect, open_engine, read_clock
from .coverage import RecorderRow
from .store import StoreUnavailable, decode, encode, explain, limit_pairs
from .times import DAY, HOUR, start_of_window, to_date

# Rows that are fetched at once, and their columns.
_ROWS = 10_000
_COLUMNS = [
    store.usage.c[name]
    for name in ("day", "operation", "caller", "client", "source", *store.NUMBERS)
]


@dataclass(slots=True)
class Calls:
    """The calls of a caller with a client and a source in a window.

    ``days`` has four integers for each day with calls, because a report has millions of
    them: the number of the day since 1970, and the answered, failed and closed calls.
    """

    first_at: int = maxsize
    last_at: int = -maxsize
    days: "array[int]" = field(default_factory=partial(array, "q"))

    def add(self, day: int, numbers: Sequence[int]) -> None:
        """Add the numbers of a day."""
        first_at, last_at, answered, refused, failed, closed = numbers
        counts = (answered, refused + failed, closed)
        self.first_at, self.last_at = (
            min(self.first_at, first_at),
            max(self.last_at, last_at),
        )
        if any(counts):
            self.days.extend((day, *counts))


# Names of operations; ``None`` is all.
Names: TypeAlias = Collection[str] | None
# Whose calls they are: the operation, the caller, the client and the source.
Name: TypeAlias = tuple[str, str | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the store had at one moment.

    Times are microseconds since 1970; ``began`` is the first that it knows of.

    ``last_call`` is that of the caller who is asked for, also before the window, or 0.
    Logs add to it: ``doubts`` says for each operation why the absence of calls in them
    proves nothing, and ``remarks`` what readers should know, whatever the verdict is.
    """

    now: int
    kept_from: int = 0
    latest: int = 0
    rows: Sequence[RecorderRow] = ()
    plans: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    calls: Mapping[Name, Calls] = field(default_factory=dict)
    began: int | None = None
    last_call: int = 0
    doubts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    remarks: Sequence[str] = ()


@contextmanager
def _reading(database: Database) -> Iterator[Connection]:
    """Lend a connection, with a transaction that sees one state of a database that has
    the tables.
    """
    engine = open_engine(database)
    kind = backend(engine)
    try:
        _require_file(engine)
        with connect(engine, "REPEATABLE READ") as connection:
            connection.begin()
            driver: Any = connection.connection.dbapi_connection
            if kind == "sqlite" and not driver.in_transaction:
                connection.exec_driver_sql(
                    "BEGIN"
                )  # otherwise each SELECT sees a state of its own
            connection.exec_driver_sql(
                LOCK_LIMIT[kind]
            )  # a report may take longer than a write
            if missing := store.missing_tables(connection):
                message = f"the database has no table {' and no table '.join(table.name for table in missing)}"
                raise StoreUnavailable(message)
            yield connection
    except (
        DBAPIError,
        ValueError,
        KeyError,
        TypeError,
        OverflowError,
    ) as error:  # SQLite stores anything in a column
        message = f"the database cannot be read: {explain(error)}"
        raise StoreUnavailable(message) from error
    finally:
        if engine is not database:
            engine.dispose()


def _require_file(engine: Engine) -> None:
    """Keep SQLite from creating an empty file; the file of an SQLite URI is not looked
    for.
    """
    name = engine.url.database or ":memory:"
    is_file = (
        engine.dialect.name == "sqlite"
        and name != ":memory:"
        and not name.startswith("file:")
    )
    if is_file and not Path(name).exists():
        message = f"there is no file {name}"
        raise StoreUnavailable(message)


def read_snapshot(
    database: Database,
    days: int,
    end: int | None,
    last: int | None,
    *,
    names: Names,
    service: str | None,
    caller: str | None,
    planned: Names,
) -> Snapshot:
    """Return the contents of the store for a window of some complete days before its
    end, or ``StoreUnavailable``.

    :param end: ``None`` is now, by the clock of the database.
    :param last: the last moment whose calls belong to the window; ``None`` is its end.
    :param planned: the operations among which the last call of the caller is.
    """
    with _reading(database) as connection:
        now = read_clock(connection)
        since = start_of_window(now if end is None else end, days) // DAY
        kept = connection.scalar(select(store.state.c.kept_from))
        rows = _read_recorders(connection, since, service)
        known = {
            digest: dict(json.loads(text))
            for digest, text in connection.execute(select(store.plans))
        }
        found = _read_calls(connection, since, last, names, service)
        # A row of a later time is one of today or of a later day.
        latest = connection.scalar(
            select(func.max(store.usage.c.last_at)).where(
                store.usage.c.day >= now // DAY
            )
        )
        began = connection.scalar(
            select(func.min(store.recorders.c.began_at)).where(*_recorded_by(service))
        )
        own = [
            store.usage.c.caller == encode(caller),
            *_of_operations(planned),
            *_of_service(service),
        ]
        last_call = (
            connection.scalar(select(func.max(store.usage.c.last_at)).where(*own))
            if caller
            else 0
        )
        return Snapshot(
            now,
            int(kept or 0) * DAY,
            int(latest or 0),
            rows,
            known,
            found,
            None if began is None else int(began),
            int(last_call or 0),
        )


def _read_recorders(
    connection: Connection, since: int, service: str | None
) -> list[RecorderRow]:
    query = select(*(store.recorders.c[name] for name in RecorderRow._fields))
    # A recorder that was lost shortly before the window uncovers its beginning.
    query = query.where(
        store.recorders.c.heard_at >= since * DAY - HOUR, *_recorded_by(service)
    )
    return [  # SQLite stores anything in a column
        RecorderRow(own, decode(host) or "", int(process), plan, *map(int, numbers))
        for own, host, process, plan, *numbers in connection.execute(query)
    ]


def _recorded_by(service: str | None) -> list[ColumnElement[bool]]:
    return [] if service is None else [store.recorders.c.service == service]


def _of_service(service: str | None) -> list[ColumnElement[bool]]:
    if service is None:
        return []
    processes = select(store.recorders.c.id).where(*_recorded_by(service))
    recorder = store.usage.c.recorder
    return [recorder.in_(processes) | store.is_merged_into(service)]


def _of_operations(names: Names) -> list[ColumnElement[bool]]:
    return (
        []
        if names is None
        else [store.usage.c.operation.in_([encode(name) for name in names])]
    )


def _read_calls(
    connection: Connection,
    since: int,
    last: int | None,
    names: Names,
    service: str | None,
) -> dict[Name, Calls]:
    """Return the calls of each caller, with a limited number of callers by name on each
    day.
    """
    query = select(*_COLUMNS).where(
        store.usage.c.day >= since, *_of_operations(names), *_of_service(service)
    )
    if last is not None:
        query = query.where(
            store.usage.c.day <= last // DAY, store.usage.c.first_at <= last
        )
    query = query.order_by(store.usage.c.day, store.usage.c.operation)
    rows = connection.execution_options(yield_per=_ROWS).execute(query)
    name_of = cache(decode)  # most rows have the same names
    calls: defaultdict[Name, Calls] = defaultdict(Calls)
    for (day, operation), group in groupby(rows, key=itemgetter(0, 1)):
        to_date(day)  # an error here says that the store cannot be read
        for labels, numbers in limit_pairs(
            (row[2:5], row[5:]) for row in group
        ).items():
            caller, client, source = map(name_of, labels)
            calls[str(name_of(operation)), caller, client, source].add(day, numbers)
    return calls
