"""On real servers, asked by many at once: everybody gets their own records, and the fields of their own answer."""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.app import ACCOUNT, DOORS, LIST, records_of, unreleased
from tests.servers.nginx import proxying
from tests.servers.process import PATIENCE, PROGRAMS, Program, eventually, gunicorn, program_name, serving

APPLICATION = "tests.faults.app:application"
(WAITRESS,) = (program for program in PROGRAMS if program.name == "waitress")
CONCURRENT = [
    replace(program, application=APPLICATION)
    for program in (gunicorn("gthread", "threads = 8; workers = 2"), gunicorn("gevent"), WAITRESS)
]

# Of each client.
REQUESTS = 60

# Keeps whatever an answer does not forbid, for everybody who asks for the same path.
CARELESS_CACHE = (
    "proxy_cache answers; proxy_cache_valid any 10m; proxy_cache_methods GET HEAD POST;"
    "proxy_cache_key $request_method$uri"
)


class Case(NamedTuple):
    """A request by one of many users, and what belongs into its answer alone."""

    door: str
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
        return f"{DOORS[self.door]}{path}{query}"

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.in_query else {"Authorization": f"Bearer user-{self.caller}"}

    @property
    def body(self) -> bytes:
        number = self.caller if self.account is None else self.account
        return b"[" + b",".join(records_of(self.door, f"user-{self.caller}", f"user-{number}", number)) + b"]"

    @property
    def fields(self) -> dict[str, str | None]:
        successor = "CurrentUser" if self.account is None else "Account"
        return {
            "Content-Length": str(len(self.body)),
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer" if self.in_query else None,
            "Link": f'<{DOORS[self.door]}{LIST}{successor}>; rel="successor-version"',
        }


def case_of(chance: random.Random) -> Case:
    account = chance.randrange(64) if chance.random() < 0.3 else None
    return Case(chance.choice(list(DOORS)), chance.randrange(64), account, chance.random() < 0.5)


def foreign_answers(port: int, seed: int) -> list[Case]:
    """Ask again and again on one connection, and return the requests that were not answered as they should be."""
    chance = random.Random(seed)  # noqa: S311 - the same cases each time
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        return [case for case in (case_of(chance) for _ in range(REQUESTS)) if not is_answered(connection, case)]


def is_answered(connection: HTTPConnection, case: Case) -> bool:
    connection.request(case.method, case.target, headers=case.headers)
    answer = connection.getresponse()
    body = answer.read()
    # Of the links, the first one.
    fields = {name: answer.headers.get(name) for name in case.fields}
    return (answer.status, body, fields) == (200, case.body, case.fields)


def check_everybody_gets_their_own(port: int, count: int) -> None:
    with ThreadPoolExecutor(count) as clients:
        wrong = list(clients.map(foreign_answers, [port] * count, range(count)))
    assert wrong == [[]] * count


@pytest.mark.parametrize("program", CONCURRENT, ids=program_name)
def test_many_at_once_get_their_own_answers(program: Program, tmp_path: Path) -> None:
    with serving(program, tmp_path) as server:
        check_everybody_gets_their_own(server.port, 32)
        eventually(lambda: not server.open_spools())
        assert unreleased(server.written()) == []


def test_many_at_once_get_their_own_answers_behind_a_careless_cache(tmp_path: Path) -> None:
    (tmp_path / "nginx").mkdir()
    with (
        serving(CONCURRENT[0], tmp_path) as server,
        proxying(CARELESS_CACHE, server.port, tmp_path / "nginx") as cache,
    ):
        # As many as nginx has connections for, of which each client takes two.
        check_everybody_gets_their_own(cache.port, 20)
