"""Caches in clients store no response of the operations, even if a reverse proxy has added ``Expires``."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
import requests
from cachecontrol import CacheControlAdapter
from cachecontrol.cache import DictCache

from tests.clients.application import SESSION
from tests.clients.node import Node
from tests.clients.serving import ACCOUNT, LIST, Site


class Case(NamedTuple):
    """A request whose response no cache may store, and the status of the response."""

    method: str
    target: str
    session: str
    status: int


CASES = {
    "list": Case("GET", LIST, SESSION, 200),
    "account": Case("POST", ACCOUNT, SESSION, 200),
    "session-unknown": Case("GET", LIST, "nobody", 401),
    "account-unknown": Case("POST", ACCOUNT.replace("alice", "bob"), SESSION, 404),
    "brownout": Case("GET", f"/brownout{LIST}", SESSION, 410),
    "brownout-of-the-account": Case("POST", f"/brownout{ACCOUNT}", SESSION, 410),
    "sunset": Case("GET", f"/sunset{LIST}", SESSION, 410),
    "sunset-of-the-account": Case("POST", f"/sunset{ACCOUNT}", SESSION, 410),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


class EagerAdapter(CacheControlAdapter):
    """A cache that stores every response that does not forbid it, of either method and any status."""

    def __init__(self, store: DictCache) -> None:
        super().__init__(store, cacheable_methods=("GET", "POST"))
        self.controller.cacheable_status_codes = (200, 401, 404, 410)


@pytest.fixture
def store() -> DictCache:
    return DictCache()


@pytest.fixture
def session(store: DictCache) -> Iterator[requests.Session]:
    """Return a session of requests with a cache."""
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", EagerAdapter(store))
        yield session


@pytest.mark.parametrize("transport", ["header", "query"])
@every_case
def test_cachecontrol_stores_no_response_of_an_operation(
    site: Site, session: requests.Session, store: DictCache, case: Case, transport: str
) -> None:
    headers = {"Authorization": f"Bearer {case.session}"} if transport == "header" else {}
    query = {"sessionId": case.session} if transport == "query" else {}
    response = session.request(case.method, site.url(case.target), params=query, headers=headers)
    assert response.status_code == case.status
    assert store.data == {}


@pytest.mark.parametrize("target", ["/news", "/brownout/news", "/sunset/nothing-here"])
def test_cachecontrol_stores_other_responses_of_the_application(
    site: Site, session: requests.Session, store: DictCache, target: str
) -> None:
    session.get(site.url(target))
    assert list(store.data) == [site.url(target)]


@every_case
def test_http_cache_semantics_forbids_storing_a_response_of_an_operation(node: Node, site: Site, case: Case) -> None:
    verdict = node.call("storable.mjs", case.method, site.url(case.target), case.session)
    # It never stores a 401. Without our Cache-Control, it would store every other response.
    unguarded = case.status != 401
    assert verdict.result == {"status": case.status, "shared": False, "private": False, "unguarded": unguarded}


@pytest.mark.parametrize("place", ["/brownout", "/sunset"])
def test_http_cache_semantics_forbids_storing_a_response_to_a_session_in_the_query(
    node: Node, site: Site, place: str
) -> None:
    verdict = node.call("storable.mjs", "GET", site.url(f"{place}{LIST}?sessionId={SESSION}"), "")
    assert verdict.result == {"status": 410, "shared": False, "private": False, "unguarded": True}


def test_http_cache_semantics_allows_storing_other_responses_of_the_application(node: Node, site: Site) -> None:
    verdict = node.call("storable.mjs", "GET", site.url("/news"), "")
    assert verdict.result == {"status": 200, "shared": True, "private": True, "unguarded": True}
