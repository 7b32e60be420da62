"""Hostile and odd requests to real servers have the expected outcome, headers and log."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.servers.nginx import proxying
from tests.servers.process import PROGRAMS, Server, request_of, response_of, serving

LIST = "/API/Notification/"
ACCOUNT = "/API/Notification/GetNotificationsForAccount"
ALICE = "Authorization: Bearer alice-0001"
ADMIN = "Authorization: Bearer admin-0003"
# Session IDs that no log may show; the last one is unknown.
SECRETS = ["alice-0001", "bob-0002", "admin-0003", "c0ffee"]

ALL = {program.name: replace(program, application="tests.resilience.tenants:application") for program in PROGRAMS}
SERVER_NAMES = [*ALL, "nginx"]

# The outcomes of a request besides the code of a problem: Alice's notifications; a 404 of the application; a refusal by
# the server; or another response without deprecation headers.
RECORDS, APPLICATION, SERVER, UNANNOUNCED = "records", "application", "server", "unannounced"
NOTIFICATIONS = '[{"id":1,"name":"Wöchentlich"},{"id":2,"name":"Daily"}]'.encode()

COMMON_HEADERS = {
    "content-type",
    "content-length",
    "cache-control",
    "vary",
    "x-content-type-options",
    "deprecation",
    "sunset",
}
OPTIONAL_HEADERS = {"www-authenticate", "referrer-policy", "date", "server", "connection"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A request and its expected outcome; ``others`` has those on other servers, or ``None`` if it is not sent there.

    ``mount`` is the prefix of the links.
    """

    request: bytes
    expected: str
    others: dict[str, str | None] = field(default_factory=dict)
    mount: str = ""

    def on(self, server_name: str) -> str | None:
        family = server_name.partition("-")[0]
        return self.others.get(server_name, self.others.get(family, self.expected))


def headers(expected: str, *lines: str, **others: str | None) -> Case:
    return Case(request=request_of("GET", LIST, *lines), expected=expected, others=others)


def path(expected: str, target: str, method: str = "GET", **others: str | None) -> Case:
    return Case(request=request_of(method, target, ALICE), expected=expected, others=others)


def account(expected: str, segment: str, **others: str | None) -> Case:
    return Case(request=request_of("POST", f"{ACCOUNT}/{segment}/", ADMIN), expected=expected, others=others)


def tenant(mount: str, target: str, **others: str | None) -> Case:
    return Case(request=request_of("GET", f"/at{target}{LIST}", ALICE), expected=RECORDS, others=others, mount=mount)


def query(expected: str, query_string: str, **others: str | None) -> Case:
    return Case(request=request_of("GET", f"{LIST}?{query_string}"), expected=expected, others=others)


def body(content: bytes, *lines: str, **others: str | None) -> Case:
    lines = lines or ("Content-Type: application/json", f"Content-Length: {len(content)}")
    head = request_of("POST", f"{ACCOUNT}/alice/", ALICE, *lines)
    return Case(request=head + content, expected=RECORDS, others=others)


# These servers accept control characters.
LET_THROUGH = {"uwsgi": "invalid_token", "werkzeug": "invalid_token"}
# These servers close the connection before they have read the body, so the response may be lost.
ON_THE_REST_OF_THE_BODY: dict[str, str | None] = {"gunicorn-gevent": None, "uwsgi": None, "werkzeug": None}
CASES = {
    # The session in the header. The library, not the server, checks tokens and repeated headers.
    "two headers that differ": headers("invalid_request", ALICE, "Authorization: Bearer bob-0002", nginx=SERVER),
    "two headers, Basic first": headers("invalid_request", "Authorization: Basic eDp5", ALICE, nginx=SERVER),
    "two headers, empty first": headers("invalid_request", "Authorization:", ALICE, nginx=SERVER),
    "an empty header": headers("session_missing", "Authorization:"),
    "a comma at the end": headers("invalid_request", f"{ALICE},"),
    "a parameter at the end": headers("invalid_token", f"{ALICE}, realm=x"),
    "a byte that is not ASCII": headers("invalid_token", f"{ALICE}\xe9"),
    "a space that is not ASCII": headers("invalid_token", f"{ALICE}\xa0"),
    "NUL": headers(SERVER, "Authorization: Bearer alice\x00-0001", **LET_THROUGH),
    "ESC": headers(SERVER, "Authorization: Bearer alice\x1b-0001", **LET_THROUGH),
    "DEL": headers(SERVER, "Authorization: Bearer alice\x7f-0001", **LET_THROUGH),
    "a vertical tab before the scheme": headers(
        SERVER, "Authorization: \x0bBearer alice-0001", uwsgi="session_missing", werkzeug="session_missing"
    ),
    "white space around": headers(RECORDS, "Authorization: \t Bearer alice-0001 \t"),
    "a tab for a space": headers("invalid_request", "Authorization: Bearer\talice-0001"),
    "a space before the colon": headers(
        SERVER, "Authorization : Bearer alice-0001", uwsgi="session_missing", werkzeug="session_missing"
    ),
    "a carriage return inside": headers(SERVER, "Authorization: Bearer c0ffee\r-0001", werkzeug="session_invalid"),
    "a line feed that ends it": headers(
        SERVER, f"{ALICE}\nX-Next: 1", nginx=RECORDS, uwsgi="invalid_token", werkzeug=RECORDS
    ),
    "a line feed that begins it": headers(
        SERVER, f"X-Before: 1\n{ALICE}", nginx=RECORDS, uwsgi="session_missing", werkzeug=RECORDS
    ),
    "folded before the token": headers(
        SERVER, "Authorization: Bearer\r\n alice-0001", waitress=RECORDS, uwsgi="invalid_request", werkzeug=RECORDS
    ),
    "folded after the token": headers(SERVER, f"{ALICE}\r\n c0ffee", waitress="invalid_token", **LET_THROUGH),
    "8 kB": headers("invalid_token", "Authorization: Bearer " + "c0ffee" * 1330),
    "300 kB": headers(SERVER, "Authorization: Bearer " + "c0ffee" * 50_000),
    # Headers that imitate other parts of the environ.
    "our key": headers("session_missing", "flask_notifications.session: alice-0001"),
    "our key with a dash": headers("session_missing", "Flask-Notifications.Session: alice-0001"),
    "our key of a match": headers("session_missing", "Flask-Notifications.Operation: current_user"),
    "the key of the header": headers("session_missing", f"HTTP_{ALICE}", f"Http-{ALICE}"),
    "the key of the query": headers(
        "session_missing", "QUERY_STRING: sessionId=alice-0001", "Query-String: sessionId=alice-0001"
    ),
    "the key of the path": headers("session_missing", "PATH_INFO: /profile", "Path-Info: /profile"),
    # gunicorn accepts this header from a proxy on the same machine.
    "the key of the mount point": headers("session_missing", "SCRIPT_NAME: /API", gunicorn=APPLICATION),
    "an underscore beside the header": headers(RECORDS, ALICE, "Authorization_: Bearer bob-0002"),
    "other places for a session": headers(
        "session_missing",
        "sessionId: alice-0001",
        "Cookie: sessionId=alice-0001",
        f"Proxy-{ALICE}",
        "Remote-User: alice",
    ),
    "another path or method": headers(
        RECORDS, ALICE, "X-Original-URL: /profile", "X-Rewrite-URL: /profile", "X-HTTP-Method-Override: DELETE"
    ),
    # Paths.
    "// at the beginning": path(APPLICATION, "//API/Notification/", waitress=RECORDS, werkzeug=RECORDS),
    "/// at the beginning": path(APPLICATION, "///API/Notification/", waitress=RECORDS, werkzeug=RECORDS),
    "// inside": path(APPLICATION, "/API//Notification/"),
    "// at the end": path(APPLICATION, "/API/Notification//"),
    "an encoded slash": path(RECORDS, "/API%2FNotification%2F"),
    "an encoded slash at the beginning": path(APPLICATION, "/%2FAPI/Notification/", waitress=RECORDS),
    "a slash that is encoded twice": path(APPLICATION, "/API%252FNotification/"),
    "an encoded letter": path(RECORDS, "/%41PI/Notification/"),
    "a dot segment": path(APPLICATION, "/API/./Notification/", uwsgi=RECORDS),
    "two dots": path(APPLICATION, "/API/x/../Notification/", uwsgi=RECORDS),
    "encoded dots": path(APPLICATION, "/API/%2e/x/%2e%2e/Notification/"),
    "; in a segment": path(APPLICATION, "/API/Notification;v=1/"),
    "; as a segment": path(APPLICATION, "/API/Notification/;v=1"),
    "NUL at the end": path(APPLICATION, "/API/Notification%00", nginx=SERVER),
    "lines at the end": path(APPLICATION, "/API/Notification/%0d%0aforged:%201"),
    "a space at the end": path(APPLICATION, "/API/Notification%20"),
    "an invalid escape": path(APPLICATION, "/API/Notification/%zz", nginx=SERVER),
    "a letter that only looks like i": path(APPLICATION, "/API/Not%C4%B1fication/"),
    "a raw byte": path(SERVER, "/API/Notification/\xff", uwsgi=APPLICATION, werkzeug=APPLICATION),
    "backslashes": path(APPLICATION, "/API\\Notification\\"),
    "an empty query": path(RECORDS, f"{LIST}?"),
    "a fragment": path(RECORDS, f"{LIST}#sessionId=c0ffee"),
    "an absolute target": path(RECORDS, f"http://api.example{LIST}", uwsgi=APPLICATION),
    "an absolute target of another host": path(RECORDS, f"HTTPS://evil.example:1{LIST}", uwsgi=APPLICATION),
    "a host in the path": path(APPLICATION, f"//evil.example{LIST}"),
    "no slash at the beginning": path(APPLICATION, "API/Notification/", gunicorn=SERVER, nginx=SERVER),
    "the server as a whole": path(APPLICATION, "*", gunicorn=SERVER, nginx=SERVER),
    "options of the server as a whole": path(APPLICATION, "*", "OPTIONS", nginx=SERVER),
    # Account IDs.
    "an encoded slash in the account": account(APPLICATION, "alice%2F7"),
    "a slash after the account": account(APPLICATION, "alice/"),
    "dots for the account": account(APPLICATION, "%2e%2e"),
    "; in the account": account("account_not_found", "alice;v=1"),
    "an account in capitals": account("account_not_found", "ALICE"),
    "an account with an encoded letter": account(RECORDS, "%61lice"),
    "an account with a letter that only looks like e": account("account_not_found", "alic%D0%B5"),
    "an account that would close a link": account("account_not_found", "%3E;%20rel=%22x%22"),
    "an account that would be a statement": account("account_not_found", "'%20OR%201=1--"),
    "an account with header lines": account("invalid_account_id", "a%0d%0aSet-Cookie:%20sid=evil"),
    "an account with a line of the log": account("invalid_account_id", "a%0aforged"),
    "an account with NUL": account("invalid_account_id", "alice%00", nginx=SERVER),
    "an account of 3 kB": account("invalid_account_id", "a" * 3_000),
    "an account of 100 kB": account(SERVER, "a" * 100_000, waitress="invalid_account_id"),
    # Mount points, which come from the path and are part of the links.
    "a tenant": tenant("/acme", "/acme"),
    "a tenant with header lines": tenant("/a%0D%0ASet-Cookie%3A%20sid%3Devil", "/a%0d%0aSet-Cookie:%20sid=evil"),
    "a tenant that would close a link": tenant("/%3E%3B%20rel%3D%22x%22%2C%20%3C", "/%3E;%20rel=%22x%22,%20%3C"),
    "a tenant that would be a host": tenant("/evil.example", "//evil.example"),
    "a tenant of another language": tenant("/%C3%A9", "/%C3%A9"),
    # Werkzeug's development server replaces bytes that are not UTF-8.
    "a tenant that is not UTF-8": tenant("/%FF", "/%ff", werkzeug=None),
    # Queries.
    "pages and limits": query(
        RECORDS,
        "limit=-1&limit=100000000000000000000&page=1_000&offset=%EF%BC%95&per_page=5.0&top=+5&skip="
        "&sessionId=alice-0001",
    ),
    "malformed pairs": query(RECORDS, "&&=&*=*&%=%&x&sessionId=alice-0001"),
    "& as HTML writes it": query(RECORDS, "sessionId=alice-0001&amp;sessionId=c0ffee"),
    "; before the session": query("session_missing", "a=1;sessionId=c0ffee"),
    "two question marks": query("session_missing", "?sessionId=c0ffee"),
    "a raw byte beside the session": query(SERVER, "sessionId=alice-0001&\xff", uwsgi=RECORDS, werkzeug=RECORDS),
    "header lines in the session": query("invalid_token", "sessionId=c0ffee%0d%0aSet-Cookie:%20sid=evil"),
    "NUL in the session": query("invalid_token", "sessionId=alice-0001%00"),
    "a broken escape in the session": query("invalid_token", "sessionId=alice-0001%"),
    "3 kB beside the session": query(RECORDS, "sessionId=alice-0001&x=" + "a" * 3_000),
    "1000 pairs beside the session": query(RECORDS, "sessionId=alice-0001" + "&a" * 1_000),
    "100 kB beside the session": query(SERVER, "sessionId=alice-0001&x=" + "a" * 100_000, waitress=RECORDS),
    # Bodies, which the library never reads.
    "nested too deeply": body(b"[" * 1_500 + b"]" * 1_500),
    "not a number": body(b'{"limit":NaN,"offset":-Infinity,"page":1e999}'),
    "two sessions": body(b'{"sessionId":"bob-0002","sessionId":"c0ffee"}'),
    "half a surrogate pair": body(b'{"a":"\\ud800"}'),
    "UTF-16": body('{"sessionId":"bob-0002"}'.encode("utf-16")),
    "a byte order mark": body(b"\xef\xbb\xbf{}"),
    "invalid JSON": body(b"{"),
    "entities": body(b'<!DOCTYPE x [<!ENTITY a "c0ffee">]><x>&a;</x>', "Content-Type: text/xml", "Content-Length: 45"),
    "labelled as compressed": body(b"c0ffee", "Content-Encoding: gzip", "Content-Length: 6"),
    "a trailer": body(
        b"2\r\n{}\r\n0\r\nAuthorization: Bearer bob-0002\r\n\r\n",
        "Transfer-Encoding: chunked",
        "Trailer: Authorization",
    ),
    "an invalid chunk": body(b"zz\r\n", "Transfer-Encoding: chunked", nginx=SERVER, waitress=SERVER),
    "a negative length": body(b"", "Content-Length: -1", gunicorn=SERVER, nginx=SERVER, waitress=SERVER),
    "60 kB": body(b"[" * 60_000, **ON_THE_REST_OF_THE_BODY),
    "60 kB in a chunk": body(
        b"ea60\r\n" + b"[" * 60_000 + b"\r\n0\r\n\r\n", "Transfer-Encoding: chunked", **ON_THE_REST_OF_THE_BODY
    ),
}
PLAIN = request_of("GET", LIST, ALICE)


class Visit(NamedTuple):
    """The responses of a server to each request and to a plain one after it, and the log."""

    responses: dict[str, bytes]
    after: dict[str, bytes]
    log: str


@contextmanager
def serving_as(name: str, folder: Path) -> Iterator[tuple[Server, Server]]:
    """Run a server, or gunicorn and nginx as its proxy; yield the server that gets requests and the one that logs."""
    with serving(ALL.get(name, ALL["gunicorn-gthread"]), folder) as server:
        if name != "nginx":
            yield server, server
            return
        (folder / "nginx").mkdir()
        with proxying("proxy_http_version 1.1", server.port, folder / "nginx") as nginx:
            yield nginx, server


@pytest.fixture(scope="module")
def visit(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Visit]:
    """Return a function that sends all requests to a server, once, and returns the responses and the log."""
    return cache(lambda name: send_all(name, tmp_path_factory.mktemp(name)))


def send_all(server_name: str, folder: Path) -> Visit:
    responses, after = {}, {}
    with serving_as(server_name, folder) as (front, origin):
        for name, case in CASES.items():
            if case.on(server_name) is not None:
                responses[name] = exchange(front, case.request)
                after[name] = exchange(front, PLAIN)
    return Visit(responses, after, origin.written())


def exchange(server: Server, request: bytes) -> bytes:
    """Return the response, or nothing if the server resets the connection."""
    try:
        return server.exchange(request)
    except ConnectionError:
        return b""


def outcome_of(received: bytes) -> str:
    response = response_of(received)
    if not received or (response.code >= 400 and response.code != 404 and not response.all("Deprecation")):
        return SERVER
    if not response.all("Deprecation"):
        return APPLICATION if response.code == 404 else UNANNOUNCED
    return RECORDS if response.body == NOTIFICATIONS else str(response.json["code"])


def expected_lines(mount: str, successor: str) -> list[bytes]:
    return [
        b"Deprecation: @1767225600",
        f'Link: <{mount}/API/Notification/{successor}>; rel="successor-version"'.encode(),
        b'Link: <https://example.com/retire>; rel="deprecation"; type="text/html"',
        b"Sunset: Thu, 01 Jul 2027 00:00:00 GMT",
    ]


def assert_expected_headers(received: bytes, case: Case) -> None:
    head = received.partition(b"\r\n\r\n")[0].split(b"\r\n")
    successor = "Account" if case.request.startswith(b"POST") else "CurrentUser"
    lines = sorted(line for line in head if line.startswith((b"Deprecation", b"Sunset", b"Link")))
    assert lines == sorted(expected_lines(case.mount, successor))
    names = Counter(line.partition(b":")[0].decode().lower() for line in head[1:])
    assert names.pop("link") == 2
    assert set(names) - OPTIONAL_HEADERS == COMMON_HEADERS
    assert set(names.values()) == {1}


@pytest.mark.parametrize(
    ("server_name", "name"),
    [
        pytest.param(server_name, name, id=f"{server_name}: {name}")
        for server_name in SERVER_NAMES
        for name, case in CASES.items()
        if case.on(server_name) is not None
    ],
)
def test_a_request_has_the_expected_outcome_on_every_server(
    visit: Callable[[str], Visit], server_name: str, name: str
) -> None:
    case, received = CASES[name], visit(server_name).responses[name]
    assert outcome_of(received) == case.on(server_name)
    if outcome_of(received) not in {APPLICATION, SERVER}:
        assert_expected_headers(received, case)
    assert outcome_of(visit(server_name).after[name]) == RECORDS


@pytest.mark.parametrize("server_name", SERVER_NAMES)
def test_no_log_shows_a_session_or_a_line_that_a_client_wrote(visit: Callable[[str], Visit], server_name: str) -> None:
    log = visit(server_name).log
    assert not [secret for secret in SECRETS if secret in log]
    assert not [line for line in log.splitlines() if line.startswith("forged")]
