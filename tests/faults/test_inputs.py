"""Hostile and odd requests, byte by byte to real servers: what is decided, in what bytes, and what the log says."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.servers.nginx import proxying
from tests.servers.process import PROGRAMS, Server, answer_of, request_of, serving

LIST = "/API/Notification/"
ACCOUNT = "/API/Notification/GetNotificationsForAccount"
ALICE = "Authorization: Bearer alice-0001"
ADMIN = "Authorization: Bearer admin-0003"
# Texts of sessions that no log may show; the last is none that anybody knows.
SECRETS = ["alice-0001", "bob-0002", "admin-0003", "c0ffee"]

ALL = {program.name: replace(program, application="tests.faults.tenants:application") for program in PROGRAMS}
FRONTS = [*ALL, "nginx"]

# What a request may come to, besides the code of a problem: Alice's notifications; an answer of the host, which has no
# such page; a refusal by the server, which has asked nobody; or an answer of ours that announces nothing.
HERS, HOST, SERVER, UNANNOUNCED = "hers", "host", "server", "unannounced"
NOTIFICATIONS = '[{"id":1,"name":"Wöchentlich"},{"id":2,"name":"Daily"}]'.encode()

OF_EACH = {"content-type", "content-length", "cache-control", "vary", "x-content-type-options", "deprecation", "sunset"}
OF_SOME = {"www-authenticate", "referrer-policy", "date", "server", "connection"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A request, and what it comes to; by the name of the server where servers differ, ``None`` where it is not sent.

    ``mount`` is what links have in front.
    """

    request: bytes
    expected: str
    others: dict[str, str | None] = field(default_factory=dict)
    mount: str = ""

    def on(self, front: str) -> str | None:
        family = front.partition("-")[0]
        return self.others.get(front, self.others.get(family, self.expected))


def fields(expected: str, *lines: str, **others: str | None) -> Case:
    return Case(request=request_of("GET", LIST, *lines), expected=expected, others=others)


def path(expected: str, target: str, method: str = "GET", **others: str | None) -> Case:
    return Case(request=request_of(method, target, ALICE), expected=expected, others=others)


def account(expected: str, segment: str, **others: str | None) -> Case:
    return Case(request=request_of("POST", f"{ACCOUNT}/{segment}/", ADMIN), expected=expected, others=others)


def tenant(mount: str, target: str, **others: str | None) -> Case:
    return Case(request=request_of("GET", f"/at{target}{LIST}", ALICE), expected=HERS, others=others, mount=mount)


def query(expected: str, text: str, **others: str | None) -> Case:
    return Case(request=request_of("GET", f"{LIST}?{text}"), expected=expected, others=others)


def body(content: bytes, *lines: str, **others: str | None) -> Case:
    lines = lines or ("Content-Type: application/json", f"Content-Length: {len(content)}")
    head = request_of("POST", f"{ACCOUNT}/alice/", ALICE, *lines)
    return Case(request=head + content, expected=HERS, others=others)


# These let control characters through.
LET_THROUGH = {"uwsgi": "invalid_token", "werkzeug": "invalid_token"}
# These close the connection on the rest of a body: whether the answer survives that is a matter of time.
ON_THE_REST_OF_THE_BODY: dict[str, str | None] = {"gunicorn-gevent": None, "uwsgi": None, "werkzeug": None}
CASES = {
    # The header of the session. What a token may be, and how several of them are read, is decided behind the servers.
    "two headers that differ": fields("invalid_request", ALICE, "Authorization: Bearer bob-0002", nginx=SERVER),
    "two headers, Basic first": fields("invalid_request", "Authorization: Basic eDp5", ALICE, nginx=SERVER),
    "two headers, empty first": fields("invalid_request", "Authorization:", ALICE, nginx=SERVER),
    "an empty header": fields("session_missing", "Authorization:"),
    "a comma at the end": fields("invalid_request", f"{ALICE},"),
    "a parameter at the end": fields("invalid_token", f"{ALICE}, realm=x"),
    "a byte that is not ASCII": fields("invalid_token", f"{ALICE}\xe9"),
    "a space that is not ASCII": fields("invalid_token", f"{ALICE}\xa0"),
    "NUL": fields(SERVER, "Authorization: Bearer alice\x00-0001", **LET_THROUGH),
    "ESC": fields(SERVER, "Authorization: Bearer alice\x1b-0001", **LET_THROUGH),
    "DEL": fields(SERVER, "Authorization: Bearer alice\x7f-0001", **LET_THROUGH),
    "a vertical tab in front": fields(
        SERVER, "Authorization: \x0bBearer alice-0001", uwsgi="session_missing", werkzeug="session_missing"
    ),
    "white space around": fields(HERS, "Authorization: \t Bearer alice-0001 \t"),
    "a tab for a space": fields("invalid_request", "Authorization: Bearer\talice-0001"),
    "a space before the colon": fields(
        SERVER, "Authorization : Bearer alice-0001", uwsgi="session_missing", werkzeug="session_missing"
    ),
    "a carriage return inside": fields(SERVER, "Authorization: Bearer c0ffee\r-0001", werkzeug="session_invalid"),
    "a line feed that ends it": fields(SERVER, f"{ALICE}\nX-Next: 1", nginx=HERS, uwsgi="invalid_token", werkzeug=HERS),
    "a line feed that begins it": fields(
        SERVER, f"X-Before: 1\n{ALICE}", nginx=HERS, uwsgi="session_missing", werkzeug=HERS
    ),
    "folded before the token": fields(
        SERVER, "Authorization: Bearer\r\n alice-0001", waitress=HERS, uwsgi="invalid_request", werkzeug=HERS
    ),
    "folded after the token": fields(SERVER, f"{ALICE}\r\n c0ffee", waitress="invalid_token", **LET_THROUGH),
    "8 kB": fields("invalid_token", "Authorization: Bearer " + "c0ffee" * 1330),
    "300 kB": fields(SERVER, "Authorization: Bearer " + "c0ffee" * 50_000),
    # Headers that would be something else.
    "our key": fields("session_missing", "flask_notifications.session: alice-0001"),
    "our key with a dash": fields("session_missing", "Flask-Notifications.Session: alice-0001"),
    "our mark of a claim": fields("session_missing", "Flask-Notifications.Claim: current_user"),
    "the key of the header": fields("session_missing", f"HTTP_{ALICE}", f"Http-{ALICE}"),
    "the key of the query": fields(
        "session_missing", "QUERY_STRING: sessionId=alice-0001", "Query-String: sessionId=alice-0001"
    ),
    "the key of the path": fields("session_missing", "PATH_INFO: /profile", "Path-Info: /profile"),
    # gunicorn takes this one from a proxy on the same machine.
    "the key of the mount point": fields("session_missing", "SCRIPT_NAME: /API", gunicorn=HOST),
    "an underscore beside the header": fields(HERS, ALICE, "Authorization_: Bearer bob-0002"),
    "other places for a session": fields(
        "session_missing",
        "sessionId: alice-0001",
        "Cookie: sessionId=alice-0001",
        f"Proxy-{ALICE}",
        "Remote-User: alice",
    ),
    "another path or method": fields(
        HERS, ALICE, "X-Original-URL: /profile", "X-Rewrite-URL: /profile", "X-HTTP-Method-Override: DELETE"
    ),
    # Paths.
    "// in front": path(HOST, "//API/Notification/", waitress=HERS, werkzeug=HERS),
    "/// in front": path(HOST, "///API/Notification/", waitress=HERS, werkzeug=HERS),
    "// inside": path(HOST, "/API//Notification/"),
    "// at the end": path(HOST, "/API/Notification//"),
    "an encoded slash": path(HERS, "/API%2FNotification%2F"),
    "an encoded slash in front": path(HOST, "/%2FAPI/Notification/", waitress=HERS),
    "a slash that is encoded twice": path(HOST, "/API%252FNotification/"),
    "an encoded letter": path(HERS, "/%41PI/Notification/"),
    "a dot segment": path(HOST, "/API/./Notification/", uwsgi=HERS),
    "two dots": path(HOST, "/API/x/../Notification/", uwsgi=HERS),
    "encoded dots": path(HOST, "/API/%2e/x/%2e%2e/Notification/"),
    "; in a segment": path(HOST, "/API/Notification;v=1/"),
    "; as a segment": path(HOST, "/API/Notification/;v=1"),
    "NUL at the end": path(HOST, "/API/Notification%00", nginx=SERVER),
    "lines at the end": path(HOST, "/API/Notification/%0d%0aforged:%201"),
    "a space at the end": path(HOST, "/API/Notification%20"),
    "an escape that is none": path(HOST, "/API/Notification/%zz", nginx=SERVER),
    "a letter that only looks it": path(HOST, "/API/Not%C4%B1fication/"),
    "a raw byte": path(SERVER, "/API/Notification/\xff", uwsgi=HOST, werkzeug=HOST),
    "backslashes": path(HOST, "/API\\Notification\\"),
    "an empty query": path(HERS, f"{LIST}?"),
    "a fragment": path(HERS, f"{LIST}#sessionId=c0ffee"),
    "an absolute target": path(HERS, f"http://api.example{LIST}", uwsgi=HOST),
    "an absolute target of another host": path(HERS, f"HTTPS://evil.example:1{LIST}", uwsgi=HOST),
    "a host in the path": path(HOST, f"//evil.example{LIST}"),
    "no slash in front": path(HOST, "API/Notification/", gunicorn=SERVER, nginx=SERVER),
    "the server as such": path(HOST, "*", gunicorn=SERVER, nginx=SERVER),
    "options of the server as such": path(HOST, "*", "OPTIONS", nginx=SERVER),
    # Account IDs.
    "an encoded slash in the account": account(HOST, "alice%2F7"),
    "a slash behind the account": account(HOST, "alice/"),
    "dots for the account": account(HOST, "%2e%2e"),
    "; in the account": account("account_not_found", "alice;v=1"),
    "an account in capitals": account("account_not_found", "ALICE"),
    "an account with an encoded letter": account(HERS, "%61lice"),
    "an account with a letter that only looks it": account("account_not_found", "alic%D0%B5"),
    "an account that would close a link": account("account_not_found", "%3E;%20rel=%22x%22"),
    "an account that would be a statement": account("account_not_found", "'%20OR%201=1--"),
    "an account with header lines": account("invalid_account_id", "a%0d%0aSet-Cookie:%20sid=evil"),
    "an account with a line of the log": account("invalid_account_id", "a%0aforged"),
    "an account with NUL": account("invalid_account_id", "alice%00", nginx=SERVER),
    "an account of 3 kB": account("invalid_account_id", "a" * 3_000),
    "an account of 100 kB": account(SERVER, "a" * 100_000, waitress="invalid_account_id"),
    # Mount points that come from the path and stand in links.
    "a tenant": tenant("/acme", "/acme"),
    "a tenant with header lines": tenant("/a%0D%0ASet-Cookie%3A%20sid%3Devil", "/a%0d%0aSet-Cookie:%20sid=evil"),
    "a tenant that would close a link": tenant("/%3E%3B%20rel%3D%22x%22%2C%20%3C", "/%3E;%20rel=%22x%22,%20%3C"),
    "a tenant that would be a host": tenant("/evil.example", "//evil.example"),
    "a tenant of another language": tenant("/%C3%A9", "/%C3%A9"),
    # Werkzeug's development server has replaced what is not UTF-8 before anybody sees it.
    "a tenant that is not UTF-8": tenant("/%FF", "/%ff", werkzeug=None),
    # Queries.
    "pages and limits": query(
        HERS,
        "limit=-1&limit=100000000000000000000&page=1_000&offset=%EF%BC%95&per_page=5.0&top=+5&skip="
        "&sessionId=alice-0001",
    ),
    "pairs that are none": query(HERS, "&&=&*=*&%=%&x&sessionId=alice-0001"),
    "& as HTML writes it": query(HERS, "sessionId=alice-0001&amp;sessionId=c0ffee"),
    "; before the session": query("session_missing", "a=1;sessionId=c0ffee"),
    "two question marks": query("session_missing", "?sessionId=c0ffee"),
    "a raw byte beside the session": query(SERVER, "sessionId=alice-0001&\xff", uwsgi=HERS, werkzeug=HERS),
    "header lines in the session": query("invalid_token", "sessionId=c0ffee%0d%0aSet-Cookie:%20sid=evil"),
    "NUL in the session": query("invalid_token", "sessionId=alice-0001%00"),
    "a broken escape in the session": query("invalid_token", "sessionId=alice-0001%"),
    "3 kB beside the session": query(HERS, "sessionId=alice-0001&x=" + "a" * 3_000),
    "1000 pairs beside the session": query(HERS, "sessionId=alice-0001" + "&a" * 1_000),
    "100 kB beside the session": query(SERVER, "sessionId=alice-0001&x=" + "a" * 100_000, waitress=HERS),
    # Bodies, which nobody reads.
    "nested too deep": body(b"[" * 1_500 + b"]" * 1_500),
    "not a number": body(b'{"limit":NaN,"offset":-Infinity,"page":1e999}'),
    "two sessions": body(b'{"sessionId":"bob-0002","sessionId":"c0ffee"}'),
    "half a pair": body(b'{"a":"\\ud800"}'),
    "UTF-16": body('{"sessionId":"bob-0002"}'.encode("utf-16")),
    "a mark of the byte order": body(b"\xef\xbb\xbf{}"),
    "no JSON": body(b"{"),
    "entities": body(b'<!DOCTYPE x [<!ENTITY a "c0ffee">]><x>&a;</x>', "Content-Type: text/xml", "Content-Length: 45"),
    "said to be compressed": body(b"c0ffee", "Content-Encoding: gzip", "Content-Length: 6"),
    "a trailer": body(
        b"2\r\n{}\r\n0\r\nAuthorization: Bearer bob-0002\r\n\r\n",
        "Transfer-Encoding: chunked",
        "Trailer: Authorization",
    ),
    "no chunk": body(b"zz\r\n", "Transfer-Encoding: chunked", nginx=SERVER, waitress=SERVER),
    "a negative length": body(b"", "Content-Length: -1", gunicorn=SERVER, nginx=SERVER, waitress=SERVER),
    "60 kB": body(b"[" * 60_000, **ON_THE_REST_OF_THE_BODY),
    "60 kB in a chunk": body(
        b"ea60\r\n" + b"[" * 60_000 + b"\r\n0\r\n\r\n", "Transfer-Encoding: chunked", **ON_THE_REST_OF_THE_BODY
    ),
}
PLAIN = request_of("GET", LIST, ALICE)


class Visit(NamedTuple):
    """What a front answered to each request and to a plain one after it, and all that the server logged."""

    answers: dict[str, bytes]
    after: dict[str, bytes]
    log: str


@contextmanager
def behind(front: str, folder: Path) -> Iterator[tuple[Server, Server]]:
    """Run a server, and nginx in front of it where that is the front; lend who is asked, and who logs."""
    with serving(ALL.get(front, ALL["gunicorn-gthread"]), folder) as server:
        if front != "nginx":
            yield server, server
            return
        (folder / "nginx").mkdir()
        with proxying("proxy_http_version 1.1", server.port, folder / "nginx") as nginx:
            yield nginx, server


@pytest.fixture(scope="module")
def visit(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Visit]:
    """Lend a function that sends all the requests to a front, once."""
    return cache(lambda front: visited(front, tmp_path_factory.mktemp(front)))


def visited(front: str, folder: Path) -> Visit:
    answers, after = {}, {}
    with behind(front, folder) as (asked, logging):
        for name, case in CASES.items():
            if case.on(front) is not None:
                answers[name] = exchange(asked, case.request)
                after[name] = exchange(asked, PLAIN)
    return Visit(answers, after, logging.written())


def exchange(server: Server, request: bytes) -> bytes:
    """Return what comes back, nothing where the server closes the connection on what it does not take."""
    try:
        return server.exchange(request)
    except ConnectionError:
        return b""


def outcome(received: bytes) -> str:
    answer = answer_of(received)
    if not received or (answer.code >= 400 and answer.code != 404 and not answer.all("Deprecation")):
        return SERVER
    if not answer.all("Deprecation"):
        return HOST if answer.code == 404 else UNANNOUNCED
    return HERS if answer.body == NOTIFICATIONS else str(answer.json["code"])


def announced(mount: str, successor: str) -> list[bytes]:
    return [
        b"Deprecation: @1767225600",
        f'Link: <{mount}/API/Notification/{successor}>; rel="successor-version"'.encode(),
        b'Link: <https://example.com/retire>; rel="deprecation"; type="text/html"',
        b"Sunset: Thu, 01 Jul 2027 00:00:00 GMT",
    ]


def assert_no_line_but_ours(received: bytes, case: Case) -> None:
    head = received.partition(b"\r\n\r\n")[0].split(b"\r\n")
    successor = "Account" if case.request.startswith(b"POST") else "CurrentUser"
    said = sorted(line for line in head if line.startswith((b"Deprecation", b"Sunset", b"Link")))
    assert said == sorted(announced(case.mount, successor))
    names = Counter(line.partition(b":")[0].decode().lower() for line in head[1:])
    assert names.pop("link") == 2
    assert set(names) - OF_SOME == OF_EACH
    assert set(names.values()) == {1}


@pytest.mark.parametrize(
    ("front", "name"),
    [
        pytest.param(front, name, id=f"{front}: {name}")
        for front in FRONTS
        for name, case in CASES.items()
        if case.on(front) is not None
    ],
)
def test_what_a_request_comes_to(visit: Callable[[str], Visit], front: str, name: str) -> None:
    case, received = CASES[name], visit(front).answers[name]
    assert outcome(received) == case.on(front)
    if outcome(received) not in {HOST, SERVER}:
        assert_no_line_but_ours(received, case)
    assert outcome(visit(front).after[name]) == HERS


@pytest.mark.parametrize("front", FRONTS)
def test_no_log_shows_a_session_or_a_line_that_a_client_wrote(visit: Callable[[str], Visit], front: str) -> None:
    log = visit(front).log
    assert not [secret for secret in SECRETS if secret in log]
    assert not [line for line in log.splitlines() if line.startswith("forged")]
