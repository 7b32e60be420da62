"""On real servers: whatever a request carries and whatever becomes of it, no log shows a session ID."""

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.servers.process import GUNICORN_FILTER, PROGRAMS, Server, request_of, serving

HOST = "https://api.example"


class Case(NamedTuple):
    """A request, and the text that only its session ID holds."""

    secret: str
    method: str
    target: str
    fields: tuple[str, ...] = ()


CASES = {
    "query": Case("alice-0001", "GET", "/API/Notification/?sessionId=alice-0001&case=query"),
    "query-of-a-post": Case(
        "admin-0003", "POST", "/API/Notification/GetNotificationsForAccount/bob/?sessionId=admin-0003&case=post"
    ),
    "header": Case("bob-0002", "GET", "/API/Notification/?case=header", ("Authorization: Bearer bob-0002",)),
    "header-and-query": Case(
        "c0de01", "GET", "/API/Notification/?sessionId=c0de01&case=both", ("Authorization: Bearer c0de01",)
    ),
    "key-in-odd-case": Case("c0de02", "GET", "/api/notification?case=odd&SESSIONid=c0de02"),
    "percent-encoded-key": Case("c0de03", "GET", "/API/Notification/?%73ession%49d=c0de03&case=key"),
    "percent-encoded-value": Case("c0de04", "GET", "/API/Notification/?sessionId=%61c0de04%2B&case=value"),
    "refused-as-repeated": Case("c0de05", "GET", "/API/Notification/?sessionId=c0de05&sessionid=c0de05&case=twice"),
    "refused-as-different": Case(
        "c0de06", "GET", "/API/Notification/?sessionId=c0de06-a&case=differ", ("Authorization: Bearer c0de06-b",)
    ),
    "refused-as-malformed": Case("c0de07", "GET", "/API/Notification/?sessionId=%22c0de07%22%20c0de07&case=malformed"),
    "refused-for-its-quotes": Case("c0de08", "GET", '/API/Notification/?sessionId="c0de08"&case=quotes'),
    "absolute-target": Case("c0de09", "GET", "http://api.example/API/Notification/?sessionId=c0de09&case=absolute"),
    "fragment": Case("c0de10", "GET", "/API/Notification/?case=fragment#sessionId=c0de10"),
    "unclaimed": Case("c0de11", "GET", "/API/Notification/7?sessionId=c0de11&case=unclaimed"),
    "unclaimed-with-an-encoded-key": Case("c0de12", "GET", "/API/Notification/7?%53essionid=c0de12&case=unclaimed-key"),
    "unclaimed-with-quotes": Case("c0de13", "GET", '/API/Notification/7?sessionId="c0de13"&case=unclaimed-quotes'),
    "unknown-method": Case("c0de14", "PURGE", "/API/Notification/?sessionId=c0de14&case=purge"),
    "view-fails": Case("c0de15", "GET", "/broken?sessionId=c0de15&case=broken"),
    "application-fails": Case("c0de16", "GET", "/crash?case=crash&sessionId=c0de16"),
    "application-fails-on-an-encoded-key": Case("c0de17", "GET", "/crash?%73essionID=c0de17&case=crash-key"),
    "application-fails-on-quotes": Case("c0de18", "GET", '/crash?sessionId="c0de18"&case=crash-quotes'),
    "application-fails-on-a-header": Case("c0de19", "GET", "/crash?case=crash-head", ("Authorization: Bearer c0de19",)),
    "application-fails-while-it-is-read": Case("c0de20", "GET", "/cut?sessionId=c0de20&case=cut"),
    "application-fails-unclaimed": Case("c0de21", "GET", "/unclaimed/crash?sessionId=c0de21&case=crash-unclaimed"),
    "referer": Case(
        "c0de22",
        "GET",
        "/API/Notification/",
        (f"Referer: {HOST}/API/Notification/?sessionId=c0de22&case=referer",),
    ),
    "referer-of-an-unclaimed-request": Case(
        "c0de23", "GET", "/API/Notification/7", (f"Referer: {HOST}/api/notification?SessionID=c0de23&case=referer-live",)
    ),
    "referer-of-a-crash": Case(
        "c0de24", "GET", "/crash", (f"Referer: {HOST}/API/Notification/?sessionId=c0de24&case=referer-crash",)
    ),
}
# What is no request at all, or is given up: servers report these in ways of their own.
NOT_HTTP = b"GET /API/Notification/?sessionId=c0de25\x00 \r\nHost: api.example\r\n\r\n"
WITHOUT_VERSION = b"GET /API/Notification/?sessionId=c0de26&x=\r\n\r\n"
LEFT = "/API/Notification/?sessionId=large-0004&case=left"
OTHERS = {"not-http": "c0de25", "without-a-version": "c0de26", "client-leaves": "large-0004"}

SECRETS = {name: case.secret for name, case in CASES.items()} | OTHERS


def send_all(server: Server) -> None:
    for case in CASES.values():
        server.exchange(request_of(case.method, case.target, *case.fields))
    for request in (NOT_HTTP, WITHOUT_VERSION):
        server.exchange(request)
    server.leave_within_answer(LEFT)
    server.ask("GET", "/news")


@pytest.fixture(scope="module", params=PROGRAMS)
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return a server's name, and all that it logged of all these requests until it had stopped."""
    with serving(request.param, tmp_path_factory.mktemp(request.param)) as server:
        send_all(server)
    return request.param, server.written()


@pytest.mark.parametrize("name", SECRETS)
def test_no_log_shows_the_session(log: tuple[str, str], name: str) -> None:
    _server, written = log
    lines = [line for line in written.splitlines() if SECRETS[name] in line]
    assert not lines
