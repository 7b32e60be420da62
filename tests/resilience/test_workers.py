"""While gunicorn's workers are replaced, stopped or killed, each response is complete
or visibly truncated.
"""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import requests

from tests.resilience.app import (
    APPLICATION,
    GATE,
    LIST,
    WHOLE,
    assert_no_record,
    find_unreleased,
    records_of,
)
from tests.servers.nginx import proxying
from tests.servers.process import (
    PATIENCE,
    Program,
    Server,
    eventually,
    gunicorn,
    serving,
)

# nginx as a proxy. It forwards without buffering, or it would have the whole response
# before the test acts.
PROXIES = {
    "http-1.1-upstream": 'proxy_buffering off; proxy_http_version 1.1; proxy_set_header Connection ""',
    "gzip": "proxy_buffering off; gzip on; gzip_proxied any; gzip_types *",
}

# What clients raise when a response is truncated.
CUT = requests.RequestException


@contextmanager
def client(port: int, session: str) -> Iterator[Callable[[], bytes]]:
    """Read the beginning of a response, and yield a function that reads the rest and
    returns the whole body.
    """
    headers = {"Authorization": f"Bearer {session}", "Accept-Encoding": "gzip"}
    with requests.get(
        f"http://127.0.0.1:{port}{LIST}", headers=headers, stream=True, timeout=PATIENCE
    ) as response:
        yield lambda: response.content


# One worker or thread for each way to the server.
READERS = len(PROXIES) + 1

THREADS = gunicorn("gthread", f"threads = {READERS}", APPLICATION)
PROCESSES = gunicorn(
    "sync", f"workers = {READERS}; preload_app = True; timeout = 1", APPLICATION
)


def are_replaced(server: Server, workers: list[int]) -> bool:
    """Return whether there are new workers and none of the old ones."""
    return bool(server.workers()) and not {*workers} & {*server.workers()}


def kill_workers(server: Server) -> None:
    workers = server.workers()
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    eventually(lambda: are_replaced(server, workers))


@pytest.mark.parametrize(
    ("program", "end"), [(THREADS, kill_workers), (PROCESSES, lambda _server: None)]
)
def test_a_response_that_no_worker_finishes_is_an_error_to_clients(
    program: Program, end: Any, tmp_path: Path
) -> None:
    with serving(program, tmp_path) as server, ExitStack() as stack:
        ports = [server.port]
        for way, site in PROXIES.items():
            proxy = proxying(site, server.port, tmp_path / way)
            ports.append(stack.enter_context(proxy).port)
        clients = [stack.enter_context(client(port, "large")) for port in ports]
        assert find_unreleased(server.written()) == []
        end(server)
        eventually(
            lambda: not server.open_spools()
        )  # gunicorn has killed each worker that waits for its client
        for rest in clients:
            with pytest.raises(CUT):
                rest()
        for port in ports:
            with client(port, "whole") as rest:
                assert rest() == WHOLE
        eventually(lambda: not server.open_spools())


def test_a_storage_that_hangs_costs_its_worker_and_no_record_is_sent(
    tmp_path: Path,
) -> None:
    with (
        serving(gunicorn("sync", "timeout = 1", APPLICATION), tmp_path) as server,
        ThreadPoolExecutor() as pool,
    ):
        workers = server.workers()
        hanging = pool.submit(server.ask, "GET", LIST, "Authorization: Bearer wait")
        eventually(server.open_spools)
        assert find_unreleased(server.written()) != []
        assert_no_record(hanging.result(PATIENCE))
        eventually(lambda: are_replaced(server, workers))
        assert find_unreleased(server.written()) == []
        eventually(lambda: not server.open_spools())
        assert server.ask("GET", LIST, "Authorization: Bearer whole").body == WHOLE


def test_a_stopped_gunicorn_finishes_short_responses_and_truncates_long_ones(
    tmp_path: Path,
) -> None:
    program = gunicorn("gthread", "graceful_timeout = 2; threads = 2", APPLICATION)
    with serving(program, tmp_path) as server, ThreadPoolExecutor() as pool:
        with client(server.port, "large") as rest:
            short = pool.submit(server.ask, "GET", LIST, "Authorization: Bearer wait")
            eventually(lambda: "storage INFO waits" in server.written())
            server.signal(signal.SIGTERM)
            eventually(lambda: "Handling signal: term" in server.written())
            (tmp_path / "tmp" / GATE).touch()
            assert short.result(PATIENCE).body == WHOLE
            assert server.exit_code() == 0
            with pytest.raises(CUT):
                rest()
        assert find_unreleased(server.written()) == []


@pytest.mark.parametrize(
    "act", [lambda server: server.signal(signal.SIGHUP), kill_workers]
)
def test_every_response_is_correct_while_workers_are_replaced(
    act: Any, tmp_path: Path
) -> None:
    program = gunicorn("gthread", "workers = 2; threads = 4", APPLICATION)
    with serving(program, tmp_path) as server, ThreadPoolExecutor() as pool:
        done, counts = Event(), []
        for number in (1, 7, 60):
            counts.append(pool.submit(ask_until, done, server.port, number))
        workers = server.workers()
        try:
            act(server)
            eventually(lambda: are_replaced(server, workers))
        finally:
            done.set()
        for count in counts:
            assert count.result(PATIENCE) > 0
        eventually(lambda: not server.open_spools())


def ask_until(done: Event, port: int, number: int) -> int:
    """Send requests as one user until ``done``, and return how many got a response;
    each must be correct.
    """
    expected = b"[" + b",".join(records_of(number)) + b"]"
    count = 0
    while not done.is_set():
        with suppress(CUT):  # a connection may be lost, but never a part of a response
            with client(port, f"user-{number}") as rest:
                assert rest() == expected
            count += 1
    return count
