"""Simulated time, hosts and network for real recorders, their threads, the store and
reports.

A history is random: processes serve for days, are called, and something fails. A
report may then lack no call in time that it calls covered. Where nothing happens, time
jumps: each thread runs as often as in reality only around events.
"""

import copy
import random
import shutil
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import heappop, heappush
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
from flask_notifications.usage.coverage import Coverage, Interval, cover
from flask_notifications.usage.store import CLOCK_LIMIT
from flask_notifications.usage.times import (
    DAY,
    HOUR,
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
    """A machine. ``offset`` is by how much its clock is ahead."""

    name: str
    offset: int = 0
    clock_set_at: int = 0
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
    """A call that an observer heard of. ``at`` and ``heard_at`` are by its host's
    clock.
    """

    at: int
    heard_at: int
    time: int
    client: str
    process: Process
    clock_set_at: int
    clock_error: int
    silence: int
    is_first: bool


@dataclass(eq=False)
class World:
    """Everything that there is, at one time."""

    engine: Engine
    reader: Engine
    random: random.Random
    time: int = START
    database_offset: int = 0
    database_set_at: int = 0
    is_away: bool = False
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
        return self.time + self.database_offset

    def start_thread(self, target: Callable[[], object]) -> bool:
        self.threads.append(Thread(self, target))
        return True

    @contextmanager
    def begin(self, engine: Engine) -> Iterator[Any]:
        process = self.process
        if self.is_away or process.host.is_cut_off:
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
        if child._writer is not None:
            child._writer = copy.copy(child._writer)
            child._writer.counts = copy.deepcopy(child._writer.counts)
            child._writer._requests = Queue(self)
        process = Process(parent.host, next(self.numbers), parent.version, child)
        self.processes.append(process)
        with self.on(process):
            if is_noticed:
                child._begin_anew()
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
            made(
                use(
                    client,
                    operation=name,
                    at=to_datetime(at),
                    status=status,
                    phase=phase,
                )
            )
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
            clock_error=host.offset - self.database_offset,
            clock_set_at=max(host.clock_set_at, self.database_set_at),
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
        host.offset, host.clock_set_at = offset, self.time

    def set_database_clock(self, offset: int) -> None:
        self.database_offset, self.database_set_at = offset, self.time

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
_read_calls = reading._CallReader.read


@contextmanager
def simulate_world(seed: int) -> Iterator[tuple[World, Path]]:
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
        world = World(engine, reader, random.Random(seed))  # noqa: S311 - no secret
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
            (reading._CallReader, "read", _pass_to(world.read_calls)),
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


# Histories


@dataclass
class Outcome:
    """What a history has shown: how often each verdict was given, and which calls in
    covered time a report lacked.
    """

    verdicts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class History:
    """Processes that serve for days, some calls, and something that fails near to
    them.
    """

    def __init__(self, world: World, folder: Path, kinds: Sequence[str]) -> None:
        self.world, self.random = world, world.random
        self.copy = folder / "copy"
        self.outcome = Outcome()
        self.agenda: list[tuple[int, int, Callable[[], object]]] = []
        self.moment = START + self.between(26 * HOUR, 60 * HOUR)
        number = self.random.choice([1, 1, 1, 2])
        self.kinds = [self.random.choice(kinds) for _ in range(number)]
        # Whether nothing delays the write of a first call.
        self.is_prompt = {"quiet", "kill", "fork", "silent fork"}.issuperset(self.kinds)
        self.clients, self.statuses = ["job/1", ""], [200, 200, 403, 500, 410]
        self.options: dict[str, Any] = {}
        if "expire" in self.kinds:
            self.options["retention_days"] = 1

    def between(self, least: int, most: int) -> int:
        power = self.random.choice([1, 3])
        return int(least + (most - least) * self.random.random() ** power)

    def is_lucky(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    def plan(self, delay: int, action: Callable[[], object]) -> None:
        at = max(self.moment + delay, START + MINUTE)
        heappush(self.agenda, (at, len(self.agenda) + at % 1000, action))

    def start(self, host: Host, version: str = "plain") -> Process:
        return self.world.start(host, version, **self.options)

    def run(self) -> Outcome:
        world = self.world
        names = ["", "", ""]
        if "twice" in self.kinds:
            names = ["twin", "twin"]
        for name in names[: self.random.choice([1, 2, 2, 3])]:
            host = world.add_host(name)
            for _ in range(self.random.choice([1, 2])):
                self.start(host)
        self.victim = self.random.choice(world.processes)
        self.plan(-self.between(0, 10 * MINUTE), lambda: self.call("job/1"))
        for kind in self.kinds:
            KINDS[kind](self)
            self.plan(self.between(MINUTE, 20 * HOUR), self.restart)
        for _ in range(self.random.choice([1, 2, 3])):
            self.plan(self.between(-3 * SECOND, 5 * SECOND), self.call)
        for most in (
            5 * SECOND,
            2 * MINUTE,
            5 * MINUTE,
            2 * HOUR,
            20 * HOUR,
            50 * HOUR,
        ):
            self.plan(self.between(5 * SECOND, most), self.report)
        while self.agenda:
            at, _, action = heappop(self.agenda)
            world.advance(at, slow=self.between(0, 150 * SECOND))
            action()
        return self.outcome

    def pick(self) -> Process | None:
        """Return the process to which something happens, or else any."""
        if self.victim.is_alive and self.is_lucky(0.9):
            return self.victim
        alive = self.world.alive()
        return self.random.choice(alive) if alive else None

    def call(self, client: str = "") -> None:
        process = self.pick()
        if process is None:
            return
        client = client or self.random.choice(self.clients)
        client = client or f"job/{len(self.world.calls) + 2}"
        status = self.random.choice(self.statuses)
        world = self.world
        at = world.time + process.host.offset
        if self.is_lucky(0.8):
            world.call(process, client, status)
            return

        def respond() -> None:
            if process.is_alive:
                world.call(process, client, status, at=at)

        self.plan(world.time - self.moment + self.between(0, MINUTE), respond)

    def restart(self) -> None:
        """Start a process on hosts that have none any more."""
        for host in {self.victim.host: None, self.world.hosts[0]: None}:
            if not self.world.alive(host):
                self.victim = self.start(host)

    def end(self, *, gracefully: bool) -> None:
        if not self.victim.is_alive:
            return
        if gracefully:
            self.world.stop(self.victim)
        else:
            self.world.kill(self.victim)

    def kill(self) -> None:
        self.end(gracefully=False)

    def report(self) -> None:
        world, chance = self.world, self.random
        now = world.time
        ends = [None, None, None, now, now - self.between(0, max(1, now - self.moment))]
        until = chance.choice(ends)
        gone_after = chance.choice([None, None, 1])
        # Otherwise the rules that were heard last decide.
        has_plan = "deploy" in self.kinds or self.is_lucky()
        report = read(
            world,
            plan={REPORT: POLICY} if has_plan else None,
            days=chance.choice([1, 1, 2, 3]),
            until=None if until is None else to_datetime(until),
            gone_after=gone_after,
            ignore_clients=["job/1"],
            min_coverage=chance.choice([0.5, 0.9, 0.99]),
            allow_gap=chance.choice([6, 24]),
        )
        self.outcome.verdicts[report.verdict] += 1
        counts: Counter[str | None] = Counter()
        for row in report.operations[0].callers:
            counts[row.client] += row.calls
        since, end = to_microseconds(report.since), to_microseconds(report.until)
        required: Counter[str] = Counter()
        for call in world.calls:
            is_inside = since <= call.at < end and since <= call.heard_at < end
            gaps = world.coverages[since].gaps
            if is_inside and self.is_required(call, gaps, gone_after):
                required[call.client] += 1
        for client, number in required.items():
            if counts[client] < number:
                self.outcome.wrong.append(
                    f"{'+'.join(self.kinds)}: {report.verdict} on {to_datetime(now)} "
                    f"until {until} for {report.days} days: {number} calls by {client}, "
                    f"but {counts[client]}"
                )

    def is_required(
        self, call: Made, gaps: Sequence[Interval], gone_after: int | None
    ) -> bool:
        """Return whether a report has to have a call."""
        ended_at = call.process.ended_at or self.world.time
        if call.is_first and self.is_prompt and call.time + SECOND <= ended_at:
            return True
        is_covered = not any(start <= call.heard_at < end for start, end in gaps)
        return is_covered and not self.is_beyond(call, gone_after)

    def is_beyond(self, call: Made, gone_after: int | None) -> bool:
        """Return whether a call is beyond what a record can know."""
        process = call.process
        is_cut_off = gone_after and call.silence >= gone_after * HOUR - CLOCK_LIMIT
        # It was written since, if the process has lived for long enough.
        is_restored = process.heard_at <= self.world.restored_at
        return bool(
            not process.heard_at  # it has never reached the database
            or is_cut_off
            or (call.time < self.world.restored_at and is_restored)
            # Nobody heard of the clock's change, or calls go by another day.
            or call.clock_set_at > process.heard_at
            or abs(call.clock_error) > CLOCK_LIMIT
        )


# What fails near to some calls.


def _quiet(_history: History) -> None:
    """Nothing fails."""


def _kill(history: History) -> None:
    history.plan(history.between(0, 8 * SECOND), history.kill)


def _away(history: History) -> None:
    """The database is away for everybody, and perhaps a process ends."""
    world = history.world
    history.plan(-history.between(0, 2 * HOUR), lambda: setattr(world, "is_away", True))
    end = history.between(SECOND, 20 * HOUR)
    history.plan(end, lambda: setattr(world, "is_away", False))
    if history.is_lucky(0.7):
        at = history.between(0, MINUTE)
        is_graceful = history.is_lucky()
        history.plan(at, lambda: history.end(gracefully=is_graceful))
    if history.is_lucky(0.3):
        at = history.between(-HOUR, 2 * HOUR)
        history.plan(at, lambda: history.start(history.victim.host))


def _sibling(history: History) -> None:
    """A process is killed soon after an outage, while another one of its host lives."""
    world = history.world
    # Repeated calls, which are not written at once.
    history.clients, history.statuses = ["job/1"], [200]
    history.start(history.victim.host)
    start = -history.between(2 * MINUTE, 2 * HOUR)
    history.plan(start, lambda: setattr(world, "is_away", True))
    end = -history.between(0, 3 * SECOND)
    history.plan(end, lambda: setattr(world, "is_away", False))
    for _ in range(2):
        history.plan(history.between(0, 2 * SECOND), history.call)
    history.plan(history.between(SECOND, 4 * SECOND), history.kill)


def _cut(history: History) -> None:
    """A host is cut off while another one records; perhaps it dies."""
    world = history.world
    host = history.victim.host
    if len(world.hosts) == 1:
        history.start(world.add_host())

    def destroy() -> None:
        for process in world.alive(host):
            world.kill(process)

    start = -history.between(0, 40 * HOUR)
    history.plan(start, lambda: setattr(host, "is_cut_off", True))
    if history.is_lucky(0.6):
        history.plan(history.between(0, 3 * HOUR), destroy)
    end = history.between(MINUTE, 50 * HOUR)
    history.plan(end, lambda: setattr(host, "is_cut_off", False))


def _fork(history: History, *, is_noticed: bool = True) -> None:
    world = history.world

    def fork() -> None:
        if history.victim.is_alive:
            child = world.fork(history.victim, is_noticed=is_noticed)
            history.victim = history.random.choice([child, child, history.victim])

    history.plan(-history.between(0, 3 * HOUR), fork)
    is_graceful = history.is_lucky()
    at = history.between(0, 30 * SECOND)
    history.plan(at, lambda: history.end(gracefully=is_graceful))


def _silent_fork(history: History) -> None:
    """Python does not notice a fork, as under uWSGI."""
    _fork(history, is_noticed=False)


def _clock(history: History) -> None:
    """The clock of a host is wrong for a while, and a process is killed, perhaps in an
    outage.
    """
    world, host = history.world, history.victim.host
    errors = [2 * MINUTE, 4 * MINUTE, 4 * MINUTE, 6 * MINUTE, 3 * DAY]
    error = history.random.choice([-1, 1]) * history.random.choice(errors)
    start = -history.between(MINUTE, 3 * HOUR)
    history.plan(start, lambda: world.set_clock(host, error))
    history.plan(history.between(0, 3 * HOUR), lambda: world.set_clock(host, 0))
    if history.is_lucky():
        start = -history.between(0, 20 * SECOND)
        history.plan(start, lambda: setattr(world, "is_away", True))
        history.plan(HOUR, lambda: setattr(world, "is_away", False))
    history.plan(history.between(0, 30 * SECOND), history.kill)


def _database_clock(history: History) -> None:
    world = history.world
    errors = [3 * HOUR, 6 * MINUTE, 4 * MINUTE, 4 * MINUTE, 3 * DAY]
    error = history.random.choice([-1, 1]) * history.random.choice(errors)
    start = history.random.choice([-3 * HOUR, 3 * MINUTE])
    start = history.between(min(start, 0), max(start, 0))
    history.plan(start, lambda: world.set_database_clock(error))
    end = max(0, start) + history.between(0, 30 * HOUR)
    history.plan(end, lambda: world.set_database_clock(0))
    if history.is_lucky():
        history.plan(history.between(0, 10 * SECOND), history.kill)


def _restore(history: History) -> None:
    """The database is restored, which drops what was written since the copy."""
    world = history.world
    end = history.between(0, HOUR)
    if history.is_lucky():
        world.save(history.copy)  # it is empty
        end = history.between(20 * HOUR, 70 * HOUR)
    else:
        start = -history.between(0, 5 * HOUR)
        history.plan(start, lambda: world.save(history.copy))
    history.plan(end, lambda: world.restore(history.copy))
    history.plan(end + history.between(MINUTE, HOUR), history.report)
    if history.is_lucky():
        history.plan(history.between(0, HOUR), history.kill)


def _deploy(history: History) -> None:
    """Another version serves on a host for a while."""
    world = history.world
    version = history.random.choice(["moved", "without"])

    def replace(new: str) -> None:
        host = history.victim.host
        for process in world.alive(host):
            world.stop(process)
        history.victim = history.start(host, new)

    history.plan(-history.between(0, 20 * HOUR), lambda: replace(version))
    end = history.between(0, history.random.choice([10 * SECOND, 20 * HOUR]))
    history.plan(end, lambda: replace("plain"))


def _expire(history: History) -> None:
    """Rows are merged and deleted, also while a report is read."""
    world = history.world

    def report() -> None:
        # Processes that were busy for a day clean up while the report is read.
        world.time += history.random.choice([0, DAY])
        world.between_reads = lambda: world.advance(world.time + MINUTE, MINUTE)
        history.report()

    for _ in range(3):
        history.plan(history.between(0, 60 * HOUR), report)


def _close(history: History) -> None:
    """A recorder is closed and called again, perhaps in an outage."""
    world = history.world

    def close() -> None:
        if history.victim.is_alive:
            history.victim = world.reopen(history.victim)

    if history.is_lucky():
        history.plan(-history.between(0, HOUR), lambda: setattr(world, "is_away", True))
    history.plan(history.between(-SECOND, MINUTE), close)
    end = history.between(0, 2 * MINUTE)
    history.plan(end, lambda: setattr(world, "is_away", False))
    history.plan(history.between(0, 2 * MINUTE), history.kill)


def _lose(history: History) -> None:
    """Calls are lost in the recorder, because there is no memory."""

    def lose() -> None:
        if history.victim.is_alive:
            history.world.lose(history.victim, "lost")

    history.plan(history.between(0, 5 * SECOND), lose)
    if history.is_lucky():
        history.plan(history.between(0, 10 * SECOND), history.kill)


def _break(history: History) -> None:
    """Transactions fail before or after their commit, or the process is killed in one."""

    def fail() -> None:
        for _ in range(history.random.choice([1, 2, 5])):
            error = history.random.choice([ConnectionError, ConnectionError, Killed])
            history.world.failures.append((error, history.is_lucky()))

    history.plan(history.between(-2 * SECOND, 3 * SECOND), fail)


def _pause(history: History) -> None:
    """A host stops for a while, such as a virtual machine."""
    host = history.victim.host
    start = history.between(-5 * SECOND, 5 * SECOND)
    history.plan(start, lambda: setattr(host, "is_paused", True))
    end = 5 * SECOND + history.between(0, 20 * MINUTE)
    history.plan(end, lambda: setattr(host, "is_paused", False))
    history.plan(end + history.between(0, 10 * SECOND), history.kill)


def _twice(_history: History) -> None:
    """Two machines share a name."""


FAILURES = [
    _quiet,
    _kill,
    _away,
    _sibling,
    _cut,
    _fork,
    _silent_fork,
    _clock,
    _database_clock,
    _restore,
    _deploy,
    _expire,
    _close,
    _lose,
    _break,
    _pause,
    _twice,
]
KINDS = {failure.__name__[1:].replace("_", " "): failure for failure in FAILURES}
# Two machines that share a name are beyond what a record can know.
KNOWN = [kind for kind in KINDS if kind != "twice"]


def simulate(seed: int, kinds: Sequence[str] = KNOWN) -> Outcome:
    with simulate_world(seed) as (world, folder):
        return History(world, folder, kinds).run()


def main(first: int, number: int) -> int:
    verdicts: Counter[str] = Counter()
    wrong = 0
    for seed in range(first, first + number):
        outcome = simulate(seed)
        verdicts += outcome.verdicts
        for text in outcome.wrong:
            wrong += 1
            sys.stdout.write(f"seed {seed}, {text}\n")
    texts = [f"{total} {name}" for name, total in verdicts.most_common()]
    sys.stdout.write(
        f"{number} histories from seed {first}: {', '.join(texts)}; "
        f"{wrong} reports lacked a call\n"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
