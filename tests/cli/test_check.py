"""The command ``check`` against real servers: each code, unreachable servers, and
credentials.
"""

import io
import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket
from typing import Any

import pytest
import trustme

from flask_notifications.check.checker import check_url
from flask_notifications.check.fetching import Fetcher, Unreachable
from flask_notifications.usage import PROBE
from tests.cli.commands import Outcome, run
from tests.cli.servers import (
    Canned,
    CannedServer,
    Headers,
    canned_server,
    drip,
    raw_server,
    send,
    send_nothing,
)
from tests.servers.process import ROOT, free_port

DEPRECATION = ("Deprecation", "@1767225600")
SUNSET = ("Sunset", "Thu, 01 Jul 2027 00:00:00 GMT")
SUCCESSOR = ("Link", '</new>; rel="successor-version"')
PAGE = ("Link", '</docs>; rel="deprecation"; type="text/html"')
ALL = [DEPRECATION, SUNSET, SUCCESSOR, PAGE]
NO_STORE = ("Cache-Control", "no-store")


@pytest.fixture(scope="module")
def shared_server() -> Iterator[CannedServer]:
    with canned_server() as server:
        yield server


@pytest.fixture
def server(shared_server: CannedServer) -> CannedServer:
    """Return an empty server, except for the successor and the page, which respond."""
    shared_server.responses.clear()
    shared_server.requests.clear()
    shared_server.received.clear()
    shared_server.respond("/new", Canned(405))
    shared_server.respond("/docs", Canned(200))
    return shared_server


# Every code with its level, as the page lists them; they stay the same in all versions.
PAGE_OF_CODES = (
    (ROOT / "docs" / "check.md")
    .read_text(encoding="utf-8")
    .partition("## In continuous integration")[0]
)
CODES = dict(
    re.findall(
        r"^\| `([a-z-]+)` \| (error|warning|info) \|", PAGE_OF_CODES, re.MULTILINE
    )
)


def findings(outcome: Outcome) -> dict[str, str]:
    """Check that each code of a report is there once and has its level, and return the
    messages by code.
    """
    messages: dict[str, str] = {}
    for finding in json.loads(outcome.out)["findings"]:
        code = finding["code"]
        assert code not in messages
        assert finding["level"] == CODES[code]
        messages[code] = finding["message"]
    return messages


def check(*arguments: Any) -> Outcome:
    outcome = run("check", *arguments, "--format", "json")
    assert outcome.err == ""
    return outcome


def without(*removed: tuple[str, str]) -> Headers:
    return [header for header in ALL if header not in removed]


def test_a_response_that_announces_everything_has_no_findings(
    server: CannedServer,
) -> None:
    url = server.respond("/old", Canned(200, ALL))
    outcome = check(url)
    assert outcome.code == 0
    report = {
        "schema": 1,
        "url": url,
        "final_url": url,
        "status": 200,
        "headers": [*map(list, ALL)],
        "findings": [],
    }
    assert json.loads(outcome.out) == report
    assert server.requests == [
        ("GET", "/old"),
        ("HEAD", "/old"),
        ("GET", "/new"),
        ("GET", "/docs"),
    ]


def test_what_a_server_sends_cannot_control_the_terminal(server: CannedServer) -> None:
    hostile = [
        ("Deprecation", "@1\x1b]0;x\x07\x1b[2J"),
        ("Sunset", "folded\r\n line"),
        ("Link", "<\x1b[31mx>; rel=a"),
    ]
    outcome = run("check", server.respond("/old", Canned(200, hostile)))
    assert outcome.code == 3
    assert outcome.out.replace("\n", "").isprintable()
    assert outcome.out.splitlines()[1:4] == [
        r"  Deprecation: @1\x1b]0;x\x07\x1b[2J",
        r"  Sunset: folded\r\n line",
        r"  Link: <\x1b[31mx>; rel=a",
    ]


def instead_of(removed: tuple[str, str], value: str) -> Headers:
    """Return the headers with another value for one of them."""
    return [(removed[0], value), *without(removed)]


HIDDEN = (
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Expose-Headers", "Sunset, link"),
)
# A wildcard that credentials make literal.
LITERAL = (
    ("Access-Control-Allow-Origin", "https://a.example"),
    ("Access-Control-Allow-Credentials", "true"),
    ("Access-Control-Expose-Headers", "*"),
)
OF_ANOTHER = (SUCCESSOR[0], f'{SUCCESSOR[1]}; anchor="/other"')
# The headers of a response; the code that is reported, and the advice in its message.
CASES = {
    "no date": (without(DEPRECATION), "deprecation-missing", "Send the date of the"),
    "true": (instead_of(DEPRECATION, "true"), "deprecation-invalid", "'@'"),
    "seconds without @": (
        instead_of(DEPRECATION, "1767225600"),
        "deprecation-invalid",
        "not '1767225600' (RFC 9745 section 2.1)",
    ),
    "seconds of no year": (
        instead_of(DEPRECATION, "9" * 17),
        "deprecation-invalid",
        "'@'",
    ),
    "the same deprecation twice": (
        [DEPRECATION, *ALL],
        "deprecation-repeated",
        "Send one",
    ),
    "a wrong weekday": (
        instead_of(SUNSET, "Fri, 01 Jul 2027 00:00:00 GMT"),
        "sunset-invalid",
        "must be like 'Fri, 01 Jan 2027 00:00:00 GMT'",
    ),
    "an ISO date for the sunset": (
        instead_of(SUNSET, "2027-07-01"),
        "sunset-invalid",
        "not '2027-07-01' (RFC 8594 section 3)",
    ),
    "two sunsets": ([SUNSET, *ALL], "sunset-repeated", "Send one"),
    "too early": (
        instead_of(SUNSET, "Wed, 31 Dec 2025 23:59:59 GMT"),
        "sunset-before-deprecation",
        "a later Sunset",
    ),
    "a link without brackets": (
        [("Link", '/x; rel="next"'), *ALL],
        "link-invalid",
        "a link is like",
    ),
    "a link that leads to 404": (
        [("Link", '</gone>; rel="next"'), *ALL],
        "link-unreachable",
        "is 404",
    ),
    "no successor of its own": (
        [*without(SUCCESSOR), OF_ANOTHER],
        "successor-missing",
        "Link to what replaces",
    ),
    "no page": (without(PAGE), "documentation-missing", "Link to a page"),
    "hidden from scripts": (
        [*HIDDEN, *ALL],
        "cors-not-exposed",
        "Add them to Access-Control-Expose-Headers",
    ),
    "exposed with a literal wildcard": (
        [*LITERAL, *ALL],
        "cors-not-exposed",
        "Deprecation, Sunset, Link",
    ),
}


@pytest.mark.parametrize(("headers", "code", "advice"), CASES.values(), ids=CASES)
def test_a_mistake_has_its_code_and_advice(
    server: CannedServer, headers: Headers, code: str, advice: str
) -> None:
    outcome = check(server.respond("/old", Canned(200, headers)))
    ((reported, message),) = findings(outcome).items()
    assert reported == code
    assert advice in message
    assert outcome.code == (3 if CODES[code] == "error" else 0)


def test_errors_are_listed_before_warnings_and_these_before_hints(
    server: CannedServer,
) -> None:
    outcome = check(server.respond("/old", Canned(200, [HIDDEN[0], SUNSET])))
    assert list(findings(outcome)) == [
        "deprecation-missing",
        "cors-not-exposed",
        "successor-missing",
        "documentation-missing",
    ]


RETRY, CACHED = ("Retry-After", "60"), ("Cache-Control", "max-age=9")
# The headers of a 410, and the codes that are reported in a brownout; without one,
# nobody is asked to retry.
# The code in the body of a 410, its headers, and the codes that are reported; without a
# brownout, nobody is asked to retry.
GONE = {
    "a brownout": ("brownout", [NO_STORE, RETRY], []),
    "a sunset": ("sunset", [NO_STORE], []),
    "no Retry-After": ("brownout", [NO_STORE], ["gone-without-retry-after"]),
    "cached for nine seconds": ("brownout", [CACHED, RETRY], ["gone-cacheable"]),
    "cached without a limit": ("sunset", [], ["gone-cacheable"]),
}


@pytest.mark.parametrize(("closed_by", "headers", "codes"), GONE.values(), ids=GONE)
def test_a_410_is_not_cached_and_says_when_to_retry(
    server: CannedServer, closed_by: str, headers: Headers, codes: list[str]
) -> None:
    body = json.dumps({"code": closed_by}).encode()
    outcome = check(server.respond("/old", Canned(410, [*ALL, *headers], body)))
    assert list(findings(outcome)) == codes
    assert outcome.code == (3 if "gone-cacheable" in codes else 0)


FINE = {
    "white space around values": Canned(
        200, [(name, f"\t{value} \t ") for name, value in ALL]
    ),
    "exposed with a wildcard": Canned(200, [*ALL, HIDDEN[0], (HIDDEN[1][0], "*")]),
    "exposed by name": Canned(
        200, [*ALL, HIDDEN[0], (HIDDEN[1][0], "link,SUNSET, deprecation")]
    ),
    "a redirect that announces": Canned(302, [*ALL, ("Location", "/missing")]),
    "a 410 with nested arrays": Canned(410, [*ALL, NO_STORE], b"[" * 60_000),
    "a 410 with a code that is no string": Canned(
        410, [*ALL, NO_STORE], b'{"code": [[]]}'
    ),
    "a 410 with a long number": Canned(
        410, [*ALL, NO_STORE], b'{"code": ' + b"9" * 9_000
    ),
}


@pytest.mark.parametrize("response", FINE.values(), ids=FINE)
def test_a_response_without_a_mistake_has_no_findings(
    server: CannedServer, response: Canned
) -> None:
    assert findings(check(server.respond("/old", response))) == {}


HEADS = {
    "another status": (Canned(405, ALL), "The status of HEAD is '405', of GET '200'."),
    "no sunset": (Canned(200, without(SUNSET)), "Sunset of HEAD is missing"),
    "one more link": (Canned(200, [*ALL, PAGE]), "Link of HEAD is"),
    "no response": (Canned(0), "HEAD has no response: Remote end closed connection"),
}


@pytest.mark.parametrize(("head", "difference"), HEADS.values(), ids=HEADS)
def test_a_different_response_to_head_is_a_warning(
    server: CannedServer, head: Canned, difference: str
) -> None:
    outcome = check(server.respond("/old", Canned(200, ALL), head=head))
    ((code, message),) = findings(outcome).items()
    assert (outcome.code, code) == (0, "head-differs")
    assert difference in message


@pytest.mark.parametrize(
    ("status", "is_reachable"),
    [
        (200, True),
        (301, True),
        (401, True),
        (404, False),
        (410, False),
        (503, False),
        (0, False),
    ],
)
def test_a_link_is_reachable_unless_missing_or_broken(
    server: CannedServer, status: int, is_reachable: bool
) -> None:
    server.respond("/new", Canned(status, [("Location", "/elsewhere")]))
    outcome = check(server.respond("/old", Canned(200, ALL)))
    assert ("link-unreachable" not in findings(outcome)) == is_reachable
    assert ("GET", "/elsewhere") not in server.requests


def links(lines: int, size: int, relation: str = "next") -> Headers:
    headers = []
    for line in range(lines):
        members = [f"</{line}/{number}>; rel={relation}" for number in range(size)]
        headers.append(("Link", ", ".join(members)))
    return headers


def test_twenty_links_are_called_at_most_and_those_of_the_retirement_first(
    server: CannedServer,
) -> None:
    headers = [*links(1, 30), *ALL, *links(1, 9, "sunset")]
    outcome = check(server.respond("/old", Canned(200, headers)))
    assert outcome.code == 3
    called = [path for _method, path in server.requests[2:]]
    assert called == ["/new", "/docs", *(f"/0/{number}" for number in range(18))]


HOSTILE: dict[str, tuple[int, Headers]] = {
    "links": (200, [*ALL, *links(56, 900)]),
    "links of the retirement": (200, links(8, 1_300, "deprecation")),
    "one link after the other": (200, [("Link", "<>;rel=a," * 7_000)] * 8),
    "quotation marks": (200, [("Link", '<>;rel="' + '\\"' * 30_000)] * 8),
    "semicolons": (200, [("Link", "<>" + ";" * 60_000)] * 8),
    "dates": (200, [("Deprecation", "9" * 60_000), ("Sunset", "Fri, " * 12_000)]),
    "lists": (200, [*HIDDEN[:1], (HIDDEN[1][0], "," * 60_000)]),
    "a long Location": (302, [("Location", "/" * 64_000)]),
    "a Location that is no URL": (302, [("Location", "http://\xff[:x/")]),
    "slashes": (302, [("Location", "/" * 7_900)]),
}


@pytest.mark.parametrize(("status", "headers"), HOSTILE.values(), ids=HOSTILE)
def test_hostility_ends_in_short_findings(
    server: CannedServer, status: int, headers: Headers, tmp_path: Path
) -> None:
    (tmp_path / "plan.toml").write_text(
        "deprecated_at = 2026-01-01T00:00:00Z\n"
        'operations = [{ name = "old", method = "GET", path = "/old" },'
        ' { name = "root", method = "GET", path = "/" }]\n',
        encoding="utf-8",
    )
    url = server.respond("/old", Canned(status, headers))
    secret = ("--header", "Authorization: Bearer s3cret")
    outcome = check(url, "--plan", tmp_path / "plan.toml", *secret)
    assert outcome.code == 3
    for finding in json.loads(outcome.out)["findings"]:
        assert len(finding["message"]) <= 1_003
    assert len(server.requests) <= 23


def test_a_check_ends_when_its_time_is_over(
    server: CannedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "flask_notifications.check.fetching.monotonic",
        lambda: 10.0 * len(server.requests),
    )
    server.respond("/docs", Canned(0))  # the fourth request
    url = server.respond("/old", Canned(200, [*ALL, *links(1, 9)]))
    monkeypatch.setattr("flask_notifications.check.fetching.TOTAL_LIMIT", 35)
    (finding,) = check_url(Fetcher(url), url).findings
    message = "10 links were not called, because the check had taken 35 seconds."
    assert (finding.code, finding.message) == ("link-unreachable", message)
    monkeypatch.setattr("flask_notifications.check.fetching.TOTAL_LIMIT", 0)
    with pytest.raises(Unreachable, match="the check had taken 0 seconds"):
        check_url(Fetcher(url), url)


def test_every_link_is_requested_once_and_without_a_fragment(
    server: CannedServer,
) -> None:
    again = (
        "Link",
        '</docs#dates>; rel="sunset", </new>; rel="alternate", <mailto:a@b.example>; rel="author"',
    )
    url = server.respond("/old", Canned(200, [*ALL, again]))
    assert findings(check(f"{url}#part")) == {}
    paths = [path for _method, path in server.requests]
    assert sorted(paths) == ["/docs", "/new", "/old", "/old"]


def test_a_410_with_a_body_that_does_not_end_is_a_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flask_notifications.check.fetching.TIME_LIMIT", 2.0)
    head = (
        "HTTP/1.1 410 Gone\r\nDeprecation: @1767225600\r\nCache-Control: no-store\r\n"
    )

    def respond(connection: socket, over: threading.Event) -> None:
        connection.sendall(f"{head}Content-Length: 500\r\n\r\n{{".encode())
        over.wait(60)

    with raw_server(respond) as url:
        outcome = check(url, "--method", "POST")
    assert (json.loads(outcome.out)["status"], outcome.code) == (410, 0)


# Redirects.


@pytest.mark.parametrize(("method", "status"), [("GET", 301), ("POST", 307)])
def test_a_redirect_without_an_announcement_is_followed(
    server: CannedServer, method: str, status: int
) -> None:
    moved = Canned(status, [("Location", "/old")])
    url = server.respond("/moved", moved, method=method)
    final = server.respond("/old", Canned(200, ALL), method=method)
    report = json.loads(check(url, "--method", method.lower()).out)
    assert report["final_url"] == final
    assert (report["url"], report["status"], report["findings"]) == (url, 200, [])
    assert (("HEAD", "/old") in server.requests) is (method == "GET")
    shown = run("check", url, "--method", method).out
    assert f"(redirected to {final}): 200" in " ".join(shown.split())


OTHER_REDIRECTS = {
    "one that changes POST": ("POST", "/old"),
    "one to another scheme": ("GET", "ftp://a/"),
    "one to an invalid address": ("GET", "http://[x"),
    "one to control characters": ("GET", "/x\x1b[2J y"),
    "one to a port without a server": ("GET", "http://127.0.0.1:1/"),
    "one to itself": ("GET", "/moved"),
}


@pytest.mark.parametrize(
    ("method", "location"), OTHER_REDIRECTS.values(), ids=OTHER_REDIRECTS
)
def test_any_other_redirect_is_checked(
    server: CannedServer, method: str, location: str
) -> None:
    moved = Canned(302, [("Location", location)])
    outcome = check(server.respond("/moved", moved, method=method), "--method", method)
    assert json.loads(outcome.out)["status"] == 302
    assert "deprecation-missing" in findings(outcome)


# Unreachable servers.


def unreachable(url: str) -> str:
    outcome = run("check", url)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(f"Error: {url} is not reachable: ")
    return outcome.err.partition(" is not reachable: ")[2].strip()


@pytest.mark.parametrize(
    ("respond", "reason"),
    [
        pytest.param(
            send_nothing, "no response within 0.3 seconds|timed out", id="silence"
        ),
        pytest.param(
            drip, "no response within 0.3 seconds", id="a response without end"
        ),
        pytest.param(
            send(b""), "Remote end closed connection without response", id="a hang-up"
        ),
        pytest.param(
            send(b"SSH-2.0-\x1b\r\n"),
            r"the response is not HTTP: 'SSH-2.0-.x1b'",
            id="another protocol",
        ),
        pytest.param(
            send(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200),
            "got more than 100 headers",
            id="many headers",
        ),
    ],
)
def test_the_exit_code_without_a_valid_response_is_1(
    respond: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flask_notifications.check.fetching.TIME_LIMIT", 0.3)
    with raw_server(respond) as url:
        assert re.search(reason, unreachable(url))


@contextmanager
def certified(issuer: trustme.CA, name: str) -> Iterator[str]:
    """Run a server at localhost with a certificate, and yield the URL of a response
    without mistakes.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issuer.issue_cert(name).configure_cert(context)
    with canned_server(context, "localhost") as server:
        yield server.respond("/old", Canned(200, ALL))


def test_only_a_valid_certificate_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    with certified(authority, "localhost") as url:
        assert findings(check(url, "--no-links")) == {}
    for issuer, name, reason in (
        (trustme.CA(), "localhost", "unable to get local issuer|self-signed"),
        (authority, "other.example", "[Hh]ostname mismatch"),
    ):
        with certified(issuer, name) as url:
            message = unreachable(url)
        assert re.search(f"certificate verify failed: .*({reason})", message)


def test_the_exit_code_for_https_at_a_port_of_http_is_1(server: CannedServer) -> None:
    url = f"https{server.url.removeprefix('http')}/old"
    assert "SSL" in unreachable(url)


# Credentials.

SECRET = "a11ce000-0000-4000-8000-000000000001"  # noqa: S105 - of the example


def test_headers_are_sent_only_to_the_origin_of_the_url(server: CannedServer) -> None:
    headers = ["--header", "X-Tenant:\t7", "--header", f"Cookie: a={SECRET}"]
    headers += ["--header", "Cookie: b=2"]
    with canned_server() as foreign:
        foreign.respond("/old", Canned(200, ALL))
        link = ("Link", f'<{foreign.url}/old>; rel="sunset"')
        url = server.respond("/old", Canned(200, [*ALL, link]))
        assert findings(check(url, *headers)) == {}
        assert len(server.received) == 4
        for request in server.received:
            assert (request["x-tenant"], request["user-agent"]) == ("7", PROBE)
            assert request["cookie"] == f"a={SECRET}; b=2"
        moved = Canned(302, [("Location", f"{foreign.url}/old")])
        run("check", server.respond("/moved", moved), *headers)
        assert len(foreign.received) > 1
        for request in foreign.received:
            assert not {"x-tenant", "cookie"} & request.keys()


@pytest.mark.parametrize("output", ["text", "json"])
def test_no_credential_is_ever_shown(server: CannedServer, output: str) -> None:
    echoed = [
        ("Deprecation", f"Bearer {SECRET}"),
        ("Sunset", SECRET),
        ("Link", f"</new?key={SECRET}>"),
        ("Link", f'</nowhere?key={SECRET}>; rel="deprecation"'),
    ]
    moved = Canned(302, [("Location", f"/old?key={SECRET}")])
    head = Canned(500, [("Link", SECRET)])
    server.respond("/old", moved)
    server.respond(f"/old?key={SECRET}", Canned(200, echoed), head=head)
    arguments = ["--header", f"Authorization: Bearer {SECRET}", "--header"]
    arguments += ["X-Key: s3cret", "--format", output]
    for path in ("/old", "/old?sessionId=s3ss10n", "/old?key=s3cret"):
        outcome = run("check", f"{server.url}{path}", *arguments)
        assert outcome.code == 3
        assert not re.search(f"{SECRET}|s3cret|s3ss10n", outcome.out + outcome.err)
    down = f"http://127.0.0.1:{free_port()}"
    outcome = run("check", f"{down}/{SECRET}?sessionId=s3ss10n", *arguments)
    message = f"Error: {down}/REDACTED?sessionId=REDACTED is not reachable: Connection refused\n"
    assert outcome == (1, "", message)
    for place in (75, 795):  # near the places where a message may be cut
        with raw_server(send(b"x" * place + SECRET.encode() + b"\r\n" * 2)) as url:
            assert SECRET[:4] not in run("check", url, *arguments).err


# A header, how a server repeats its value, and what must not be shown.
ECHOES = {
    "a backslash": (r"X-Key: pa\55word-s3cret", r"pa\55word-s3cret", "word-s3cret"),
    "both quotes": ('X-Key: it\'s"quoted"-s3cret', 'it\'s"quoted"-s3cret', "quoted"),
    "a soft hyphen": ("X-Key: soft\xadhyphen", "soft\xadhyphen", "hyphen"),
    "another letter": ("X-Key: s\xe9cr\xe8t", "/s%c3%a9cr%c3%a8t", "%"),
    "lower-case hexadecimal digits": (
        "Authorization: Bearer a+b/cdEFGH",
        "</x?a%2bb%2fcdEFGH>; rel=a",
        "EFGH",
    ),
    "lower case": ("Authorization: Bearer aBcDeFgH", "bearer abcdefgh", "abcd"),
    "a target that is shortened": ("X-Key: ab//cdef==", "<ab//cdef==>; rel=a", "cdef"),
    "the end of a link": ("X-Key: <a>s3cret", "<a>s3cret", "s3cret"),
}


@pytest.mark.parametrize(("header", "echo", "secret"), ECHOES.values(), ids=ECHOES)
def test_no_credential_is_shown_in_another_spelling(
    server: CannedServer, header: str, echo: str, secret: str
) -> None:
    headers = [("Deprecation", echo), ("Sunset", echo), ("Link", echo)]
    url = server.respond("/old", Canned(200, headers))
    for output in ("text", "json"):
        outcome = run("check", url, "--header", header, "--format", output)
        assert "REDACTED" in outcome.out
        assert not re.search(secret, outcome.out, re.IGNORECASE)


@pytest.mark.parametrize("header", ["Host: {host}", "Accept-Language: de", "X-Key: 7"])
def test_a_header_that_a_url_has_a_part_of_leaves_the_report_readable(
    server: CannedServer, header: str
) -> None:
    url = server.respond("/de/old", Canned(200, ALL))
    host = server.url.removeprefix("http://")
    report = json.loads(check(url, "--header", header.format(host=host)).out)
    assert (report["url"], report["findings"]) == (url, [])
    assert report["headers"] == [list(header) for header in ALL]


@pytest.mark.parametrize(
    "header",
    [
        "Authorization",
        f"Authorization {SECRET}",
        f"A B: {SECRET}",
        f"X: {SECRET}\r\nY: z",
        "X: ",
        f"X: {SECRET}\u20ac",
    ],
)
def test_an_invalid_header_is_a_wrong_argument_and_not_shown(header: str) -> None:
    assert_wrong_header(run("check", "http://a.example", "--header", header))


def assert_wrong_header(outcome: Outcome) -> None:
    assert (outcome.code, outcome.out) == (2, "")
    assert "'Name: value'" in outcome.err
    assert SECRET not in outcome.err


def test_an_invalid_header_of_a_file_or_the_environment_is_not_shown_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "headers").write_text(f"X {SECRET}", encoding="utf-8")
    file = f"@{tmp_path / 'headers'}"
    assert_wrong_header(run("check", "http://a.example", "--header", file))
    monkeypatch.setenv("FLASK_NOTIFICATIONS_HEADERS", f"X {SECRET}")
    assert_wrong_header(run("check", "http://a.example"))


def test_headers_come_from_files_standard_input_and_the_environment_too(
    server: CannedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "headers"
    content = f"Authorization: Bearer {SECRET}\r\n\nUser-Agent: a/1\n"
    file.write_text(content, encoding="utf-8-sig")
    monkeypatch.setenv("FLASK_NOTIFICATIONS_HEADERS", "X-B: 2\nX-C: 3")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"X-D: 4\n")))
    url = server.respond("/old", Canned(200, [*ALL, ("Link", f"</{SECRET}>; rel=a")]))
    outcome = run("check", url, "--header", f"@{file}", "--header", "@-")
    assert SECRET not in outcome.out
    expected = {"x-b": "2", "x-c": "3", "x-d": "4", "user-agent": f"{PROBE} a/1"}
    expected["authorization"] = f"Bearer {SECRET}"
    assert expected.items() <= server.received[0].items()
    missing = run("check", url, "--header", f"@{tmp_path / 'missing'}")
    assert "does not exist" in missing.err
