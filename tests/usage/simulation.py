"""A random history of calls and failures in simulated time, and reports that may not
say "safe" after a call.

The recorders, their spools, the store and the report are the real ones. Only time,
machines and the network are not: hosts have clocks and boots, processes are killed by
leaving them, and the database can be away or be restored. Nothing is simulated where
nobody looks: processes give a sign of life shortly before each event, at the pace of
real ones.
"""

import copy
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing import Pool
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest import mock

from sqlalchemy import Engine, create_engine

from flask_notifications import Operation
from flask_notifications.usage import (
    CANARY,
    UsageRecorder,
    ledger,
    read_usage,
    reading,
    recorder,
    spool,
    store,
)
from flask_notifications.usage.connections import begin
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
# What a sign of life promises, and by how much clocks may differ: neither calls so
# fresh nor those so near to the beginning or the end of a window have to be known.
FRESH, TOLERANCE = 65 * SECOND, 61 * SECOND
VERSIONS = {
    "plain": REPORT,
    "moved": Operation(REPORT.name, "GET", "/reports"),
    "without": EXPORT,
}
IGNORED = "probe/1"


@dataclass(eq=False)
class Host:
    """A machine with a clock, which may be wrong, and a folder for the spools of its
    processes.
    """

    name: str
    folder: Path | None
    booted: int
    offset: int = 0
    boots: int = 0
    is_cut_off: bool = False


@dataclass(eq=False)
class Process:
    """A process that serves, with a recorder unless it runs without the middleware."""

    host: Host
    version: str
    recorder: UsageRecorder
    is_alive: bool = True
    heard: int = 0  # the last time at which the database had its row
    due: int = 0  # when it gives its next sign of life


@dataclass(frozen=True)
class Made:
    at: int
    process: Process
    client: str


@dataclass(eq=False)
class World:
    """Everything that there is, at one time."""

    folder: Path
    random: random.Random
    engine: Engine
    retention: int = 400
    time: int = START
    host: Host = field(
        default_factory=lambda: Host("reader", None, START)
    )  # where something happens now
    database_offset: int = 0
    is_away: bool = False
    processes: list[Process] = field(default_factory=list)
    hosts: list[Host] = field(default_factory=list)
    calls: list[Made] = field(default_factory=list)
    between: Callable[[], object] | None = None

    def uptime(self) -> int:
        return self.time - self.host.booted

    def wall(self) -> int:
        return (self.time + self.host.offset) * 1000

    def database_clock(self, _connection: object) -> int:
        return self.time + self.database_offset

    def add_host(self, *, has_spool: bool) -> Host:
        name = f"host-{len(self.hosts)}"
        folder = self.folder / name if has_spool else None
        self.hosts.append(Host(name, folder, self.time - self.random.randrange(DAY)))
        return self.hosts[-1]

    def start(self, host: Host, version: str = "plain") -> Process:
        with self.on(host):
            options: Any = {
                "spool": host.folder,
                "host": host.name,
                "retention_days": self.retention,
            }
            made = UsageRecorder(self.engine, flush_interval=30, **options)
            made.listen({VERSIONS[version]: POLICY})
            process = Process(host, version, made)
            self.processes.append(process)
            made.request_passed()
        self.sign(process)
        return process

    def call(self, process: Process, client: str = "job/1") -> None:
        with self.on(process.host):
            process.recorder(
                use(
                    client,
                    operation=VERSIONS[process.version].name,
                    at=to_datetime(self.wall() // 1000),
                )
            )
            process.recorder._look_around()
        process.due = min(
            process.due, self.time + self.random.randrange(2 * SECOND)
        )  # at once, if the pair is new
        if process.version != "without":
            self.calls.append(Made(self.time, process, client))

    def sign(self, process: Process) -> None:
        with self.on(process.host):
            if process.recorder._write_all():
                process.heard = self.time
            process.recorder._look_around()
        process.due = self.time + self.random.randrange(5 * SECOND, 30 * SECOND)

    def kill(self, process: Process) -> None:
        """End a process as SIGKILL does: only what the kernel has of its files remains."""
        for each in filter(None, [process.recorder._ledger, *process.recorder._ended]):
            if each.file is not None:
                each.file.close()
        process.recorder._ledger, process.recorder._ended = None, []
        process.is_alive = False

    def stop(self, process: Process) -> None:
        with self.on(process.host):
            process.recorder.close()
        process.is_alive = False

    def fork(self, parent: Process) -> Process:
        child = copy.copy(parent.recorder)
        process = Process(parent.host, parent.version, child)
        with self.on(parent.host):
            child._after_fork_in_child()
            child.request_passed()
        self.processes.append(process)
        return process

    def alive(self, host: Host | None = None) -> list[Process]:
        return [
            each
            for each in self.processes
            if each.is_alive and host in {None, each.host}
        ]

    def save(self) -> None:
        with self.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(str(self.engine.url.database), self.folder / "copy")

    def restore(self) -> None:
        self.engine.dispose()
        for suffix in ("-wal", "-shm"):
            Path(f"{self.engine.url.database}{suffix}").unlink(missing_ok=True)
        shutil.copy(self.folder / "copy", str(self.engine.url.database))

    def advance(self, until: int) -> None:
        """Let time pass: all processes give a sign of life at midnight, and shortly
        before something happens.
        """
        while self.time < until:
            midnight = (self.time // DAY + 1) * DAY + self.random.randrange(
                SECOND, 50 * SECOND
            )
            moment = min(until, midnight)
            due = [each for each in self.alive() if each.due <= moment]
            signs = [
                (
                    max(
                        self.time, each.due, moment - self.random.randrange(25 * SECOND)
                    ),
                    each,
                )
                for each in due
            ]
            for at, process in sorted(signs, key=itemgetter(0)):
                self.time = at
                self.sign(process)
            self.time = max(self.time, moment)

    @contextmanager
    def on(self, host: Host) -> Iterator[None]:
        before, self.host = self.host, host
        try:
            yield
        finally:
            self.host = before

    @contextmanager
    def begin(self, real: Any, engine: Engine) -> Iterator[Any]:
        if self.is_away or self.host.is_cut_off:
            raise ConnectionError
        with real(engine) as (connection, _now):
            yield connection, self.database_clock(None)

    def read_calls(self, real: Any, *arguments: Any) -> Any:
        between, self.between = self.between, None
        if between is not None:
            between()
        return real(*arguments)


# Where a file is not written to a disk, which takes most of the time otherwise.
MEMORY = Path("/dev/shm")  # noqa: S108


@contextmanager
def simulated(folder: Path, chance: random.Random) -> Iterator[World]:
    """Yield a world in which the library's clocks, machines and connections are
    simulated.
    """
    engine = create_engine(f"sqlite:///{folder}/usage.sqlite3")
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    world = World(folder, chance, engine)
    clock = SimpleNamespace(
        time_ns=world.wall, monotonic=lambda: world.uptime() / SECOND
    )
    read_calls = reading._read_calls

    def start(target: Callable[[], None]) -> bool:
        with suppress(RuntimeError):
            target.__self__._finished.release()  # type: ignore[attr-defined]
        return True

    fakes: list[tuple[Any, str, Any]] = [
        *((module, "uptime", world.uptime) for module in (ledger, recorder, store)),
        *(
            (module, "boot", lambda: f"{world.host.name}-{world.host.boots}")
            for module in (ledger, recorder)
        ),
        *(
            (module, "machine", lambda: world.host.name)
            for module in (ledger, recorder)
        ),
        *((module, "time", clock) for module in (ledger, recorder, spool)),
        (reading, "read_clock", world.database_clock),
        *(
            (module, "log_error", lambda *_: None)
            for module in (recorder, spool, store)
        ),
        (recorder, "_start_thread", start),
        (recorder, "_PAUSE", 0),
        (store, "begin", lambda engine: world.begin(begin, engine)),
        (store.UsageStore, "forget_connections", lambda _itself: None),
        (
            reading,
            "_read_calls",
            lambda *arguments: world.read_calls(read_calls, *arguments),
        ),
    ]
    with ExitStack() as stack:
        stack.callback(engine.dispose)
        for fake in fakes:
            stack.enter_context(mock.patch.object(*fake))
        yield world
        for process in world.alive():
            world.kill(process)


@dataclass
class Outcome:
    """What a history has shown: how often each verdict was given, and what was wrong
    with one.
    """

    verdicts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class History:
    """A random history: processes that serve for days, some calls, and something that
    fails near to them.
    """

    def __init__(self, world: World, kinds: Sequence[str]) -> None:
        self.world, self.random = world, world.random
        self.outcome = Outcome()
        self.agenda: list[tuple[int, Callable[[], object]]] = []
        self.moment = START + self.between(50 * HOUR, 90 * HOUR)
        self.client = self.random.choice(
            [IGNORED, CANARY, "", "job/1", "job/1", "job/1"]
        )
        self.kinds = [
            self.random.choice(kinds) for _ in range(self.random.choice([1, 1, 1, 2]))
        ]

    def between(self, least: int, most: int) -> int:
        return int(
            least + (most - least) * self.random.random() ** self.random.choice([1, 3])
        )

    def plan(self, delay: int, action: Callable[[], object]) -> None:
        self.agenda.append((max(self.moment + delay, START + MINUTE), action))

    def run(self) -> Outcome:
        world = self.world
        for _ in range(self.random.choice([1, 1, 2, 3])):
            host = world.add_host(has_spool=self.random.random() < 0.5)
            for _ in range(self.random.choice([1, 1, 2])):
                world.start(host)
        self.victim = self.random.choice(world.processes)
        for kind in self.kinds:
            KINDS[kind](self)
            self.plan(self.between(MINUTE, 20 * HOUR), self.restart)
        if self.client:
            for _ in range(self.random.choice([1, 2])):
                self.plan(self.between(0, 3 * SECOND), self.call)
        for most in (
            90 * SECOND,
            5 * MINUTE,
            2 * HOUR,
            10 * HOUR,
            25 * HOUR,
            50 * HOUR,
        ):
            self.plan(self.between(70 * SECOND, most), self.report)
        for at, action in sorted(self.agenda, key=itemgetter(0)):
            world.advance(at)
            action()
        return self.outcome

    def call(self) -> None:
        """Call the operation, of the process that something happens to if it can still
        be called.
        """
        alive = self.world.alive()
        if alive:
            self.world.call(
                self.victim if self.victim in alive else self.random.choice(alive),
                self.client,
            )

    def restart(self) -> None:
        """Start a process on hosts that have none any more."""
        for host in {self.victim.host, *self.world.hosts[:1]}:
            if not self.world.alive(host):
                self.victim = self.world.start(host)

    def end(self, *, gracefully: bool) -> None:
        if self.victim.is_alive:
            (self.world.stop if gracefully else self.world.kill)(self.victim)

    def report(self, days: int | None = None) -> None:
        world, chance = self.world, self.random
        now = world.time
        ends = [None, None, None, now, now - self.between(0, max(1, now - self.moment))]
        until = None if days else chance.choice(ends)
        is_mixed = "deploy" in self.kinds  # processes listened for different operations
        read = read_usage(
            world.engine,
            plan={REPORT: POLICY} if is_mixed or chance.random() < 0.5 else None,
            operations=[REPORT],
            days=chance.choice([1, 1, 2, 2, 3]) if days is None else days,
            until=None if until is None else to_datetime(until),
            ignore_clients=[IGNORED],
        )
        (operation,) = read.operations
        self.outcome.verdicts[operation.verdict] += 1
        since, until = map(to_microseconds, (read.since, read.until))
        missed = [
            each
            for each in world.calls
            if self.counts(each, since + TOLERANCE, until - TOLERANCE, now)
        ]
        if operation.verdict == "safe" and missed:
            times = [f"{to_datetime(each.at):%d %H:%M:%S}" for each in missed]
            kinds = "+".join(self.kinds)
            self.outcome.wrong.append(
                f"{kinds}: safe on {read.until} for {read.days} days, called {times}"
            )

    def counts(self, call: Made, since: int, until: int, now: int) -> bool:
        """Return whether a report has to know a call, or that it may be missing."""
        process = call.process
        is_in_window = since <= call.at <= until and call.at <= now - FRESH
        if (
            not is_in_window
            or call.client in {IGNORED, CANARY}
            or process.version != "plain"
        ):
            return False
        # Nobody can know of a process that never reached the database, nor how long one
        # has served after the day of its last sign of life.
        expired = max((process.heard // DAY + 1) * DAY, process.heard + HOUR)
        return process.heard > 0 and call.at < expired


def _quiet(_history: History) -> None:
    """Nothing happens."""


def _kill(history: History) -> None:
    history.plan(history.between(0, 90 * SECOND), lambda: history.end(gracefully=False))


def _away(history: History) -> None:
    """The database is away, and perhaps a process ends."""
    world = history.world
    history.plan(-history.between(0, 2 * HOUR), lambda: setattr(world, "is_away", True))
    if history.random.random() < 0.7:
        history.plan(
            history.between(0, MINUTE),
            lambda: history.end(gracefully=history.random.random() < 0.7),
        )
    history.plan(
        history.between(10 * SECOND, 20 * HOUR),
        lambda: setattr(world, "is_away", False),
    )


def _cut(history: History) -> None:
    """A host is cut off; perhaps it dies with its disk."""
    host = history.victim.host

    def destroy() -> None:
        for each in history.world.alive(host):
            history.world.kill(each)
        if host.folder is not None:
            shutil.rmtree(host.folder, ignore_errors=True)

    history.plan(
        -history.between(0, 3 * HOUR), lambda: setattr(host, "is_cut_off", True)
    )
    if history.random.random() < 0.6:
        history.plan(history.between(0, 3 * HOUR), destroy)
    history.plan(
        history.between(MINUTE, 30 * HOUR), lambda: setattr(host, "is_cut_off", False)
    )


def _power(history: History) -> None:
    """The power fails: what was written to the disk last is gone.

    Its network may have failed before.
    """
    history.victim = next(
        (each for each in history.world.processes if each.host.folder is not None),
        history.victim,
    )
    host = history.victim.host
    saved: dict[Path, bytes] = {}

    def save() -> None:
        if host.folder is not None and host.folder.is_dir():
            saved.update(
                (path, path.read_bytes()) for path in host.folder.glob("*.spool")
            )

    def fail() -> None:
        for each in history.world.alive(host):
            history.world.kill(each)
        for path, content in saved.items():
            if path.exists():
                path.write_bytes(content)
        host.boots, host.booted, host.is_cut_off = (
            host.boots + 1,
            history.world.time,
            False,
        )

    history.plan(
        -history.between(0, 20 * SECOND),
        lambda: setattr(host, "is_cut_off", history.random.random() < 0.5),
    )
    history.plan(-history.between(0, 2 * SECOND), save)
    history.plan(history.between(SECOND, 10 * SECOND), fail)


def _fork(history: History) -> None:
    world = history.world

    def fork() -> None:
        if history.victim.is_alive:
            child = world.fork(history.victim)
            if history.random.random() < 0.5:
                world.sign(child)
            history.victim = history.random.choice([child, child, history.victim])

    history.plan(-history.between(0, 3 * HOUR), fork)
    history.plan(
        history.between(0, 30 * SECOND),
        lambda: history.end(gracefully=history.random.random() < 0.2),
    )


def _clock(history: History) -> None:
    host = history.victim.host
    away = history.random.choice([-1, 1]) * history.between(2 * MINUTE, 3 * DAY)
    around = history.random.choice([5 * SECOND, 3 * HOUR])
    history.plan(-history.between(0, around), lambda: setattr(host, "offset", away))
    history.plan(
        history.between(5 * SECOND, 5 * SECOND + around),
        lambda: setattr(host, "offset", 0),
    )


def _database_clock(history: History) -> None:
    world = history.world
    away = history.random.choice(
        [-3 * DAY, -3 * HOUR, -5 * MINUTE, 5 * MINUTE, 3 * HOUR, 3 * DAY, 800 * DAY]
    )
    history.plan(
        -history.between(0, 3 * HOUR), lambda: setattr(world, "database_offset", away)
    )
    history.plan(
        history.between(0, 30 * HOUR), lambda: setattr(world, "database_offset", 0)
    )


def _restore(history: History) -> None:
    """The database is restored, which drops what was written since the copy; a process
    may have ended meanwhile.
    """
    world = history.world

    def deploy() -> None:
        if is_deployed:
            for each in world.alive():
                world.stop(each)
        world.save()
        if is_deployed:
            world.start(history.victim.host)
            history.victim = world.start(history.victim.host)

    is_deployed = history.random.random() < 0.5
    history.plan(-history.between(70 * MINUTE, 5 * HOUR), deploy)
    if is_deployed:
        history.plan(
            history.between(5 * SECOND, 40 * SECOND),
            lambda: history.end(gracefully=True),
        )
    history.plan(history.between(MINUTE, 3 * HOUR), world.restore)


def _deploy(history: History) -> None:
    """Another version serves for a while, on one host or on all; clients of the old
    path go on calling.
    """
    world = history.world
    version = history.random.choice(["moved", "without"])

    def replace(new: str) -> None:
        for each in world.alive(history.victim.host):
            world.stop(each)
        history.victim = world.start(history.victim.host, new)

    def missed() -> None:
        if history.client and history.victim.version != "plain":
            process = Process(
                history.victim.host, "plain", history.victim.recorder, heard=1 << 62
            )
            world.calls.append(Made(world.time, process, history.client))

    history.plan(-history.between(MINUTE, 20 * HOUR), lambda: replace(version))
    history.plan(history.between(0, MINUTE), missed)
    history.plan(history.between(MINUTE, 20 * HOUR), lambda: replace("plain"))


def _expire(history: History) -> None:
    """Rows are merged and deleted, perhaps while a report is read."""
    world = history.world
    is_late = (
        history.random.random() < 0.5
    )  # so that the rows are there when the report begins

    def delete() -> None:
        store.UsageStore(world.engine, create_tables=False)._delete_before(
            world.time // DAY - 1
        )

    def report() -> None:
        world.between = delete if is_late else None
        history.report(days=2)

    if not is_late:
        world.retention = 1
        for process in world.processes:
            process.recorder._retention = 1
    last = (
        history.moment // DAY + 2
    ) * DAY - history.moment  # the last complete day is the one after the calls
    history.plan(last + history.between(MINUTE, 20 * HOUR), report)


def _close(history: History) -> None:
    """A process starts while the database is away, closes its recorder and goes on."""
    world = history.world

    def start() -> None:
        world.is_away = True
        history.victim = world.start(history.victim.host)

    def close() -> None:
        if history.victim.is_alive:
            with world.on(history.victim.host):
                history.victim.recorder.close()
                history.victim.recorder.request_passed()
            history.victim.heard = (
                0  # nobody knows that it goes on until it has said so
            )

    history.plan(-history.between(0, HOUR), start)
    history.plan(history.between(0, MINUTE), close)
    history.plan(
        history.between(0, 2 * MINUTE), lambda: setattr(world, "is_away", False)
    )


_FAILURES = [
    _quiet,
    _kill,
    _away,
    _cut,
    _power,
    _fork,
    _clock,
    _database_clock,
    _restore,
    _deploy,
    _expire,
    _close,
]
KINDS = {each.__name__[1:].replace("_", " "): each for each in _FAILURES}


def simulate(seed: int, kinds: Sequence[str] = tuple(KINDS)) -> Outcome:
    parent = MEMORY if MEMORY.is_dir() else None
    chance = random.Random(seed)  # noqa: S311 - no secret
    with (
        TemporaryDirectory(dir=parent) as folder,
        simulated(Path(folder), chance) as world,
    ):
        return History(world, kinds).run()


def main(first: int, number: int) -> int:
    verdicts: Counter[str] = Counter()
    is_wrong = False
    with Pool() as pool:
        for seed, outcome in enumerate(
            pool.imap(simulate, range(first, first + number), chunksize=20), first
        ):
            verdicts += outcome.verdicts
            is_wrong = is_wrong or bool(outcome.wrong)
            sys.stdout.writelines(f"seed {seed}, {each}\n" for each in outcome.wrong)
            sys.stdout.flush()
    counted = ", ".join(
        f"{count} {verdict}" for verdict, count in verdicts.most_common()
    )
    sys.stdout.write(f"{number} histories from seed {first}: {counted}\n")
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
