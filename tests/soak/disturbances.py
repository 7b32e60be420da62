"""The disturbances of a soak, and the outcomes of requests that each of them permits."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.resilience.breakable import Service
from tests.resilience.database_app import POOL, session_of
from tests.resilience.postgresql import FAST, IMMEDIATE
from tests.resilience.proxy import BLACK_HOLE, RESET, End, Failure
from tests.servers.process import Server, eventually
from tests.soak.traffic import CUT, GATEWAY, LIST, LOST, SPOOL, STORAGE

# The number of workers, and the concurrent requests of each worker, which are as many as the pool has connections.
WORKERS, CONCURRENT_REQUESTS = 2, POOL

NOTHING: frozenset[str] = frozenset()
UNAVAILABLE = frozenset({STORAGE})
INTERRUPTED = frozenset({CUT, LOST, GATEWAY})

# The processes of a database.
POSTMASTER = b"SELECT split_part(pg_read_file('postmaster.pid'), e'\\n', 1)::int"
BACKENDS = b"SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()"


@dataclass(frozen=True)
class Stage(Service):
    """The running processes: the server, its database, the network between them, and nginx as a proxy."""

    nginx: Server
    folder: Path


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A failure that lasts while the context manager is entered, and the situations that it permits."""

    name: str
    apply: Callable[[Stage, Random], AbstractContextManager[object]]
    permits: frozenset[str] = UNAVAILABLE
    replaces_workers: bool = False


@contextmanager
def suspended(stage: Stage, _chance: Random) -> Iterator[None]:
    """Suspend every process of the database."""
    with stage.cluster.connect() as admin, ExitStack() as resume:
        for processes in (POSTMASTER, BACKENDS):  # first the process that would start others
            for (process,) in admin.execute(processes):
                with suppress(ProcessLookupError):  # ended since it was listed
                    os.kill(process, signal.SIGSTOP)
                    resume.callback(os.kill, process, signal.SIGCONT)
        yield


@contextmanager
def without_folder(stage: Stage, _chance: Random) -> Iterator[None]:
    """Move the folder of the temporary files away; open files are not affected, because they have no name."""
    moved = (stage.folder / "tmp").rename(stage.folder / "away")
    try:
        yield
    finally:
        moved.rename(stage.folder / "tmp")


@contextmanager
def stalled(stage: Stage, _chance: Random) -> Iterator[None]:
    """Occupy every thread with a reader that stops after the first bytes."""
    with ExitStack() as readers:
        for _reader in range(WORKERS * CONCURRENT_REQUESTS):
            readers.enter_context(stage.server.slow_reader(f"{LIST}?sessionId={session_of('archive')}"))
        yield


@contextmanager
def silent(stage: Stage, chance: Random) -> Iterator[None]:
    """Lose every byte from the database, and kill the workers on exit, because their requests wait forever."""
    with stage.proxy.failing(BLACK_HOLE):
        yield
    kill(stage, chance, WORKERS)


def kill(stage: Stage, chance: Random, count: int = 1) -> None:
    """Kill workers, and wait until they are replaced."""
    killed = chance.sample(stage.server.workers(), count)
    for worker in killed:
        os.kill(worker, signal.SIGKILL)
    eventually(lambda: len({*stage.server.workers()} - {*killed}) == WORKERS)


def reload(stage: Stage, _chance: Random) -> None:
    """Make gunicorn replace its workers, and wait until it has."""
    before = {*stage.server.workers()}
    stage.server.signal(signal.SIGHUP)
    eventually(lambda: not before & {*(now := stage.server.workers())} and len(now) == WORKERS)


def run_once(act: Callable[[Stage, Random], object]) -> Callable[[Stage, Random], AbstractContextManager[object]]:
    return lambda stage, chance: nullcontext(act(stage, chance))


def random_end(stage: Stage, chance: Random) -> AbstractContextManager[None]:
    """End each connection after some bytes, in a random way that the client sees."""
    return stage.proxy.failing(
        Failure(limit=chance.choice([10, 1_000, 100_000]), end=chance.choice([End.CUT, End.RESET]))
    )


DISTURBANCES = [
    Disturbance("nothing", lambda *_all: nullcontext(), NOTHING),
    Disturbance("connections terminated", run_once(lambda stage, _chance: stage.cluster.terminate())),
    Disturbance("no connection left", lambda stage, _chance: stage.no_connection_left()),
    Disturbance("database stopped", lambda stage, _chance: stage.cluster.stopped(FAST)),
    Disturbance("database stopped at once", lambda stage, _chance: stage.cluster.stopped(IMMEDIATE)),
    Disturbance("database suspended", suspended),
    Disturbance("table locked", lambda stage, _chance: stage.locked()),
    Disturbance("network slow", lambda stage, _chance: stage.proxy.failing(Failure(rate=500_000))),
    Disturbance("network almost stopped", lambda stage, _chance: stage.proxy.failing(Failure(rate=20))),
    Disturbance("network resets", lambda stage, _chance: stage.proxy.failing(RESET)),
    Disturbance("network breaks after some bytes", random_end),
    Disturbance("network loses every byte", silent, UNAVAILABLE | INTERRUPTED, replaces_workers=True),
    Disturbance("no folder for files", without_folder, frozenset({SPOOL})),
    Disturbance("readers stall on every thread", stalled, NOTHING),
    Disturbance("a worker killed", run_once(kill), INTERRUPTED, replaces_workers=True),
    Disturbance("workers reloaded", run_once(reload), INTERRUPTED, replaces_workers=True),
]
