"""Python clients find the deprecation headers in their usual places, and do not wait during a brownout."""

from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

import http_sf
import httpx
import pytest
import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from tests.clients.application import SESSION
from tests.clients.serving import ACCOUNT, DOCUMENTATION, LIST, POLICY, PROGRAM, SUCCESSORS
from tests.servers.app import OUT_OF_REACH
from tests.servers.process import Server, serving

AUTHORIZATION = {"Authorization": f"Bearer {SESSION}"}

CALLS = [
    pytest.param("GET", LIST, 200, id="get"),
    pytest.param("POST", ACCOUNT, 200, id="post"),
    pytest.param("POST", ACCOUNT.replace("alice", "nobody"), 404, id="error"),
]
SWITCHED_OFF = ["brownout", "sunset"]


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
    """Return a session of requests, which ignores proxies of the environment."""
    with requests.Session() as session:
        session.trust_env = False
        yield session


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    """Return a client of httpx."""
    with httpx.Client(trust_env=False, headers=AUTHORIZATION) as client:
        yield client


@pytest.mark.parametrize(("method", "target", "status"), CALLS)
def test_requests_finds_the_links(
    server: Server, session: requests.Session, method: str, target: str, status: int
) -> None:
    response = session.request(method, server.url(target), headers=AUTHORIZATION)
    assert response.status_code == status
    # The application's own link stays and is the first.
    assert response.links == {
        "help": {"url": "/help", "rel": "help"},
        "successor-version": {"url": SUCCESSORS[method], "rel": "successor-version"},
        "deprecation": {"url": DOCUMENTATION, "rel": "deprecation", "type": "text/html"},
        "sunset": {"url": POLICY, "rel": "sunset", "type": "text/html"},
    }


def test_httpx_finds_the_links_one_per_line(server: Server, client: httpx.Client) -> None:
    response = client.get(server.url(LIST))
    assert response.headers.get_list("Link") == [
        '</help>; rel="help"',
        f'<{SUCCESSORS["GET"]}>; rel="successor-version"',
        f'<{DOCUMENTATION}>; rel="deprecation"; type="text/html"',
        f'<{POLICY}>; rel="sunset"; type="text/html"',
    ]
    assert response.links["successor-version"]["url"] == SUCCESSORS["GET"]


def test_python_reads_the_dates(server: Server, client: httpx.Client) -> None:
    headers = client.get(server.url(f"/brownout{LIST}")).headers
    assert http_sf.parse(headers["Deprecation"].encode(), tltype="item") == (datetime(2026, 1, 1, tzinfo=UTC), {})
    sunset = parsedate_to_datetime(headers["Sunset"])
    # The parser accepts far more than the one form that senders may write.
    assert (sunset, headers["Sunset"]) == (datetime(2027, 7, 1, tzinfo=UTC), format_datetime(sunset, usegmt=True))


@pytest.fixture
def patient(session: requests.Session) -> requests.Session:
    """Return a session that retries when the server asks for it."""
    # It would retry at once, and not after the remaining hour of the brownout.
    session.mount("http://", HTTPAdapter(max_retries=Retry(3, allowed_methods=None, retry_after_max=0)))
    return session


@pytest.mark.parametrize("phase", SWITCHED_OFF)
def test_retry_returns_the_410_at_once(server: Server, patient: requests.Session, phase: str) -> None:
    response = patient.get(server.url(f"/{phase}{LIST}?case=retry"), headers=AUTHORIZATION)
    assert (response.status_code, response.json()["code"]) == (410, phase)
    assert response.headers.get("Retry-After") == ("3600" if phase == "brownout" else None)
    assert len(seen(server, f"/{phase}{LIST}?case=retry")) == 1


def test_retry_repeats_a_request_if_the_storage_is_unavailable(server: Server, patient: requests.Session) -> None:
    target = f"{ACCOUNT.replace('alice', OUT_OF_REACH)}?case=out-of-reach"
    response = patient.post(server.url(target), headers=AUTHORIZATION)
    assert (response.status_code, response.headers["Retry-After"]) == (503, "7")
    assert len(seen(server, "case=out-of-reach")) == 4
