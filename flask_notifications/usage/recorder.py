"""An observer that counts calls in the process and writes them to the store in the
background.

Knows threads, forks and the end of a process; knows nothing of tables.
"""

import _thread
import atexit
import os
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from flask_notifications.dates import Clock, utc_now
from flask_notifications.log import log_error
from flask_notifications.observers import Call
from flask_notifications.validation import is_number, require

from .connections import Database
from .fingerprints import fingerprints
from .ledger import Ledger, Origin, boot, close_files, create_file, machine, uptime
from .spool import SIGN_INTERVAL, Seen, collect, is_folder, open_folder
from .store import UsageStore, encode, explain
from .times import DAY, SECOND

if TYPE_CHECKING:
    from flask_notifications.plans.plan import Plan

# A year in seconds, and a hundred years in days.
_MAX_INTERVAL, _MAX_RETENTION = 31_536_000, 36_500
# Characters of a service.
_MAX_SERVICE = 64
# Characters of the name of an operation, as the store has it.
_MAX_NAME = 768

# Seconds between two writes, between two looks at the spool, and until a write that
# failed is tried again.
_PAUSE, _LOOK, _RETRY = 0.25, 2.0, 5.0
# Seconds after which a process looks again whether there is something to delete.
_CLEANED = 3600.0
# Seconds that a write and the end of a process wait for another write, and that a fork
# waits for current writes.
_LAST_WAIT, _FORK_WAIT = 5.0, 0.5


class UsageRecorder:
    """Count who calls the retired operations, as an observer of
    ``DeprecationMiddleware``.

    A request adds to a count in memory, and in a file that survives the process. A
    thread of the process writes the totals to the database: at once if a pair of caller
    and client is new on a day, otherwise after ``flush_interval``. Pass each recorder
    to one middleware. Several can share a database.

    :param database: an SQLAlchemy URL or engine, of SQLite, PostgreSQL, MySQL or
        MariaDB. An engine stays the application's.
    :param flush_interval: the seconds after which repeated calls are written; above 0,
        at most a year. After 30 seconds they are written with the next sign of life in
        any case.
    :param retention_days: the days after which counts are deleted, 1 to 36500.
    :param create_tables: whether to create missing tables at the first write.
    :param spool: a folder on the local disk for counts that the database does not have
        yet. ``"auto"``, the default, is a private one in the system's temporary folder,
        ``None`` keeps them in memory only.
    :param service: the name of your application among those that share a database: at
        most 64 printable characters of ASCII, without a space at either end; empty by
        default.
    :param host: the name of this machine; by default its host name.
    :param clock: returns the time as an aware datetime. A clock of your own is the time
        of everything but of calls, which have their own; it is for tests.
    :raises ValueError: naming the argument that does not fit.
    """

    awaits_request: bool
    """Whether the middleware has to call ``request_passed`` at the next request."""
    _ledger: Ledger | None
    _has_thread: bool

    def __init__(
        self,
        database: Database,
        *,
        flush_interval: float = 10.0,
        retention_days: int = 400,
        create_tables: bool = True,
        spool: str | os.PathLike[str] | None = "auto",
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
        is_text = (
            isinstance(service, str) and service.isascii() and service.isprintable()
        )
        # MySQL takes strings for equal that differ in their last spaces.
        is_service = (
            is_text and len(service) <= _MAX_SERVICE and service == service.strip()
        )
        expected = "at most 64 printable ASCII characters without a space at either end"
        require(is_service, "service", expected, service)
        is_name = host is None or (
            isinstance(host, str)
            and host.isprintable()
            and 0 < len(host) <= _MAX_SERVICE
        )
        require(is_name, "host", "1 to 64 printable characters", host)
        require(
            spool is None or is_folder(spool),
            "spool",
            "a folder, 'auto' or None",
            spool,
        )
        self._store = UsageStore(database, create_tables=create_tables)
        self._interval = min(flush_interval, SIGN_INTERVAL)
        self._retention = retention_days
        self._spool = None if spool is None else os.fspath(spool)
        self._service, self._host = (
            service,
            host or socket.gethostname()[:_MAX_SERVICE] or "unknown",
        )
        self._clock = None if clock is utc_now else clock
        self._operations: dict[str, str] = {}
        self._reset()
        _recorders.add(self)

    def __call__(self, call: Call) -> None:
        """Count one call."""
        thread = threading.get_ident()
        try:
            self._busy.add(
                thread
            )  # inside, because a signal handler may raise an exception right after it
            with self._lock:
                ledger = self._ledger
                is_new = (self._open() if ledger is None else ledger).count(call)
        finally:
            self._busy.discard(thread)
        if is_new or not self._has_thread:
            self._wake()

    def listen(self, plan: "Plan") -> None:
        """Learn which operations are recorded; the middleware calls this once, with its
        plan.

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

    def request_passed(self) -> None:
        """Note that requests pass in this process, so that its coverage is written."""
        with self._lock:
            if self._ledger is None:
                self._open()
        self._wake()

    def flush(self) -> bool:
        """Write all that was counted so far in this process, and return whether that
        succeeded.

        It does nothing in a signal handler that has interrupted a count or a write,
        which goes on then.
        """
        if self._is_interrupted():
            return False
        return (self._ledger is None and not self._ended) or self._write_all()

    def close(self) -> None:
        """End the thread and write all counts, within a few seconds; a later call
        begins anew.

        Where ``flush()`` does nothing, this does nothing either: the end of the process
        closes the recorder.
        """
        if self._is_interrupted():
            return
        with self._lock:
            self._is_closing = True
        self._wake()
        if self._has_thread:
            self._finished.acquire(timeout=_LAST_WAIT)
            self._has_thread = False
        with self._lock:  # as late as possible: nobody may write the calls that follow
            ledger, self._ledger = self._ledger, None
            if ledger is not None:
                self._ended.append(ledger)
        is_written = not self._ended or self._write_all()
        if not is_written and self._has_failed:
            self._pause.acquire(
                timeout=_PAUSE
            )  # perhaps only because many processes end together
            is_written = self._write_all()
        if not is_written:
            self._leave()
        self._release()
        with self._lock:
            self._is_closing = False
            self.awaits_request = self._ledger is None
            if self._ledger is not None:  # a call came in the meantime
                self._start(self._ledger)

    def _end(self) -> None:
        """Close at the end of the process.

        If calls came meanwhile, its row says that others may be missing.
        """
        self.close()
        if self._ledger is not None:
            self.flush()

    def _is_interrupted(self) -> bool:
        """Return whether this thread is counting or writing, so that a signal handler
        must have interrupted it.
        """
        return threading.get_ident() in self._busy

    @contextmanager
    def _only_writer(self, wait: float) -> Iterator[bool]:
        """Yield whether this thread alone may use the store, after some seconds at
        most.
        """
        is_only, thread = False, threading.get_ident()
        try:
            self._busy.add(thread)
            is_only = self._writing.acquire(timeout=wait)
            yield is_only
        finally:
            if is_only:
                self._writing.release()
            self._busy.discard(thread)

    def _reset(self) -> None:
        """Begin without a thread and without counts."""
        self._process = os.getpid()
        self._began = self._tell_time()
        # Locks of the system, because the thread is one too under gevent. A signal
        # handler may interrupt a request.
        self._lock = _system("RLock")()
        self._writing, self._alarm, self._finished, self._pause = (
            _system("allocate_lock")() for _ in range(4)
        )
        for lock in (self._alarm, self._finished, self._pause):
            lock.acquire()
        self._busy: set[int] = set()
        self._ledger = None
        self._ended: list[Ledger] = []
        self._has_thread = self._is_closing = self._has_failed = self._is_paused = False
        self._cleaned_at = self._looked_at = float("-inf")
        self._seen: Seen = {}
        self.awaits_request = True

    def _tell_time(self) -> int:
        """Return the time of a clock of one's own, or the uptime of the machine, in
        microseconds.
        """
        return (
            uptime() if self._clock is None else int(self._clock().timestamp() * SECOND)
        )

    def _open(self) -> Ledger:
        """Begin to count in this process."""
        if (
            self._process != os.getpid()
        ):  # a fork that Python did not notice, as in uWSGI
            self._process, self._began = os.getpid(), self._tell_time()
        ledger = self._new_ledger(self._began)
        if (
            self._ledger is None
        ):  # otherwise another greenlet has opened it while an error was being logged
            self._ledger = ledger
            self.awaits_request = False
            self._start(ledger)
        return self._ledger

    def _start(self, ledger: Ledger) -> None:
        """Start the thread that writes a ledger, if there is none; ``close()`` does it
        later.
        """
        self._has_thread = self._has_thread or (
            not self._is_closing and _start_thread(self._run)
        )
        ledger.has_thread = int(self._has_thread)

    def _new_ledger(self, began: int) -> Ledger:
        names = self._service, self._host, self._process
        clock = self._began, self._clock is not None
        ledger = Ledger(
            Origin(
                *names,
                *clock,
                dict(self._operations),
                self._store.identity,
                boot(),
                machine(),
            ),
            began,
        )
        ledger.clock = self._tell_time
        folder = open_folder(self._spool, self._store.identity)
        if folder is not None:
            try:
                create_file(ledger, folder)
            except OSError as error:
                log_error("usage is counted in memory only: %s", explain(error))
        return ledger

    def _wake(self) -> None:
        """Wake the thread, or start it if the system had none to spare before."""
        with self._lock:
            if self._ledger is not None and not self._has_thread:
                self._start(self._ledger)
        with suppress(RuntimeError):  # it is awake
            self._alarm.release()

    def _run(self) -> None:
        """Write counts when they are due, until the recorder is closed."""
        due = time.monotonic() + self._interval
        while not self._is_closing:
            is_urgent = self._alarm.acquire(
                timeout=max(0.0, min(due - time.monotonic(), _LOOK))
            )
            if self._is_closing:
                break
            if is_urgent or time.monotonic() >= due:
                is_written = self._write_all()
                due = time.monotonic() + (
                    self._interval if is_written else min(self._interval, _RETRY)
                )
                self._pause.acquire(
                    timeout=_PAUSE
                )  # nobody releases it: this is a sleep without greenlets
            else:
                self._release()
            self._look_around()
        with suppress(RuntimeError):  # the recorder did not wait so long
            self._finished.release()

    def _release(self) -> None:
        """Close a connection that is not needed now, so that many processes share those
        of the database.
        """
        with self._only_writer(0) as is_only:
            if is_only:
                self._store.release()

    def _look_around(self) -> None:
        """Import the counts of ended processes."""
        with (
            self._lock
        ):  # otherwise a flush on a new day could close the file of the ledger
            if self._ledger is not None:
                self._ledger.heard = self._tell_time()
                if self._clock is None:
                    self._ledger.compare_clock(time.time_ns() // 1000 - uptime())
        if time.monotonic() < self._looked_at + _LOOK:
            return
        self._looked_at = time.monotonic()
        with (
            suppress(Exception),
            self._only_writer(0) as is_only,
        ):  # the next write logs an error
            if is_only:
                collect(
                    open_folder(self._spool, self._store.identity),
                    self._store,
                    self._seen,
                )

    def _write_all(self) -> bool:
        """Write all that was counted, and return whether that succeeded."""
        with self._only_writer(_LAST_WAIT) as is_only:
            if not is_only:
                return False
            try:
                self._write_ledgers()
            except Exception as error:  # noqa: BLE001 - drivers raise many kinds
                if not self._has_failed:
                    message = "usage is counted on this machine while the database cannot be written: %s"
                    log_error(message, explain(error))
                self._has_failed = True
            else:
                self._has_failed = False
            return not self._has_failed

    def _write_ledgers(self) -> None:
        ledger = self._ledger
        if ledger is not None and self._turn(ledger, self._store.write(ledger)):
            self._write_ledgers()
        for ended in list(self._ended):
            self._store.write(ended, is_final=True)
            self._ended.remove(ended)
            if ended.file is not None:
                ended.file.delete()
        self._clean()

    def _turn(self, ledger: Ledger, now: int) -> bool:
        """Begin a new ledger on a new day, and return whether it did; the old one ends
        when the new one is known.
        """
        if self._ended or ledger.locate(ledger.began, now) // DAY == now // DAY:
            return False
        with self._lock:
            if self._ledger is ledger:
                self._ended.append(ledger)
                self._ledger = self._new_ledger(self._tell_time())
                self._ledger.has_thread = ledger.has_thread
        return True

    def _clean(self) -> None:
        """Merge and delete rows, if nobody has on this day."""
        if time.monotonic() < self._cleaned_at + _CLEANED and self._clock is None:
            return
        self._cleaned_at = time.monotonic()
        try:
            self._store.clean(
                self._retention, None if self._clock is None else self._tell_time()
            )
        except Exception as error:  # noqa: BLE001 - drivers raise many kinds
            log_error("expired rows of usage cannot be deleted: %s", explain(error))

    def _leave(self) -> None:
        """Leave unwritten counts to the next process, or log how many are lost unless
        this one goes on.
        """
        with self._lock:
            ended, self._ended = self._ended, []
        lost = 0
        for ledger in ended:
            if ledger.file is not None and ledger.is_whole:
                ledger.file.close()
            else:
                lost += ledger.unwritten
                with suppress(Exception):
                    self._store.leave_loss(ledger)
                self._ended.append(ledger)
        if lost:
            reason = "because the database cannot be written and there is no spool"
            log_error("%s calls are lost if this process ends, %s", lost, reason)

    def _before_fork(self, until: float) -> None:
        """Wait for a write that is going on: a child would inherit locks inside of
        SQLite, and wait forever.
        """
        self._is_paused = self._writing.acquire(
            timeout=max(0.0, until - time.monotonic())
        )
        if self._is_paused:
            self._store.release()  # some drivers would end the parent's connection when the child ends

    def _after_fork_in_parent(self) -> None:
        if self._is_paused:
            self._writing.release()

    def _after_fork_in_child(self) -> None:
        """Begin anew: the parent writes its own counts, through its own connections and
        its own file.
        """
        self._reset()
        self._store.forget_connections()


def _system(name: str) -> Any:
    """Return something of ``_thread`` as it was before gevent replaced it."""
    monkey = sys.modules.get("gevent.monkey")
    return (
        getattr(_thread, name)
        if monkey is None
        else monkey.get_original("_thread", name)
    )


def _start_thread(target: Callable[[], None]) -> bool:
    """Start a thread of the system, and return whether there is one now."""
    uwsgi = sys.modules.get("uwsgi")
    if uwsgi is not None and {"threads", "enable-threads"}.isdisjoint(uwsgi.opt):
        return False  # threads run during requests only
    try:
        if (
            "gevent.monkey" in sys.modules
        ):  # a driver that waits in C would stop all greenlets of a thread
            _system("start_new_thread")(target, ())
        else:
            threading.Thread(
                target=target, name="flask_notifications.usage", daemon=True
            ).start()
    except RuntimeError:  # no more threads, or the end of the process
        return False
    return True


_recorders: "weakref.WeakSet[UsageRecorder]" = weakref.WeakSet()


def _call_each(method: Callable[..., None], *arguments: float) -> None:
    """Call a method of every recorder of this process."""
    for recorder in list(_recorders):
        method(recorder, *arguments)


def _before_fork() -> None:
    """Wait for the writes of all recorders, but not for each of them in turn."""
    _call_each(UsageRecorder._before_fork, time.monotonic() + _FORK_WAIT)


def _after_fork_in_child() -> None:
    close_files()
    _call_each(UsageRecorder._after_fork_in_child)


atexit.register(_call_each, UsageRecorder._end)
if hasattr(os, "register_at_fork"):  # pragma: no branch - there are no forks on Windows
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=partial(_call_each, UsageRecorder._after_fork_in_parent),
        after_in_child=_after_fork_in_child,
    )
