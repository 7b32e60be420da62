"""Hostile and odd requests to real servers have the expected outcome, headers and log."""

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


def get(*headers: str, target: str = LIST) -> bytes:
    return request_of("GET", target, *headers)


def post(account: str, *headers: str) -> bytes:
    return request_of("POST", f"{ACCOUNT}/{account}/", ADMIN, *headers)


CASES = {
    # The library, not the server, checks tokens and repeated headers.
    "gunicorn-gthread": [
        (get(ALICE, "Authorization: Bearer bob-0002"), "invalid_request"),
        (get("Authorization:"), "session_missing"),
        (get(f"{ALICE}\xe9"), "invalid_token"),
        (get("Authorization: \t Bearer alice-0001 \t"), RECORDS),
        (get("Authorization: Bearer " + "c0ffee" * 1330), "invalid_token"),
        (get("Flask-Notifications.Session: alice-0001"), "session_missing"),
        (get("Query-String: sessionId=alice-0001"), "session_missing"),
        (get("Cookie: sessionId=alice-0001", f"Proxy-{ALICE}"), "session_missing"),
        (get(ALICE, "X-HTTP-Method-Override: DELETE"), RECORDS),
        (get(ALICE, target="/API%2FNotification%2F"), RECORDS),
        (get(ALICE, target="/API%252FNotification/"), UNMATCHED),
        (get(ALICE, target="/API/Notification;v=1/"), UNMATCHED),
        (get(ALICE, target="/API/Notification/%0d%0aforged:%201"), UNMATCHED),
        (get(ALICE, target=f"//evil.example{LIST}"), UNMATCHED),
        (get(target=f"{LIST}?a=1;sessionId=c0ffee"), "session_missing"),
        (get(target=f"{LIST}?sessionId=c0ffee%0d%0aa:%20b"), "invalid_token"),
        (post("%61lice"), RECORDS),
        (post("%3E;%20rel=%22x%22"), "account_not_found"),
        (post("a%0d%0aforged"), "invalid_account_id"),
        (post("a" * 3_000), "invalid_account_id"),
        # A body, which the library never reads.
        (post("alice", "Content-Encoding: gzip", "Content-Length: 1") + b"x", RECORDS),
    ],
    # What uWSGI lets through, and other servers refuse.
    "uwsgi": [
        (get("Authorization: Bearer alice\x00-0001"), "invalid_token"),
        (get("Authorization: \x0bBearer alice-0001"), "session_missing"),
        (get("Authorization: Bearer\r\n alice-0001"), "invalid_request"),
        (get(ALICE, target="/API/x/../Notification/"), RECORDS),
    ],
}


def exchange(server: Server, request: bytes) -> str:
    """Send a request, check that the response to an operation links to its successor,
    and return the outcome.
    """
    response = response_of(server.exchange(request))
    if not response.all("Deprecation"):
        return UNMATCHED
    name = "Account" if request.startswith(b"POST") else "CurrentUser"
    assert response.one("Link").startswith(f"</API/Notification/{name}>; rel=")
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
