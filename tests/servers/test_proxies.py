"""Behind a proxy: responses arrive as the server sends them, and its documented log shows no session ID."""

import re
import socket
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import pytest

from tests.servers.app import LARGE
from tests.servers.process import Server, gunicorn, request_of, serving
from tests.servers.proxies import PROXIES, Proxy, documented_log
from tests.servers.test_logs import CASES, LEFT, NOT_HTTP, SECRETS, WITHOUT_VERSION

LIST = "/API/Notification/"
ACCOUNT = f"{LIST}GetNotificationsForAccount/bob/"
# Each operation, and a response that is sent from a temporary file.
REQUESTS = {
    "current-user": ("GET", LIST, "alice-0001"),
    "account": ("POST", ACCOUNT, "bob-0002"),
    "head": ("HEAD", LIST, "alice-0001"),
    "large": ("GET", LIST, "large-0004"),
    "head-of-a-large-one": ("HEAD", LIST, "large-0004"),
    "refused": ("GET", LIST, "nobody"),
}
SAME = ("Content-Length", "Content-Type", "Cache-Control", "Deprecation", "Sunset", "Link", "Vary")

proxies = pytest.mark.parametrize("proxy", PROXIES, ids=attrgetter("name"))


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Lend a server without a proxy; its responses are correct, as other tests show."""
    with serving(gunicorn("gthread"), tmp_path_factory.mktemp("origin")) as server:
        yield server


def log_of(proxy: Proxy, log: str, origin: Server, folder: Path) -> str:
    """Return the log of a proxy to which all requests of the servers' tests were sent, after it has stopped."""
    with proxy.run(log, origin.port, folder) as server:
        for case in CASES.values():
            server.exchange(request_of(case.method, case.target, *case.headers))
        server.exchange(NOT_HTTP)
        server.exchange(WITHOUT_VERSION)
        with server.slow_reader(LEFT) as connection:
            assert connection.recv(12).endswith(b"200")
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(request_of("GET", LEFT))
        server.ask("GET", "/news")
    return (folder / proxy.file).read_text(encoding="latin-1")


@proxies
def test_the_documented_log_shows_every_path_and_no_session(proxy: Proxy, origin: Server, tmp_path: Path) -> None:
    text = log_of(proxy, documented_log(proxy.name), origin, tmp_path)
    assert [line for line in text.splitlines() for secret in SECRETS.values() if secret in line] == []
    targets = [case.target.removeprefix("http://api.example") for case in CASES.values()]
    assert [target for target in targets if re.split("[?%#]", target)[0] not in text] == []


@proxies
def test_the_log_that_it_writes_by_default_shows_sessions(proxy: Proxy, origin: Server, tmp_path: Path) -> None:
    text = log_of(proxy, proxy.default, origin, tmp_path)
    assert {"query", "unmatched", "encoded-question-mark"} <= {name for name, value in SECRETS.items() if value in text}


@pytest.fixture(scope="module", params=PROXIES, ids=attrgetter("name"))
def proxied(
    request: pytest.FixtureRequest, origin: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Lend a proxy before that server."""
    log = documented_log(request.param.name)
    with request.param.run(log, origin.port, tmp_path_factory.mktemp(request.param.name)) as server:
        yield server


@pytest.mark.parametrize("transport", ["header", "query"])
@pytest.mark.parametrize("asked", REQUESTS.values(), ids=REQUESTS)
def test_a_response_arrives_as_the_server_sends_it(
    asked: tuple[str, str, str], transport: str, proxied: Server, origin: Server
) -> None:
    method, path, session = asked
    target = f"{path}?sessionId={session}" if transport == "query" else path
    headers = [f"Authorization: Bearer {session}"] if transport == "header" else []
    response, expected = (server.ask(method, target, *headers) for server in (proxied, origin))
    assert (response.code, response.body) == (expected.code, expected.body)
    assert [response.all(name) for name in SAME] == [expected.all(name) for name in SAME]


def test_the_large_response_is_one(origin: Server) -> None:
    assert origin.ask("GET", LIST, "Authorization: Bearer large-0004").body == LARGE
    assert len(LARGE) > 8 * 1024 * 1024
