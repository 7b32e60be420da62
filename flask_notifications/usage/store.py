"""The tables of the record, and the statements that write them.

They are plain SQLAlchemy Core, the same for every database. Each recorder writes its
own rows, so no process waits for another. Knows nothing of threads, requests or
verdicts. All times are whole microseconds since 1970 in UTC, by the clock of the
database.
"""

import json
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import add, attrgetter
from typing import Any, TypeAlias, TypeVar

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
    is_conflict,
    is_in_memory,
    open_engine,
)
from .counts import (
    ANSWERED,
    FIRST_AT,
    LAST_AT,
    OTHER,
    PAIRS,
    Change,
    Counts,
    name_others,
)
from .fingerprints import digest
from .times import CLOCK_LIMIT, DAY, OVERDUE, SECOND

# How long a recorder must have been in contact with the database before it declares
# others gone, and the longest pause between two signs of life within this time.
_CONTACT, _BREAK = 60 * SECOND, 45 * SECOND
# Merged rows belong to a pseudo-recorder, whose ID is this prefix, the digest of a plan
# and the service.
_MERGED = "="
_DIGEST = 32
# If nobody has cleaned up for this time, the clock may be wrong: nothing is deleted
# until it has moved on by a day.
_DOUBT = 7 * DAY
# How often a write is repeated after a conflict.
_REPEATS = 3
# Recorders that one transaction merges, and rows that one transaction deletes.
_MERGED_AT_ONCE, _DELETED_AT_ONCE = 20, 1_000

metadata: sa.MetaData = sa.MetaData()


def _text(length: int) -> sa.String:
    """Return a type for ASCII strings, compared byte by byte in every database."""
    exact = mysql.VARCHAR(length, charset="ascii", collation="ascii_bin")
    return sa.String(length).with_variant(exact, MYSQL, MARIADB)


def _integers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger, nullable=False) for name in names]


def _table(name: str, *columns: sa.Column[Any] | sa.Index, **options: Any) -> sa.Table:
    """Define a table, with transactions in MySQL and MariaDB, too."""
    return sa.Table(
        name,
        metadata,
        *columns,
        mysql_engine="InnoDB",
        mariadb_engine="InnoDB",
        **options,
    )


# One row: the first day whose rows have not been deleted, and the last time at which a
# process cleaned up.
state: sa.Table = _table(
    "flask_notifications_store",
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    *_integers("kept_from", "cleaned_at"),
)
# The operations of a plan: the fingerprint of each, by name, as JSON; and the digest of
# that.
plans: sa.Table = _table(
    "flask_notifications_plan",
    sa.Column("digest", _text(_DIGEST), primary_key=True),
    sa.Column(
        "operations",
        sa.Text().with_variant(mysql.MEDIUMTEXT(), MYSQL, MARIADB),
        nullable=False,
    ),
)
# A process from its first request to its end. `heard_at` is its last sign of life,
# `skew` the largest difference of its clock from the database's, `gone_at` the time at
# which another recorder declared it gone, or 0, and `stamp` a random number that its
# last write has left. `own_clock` is 1 for a test's clock.
recorders: sa.Table = _table(
    "flask_notifications_recorder",
    sa.Column("id", _text(32), primary_key=True),
    sa.Column("service", _text(64), nullable=False),
    sa.Column("host", _text(768), nullable=False),
    sa.Column("plan", _text(_DIGEST), nullable=False),
    sa.Column("heard_at", sa.BigInteger, nullable=False, index=True),
    *_integers(
        "process",
        "began_at",
        "skew",
        "ended",
        "gone_at",
        "own_clock",
        "merged",
        "stamp",
    ),
    # To find recorders that may be overdue.
    sa.Index("ix_flask_notifications_recorder_ended", "ended", "gone_at", "heard_at"),
)
NUMBERS = ("first_at", "last_at", "answered", "refused", "failed", "closed")
# Names are in ASCII, escaped as in a JSON string; an empty one means `None`.
usage: sa.Table = _table(
    "flask_notifications_usage",
    sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
    *(
        sa.Column(name, _text(768), primary_key=True)
        for name in ("operation", "caller", "client")
    ),
    sa.Column("source", _text(16), primary_key=True),
    sa.Column("recorder", _text(1 + _DIGEST + 64), primary_key=True),
    *_integers(*NUMBERS),
    sqlite_with_rowid=False,  # keeps the rows of a day next to each other
)
_KEY = [column.name for column in usage.primary_key]
_COLUMNS = usage.columns.keys()

Row: TypeAlias = tuple[Any, ...]
Result = TypeVar("Result")


class StoreUnavailable(Exception):
    """The database cannot be read.

    It does not exist, cannot be reached, or its tables are missing or have content that
    no recorder has written.
    """


class _CannotVouch(Exception):
    """Calls since a recorder's last sign of life may be missing from its counts."""


def encode(name: str | None) -> str:
    """Return a name as the store has it.

    It is in ASCII, because every database accepts that, and a last space is escaped,
    because some ignore it.
    """
    if name is None:
        return ""
    encoded = json.dumps(name)[1:-1]
    return f"{encoded[:-1]}\\u0020" if encoded.endswith(" ") else encoded


def decode(encoded: str) -> str | None:
    """Return the name that ``encode`` was given; ``None`` for an empty string."""
    return str(json.loads(f'"{encoded}"')) if encoded else None


def explain(error: Exception) -> str:
    """Return the database's error message in one line, without statement and values."""
    cause = getattr(error, "orig", None) or error
    return f"{type(cause).__name__}: {' '.join(str(cause).split())[:200]}"


def merged_into(recorder: str) -> tuple[str, str] | None:
    """Return the service and the digest of the plan in a pseudo-recorder's ID.

    Return ``None`` for the ID of a process.
    """
    if not recorder.startswith(_MERGED):
        return None
    start = len(_MERGED)
    return recorder[start + _DIGEST :], recorder[start : start + _DIGEST]


@dataclass(kw_only=True, eq=False)
class Identity:
    """A recorder as its row shows it, and what this process knows of that row.

    ``clock`` returns microseconds: since 1970 if ``has_own_clock``, as in tests, and
    otherwise by a monotonic clock. ``began`` is the time, by ``clock``, since which all
    calls are counted.
    """

    service: str
    host: str
    process: int
    operations: Mapping[str, str]
    clock: Callable[[], int]
    has_own_clock: bool
    began: int

    def __post_init__(self) -> None:
        self.plan: str = digest(self.operations)
        self._in_contact_since = self._heard_at = 0
        self._take_id(self.began)

    def _take_id(self, began: int) -> None:
        self.id: str = secrets.token_hex(16)
        self.began = began
        self.skew: int = 0
        self._is_clock_off: bool | None = None
        # The row has `stamp`. It has `attempt` instead if the last write was committed
        # without a confirmation, as after a lost connection.
        self.stamp: int = 0
        self.attempt: int = 0

    def renew(self) -> None:
        """Take a new ID, for a row that covers the time from now on."""
        self._take_id(self.clock())

    def prepare(self, now: int, changes: Iterable[Change], *, is_whole: bool) -> None:
        """Compare the clocks, and choose the stamp of a write.

        The stamp stays the same until a write is confirmed.

        :param now: the time of the database.
        :raises _CannotVouch: a call was lost, or the clock was set: it differs too much
            from the database's and did not before, or the reverse.
        """
        if not is_whole:
            message = "a call was lost"
            raise _CannotVouch(message)
        if self.attempt == self.stamp:
            # Random, so that a clone of this machine does not choose the same.
            self.attempt = secrets.randbits(62)
        if self.has_own_clock:
            return
        difference = abs(time.time_ns() // 1000 - now)
        is_off = difference > CLOCK_LIMIT
        if self._is_clock_off not in {None, is_off}:
            message = "its clock was set"
            raise _CannotVouch(message)
        self._is_clock_off = is_off
        self.skew = max(self.skew, difference)
        # Calls have the time of the middleware's clock, which may differ even more.
        began_at = self.began_at(now)
        for change in changes:
            later = change.numbers[LAST_AT] - now
            earlier = began_at - change.numbers[FIRST_AT]
            self.skew = max(self.skew, later, earlier)

    def began_at(self, now: int) -> int:
        """Return when counting began, by the clock of the database."""
        return now - (self.clock() - self.began)

    def confirm(self, now: int) -> None:
        """Note that the last attempt was committed."""
        self.stamp = self.attempt
        if not 0 <= now - self._heard_at <= _BREAK:
            self._in_contact_since = now
        self._heard_at = now

    def is_in_contact(self, now: int) -> bool:
        """Return whether a sign of life at this time completes a minute of contact."""
        has_no_break = 0 <= now - self._heard_at <= _BREAK
        return has_no_break and now - self._in_contact_since >= _CONTACT


class UsageStore:
    """Write the counts of recorders; never close the engine of an application."""

    def __init__(self, database: Database, *, create_tables: bool) -> None:
        self.engine: sa.Engine = open_engine(database)
        self._database = database
        self._create_tables = create_tables
        self._is_prepared = False
        # When this process last reached the database, by the recorder's clock.
        self.written_at: int | None = None

    def release(self) -> None:
        """Close unused connections, except those of an application's engine."""
        if self.engine is not self._database:
            self.engine.dispose()

    def forget_connections(self) -> None:
        """Leave all connections to the parent process, after a fork."""
        self._is_prepared, self.written_at = False, None
        if self.engine is not self._database:
            # A new one, because a thread of the parent may have held locks in the old.
            self.engine = open_engine(self._database)
        elif not is_in_memory(self.engine):
            self.engine.dispose(close=False)

    def write(
        self, identity: Identity, counts: Counts, *, is_final: bool = False
    ) -> int:
        """Write a sign of life and everything that was counted before it.

        That is one transaction; return its time. A recorder that cannot vouch for the
        time since its last sign of life leaves its row as it is and writes all totals
        to a new one. After a final write, the rows of the recorder may be merged.
        """
        write = partial(self._write_once, identity, counts, is_final=is_final)
        try:
            return _repeat_conflicts(write)
        except _CannotVouch as error:
            log_error("this recorder begins anew: %s", error)
            if not identity.stamp:  # it has no row yet
                self._write_loss(identity)
            # Before ``renew``: a call that is lost from here on concerns the new row.
            counts.is_whole = True
            identity.renew()
            counts.forget_written()
            return _repeat_conflicts(write)

    def _write_loss(self, identity: Identity) -> None:
        """Uncover the time since a recorder without a row began.

        The row covers nothing, and stays silent until it is declared gone.
        """
        with begin(self.engine) as (connection, at):
            now = identity.clock() if identity.has_own_clock else at
            began_at = identity.began_at(now)
            _insert_recorder(connection, identity, began_at, began_at, is_final=False)

    def _write_once(self, identity: Identity, counts: Counts, *, is_final: bool) -> int:
        self._prepare()
        try:
            with begin(self.engine) as (connection, at):
                now = identity.clock() if identity.has_own_clock else at
                changes = counts.changes()
                identity.prepare(now, changes, is_whole=counts.is_whole)
                _sign(connection, identity, now, is_final=is_final)
                _write_changes(connection, identity.id, changes)
                if identity.is_in_contact(now):
                    _declare_gone(connection, identity, now)
        except BaseException:
            self._is_prepared = False  # perhaps a table was dropped
            raise
        identity.confirm(now)
        counts.confirm(changes)
        self.written_at = identity.clock()
        return now

    def _prepare(self) -> None:
        """Create missing tables once."""
        if self._is_prepared:
            return
        try:
            self._initialise()
        except DBAPIError:  # perhaps another process created them at the same time
            self._initialise()
        self._is_prepared = True

    def _initialise(self) -> None:
        with begin(self.engine) as (connection, _now):
            if self._create_tables:
                # Only missing ones: this user may not be allowed to create any.
                for table in missing_tables(connection):
                    connection.execute(CreateTable(table, if_not_exists=True))
                    for index in table.indexes:
                        index.create(connection, checkfirst=True)
            if connection.scalar(sa.select(state.c.number)) is None:
                _insert_once(connection, state, number=1, kept_from=0, cleaned_at=0)

    def merge(self, today: int) -> bool:
        """Merge the rows of some recorders that ended before today.

        Return whether there may be more.
        """
        candidates = (
            sa.select(recorders)
            .where(
                _HAS_ENDED,
                recorders.c.merged == 0,
                recorders.c.heard_at < today * DAY,
            )
            .order_by(recorders.c.heard_at, recorders.c.id)
            .limit(_MERGED_AT_ONCE)
        )
        with begin(self.engine) as (connection, _now):
            # Locks the row, so that other processes wait until this one has merged.
            connection.execute(_STATE.values(number=1))
            rows = connection.execute(candidates.with_for_update()).all()
            ids = defaultdict(list)
            for row in rows:
                ids[merged_id(row)].append(row.id)
            # A day more on each side, because calls have the time of another clock.
            first = min((row.began_at for row in rows), default=0) // DAY - 1
            last = max((row.heard_at for row in rows), default=0) // DAY + 1
            for day in range(first, last + 1):
                for merged in sorted(ids):
                    _merge_day(connection, day, ids[merged], merged)
            are_merged = recorders.c.id.in_([row.id for row in rows])
            merge = sa.update(recorders).where(are_merged)
            connection.execute(merge.values(merged=1))
        return len(rows) == _MERGED_AT_ONCE

    def clean(self, retention: int, now: int, identity: Identity) -> None:
        """Merge rows, and delete rows older than ``retention`` days.

        Of all processes that call this, only one does so, once a day.
        """
        with begin(self.engine) as (connection, _now):
            cleaned_at = connection.scalars(sa.select(state.c.cleaned_at)).one()
            if cleaned_at <= now < cleaned_at + DAY:
                return
            clean = _STATE.where(state.c.cleaned_at == cleaned_at)
            is_first = connection.execute(clean.values(cleaned_at=now)).rowcount
            is_doubtful = not cleaned_at <= now < cleaned_at + _DOUBT
            if not is_first or (is_doubtful and not identity.has_own_clock):
                return
        while _repeat_conflicts(partial(self.merge, now // DAY)):
            pass
        self._delete_before(now // DAY - retention)

    def _delete_before(self, day: int) -> None:
        # Say first that nothing before the day is covered, then delete it.
        with begin(self.engine) as (connection, _now):
            connection.execute(
                _STATE.where(state.c.kept_from < day).values(kept_from=day)
            )
        # Keep recorders as long as they may uncover time that is kept: until they were
        # declared gone, and by clocks that differ.
        end = day * DAY - CLOCK_LIMIT
        has_expired = sa.and_(
            _HAS_ENDED, recorders.c.heard_at < end, recorders.c.gone_at < end
        )
        for table, condition in ((usage, usage.c.day < day), (recorders, has_expired)):
            while _repeat_conflicts(partial(self._delete_some, table, condition)):
                pass

    def _delete_some(self, table: sa.Table, condition: sa.ColumnElement[bool]) -> bool:
        """Delete some rows, and return whether there may be more."""
        key = sa.select(*table.primary_key).where(condition).limit(_DELETED_AT_ONCE)
        with begin(self.engine) as (connection, _now):
            rows = connection.execute(key).all()
            _delete_rows(connection, table, [row._asdict() for row in rows])
        return len(rows) == _DELETED_AT_ONCE


def _repeat_conflicts(write: Callable[[], Result]) -> Result:
    """Return what a transaction returns; repeat it after conflicts with another one."""
    for _ in range(_REPEATS):
        try:
            return write()
        except DBAPIError as error:
            if not is_conflict(error):
                raise
    return write()


def merged_id(row: Any) -> str:
    """Return the ID of the pseudo-recorder for the merged rows of a recorder."""
    return f"{_MERGED}{row.plan}{row.service}"


# With the key, because MySQL in safe mode refuses an UPDATE without one.
_STATE = sa.update(state).where(state.c.number == 1)
_HAS_ENDED = sa.or_(recorders.c.ended == 1, recorders.c.gone_at > 0)
_UPDATE = (
    sa.update(usage)
    .where(*(usage.c[name] == sa.bindparam(f"its_{name}") for name in _KEY))
    .values({name: sa.bindparam(f"its_{name}") for name in NUMBERS})
)


def _sign(
    connection: sa.Connection, identity: Identity, now: int, *, is_final: bool
) -> None:
    """Write a sign of life to the row of a recorder; insert the row if it has none.

    :raises _CannotVouch: the row is gone, or not as the last write left it: another
        recorder declared this one gone, or a clone of this machine has written.
    """
    sign = sa.update(recorders).where(
        recorders.c.id == identity.id,
        recorders.c.gone_at == 0,
        recorders.c.stamp.in_([identity.stamp, identity.attempt]),
    )
    values = {
        "heard_at": now,
        "skew": identity.skew,
        "ended": int(is_final),
        "stamp": identity.attempt,
    }
    if connection.execute(sign.values(values)).rowcount:
        return
    exists = sa.select(recorders.c.id).where(recorders.c.id == identity.id)
    if identity.stamp or connection.scalar(exists):
        message = "its row is not as its last write left it"
        raise _CannotVouch(message)
    began_at = identity.began_at(now)
    _insert_recorder(connection, identity, began_at, now, is_final=is_final)


def _insert_recorder(
    connection: sa.Connection,
    identity: Identity,
    began_at: int,
    heard_at: int,
    *,
    is_final: bool,
) -> None:
    exists = sa.select(plans.c.digest).where(plans.c.digest == identity.plan)
    if connection.scalar(exists) is None:
        operations = json.dumps(identity.operations)
        _insert_once(connection, plans, digest=identity.plan, operations=operations)
    _insert_once(
        connection,
        recorders,
        id=identity.id,
        service=identity.service,
        host=encode(identity.host),
        process=identity.process,
        plan=identity.plan,
        began_at=began_at,
        heard_at=heard_at,
        skew=identity.skew,
        ended=int(is_final),
        gone_at=0,
        own_clock=int(identity.has_own_clock),
        merged=0,
        stamp=identity.attempt,
    )


def _declare_gone(connection: sa.Connection, identity: Identity, now: int) -> None:
    """Declare the overdue recorders of the same service and host gone."""
    is_overdue = sa.and_(
        recorders.c.ended == 0,
        recorders.c.gone_at == 0,
        recorders.c.heard_at < now - OVERDUE,
    )
    overdue = sa.select(recorders.c.id).where(
        is_overdue,
        recorders.c.service == identity.service,
        recorders.c.host == encode(identity.host),
        recorders.c.own_clock == int(identity.has_own_clock),
        recorders.c.id != identity.id,
    )
    # Select them first: an UPDATE in MariaDB would lock every row that it examines.
    ids = connection.scalars(overdue).all()
    if ids:
        gone = sa.update(recorders).where(recorders.c.id.in_(ids), is_overdue)
        # Their last calls have the time of the host's clock, which is off by `skew`.
        connection.execute(gone.values(gone_at=now + identity.skew))


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


def _write_changes(
    connection: sa.Connection, recorder: str, changes: Iterable[Change]
) -> None:
    """Write totals: update rows that the store has, replace rows that it may have."""
    old, new = [], []
    for day, name, total, numbers in changes:
        row = (day, *map(encode, name), recorder, *numbers)
        if total.written is None:
            new.append(row)
        else:
            old.append(row)
    if old:
        columns = [f"its_{name}" for name in _COLUMNS]
        connection.execute(_UPDATE, _name_columns(columns, sorted(old)))
    if new:
        rows = _name_columns(_COLUMNS, sorted(new))
        _delete_rows(connection, usage, rows)
        connection.execute(sa.insert(usage), rows)


def _merge_day(
    connection: sa.Connection, day: int, ids: Sequence[str], merged: str
) -> None:
    """Add the rows of some recorders to the rows that were merged before."""
    is_merged = sa.and_(usage.c.day == day, usage.c.recorder.in_([*ids, merged]))
    rows = connection.execute(sa.select(usage).where(is_merged)).all()
    if not any(row.recorder != merged for row in rows):
        return
    connection.execute(sa.delete(usage).where(is_merged))
    new = []
    for operation, group in groupby(sorted(rows), key=attrgetter("operation")):
        totals = limit_pairs((row[2:5], row[6:]) for row in group)
        for key, total in sorted(totals.items()):
            new.append((day, operation, *key, merged, *total))
    connection.execute(sa.insert(usage), _name_columns(_COLUMNS, new))


def _name_columns(columns: Sequence[str], rows: Iterable[Row]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in rows]


def limit_pairs(rows: Iterable[tuple[Row, Row]]) -> dict[Row, Row]:
    """Add up rows of one operation and day, with a limited number of named pairs.

    :param rows: the caller, client and source of each row, and its numbers.
    :returns: the sums, by caller, client and source.
    """
    totals = _sum_up(rows)
    calls: Counter[Row] = Counter()
    for key, numbers in totals.items():
        if key[0] != OTHER:
            calls[key[:2]] += sum(numbers[ANSWERED:])
    if len(calls) <= PAIRS:
        return totals
    # Pairs with a caller first, then those with more calls.
    pairs = sorted(calls, key=lambda pair: (not pair[0], -calls[pair], pair))
    for pair in pairs[PAIRS:]:
        del calls[pair]
    limited = []
    for (caller, client, source), numbers in totals.items():
        pair = (caller, client)
        if pair not in calls:
            pair = name_others(client)
        limited.append(((*pair, source), numbers))
    return _sum_up(limited)


def _sum_up(rows: Iterable[tuple[Row, Row]]) -> dict[Row, Row]:
    totals: dict[Row, Row] = {}
    for key, numbers in rows:
        if key in totals:
            totals[key] = _add_numbers(totals[key], numbers)
        else:
            totals[key] = numbers
    return totals


def _add_numbers(sums: Row, numbers: Row) -> Row:
    counts = map(add, sums[ANSWERED:], numbers[ANSWERED:])
    first_at = min(sums[FIRST_AT], numbers[FIRST_AT])
    return first_at, max(sums[LAST_AT], numbers[LAST_AT]), *counts


def _delete_rows(
    connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]
) -> None:
    if rows:
        key = [column == sa.bindparam(column.name) for column in table.primary_key]
        connection.execute(sa.delete(table).where(*key), rows)
