"""Through a cache, nobody gets the response to another caller, and large responses arrive complete."""

from collections.abc import Iterator

import pytest

from tests.servers.app import LARGE
from tests.servers.nginx import proxying
from tests.servers.process import Server, eventually, gunicorn, serving
from tests.wsgi import Response

LIST = "/API/Notification/"
ACCOUNT = "/API/Notification/GetNotificationsForAccount"

# A cache that stores every response that does not forbid it. The most careless key ignores the query, and so does not
# distinguish the sessions in it.
CACHE = "proxy_cache responses; proxy_cache_valid any 10m; proxy_cache_methods GET HEAD POST"
SITES = {
    "http-1.0-upstream": CACHE,
    "http-1.1-upstream": f'{CACHE}; proxy_http_version 1.1; proxy_set_header Connection ""',
    "key-without-the-query": f"{CACHE}; proxy_cache_key $request_method$uri",
}
SESSIONS = ["alice-0001", "bob-0002", "admin-0003", "nobody", None]


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start a server without a cache, whose responses are the expected ones."""
    with serving(gunicorn("gthread"), tmp_path_factory.mktemp("origin")) as server:
        yield server


@pytest.fixture(scope="module", params=list(SITES.values()), ids=list(SITES))
def cache(request: pytest.FixtureRequest, origin: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start nginx as a proxy for that server, with an empty cache."""
    site = f"{request.param}; add_header X-Cache $upstream_cache_status always"
    with proxying(site, origin.port, tmp_path_factory.mktemp("nginx")) as server:
        yield server


def ask(server: Server, method: str, path: str, session: str | None, transport: str) -> Response:
    if session is None:
        return server.ask(method, path)
    if transport == "query":
        return server.ask(method, f"{path}?sessionId={session}")
    return server.ask(method, path, f"Authorization: Bearer {session}")


def test_the_cache_stores_a_response_that_allows_it(cache: Server) -> None:
    responses = [cache.ask("GET", "/news") for _ in range(2)]
    assert [response.one("X-Cache") for response in responses] == ["MISS", "HIT"]
    assert responses[0].body == responses[1].body


@pytest.mark.parametrize("transport", ["header", "query"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("GET", LIST, id="current-user"),
        pytest.param("GET", "/api/notification", id="odd-spelling"),
        pytest.param("POST", f"{ACCOUNT}/alice/", id="account"),
        pytest.param("POST", f"{ACCOUNT}/unknown/", id="unknown-account"),
    ],
)
def test_every_caller_gets_their_own_response(
    cache: Server, origin: Server, method: str, path: str, transport: str
) -> None:
    own = {session: ask(origin, method, path, session, transport) for session in SESSIONS}
    assert (
        len({response.body for response in own.values()}) > 2
    )  # otherwise a response to another caller would go unnoticed
    for session in SESSIONS * 2:
        response = ask(cache, method, path, session, transport)
        assert (response.status, response.body) == (own[session].status, own[session].body)
        assert response.one("X-Cache") == "MISS"


def test_the_compared_responses_include_successes_and_refusals(origin: Server) -> None:
    unknown = [ask(origin, "POST", f"{ACCOUNT}/unknown/", session, "header").code for session in SESSIONS]
    assert unknown == [403, 403, 404, 401, 401]
    assert ask(origin, "GET", LIST, "alice-0001", "query").code == 200


@pytest.mark.parametrize("transport", ["header", "query"])
def test_a_cacheable_page_of_the_application_never_reaches_another_caller(cache: Server, transport: str) -> None:
    for session in [*SESSIONS[:3], *SESSIONS[:3]]:
        assert ask(cache, "GET", "/profile", session, transport).body == f"this is for Bearer {session}".encode()


def test_head_never_gets_the_content_length_of_another_caller(cache: Server, origin: Server) -> None:
    lengths = [ask(origin, "HEAD", LIST, session, "header").one("Content-Length") for session in SESSIONS]
    assert [ask(cache, "HEAD", LIST, session, "header").one("Content-Length") for session in SESSIONS] == lengths


@pytest.mark.parametrize("transport", ["header", "query"])
def test_a_large_response_arrives_complete_through_the_cache(cache: Server, transport: str) -> None:
    response = ask(cache, "GET", LIST, "large-0004", transport)
    assert (response.status, response.one("Content-Length")) == ("200 OK", str(len(LARGE)))
    assert response.body == LARGE
    # The cache forwards the deprecation headers, too.
    assert response.one("Deprecation") == "@1767225600"
    assert [link.partition(";")[0] for link in response.all("Link")] == [
        "</API/Notification/CurrentUser>",
        "<https://example.com/retire>",
    ]


def test_the_server_keeps_no_temporary_file_when_a_client_of_the_proxy_leaves(cache: Server, origin: Server) -> None:
    with cache.slow_reader(f"{LIST}?sessionId=large-0004") as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"
    assert ask(cache, "GET", LIST, "alice-0001", "header").code == 200
    eventually(lambda: not origin.open_spools())
