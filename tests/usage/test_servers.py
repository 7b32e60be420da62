"""Real servers count every call: with threads, greenlets and forks, at a graceful stop
and after a kill.
"""

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, select, text

from flask_notifications.usage import read_usage
from flask_notifications.usage.store import recorders
from tests.servers.process import (
    WAITRESS,
    Program,
    Server,
    eventually,
    gunicorn,
    serving,
    uwsgi,
)
from tests.usage.databases import counted, empty_database, execute

GUNICORN = "graceful_timeout = 15\nworkers = 2"
# uWSGI ends a worker that is still starting or busy at once, unless SIGTERM means to
# wait for it.
GRACEFULLY = "--hook-master-start=unix_signal:15 gracefully_kill_them_all"
STOPS_GRACEFULLY = "from now on, SIGTERM means to wait"
UWSGI = (
    "--master",
    "--processes=2",
    "--disable-logging",
    GRACEFULLY,
    f"--hook-master-start=print:{STOPS_GRACEFULLY}",
)


GUNICORNS = [
    replace(
        gunicorn(worker, f"{GUNICORN}\npreload_app = {preload}"),
        name=f"gunicorn-{worker}{'-preload' * preload}",
    )
    for worker, preload in (
        ("sync", False),
        ("gthread", True),
        ("gevent", False),
        ("gevent", True),
    )
]
GRACEFUL = [
    *GUNICORNS,
    replace(uwsgi((*UWSGI, "--enable-threads")), name="uwsgi-enable-threads"),
]
REPLACING = [
    replace(
        gunicorn(worker, f"{GUNICORN}\nmax_requests = 5"),
        name=f"gunicorn-{worker}-replacing-workers",
    )
    for worker in ("sync", "gthread", "gevent")
]
# Without a master, uWSGI cannot stop gracefully.
ONE_PROCESS = replace(uwsgi(("--enable-threads",)), name="uwsgi-one-process")
# Only for `make test-world`.
RARE = {
    "gunicorn-gevent-preload",
    "uwsgi-one-process",
    "gunicorn-gevent-replacing-workers",
}
# How a worker with threads is replaced depends on the release of gunicorn.
MARKS = {"gunicorn-gthread-replacing-workers": pytest.mark.newest} | dict.fromkeys(
    RARE, pytest.mark.world
)


def on(*programs: Program) -> pytest.MarkDecorator:
    marked = []
    for program in programs:
        marks = MARKS.get(program.name, ())
        marked.append(pytest.param(program, id=program.name, marks=marks))
    return pytest.mark.parametrize("program", marked)


@contextmanager
def serving_with_all_workers(program: Program, folder: Path) -> Iterator[Server]:
    """Run a server and yield it when it can be stopped gracefully.

    A master process of uWSGI that is still starting does not know yet what SIGTERM
    means. A worker that is still starting misses the signal of its master, which then
    waits for it forever.
    """
    with serving(
        replace(program, application="tests.usage.app:application"), folder
    ) as server:
        if program in GRACEFUL and "pyuwsgi" in program.modules:
            eventually(lambda: STOPS_GRACEFULLY in server.written().splitlines())
            eventually(
                lambda: (
                    [catches_hangup(worker) for worker in server.workers()]
                    == [True] * 2
                )
            )
        yield server


def catches_hangup(worker: int) -> bool:
    """Return whether a process has a handler for SIGHUP, with which a master of uWSGI
    stops its workers gracefully.
    """
    status = Path(f"/proc/{worker}/status").read_text(encoding="ascii")
    caught = re.findall(r"^SigCgt:\s*(\w+)$", status, re.MULTILINE)
    return bool(int(caught[0], 16) & 1 << (signal.SIGHUP - 1))


@pytest.fixture(params=["sqlite"])
def database(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Yield the URL of an empty database, which is also in the environment of the
    application.
    """
    with empty_database(request.param, tmp_path) as url:
        monkeypatch.setenv("USAGE_DATABASE", url)
        yield url


def call(server: Server, client: str) -> None:
    assert (
        server.ask("GET", "/report", f"User-Agent: {client}", "X-Caller: alice").code
        == 200
    )


def call_often(servers: list[Server], number: int) -> None:
    """Make a number of calls from each of two clients to each server, several at the
    same time.
    """
    called = servers * 2 * number
    clients = ["job/1"] * len(servers) + ["job/2"] * len(servers)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, called, clients * number))


def expected(number: int) -> dict[tuple[str, str | None, str | None], int]:
    return {("report", "alice", "job/1"): number, ("report", "alice", "job/2"): number}


@on(*GRACEFUL, *REPLACING)
def test_no_call_is_lost_when_a_server_replaces_its_workers_or_stops_gracefully(
    program: Program, tmp_path: Path, database: str
) -> None:
    with serving_with_all_workers(program, tmp_path) as server:
        call_often([server], 30)
    assert counted(database) == expected(30)
    assert all(
        sum(operation.covered.values()) > 0
        for operation in read_usage(database).operations
    )


@on(*GRACEFUL, ONE_PROCESS, WAITRESS)
def test_every_pair_is_recorded_when_processes_are_killed(
    program: Program, tmp_path: Path, database: str
) -> None:
    with serving_with_all_workers(program, tmp_path) as server:
        call_often([server], 30)
        eventually(lambda: set(counted(database)) == set(expected(1)))
        for worker in server.workers():
            os.kill(worker, signal.SIGKILL)
    (operation,) = read_usage(database, operations=["report"]).operations
    assert 2 <= operation.calls <= 60
    assert operation.coverage < 1


def call_worker(server: Server, client: str) -> tuple[str, int, float] | None:
    """Return the client, the process that responded and when, or nothing if that was
    killed meanwhile.
    """
    time.sleep(0.05)
    try:
        body = server.ask("GET", "/report", f"User-Agent: {client}").body
        return client, int(body), time.time()
    except (OSError, ValueError):
        return None


@on(*GUNICORNS[:3])
def test_calls_that_a_kill_loses_lie_in_time_that_is_not_covered(
    program: Program, tmp_path: Path, database: str
) -> None:
    # Few enough clients to be kept by name.
    clients = iter([f"job/{number}" for number in range(180)])
    calls: list[tuple[str, int, float]] = []
    with (
        serving_with_all_workers(program, tmp_path) as server,
        ThreadPoolExecutor(4) as pool,
    ):
        for _ in range(3):
            calling = [
                pool.submit(call_worker, server, client)
                for client in islice(clients, 60)
            ]
            time.sleep(0.5)
            os.kill(server.workers()[0], signal.SIGKILL)
            calls += filter(None, [call.result() for call in calling])
            time.sleep(1)
    recorded = {client for _name, _caller, client in counted(database)}
    columns = (recorders.c.process, recorders.c.ended, recorders.c.heard_at)
    heard = {process: row for process, *row in execute(database, select(*columns))}
    lost = [call for call in calls if call[0] not in recorded]
    sys.stdout.write(f"{len(lost)} of {len(calls)} calls are lost\n")
    for _client, process, responded_at in lost:
        # Its row, if there is one, covers nothing after its last sign of life.
        ended, heard_at = heard.get(process, (0, 0))
        assert not ended
        assert heard_at < responded_at * 1_000_000
    assert len(lost) < len(calls)
    (operation,) = read_usage(database, operations=["report"]).operations
    assert operation.coverage < 1


def test_a_request_in_the_master_of_uwsgi_stops_no_worker(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARM_UP", "1")
    program = uwsgi(("--master", "--processes=4", "--enable-threads"))
    clients = iter([f"job/{number}" for number in range(190)])
    workers: set[int] = set()
    sent: set[str] = set()
    with (
        serving_with_all_workers(program, tmp_path) as server,
        ThreadPoolExecutor(8) as pool,
    ):

        def have_all_responded() -> bool:
            for call in pool.map(partial(call_worker, server), islice(clients, 16)):
                assert call is not None
                sent.add(call[0])
                workers.add(call[1])
            return len(workers) == 4

        eventually(have_all_responded)
        eventually(
            lambda: {client for _name, _caller, client in counted(database)} == sent
        )
    processes = execute(database, select(recorders.c.process))
    assert {process for (process,) in processes} == workers


@pytest.mark.parametrize("database", ["sqlite", "postgresql", "mariadb"], indirect=True)
def test_two_servers_with_several_workers_count_exactly(
    tmp_path: Path, database: str
) -> None:
    program = gunicorn("gthread", f"{GUNICORN}\nworkers = 4\nthreads = 4")
    with ExitStack() as stack:
        folders = (tmp_path / "one", tmp_path / "two")
        call_often(
            [
                stack.enter_context(serving_with_all_workers(program, folder))
                for folder in folders
            ],
            200,
        )
    assert counted(database) == expected(400)


# Who waits for the table of calls, and since when.
WAITS = text(
    "SELECT pid, waitstart FROM pg_locks "
    "WHERE relation = 'flask_notifications_usage'::regclass AND NOT granted AND waitstart IS NOT NULL"
)


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_driver_that_waits_stops_no_greenlet(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "USAGE_DATABASE", database.replace("+psycopg:", "+psycopg2:")
    )  # which waits in C
    with serving_with_all_workers(
        gunicorn("gevent", f"{GUNICORN}\nworkers = 1"), tmp_path
    ) as server:
        call(server, "job/1")
        eventually(lambda: counted(database) != {})
        with create_engine(database, poolclass=NullPool).connect() as connection:
            connection.execute(text("LOCK TABLE flask_notifications_usage"))
            sent = 0

            def is_served_during_a_wait() -> bool:
                nonlocal sent
                before = set(connection.execute(WAITS))
                if before:
                    call(server, "job/2")
                    sent += 1
                return not before.isdisjoint(connection.execute(WAITS))

            call(server, "job/2")
            eventually(is_served_during_a_wait)
    assert counted(database) == {
        ("report", "alice", "job/1"): 1,
        ("report", "alice", "job/2"): sent + 1,
    }
