"""The thread of a process that writes its counts to the store.

Decides when to write; knows nothing of requests and forks.
"""

import time
from queue import Empty
from typing import Any

from flask_notifications.log import log_error

from .counts import Counts
from .store import Identity, UsageStore, explain
from .threads import new_lock, new_queue, start_thread
from .times import DAY, SECOND

# Seconds between two signs of life.
SIGN_INTERVAL = 30.0
# Seconds between two writes, and until an unused connection is closed.
_PAUSE, _IDLE = 0.25, 2.0
# Seconds that a caller of ``write_now`` waits at most; even a busy machine needs less.
_PATIENCE = 15.0
# Microseconds between two looks for rows to delete, and between two log records about
# the same outage.
_HOUR = 3600 * SECOND


class Writer:
    """Write the counts of a process from its first request to its end.

    :param interval: the seconds between two writes of repeated calls.
    :param retention: the days after which counts are deleted.
    :param counting: a lock that is held while a call is counted.
    :param busy: a lock that is held while the store is used.
    """

    def __init__(
        self,
        store: UsageStore,
        identity: Identity,
        counts: Counts,
        *,
        interval: float,
        retention: int,
        counting: Any,
        busy: Any,
    ) -> None:
        self.has_thread: bool = False
        self._store = store
        self._identity = identity
        self._counts = counts
        self._interval = interval
        self._retention = retention
        self._counting = counting
        self._busy = busy
        self._starting = new_lock()
        # Wakes the thread: with `None`, or with a request to write at once, as a pair:
        # the queue for the answer, and whether it is the final write.
        self._requests = new_queue()
        self._has_ended = False
        # By a monotonic clock, in seconds.
        self._tried_at = time.monotonic()
        self._written_at = float("-inf")
        # By the clock of the recorder.
        self._cleaned_at = self._logged_at = float("-inf")

    def wake(self) -> None:
        """Have the thread write within a second."""
        self._start_thread()
        self._requests.put(None)

    def write_now(self, *, is_final: bool = False) -> bool:
        """Write at once, and return whether that succeeded within fifteen seconds.

        :param is_final: whether this is the last write, after which the thread ends.
        """
        self._start_thread()
        if not self.has_thread:
            return self._write(is_final=is_final)
        answers = new_queue()
        self._requests.put((answers, is_final))
        try:
            return bool(answers.get(timeout=_PATIENCE))
        except Empty:
            return False

    def end(self) -> None:
        """Write once more, and end the thread."""
        is_written = self.write_now(is_final=True)
        self._has_ended = True
        if not is_written:
            number = self._counts.count_unwritten()
            log_error("%s calls could not be written at the end of a process", number)

    def _start_thread(self) -> None:
        """Start the thread, if it does not run and the system allows another one."""
        if self.has_thread or not self._starting.acquire(blocking=False):
            return
        try:
            self.has_thread = self.has_thread or start_thread(self._run)
        finally:
            self._starting.release()

    def _run(self) -> None:
        """Write when something is due, until the end."""
        while not self._has_ended:
            request = self._wait()
            if request is None:
                if self._is_due():
                    self._write()
                continue
            answers, is_final = request
            is_written = self._write(is_final=is_final)
            if is_final:
                # Try twice: many processes may end, and write, at the same time.
                is_written = is_written or self._write(is_final=True)
                self._has_ended = True
            answers.put(is_written)
        self._release()

    def _wait(self) -> tuple[Any, bool] | None:
        """Wait until a write may be due; return early with a request to write at once.

        After a ``wake``, wait only until the pause since the last write is over.
        """
        due = self._tried_at + self._interval
        while (timeout := due - time.monotonic()) > 0:
            try:
                request: tuple[Any, bool] | None = self._requests.get(
                    timeout=min(timeout, _IDLE)
                )
            except Empty:
                self._release()
                continue
            if request is not None:
                return request
            due = min(due, self._tried_at + _PAUSE)
        return None

    def _is_due(self) -> bool:
        """Return whether there are changes, or it is time for a sign of life.

        The time has come if the next try would be too late.
        """
        self._tried_at = time.monotonic()
        is_sign_due = self._tried_at + self._interval > self._written_at + SIGN_INTERVAL
        return is_sign_due or bool(self._counts.changes())

    def _release(self) -> None:
        """Close an unused connection: many processes share those of the database."""
        with self._busy:
            self._store.release()

    def _write(self, *, is_final: bool = False) -> bool:
        """Write everything that was counted, and return whether that succeeded."""
        if not self._busy.acquire(timeout=_PATIENCE):
            return False
        try:
            now = self._store.write(self._identity, self._counts, is_final=is_final)
            self._drop_days(now)
            self._clean(now)
        except Exception as error:  # noqa: BLE001 - drivers raise many kinds
            self._log_outage(error)
            return False
        finally:
            self._busy.release()
            self._tried_at = time.monotonic()
        self._written_at = self._tried_at
        self._logged_at = float("-inf")
        return True

    def _log_outage(self, error: Exception) -> None:
        """Log at once that the database is unavailable, and then every hour."""
        now = self._identity.clock()
        if now - self._logged_at >= _HOUR:
            message = "usage is counted in memory, because it cannot be written: %s"
            log_error(message, explain(error))
            self._logged_at = now

    def _drop_days(self, now: int) -> None:
        """Drop what was counted before yesterday, unless a call is being counted."""
        if self._counting.acquire(blocking=False):
            self._counts.drop_before(now // DAY - 1)
            self._counting.release()

    def _clean(self, now: int) -> None:
        """Let the store merge and delete old rows; it does so once a day."""
        at = self._identity.clock()
        if at - self._cleaned_at < _HOUR:
            return
        self._cleaned_at = at
        try:
            self._store.clean(self._retention, now, self._identity)
        except Exception as error:  # noqa: BLE001 - drivers raise many kinds
            log_error("expired rows of usage cannot be deleted: %s", explain(error))
