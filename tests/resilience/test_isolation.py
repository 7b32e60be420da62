"""Concurrent clients of real servers get their own records, with the headers of their own response."""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.resilience.app import ACCOUNT, ENTRY_POINTS, LIST, find_unreleased, records_of
from tests.servers.nginx import proxying
from tests.servers.process import PATIENCE, PROGRAMS, Program, eventually, gunicorn, program_name, serving

APPLICATION = "tests.resilience.app:application"
(WAITRESS,) = (program for program in PROGRAMS if program.name == "waitress")
CONCURRENT = [
    replace(program, application=APPLICATION)
    for program in (gunicorn("gthread", "threads = 8; workers = 2"), gunicorn("gevent"), WAITRESS)
]

# The requests of each client.
REQUESTS = 60

# A shared cache that stores every response that does not forbid it, with a key that ignores the session.
CARELESS_CACHE = (
    "proxy_cache responses; proxy_cache_valid any 10m; proxy_cache_methods GET HEAD POST;"
    "proxy_cache_key $request_method$uri"
)


class Case(NamedTuple):
    """A request by one of many users, and what only its own response contains."""

    entry_point: str
    caller: int
    account: int | None
    in_query: bool

    @property
    def method(self) -> str:
        return "GET" if self.account is None else "POST"

    @property
    def target(self) -> str:
        path = LIST if self.account is None else f"{ACCOUNT}/user-{self.account}/"
        query = f"?sessionId=user-{self.caller}" if self.in_query else ""
        return f"{ENTRY_POINTS[self.entry_point]}{path}{query}"

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.in_query else {"Authorization": f"Bearer user-{self.caller}"}

    @property
    def body(self) -> bytes:
        number = self.caller if self.account is None else self.account
        return b"[" + b",".join(records_of(self.entry_point, f"user-{self.caller}", f"user-{number}", number)) + b"]"

    @property
    def response_headers(self) -> dict[str, str | None]:
        successor = "CurrentUser" if self.account is None else "Account"
        return {
            "Content-Length": str(len(self.body)),
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer" if self.in_query else None,
            "Link": f'<{ENTRY_POINTS[self.entry_point]}{LIST}{successor}>; rel="successor-version"',
        }


def choose_case(chance: random.Random) -> Case:
    account = chance.randrange(64) if chance.random() < 0.3 else None
    return Case(chance.choice(list(ENTRY_POINTS)), chance.randrange(64), account, chance.random() < 0.5)


def find_wrong_responses(port: int, seed: int) -> list[Case]:
    """Send many requests on one connection, and return those that got a wrong response."""
    chance = random.Random(seed)  # noqa: S311 - the same cases each time
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        return [case for case in (choose_case(chance) for _ in range(REQUESTS)) if not is_served(connection, case)]


def is_served(connection: HTTPConnection, case: Case) -> bool:
    connection.request(case.method, case.target, headers=case.headers)
    response = connection.getresponse()
    body = response.read()
    # Of several ``Link`` headers, the first.
    headers = {name: response.headers.get(name) for name in case.response_headers}
    return (response.status, body, headers) == (200, case.body, case.response_headers)


def check_every_client_gets_its_own(port: int, count: int) -> None:
    with ThreadPoolExecutor(count) as clients:
        wrong = list(clients.map(find_wrong_responses, [port] * count, range(count)))
    assert wrong == [[]] * count


@pytest.mark.parametrize("program", CONCURRENT, ids=program_name)
def test_concurrent_clients_get_their_own_responses(program: Program, tmp_path: Path) -> None:
    with serving(program, tmp_path) as server:
        check_every_client_gets_its_own(server.port, 32)
        eventually(lambda: not server.open_spools())
        assert find_unreleased(server.written()) == []


def test_concurrent_clients_get_their_own_responses_behind_a_careless_cache(tmp_path: Path) -> None:
    (tmp_path / "nginx").mkdir()
    with (
        serving(CONCURRENT[0], tmp_path) as server,
        proxying(CARELESS_CACHE, server.port, tmp_path / "nginx") as cache,
    ):
        # nginx has 64 connections, and each client uses two of them.
        check_every_client_gets_its_own(cache.port, 20)
