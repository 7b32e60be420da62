"""Behind a cache: nobody gets what was answered to somebody else, and a large answer arrives whole."""

from collections.abc import Iterator

import pytest

from tests.servers.app import LARGE
from tests.servers.nginx import proxying
from tests.servers.process import Server, eventually, gunicorn, serving
from tests.wsgi import Answer

LIST = "/API/Notification/"
ACCOUNT = "/API/Notification/GetNotificationsForAccount"

# Keeps whatever an answer does not forbid. The most careless keys that are in use: without the query, so that the
# session in it does not tell two requests apart.
CACHE = "proxy_cache answers; proxy_cache_valid any 10m; proxy_cache_methods GET HEAD POST"
SITES = {
    "http-1.0-upstream": CACHE,
    "http-1.1-upstream": f'{CACHE}; proxy_http_version 1.1; proxy_set_header Connection ""',
    "key-without-the-query": f"{CACHE}; proxy_cache_key $request_method$uri",
}
SESSIONS = ["alice-0001", "bob-0002", "admin-0003", "nobody", None]


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Lend a server without a cache; what it answers is right, as the other tests show."""
    with serving(gunicorn("gthread"), tmp_path_factory.mktemp("origin")) as server:
        yield server


@pytest.fixture(scope="module", params=list(SITES.values()), ids=list(SITES))
def cache(request: pytest.FixtureRequest, origin: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Lend nginx in front of that server, with an empty cache."""
    site = f"{request.param}; add_header X-Cache $upstream_cache_status always"
    with proxying(site, origin.port, tmp_path_factory.mktemp("nginx")) as server:
        yield server


def ask(server: Server, method: str, path: str, session: str | None, transport: str) -> Answer:
    if session is None:
        return server.ask(method, path)
    if transport == "query":
        return server.ask(method, f"{path}?sessionId={session}")
    return server.ask(method, path, f"Authorization: Bearer {session}")


def test_the_cache_keeps_what_it_may(cache: Server) -> None:
    answers = [cache.ask("GET", "/news") for _ in range(2)]
    assert [answer.one("X-Cache") for answer in answers] == ["MISS", "HIT"]
    assert answers[0].body == answers[1].body


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
def test_everybody_gets_their_own_answer(cache: Server, origin: Server, method: str, path: str, transport: str) -> None:
    own = {session: ask(origin, method, path, session, transport) for session in SESSIONS}
    assert len({answer.body for answer in own.values()}) > 2  # or an answer to somebody else would not show
    for session in SESSIONS * 2:
        answer = ask(cache, method, path, session, transport)
        assert (answer.status, answer.body) == (own[session].status, own[session].body)
        assert answer.one("X-Cache") == "MISS"


def test_statuses_of_all_kinds_are_among_these_answers(origin: Server) -> None:
    unknown = [ask(origin, "POST", f"{ACCOUNT}/unknown/", session, "header").code for session in SESSIONS]
    assert unknown == [403, 403, 404, 401, 401]
    assert ask(origin, "GET", LIST, "alice-0001", "query").code == 200


@pytest.mark.parametrize("transport", ["header", "query"])
def test_an_application_that_allows_caches_does_not_give_one_caller_the_answer_of_another(
    cache: Server, transport: str
) -> None:
    for session in [*SESSIONS[:3], *SESSIONS[:3]]:
        assert ask(cache, "GET", "/profile", session, transport).body == f"this is for Bearer {session}".encode()


def test_head_is_not_answered_with_what_another_got(cache: Server, origin: Server) -> None:
    lengths = [ask(origin, "HEAD", LIST, session, "header").one("Content-Length") for session in SESSIONS]
    assert [ask(cache, "HEAD", LIST, session, "header").one("Content-Length") for session in SESSIONS] == lengths


@pytest.mark.parametrize("transport", ["header", "query"])
def test_a_large_answer_arrives_whole(cache: Server, transport: str) -> None:
    answer = ask(cache, "GET", LIST, "large-0004", transport)
    assert (answer.status, answer.one("Content-Length")) == ("200 OK", str(len(LARGE)))
    assert answer.body == LARGE
    # The retirement is announced through it, too.
    assert answer.one("Deprecation") == "@1767225600"
    assert [link.partition(";")[0] for link in answer.all("Link")] == [
        "</API/Notification/CurrentUser>",
        "<https://example.com/retire>",
    ]


def test_the_server_keeps_no_temporary_file_when_a_client_of_the_proxy_leaves(cache: Server, origin: Server) -> None:
    with cache.slow_reader(f"{LIST}?sessionId=large-0004") as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"
    assert ask(cache, "GET", LIST, "alice-0001", "header").code == 200
    eventually(lambda: not origin.open_spools())
