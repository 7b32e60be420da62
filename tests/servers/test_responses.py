"""Every real server sends the same complete responses, and leaves no temporary file
open.
"""

from urllib.parse import unquote

import pytest

from tests.servers.app import LARGE, application
from tests.servers.process import Server, eventually, every_server, server_fixture
from tests.wsgi import Response, call

LIST = "/API/Notification/"
ACCOUNT = "/API/Notification/GetNotificationsForAccount"
LARGE_BY_QUERY = f"{LIST}?sessionId=large-0004"

# Headers that servers add.
OF_THE_SERVER = {"date", "server", "connection"}
SERVERS = every_server("gunicorn-gthread", "uwsgi", "waitress")
# A socket of gevent has its own sendfile(), which reads and sends.
WITH_SENDFILE = [
    server for server in SERVERS if server.id not in {"gunicorn-gevent", "waitress"}
]

# The method, the target, the headers and the body of a request.
CASES: dict[str, tuple[str, str, tuple[str, ...], bytes]] = {
    "odd-spelling": ("GET", "/api/NOTIFICATION?SESSIONid=alice%2D0001&x=1", (), b""),
    "head": ("HEAD", f"{LIST}?sessionId=alice-0001", (), b""),
    "post-chunked": (
        "POST",
        f"{ACCOUNT}/alice/?sessionId=alice-0001",
        ("Transfer-Encoding: chunked",),
        b"2\r\n{}\r\n0\r\n\r\n",
    ),
    "post-of-a-form": (
        "POST",
        f"{ACCOUNT}/alice/?sessionId=alice-0001",
        ("Content-Type: application/x-www-form-urlencoded", "Content-Length: 18"),
        b"sessionId=bob-0002",
    ),
    "session-missing": ("GET", LIST, (), b""),
    "account-unknown": ("POST", f"{ACCOUNT}/nobody/?sessionId=admin-0003", (), b""),
    "account-not-utf-8": ("POST", f"{ACCOUNT}/%FF/?sessionId=admin-0003", (), b""),
    "response-of-the-application": ("GET", "/profile?sessionId=alice-0001", (), b""),
    "failure-of-the-application": ("GET", "/broken?sessionId=alice-0001", (), b""),
    "unmatched": ("GET", f"{LIST}7?sessionId=alice-0001", (), b""),
}


server = server_fixture(SERVERS)


def headers_of(response: Response) -> list[tuple[str, str]]:
    """Return the sorted headers, as waitress sends them, without those of servers."""
    lower = sorted((name.lower(), value) for name, value in response.headers)
    return [(name, value) for name, value in lower if name not in OF_THE_SERVER]


@pytest.mark.parametrize("case", CASES)
def test_a_response_is_the_same_on_every_server(server: Server, case: str) -> None:
    method, target, headers, body = CASES[case]
    path, _, query = target.partition("?")
    expected = call(application, method, unquote(path, "latin-1"), query)
    response = server.ask(method, target, *headers, body=body)
    assert (response.status, response.body) == (expected.status, expected.body)
    assert headers_of(response) == headers_of(expected)


def test_a_large_response_arrives_complete(server: Server) -> None:
    for method, target, *headers in (
        ("GET", LARGE_BY_QUERY),
        ("GET", LIST, "Authorization: Bearer large-0004"),
        ("POST", f"{ACCOUNT}/large/?sessionId=admin-0003"),
        ("HEAD", LARGE_BY_QUERY),
    ):
        response = server.ask(method, target, *headers)
        assert response.code == 200
        assert response.one("Content-Length") == str(len(LARGE))
        assert response.body == (b"" if method == "HEAD" else LARGE)
        eventually(lambda: not server.open_spools())


@pytest.mark.parametrize("server", WITH_SENDFILE, indirect=True)
def test_a_large_response_is_sent_with_sendfile(server: Server) -> None:
    """The kernel counts the bytes written to files and with sendfile, but not those
    sent to a socket.
    """

    def written_for(method: str) -> int:
        before = server.bytes_written()
        assert server.ask(method, LARGE_BY_QUERY).code == 200
        eventually(lambda: not server.open_spools())
        return server.bytes_written() - before

    # Both write the temporary file, but only GET sends it. The rest is a few log lines.
    assert written_for("GET") - written_for("HEAD") == pytest.approx(
        len(LARGE), rel=0.01
    )
