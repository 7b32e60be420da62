"""What goes wrong for a while, and what may become of requests meanwhile."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.faults.database_app import POOL
from tests.faults.postgresql import FAST, IMMEDIATE
from tests.faults.proxy import BLACK_HOLE, RESET, End, Fault
from tests.faults.service import Service, no_connection_left
from tests.servers.process import Server, eventually
from tests.soak.judge import CUT, GATEWAY, LOST, SPOOL, STORAGE
from tests.soak.traffic import LIST, query

# Processes that serve, and how many requests each of them serves at a time: no more than its pool has connections.
WORKERS, REQUESTS_AT_A_TIME = 2, POOL

NOTHING: frozenset[str] = frozenset()
UNAVAILABLE = frozenset({STORAGE})
FULL = frozenset({SPOOL})
INTERRUPTED = frozenset({CUT, LOST, GATEWAY})

# The processes of a database.
POSTMASTER = b"SELECT split_part(pg_read_file('postmaster.pid'), e'\\n', 1)::int"
BACKENDS = b"SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()"


@dataclass(frozen=True)
class Stage(Service):
    """All that runs: the server, the network and the database behind it, and the proxy in front."""

    front: Server
    folder: Path

    @property
    def ports(self) -> dict[str, int]:
        return {"direct": self.server.port, "nginx": self.front.port}


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What goes wrong while the context manager is entered, and the situations that it permits."""

    name: str
    happening: Callable[[Stage, Random], AbstractContextManager[object]]
    permits: frozenset[str] = UNAVAILABLE
    replaces_workers: bool = False


@contextmanager
def frozen(stage: Stage, _chance: Random) -> Iterator[None]:
    """Let every process of the database stand still."""
    with stage.cluster.connect() as admin, ExitStack() as thaw:
        for processes in (POSTMASTER, BACKENDS):  # first the one that would start others
            for (process,) in admin.execute(processes):
                with suppress(ProcessLookupError):  # ended since it was listed
                    os.kill(process, signal.SIGSTOP)
                    thaw.callback(os.kill, process, signal.SIGCONT)
        yield


@contextmanager
def locked(stage: Stage, _chance: Random) -> Iterator[None]:
    with stage.cluster.connect() as other, other.transaction():
        other.execute("LOCK TABLE notifications")
        yield


@contextmanager
def without_folder(stage: Stage, _chance: Random) -> Iterator[None]:
    """Take away the folder of the temporary files; those that are open have no name in it."""
    away = (stage.folder / "tmp").rename(stage.folder / "away")
    try:
        yield
    finally:
        away.rename(stage.folder / "tmp")


@contextmanager
def stalled(stage: Stage, _chance: Random) -> Iterator[None]:
    """Let as many readers as can be served at a time stop after the first bytes."""
    with ExitStack() as readers:
        for _reader in range(WORKERS * REQUESTS_AT_A_TIME):
            readers.enter_context(stage.server.slow_reader(LIST + query("archive")))
        yield


@contextmanager
def silent(stage: Stage, chance: Random) -> Iterator[None]:
    """Lose every byte from the database; what waits for it does so until its worker is killed."""
    with stage.proxy.failing(BLACK_HOLE):
        yield
    kill(stage, chance, WORKERS)


def kill(stage: Stage, chance: Random, count: int = 1) -> None:
    """Kill workers, and wait until there are others."""
    before = stage.server.workers()
    killed = chance.sample(before, count)
    for worker in killed:
        os.kill(worker, signal.SIGKILL)
    eventually(lambda: len({*stage.server.workers()} - {*killed}) == WORKERS)


def reload(stage: Stage, _chance: Random) -> None:
    """Let gunicorn replace its workers, and wait until it has."""
    before = {*stage.server.workers()}
    stage.server.signal(signal.SIGHUP)
    eventually(lambda: not before & {*(now := stage.server.workers())} and len(now) == WORKERS)


def network(fault: Callable[[Random], Fault]) -> Callable[[Stage, Random], AbstractContextManager[None]]:
    return lambda stage, chance: stage.proxy.failing(fault(chance))


def at_once(act: Callable[[Stage, Random], object]) -> Callable[[Stage, Random], AbstractContextManager[object]]:
    return lambda stage, chance: nullcontext(act(stage, chance))


def somewhere(chance: Random) -> Fault:
    """Return the end of each connection after some bytes, in some way that its client sees."""
    return Fault(limit=chance.choice([10, 1_000, 100_000]), end=chance.choice([End.CUT, End.HALF_CLOSE, End.RESET]))


DISTURBANCES = [
    Disturbance("nothing", lambda *_all: nullcontext(), NOTHING),
    Disturbance("connections terminated", at_once(lambda stage, _chance: stage.cluster.terminate())),
    Disturbance("connections taken by others", lambda stage, _chance: no_connection_left(stage)),
    Disturbance("database stopped", lambda stage, _chance: stage.cluster.stopped(FAST)),
    Disturbance("database stopped at once", lambda stage, _chance: stage.cluster.stopped(IMMEDIATE)),
    Disturbance("database stands still", frozen),
    Disturbance("table locked", locked),
    Disturbance("network late", network(lambda _chance: Fault(latency=0.02)), NOTHING),
    Disturbance("network slow", network(lambda _chance: Fault(rate=500_000))),
    Disturbance("network at a standstill", network(lambda _chance: Fault(rate=20))),
    Disturbance("network resets", network(lambda _chance: RESET)),
    Disturbance("network breaks somewhere", network(somewhere)),
    Disturbance("network loses all", silent, UNAVAILABLE | INTERRUPTED, replaces_workers=True),
    Disturbance("no folder for files", without_folder, FULL),
    Disturbance("readers stall everywhere", stalled, NOTHING),
    Disturbance("a worker killed", at_once(kill), INTERRUPTED, replaces_workers=True),
    Disturbance("workers reloaded", at_once(reload), INTERRUPTED, replaces_workers=True),
]
