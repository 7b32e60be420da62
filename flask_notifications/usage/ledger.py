"""The counts of one process, in memory or in a file that survives the process.

A file is mapped into memory, and its disk space is allocated before: a full disk must
not kill the process. It begins with integers and the ID of the recorder; then its
origin follows, and each key with its numbers, all in JSON. The kernel keeps what a
process has stored there, whatever happens to the process. Standard library only.
"""

import errno
import json
import mmap
import os
import secrets
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from flask_notifications.observers import Call
from flask_notifications.plans.policy import CLOSED_PHASES

from .times import DAY, SECOND

# Not on Windows, where there is no spool.
fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None

# The client of a call that only proves that calls are recorded: that of the command
# ``check``.
CANARY = "flask-notifications-check"
# The caller and the client of all calls beyond the limits. No product of a User-Agent
# has parentheses.
OTHER = "(other)"
# Pairs of a caller and a client that are kept by name, for an operation and a day.
PAIRS = 200
# Keys that a process keeps at most on a day, besides those of other pairs.
_KEYS = 20_000
# Characters of a label and of a client. The store has place for them whatever they are.
_LENGTH = 64

# A clock that goes on while a machine sleeps, on Linux.
_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)

# Bytes of a segment of a file, and integers of its head.
_SEGMENT, _HEAD = 1 << 16, 32
_MAGIC = 0x666E5F7573616734
# Where the head has which integer, and the ID of the recorder in ASCII. One is the
# number of bytes of the origin.
_KIND, _WHOLE, _STAMP, _ATTEMPT, _BEGAN, _HEARD, _HAS_THREAD, _STORE, _SKEW, _ORIGIN = (
    range(10)
)
_ID = slice(16, 20)

FIRST_AT, LAST_AT, ANSWERED, FAILED, CLOSED = range(5)

Key: TypeAlias = tuple[int, str, str | None, str | None, str | None]
"""A UTC day since 1970, the name of an operation, a caller, a client and a source."""
Cells: TypeAlias = "MutableSequence[int] | memoryview[int]"
Taken: TypeAlias = "tuple[Key, Entry, tuple[int, ...]]"
"""A key, its entry, and the numbers of that when it was taken."""


@dataclass(slots=True)
class Entry:
    """The numbers of a key: the times of the first and the last call in microseconds
    since 1970, and three counts.

    ``written`` are those that were committed last. While it is empty, the store may
    have others.
    """

    cells: Cells
    place: int
    written: tuple[int, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return the five numbers."""
        return tuple(self.cells[self.place : self.place + 5])


class Origin(NamedTuple):
    """Where a ledger comes from; equal for all ledgers of a process.

    ``began`` is when the process did, in the same unit as in a ledger, ``operations``
    are the fingerprints by name, and ``database`` identifies the store as far as its
    URL does. ``boot`` and ``machine`` are the IDs of these functions.
    """

    service: str = ""
    host: str = ""
    process: int = 0
    began: int = 0
    has_own_clock: bool = False
    operations: Mapping[str, str] = {}
    database: str = ""
    boot: str = ""
    machine: str = ""


@cache
def boot() -> str:
    """Return the ID of the last start of this machine, or an empty string if it is
    hidden.
    """
    with suppress(OSError):
        return (
            Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        )
    return ""


@cache
def machine() -> str:
    """Return an ID of this machine, as far as it has one."""
    with suppress(OSError):
        return Path("/etc/machine-id").read_text(encoding="ascii").strip()
    return ""


def is_canary(client: str | None) -> bool:
    """Return whether a client is the one whose calls only prove that calls are
    recorded, in any version.
    """
    return client is not None and client.partition("/")[0] == CANARY


def name_others(client: str | None) -> tuple[str, str]:
    """Return the caller and the client for a call of a client that is not kept by name;
    canaries stay apart.
    """
    return OTHER, CANARY if is_canary(client) else OTHER


def uptime() -> int:
    """Return the microseconds since this machine was started, which no clock that is
    set can change.
    """
    return (
        time.monotonic_ns() if _BOOTTIME is None else time.clock_gettime_ns(_BOOTTIME)
    ) // 1000


def _cell(place: int) -> Any:
    """Return a property for an integer that the file keeps for the process that imports
    it.
    """
    return property(
        lambda ledger: ledger.head[place],
        lambda ledger, value: ledger.head.__setitem__(place, value),
    )


class Ledger:
    """Count calls by key, and remember the numbers that the store has of them.

    One thread counts at a time.

    :param began: the time since which all calls are in here: the uptime, or the time of
        a clock of the recorder's own.
    """

    # When counting began, and the last time at which the process was alive for sure; as
    # an uptime, or by its own clock.
    began: int = _cell(_BEGAN)
    heard: int = _cell(_HEARD)
    # The largest difference of the machine's clock from the database's, and of two of
    # its own times.
    skew: int = _cell(_SKEW)
    # The ID of the store that has the row, or 0 if no write is known to have been
    # committed. What the row has as its stamp: the one, or the other if nobody knows
    # whether the last write was committed.
    store: int = _cell(_STORE)
    stamp: int = _cell(_STAMP)
    attempted: int = _cell(_ATTEMPT)
    # 1 or 0: whether the process writes its counts itself.
    has_thread: int = _cell(_HAS_THREAD)

    def __init__(self, origin: Origin, began: int) -> None:
        self.origin = origin
        self.entries: dict[Key, Entry] = {}
        self.head: memoryview[int] = memoryview(bytearray(8 * _HEAD)).cast("q")
        self.head[_KIND], self.head[_WHOLE], self.has_thread = _MAGIC, 1, 1
        self._take_identity()
        self.began = self.heard = began
        self.file: LedgerFile | None = None
        # Tells the time of the process that counts; ``None`` if that has ended, or if
        # only it can read its clock.
        self.clock: Callable[[], int] | None = uptime
        # Whether this process counts. Any other one sees only the file.
        self.is_own: bool = True
        # What the clock of this machine showed when it was started, as far as it was
        # right when counting began.
        self._epoch: int | None = None
        # The time of the database when this machine was started, as of the last write.
        self.started: int = 0
        self.limit: int = _KEYS
        self._pairs: dict[
            tuple[int, str, bool], set[tuple[str | None, str | None]]
        ] = {}

    @property
    def id(self) -> str:
        """The ID of the recorder, which the file has too: others may write for a
        process, and renew its ledger.
        """
        return self.head[_ID].tobytes().decode("ascii")

    def _take_identity(self) -> None:
        self.head[_ID] = memoryview(secrets.token_hex(16).encode()).cast("q")

    def count(self, call: Call) -> bool:
        """Count a call, and return whether its key is a new one."""
        at = int(call.at.timestamp() * SECOND)
        key: Key = (at // DAY, call.operation, call.caller, call.client, call.source)
        known = len(self.entries)
        entry = self.entries.get(key)
        if entry is None:
            entry = self._admit(key, at)
        cells, place = entry.cells, entry.place
        if at > cells[place + LAST_AT]:
            cells[place + LAST_AT] = at
        elif at < cells[place + FIRST_AT]:
            cells[place + FIRST_AT] = at
        if (
            call.phase in CLOSED_PHASES
        ):  # the counts last, because others may read the numbers meanwhile
            cells[place + CLOSED] += 1
        elif call.status is not None and call.status < 400:
            cells[place + ANSWERED] += 1
        else:
            cells[place + FAILED] += 1
        return len(self.entries) > known

    def _admit(self, key: Key, at: int) -> Entry:
        """Return the entry of a call with a new key.

        Invented clients cannot push out pairs with a caller.
        """
        day, operation, caller, client, source = key
        fits = all(
            each is None or 0 < len(each) <= _LENGTH for each in (caller, client)
        )
        named = self._pairs.setdefault((day, operation, caller is not None), set())
        others = (
            () if caller is not None else self._pairs.get((day, operation, True), ())
        )
        is_below_limit = (
            len(named) + len(others) < PAIRS and len(self.entries) < self.limit
        )
        if (caller, client) in named or (fits and is_below_limit):
            named.add((caller, client))
        else:
            key = (day, operation, *name_others(client), source)
        if key not in self.entries:
            self.entries[key] = self._new_entry(key, at)
        return self.entries[key]

    def _new_entry(self, key: Key, at: int) -> Entry:
        if self.file is not None:
            with suppress(OSError):
                return self.file.append(key, at)
            self.head[_WHOLE] = 0  # the disk is full: this key is in memory only
        return Entry([at, at, 0, 0, 0], 0)

    def take(self) -> list[Taken]:
        """Return the entries that the store may not have, as they are now."""
        entries = (
            self.entries.copy()
        )  # which nothing interrupts, because calls are counted meanwhile
        taken = ((key, entry, entry.numbers) for key, entry in entries.items())
        return [each for each in taken if each[2] != each[1].written]

    @property
    def unwritten(self) -> int:
        """The calls whose entries the store may not have."""
        return sum(sum(numbers[ANSWERED:]) for _key, _entry, numbers in self.take())

    def compare_times(self, taken: Iterable[Taken], now: int) -> None:
        """Note how far the clock of this machine and the times of calls differ from the
        time of the database.
        """
        if self._is_of_this_boot and not self.origin.has_own_clock:
            # A process without a thread does not note that it is alive, so it may have
            # been until now.
            heard = self.started + (
                self.heard if self.clock or self.has_thread else uptime()
            )
            began = self.started + self.origin.began
            skews = [abs(time.time_ns() // 1000 - now)] if self.clock else []
            for _key, _entry, (first_at, last_at, *_counts) in taken:
                skews += [last_at - heard, began - first_at]
            self.note_skew(0, *skews)

    def attempt(self) -> int:
        """Return the stamp that is about to be written, the same until it is confirmed."""
        if self.attempted == self.stamp:
            self.attempted = secrets.randbits(
                62
            )  # a clone of this machine gets another one
        return self.attempted

    def confirm(self, store: int, taken: Iterable[Taken]) -> None:
        """Note that the last attempt was committed."""
        self.stamp, self.store = self.attempted, store
        for _key, entry, numbers in taken:
            entry.written = numbers

    def renew(self) -> None:
        """Take a new identity, whose row has all totals, but covers nothing before the
        last sign of life.
        """
        self._take_identity()
        self.stamp = self.attempted = self.store = 0
        self.began = self.heard
        for entry in self.entries.copy().values():  # calls are counted meanwhile
            entry.written = ()

    def note_skew(self, *skews: int) -> None:
        """Note differences of a clock, of which the largest is kept."""
        self.skew = max(self.skew, *skews)

    def compare_clock(self, epoch: int) -> None:
        """Note a changed time of this machine's start: its clock may be right again
        before the database is asked.
        """
        self._epoch = epoch if self._epoch is None else self._epoch
        self.note_skew(abs(epoch - self._epoch))

    def locate(self, at: int, now: int) -> int:
        """Return when something was that is here as an uptime, by the clock of the
        database; now if that is unknown.
        """
        return (
            min(at + self.started, now)
            if self._is_of_this_boot or self.origin.has_own_clock
            else now
        )

    @property
    def is_whole(self) -> bool:
        """Whether every count is in the file, and the kernel that kept it is the same."""
        return bool(self.head[_WHOLE]) and self._is_of_this_boot

    @property
    def _is_of_this_boot(self) -> bool:
        ids = {self.origin.boot, boot()}
        # systemd may hide the ID (ProcSubset=pid), but a live process began after the
        # last start.
        return self.clock is not None if "" in ids else len(ids) == 1

    @property
    def is_of_this_machine(self) -> bool:
        """Whether it was written on this machine, as far as machines have IDs."""
        return any(
            own and own in {self.origin.boot, self.origin.machine}
            for own in (boot(), machine())
        )


_open_files: "weakref.WeakSet[LedgerFile]" = weakref.WeakSet()


class LedgerFile:
    """The file of a ledger: locked by the process that it belongs to, for as long as
    that lives.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._segments: list[memoryview[int]] = []
        self._used = 0
        _open_files.add(self)

    @property
    def head(self) -> "memoryview[int]":
        """The integers at the beginning of a file that has any."""
        return self._segments[0]

    def _map(self) -> None:
        """Map new segments, each of which stays in memory until its last view is
        released.
        """
        for number in range(
            len(self._segments), os.fstat(self._descriptor).st_size // _SEGMENT
        ):
            mapped = mmap.mmap(self._descriptor, _SEGMENT, offset=number * _SEGMENT)
            self._segments.append(memoryview(mapped).cast("q"))

    def allocate(self, content: bytes = b"") -> None:
        """Add as many segments as some bytes need, but at least one; a full disk is an
        ``OSError``.
        """
        last = max(0, len(content) - 1) // _SEGMENT
        size = (last + 1) * _SEGMENT
        if (
            os.pwrite(
                self._descriptor,
                content.ljust(size, b"\0"),
                len(self._segments) * _SEGMENT,
            )
            != size
        ):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._map()
        self._used = (len(content) - last * _SEGMENT) // 8

    def append(self, key: Key, at: int) -> Entry:
        """Add a key; a full disk is an ``OSError``.

        Its length is written last, because it makes the entry valid.
        """
        name = memoryview(_encode(key)).cast("q")
        if 8 * (self._used + 1 + len(name) + 5) > _SEGMENT:
            self.allocate()
        cells, start = self._segments[-1], self._used
        place = start + 1 + len(name)
        cells[start + 1 : place] = name
        cells[place], cells[place + 1] = at, at
        cells[start] = 8 * len(name)
        self._used = place + 5
        return Entry(cells, place)

    def is_without_thread(self) -> bool:
        """Whether the process that the file belongs to writes nothing itself."""
        cell = os.pread(self._descriptor, 8, 8 * _HAS_THREAD)
        return len(cell) == 8 and not any(cell)

    def read(self) -> Ledger:
        """Return the ledger in the file, or raise ``ValueError``."""
        self._map()
        if not self._segments or self.head[_KIND] != _MAGIC:
            message = "it is not the file of a recorder of this version"
            raise ValueError(message)
        ledger = Ledger(
            Origin(
                **json.loads(os.pread(self._descriptor, self.head[_ORIGIN], 8 * _HEAD))
            ),
            0,
        )
        ledger.head, ledger.file = self.head, self
        ledger.entries = dict(self._entries())
        ledger.is_own = False
        if ledger.origin.has_own_clock:
            ledger.clock = None
        return ledger

    def _entries(self) -> Iterator[tuple[Key, Entry]]:
        first, start = divmod(_HEAD + self.head[_ORIGIN] // 8, _SEGMENT // 8)
        for cells in self._segments[first:]:
            while start < len(cells) and (length := cells[start]) > 0:
                place = start + 1 + length // 8
                yield (
                    tuple(json.loads(cells[start + 1 : place].tobytes())),
                    Entry(cells, place),
                )
                start = place + 5
            start = 0

    def delete(self) -> None:
        """Delete the file and close it."""
        with suppress(OSError):
            self.path.unlink()
        self.close()

    def close(self) -> None:
        """Close the file, which ends its lock if no other process has it open."""
        for cells in self._segments:
            cells.release()
        self._segments.clear()
        if self._descriptor >= 0:
            with suppress(OSError):  # another thread has closed it just before a fork
                os.close(self._descriptor)
        self._descriptor = -1


def close_files() -> None:
    """Close all files, as a forked child does: the locks of its parent must not live on
    in it.
    """
    for file in list(_open_files):
        file.close()


def create_file(ledger: Ledger, folder: Path) -> None:
    """Put a new ledger into a file of its own, which gets its name once it is locked
    and complete; or ``OSError``.
    """
    file, _is_locked = open_file(
        folder / f"{ledger.id}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL
    )
    try:
        origin = _encode(ledger.origin._asdict())
        ledger.head[_ORIGIN] = len(origin)
        file.allocate(ledger.head.tobytes() + origin)
        file.path = file.path.rename(file.path.with_suffix(".spool"))
    except OSError:
        file.delete()
        raise
    ledger.file, ledger.head = file, file.head


def _encode(value: object) -> bytes:
    """Return a value in JSON, in bytes that are whole integers."""
    encoded = json.dumps(value).encode()
    return encoded.ljust(-(-len(encoded) // 8) * 8)


def open_file(path: Path, flags: int = os.O_RDWR) -> tuple[LedgerFile, bool]:
    """Open a file or folder and lock it until its process ends; return it, and whether
    nobody else has its lock.
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    file = LedgerFile(path, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return file, False
    except OSError:
        (file.delete if flags & os.O_EXCL else file.close)()
        raise
    return file, True


def has_locks() -> bool:
    """Return whether this system has the locks that the files of ledgers need."""
    return fcntl is not None
