"""Python clients find the deprecation headers in their usual places, and do not wait during a brownout."""

from collections.abc import Iterator

import pytest
import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from tests.clients.app import DOCUMENTATION, LIST, PROGRAM, SESSION, SUCCESSOR, SUNSET_DOCUMENTATION
from tests.servers.app import OUT_OF_REACH
from tests.servers.process import Server, serving

AUTHORIZATION = {"Authorization": f"Bearer {SESSION}"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(PROGRAM, tmp_path_factory.mktemp("server")) as server:
        yield server


def seen(server: Server, marker: str) -> list[str]:
    """Return the lines of the access log whose request target contains ``marker``."""
    # The only thread logs a request before it handles the next one.
    server.ask("GET", "/news")
    return [line for line in server.written().splitlines() if marker in line and " HTTP/1.1" in line]


@pytest.fixture
def session() -> Iterator[requests.Session]:
    """Return a session of requests that ignores proxies of the environment, and retries when the server asks for it."""
    with requests.Session() as session:
        session.trust_env = False
        # It would retry at once, and not after the remaining hour of the brownout.
        session.mount("http://", HTTPAdapter(max_retries=Retry(3, allowed_methods=None, retry_after_max=0)))
        yield session


def test_requests_finds_the_links(server: Server, session: requests.Session) -> None:
    response = session.get(server.url(LIST), headers=AUTHORIZATION)
    assert response.status_code == 200
    # The application's own link stays and is the first.
    assert response.links == {
        "help": {"url": "/help", "rel": "help"},
        "successor-version": {"url": SUCCESSOR, "rel": "successor-version"},
        "deprecation": {"url": DOCUMENTATION, "rel": "deprecation", "type": "text/html"},
        "sunset": {"url": SUNSET_DOCUMENTATION, "rel": "sunset", "type": "text/html"},
    }


def test_retry_returns_the_410_of_a_brownout_at_once(server: Server, session: requests.Session) -> None:
    response = session.get(server.url(f"/brownout{LIST}?case=retry"), headers=AUTHORIZATION)
    assert (response.status_code, response.json()["code"]) == (410, "brownout")
    assert response.headers["Retry-After"] == "3600"
    assert len(seen(server, "case=retry")) == 1


def test_retry_repeats_a_request_if_the_storage_is_unavailable(server: Server, session: requests.Session) -> None:
    target = f"{LIST}GetNotificationsForAccount/{OUT_OF_REACH}/?case=out-of-reach"
    response = session.post(server.url(target), headers=AUTHORIZATION)
    assert (response.status_code, response.headers["Retry-After"]) == (503, "7")
    assert len(seen(server, "case=out-of-reach")) == 4
