"""Clients in Python find the announcement where they look for it, and no brownout holds one up."""

from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

import http_sf
import httpx
import pytest
import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from tests.clients.host import OUT_OF_REACH, RECORDS, SESSION
from tests.clients.serving import ACCOUNT, DOCUMENTATION, LIST, POLICY, SUCCESSORS, Site

AUTHORIZATION = {"Authorization": f"Bearer {SESSION}"}

CALLS = [
    pytest.param("GET", LIST, 200, id="get"),
    pytest.param("HEAD", LIST, 200, id="head"),
    pytest.param("POST", ACCOUNT, 200, id="post"),
    pytest.param("POST", ACCOUNT.replace("alice", "nobody"), 404, id="error"),
]
SWITCHED_OFF = ["brownout", "sunset"]


@pytest.fixture
def session() -> Iterator[requests.Session]:
    """Lend a session of requests; a proxy in the environment is none of its business."""
    with requests.Session() as session:
        session.trust_env = False
        yield session


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    """Lend a client of httpx."""
    with httpx.Client(trust_env=False, headers=AUTHORIZATION) as client:
        yield client


@pytest.mark.parametrize(("method", "target", "status"), CALLS)
def test_requests_finds_the_links(site: Site, session: requests.Session, method: str, target: str, status: int) -> None:
    answer = session.request(method, site.url(target), headers=AUTHORIZATION)
    assert answer.status_code == status
    # The host's own comes first and stays.
    assert answer.links == {
        "help": {"url": "/help", "rel": "help"},
        "successor-version": {"url": SUCCESSORS[method], "rel": "successor-version"},
        "deprecation": {"url": DOCUMENTATION, "rel": "deprecation", "type": "text/html"},
        "sunset": {"url": POLICY, "rel": "sunset", "type": "text/html"},
    }


@pytest.mark.parametrize(("method", "target", "status"), CALLS)
def test_httpx_finds_the_links_one_to_a_line(
    site: Site, client: httpx.Client, method: str, target: str, status: int
) -> None:
    answer = client.request(method, site.url(target))
    assert answer.status_code == status
    assert answer.headers.get_list("Link") == [
        '</help>; rel="help"',
        f'<{SUCCESSORS[method]}>; rel="successor-version"',
        f'<{DOCUMENTATION}>; rel="deprecation"; type="text/html"',
        f'<{POLICY}>; rel="sunset"; type="text/html"',
    ]
    assert (answer.links["successor-version"]["url"], answer.links["deprecation"]["url"]) == (
        SUCCESSORS[method],
        DOCUMENTATION,
    )


@pytest.mark.parametrize("phase", SWITCHED_OFF)
def test_the_links_are_there_when_the_operation_is_switched_off(site: Site, client: httpx.Client, phase: str) -> None:
    answer = client.post(site.url(f"/{phase}{ACCOUNT}"))
    assert (answer.status_code, answer.json()["code"]) == (410, phase)
    assert list(answer.links) == ["successor-version", "deprecation", "sunset"]
    assert answer.links["successor-version"]["url"] == answer.json()["successor"]


@pytest.mark.parametrize("place", ["", *(f"/{phase}" for phase in SWITCHED_OFF)])
def test_python_reads_the_dates(site: Site, client: httpx.Client, place: str) -> None:
    answer = client.get(site.url(f"{place}{LIST}"))
    assert http_sf.parse(answer.headers["Deprecation"].encode(), tltype="item") == (
        datetime(2026, 1, 1, tzinfo=UTC),
        {},
    )
    sunset = parsedate_to_datetime(answer.headers["Sunset"])
    assert sunset == datetime(2027, 7, 1, tzinfo=UTC)
    # The parser takes far more than senders may write.
    assert answer.headers["Sunset"] == format_datetime(sunset, usegmt=True)


@pytest.fixture
def patient(session: requests.Session) -> requests.Session:
    """Return a session that tries again when the server tells it to."""
    # Were it told to, it would do so at once, and not after the hour that the brownout still lasts.
    session.mount("http://", HTTPAdapter(max_retries=Retry(3, allowed_methods=None, retry_after_max=0)))
    return session


@pytest.mark.parametrize("phase", SWITCHED_OFF)
def test_retry_hands_out_the_410_at_once(site: Site, patient: requests.Session, phase: str) -> None:
    answer = patient.get(site.url(f"/{phase}{LIST}?case=retry"), headers=AUTHORIZATION)
    assert (answer.status_code, answer.json()["code"]) == (410, phase)
    assert answer.headers.get("Retry-After") == ("3600" if phase == "brownout" else None)
    assert len(site.seen(f"/{phase}{LIST}?case=retry")) == 1


def test_retry_does_try_again_when_storage_is_out_of_reach(site: Site, patient: requests.Session) -> None:
    target = f"{ACCOUNT.replace('alice', OUT_OF_REACH)}?case=out-of-reach"
    answer = patient.post(site.url(target), headers=AUTHORIZATION)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "7")
    assert len(site.seen("case=out-of-reach")) == 4


def test_the_records_come_with_it(site: Site, client: httpx.Client) -> None:
    assert client.get(site.url(LIST)).json() == RECORDS
