"""Rounds of traffic: something goes wrong and is over, the service heals, and nothing may be left of it."""

import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event

from tests.faults.database_app import prepare
from tests.faults.postgresql import postgresql
from tests.faults.proxy import Proxy
from tests.faults.service import application_on
from tests.servers.nginx import proxying
from tests.servers.process import GUNICORN_FILTER, eventually, gunicorn
from tests.soak.disturbances import DISTURBANCES, NOTHING, REQUESTS_AT_A_TIME, WORKERS, Disturbance, Stage
from tests.soak.judge import grown, told
from tests.soak.traffic import FILL_ARCHIVE, PROBES, Outcome, ask, ask_until

PROGRAMS = {
    worker: gunicorn(worker, f"{GUNICORN_FILTER}\nworkers, {limit} = {WORKERS}, {REQUESTS_AT_A_TIME}")
    for worker, limit in (("gthread", "threads"), ("gevent", "worker_connections"))
}

# More than are served at a time.
CLIENTS = 8
# Seconds: how long it is quiet around what goes wrong, and how long that takes.
CALM, TROUBLE = 0.5, (0.5, 5)
# Broken promises after which it goes no further.
ENOUGH = 10


@contextmanager
def staged(worker: str = "gthread") -> Iterator[Stage]:
    """Run all that there is, in a folder that is removed with it."""
    with tempfile.TemporaryDirectory(prefix="soak-") as name, postgresql() as cluster, Proxy(cluster.port) as proxy:
        prepare(cluster.url())
        cluster.ask(FILL_ARCHIVE)
        cluster.ask("ALTER DATABASE postgres SET timezone = 'UTC'")
        folder, front = Path(name), Path(name, "nginx")
        front.mkdir()
        with (
            application_on(cluster.url(proxy.port), PROGRAMS[worker], folder) as server,
            proxying("access_log off", server.port, front) as nginx,
        ):
            eventually(lambda: len(server.workers()) == WORKERS)
            yield Stage(server, proxy, cluster, nginx, folder)


@dataclass
class History:
    """What has been.

    ``outcomes`` counts requests by what came of them, ``suffered`` those to which a disturbance did something;
    ``healing`` is in seconds, and ``samples`` are the sizes of workers at rest.
    """

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    suffered: Counter[str] = field(default_factory=Counter)
    healing: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    samples: dict[tuple[int, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    broken: list[str] = field(default_factory=list)

    def expect(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is a broken promise when it never does."""
        try:
            eventually(condition)
        except AssertionError:
            self.broken.append(f"it did not come true that {what}")

    def judge(self, outcome: Outcome, disturbance: Disturbance, began: float, healed: float) -> None:
        """Hold what became of a request against what went wrong between two moments."""
        permits = disturbance.permits if outcome.began < healed and outcome.ended > began else NOTHING
        self.outcomes[outcome.request.name, outcome.situation] += 1
        self.suffered[disturbance.name] += outcome.situation in permits
        if not outcome.is_admitted(permits):
            when = f"{outcome.began - began:.2f} s after it began; it was healed after {healed - began:.2f} s"
            self.broken.append(f"{outcome}\n  what was wrong: {disturbance.name}, {when}")


def soak(stage: Stage, seconds: float, seed: int) -> History:
    """Play rounds for so long.

    Workers are replaced in the first third of the time only; those that are left are watched for the rest of it.
    """
    chance, history, end = Random(seed), History(), time.monotonic() + seconds  # noqa: S311 - the same each time
    anything = _shuffled(chance, DISTURBANCES)
    harmless = _shuffled(chance, [disturbance for disturbance in DISTURBANCES if not disturbance.replaces_workers])
    while (left := end - time.monotonic()) > 0 and len(history.broken) < ENOUGH:
        is_settled = left < seconds * 2 / 3
        _play(stage, next(harmless if is_settled else anything), chance, history)
        if is_settled:
            _measure(stage, history)
    history.broken += told(stage.server.written())
    for (_worker, unit), samples in history.samples.items():
        history.broken += grown(samples, unit)
    return history


def _shuffled(chance: Random, disturbances: list[Disturbance]) -> Iterator[Disturbance]:
    """Yield each before any comes again, for ever."""
    while True:
        yield from chance.sample(disturbances, len(disturbances))


def _play(stage: Stage, disturbance: Disturbance, chance: Random, history: History) -> None:
    done = Event()
    with ThreadPoolExecutor(CLIENTS) as clients:
        chances = [Random(chance.random()) for _client in range(CLIENTS)]  # noqa: S311 - the same each time
        asked = [clients.submit(list, ask_until(done, stage.ports, each)) for each in chances]
        try:
            began, healed = _disturb(stage, disturbance, chance, history)
        finally:
            done.set()
    for outcome in (outcome for client in asked for outcome in client.result()):
        history.judge(outcome, disturbance, began, healed)
    history.expect("no transaction is left open", lambda: not stage.cluster.working())
    history.expect("no temporary file is left open", lambda: not stage.server.open_spools())
    history.expect("no temporary file is left", lambda: not list((stage.folder / "tmp").iterdir()))


def _disturb(stage: Stage, disturbance: Disturbance, chance: Random, history: History) -> tuple[float, float]:
    """Return when something went wrong, and when everybody was served again."""
    time.sleep(CALM)
    began = time.monotonic()
    with disturbance.happening(stage, chance):
        time.sleep(chance.uniform(*TROUBLE))
    over = time.monotonic()
    history.expect(f"it heals after {disturbance.name}", lambda: _serves(stage, chance))
    healed = time.monotonic()
    history.healing[disturbance.name].append(healed - over)
    time.sleep(CALM)
    return began, healed


def _serves(stage: Stage, chance: Random) -> bool:
    """Tell whether everybody gets what they ask for, on each way."""
    probes = [ask(request, way, port, chance) for way, port in stage.ports.items() for request in PROBES]
    return all(probe.is_admitted(NOTHING) for probe in probes)


def _measure(stage: Stage, history: History) -> None:
    """Take the size of each worker, which has nothing to do."""
    for worker in stage.server.workers():
        process = Path(f"/proc/{worker}")
        pages = int((process / "statm").read_text(encoding="ascii").split()[1])
        history.samples[worker, "MiB"].append(pages * 4_096 / 1_048_576)
        history.samples[worker, "descriptors"].append(len(list((process / "fd").iterdir())))
