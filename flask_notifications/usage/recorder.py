"""An observer that counts calls in the process and writes them to the store in the background.

Knows threads, forks and the end of a process; knows nothing of tables.
"""

import atexit
import os
import random
import sys
import threading
import time
import uuid
import weakref
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import URL, Engine

from flask_notifications.deprecation import CLOSED_PHASES
from flask_notifications.log import log_error
from flask_notifications.middleware import Clock, Use, utc_now
from flask_notifications.operations import Operation
from flask_notifications.validation import require

from .store import PAIRS, Batch, Count, Group, Key, Pair, UsageStore, explain, is_conflict, other_key

# A year in seconds, and a hundred years in days.
_MAX_INTERVAL, _MAX_RETENTION = 31_536_000, 36_500

# Keys that a process counts at most until they are written, besides those of other pairs.
_KEYS = 20_000

# Seconds after which a request is awaited again, at most, so that no hour with requests seems to have none.
_ATTENTION = 60.0
# Seconds between two batches of a process, however many new pairs there are.
_PAUSE = 0.25
# Seconds for which a batch is tried again while other processes hold locks, and the longest pause meanwhile.
_PATIENCE = 5.0
_PATIENCE_OF_REQUESTS = 0.5
_CONFLICT_PAUSE = 0.2
# Seconds after which a database that could not be written is tried again, at most.
_RETRY = 10.0
# Seconds that the end of a process waits for its last batch, and that a fork waits for a batch that is being written:
# longer than a batch is tried again, since a child hangs when its parent was inside of SQLite.
_LAST_WAIT = 5.0
_FORK_WAIT = 6.0


class UsageRecorder:
    """Count who calls the retired operations, as an observer of ``DeprecationMiddleware``.

    A request only adds to a count in memory. A thread of the process writes the counts: those of a pair of caller and
    client that is new on a day at once, everything else after ``flush_interval``. While the database cannot be written,
    counting goes on in memory, and one error is logged. uWSGI without ``enable-threads`` runs no threads, so there a
    request writes what is due. Pass each recorder to one middleware; several can share a database.

    :param database: an SQLAlchemy URL or engine, of SQLite or PostgreSQL. An engine stays the application's.
    :param flush_interval: the seconds for which counts may stay in memory, and are lost when the process is killed;
        above 0, at most a year.
    :param retention_days: the days after which counts are deleted, 1 to 36500.
    :param create_tables: whether to create missing tables at the first batch.
    :param clock: returns the time as an aware datetime; it decides the day and the hour of a call. With a clock of your
        own, every request of the middleware is noted, which takes about a microsecond.
    :raises ValueError: naming the argument that does not fit.
    """

    awaits_request: bool
    """Whether the middleware has to call ``request_passed`` at the next request."""
    _writer: "_Writer | None"
    _starting: threading.Lock

    def __init__(
        self,
        database: str | URL | Engine,
        *,
        flush_interval: float = 10.0,
        retention_days: int = 400,
        create_tables: bool = True,
        clock: Clock = utc_now,
    ) -> None:
        is_number = isinstance(flush_interval, int | float) and not isinstance(flush_interval, bool)
        fits = is_number and 0 < flush_interval <= _MAX_INTERVAL
        require(fits, "flush_interval", f"a number of seconds above 0, at most {_MAX_INTERVAL}", flush_interval)
        is_whole = isinstance(retention_days, int) and not isinstance(retention_days, bool)
        fits = is_whole and 1 <= retention_days <= _MAX_RETENTION
        require(fits, "retention_days", f"a whole number from 1 to {_MAX_RETENTION}", retention_days)
        require(isinstance(create_tables, bool), "create_tables", "True or False", create_tables)
        require(callable(clock), "clock", "a function that returns an aware datetime", clock)
        self._store = UsageStore(database, create_tables=create_tables)
        self._flush_interval = flush_interval
        self._retention = timedelta(days=retention_days)
        self._clock = clock
        self._reset()
        _recorders.add(self)

    def __call__(self, use: Use) -> None:
        """Count one call."""
        at = self._clock().astimezone(UTC)
        writer = self._writer
        if writer is None or writer.process != os.getpid():
            writer = self._start_writer()
        with writer.lock:
            is_new = writer.counts.add(use, at)
        if is_new or writer.is_inline:
            writer.attend(is_urgent=is_new)

    def request_passed(self, operations: tuple[Operation, ...]) -> None:
        """Note that calls of these operations would be recorded now."""
        at = self._clock().astimezone(UTC)
        writer = self._writer_of_process() or self._start_writer()
        # The thread knows the system's time only, so each request may be the first of an hour of another clock.
        self.awaits_request = writer.is_inline or self._clock is not utc_now
        with writer.lock:
            writer.counts.cover(operations, at)
        if writer.is_inline:
            writer.attend(is_urgent=False)

    def flush(self) -> bool:
        """Write all that was counted so far in this process, and return whether that succeeded."""
        writer = self._writer_of_process()
        is_written = writer is None or writer.write()
        self.awaits_request = True
        return is_written

    def close(self) -> None:
        """End the thread and write what was counted within a few seconds; later calls are written by their requests."""
        writer = self._writer_of_process()
        if writer is not None:
            writer.close()

    def _writer_of_process(self) -> "_Writer | None":
        writer = self._writer
        return writer if writer is not None and writer.process == os.getpid() else None

    def _start_writer(self) -> "_Writer":
        with self._starting:
            writer = self._writer_of_process()
            if writer is not None:
                return writer
            writer = self._writer = _Writer(self)
        writer.start()  # outside of the lock: under gevent another greenlet runs meanwhile
        return writer

    def _reset(self) -> None:
        """Begin without a thread and without counts."""
        self._writer = None
        self._starting = threading.Lock()
        self.awaits_request = True

    def _before_fork(self) -> None:
        """Wait for a batch that is being written: a child would inherit locks inside of SQLite, and wait forever."""
        if self._writer is not None:
            self._writer.pause()

    def _after_fork_in_parent(self) -> None:
        if self._writer is not None:
            self._writer.resume()

    def _after_fork_in_child(self) -> None:
        """Begin anew: the parent writes what was counted before, through its own connections."""
        self._reset()
        self._store.forget_connections()


class _Counts:
    """The counts that are not yet in a batch; all methods are called under a lock."""

    def __init__(self) -> None:
        self._counts: dict[Key, Count] = {}
        self._hours: dict[Group, int] = defaultdict(int)
        # Pairs that were counted and are not in the store yet, as far as is known; and those that are.
        self._fresh: dict[Group, set[Pair]] = defaultdict(set)
        self._stored: dict[Group, set[Pair]] = {}
        self._stored_hours: dict[Group, int] = {}

    def add(self, use: Use, at: datetime) -> bool:
        """Count a call and note its hour, and return whether its pair is a new one."""
        key: Key = (at.date(), use.operation, use.caller or "", use.client or "", use.source or "")
        count = self._counts.get(key)
        is_new = False
        if count is None:
            key, is_new = self._admit(key)
            count = self._counts.setdefault(key, Count(at, at))
        if use.phase in CLOSED_PHASES:
            count.closed += 1
        elif use.status is not None and use.status < 400:
            count.answered += 1
        else:
            count.failed += 1
        if at > count.last_at:
            count.last_at = at
        elif at < count.first_at:
            count.first_at = at
        self._hours[key[0], use.operation] |= 1 << at.hour
        return is_new

    def _admit(self, key: Key) -> tuple[Key, bool]:
        """Return the key to count a call under, and whether its pair is a new one."""
        day, operation, *_ = key
        group, pair = (day, operation), (key[2], key[3])
        stored, fresh = self._stored.get(group, _NO_PAIRS), self._fresh[group]
        if pair in stored or pair in fresh:
            return key, False
        if len(stored) + len(fresh) >= PAIRS or len(self._counts) >= _KEYS:
            return other_key(key), False
        fresh.add(pair)
        return key, True

    def cover(self, operations: tuple[Operation, ...], at: datetime) -> None:
        """Note the hour, unless it is known to be stored."""
        day, bit = at.date(), 1 << at.hour
        for operation in operations:
            group = (day, operation.name)
            if not self._stored_hours.get(group, 0) & bit:
                self._hours[group] |= bit

    def take(self, recorder: str, number: int) -> Batch | None:
        """Return a batch of all that was counted, and begin anew; ``None`` when there is nothing."""
        if not self._hours:
            return None
        fresh = {group for group, pairs in self._fresh.items() if pairs}
        today = max(day for day, _operation in self._hours)
        batch = Batch(recorder, number, today, self._counts, dict(self._hours), fresh)
        self._counts = {}
        self._hours.clear()
        self._fresh.clear()
        return batch

    def remember(self, batch: Batch, pairs: dict[Group, set[Pair]]) -> None:
        """Note that a batch was written, and which pairs the store keeps; earlier days are forgotten."""
        for group, hours in batch.hours.items():
            self._stored_hours[group] = self._stored_hours.get(group, 0) | hours
        self._stored.update(pairs)
        self._stored = {group: kept for group, kept in self._stored.items() if group[0] >= batch.day}
        self._stored_hours = {group: hours for group, hours in self._stored_hours.items() if group[0] >= batch.day}


_NO_PAIRS: frozenset[Pair] = frozenset()


class _Writer:
    """Write what one process counts, in a thread where the server runs threads.

    A batch is kept until it is known to be written, so that none is lost and none is written twice.
    """

    def __init__(self, recorder: UsageRecorder) -> None:
        self.process = os.getpid()
        self.lock = threading.Lock()
        self.counts = _Counts()
        self.is_inline = not _runs_threads()
        self._recorder = recorder
        self._id = uuid.uuid4().hex
        self._batch: Batch | None = None
        self._batches = 0
        self._writing = threading.Lock()
        self._due = time.monotonic() + recorder._flush_interval
        self._has_failed = False
        self._paused_by: int | None = None
        self._cleaned_on: date | None = None
        self._wake = threading.Event()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flask_notifications.usage", daemon=True)

    def start(self) -> None:
        """Start the thread; a process that gets none writes in its requests."""
        if not self.is_inline:
            try:
                self._thread.start()
            except RuntimeError:  # no more threads, or the end of the process
                self.is_inline = True

    def attend(self, *, is_urgent: bool) -> None:
        """Wake the thread; without one, write what is urgent or due."""
        if not self.is_inline:
            self._wake.set()
        elif time.monotonic() >= self._due or (is_urgent and not self._has_failed):
            self._due = time.monotonic() + self._recorder._flush_interval
            self.write(wait=0)

    def _run(self) -> None:
        interval = self._recorder._flush_interval
        while not self._end.is_set():
            self._wait_until_due(random.uniform(0.75, 0.95) * interval)  # noqa: S311 - so that processes take turns
            self._wake.clear()
            self._recorder.awaits_request = True
            is_written = self.write()
            self._end.wait(min(_PAUSE, interval / 20) if is_written else min(_RETRY, interval))

    def _wait_until_due(self, seconds: float) -> None:
        """Wait until something is urgent or the time is over; meanwhile await a request now and then."""
        due = time.monotonic() + seconds
        while (rest := due - time.monotonic()) > 0 and not self._wake.wait(min(rest, _ATTENTION)):
            self._recorder.awaits_request = True

    def write(self, wait: float = -1) -> bool:
        """Write all that was counted, and return whether that succeeded.

        :param wait: the seconds to wait for another thread that is writing; -1 is without a limit.
        """
        if not self._writing.acquire(timeout=wait):
            return False
        try:
            return self._write_batch() and self._take_batch() and self._write_batch()
        finally:
            self._writing.release()

    def _take_batch(self) -> bool:
        with self.lock:
            self._batch = self.counts.take(self._id, self._batches + 1)
        self._batches += 1
        return True

    def _write_batch(self) -> bool:
        """Write the batch, if there is one; keep it when that fails, since its number makes it safe to try again."""
        if self._batch is None:
            return True
        try:
            pairs = self._try_while_locked(self._batch)
        except Exception as error:  # noqa: BLE001 - drivers raise many kinds
            self._report(error)
            return False
        with self.lock:
            self.counts.remember(self._batch, pairs)
        self._delete_expired(self._batch.day)
        self._batch = None
        self._has_failed = False
        return True

    def _try_while_locked(self, batch: Batch) -> dict[Group, set[Pair]]:
        deadline = time.monotonic() + (_PATIENCE_OF_REQUESTS if self.is_inline else _PATIENCE)
        while True:
            try:
                return self._recorder._store.write(batch)
            except Exception as error:
                if not is_conflict(error) or time.monotonic() > deadline:
                    raise
            time.sleep(random.uniform(0, _CONFLICT_PAUSE))  # noqa: S311 - so that processes take turns

    def _report(self, error: Exception) -> None:
        """Log the first failure of several."""
        if not self._has_failed:
            log_error("usage is counted in memory while the database cannot be written: %s", explain(error))
        self._has_failed = True

    def _delete_expired(self, today: date) -> None:
        """Delete some of the rows that are too old, until there are none on this day."""
        if self._cleaned_on == today:
            return
        try:
            is_done = not self._recorder._store.delete_before(today - self._recorder._retention, today)
        except Exception as error:  # noqa: BLE001 - drivers raise many kinds
            is_done = not is_conflict(error)
            if is_done:
                log_error("expired rows of usage cannot be deleted: %s", explain(error))
        if is_done:
            self._cleaned_on = today

    def pause(self) -> None:
        """Keep the process from writing, once it is not; or give up after a few seconds."""
        if self._writing.acquire(timeout=_FORK_WAIT):
            self._paused_by = threading.get_ident()

    def resume(self) -> None:
        """Let the process write again, if this thread has kept it from that."""
        if self._paused_by == threading.get_ident():
            self._paused_by = None
            self._writing.release()

    def close(self) -> None:
        """End the thread, and write what is left."""
        self._end.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_LAST_WAIT)
        self.is_inline = self._recorder.awaits_request = True
        self.write(wait=0)


def _runs_threads() -> bool:
    """Return whether threads run between requests: not in uWSGI without the option."""
    uwsgi = sys.modules.get("uwsgi")
    return uwsgi is None or bool({"threads", "enable-threads"} & set(uwsgi.opt))


_recorders: "weakref.WeakSet[UsageRecorder]" = weakref.WeakSet()


def _each(method: Callable[[UsageRecorder], None]) -> Callable[[], None]:
    """Return a function that calls a method of every recorder of this process."""

    def call() -> None:
        for recorder in list(_recorders):
            method(recorder)

    return call


atexit.register(_each(UsageRecorder.close))
if hasattr(os, "register_at_fork"):  # pragma: no branch - there are no forks on Windows
    os.register_at_fork(
        before=_each(UsageRecorder._before_fork),
        after_in_parent=_each(UsageRecorder._after_fork_in_parent),
        after_in_child=_each(UsageRecorder._after_fork_in_child),
    )
