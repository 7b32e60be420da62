"""Through a cache, nobody gets the response to another caller, and large responses
arrive complete.
"""

from collections.abc import Iterator

import pytest

from tests.servers.nginx import proxying
from tests.servers.process import Server, gunicorn, server_fixture
from tests.wsgi import Response

LIST = "/API/Notification/"
ACCOUNT = "/API/Notification/GetNotificationsForAccount/alice/"

# A cache that stores every response that does not forbid it. Its careless key ignores
# the query, and so does not distinguish the sessions in it.
SITE = """
proxy_cache responses; proxy_cache_valid any 10m; proxy_cache_methods GET HEAD POST;
proxy_cache_key $request_method$uri; add_header X-Cache $upstream_cache_status always
"""
SESSIONS = ["alice-0001", "bob-0002", "admin-0003", "nobody", None]


# Without a cache, so that its responses are the expected ones.
origin = server_fixture([gunicorn("gthread")])


@pytest.fixture(scope="module")
def cache(origin: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start nginx as a proxy for that server, with an empty cache."""
    with proxying(SITE, origin.port, tmp_path_factory.mktemp("nginx")) as server:
        yield server


in_each_place = pytest.mark.parametrize("place", ["header", "query"])


def ask(
    server: Server, place: str, method: str, path: str, session: str | None
) -> Response:
    """Send a request with a session, if any, in the header or in the query."""
    if session is None:
        return server.ask(method, path)
    if place == "header":
        return server.ask(method, path, f"Authorization: Bearer {session}")
    return server.ask(method, f"{path}?sessionId={session}")


def test_the_cache_stores_a_response_that_allows_it(cache: Server) -> None:
    responses = [cache.ask("GET", "/news") for _ in range(2)]
    assert [response.one("X-Cache") for response in responses] == ["MISS", "HIT"]
    assert responses[0].body == responses[1].body


@in_each_place
def test_every_caller_gets_their_own_response(
    cache: Server, origin: Server, place: str
) -> None:
    for method, path in (("GET", LIST), ("POST", ACCOUNT)):
        bodies = set()
        for session in SESSIONS * 2:
            expected = ask(origin, place, method, path, session)
            response = ask(cache, place, method, path, session)
            assert (response.status, response.body) == (expected.status, expected.body)
            bodies.add(response.body)
        # Otherwise a response to another caller would go unnoticed.
        assert len(bodies) > 2


@in_each_place
def test_a_cacheable_page_of_the_application_never_reaches_another_caller(
    cache: Server, place: str
) -> None:
    for session in SESSIONS[:3] * 2:
        assert (
            ask(cache, place, "GET", "/profile", session).body
            == f"this is for Bearer {session}".encode()
        )
