"""An observer that counts calls in memory and writes them to the store.

Knows threads, forks and the end of a process; knows nothing of tables.
"""

import atexit
import os
import socket
import sys
import time
import weakref
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from flask_notifications.dates import Clock, utc_now
from flask_notifications.observers import Call
from flask_notifications.validation import is_number, require

from .connections import Database
from .counts import Counts, kind_of
from .fingerprints import fingerprints
from .store import Identity, UsageStore, encode
from .threads import new_lock
from .times import SECOND
from .writer import SIGN_INTERVAL, Writer

if TYPE_CHECKING:
    from flask_notifications.plans.plan import Plan

# A year in seconds, and a hundred years in days.
_MAX_INTERVAL, _MAX_RETENTION = 31_536_000, 36_500
# Characters of a service and of a host.
_MAX_LENGTH = 64
# Characters of the name of an operation, as the store has it.
_MAX_NAME = 768
_NO_HOSTS = {"", "localhost", "localhost.localdomain"}

# Seconds that ``close()`` waits for calls that are being counted, and that a fork waits
# for current writes.
_COUNT_PATIENCE, _FORK_PATIENCE = 1.0, 0.5


class UsageRecorder:
    """Count who calls the listed operations; observe ``DeprecationMiddleware``.

    Each call is added to a count in memory, and a background thread writes the totals
    to the database: within a second if the call is the day's first by this caller and
    client, or their first with this outcome (answered, refused, failed or closed);
    otherwise after ``flush_interval``. Pass each recorder to one middleware only;
    several recorders can share a database.

    :param database: an SQLAlchemy URL or engine, of SQLite, PostgreSQL, MySQL or
        MariaDB. An engine stays the application's.
    :param flush_interval: the seconds after which repeated calls are written: above 0,
        at most a year. Values above 30 have no effect, because the sign of life that is
        written every 30 seconds includes them.
    :param retention_days: the days after which counts are deleted, 1 to 36500.
    :param create_tables: whether to create missing tables at the first write.
    :param service: the name of your application among those that share a database: at
        most 64 printable characters of ASCII, without a space at either end; empty by
        default.
    :param host: a name for this machine that no other machine uses; by default its host
        name, which must not be ``localhost``.
    :param clock: for tests: returns the time of signs of life as an aware datetime.
        Calls have their own time.
    :raises ValueError: an argument does not fit, or the server runs no threads; the
        message says which.
    """

    awaits_request: bool
    """Whether the middleware has to call ``request_passed`` at the next request."""
    _writer: Writer | None

    def __init__(
        self,
        database: Database,
        *,
        flush_interval: float = 5.0,
        retention_days: int = 400,
        create_tables: bool = True,
        service: str = "",
        host: str | None = None,
        clock: Clock = utc_now,
    ) -> None:
        is_interval = is_number(flush_interval, 0, _MAX_INTERVAL) and flush_interval > 0
        require(
            is_interval,
            "flush_interval",
            f"a number above 0, at most {_MAX_INTERVAL}",
            flush_interval,
        )
        is_days = is_number(retention_days, 1, _MAX_RETENTION, is_whole=True)
        require(
            is_days,
            "retention_days",
            f"a whole number from 1 to {_MAX_RETENTION}",
            retention_days,
        )
        require(
            isinstance(create_tables, bool),
            "create_tables",
            "True or False",
            create_tables,
        )
        is_clock = callable(clock) and isinstance(clock(), datetime)
        require(is_clock, "clock", "a function that returns an aware datetime", clock)
        _require_threads()
        self._service = _check_service(service)
        self._host = _check_host(host)
        self._store = UsageStore(database, create_tables=create_tables)
        self._interval = min(flush_interval, SIGN_INTERVAL)
        self._retention = retention_days
        self._own_clock = None if clock is utc_now else clock
        self._operations: dict[str, str] = {}
        self._process = 0
        self._set_up_process()
        _recorders.add(self)

    def listen(self, plan: "Plan") -> None:
        """Learn which operations to record; the middleware calls this with its plan.

        :raises ValueError: an operation is recorded by another middleware with other
            rules, or its name is too long.
        """
        for name, fingerprint in fingerprints(plan).items():
            known = self._operations.setdefault(name, fingerprint)
            require(
                known == fingerprint,
                "observers",
                "a recorder for each middleware",
                f"one for two {name!r}",
            )
            require(
                len(encode(name)) <= _MAX_NAME,
                "name",
                "a name that the database can keep",
                name,
            )

    def __call__(self, call: Call) -> None:
        """Count one call."""
        if self._process != os.getpid():
            self._set_up_process()
        try:
            with self._counting:
                writer = self._writer or self._create_writer()
                if writer is None:
                    return
                is_new = self._counts.count(
                    (call.operation, call.caller, call.client, call.source),
                    int(call.at.timestamp() * SECOND),
                    kind_of(call.status, call.phase),
                )
        except BaseException:
            # This call may be lost, so nobody may rely on the record of this time.
            self._counts.is_whole = False
            raise
        if is_new or not writer.has_thread:
            writer.wake()

    def request_passed(self) -> None:
        """Begin to record at the first request of any kind.

        The time from then on counts as covered, even if nobody calls an operation.
        """
        if self._process != os.getpid():
            self._set_up_process()
        with self._counting:
            writer = self._writer or self._create_writer()
        if writer is not None:
            writer.wake()

    def flush(self) -> bool:
        """Write everything that this process has counted so far.

        Return whether that succeeded within fifteen seconds.
        """
        writer = self._writer
        if writer is None or self._process != os.getpid():
            return True
        return writer.write_now()

    def close(self) -> None:
        """Write all counts within fifteen seconds, and end the thread.

        A later call opens the recorder again.

        A signal handler may call this when it has interrupted the counting of a call.
        The interrupted code holds the lock, and cannot release it before the handler
        returns. So after a second, this only writes the counts, and the recorder is
        closed when the process ends.
        """
        if self._process != os.getpid():
            return
        if not self._counting.acquire(timeout=_COUNT_PATIENCE):
            self.flush()
            return
        try:
            writer, self._writer = self._writer, None
            if writer is not None:
                self._counts = Counts()
                self._began = self._tell_time()
                self.awaits_request = True
        finally:
            self._counting.release()
        if writer is not None:
            writer.end()

    def is_healthy(self, seconds: float = 120) -> bool:
        """Return whether this process has reached the database within some seconds.

        The result is ``False`` until the first write.

        :param seconds: above 0. Signs of life are written every 30 seconds.
        :raises ValueError: ``seconds`` is something else.
        """
        is_positive = is_number(seconds, 0) and seconds > 0
        require(is_positive, "seconds", "a number above 0", seconds)
        written_at = self._store.written_at
        if written_at is None or self._process != os.getpid():
            return False
        return self._tell_time() - written_at <= seconds * SECOND

    def _set_up_process(self) -> None:
        """Set up the state of this process, for a new recorder and after a fork.

        A forked child must not use its parent's locks, counts and connections.
        """
        # The first thread to get this lock does the work, and the others find it done.
        # ``_after_fork_in_child`` gives a forked child a new one.
        with _beginning[0]:
            if self._process == os.getpid():  # another thread was faster
                return
            # Held while a call is counted, and while the writer uses the database.
            self._counting, self._busy = new_lock(), new_lock()
            self._holds_busy = False
            self._writer = None
            self._counts = Counts()
            self._began = self._tell_time()
            if self._process:  # still the parent's ID: this is a forked child
                self._store.forget_connections()
            self.awaits_request = True
            self._process = os.getpid()

    def _tell_time(self) -> int:
        """Return the time in microseconds, from which durations are computed.

        It is that of ``clock`` in tests, and otherwise of the monotonic clock, which
        nobody can set. The date comes from the database.
        """
        if self._own_clock is None:
            return time.monotonic_ns() // 1000
        return int(self._own_clock().timestamp() * SECOND)

    def _create_writer(self) -> Writer | None:
        """Create the writer of this process; its thread starts at the first ``wake``.

        Return ``None`` in the master of uWSGI: its workers would inherit locks that
        nobody releases.
        """
        if _is_uwsgi_master():
            return None
        identity = Identity(
            service=self._service,
            host=self._host,
            process=self._process,
            operations=dict(self._operations),
            clock=self._tell_time,
            has_own_clock=self._own_clock is not None,
            began=self._began,
        )
        writer = Writer(
            self._store,
            identity,
            self._counts,
            interval=self._interval,
            retention=self._retention,
            counting=self._counting,
            busy=self._busy,
        )
        self._writer = writer
        self.awaits_request = False
        return writer

    def _hold_writes(self, until: float) -> None:
        """Wait until the current write has ended, and hold back others during the fork.

        Otherwise a child could inherit a locked mutex of SQLite and wait forever.
        """
        self._holds_busy = self._busy.acquire(
            timeout=max(0.0, until - time.monotonic())
        )
        if self._holds_busy:
            # Some drivers would end the parent's connection when the child ends.
            self._store.release()

    def _after_fork_in_parent(self) -> None:
        if self._holds_busy:
            self._busy.release()


def _check_service(service: str) -> str:
    # MySQL treats strings as equal if they differ only in trailing spaces.
    fits = _is_name(service) and service.isascii() and service == service.strip()
    expected = "at most 64 printable ASCII characters without a space at either end"
    require(fits, "service", expected, service)
    return service


def _check_host(host: str | None) -> str:
    if host is None:
        host = socket.gethostname()[:_MAX_LENGTH]
    fits = _is_name(host) and host.lower() not in _NO_HOSTS
    expected = "the name of this machine alone, 1 to 64 printable characters"
    require(fits, "host", expected, host)
    return host


def _is_name(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _MAX_LENGTH and value.isprintable()


def _require_threads() -> None:
    uwsgi = sys.modules.get("uwsgi")
    if uwsgi is not None and {"threads", "enable-threads"}.isdisjoint(uwsgi.opt):
        message = "uWSGI runs no threads: add the line `enable-threads = true`"
        raise ValueError(message)


def _is_uwsgi_master() -> bool:
    """Return whether this is the process that forks uWSGI's workers.

    It may fork them in C, without the hooks of ``os.register_at_fork``.
    """
    uwsgi = sys.modules.get("uwsgi")
    return uwsgi is not None and uwsgi.worker_id() == 0


_recorders: "weakref.WeakSet[UsageRecorder]" = weakref.WeakSet()
# The lock for ``_set_up_process``, in a list so that a forked child can replace it:
# another thread of the parent may have held it during the fork.
_beginning = [new_lock()]


def _call_each(method: Callable[..., object], *arguments: float) -> None:
    """Call a method of every recorder of this process."""
    for recorder in list(_recorders):
        method(recorder, *arguments)


def _before_fork() -> None:
    """Wait for the current writes of all recorders, which share one deadline."""
    _call_each(UsageRecorder._hold_writes, time.monotonic() + _FORK_PATIENCE)


def _after_fork_in_child() -> None:
    _beginning[0] = new_lock()
    _call_each(UsageRecorder._set_up_process)


# These run in reverse order: close first, then write the calls that arrived during it.
atexit.register(_call_each, UsageRecorder.flush)
atexit.register(_call_each, UsageRecorder.close)
if hasattr(os, "register_at_fork"):  # pragma: no branch - there are no forks on Windows
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=partial(_call_each, UsageRecorder._after_fork_in_parent),
        after_in_child=_after_fork_in_child,
    )
