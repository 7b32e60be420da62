"""Rounds of traffic with a disturbance, after which the service must recover and leave nothing open."""

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

from tests.resilience.database_app import prepare
from tests.resilience.postgresql import postgresql
from tests.resilience.proxy import Proxy
from tests.resilience.service import application_on
from tests.servers.nginx import proxying
from tests.servers.process import GUNICORN_FILTER, eventually, gunicorn
from tests.soak.disturbances import CONCURRENT_REQUESTS, DISTURBANCES, NOTHING, WORKERS, Disturbance, Stage
from tests.soak.judge import find_growth, find_leaks
from tests.soak.traffic import FILL_ARCHIVE, PROBES, Outcome, ask, ask_until

PROGRAMS = {
    worker: gunicorn(worker, f"{GUNICORN_FILTER}\nworkers, {limit} = {WORKERS}, {CONCURRENT_REQUESTS}")
    for worker, limit in (("gthread", "threads"), ("gevent", "worker_connections"))
}

# More clients than concurrent requests.
CLIENTS = 8
# Seconds: the pause before and after a disturbance, and the range of its duration.
CALM, TROUBLE = 0.5, (0.5, 5)
# The number of violations after which the soak stops.
ENOUGH = 10


@contextmanager
def staged(worker: str = "gthread") -> Iterator[Stage]:
    """Start all processes in a temporary folder, yield them, and stop them on exit."""
    with tempfile.TemporaryDirectory(prefix="soak-") as name, postgresql() as cluster, Proxy(cluster.port) as proxy:
        prepare(cluster.url())
        cluster.ask(FILL_ARCHIVE)
        cluster.ask("ALTER DATABASE postgres SET timezone = 'UTC'")
        folder, nginx_folder = Path(name), Path(name, "nginx")
        nginx_folder.mkdir()
        with (
            application_on(cluster.url(proxy.port), PROGRAMS[worker], folder) as server,
            proxying("access_log off", server.port, nginx_folder) as nginx,
        ):
            eventually(lambda: len(server.workers()) == WORKERS)
            yield Stage(server, proxy, cluster, nginx, folder)


@dataclass
class History:
    """The results of a soak.

    ``outcomes`` counts requests by name and situation, and ``suffered`` those that a disturbance affected. ``healing``
    is in seconds, and ``samples`` are the sizes of idle workers.
    """

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    suffered: Counter[str] = field(default_factory=Counter)
    healing: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    samples: dict[tuple[int, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    broken: list[str] = field(default_factory=list)

    def wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds, and record a violation if it never does."""
        try:
            eventually(condition)
        except AssertionError:
            self.broken.append(f"this never became true: {what}")

    def judge(self, outcome: Outcome, disturbance: Disturbance, began: float, healed: float) -> None:
        """Check the outcome of a request against the disturbance between two moments."""
        permits = disturbance.permits if outcome.began < healed and outcome.ended > began else NOTHING
        self.outcomes[outcome.request.name, outcome.situation] += 1
        self.suffered[disturbance.name] += outcome.situation in permits
        if not outcome.is_admitted(permits):
            when = f"{outcome.began - began:.2f} s after it began; the service recovered after {healed - began:.2f} s"
            self.broken.append(f"{outcome}\n  disturbance: {disturbance.name}, {when}")


def soak(stage: Stage, seconds: float, seed: int) -> History:
    """Play rounds for ``seconds``, and return the history.

    Workers are replaced in the first third of the time only, so their size can be measured in the rest.
    """
    chance, history, end = Random(seed), History(), time.monotonic() + seconds  # noqa: S311 - the same each time
    anything = _shuffle(chance, DISTURBANCES)
    harmless = _shuffle(chance, [disturbance for disturbance in DISTURBANCES if not disturbance.replaces_workers])
    while (left := end - time.monotonic()) > 0 and len(history.broken) < ENOUGH:
        is_settled = left < seconds * 2 / 3
        _play(stage, next(harmless if is_settled else anything), chance, history)
        if is_settled:
            _measure(stage, history)
    history.broken += find_leaks(stage.server.written())
    for (_worker, unit), samples in history.samples.items():
        history.broken += find_growth(samples, unit)
    return history


def _shuffle(chance: Random, disturbances: list[Disturbance]) -> Iterator[Disturbance]:
    """Yield the disturbances in random order, again and again; each occurs once per pass."""
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
    history.wait_for("no transaction is left open", lambda: not stage.cluster.busy_backends())
    history.wait_for("no temporary file is left open", lambda: not stage.server.open_spools())
    history.wait_for("no temporary file is left", lambda: not list((stage.folder / "tmp").iterdir()))


def _disturb(stage: Stage, disturbance: Disturbance, chance: Random, history: History) -> tuple[float, float]:
    """Apply a disturbance, and return when it began and when all requests were served again."""
    time.sleep(CALM)
    began = time.monotonic()
    with disturbance.apply(stage, chance):
        time.sleep(chance.uniform(*TROUBLE))
    over = time.monotonic()
    history.wait_for(f"the service recovers after {disturbance.name}", lambda: _serves(stage, chance))
    healed = time.monotonic()
    history.healing[disturbance.name].append(healed - over)
    time.sleep(CALM)
    return began, healed


def _serves(stage: Stage, chance: Random) -> bool:
    """Return whether all probes get the expected response, with and without nginx."""
    probes = [ask(request, way, port, chance) for way, port in stage.ports.items() for request in PROBES]
    return all(probe.is_admitted(NOTHING) for probe in probes)


def _measure(stage: Stage, history: History) -> None:
    """Record the size of each worker, which is idle now."""
    for worker in stage.server.workers():
        process = Path(f"/proc/{worker}")
        pages = int((process / "statm").read_text(encoding="ascii").split()[1])
        history.samples[worker, "MiB"].append(pages * 4_096 / 1_048_576)
        history.samples[worker, "descriptors"].append(len(list((process / "fd").iterdir())))
