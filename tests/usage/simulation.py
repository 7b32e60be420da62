"""Simulated time, hosts and network for real recorders, their threads, the store and
reports.

Where nothing happens, time jumps: threads run as often as in reality only around
events.
"""

import copy
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from math import ceil
from pathlib import Path
from queue import Empty
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest import mock

from sqlalchemy import Engine, StaticPool, create_engine

from flask_notifications import Operation
from flask_notifications.plans.policy import Phase
from flask_notifications.usage import (
    UsageRecorder,
    UsageReport,
    connections,
    read_usage,
    reading,
    recorder,
    store,
    verdict,
    writer,
)
from flask_notifications.usage.coverage import Coverage, cover
from flask_notifications.usage.times import (
    SECOND,
    to_datetime,
    to_microseconds,
)
from tests.usage.databases import EXPORT, POLICY, REPORT, use

MINUTE = 60 * SECOND
START = to_microseconds(datetime(2026, 5, 1, tzinfo=UTC))
VERSIONS = {
    "plain": REPORT,
    "moved": Operation(REPORT.name, "GET", "/reports"),
    "without": EXPORT,
}
# Where a file is not written to a disk, which takes most of the time otherwise.
MEMORY = Path("/dev/shm")  # noqa: S108


@dataclass(eq=False)
class Host:
    """A machine. ``offset`` is by how much its clock is ahead, since ``set_at``."""

    name: str
    offset: int = 0
    set_at: int = 0
    heard_at: int = START
    is_cut_off: bool = False
    is_paused: bool = False


@dataclass(eq=False)
class Process:
    """A process that serves. ``heard_at`` is when it has written last."""

    host: Host
    number: int
    version: str
    recorder: UsageRecorder
    heard_at: int = 0
    ended_at: int | None = None

    @property
    def is_alive(self) -> bool:
        return self.ended_at is None


class Killed(BaseException):
    """Ends a thread as if its process was killed."""


class Thread:
    """A thread of a process, which runs until it waits, in its turn."""

    def __init__(self, world: "World", target: Callable[[], object]) -> None:
        self.process = world.process
        self.due_at = world.time
        self._world, self._target = world, target
        self._turn = threading.Semaphore(0)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        self._turn.acquire()
        with suppress(Killed):
            if self.process.is_alive:
                self._target()
        self._world.threads.remove(self)
        self._world.turn.release()

    def resume(self) -> None:
        before = self._world.process, self._world.thread
        self._world.process, self._world.thread = self.process, self
        self._turn.release()
        self._world.turn.acquire()
        self._world.process, self._world.thread = before

    def sleep(self, until: int) -> None:
        self.due_at = until
        self._world.turn.release()
        self._turn.acquire()
        if not self.process.is_alive:
            raise Killed


class Queue:
    """A queue for which a thread waits in simulated time."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._items: deque[Any] = deque()
        self._reader: Thread | None = None

    def put(self, item: object) -> None:
        self._items.append(item)
        if self._reader is not None:
            self._reader.due_at = self._world.time

    def get(self, timeout: float) -> Any:
        until = self._world.time + ceil(timeout * SECOND)
        self._reader = self._world.thread
        while not self._items:
            if self._world.time >= until:
                raise Empty
            if self._reader is None:
                self._world.step(until)
            else:
                self._reader.sleep(until)
        return self._items.popleft()


@dataclass(frozen=True)
class Made:
    """A call that an observer heard of, at ``heard_at`` by the clock of its host.

    That clock or the database's was set at ``set_at``, and they differed by ``error``.
    Nothing was heard of its host for ``silence``.
    """

    at: int
    heard_at: int
    time: int
    client: str
    process: Process
    set_at: int
    error: int
    silence: int
    is_first: bool


@dataclass(eq=False)
class World:
    """Everything that there is, at one time."""

    engine: Engine
    reader: Engine
    time: int = START
    database: Host = field(default_factory=lambda: Host("database"))
    restored_at: int = 0
    threads: list[Thread] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    hosts: list[Host] = field(default_factory=list)
    calls: list[Made] = field(default_factory=list)
    # What the next transactions raise, and whether after their commit.
    failures: list[tuple[type[BaseException], bool]] = field(default_factory=list)
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    thread: Thread | None = None
    # Where something happens.
    process: Process = field(init=False)
    between_reads: Callable[[], object] | None = None
    coverages: dict[int, Coverage] = field(default_factory=dict)
    known: set[tuple[Process, str, int]] = field(default_factory=set)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    # What processes see of it.

    def process_id(self) -> int:
        return self.process.number

    def wall_clock(self) -> int:
        return (self.time + self.process.host.offset) * 1000

    def database_clock(self, _connection: object = None) -> int:
        return self.time + self.database.offset

    def start_thread(self, target: Callable[[], object]) -> bool:
        self.threads.append(Thread(self, target))
        return True

    @contextmanager
    def begin(self, engine: Engine) -> Iterator[Any]:
        process = self.process
        if self.database.is_cut_off or process.host.is_cut_off:
            raise ConnectionError
        error, is_late = self.failures.pop() if self.failures else (None, False)
        with connections.begin(engine) as (connection, _now):
            yield connection, self.database_clock()
            if error and not is_late:
                self._fail(error)
        if error:
            self._fail(error)

    def _fail(self, error: type[BaseException]) -> None:
        if error is Killed:
            self.process.ended_at = self.time
        raise error

    def write(self, *values: Any, **options: Any) -> int:
        now: int = _write(*values, **options)
        self.process.heard_at = self.process.host.heard_at = self.time
        return now

    def read_calls(self, *values: Any) -> None:
        action, self.between_reads = self.between_reads, None
        if action is not None:
            action()
        _read_calls(*values)

    def cover(self, *values: Any) -> Coverage:
        coverage = cover(*values)
        self.coverages[coverage.since] = coverage
        return coverage

    # What happens in it.

    @contextmanager
    def on(self, process: Process) -> Iterator[UsageRecorder]:
        before = getattr(self, "process", process)
        self.process = process
        try:
            yield process.recorder
        finally:
            self.process = before

    def add_host(self, name: str = "") -> Host:
        self.hosts.append(Host(name or f"host-{len(self.hosts)}"))
        return self.hosts[-1]

    def start(self, host: Host, version: str = "plain", **options: Any) -> Process:
        process = Process(host, next(self.numbers), version, mock.Mock())
        with self.on(process):
            made = UsageRecorder(self.engine, host=host.name, **options)
            made.listen({VERSIONS[version]: POLICY})
            process.recorder = made
            made.request_passed()
        self.processes.append(process)
        return process

    def fork(self, parent: Process, *, is_noticed: bool) -> Process:
        child = copy.copy(parent.recorder)
        # The memory of the child, which has no thread.
        child._store = copy.copy(child._store)
        child._counts = copy.deepcopy(child._counts)
        if child._writer is not None:
            child._writer = copy.copy(child._writer)
            child._writer._counts = child._counts
            child._writer._requests = Queue(self)
        process = Process(parent.host, next(self.numbers), parent.version, child)
        self.processes.append(process)
        with self.on(process):
            if is_noticed:
                child._set_up_process()
                child.request_passed()
        return process

    def kill(self, process: Process) -> None:
        process.ended_at = self.time
        for thread in self.threads.copy():
            if thread.process is process:
                thread.resume()

    def stop(self, process: Process) -> None:
        with self.on(process) as made:
            made.close()
        process.ended_at = self.time

    def reopen(self, process: Process) -> Process:
        """Close a recorder that is called again."""
        self.stop(process)
        again = Process(process.host, process.number, process.version, process.recorder)
        self.processes.append(again)
        with self.on(again) as made:
            made.request_passed()
        return again

    def call(
        self, process: Process, client: str, status: int = 200, *, at: int | None = None
    ) -> None:
        """Call a process, which responds now."""
        host = process.host
        heard_at = self.time + host.offset
        at = heard_at if at is None else at
        phase = Phase.SUNSET if status == 410 else Phase.DEPRECATED
        name = VERSIONS[process.version].name
        with self.on(process) as made:
            call = use(client, operation=name, status=status, phase=phase)
            made(call._replace(at=to_datetime(at)))
        key = (process, client, status)
        self._note(process, client, at, is_first=key not in self.known)
        self.known.add(key)

    def lose(self, process: Process, client: str) -> None:
        """Call a process whose recorder has no memory for that."""
        at = SimpleNamespace(timestamp=[].pop)
        with self.on(process) as made:
            try:
                made(use(client)._replace(at=at))  # type: ignore[arg-type]
            except IndexError:
                self._note(process, client, self.time + process.host.offset)

    def _note(
        self, process: Process, client: str, at: int, *, is_first: bool = False
    ) -> None:
        host = process.host
        made = Made(
            at=at,
            heard_at=self.time + host.offset,
            time=self.time,
            client=client,
            process=process,
            error=abs(host.offset - self.database.offset),
            set_at=max(host.set_at, self.database.set_at),
            silence=self.time - host.heard_at,
            is_first=is_first,
        )
        self.calls.append(made)

    def alive(self, host: Host | None = None) -> list[Process]:
        return [
            process
            for process in self.processes
            if process.is_alive and host in {None, process.host}
        ]

    def set_clock(self, host: Host, offset: int) -> None:
        host.offset, host.set_at = offset, self.time

    def save(self, path: Path) -> None:
        with self.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(str(self.engine.url.database), path)

    def restore(self, path: Path) -> None:
        if path.exists():
            self.engine.dispose()
            shutil.copy(path, str(self.engine.url.database))
            self.restored_at = self.time

    def advance(self, until: int, slow: int = 0) -> None:
        """Let time pass: slowly at first and at the end, for ``slow`` microseconds."""
        self._run(min(until, self.time + 2 * SECOND))
        self.time = max(self.time, until - slow)
        self._run(until)

    def _run(self, until: int) -> None:
        while self.time < until or self._find_due(until):
            self.step(until)

    def step(self, until: int) -> None:
        """Run the thread that is due first, if it is by then."""
        thread = self._find_due(until)
        if thread is None:
            self.time = until
            return
        self.time = max(self.time, thread.due_at)
        thread.resume()

    def _find_due(self, until: int) -> Thread | None:
        due = [
            thread
            for thread in self.threads
            if thread.due_at <= until and not thread.process.host.is_paused
        ]
        return min(due, key=lambda thread: thread.due_at, default=None)


def _pass_to(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of another class that passes its object, too."""

    def call(*values: Any, **options: Any) -> Any:
        return method(*values, **options)

    return call


_write = store.UsageStore.write
_read_calls = reading._Reader.read_calls


@contextmanager
def simulate_world() -> Iterator[tuple[World, Path]]:
    """Yield a world in which clocks, threads and connections of the library are
    simulated, and a folder.
    """
    parent = MEMORY if MEMORY.is_dir() else None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(dir=parent)))
        options: dict[str, Any] = {"check_same_thread": False}
        url = f"sqlite:///{folder}/usage.sqlite3"
        engine = create_engine(url, poolclass=StaticPool, connect_args=options)
        stack.callback(engine.dispose)
        reader = create_engine(url)
        stack.callback(reader.dispose)
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
            connection.exec_driver_sql("PRAGMA synchronous = OFF")
        store.metadata.create_all(engine)
        world = World(engine, reader)
        clock = SimpleNamespace(
            time_ns=world.wall_clock,
            monotonic=lambda: world.time / SECOND,
            monotonic_ns=lambda: world.time * 1000,
        )
        fakes: list[tuple[Any, str, Any]] = [
            *((module, "time", clock) for module in (recorder, store, writer)),
            *((module, "log_error", lambda *_: None) for module in (store, writer)),
            (recorder, "os", SimpleNamespace(getpid=world.process_id)),
            (writer, "start_thread", world.start_thread),
            (writer, "new_queue", lambda: Queue(world)),
            (writer, "_IDLE", float("inf")),
            (store, "begin", world.begin),
            (store.UsageStore, "write", _pass_to(world.write)),
            (reading, "read_clock", world.database_clock),
            (reading._Reader, "read_calls", _pass_to(world.read_calls)),
            (verdict, "cover", world.cover),
        ]
        for fake in fakes:
            stack.enter_context(mock.patch.object(*fake))
        yield world, folder
        for process in world.alive():
            world.kill(process)


def read(world: World, **options: Any) -> UsageReport:
    """Read a report through connections of its own."""
    world.coverages.clear()
    return read_usage(world.reader, operations=[REPORT], **options)
