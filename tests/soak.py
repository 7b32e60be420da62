"""Serve traffic during random failures, and check every response against the
guarantees: `make soak`.

The soak runs gunicorn with and without nginx, PostgreSQL, and a TCP proxy that injects
failures. The command exits with status 1 if a guarantee was violated.
"""

import argparse
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Event
from typing import NamedTuple

import pytest

from tests.resilience.breakable import Service, application_on, find_leaks
from tests.resilience.database_app import (
    COUNTS,
    POOL,
    documents_of,
    prepare,
    session_of,
)
from tests.resilience.postgresql import IMMEDIATE, postgresql
from tests.resilience.proxy import RESET, Failure, Proxy
from tests.servers.nginx import proxying
from tests.servers.process import (
    GUNICORN_FILTER,
    PATIENCE,
    Server,
    eventually,
    gunicorn,
    request_of,
    response_of,
)

# Each worker has as many threads as its pool has connections.
WORKERS = 2
PROGRAM = gunicorn(
    "gthread", f"{GUNICORN_FILTER}\nworkers, threads = {WORKERS}, {POOL}"
)
# More clients than concurrent requests.
CLIENTS = 8
# Seconds: the pause before and after a disturbance, and the range of its duration.
CALM, TROUBLE = 0.5, (0.5, 5)
# How much an idle worker may grow.
PAGES, DESCRIPTORS = 4_096, 4

# The situations in which a request may end, besides the code of a problem.
WHOLE, UNMATCHED = "the whole array", "an unmatched request"
CUT, LOST, GATEWAY = "the beginning", "no response", "a response of the proxy"
UNAVAILABLE = frozenset({"storage_unavailable"})
INTERRUPTED = frozenset({CUT, LOST, GATEWAY})

LIST = "/API/Notification/"


class Request(NamedTuple):
    """A request, its situation without a failure, and the array."""

    target: str
    session: str = ""  # in the header
    expected: str = WHOLE
    body: bytes = b""
    method: str = "GET"


def list_requests() -> Iterator[Request]:
    for login in COUNTS:
        body = f"[{','.join(documents_of(login))}]".encode()
        yield Request(LIST, login, body=body)
        by_query = f"/api/NOTIFICATION?SESSIONID={session_of(login)}"
        yield Request(by_query, body=body)
    account = f"{LIST}GetNotificationsForAccount/bob/"
    yield Request(account, "alice", "access_denied", method="POST")
    yield Request(f"{LIST}?sessionId=nobody", expected="session_invalid")
    yield Request("/elsewhere", expected=UNMATCHED)


REQUESTS = list(list_requests())
# They need everything that may fail.
PROBES = [request for request in REQUESTS if len(request.body) > 1_000_000]


def situation_of(request: Request, received: bytes) -> str:
    """Return the situation of a request; an assertion fails if no failure would excuse
    the response.
    """
    if b"\r\n\r\n" not in received:
        return LOST
    response = response_of(received)
    if response.code in {502, 504}:
        return GATEWAY
    is_announced = response.all("Deprecation") == ["@1767225600"]
    assert is_announced == (request.expected != UNMATCHED), "the wrong announcement"
    missing = int(response.one("Content-Length")) - len(response.body)
    if response.code == 200:
        assert request.expected == WHOLE, "an array for who may have none"
        assert len(response.body) + missing == len(request.body), "another length"
        assert request.body.startswith(response.body), "not what is stored"
        return CUT if missing else WHOLE
    assert not response.body.startswith(b"["), "a failure with an array"
    if missing:
        return CUT
    return str(response.json["code"]) if is_announced else UNMATCHED


class Outcome(NamedTuple):
    """The situation of a request between two moments, or the guarantee that it
    violates.
    """

    request: Request
    began: float
    ended: float
    situation: str

    @property
    def is_expected(self) -> bool:
        return self.situation == self.request.expected


def ask(request: Request, port: int, pause: float = 0) -> Outcome:
    """Send a request, with a pause after each read."""
    began, received = time.monotonic(), b""
    headers = []
    if request.session:
        headers.append(f"Authorization: Bearer {session_of(request.session)}")
    with (
        suppress(OSError),
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection,
    ):
        connection.sendall(request_of(request.method, request.target, *headers))
        while chunk := connection.recv(1 << 16):
            received += chunk
            time.sleep(pause)
    try:
        situation = situation_of(request, received)
    except (AssertionError, ValueError, LookupError) as broken:
        situation = f"{broken!r}: {received[:2_000]!r}"
    return Outcome(request, began, time.monotonic(), situation)


def ask_until(done: Event, ports: list[int], chance: Random) -> list[Outcome]:
    """Send random requests until ``done``; some clients read slowly."""
    outcomes = []
    while not done.wait(chance.uniform(0, 0.05)):
        request, port = chance.choice(REQUESTS), chance.choice(ports)
        outcomes.append(ask(request, port, chance.choice([0, 0, 0.01])))
    return outcomes


# The disturbances, and the situations that each of them permits.


@dataclass(frozen=True)
class Stage(Service):
    """The running processes: the server, its database, the network between them, and
    nginx as a proxy.
    """

    nginx: Server
    folder: Path
    chance: Random


Disturbance = Callable[[Stage], AbstractContextManager[object]]


def terminate(stage: Stage) -> AbstractContextManager[None]:
    stage.cluster.terminate()
    return nullcontext()


@contextmanager
def without_folder(stage: Stage) -> Iterator[None]:
    """Move the folder of the temporary files away; open files are not affected, because
    they have no name.
    """
    moved = (stage.folder / "tmp").rename(stage.folder / "away")
    try:
        yield
    finally:
        moved.rename(stage.folder / "tmp")


def kill(stage: Stage) -> AbstractContextManager[None]:
    """Kill a worker, and wait until it is replaced."""
    killed = stage.chance.choice(stage.server.workers())
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: len({*stage.server.workers()} - {killed}) == WORKERS)
    return nullcontext()


DISTURBANCES: dict[str, tuple[frozenset[str], Disturbance]] = {
    "connections terminated": (UNAVAILABLE, terminate),
    "no connection left": (UNAVAILABLE, Stage.no_connection_left),
    "database stopped": (UNAVAILABLE, lambda stage: stage.cluster.stopped(IMMEDIATE)),
    "table locked": (UNAVAILABLE, Stage.locked),
    "network almost stopped": (
        UNAVAILABLE,
        lambda stage: stage.proxy.failing(Failure(rate=20)),
    ),
    "network resets": (UNAVAILABLE, lambda stage: stage.proxy.failing(RESET)),
    "no folder for files": (frozenset({"spool_unavailable"}), without_folder),
    "a worker killed": (INTERRUPTED, kill),
}


# The soak: rounds of one disturbance each.


def play(stage: Stage, seconds: float, counts: Counter[str]) -> list[str]:
    """Play rounds until the time is over or a guarantee is violated, count situations,
    and return the violations.
    """
    end = time.monotonic() + seconds
    sizes: dict[int, tuple[int, int]] = {}
    while time.monotonic() < end:
        name = stage.chance.choice(list(DISTURBANCES))
        broken = play_round(stage, name, counts) + find_growth(stage, sizes)
        if broken:
            return broken
    return find_leaks(stage.server.written())


def play_round(stage: Stage, name: str, counts: Counter[str]) -> list[str]:
    permits, act = DISTURBANCES[name]
    done, ports, broken = Event(), [stage.server.port, stage.nginx.port], []

    def is_well() -> bool:
        return all(ask(probe, port).is_expected for port in ports for probe in PROBES)

    with ThreadPoolExecutor(CLIENTS) as clients:
        asked = []
        for _client in range(CLIENTS):
            chance = Random(stage.chance.random())  # noqa: S311 - the same each time
            asked.append(clients.submit(ask_until, done, ports, chance))
        try:
            time.sleep(CALM)
            began = time.monotonic()
            with act(stage):
                time.sleep(stage.chance.uniform(*TROUBLE))
            eventually(is_well)
        except AssertionError:
            broken.append(f"{name}: the service does not recover")
        finally:
            healed = time.monotonic()
            time.sleep(CALM)
            done.set()
    for client in asked:
        for outcome in client.result():
            counts[outcome.situation] += 1
            is_disturbed = outcome.began < healed and outcome.ended > began
            is_permitted = is_disturbed and outcome.situation in permits
            if not outcome.is_expected and not is_permitted:
                broken.append(f"{name}: {outcome.request.target} {outcome.situation}")
    eventually(lambda: not stage.cluster.busy_backends())
    eventually(lambda: not stage.server.open_spools())
    return broken


def find_growth(stage: Stage, sizes: dict[int, tuple[int, int]]) -> list[str]:
    """Return which of the workers, which are idle now, have grown; ``sizes`` are the
    first ones.
    """
    grown = []
    for worker in stage.server.workers():
        process = Path(f"/proc/{worker}")
        memory = int((process / "statm").read_text(encoding="ascii").split()[1])
        opened = len(list((process / "fd").iterdir()))
        first_memory, first_opened = sizes.setdefault(worker, (memory, opened))
        if memory > first_memory + PAGES or opened > first_opened + DESCRIPTORS:
            grown.append(f"a worker has {memory} pages and {opened} descriptors")
    return grown


@contextmanager
def staged(chance: Random) -> Iterator[Stage]:
    """Start all processes in a temporary folder, yield them, and stop them on exit."""
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as name,
        postgresql() as cluster,
        Proxy(cluster.port) as proxy,
    ):
        prepare(cluster.url())
        folder = Path(name)
        with (
            application_on(cluster.url(proxy.port), PROGRAM, folder) as server,
            proxying("access_log off", server.port, folder / "nginx") as nginx,
        ):
            eventually(lambda: len(server.workers()) == WORKERS)
            yield Stage(server, proxy, cluster, nginx, folder, chance)


def main() -> int:
    """Run the soak that the command line asks for, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, prog="make soak")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))  # noqa: S311 - no secret
    arguments = parser.parse_args()
    print(f"{arguments.seconds:.0f} seconds, seed {arguments.seed}", flush=True)  # noqa: T201
    # It stops the processes that were started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    counts: Counter[str] = Counter()
    try:
        with staged(Random(arguments.seed)) as stage:  # noqa: S311 - the same each time
            broken = play(stage, arguments.seconds, counts)
    except pytest.skip.Exception as missing:
        sys.exit(f"{missing}. On Debian: apt-get install nginx-light postgresql")
    print(*broken[:5], dict(counts), f"broken promises: {len(broken)}", sep="\n")  # noqa: T201
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
