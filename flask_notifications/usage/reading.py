"""One snapshot of the store: the recorders and the calls. Writes nothing."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, func, select

from flask_notifications.usage import store

from .callers import CallTable
from .connections import LOCK_LIMIT, Database, backend, connect, open_engine, read_clock
from .coverage import RecorderRow, Service, find_responsible
from .logs import LogReading
from .options import Options, Window
from .store import StoreUnavailable, decode, encode, explain, limit_pairs
from .times import DAY

# Rows that are fetched at once.
_ROWS = 10_000
# Where a row of the table of usage has its labels and its numbers.
_LABELS, _NUMBERS = slice(2, 5), slice(6, None)
# Days that are searched for a matched request at most.
_MAX_DAYS = 4_000

Origin: TypeAlias = tuple[str, str]
"""The service and the plan of a recorder."""
Progress: TypeAlias = Callable[[int, int], object]
"""Called with the number of days that have been read, and that of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What the store had at one moment, for a window.

    Times are microseconds since 1970. ``names`` are the operations of the report.
    ``services`` are those that were heard in the window or may still live; with
    ``--service`` only that one, and ``known_services`` has the names of all. Of the
    operations that are ``unmatched``, no request was answered or refused under the
    present rules since ``kept_from``. ``last_call`` is that of the only caller of the
    report, also before the window, or 0. ``logs`` are what access logs show of the
    window, and ``has_store`` is false without a database.
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
        window = options.find_window(now)
        kept_from = int(connection.scalar(select(store.state.c.kept_from)) or 0)
        reader = _Reader(connection, options)
        rows = reader.read_recorders(window)
        if any(row.own_clock for row in rows):
            now = window.until  # a clock of its own is the time of everything
        services = _make_services(connection, rows, options, window.until, now)
        names = options.names
        if names is None:
            names = list_operations(services, window.since)
        reader.read_calls(window, progress)
        unmatched = reader.list_unmatched(names, services, window.since)
        if unmatched:
            reader.search(unmatched, kept_from, now // DAY)
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
    """Return the operations in the latest plan of each service that recorded
    in a window.
    """
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

    ``table`` is that of the snapshot.
    """

    def __init__(self, connection: Connection, options: Options) -> None:
        self.table = CallTable(options)
        # The recorders of answered and refused requests of each operation.
        self._matched: defaultdict[str, set[Origin]] = defaultdict(set)
        self._connection = connection
        self._options = options
        self._origins: dict[str, Origin] = {}
        # Most rows have the same names.
        self._decode = cache(decode)

    def read_recorders(self, window: Window) -> list[RecorderRow]:
        """Return the recorders that may have lived in a window, and perhaps some that
        had ended before.
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
            # SQLite stores anything in a column.
            row = RecorderRow(service, decode(host) or "", plan, *map(int, numbers))
            is_asked = self._options.service in {None, service}
            if is_asked and row.began_at < window.until:
                rows.append(row)
        return rows

    def list_known_services(self) -> list[str]:
        """Return the names of the services whose recorders were read."""
        return sorted({service for service, _plan in self._origins.values()})

    def _origin_of(self, recorder: str) -> Origin:
        """Return the service and the plan of a recorder, which may be merged."""
        return self._origins.get(recorder) or store.merged_into(recorder) or ("", "")

    def read_calls(self, window: Window, progress: Progress | None) -> None:
        """Read the calls of a window, with a limited number of callers by name on each
        day.
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
        for (day, operation), group in groupby(
            rows, key=attrgetter("day", "operation")
        ):
            if progress is not None:
                progress(day - first, days)
            self._add(day, str(self._decode(operation)), group)

    def _add(self, day: int, operation: str, group: Iterable[Any]) -> None:
        rows = []
        for row in group:
            origin = self._origin_of(row.recorder)
            if self._options.service in {None, origin[0]}:
                rows.append((row[_LABELS], row[_NUMBERS]))
                if row.answered or row.refused:
                    self._matched[operation].add(origin)
        for labels, numbers in limit_pairs(rows).items():
            caller, client, source = map(self._decode, labels)
            self.table.add((operation, caller, client, source), day, numbers)

    def list_unmatched(
        self, names: Iterable[str], services: Iterable[Service], since: int
    ) -> list[str]:
        """Return the operations of which no request was answered or refused under the
        present rules, but none that no recorder has, because gaps say that already.
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

    def search(self, names: Iterable[str], kept_from: int, today: int) -> None:
        """Look for matched requests of some operations on all days."""
        columns = store.usage.c
        first = max(kept_from, today - _MAX_DAYS)
        # Single days, so that the primary key finds the few rows among millions.
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
    """Return the time of the last call of the only caller, of an operation of the plan;
    0 if there is none.
    """
    if options.caller is None:
        return 0
    columns = store.usage.c
    names = [encode(name) for name in options.rules or ()]
    query = select(func.max(columns.last_at)).where(
        columns.caller == encode(options.caller), columns.operation.in_(names)
    )
    return int(connection.scalar(query) or 0)
