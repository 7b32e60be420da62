"""The tables of the record, and the statements that write them: plain SQLAlchemy Core,
the same for every database.

Each recorder writes rows of its own, so no process waits for another. Knows nothing of
threads, requests or verdicts. All times are whole microseconds since 1970 in UTC, by
the clock of the database.
"""

import json
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.schema import CreateTable

from flask_notifications.log import log_error

from .connections import (
    MARIADB,
    MYSQL,
    Database,
    begin,
    identify,
    is_in_memory,
    open_engine,
)
from .fingerprints import digest
from .ledger import LAST_AT, OTHER, PAIRS, Ledger, Taken, name_others, uptime
from .times import DAY, SECOND

# Until when a recorder promises to be heard again.
PROMISE = 60 * SECOND
# A recorder is merged when its last sign of life is of a past day; its rows are then
# those of `=` and the service.
MERGED = "="
# Days for which nobody had cleaned up, after which the clock is in doubt: a second look
# a day later decides.
_DOUBT = 7 * DAY
# Recorders that one transaction merges, and rows that one deletes.
_MERGED_AT_ONCE, _DELETED_AT_ONCE = 20, 1_000

metadata: sa.MetaData = sa.MetaData()


def _text(length: int) -> sa.String:
    """Return a type for ASCII that every database compares byte by byte."""
    exact = mysql.VARCHAR(length, charset="ascii", collation="ascii_bin")
    return sa.String(length).with_variant(exact, MYSQL, MARIADB)


def _integers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger, nullable=False) for name in names]


def _table(name: str, *columns: sa.Column[Any], **options: Any) -> sa.Table:
    """Return a table with transactions, also in MySQL and MariaDB."""
    return sa.Table(
        name,
        metadata,
        *columns,
        mysql_engine="InnoDB",
        mariadb_engine="InnoDB",
        **options,
    )


# The only row: a random number that identifies the store, the first day whose rows are
# all there, and when a process has looked last for what is to be deleted.
state: sa.Table = _table(
    "flask_notifications_store",
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    *_integers("id", "kept_from", "cleaned_at"),
)
# The fingerprint of each operation for which recorders listened, by name in JSON, and
# its digest.
plans: sa.Table = _table(
    "flask_notifications_plan",
    sa.Column("digest", _text(32), primary_key=True),
    sa.Column(
        "operations",
        sa.Text().with_variant(mysql.MEDIUMTEXT(), MYSQL, MARIADB),
        nullable=False,
    ),
)
# A process from its first request to its end, or a UTC day of it. `lost` are calls,
# `skew` is the largest difference of its clock from the database's, `stamp` is a random
# number that the last write has left.
recorders: sa.Table = _table(
    "flask_notifications_recorder",
    sa.Column("id", _text(65), primary_key=True),
    sa.Column("service", _text(64), nullable=False),
    sa.Column("host", _text(768), nullable=False),
    sa.Column("plan", _text(32), nullable=False),
    sa.Column("heard_at", sa.BigInteger, nullable=False, index=True),
    *_integers(
        "process",
        "began_at",
        "next_at",
        "ended",
        "merged",
        "own_clock",
        "lost",
        "skew",
        "stamp",
    ),
)
NUMBERS = ("first_at", "last_at", "answered", "failed", "closed")
# Names are in ASCII, as within a JSON string; an empty one is none.
usage: sa.Table = _table(
    "flask_notifications_usage",
    sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
    *(
        sa.Column(name, _text(768), primary_key=True)
        for name in ("operation", "caller", "client")
    ),
    sa.Column("source", _text(16), primary_key=True),
    sa.Column("recorder", _text(65), primary_key=True),
    *_integers(*NUMBERS),
    sqlite_with_rowid=False,  # rows of a day lie together
)
_KEY = [column.name for column in usage.primary_key]
_COLUMNS = usage.columns.keys()

Row: TypeAlias = tuple[Any, ...]


class StoreUnavailable(Exception):
    """There is no such database, it cannot be reached, or its tables are missing or
    have foreign content.
    """


class _RowChanged(Exception):
    """The row of a recorder is not as its last write left it."""


def encode(name: str | None) -> str:
    """Return a name as the store has it: in ASCII, because no database refuses that,
    and without a last space.
    """
    if name is None:
        return ""
    encoded = json.dumps(name)[1:-1]
    return f"{encoded[:-1]}\\u0020" if encoded.endswith(" ") else encoded


def decode(encoded: str) -> str | None:
    """Return a name that was encoded."""
    return str(json.loads(f'"{encoded}"')) if encoded else None


def explain(error: Exception) -> str:
    """Return the database's message about an error in one line, without the statement
    and its values.
    """
    cause = getattr(error, "orig", None) or error
    return f"{type(cause).__name__}: {' '.join(str(cause).split())[:200]}"


class UsageStore:
    """Write the counts of recorders. The engine of an application stays open."""

    def __init__(self, database: Database, *, create_tables: bool) -> None:
        self.engine: sa.Engine = open_engine(database)
        self.identity: str = identify(
            self.engine
        )  # now, because the working directory may change
        self._database = database
        self._create_tables = create_tables
        self._id = 0

    def release(self) -> None:
        """Close the connection that nobody uses now."""
        if self.engine is not self._database:
            self.engine.dispose()

    def forget_connections(self) -> None:
        """Leave all connections to the parent, as a process does that has just been
        forked.
        """
        if self.engine is not self._database:
            self.engine = open_engine(
                self._database
            )  # the old one may have locks that a thread of the parent held
        elif not is_in_memory(self.engine):
            self.engine.dispose(close=False)

    def write(self, ledger: Ledger, *, is_final: bool = False) -> int:
        """Write a sign of life with everything that was counted before it, in one
        transaction; return its time.

        If the row of the recorder is not as its last write left it, as after a failover
        or in a restored database, all is written under a new identity. After a final
        write, the rows of the recorder may be merged.
        """
        try:
            return self._write_once(ledger, is_final=is_final)
        except _RowChanged:
            log_error("the row of this recorder is not as it was left; it begins anew")
            ledger.renew()
            return self._write_once(ledger, is_final=is_final)

    def _write_once(self, ledger: Ledger, *, is_final: bool) -> int:
        store = self.prepare()
        try:
            with begin(self.engine) as (connection, at):
                if ledger.clock is not None:
                    ledger.heard = ledger.clock()
                now, ledger.started = (
                    (ledger.heard, 0)
                    if ledger.origin.has_own_clock
                    else (at, at - uptime())
                )
                ledger.compare_times(ledger.take(), now)
                self._sign(connection, ledger, now, is_final=is_final)
                taken = (
                    ledger.take()
                )  # after the row is locked, so that no older totals replace newer ones
                _write_entries(connection, ledger.id, taken)
        except BaseException:
            self._id = 0  # perhaps a table is gone
            raise
        ledger.confirm(store, taken)
        return now

    def prepare(self) -> int:
        """Create missing tables once, and return the ID of the store."""
        if not self._id:
            try:
                self._id = self._initialise()
            except DBAPIError:  # another process that began at the same time was faster
                self._id = self._initialise()
        return self._id

    def _initialise(self) -> int:
        with begin(self.engine) as (connection, _now):
            # Only missing ones, because it may be forbidden to create tables.
            for table in missing_tables(connection) if self._create_tables else ():
                connection.execute(CreateTable(table, if_not_exists=True))
                for index in table.indexes:
                    index.create(connection, checkfirst=True)
            if connection.scalar(sa.select(state.c.id)) is None:
                _insert_once(
                    connection,
                    state,
                    number=1,
                    id=secrets.randbits(62),
                    kept_from=0,
                    cleaned_at=0,
                )
            return int(connection.scalars(sa.select(state.c.id)).one())

    def _sign(
        self, connection: sa.Connection, ledger: Ledger, now: int, *, is_final: bool
    ) -> None:
        """Write a sign of life to the row of a recorder."""
        # Without all counts, the time since the last sign of life in the row is
        # unknown.
        knows_all = ledger.is_own or ledger.is_whole
        sign = {
            "own_id": ledger.id,
            "own_stamp": ledger.stamp,
            "heard": ledger.locate(ledger.heard, now) if knows_all else 0,
            "ends": int(is_final),
            "difference": ledger.skew,
            "attempt": ledger.attempt(),
        }
        if connection.execute(_SIGN, sign).rowcount == 0:
            is_known = sa.select(recorders.c.id).where(recorders.c.id == ledger.id)
            if ledger.store or connection.scalar(
                is_known
            ):  # perhaps a copy of its spool was imported
                raise _RowChanged
            _register(connection, ledger, ledger.locate(ledger.began, now))
            connection.execute(_SIGN, sign)

    def leave_loss(self, ledger: Ledger) -> None:
        """Note in the row of a recorder how many calls are not written, and that it was
        alive at the last of them.
        """
        own = sa.and_(
            recorders.c.id == ledger.id,
            recorders.c.stamp.in_([ledger.stamp, ledger.attempted]),
        )
        last = max(
            (numbers[LAST_AT] for _key, _entry, numbers in ledger.take()), default=0
        )
        lost = (
            sa.update(recorders)
            .where(own)
            .values(lost=recorders.c.lost + ledger.unwritten, heard_at=_HEARD)
        )
        with begin(self.engine) as (connection, _now):
            connection.execute(lost, {"heard": last})

    def merge(self, today: int) -> bool:
        """Merge the rows of some recorders that ended before a day, and return whether
        there may be more.
        """
        candidates = (
            sa.select(recorders)
            .where(
                recorders.c.ended == 1,
                recorders.c.merged == 0,
                recorders.c.heard_at < today * DAY,
            )
            .order_by(recorders.c.heard_at, recorders.c.id)
            .limit(_MERGED_AT_ONCE)
        )
        with begin(self.engine) as (connection, _now):
            connection.execute(
                _STATE.values(id=state.c.id)
            )  # other processes wait until this one has merged
            rows = connection.execute(candidates.with_for_update()).all()
            for service in sorted({row.service for row in rows}):
                own = [row for row in rows if row.service == service]
                days = range(
                    min(row.began_at for row in own) // DAY - 1,
                    max(row.heard_at for row in own) // DAY + 2,
                )
                for day in days:
                    _merge_day(
                        connection, day, [row.id for row in own], f"{MERGED}{service}"
                    )
            ids = [row.id for row in rows]
            connection.execute(
                sa.update(recorders).where(recorders.c.id.in_(ids)).values(merged=1)
            )
        return len(rows) == _MERGED_AT_ONCE

    def clean(self, retention: int, clock: int | None) -> None:
        """Merge rows, and delete rows older than ``retention`` days, in one process
        once a day.
        """
        with begin(self.engine) as (connection, at):
            now = at if clock is None else clock
            cleaned_at = connection.scalars(sa.select(state.c.cleaned_at)).one()
            if cleaned_at <= now < cleaned_at + DAY:
                return
            is_doubtful = clock is None and not cleaned_at <= now < cleaned_at + _DOUBT
            clean = _STATE.where(state.c.cleaned_at == cleaned_at).values(
                cleaned_at=now
            )
            if connection.execute(clean).rowcount == 0 or is_doubtful:
                return
        while self.merge(now // DAY):
            pass
        self._delete_before(now // DAY - retention)

    def _delete_before(self, day: int) -> None:
        with begin(self.engine) as (
            connection,
            _now,
        ):  # first of all, because nothing before it is covered then
            connection.execute(
                _STATE.where(state.c.kept_from < day).values(kept_from=day)
            )
        for table, condition in (
            (usage, usage.c.day < day),
            (recorders, recorders.c.heard_at < day * DAY),
        ):
            key = list(table.primary_key)
            while True:
                with begin(self.engine) as (connection, _now):
                    rows = connection.execute(
                        sa.select(*key).where(condition).limit(_DELETED_AT_ONCE)
                    ).all()
                    _delete_rows(connection, table, [row._asdict() for row in rows])
                if len(rows) < _DELETED_AT_ONCE:
                    break


def _larger(column: sa.Column[int], name: str) -> Any:
    value = sa.bindparam(name, type_=sa.BigInteger)
    return sa.case((column > value, column), else_=value)


# With its key, because MySQL may refuse to update without one.
_STATE = sa.update(state).where(state.c.number == 1)
_HEARD = _larger(recorders.c.heard_at, "heard")
# A sign of life, if the row is as the last write left it, or one whose commit was not
# confirmed.
_SIGN = (
    sa.update(recorders)
    .where(recorders.c.id == sa.bindparam("own_id"), recorders.c.merged == 0)
    .where(recorders.c.stamp.in_([sa.bindparam("own_stamp"), sa.bindparam("attempt")]))
    .values(
        heard_at=_HEARD,
        next_at=_HEARD + PROMISE,
        ended=_larger(recorders.c.ended, "ends"),
    )
    .values(skew=_larger(recorders.c.skew, "difference"), stamp=sa.bindparam("attempt"))
)
_UPDATE = (
    sa.update(usage)
    .where(*(usage.c[name] == sa.bindparam(f"key_{name}") for name in _KEY))
    .values({name: sa.bindparam(f"new_{name}") for name in NUMBERS})
)


def _register(connection: sa.Connection, ledger: Ledger, began: int) -> None:
    """Insert the row of a recorder, which covers nothing yet, and what the recorder
    listens for.
    """
    origin, plan = ledger.origin, digest(ledger.origin.operations)
    if (
        connection.scalar(sa.select(plans.c.digest).where(plans.c.digest == plan))
        is None
    ):
        _insert_once(
            connection, plans, digest=plan, operations=json.dumps(origin.operations)
        )
    own = {
        "id": ledger.id,
        "service": origin.service,
        "host": encode(origin.host),
        "process": origin.process,
    }
    times = {"began_at": began, "heard_at": began, "next_at": began + PROMISE}
    others = {
        "plan": plan,
        "own_clock": int(origin.has_own_clock),
        "stamp": ledger.stamp,
    }
    row = dict.fromkeys(recorders.columns.keys(), 0) | own | times | others
    connection.execute(sa.insert(recorders).values(row))


def missing_tables(connection: sa.Connection) -> list[sa.Table]:
    """Return the tables that the database does not have."""
    tables = sa.inspect(connection)
    return [
        table for name, table in metadata.tables.items() if not tables.has_table(name)
    ]


def _insert_once(connection: sa.Connection, table: sa.Table, **row: Any) -> None:
    """Insert a row, unless another process was faster."""
    with suppress(IntegrityError), connection.begin_nested():
        connection.execute(sa.insert(table).values(row))


def _write_entries(
    connection: sa.Connection, recorder: str, taken: Iterable[Taken]
) -> None:
    """Write totals: update rows that the store has, and replace rows that it may have."""
    old, new = list[Row](), list[Row]()
    for (day, *names), entry, numbers in taken:
        (old if entry.written else new).append(
            (day, *map(encode, names), recorder, *numbers)
        )
    if old:
        columns = [f"{'key' if name in _KEY else 'new'}_{name}" for name in _COLUMNS]
        connection.execute(
            _UPDATE, [dict(zip(columns, row, strict=True)) for row in sorted(old)]
        )
    if new:
        rows = [dict(zip(_COLUMNS, row, strict=True)) for row in sorted(new)]
        _delete_rows(connection, usage, rows)
        connection.execute(sa.insert(usage), rows)


def _merge_day(
    connection: sa.Connection, day: int, ids: Sequence[str], merged: str
) -> None:
    """Replace the rows of some recorders, and those that were merged before, by their
    sums.
    """
    is_merged = sa.and_(usage.c.day == day, usage.c.recorder.in_([*ids, merged]))
    rows = connection.execute(sa.select(usage).where(is_merged)).all()
    if not any(row.recorder != merged for row in rows):
        return
    connection.execute(sa.delete(usage).where(is_merged))
    new = []
    for operation, group in groupby(sorted(rows), key=attrgetter("operation")):
        totals = limit_pairs((row[2:5], row[6:]) for row in group)
        new += [
            (day, operation, *key, merged, *total)
            for key, total in sorted(totals.items())
        ]
    connection.execute(
        sa.insert(usage), [dict(zip(_COLUMNS, row, strict=True)) for row in new]
    )


def limit_pairs(rows: Iterable[tuple[Row, Row]]) -> dict[Row, Row]:
    """Return the sums of an operation and a day by caller, client and source, with a
    limited number of named pairs.
    """
    totals = _sum_up(rows)
    calls: Counter[Row] = Counter()
    for key, numbers in totals.items():
        if key[0] != OTHER:
            calls[key[:2]] += sum(numbers[2:])
    if len(calls) <= PAIRS:
        return totals
    # Pairs with a caller first, then those with more calls.
    named = set(
        sorted(calls, key=lambda pair: (not pair[0], -calls[pair], pair))[:PAIRS]
    )
    return _sum_up(
        (key if key[:2] in named else (*name_others(key[1]), key[2]), numbers)
        for key, numbers in totals.items()
    )


def _sum_up(rows: Iterable[tuple[Row, Row]]) -> dict[Row, Row]:
    totals: dict[Row, Row] = {}
    for key, numbers in rows:
        totals[key] = _add_numbers(totals[key], numbers) if key in totals else numbers
    return totals


def _add_numbers(one: Row, other: Row) -> Row:
    sums = (first + second for first, second in zip(one[2:], other[2:], strict=True))
    return (min(one[0], other[0]), max(one[1], other[1]), *sums)


def _delete_rows(
    connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]
) -> None:
    if rows:
        own = sa.and_(
            *(column == sa.bindparam(column.name) for column in table.primary_key)
        )
        connection.execute(sa.delete(table).where(own), rows)
