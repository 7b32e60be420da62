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
    ExitStack,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass
from itertools import product
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
from tests.resilience.postgresql import FAST, IMMEDIATE, postgresql
from tests.resilience.proxy import BLACK_HOLE, RESET, End, Failure, Proxy
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

# The number of workers, and the concurrent requests of each worker, which are as many
# as the pool has connections.
WORKERS, CONCURRENT_REQUESTS = 2, POOL
PROGRAMS = {
    worker: gunicorn(
        worker,
        f"{GUNICORN_FILTER}\nworkers, {limit} = {WORKERS}, {CONCURRENT_REQUESTS}",
    )
    for worker, limit in (("gthread", "threads"), ("gevent", "worker_connections"))
}
# More clients than concurrent requests.
CLIENTS = 8
# More bytes than any response has.
UNLIMITED = 1 << 30
# Seconds: the pause before and after a disturbance, and the range of its duration.
CALM, TROUBLE = 0.5, (0.5, 5)
# How much an idle worker may grow.
TOLERANCES = {"MiB": 16, "descriptors": 4}


# The requests, and what each response must be.

# The situations in which a request may end, besides the code of a problem: the whole
# array; the application's response to an unmatched request; the beginning of a
# response; nothing; a response of the proxy; a client that disconnects.
WHOLE, UNMATCHED, CUT, LOST, GATEWAY, LEFT = (
    "whole",
    "unmatched",
    "cut",
    "lost",
    "gateway",
    "left",
)
NOTHING: frozenset[str] = frozenset()
UNAVAILABLE, INTERRUPTED = (
    frozenset({"storage_unavailable"}),
    frozenset({CUT, LOST, GATEWAY}),
)

LIST = "/API/Notification/"
# A user whose response is larger than all buffers between a server and its client.
ARCHIVE = [
    f'{{"owner": "archive", "n": {n}, "text": "{"t" * 8_000}"}}' for n in range(1_000)
]
FILL_ARCHIVE = """
INSERT INTO sessions SELECT replace(id, 'large', 'archive'), 'archive', false FROM sessions WHERE login = 'large';
INSERT INTO notifications
SELECT 'archive', n, format('{"owner": "archive", "n": %s, "text": "%s"}', n, repeat('t', 8000)), now()
FROM generate_series(0, 999) n
"""


class Request(NamedTuple):
    """A request, its situation without a failure, and the array."""

    name: str
    target: str = LIST
    session: str = ""  # in the header
    expected: str = WHOLE
    body: bytes = b""
    method: str = "GET"


def requests() -> Iterator[Request]:
    """Yield every request, in each of the ways that clients send it."""
    arrays = {login: f"[{','.join(documents_of(login))}]".encode() for login in COUNTS}
    arrays["archive"] = f"[{','.join(ARCHIVE)}]".encode()
    for login, body in arrays.items():
        yield Request(f"{login}, by header", session=login, body=body)
        yield Request(
            f"{login}, by query",
            f"/api/NOTIFICATION?SESSIONID={session_of(login)}",
            body=body,
        )
    row = '{"owner":"large","position":%d,"written_at":"2025-03-31T08:15:18+00:00"}'
    rows = f"[{','.join(row % number for number in range(COUNTS['large']))}]".encode()
    account = f"{LIST}GetNotificationsForAccount/%s/"
    yield Request("account large", account % "large", "admin", body=rows, method="POST")
    yield Request(
        "account of another", account % "bob", "alice", "access_denied", method="POST"
    )
    yield Request(
        "account unknown",
        account % "nobody",
        "admin",
        "account_not_found",
        method="POST",
    )
    yield Request(
        "unknown session", f"{LIST}?sessionId=nobody", expected="session_invalid"
    )
    yield Request("no session", expected="session_missing")
    yield Request(
        "two sessions",
        f"{LIST}?sessionId={session_of('alice')}",
        "bob",
        "invalid_request",
    )
    yield Request("elsewhere", "/elsewhere", expected=UNMATCHED)


# They need everything that may fail.
PROBES = [request for request in requests() if "large" in request.name]


def situation_of(request: Request, received: bytes) -> str:
    """Return the situation of a request; an assertion fails if no failure would excuse
    the response.
    """
    if b"\r\n\r\n" not in received:
        return LOST
    response = response_of(received)
    if response.code in {502, 504}:
        return GATEWAY
    is_announced = (
        response.all("Deprecation") == ["@1767225600"]
        and len(response.all("Link")) == 1
    )
    assert is_announced == (request.expected != UNMATCHED), "the wrong announcement"
    missing = int(response.one("Content-Length")) - len(response.body)
    assert missing >= 0, "more than its Content-Length"
    if response.code == 200:
        assert request.expected == WHOLE, "an array for who may have none"
        stored = request.body[: len(response.body)] if missing else request.body
        assert response.body == stored, "not what is stored, or not all of it"
    assert response.code == 200 or not response.body.startswith(b"["), (
        "a failure with an array"
    )
    if missing or response.code == 200:
        return CUT if missing else WHOLE
    if request.expected == UNMATCHED and response.code == 404:
        return UNMATCHED
    problem = response.json
    assert problem["status"] == response.code, "another status in the body"
    assert response.all("Retry-After") == ["30"] * (
        problem["code"] == "storage_unavailable"
    ), "the wrong Retry-After"
    return str(problem["code"])


class Outcome(NamedTuple):
    """The situation of a request between two moments, or the guarantee that it
    violates.
    """

    request: str
    began: float
    ended: float
    situation: str
    received: bytes
    is_expected: bool


def ask(
    request: Request, port: int, pause: float = 0, limit: int = UNLIMITED
) -> Outcome:
    """Send a request, with a pause after each read; disconnect after ``limit`` bytes in
    both directions.
    """
    began, received = time.monotonic(), bytearray()
    header = (
        [f"Authorization: Bearer {session_of(request.session)}"]
        if request.session
        else []
    )
    request_bytes = request_of(request.method, request.target, *header)
    left = limit - len(request_bytes)
    with (
        suppress(OSError),
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection,
    ):
        connection.sendall(request_bytes[:limit])
        while len(received) < left and (
            chunk := connection.recv(min(1 << 16, left - len(received)))
        ):
            received += chunk
            time.sleep(pause)
    try:
        situation = situation_of(request, bytes(received))
    except (
        AssertionError,
        ValueError,
        LookupError,
    ) as broken:  # or the response cannot be parsed
        situation = repr(broken)
    if limit != UNLIMITED and situation in {LOST, CUT}:
        situation = LEFT
    is_expected = situation in {request.expected, LEFT}
    return Outcome(
        request.name,
        began,
        time.monotonic(),
        situation,
        bytes(received[:2_000]),
        is_expected,
    )


def ask_until(done: Event, ports: list[int], chance: Random) -> list[Outcome]:
    """Send random requests until ``done``, with short pauses; some clients read slowly,
    and some leave.
    """
    outcomes, choices = [], [*requests()]
    while not done.wait(chance.uniform(0, 0.05)):
        request = chance.choice(choices)
        limit = (
            chance.randrange(800 + len(request.body))
            if chance.random() < 0.25
            else UNLIMITED
        )
        outcomes.append(
            ask(request, chance.choice(ports), chance.choice([0, 0, 0.01]), limit)
        )
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


@contextmanager
def terminated(stage: Stage) -> Iterator[None]:
    stage.cluster.terminate()
    yield


@contextmanager
def suspended(stage: Stage) -> Iterator[None]:
    """Suspend every process of the database."""
    postmaster = b"SELECT split_part(pg_read_file('postmaster.pid'), e'\\n', 1)::int"
    backends = b"SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    with stage.cluster.connect() as admin, ExitStack() as resume:
        for processes in (
            postmaster,
            backends,
        ):  # first the process that would start others
            for (process,) in admin.execute(processes):
                with suppress(ProcessLookupError):  # ended since it was listed
                    os.kill(process, signal.SIGSTOP)
                    resume.callback(os.kill, process, signal.SIGCONT)
        yield


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


@contextmanager
def stalled(stage: Stage) -> Iterator[None]:
    """Occupy every thread with a reader that stops after the first bytes."""
    with ExitStack() as readers:
        for _reader in range(WORKERS * CONCURRENT_REQUESTS):
            readers.enter_context(
                stage.server.slow_reader(f"{LIST}?sessionId={session_of('archive')}")
            )
        yield


@contextmanager
def silent(stage: Stage) -> Iterator[None]:
    """Lose every byte from the database, and kill the workers on exit, because their
    requests wait forever.
    """
    with stage.proxy.failing(BLACK_HOLE):
        yield
    kill(stage, WORKERS)


def kill(stage: Stage, count: int = 1) -> AbstractContextManager[None]:
    """Kill workers, and wait until they are replaced."""
    killed = stage.chance.sample(stage.server.workers(), count)
    for worker in killed:
        os.kill(worker, signal.SIGKILL)
    eventually(lambda: len({*stage.server.workers()} - {*killed}) == WORKERS)
    return nullcontext()


def reload(stage: Stage) -> AbstractContextManager[None]:
    """Make gunicorn replace its workers, and wait until it has."""
    before = {*stage.server.workers()}
    stage.server.signal(signal.SIGHUP)
    eventually(
        lambda: not before & {*(now := stage.server.workers())} and len(now) == WORKERS
    )
    return nullcontext()


def random_end(stage: Stage) -> AbstractContextManager[None]:
    """End each connection after some bytes, in a random way that the client sees."""
    ends: list[End] = ["cut", "reset"]
    return stage.proxy.failing(
        Failure(
            limit=stage.chance.choice([10, 1_000, 100_000]),
            end=stage.chance.choice(ends),
        )
    )


DISTURBANCES: dict[
    str, tuple[frozenset[str], Callable[[Stage], AbstractContextManager[object]]]
] = {
    "nothing": (NOTHING, lambda _stage: nullcontext()),
    "connections terminated": (UNAVAILABLE, terminated),
    "no connection left": (UNAVAILABLE, Stage.no_connection_left),
    "database stopped": (UNAVAILABLE, lambda stage: stage.cluster.stopped(FAST)),
    "database stopped at once": (
        UNAVAILABLE,
        lambda stage: stage.cluster.stopped(IMMEDIATE),
    ),
    "database suspended": (UNAVAILABLE, suspended),
    "table locked": (UNAVAILABLE, Stage.locked),
    "network slow": (
        UNAVAILABLE,
        lambda stage: stage.proxy.failing(Failure(rate=500_000)),
    ),
    "network almost stopped": (
        UNAVAILABLE,
        lambda stage: stage.proxy.failing(Failure(rate=20)),
    ),
    "network resets": (UNAVAILABLE, lambda stage: stage.proxy.failing(RESET)),
    "network breaks after some bytes": (UNAVAILABLE, random_end),
    "no folder for files": (frozenset({"spool_unavailable"}), without_folder),
    "readers stall on every thread": (NOTHING, stalled),
    "network loses every byte": (UNAVAILABLE | INTERRUPTED, silent),
    "a worker killed": (INTERRUPTED, kill),
    "workers reloaded": (INTERRUPTED, reload),
}


# The soak: rounds of one disturbance each.


def play(stage: Stage, seconds: float, counts: Counter[str]) -> list[str]:
    """Play rounds until the time is over or a guarantee is violated, count situations,
    and return the violations.

    Workers are replaced in the first third of the time only, and measured in the rest.
    """
    end = time.monotonic() + seconds
    sizes: dict[tuple[int, str], float] = {}
    while (left := end - time.monotonic()) > 0:
        is_settled = left < seconds * 2 / 3
        choices = [
            name
            for name, (permits, _act) in DISTURBANCES.items()
            if not (is_settled and CUT in permits)
        ]
        broken = play_round(stage, stage.chance.choice(choices), counts)
        broken += find_growth(stage, sizes) if is_settled else []
        if broken:
            return broken
    return find_leaks(stage.server.written())


def play_round(stage: Stage, name: str, counts: Counter[str]) -> list[str]:
    permits, act = DISTURBANCES[name]
    done, ports, broken = Event(), [stage.server.port, stage.nginx.port], []
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
            eventually(
                lambda: all(
                    ask(probe, port).is_expected
                    for port, probe in product(ports, PROBES)
                )
            )
        except AssertionError:
            broken.append(f"{name}: the service does not recover")
        finally:
            healed = time.monotonic()
            time.sleep(CALM)
            done.set()
    for outcome in (outcome for client in asked for outcome in client.result()):
        counts[outcome.situation] += 1
        is_disturbed = outcome.began < healed and outcome.ended > began
        if not (outcome.is_expected or (is_disturbed and outcome.situation in permits)):
            broken.append(
                f"{name}, {outcome.began - began:.2f} s after it began: {outcome}"
            )
    eventually(lambda: not stage.cluster.busy_backends())
    eventually(lambda: not stage.server.open_spools())
    eventually(lambda: not list((stage.folder / "tmp").iterdir()))
    return broken


def find_growth(stage: Stage, sizes: dict[tuple[int, str], float]) -> list[str]:
    """Return which of the workers, which are idle now, have grown; ``sizes`` are the
    first ones.
    """
    grown = []
    for worker in stage.server.workers():
        process = Path(f"/proc/{worker}")
        pages = int((process / "statm").read_text(encoding="ascii").split()[1])
        for unit, size in (
            ("MiB", pages * 4_096 / 1_048_576),
            ("descriptors", len([*(process / "fd").iterdir()])),
        ):
            growth = size - sizes.setdefault((worker, unit), size)
            grown += [f"a worker grew by {growth:.1f} {unit}"] * (
                growth > TOLERANCES[unit]
            )
    return grown


@contextmanager
def staged(worker: str, chance: Random) -> Iterator[Stage]:
    """Start all processes in a temporary folder, yield them, and stop them on exit."""
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as name,
        postgresql() as cluster,
        Proxy(cluster.port) as proxy,
    ):
        prepare(cluster.url())
        cluster.ask(FILL_ARCHIVE)
        cluster.ask("ALTER DATABASE postgres SET timezone = 'UTC'")
        folder = Path(name)
        with (
            application_on(cluster.url(proxy.port), PROGRAMS[worker], folder) as server,
            proxying("access_log off", server.port, folder / "nginx") as nginx,
        ):
            eventually(lambda: len(server.workers()) == WORKERS)
            yield Stage(server, proxy, cluster, nginx, folder, chance)


def main() -> int:
    """Run the soak that the command line asks for, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, prog="make soak")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))  # noqa: S311 - no secret
    parser.add_argument("--worker", choices=PROGRAMS, default="gthread")
    arguments = parser.parse_args()
    sys.stdout.write(
        f"{arguments.seconds:.0f} seconds of {arguments.worker}, seed {arguments.seed}\n"
    )
    sys.stdout.flush()
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # stops the processes that were started
    counts: Counter[str] = Counter()
    try:
        with staged(arguments.worker, Random(arguments.seed)) as stage:  # noqa: S311 - the same each time
            broken = play(stage, arguments.seconds, counts)
    except pytest.skip.Exception as missing:
        sys.exit(f"{missing}. On Debian: apt-get install nginx-light postgresql")
    counted = ", ".join(
        f"{count} {situation}" for situation, count in counts.most_common()
    )
    sys.stdout.writelines(
        f"{line}\n"
        for line in [*broken[:5], counted, f"broken promises: {len(broken)}"]
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
