"""The folder of the counts that the database does not have yet: find it, and import the files of ended processes."""

import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine

from flask_notifications.log import log_error

from .connections import identify
from .ledger import TOLERANCE, Ledger, LedgerFile, boot, has_locks, lock_file, machine, open_file, uptime
from .store import OtherStore, RowChanged, UsageStore

# Seconds between two signs of life that are written for a process that runs no threads.
_SIGN = 30.0

_reported: set[str] = set()


def _report_once(subject: str, message: str, *details: object) -> None:
    if subject not in _reported:
        _reported.add(subject)
        log_error(message, *details)


def open_folder(spool: str | None, database: str) -> Path | None:
    """Return the folder of a spool, which is made if it is missing; ``None`` without one, or if it is not private.

    :param spool: a folder, ``"auto"`` or ``None``.
    :param database: identifies the database, and is part of the folder's name with ``"auto"``.
    """
    if spool is None:
        return None
    if not has_locks():
        _report_once("locks", "usage is counted without a spool, because this system has no flock")
        return None
    name = hashlib.sha256(database.encode()).hexdigest()[:16]
    automatic = Path(tempfile.gettempdir(), f"flask_notifications-{os.getuid()}-{name}")
    folder = automatic if spool == "auto" else Path(spool)
    try:
        folder.mkdir(mode=0o700, parents=spool != "auto", exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        _report_once(str(folder), "usage is counted without a spool: %s", error)
        return None
    is_private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    if spool == "auto" and not is_private:
        _report_once(str(folder), "usage is counted without a spool, because %s is not private", folder)
        return None
    return folder


def write_ledger(
    store: UsageStore, ledger: Ledger, lock: Any, *, clock: int | None, is_final: bool = False, is_alive: bool = True
) -> int:
    """Write a ledger to the store, and return the time of that.

    :param lock: a context manager that keeps others from counting.
    :param clock: the time of a clock of the recorder's own, or ``None``.
    """
    taken: list[Any] = []

    def take(now: int) -> list[Any]:
        with lock:
            taken.extend(ledger.take())
            if is_alive:
                ledger.heard = now if ledger.origin.has_own_clock else uptime()
            if not ledger.origin.has_own_clock and ledger.boot == boot():
                _measure_skew(ledger, taken, now, is_alive=is_alive)
        return taken

    try:
        now = store.write(ledger, take, clock=clock, is_final=is_final, is_alive=is_alive)
    except BaseException:
        ledger.is_sure = False  # nobody knows whether a transaction was committed that failed then
        for _key, entry, _numbers in taken:
            entry.is_dirty = True
        raise
    ledger.is_sure = bool(ledger.has_thread)
    for _key, entry, _numbers in taken:
        entry.is_stored = True
    return now


def _measure_skew(ledger: Ledger, taken: list[Any], now: int, *, is_alive: bool) -> None:
    """Note how far the clock of this machine and the times of calls are off."""
    began, heard = ledger.started + ledger.oldest, ledger.started + ledger.heard
    skews = [abs(time.time_ns() // 1000 - now)] if is_alive else []
    for _key, _entry, (first_at, last_at, *_counts) in taken:
        skews += [each for each in (last_at - heard, began - first_at) if each > TOLERANCE]
    ledger.note_skew(*skews, 0)


def collect(folder: Path | None, store: UsageStore, seen: dict[str, tuple[int, float]] | None = None) -> int:
    """Write the counts of ended processes in a folder, and of processes without threads; return their number.

    :param seen: the counts already written for processes without threads; it is changed.
    """
    number = 0
    with _alone(folder) as is_alone:
        for path in sorted(folder.glob("*.spool")) if folder is not None and is_alone else ():
            with suppress(FileNotFoundError):
                number += _collect_file(path, store, {} if seen is None else seen)
    return number


def collect_spool(folder: str | os.PathLike[str], database: str | URL | Engine) -> int:
    """Write the counts of ended processes in the folder of a spool on this machine, and return their number.

    :param folder: the folder that recorders have as ``spool``.
    :param database: an SQLAlchemy URL or engine of the database that they write.
    :raises ValueError: ``database`` is something else.
    """
    store = UsageStore(database, create_tables=True)
    try:
        return collect(Path(folder), store)
    finally:
        store.release()


@contextmanager
def _alone(folder: Path | None) -> Iterator[bool]:
    """Lock a folder, unless another process has."""
    if folder is None or not folder.is_dir() or not has_locks():
        yield False
        return
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield lock_file(descriptor)
    finally:
        os.close(descriptor)


def _collect_file(path: Path, store: UsageStore, seen: dict[str, tuple[int, float]]) -> bool:
    file, has_ended = open_file(path)
    try:
        if not (has_ended or file.is_without_thread()):
            return False
        ledger = _read(file)
        if ledger is None or not _belongs(ledger, path, store):
            return False
        if not has_ended:
            return _write_for(ledger, store, seen)
        _bring_in(ledger, store)
        file.delete()
    except OtherStore:
        _report_once(str(path), "%s has calls for another database", path)
        return False
    finally:
        file.close()
    return True


def _read(file: LedgerFile) -> Ledger | None:
    try:
        return file.read()
    except (ValueError, KeyError, TypeError) as error:
        _report_once(str(file.path), "%s cannot be read: %s", file.path, error)
        return None


def _belongs(ledger: Ledger, path: Path, store: UsageStore) -> bool:
    """Return whether a ledger was written on this machine; raise if it is for another database."""
    if ledger.store == 0 and ledger.origin.database != identify(store.engine):
        raise OtherStore
    is_here = bool(boot()) and ledger.boot == boot()
    is_here = is_here or (bool(machine()) and ledger.machine == machine())
    if not is_here:
        _report_once(str(path), "%s was written on another machine", path)
    return is_here


def _bring_in(ledger: Ledger, store: UsageStore) -> None:
    """Write the totals of a process that has ended; that ends its loss if nothing can be missing."""
    clock = ledger.heard if ledger.origin.has_own_clock else None
    _write_or_renew(store, ledger, ledger.heard, clock=clock, is_final=ledger.is_whole, is_alive=False)


def _write_or_renew(store: UsageStore, ledger: Ledger, began: int, **options: Any) -> None:
    """Write a ledger; under a new identity if its row is not as it was left."""
    try:
        write_ledger(store, ledger, nullcontext(), **options)
    except RowChanged:
        ledger.renew(began)
        write_ledger(store, ledger, nullcontext(), **options)


def _write_for(ledger: Ledger, store: UsageStore, seen: dict[str, tuple[int, float]]) -> bool:
    """Write the totals of a process that is alive and runs no threads."""
    calls = sum(sum(entry.numbers[2:]) for entry in ledger.entries.values())
    known, at = seen.get(ledger.id, (-1, 0.0))
    if known == calls and time.monotonic() < at + _SIGN:
        return False
    _write_or_renew(store, ledger, uptime(), clock=None)
    seen[ledger.id] = calls, time.monotonic()
    return True
