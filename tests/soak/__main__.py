"""Serve traffic during random failures, and check every response against the guarantees: `make soak`.

The soak runs gunicorn with and without nginx, PostgreSQL, and a TCP proxy that injects failures. The command exits with
status 1 if a guarantee was violated.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from threading import Event

import pytest

from tests.resilience.breakable import application_on
from tests.resilience.database_app import prepare
from tests.resilience.postgresql import postgresql
from tests.resilience.proxy import Proxy
from tests.servers.nginx import proxying
from tests.servers.process import GUNICORN_FILTER, eventually, gunicorn
from tests.soak.disturbances import CONCURRENT_REQUESTS, DISTURBANCES, NOTHING, WORKERS, Disturbance, Stage
from tests.soak.traffic import FILL_ARCHIVE, Outcome, ask, ask_until, find_leaks, requests

PROGRAMS = {
    worker: gunicorn(worker, f"{GUNICORN_FILTER}\nworkers, {limit} = {WORKERS}, {CONCURRENT_REQUESTS}")
    for worker, limit in (("gthread", "threads"), ("gevent", "worker_connections"))
}
# Repeated after a disturbance until they succeed; they need everything that may fail.
PROBES = [request for request in requests() if "large" in request.name]
# More clients than concurrent requests.
CLIENTS = 8
# Seconds: the pause before and after a disturbance, and the range of its duration.
CALM, TROUBLE = 0.5, (0.5, 5)
# How much an idle worker may grow from the first third of its samples to the last.
TOLERANCES = {"MiB": 8, "descriptors": 4}
# The number of violations after which the soak stops.
ENOUGH = 10


@contextmanager
def staged(worker: str) -> Iterator[Stage]:
    """Start all processes in a temporary folder, yield them, and stop them on exit."""
    with tempfile.TemporaryDirectory(prefix="soak-") as name, postgresql() as cluster, Proxy(cluster.port) as proxy:
        prepare(cluster.url())
        cluster.ask(FILL_ARCHIVE)
        cluster.ask("ALTER DATABASE postgres SET timezone = 'UTC'")
        folder = Path(name)
        with (
            application_on(cluster.url(proxy.port), PROGRAMS[worker], folder) as server,
            proxying("access_log off", server.port, folder / "nginx") as nginx,
        ):
            eventually(lambda: len(server.workers()) == WORKERS)
            yield Stage(server, proxy, cluster, nginx, folder)


@dataclass
class Soak:
    """The results of a soak: requests by name and situation, the size of idle workers, and violations."""

    stage: Stage
    chance: Random
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    healing: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # seconds, by disturbance
    samples: dict[tuple[int, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    broken: list[str] = field(default_factory=list)

    def play(self, seconds: float) -> None:
        """Play rounds; workers are replaced in the first third of the time only, and measured in the rest."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and len(self.broken) < ENOUGH:
            is_settled = left < seconds * 2 / 3
            choices = [each for each in DISTURBANCES if not (is_settled and each.replaces_workers)]
            self._play_round(self.chance.choice(choices))
            if is_settled:
                self._measure()
        self.broken += find_leaks(self.stage.server.written())

    def _play_round(self, disturbance: Disturbance) -> None:
        done, ports = Event(), [self.stage.server.port, self.stage.nginx.port]
        with ThreadPoolExecutor(CLIENTS) as clients:
            chances = [Random(self.chance.random()) for _client in range(CLIENTS)]  # noqa: S311 - the same each time
            asked = [clients.submit(ask_until, done, ports, each) for each in chances]
            try:
                began, healed = self._disturb(disturbance)
            finally:
                done.set()
        for outcome in (outcome for client in asked for outcome in client.result()):
            self._judge(outcome, disturbance, began, healed)
        self._wait_for("no transaction is left open", lambda: not self.stage.cluster.busy_backends())
        self._wait_for("no temporary file is left open", lambda: not self.stage.server.open_spools())
        self._wait_for("no temporary file is left", lambda: not list((self.stage.folder / "tmp").iterdir()))

    def _disturb(self, disturbance: Disturbance) -> tuple[float, float]:
        """Apply a disturbance, and return when it began and when all requests were served again."""
        time.sleep(CALM)
        began = time.monotonic()
        with disturbance.apply(self.stage, self.chance):
            time.sleep(self.chance.uniform(*TROUBLE))
        over = time.monotonic()
        self._wait_for(f"the service recovers after {disturbance.name}", self._serves)
        healed = time.monotonic()
        self.healing[disturbance.name].append(healed - over)
        time.sleep(CALM)
        return began, healed

    def _serves(self) -> bool:
        """Return whether all probes get the expected response, with and without nginx."""
        ports = [self.stage.server.port, self.stage.nginx.port]
        return all(ask(request, port).is_admitted(NOTHING) for port in ports for request in PROBES)

    def _judge(self, outcome: Outcome, disturbance: Disturbance, began: float, healed: float) -> None:
        """Check the outcome of a request against the disturbance between two moments."""
        permits = disturbance.permits if outcome.began < healed and outcome.ended > began else NOTHING
        self.outcomes[outcome.request.name, outcome.situation] += 1
        if not outcome.is_admitted(permits):
            self.broken.append(f"{disturbance.name}, {outcome.began - began:.2f} s after it began: {outcome}")

    def _wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds, and record a violation if it never does."""
        try:
            eventually(condition)
        except AssertionError:
            self.broken.append(f"this never became true: {what}")

    def _measure(self) -> None:
        """Record the size of each worker, which is idle now, and a violation if one has grown."""
        for worker in self.stage.server.workers():
            process = Path(f"/proc/{worker}")
            pages = int((process / "statm").read_text(encoding="ascii").split()[1])
            for unit, size in (("MiB", pages * 4_096 / 1_048_576), ("descriptors", len([*(process / "fd").iterdir()]))):
                samples = self.samples[worker, unit]
                samples.append(size)
                third = len(samples) // 3
                if third > 1 and (grown := median(samples[-third:]) - median(samples[:third])) > TOLERANCES[unit]:
                    self.broken.append(f"a worker grew by {grown:.1f} {unit}")

    def report(self) -> Iterator[str]:
        """Yield the lines of the report."""
        for (name, situation), count in sorted(self.outcomes.items()):
            yield f"{name:32} {situation:20} {count:6}"
        for name, seconds in sorted(self.healing.items()):
            yield f"{name:32} {len(seconds)} times, healed in at most {max(seconds):.2f} seconds"
        for (worker, unit), samples in sorted(self.samples.items()):
            yield f"process {worker}: from {samples[0]:.1f} to {samples[-1]:.1f} {unit}"
        yield from self.broken[:5]
        yield f"{self.outcomes.total()} requests, broken promises: {len(self.broken)}"


def main() -> int:
    """Run the soak that the command line asks for, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, prog="make soak")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))  # noqa: S311 - no secret
    parser.add_argument("--worker", choices=PROGRAMS, default="gthread")
    arguments = parser.parse_args()
    sys.stdout.write(f"{arguments.seconds:.0f} seconds of {arguments.worker}, seed {arguments.seed}\n")
    sys.stdout.flush()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stops the processes that were started
    try:
        with staged(arguments.worker) as stage:
            soak = Soak(stage, Random(arguments.seed))  # noqa: S311 - the same each time
            soak.play(arguments.seconds)
    except pytest.skip.Exception as missing:
        sys.exit(f"{missing}. On Debian: apt-get install nginx-light postgresql")
    except KeyboardInterrupt:
        os._exit(130)  # all processes are stopped, and threads that wait for a response are abandoned
    sys.stdout.writelines(f"{line}\n" for line in soak.report())
    return 1 if soak.broken else 0


if __name__ == "__main__":
    sys.exit(main())
