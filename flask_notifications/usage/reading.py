"""One snapshot of the store: the recorders and the calls. Writes nothing."""

import json
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from sys import maxsize
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, func, select

from flask_notifications.usage import store

from .connections import LOCK_LIMIT, Database, backend, connect, open_engine, read_clock
from .counts import ANSWERED, REFUSED
from .coverage import RecorderRow, Service
from .logs import LogReading
from .options import Options
from .store import StoreUnavailable, decode, encode, explain, limit_pairs
from .times import DAY, start_of_window, to_date

# Rows that are fetched at once, and their columns.
_ROWS = 10_000
_COLUMNS = [
    store.usage.c[name]
    for name in (
        *("day", "operation", "caller", "client", "source"),
        *store.NUMBERS,
        "recorder",
    )
]
_LABELS, _NUMBERS = slice(2, 5), slice(5, 11)
# Days that are searched for a matched request at most.
_MAX_DAYS = 4_000

Name: TypeAlias = tuple[str, str | None, str | None, str | None]
"""Whose calls they are: the operation, the caller, the client and the source."""
Origin: TypeAlias = tuple[str, str]
"""The service and the plan of a recorder."""
Progress: TypeAlias = Callable[[int, int], object]
"""Called with the number of days that have been read, and that of all."""


@dataclass(slots=True)
class Calls:
    """The calls of a caller with a client and a source in a window.

    ``days`` has five integers for each day with calls, because a report has millions of
    them: the number of the day since 1970, and the answered, refused, failed and closed
    calls.
    """

    first_at: int = maxsize
    last_at: int = -maxsize
    days: "array[int]" = field(default_factory=partial(array, "q"))

    def add(self, day: int, numbers: Sequence[int]) -> None:
        """Add the numbers of a day."""
        first_at, last_at, *counts = numbers
        self.first_at = min(self.first_at, first_at)
        self.last_at = max(self.last_at, last_at)
        if any(counts):
            self.days.extend((day, *counts))

    @property
    def totals(self) -> tuple[int, int, int, int]:
        """The answered, refused, failed and closed calls of all days."""
        days = self.days
        return sum(days[1::5]), sum(days[2::5]), sum(days[3::5]), sum(days[4::5])


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the store had at one moment, for a window.

    Times are microseconds since 1970. ``services`` are those that were heard in the
    window or may still live, and ``began`` says when the first recorder of a service
    with a plan did. ``matched`` has, for each operation, the recorders that recorded an
    answered or refused request of it since ``kept_from``. ``last_call`` is that of the
    only caller of the report, also before the window, or 0. ``logs`` are what access
    logs show of the window, and ``has_store`` is false without a database.
    """

    now: int
    since: int
    until: int
    kept_from: int = 0
    services: Sequence[Service] = ()
    began: Mapping[Origin, int] = field(default_factory=dict)
    calls: Mapping[Name, Calls] = field(default_factory=dict)
    matched: Mapping[str, set[Origin]] = field(default_factory=dict)
    last_call: int = 0
    logs: LogReading | None = None
    has_store: bool = True

    @property
    def has_own_clock(self) -> bool:
        """Whether a recorder has a clock of its own, which then is the time of all."""
        for service in self.services:
            if any(row.own_clock for row in service.rows):
                return True
        return False


@contextmanager
def _reading(database: Database) -> Iterator[Connection]:
    """Lend a connection, with a transaction that sees one state of a database that has
    the tables.
    """
    engine = open_engine(database)
    try:
        _require_file(engine)
        with connect(engine, "REPEATABLE READ") as connection:
            connection.begin()
            driver: Any = connection.connection.dbapi_connection
            if backend(engine) == "sqlite" and not driver.in_transaction:
                # Otherwise each SELECT sees a state of its own.
                connection.exec_driver_sql("BEGIN")
            # A report may take longer than a write.
            connection.exec_driver_sql(LOCK_LIMIT[backend(engine)])
            _require_tables(connection)
            yield connection
    except StoreUnavailable:
        raise
    except Exception as error:
        # Drivers raise many kinds, and SQLite stores anything in a column.
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


def _require_tables(connection: Connection) -> None:
    missing = store.missing_tables(connection)
    if missing:
        message = (
            f"no recorder has written here yet: there is no table {missing[0].name}"
        )
        raise StoreUnavailable(message)


def read_snapshot(
    database: Database, options: Options, progress: Progress | None = None
) -> Snapshot:
    """Return the contents of the store for a window, or raise ``StoreUnavailable``."""
    with _reading(database) as connection:
        now = read_clock(connection)
        until = now if options.end is None else options.end.at
        since = start_of_window(until, options.days)
        state = select(store.state.c.kept_from)
        kept_from = int(connection.scalar(state) or 0)
        services = _read_services(connection, options, since, until, now)
        reader = _CallReader(connection, options)
        reader.read(since // DAY, until, progress)
        unmatched = reader.list_unmatched(services)
        if unmatched:
            reader.search(unmatched, kept_from, now // DAY)
        return Snapshot(
            now=now,
            since=since,
            until=until,
            kept_from=kept_from * DAY,
            services=services,
            began=_read_beginnings(connection),
            calls=reader.calls,
            matched=reader.matched,
            last_call=_read_last_call(connection, options, reader),
        )


def _read_services(
    connection: Connection, options: Options, since: int, until: int, now: int
) -> list[Service]:
    """Return the recorders that were heard in a window, or may still have lived then."""
    recorders = store.recorders.c
    is_doubtful = sa.and_(
        recorders.ended == 0,
        sa.or_(recorders.gone_at == 0, recorders.gone_at >= since),
    )
    query = select(*(recorders[name] for name in RecorderRow._fields)).where(
        recorders.began_at < until, sa.or_(recorders.heard_at >= since, is_doubtful)
    )
    if options.service is not None:
        query = query.where(recorders.service == options.service)
    rows: defaultdict[str, list[RecorderRow]] = defaultdict(list)
    for service, host, process, plan, *numbers in connection.execute(query):
        # SQLite stores anything in a column.
        times = [int(number) for number in numbers]
        name = decode(host) or ""
        rows[service].append(RecorderRow(service, name, int(process), plan, *times))
    plans = {}
    for digest, operations in connection.execute(
        select(store.plans.c.digest, store.plans.c.operations)
    ):
        plans[digest] = dict(json.loads(operations))
    services = []
    for name in sorted(rows):
        service = Service(
            rows[name],
            plans,
            since=since,
            until=until,
            now=now,
            gone_after=options.gone_after,
        )
        services.append(service)
    return services


def _read_beginnings(connection: Connection) -> dict[Origin, int]:
    """Return when the first recorder of each service with each plan began."""
    recorders = store.recorders.c
    query = select(recorders.service, recorders.plan, func.min(recorders.began_at))
    beginnings = {}
    for service, plan, began_at in connection.execute(
        query.group_by(recorders.service, recorders.plan)
    ):
        beginnings[service, plan] = int(began_at)
    return beginnings


class _CallReader:
    """Read the calls of one service, or of all.

    ``calls`` and ``matched`` are those of the snapshot.
    """

    def __init__(self, connection: Connection, options: Options) -> None:
        self.calls: defaultdict[Name, Calls] = defaultdict(Calls)
        self.matched: defaultdict[str, set[Origin]] = defaultdict(set)
        self._connection = connection
        self._options = options
        # Most rows have the same names and recorders.
        self._decode = cache(decode)
        self._find_origin = cache(store.merged_into)
        self._origins: dict[str, Origin] = {}
        recorders = store.recorders.c
        query = select(recorders.id, recorders.service, recorders.plan)
        for recorder, service, plan in connection.execute(
            query.where(recorders.merged == 0)
        ):
            self._origins[recorder] = (service, plan)

    def origin_of(self, recorder: str) -> Origin:
        """Return the service and the plan of a recorder, which may be merged."""
        return self._origins.get(recorder) or self._find_origin(recorder) or ("", "")

    def read(self, first: int, until: int, progress: Progress | None) -> None:
        """Read the calls of a window, with a limited number of callers by name on each
        day.
        """
        usage = store.usage.c
        options = self._options
        last = until if options.end is None else options.end.last
        query = select(*_COLUMNS).where(usage.day >= first)
        if options.end is not None:
            query = query.where(usage.day <= last // DAY, usage.first_at <= last)
        if options.names is not None:
            names = [encode(name) for name in options.names]
            query = query.where(usage.operation.in_(names))
        query = query.order_by(usage.day, usage.operation)
        stream = self._connection.execution_options(yield_per=_ROWS)
        rows = self._select(stream.execute(query))
        number = last // DAY + 1 - first
        for (day, operation), group in groupby(rows, key=itemgetter(0, 1)):
            to_date(day)  # an error here says that the store cannot be read
            if progress is not None:
                progress(day - first, number)
            self._add(day, str(self._decode(operation)), group)

    def _select(self, rows: Iterable[Any]) -> Iterable[Any]:
        """Return the rows of the service that was asked for."""
        service = self._options.service
        if service is None:
            return rows
        return (row for row in rows if self.origin_of(row[-1])[0] == service)

    def _add(self, day: int, operation: str, group: Iterable[Any]) -> None:
        rows = []
        recorders = set()
        for row in group:
            numbers = row[_NUMBERS]
            rows.append((row[_LABELS], numbers))
            if numbers[ANSWERED] or numbers[REFUSED]:
                recorders.add(row[-1])
        self.matched[operation].update(map(self.origin_of, recorders))
        for labels, numbers in limit_pairs(rows).items():
            caller, client, source = map(self._decode, labels)
            self.calls[operation, caller, client, source].add(day, numbers)

    def list_unmatched(self, services: Iterable[Service]) -> list[str]:
        """Return the operations of which no request was matched in the window under the
        rules of a service.
        """
        options = self._options
        unmatched = []
        for service in services:
            names = service.operations if options.names is None else options.names
            for name in names:
                rules = None
                if options.rules is not None:
                    rules = options.rules.get(name, "")
                plans = service.plans_with(name, rules) or ()
                origins = {(service.name, plan) for plan in plans}
                if origins and origins.isdisjoint(self.matched[name]):
                    unmatched.append(name)
        return unmatched

    def search(self, names: Iterable[str], kept_from: int, today: int) -> None:
        """Look for matched requests of some operations on all days."""
        usage = store.usage.c
        earliest = self._connection.scalar(select(func.min(usage.day)))
        if earliest is None:
            return
        first = max(kept_from, int(earliest), today - _MAX_DAYS)
        # Single days, so that the primary key finds the few rows among millions.
        query = (
            select(usage.operation, usage.recorder)
            .where(
                usage.day.in_(list(range(first, today + 1))),
                usage.operation.in_([encode(name) for name in names]),
                usage.answered + usage.refused > 0,
            )
            .distinct()
        )
        for operation, recorder in self._connection.execute(query):
            name = str(self._decode(operation))
            self.matched[name].add(self.origin_of(recorder))


def _read_last_call(
    connection: Connection, options: Options, reader: _CallReader
) -> int:
    """Return the time of the last call of the only caller, of an operation of the plan."""
    if options.caller is None:
        return 0
    usage = store.usage.c
    query = select(usage.recorder, func.max(usage.last_at)).where(
        usage.caller == encode(options.caller)
    )
    if options.rules is not None:
        names = [encode(name) for name in options.rules]
        query = query.where(usage.operation.in_(names))
    last = 0
    for recorder, last_at in connection.execute(query.group_by(usage.recorder)):
        is_asked = options.service in {None, reader.origin_of(recorder)[0]}
        if is_asked:
            last = max(last, int(last_at))
    return last
