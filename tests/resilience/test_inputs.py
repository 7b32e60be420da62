"""Hostile and odd requests to real servers have the expected outcome, headers and log."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.process import (
    Server,
    program_named,
    request_of,
    response_of,
    serving,
)

LIST = "/API/Notification/"
ACCOUNT = "/API/Notification/GetNotificationsForAccount"
ALICE = "Authorization: Bearer alice-0001"
ADMIN = "Authorization: Bearer admin-0003"
# Session IDs that no log may show; the last one is unknown.
SECRETS = ["alice-0001", "bob-0002", "admin-0003", "c0ffee"]

# The outcomes of a request besides the code of a problem: Alice's notifications, or no
# announcement.
RECORDS, UNMATCHED = "records", "unmatched"
NOTIFICATIONS = '[{"id":1,"name":"Wöchentlich"},{"id":2,"name":"Daily"}]'.encode()

# The headers of a request for the list. The library, not the server, checks tokens and
# repeated headers.
HEADERS = {
    (ALICE, "Authorization: Bearer bob-0002"): "invalid_request",
    ("Authorization: Basic eDp5", ALICE): "invalid_request",
    ("Authorization:",): "session_missing",
    (f"{ALICE}\xe9",): "invalid_token",
    ("Authorization: \t Bearer alice-0001 \t",): RECORDS,
    ("Authorization: Bearer\talice-0001",): "invalid_request",
    ("Authorization: Bearer " + "c0ffee" * 1330,): "invalid_token",
    (
        "Flask-Notifications.Session: alice-0001",
        "Query-String: sessionId=alice-0001",
    ): "session_missing",
    (
        "sessionId: alice-0001",
        "Cookie: sessionId=alice-0001",
        f"Proxy-{ALICE}",
    ): "session_missing",
    (ALICE, "X-Original-URL: /profile", "X-HTTP-Method-Override: DELETE"): RECORDS,
}
# The target of a request by Alice.
TARGETS = {
    "/API%2FNotification%2F": RECORDS,
    "/API%252FNotification/": UNMATCHED,
    "/%41PI/Notification/": RECORDS,
    "/API/Notification;v=1/": UNMATCHED,
    "/API/Notification/%0d%0aforged:%201": UNMATCHED,
    f"{LIST}#sessionId=c0ffee": RECORDS,
    f"//evil.example{LIST}": UNMATCHED,
}
# The ID of an account that the administrator asks for.
ACCOUNTS = {
    "alice;v=1": "account_not_found",
    "%61lice": RECORDS,
    "%3E;%20rel=%22x%22": "account_not_found",
    "a%0d%0aSet-Cookie:%20sid=evil": "invalid_account_id",
    "a%0aforged": "invalid_account_id",
    "a" * 3_000: "invalid_account_id",
}
QUERIES = {
    "&&=&*=*&%=%&x&sessionId=alice-0001": RECORDS,
    "a=1;sessionId=c0ffee": "session_missing",
    "?sessionId=c0ffee": "session_missing",
    "sessionId=c0ffee%0d%0aSet-Cookie:%20sid=evil": "invalid_token",
    "sessionId=alice-0001%": "invalid_token",
    "sessionId=alice-0001" + "&a" * 1_000: RECORDS,
}
# The headers and the body of a POST, which the library never reads.
BODIES = {
    ("Content-Type: application/json", "Content-Length: 1"): b"{",
    ("Content-Encoding: gzip", "Content-Length: 6"): b"c0ffee",
    (
        "Transfer-Encoding: chunked",
    ): b"2\r\n{}\r\n0\r\nAuthorization: Bearer bob-0002\r\n\r\n",
}


def list_requests() -> Iterator[tuple[bytes, str]]:
    """Yield requests and their outcomes."""
    for lines, expected in HEADERS.items():
        yield request_of("GET", LIST, *lines), expected
    for target, expected in TARGETS.items():
        yield request_of("GET", target, ALICE), expected
    for account, expected in ACCOUNTS.items():
        yield request_of("POST", f"{ACCOUNT}/{account}/", ADMIN), expected
    for query, expected in QUERIES.items():
        yield request_of("GET", f"{LIST}?{query}"), expected
    for lines, body in BODIES.items():
        yield request_of("POST", f"{ACCOUNT}/alice/", ALICE, *lines) + body, RECORDS


CASES = {
    "gunicorn-gthread": [*list_requests()],
    # What uWSGI lets through, and other servers refuse.
    "uwsgi": [
        (
            request_of("GET", LIST, "Authorization: Bearer alice\x00-0001"),
            "invalid_token",
        ),
        (
            request_of("GET", LIST, "Authorization: Bearer alice\x1b-0001"),
            "invalid_token",
        ),
        (
            request_of("GET", LIST, "Authorization: \x0bBearer alice-0001"),
            "session_missing",
        ),
        (
            request_of("GET", LIST, "Authorization: Bearer\r\n alice-0001"),
            "invalid_request",
        ),
        (request_of("GET", "/API/x/../Notification/", ALICE), RECORDS),
    ],
}


def exchange(server: Server, request: bytes) -> str:
    """Send a request, check that the response to an operation links to its successor,
    and return the outcome.
    """
    try:
        received = server.exchange(request)
    except ConnectionError:
        received = b""
    successor = b"Account" if request.startswith(b"POST") else b"CurrentUser"
    link = b'\r\nLink: </API/Notification/%b>; rel="successor-version"' % successor
    response = response_of(received)
    is_matched = bool(response.all("Deprecation"))
    assert (link in received) == is_matched
    if not is_matched:
        return UNMATCHED
    if response.body == NOTIFICATIONS:
        return RECORDS
    return str(response.json["code"])


@pytest.mark.newest  # how gunicorn parses a request
@pytest.mark.parametrize("name", CASES)
def test_a_request_has_the_expected_outcome(name: str, tmp_path: Path) -> None:
    with serving(program_named(name), tmp_path) as server:
        for request, expected in CASES[name]:
            assert exchange(server, request) == expected, request
            assert exchange(server, request_of("GET", LIST, ALICE)) == RECORDS, request
    log = server.written()
    if name != "uwsgi":
        for secret in SECRETS:
            assert secret not in log
    assert "\nforged" not in log
