"""Every real server sends the same complete responses, and leaves no temporary file open."""

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

import pytest

from tests.servers.app import LARGE, application
from tests.servers.process import PROGRAMS, Program, Server, eventually, program_name, request_of, serving
from tests.wsgi import Response, call

LIST = "/API/Notification/"
ACCOUNT = "/API/Notification/GetNotificationsForAccount"
ALICE = "Authorization: Bearer alice-0001"
ADMIN = "Authorization: Bearer admin-0003"
LARGE_BY_QUERY = f"{LIST}?sessionId=large-0004"

# Headers that servers add.
OF_THE_SERVER = {"date", "server", "connection"}
# A socket of gevent has its own sendfile(), which reads and sends.
WITH_SENDFILE = [each for each in PROGRAMS if each.name in {"gunicorn-sync", "gunicorn-gthread", "uwsgi"}]
# Werkzeug's development server decodes the path, and replaces bytes that are not UTF-8.
WITH_ALL_BYTES = [each for each in PROGRAMS if each.name != "werkzeug"]


class Case(NamedTuple):
    method: str
    target: str
    headers: tuple[str, ...] = ()
    body: bytes = b""


CASES = {
    "session-in-the-query": Case("GET", f"{LIST}?sessionId=alice-0001"),
    "session-in-the-header": Case("GET", LIST, (ALICE,)),
    "session-in-both": Case("GET", f"{LIST}?sessionId=alice-0001", (ALICE,)),
    "basic-header-and-a-query": Case("GET", f"{LIST}?sessionId=alice-0001", ("Authorization: Basic eDp5",)),
    "odd-spelling": Case("GET", "/api/NOTIFICATION?SESSIONid=alice%2D0001&x=1"),
    "accept-nothing-of-ours": Case("GET", LIST, (ALICE, "Accept: text/xml")),
    "no-notifications": Case("GET", LIST, (ADMIN,)),
    "head": Case("HEAD", LIST, (ALICE,)),
    "head-with-a-query": Case("HEAD", f"{LIST}?sessionId=alice-0001"),
    "head-of-a-refusal": Case("HEAD", LIST),
    "post": Case("POST", f"{ACCOUNT}/alice/", (ALICE, "Content-Length: 0")),
    "post-without-a-length": Case("POST", f"{ACCOUNT}/alice/?sessionId=alice-0001"),
    "post-chunked": Case("POST", f"{ACCOUNT}/alice/", (ALICE, "Transfer-Encoding: chunked"), b"2\r\n{}\r\n0\r\n\r\n"),
    "post-of-json": Case(
        "POST", f"{ACCOUNT}/alice/", (ALICE, "Content-Type: application/json", "Content-Length: 2"), b"{}"
    ),
    "post-of-a-form": Case(
        "POST",
        f"{ACCOUNT}/alice/?sessionId=alice-0001",
        ("Content-Type: application/x-www-form-urlencoded", "Content-Length: 18"),
        b"sessionId=bob-0002",
    ),
    "post-in-odd-spelling": Case("POST", "/api/notification/getnotificationsforaccount/alice", (ALICE,)),
    "session-missing": Case("GET", LIST),
    "session-repeated": Case("GET", f"{LIST}?sessionId=alice-0001&sessionid=alice-0001"),
    "session-empty": Case("GET", f"{LIST}?sessionId="),
    "two-headers": Case("GET", LIST, (ALICE, ALICE)),
    "session-malformed": Case("GET", f"{LIST}?sessionId=%FF%00"),
    "session-unknown": Case("GET", LIST, ("Authorization: Bearer nobody",)),
    "account-malformed": Case("POST", f"{ACCOUNT}/%07/", (ALICE,)),
    "account-denied": Case("POST", f"{ACCOUNT}/bob/", (ALICE,)),
    "account-unknown": Case("POST", f"{ACCOUNT}/nobody/", (ADMIN,)),
    "account-out-of-reach": Case("POST", f"{ACCOUNT}/out-of-reach/", (ADMIN,)),
    "response-of-the-application": Case("GET", "/profile?sessionId=alice-0001"),
    "failure-of-the-application": Case("GET", "/broken?sessionId=alice-0001"),
    "unmatched": Case("GET", f"{LIST}7?sessionId=alice-0001"),
}


@pytest.fixture(scope="module", params=PROGRAMS, ids=program_name)
def program(request: pytest.FixtureRequest) -> Program:
    chosen: Program = request.param
    return chosen


@pytest.fixture(scope="module")
def server(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(program, tmp_path_factory.mktemp(program.name)) as server:
        yield server


def expected_of(case: Case) -> Response:
    """Return the application's response without a server; repeated headers are joined, and the body is ignored."""
    path, _, query = case.target.partition("?")
    sent: dict[str, str] = {}
    for name, _, value in (line.partition(": ") for line in case.headers):
        key = f"HTTP_{name.upper()}"
        sent[key] = f"{sent[key]},{value}" if key in sent else value
    headers = {key: value for key, value in sent.items() if key in {"HTTP_AUTHORIZATION", "HTTP_ACCEPT"}}
    return call(application, case.method, unquote(path, "latin-1"), query, **headers)


def headers_of(response: Response) -> list[tuple[str, str]]:
    lower = [(name.lower(), value) for name, value in response.headers]
    return [(name, value) for name, value in lower if name not in OF_THE_SERVER]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_response_is_the_same_on_every_server(program: Program, server: Server, case: Case) -> None:
    expected = expected_of(case)
    response = server.ask(case.method, case.target, *case.headers, body=case.body)
    assert (response.status, response.body) == (expected.status, expected.body)
    # The links are in order, unless the server sorts all headers.
    in_order = sorted if program.sorts_headers else list
    assert in_order(headers_of(response)) == in_order(headers_of(expected))


@pytest.mark.parametrize("program", WITH_ALL_BYTES, ids=program_name, indirect=True)
def test_an_account_that_is_not_utf_8_is_refused(server: Server) -> None:
    response = server.ask("POST", f"{ACCOUNT}/%FF/", ALICE)
    assert (response.code, response.json["code"]) == (400, "invalid_account_id")


@pytest.mark.parametrize("target", [f"{LIST}?sessionId=alice-0001", LARGE_BY_QUERY], ids=["small", "large"])
def test_head_has_the_content_length_of_get(server: Server, target: str) -> None:
    head, get = server.ask("HEAD", target), server.ask("GET", target)
    assert head.body == b""
    assert head.one("Content-Length") == get.one("Content-Length") == str(len(get.body))


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        pytest.param("GET", LARGE_BY_QUERY, (), id="session-in-the-query"),
        pytest.param("GET", LIST, ("Authorization: Bearer large-0004",), id="session-in-the-header"),
        pytest.param("POST", f"{ACCOUNT}/large/?sessionId=admin-0003", (), id="account"),
    ],
)
def test_a_large_response_arrives_complete(server: Server, method: str, target: str, headers: tuple[str, ...]) -> None:
    response = server.ask(method, target, *headers)
    assert (response.status, response.one("Content-Length")) == ("200 OK", str(len(LARGE)))
    assert response.body == LARGE
    eventually(lambda: not server.open_spools())


def test_an_http_1_0_client_gets_a_large_response_complete(server: Server) -> None:
    received = server.exchange(f"GET {LARGE_BY_QUERY} HTTP/1.0\r\n\r\n".encode())
    head, _, body = received.partition(b"\r\n\r\n")
    assert f"content-length: {len(LARGE)}".encode() in head.lower()
    assert body == LARGE


def test_the_temporary_file_is_open_while_it_is_sent_and_closed_on_disconnect(server: Server) -> None:
    with server.slow_reader(LARGE_BY_QUERY) as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"
        eventually(server.open_spools)
    eventually(lambda: not server.open_spools())
    assert server.ask("GET", LIST, ALICE).code == 200


def test_the_temporary_file_is_closed_if_the_client_leaves_before_the_response(server: Server) -> None:
    for _ in range(5):
        with server.slow_reader(LARGE_BY_QUERY):
            pass
    # The server handles this request after those, or concurrently.
    assert server.ask("GET", LARGE_BY_QUERY).body == LARGE
    eventually(lambda: not server.open_spools())


def test_head_leaves_no_temporary_file(server: Server) -> None:
    assert server.ask("HEAD", LARGE_BY_QUERY).code == 200
    eventually(lambda: not server.open_spools())


def test_a_request_with_a_body_does_not_disturb_the_next_one_on_its_connection(server: Server) -> None:
    first = request_of("POST", f"{ACCOUNT}/alice/", ALICE, "Content-Length: 2").replace(b"Connection: close\r\n", b"")
    received = server.exchange(first + b"{}" + request_of("GET", LIST, ALICE))
    # A server may close the connection after the first response, but never parses the body as a request.
    statuses = [line for line in received.split(b"\r\n") if b"HTTP/1." in line]
    assert statuses
    assert all(line.endswith(b"HTTP/1.1 200 OK") for line in statuses)


@pytest.mark.parametrize("program", WITH_SENDFILE, ids=program_name, indirect=True)
def test_a_large_response_is_sent_with_sendfile(server: Server) -> None:
    """The kernel counts the bytes written to files and with sendfile, but not those sent to a socket."""

    def written_for(method: str) -> int:
        before = server.bytes_written()
        assert server.ask(method, LARGE_BY_QUERY).code == 200
        eventually(lambda: not server.open_spools())
        return server.bytes_written() - before

    # Both write the temporary file, but only GET sends it. The rest is a few log lines.
    assert written_for("GET") - written_for("HEAD") == pytest.approx(len(LARGE), rel=0.01)
