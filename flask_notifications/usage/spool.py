"""The folder of the counts that the database does not have yet: find it, and import the
files of ended processes.
"""

import hashlib
import os
import stat
import tempfile
import time
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TypeAlias

from flask_notifications.log import log_error
from flask_notifications.validation import require

from .connections import Database
from .ledger import Key, Ledger, LedgerFile, has_locks, open_file
from .store import UsageStore

# Seconds between two signs of life at most, half of the promised time.
SIGN_INTERVAL = 30.0

Seen: TypeAlias = dict[Path, tuple[str, dict[Key, tuple[int, ...]], float]]
"""By the file of a process: the ID of its ledger, its numbers, and when they were written, by a monotonic clock."""


@cache
def _report_once(message: str) -> None:
    log_error("%s", message)


def is_folder(value: object) -> bool:
    """Return whether a value can be the path of a folder."""
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    return isinstance(path, str) and path != "" and "\0" not in path


def open_folder(spool: str | None, database: str) -> Path | None:
    """Return the folder of a spool, or ``None``; ``"auto"`` is a private folder for
    each identity of a database.
    """
    if spool is None:
        return None
    if not has_locks():
        _report_once(
            "usage is counted without a spool, because this system has no flock"
        )
        return None
    name = hashlib.sha256(database.encode()).hexdigest()[:16]
    automatic = f"flask_notifications-{os.getuid()}-{name}"
    try:  # there may be no temporary folder either, where all is read-only
        folder = (
            Path(tempfile.gettempdir(), automatic) if spool == "auto" else Path(spool)
        )
        folder.mkdir(mode=0o700, parents=spool != "auto", exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        _report_once(f"usage is counted without a spool: {error}")
        return None
    is_private = (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.getuid()
        and not found.st_mode & 0o077
    )
    if spool == "auto" and not is_private:
        _report_once(
            f"usage is counted without a spool, because {folder} is not private"
        )
        return None
    return folder


def collect(folder: Path | None, store: UsageStore, seen: Seen) -> int:
    """Write the counts of ended processes in a folder, and of processes without
    threads; return their number.
    """
    if folder is None or not folder.is_dir() or not has_locks():
        return 0
    lock, is_alone = open_file(
        folder.resolve(), os.O_RDONLY
    )  # no file of its own: another user could not open that
    with closing(lock):
        paths = sorted(folder.glob("*.spool"))
        for gone in seen.keys() - set(paths):
            del seen[gone]
        return sum(_collect_file(path, store, seen) for path in paths if is_alone)


def collect_spool(folder: str | os.PathLike[str], database: Database) -> int:
    """Write the counts of ended processes in the folder of a spool on this machine, and
    return their number.

    :param folder: the folder that recorders have as ``spool``.
    :param database: an SQLAlchemy URL or engine of the database that they write.
    :raises ValueError: ``folder`` or ``database`` is something else.
    """
    require(is_folder(folder), "folder", "the path of a folder", folder)
    store = UsageStore(database, create_tables=True)
    try:
        return collect(Path(folder), store, {})
    finally:
        store.release()


def _collect_file(path: Path, store: UsageStore, seen: Seen) -> bool:
    try:
        file, has_ended = open_file(path)
    except FileNotFoundError:  # its process has ended just now
        return False
    except OSError as error:
        _report_once(f"{path} cannot be opened: {error}")
        return False
    with closing(file):
        ledger = (
            _open_ledger(file, store) if has_ended or file.is_without_thread() else None
        )
        if ledger is None:
            return False
        if not has_ended:
            return _write_for(path, ledger, store, seen)
        ledger.clock = None
        store.write(
            ledger, is_final=ledger.is_whole
        )  # that ends its loss if nothing can be missing
        file.delete()
        return True


def _open_ledger(file: LedgerFile, store: UsageStore) -> Ledger | None:
    """Return the ledger that is in a file; ``None`` if it is of another machine or for
    another database.
    """
    try:
        ledger = file.read()
    except (ValueError, KeyError, TypeError) as error:
        _report_once(f"{file.path} cannot be read: {error}")
        return None
    if not (
        ledger.store == store.prepare()
        if ledger.store
        else ledger.origin.database == store.identity
    ):
        _report_once(f"{file.path} has calls for another database")
    elif not ledger.is_of_this_machine:
        _report_once(f"{file.path} was written on another machine")
    else:
        return ledger
    return None


def _write_for(path: Path, ledger: Ledger, store: UsageStore, seen: Seen) -> bool:
    """Write the totals that have changed of a process that is alive and runs no
    threads.
    """
    identity, known, at = seen.get(path, ("", {}, 0.0))
    if identity != ledger.id:  # all was written again
        known = {}
    for key, entry in ledger.entries.items():
        entry.written = known.get(key, ())
    if not ledger.take() and time.monotonic() < at + SIGN_INTERVAL:
        return False
    store.write(ledger)
    seen[path] = (
        ledger.id,
        {key: entry.written for key, entry in ledger.entries.items()},
        time.monotonic(),
    )
    return True
