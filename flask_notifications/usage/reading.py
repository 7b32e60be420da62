"""One snapshot of the store: the recorders and the calls. Writes nothing."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, func, select

from flask_notifications.usage import store

from .callers import CallTable
from .connections import LOCK_LIMIT, Database, backend, connect, open_engine, read_clock
from .counts import ANSWERED, REFUSED
from .coverage import RecorderRow, Service, find_responsible
from .logs import LogReading
from .options import Options, Window
from .store import StoreUnavailable, decode, encode, explain, limit_pairs
from .times import DAY

# Rows that are fetched at once.
_ROWS = 10_000
# The most days that are searched for a matched request.
_MAX_DAYS = 4_000

Origin: TypeAlias = tuple[str, str]
"""The service and the plan of a recorder."""
Progress: TypeAlias = Callable[[int, int], object]
"""A function that gets the number of days read so far, and that of all days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The contents of the store at one moment, for a window.

    Times are microseconds since 1970. ``names`` are the operations of the report.
    ``services`` are those that were heard in the window or may still live; with
    ``--service`` only that one, while ``known_services`` has the names of all.
    ``unmatched`` are the operations of which no request was answered or refused under
    the present rules since ``kept_from``, the first day that has not been deleted. In a
    report on one caller, ``last_call`` is the time of its last call, even before the
    window; otherwise it is 0. ``logs`` are the results of access logs, and
    ``has_store`` is ``False`` without a database.
    """

    now: int
    window: Window
    names: Sequence[str]
    table: CallTable
    kept_from: int = 0
    services: Sequence[Service] = ()
    known_services: Sequence[str] = ()
    unmatched: Sequence[str] = ()
    last_call: int = 0
    logs: LogReading | None = None
    has_store: bool = True


@contextmanager
def _reading(database: Database) -> Iterator[Connection]:
    """Lend a connection with a transaction that sees one state of the database.

    :raises StoreUnavailable: the database cannot be read, or has no tables of ours.
    """
    engine = open_engine(database)
    try:
        _require_file(engine)
        with connect(engine, "REPEATABLE READ") as connection:
            connection.begin()
            driver: Any = connection.connection.dbapi_connection
            if backend(engine) == "sqlite" and not driver.in_transaction:
                # Otherwise each SELECT would see a different state.
                connection.exec_driver_sql("BEGIN")
            # Limit only the wait for locks: a report may take longer than a write.
            connection.exec_driver_sql(LOCK_LIMIT[backend(engine)])
            _require_tables(connection)
            yield connection
    except StoreUnavailable:
        raise
    except Exception as error:
        # Drivers raise many kinds, and the values in SQLite may have any type.
        message = f"the database cannot be read: {explain(error)}"
        raise StoreUnavailable(message) from error
    finally:
        if engine is not database:
            engine.dispose()


def _require_file(engine: Engine) -> None:
    """Raise ``StoreUnavailable`` if SQLite would create an empty file.

    SQLite's own URIs (``file:…``) are not checked.
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
        window = options.find_window(now)
        kept_from = int(connection.scalar(select(store.state.c.kept_from)) or 0)
        reader = _Reader(connection, options)
        rows = reader.read_recorders(window)
        if any(row.own_clock for row in rows):
            now = window.until  # with a test's clock, the database's says nothing
        services = _make_services(connection, rows, options, window.until, now)
        names = options.names
        if names is None:
            names = list_operations(services, window.since)
        reader.read_calls(window, progress)
        unmatched = reader.list_unmatched(names, services, window.since)
        if unmatched:
            reader.search_all_days(unmatched, kept_from, now // DAY)
            unmatched = reader.list_unmatched(unmatched, services, window.since)
        return Snapshot(
            now=now,
            window=window,
            names=names,
            table=reader.table,
            kept_from=kept_from * DAY,
            services=services,
            known_services=reader.list_known_services(),
            unmatched=unmatched,
            last_call=_find_last_call(connection, options),
        )


def list_operations(services: Iterable[Service], since: int) -> list[str]:
    """Return the operations in the latest plan of each service active since a time."""
    names: set[str] = set()
    for service in services:
        if service.active_until >= since:
            names.update(service.operations)
    return sorted(names)


def _make_services(
    connection: Connection,
    rows: Iterable[RecorderRow],
    options: Options,
    until: int,
    now: int,
) -> list[Service]:
    plans = {}
    for digest, operations in connection.execute(select(store.plans)):
        plans[digest] = dict(json.loads(operations))
    services = []
    for _name, group in groupby(sorted(rows), key=attrgetter("service")):
        service = Service(
            group, plans, until=until, now=now, gone_after=options.gone_after
        )
        services.append(service)
    return services


class _Reader:
    """Read the recorders and the calls of one service, or of all.

    ``read_calls`` adds the calls to ``table``.
    """

    def __init__(self, connection: Connection, options: Options) -> None:
        self.table = CallTable(options)
        # Who recorded answered and refused requests of each operation.
        self._matched: defaultdict[str, set[Origin]] = defaultdict(set)
        self._connection = connection
        self._options = options
        self._origins: dict[str, Origin] = {}
        # Cached, because most rows have the same names.
        self._decode = cache(decode)

    def read_recorders(self, window: Window) -> list[RecorderRow]:
        """Return the recorders that may have been alive in a window.

        Some may have ended before it.
        """
        columns = store.recorders.c
        query = select(columns.id, *(columns[name] for name in RecorderRow._fields))
        is_relevant = sa.or_(
            columns.merged == 0,
            columns.heard_at >= window.since,
            columns.gone_at >= window.since,
        )
        rows = []
        for recorder, service, host, plan, *numbers in self._connection.execute(
            query.where(is_relevant)
        ):
            self._origins[recorder] = (service, plan)
            # Values in SQLite may have any type.
            row = RecorderRow(service, decode(host) or "", plan, *map(int, numbers))
            is_asked = self._options.service in {None, service}
            if is_asked and row.began_at < window.until:
                rows.append(row)
        return rows

    def list_known_services(self) -> list[str]:
        """Return the names of the services whose recorders were read."""
        return sorted({service for service, _plan in self._origins.values()})

    def _origin_of(self, recorder: str) -> Origin:
        """Return the service and the plan of a recorder, or of merged ones."""
        return self._origins.get(recorder) or store.merged_into(recorder) or ("", "")

    def read_calls(self, window: Window, progress: Progress | None) -> None:
        """Read the calls of a window into the table, with a limit of names per day.

        :param progress: called before each day and operation.
        """
        columns = store.usage.c
        first, last = window.since // DAY, window.last // DAY
        query = select(store.usage).where(
            columns.day.between(first, last), columns.first_at <= window.last
        )
        if self._options.names is not None:
            names = [encode(name) for name in self._options.names]
            query = query.where(columns.operation.in_(names))
        query = query.order_by(*store.usage.primary_key)
        rows = self._connection.execute(query.execution_options(yield_per=_ROWS))
        days = window.until // DAY + 1 - first
        for (day, operation), group in groupby(rows, key=itemgetter(0, 1)):
            if progress is not None:
                progress(day - first, days)
            self._add(day, str(self._decode(operation)), group)

    def _add(self, day: int, operation: str, group: Iterable[Any]) -> None:
        """Add the rows of all recorders for a day and an operation to the table."""
        rows = []
        # Columns by their place: there may be millions of rows.
        for _day, _operation, caller, client, source, recorder, *numbers in group:
            origin = self._origin_of(recorder)
            if self._options.service in {None, origin[0]}:
                rows.append(((caller, client, source), numbers))
                if numbers[ANSWERED] or numbers[REFUSED]:
                    self._matched[operation].add(origin)
        for labels, numbers in limit_pairs(rows).items():
            caller, client, source = map(self._decode, labels)
            self.table.add((operation, caller, client, source), day, numbers)

    def list_unmatched(
        self, names: Iterable[str], services: Iterable[Service], since: int
    ) -> list[str]:
        """Return the operations without any answered or refused request.

        Only requests under the present rules count. Operations that no recorder has are
        left out, because the verdict says so anyway.
        """
        unmatched = []
        for name in names:
            origins: set[Origin] = set()
            rules = self._options.rules_of(name)
            for service, plans in find_responsible(services, name, rules, since):
                origins.update((service.name, plan) for plan in plans)
            if origins and origins.isdisjoint(self._matched[name]):
                unmatched.append(name)
        return unmatched

    def search_all_days(self, names: Iterable[str], kept_from: int, today: int) -> None:
        """Note who recorded answered and refused requests of operations on any day."""
        columns = store.usage.c
        first = max(kept_from, today - _MAX_DAYS)
        # A list of days instead of a range, so that the database uses the primary key
        # to find the few rows among millions.
        query = (
            select(columns.operation, columns.recorder)
            .where(
                columns.day.in_(list(range(first, today + 1))),
                columns.operation.in_([encode(name) for name in names]),
                columns.answered + columns.refused > 0,
            )
            .distinct()
        )
        for operation, recorder in self._connection.execute(query):
            name = str(self._decode(operation))
            self._matched[name].add(self._origin_of(recorder))


def _find_last_call(connection: Connection, options: Options) -> int:
    """Return the time of the last call of the only caller of a report, or 0.

    Only calls of the plan's operations count.
    """
    if options.caller is None:
        return 0
    columns = store.usage.c
    names = [encode(name) for name in options.rules or ()]
    query = select(func.max(columns.last_at)).where(
        columns.caller == encode(options.caller), columns.operation.in_(names)
    )
    return int(connection.scalar(query) or 0)
