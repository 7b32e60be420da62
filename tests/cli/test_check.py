"""The command ``check`` against real servers: each code, unreachable servers, and credentials."""

import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import socket
from typing import Any

import pytest
import trustme

from tests.cli.commands import Outcome, run
from tests.cli.servers import Canned, CannedServer, Headers, canned_server, drip, raw_server, send, send_nothing
from tests.servers.process import free_port

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
    for records in (shared_server.responses, shared_server.requests, shared_server.received):
        records.clear()
    shared_server.respond("/new", Canned(405))
    shared_server.respond("/docs", Canned(200))
    return shared_server


def findings(outcome: Outcome) -> dict[str, str]:
    """Check that each code of a report is there once and has its level, and return the messages by code."""
    assert all(finding["level"] == CODES[finding["code"]] for finding in json.loads(outcome.out)["findings"])
    found = [(finding["code"], finding["message"]) for finding in json.loads(outcome.out)["findings"]]
    assert len(dict(found)) == len(found), found
    return dict(found)


def errors(outcome: Outcome) -> list[str]:
    """Return the codes of the errors of a report."""
    return [finding["code"] for finding in json.loads(outcome.out)["findings"] if finding["level"] == "error"]


def check(*arguments: Any) -> Outcome:
    outcome = run("check", *arguments, "--format", "json")
    assert outcome.err == ""
    return outcome


def without(*removed: tuple[str, str]) -> Headers:
    return [header for header in ALL if header not in removed]


def test_a_response_that_announces_everything_has_no_findings(server: CannedServer) -> None:
    url = server.respond("/old", Canned(200, ALL))
    outcome = check(url)
    assert outcome.code == 0
    assert json.loads(outcome.out) == {"schema": 1, "url": url, "status": 200, "findings": []}
    assert server.requests == [("GET", "/old"), ("HEAD", "/old"), ("GET", "/new"), ("GET", "/docs")]


def test_a_report_for_people_shows_the_headers_and_each_finding(server: CannedServer) -> None:
    url = server.respond("/old", Canned(200, without(SUCCESSOR, DEPRECATION)))
    outcome = run("check", url)
    lines = outcome.out.splitlines()
    assert (outcome.code, outcome.err) == (3, "")
    assert lines[:4] == [f"GET {url}: 200", f"  Sunset: {SUNSET[1]}", f"  Link: {PAGE[1]}", ""]
    assert lines[4].startswith("error: deprecation-missing: There is no Deprecation header. ")
    assert lines[5].startswith("info: successor-missing: ")
    assert lines[6:] == ["1 error, 0 warnings"]


def test_what_a_server_sends_cannot_control_the_terminal(server: CannedServer) -> None:
    hostile = [("Deprecation", "@1\x1b]0;x\x07\x1b[2J"), ("Sunset", "folded\r\n line"), ("Link", "<\x1b[31mx>; rel=a")]
    outcome = run("check", server.respond("/old", Canned(200, hostile)))
    assert outcome.code == 3
    assert all(character.isprintable() or character == "\n" for character in outcome.out)
    assert outcome.out.splitlines()[1:4] == [
        r"  Deprecation: @1\x1b]0;x\x07\x1b[2J",
        r"  Sunset: folded\r\n line",
        r"  Link: <\x1b[31mx>; rel=a",
    ]
    with raw_server(send(b"\x1b[2J\r\n")) as url:
        assert run("check", url).err == f"Error: {url} is not reachable: \\x1b[2J\n"


# Every code and its level, which stay the same in all versions.
CODES = {
    "deprecation-missing": "error",
    "deprecation-invalid": "error",
    "deprecation-repeated": "error",
    "sunset-invalid": "error",
    "sunset-repeated": "error",
    "sunset-before-deprecation": "error",
    "link-invalid": "error",
    "link-unreachable": "error",
    "successor-missing": "info",
    "documentation-missing": "info",
    "gone-cacheable": "error",
    "gone-without-retry-after": "info",
    "cors-not-exposed": "warning",
    "head-differs": "warning",
    "plan-differs": "error",
}

# The headers of a response; the code that is reported, and the advice and the RFC in its message.
CASES = {
    "no announcement of the date": (without(DEPRECATION), "deprecation-missing", "Send the date of the", "9745"),
    "true": ([("Deprecation", "true"), *without(DEPRECATION)], "deprecation-invalid", "'@'", "9745"),
    "an HTTP-date": (
        [("Deprecation", "Thu, 01 Jan 2026 00:00:00 GMT"), *without(DEPRECATION)],
        "deprecation-invalid",
        "send '@1767225600'",
        "9745",
    ),
    "seconds without @": (
        [("Deprecation", "1767225600"), *without(DEPRECATION)],
        "deprecation-invalid",
        "send '@1767225600'",
        "9745",
    ),
    "an ISO date for the deprecation": (
        [("Deprecation", "2026-01-01T02:00:00+02:00"), *without(DEPRECATION)],
        "deprecation-invalid",
        "send '@1767225600'",
        "9745",
    ),
    "the same deprecation twice": ([DEPRECATION, *ALL], "deprecation-repeated", "Send one", "9745"),
    "a sunset in UTC": (
        [("Sunset", "Thu, 01 Jul 2027 00:00:00 UTC"), *without(SUNSET)],
        "sunset-invalid",
        "send 'Thu, 01 Jul 2027 00:00:00 GMT'",
        "8594",
    ),
    "a wrong weekday": (
        [("Sunset", "Fri, 01 Jul 2027 00:00:00 GMT"), *without(SUNSET)],
        "sunset-invalid",
        "Thu",
        "8594",
    ),
    "an ISO date for the sunset": (
        [("Sunset", "2027-07-01"), *without(SUNSET)],
        "sunset-invalid",
        "send 'Thu, 01 Jul 2027 00:00:00 GMT'",
        "8594",
    ),
    "a sunset as in a deprecation": (
        [("Sunset", "@1814400000"), *without(SUNSET)],
        "sunset-invalid",
        "send 'Thu, 01 Jul 2027 00:00:00 GMT'",
        "8594",
    ),
    "two sunsets": ([SUNSET, *ALL], "sunset-repeated", "Send one", "8594"),
    "a sunset before the deprecation": (
        [("Sunset", "Wed, 31 Dec 2025 23:59:59 GMT"), *without(SUNSET)],
        "sunset-before-deprecation",
        "Send a later Sunset",
        "9745",
    ),
    "a link without brackets": ([("Link", '/x; rel="next"'), *ALL], "link-invalid", "begins with its target", "8288"),
    "a link without a relation": ([("Link", "</docs>"), *ALL], "link-invalid", "needs one rel", "8288"),
    "a link with a space in it": (
        [("Link", '</a b>; rel="next"'), *ALL],
        "link-invalid",
        "not a URI reference",
        "8288",
    ),
    "a successor with its parameter": ([("Link", '</v2/{id}>; rel="x"'), *ALL], "link-invalid", "not a URI", "8288"),
    "a link that leads to 404": ([("Link", '</gone>; rel="next"'), *ALL], "link-unreachable", "is 404", "8288"),
    "no successor": (without(SUCCESSOR), "successor-missing", "Link to what replaces", "5829"),
    "a successor of another resource": (
        [("Link", f'{SUCCESSOR[1]}; anchor="/other"'), *without(SUCCESSOR)],
        "successor-missing",
        "Link to what replaces",
        "5829",
    ),
    "no page": (without(PAGE), "documentation-missing", "Link to a page", "9745"),
    "hidden from scripts": (
        [("Access-Control-Allow-Origin", "*"), ("Access-Control-Expose-Headers", "Sunset, link"), *ALL],
        "cors-not-exposed",
        "Add them to Access-Control-Expose-Headers",
        "Fetch",
    ),
    "exposed with a wildcard that credentials make literal": (
        [
            ("Access-Control-Allow-Origin", "https://a.example"),
            ("Access-Control-Allow-Credentials", "true"),
            ("Access-Control-Expose-Headers", "*"),
            *ALL,
        ],
        "cors-not-exposed",
        "Deprecation, Sunset, Link",
        "Fetch",
    ),
}


@pytest.mark.parametrize(("headers", "code", "advice", "section"), CASES.values(), ids=CASES)
def test_a_mistake_has_its_code_and_says_what_to_change(
    server: CannedServer, headers: Headers, code: str, advice: str, section: str
) -> None:
    outcome = check(server.respond("/old", Canned(200, headers)))
    found = findings(outcome)
    assert list(found) == [code]
    assert advice in found[code]
    assert section in found[code]
    assert outcome.code == (3 if CODES[code] == "error" else 0)


GONE = [*ALL, NO_STORE, ("Retry-After", "60")]


@pytest.mark.parametrize(
    ("headers", "codes", "exit_code"),
    [
        pytest.param(GONE, [], 0, id="a brownout"),
        pytest.param([*ALL, NO_STORE], ["gone-without-retry-after"], 0, id="a sunset"),
        pytest.param([*ALL, ("Retry-After", "60")], ["gone-cacheable"], 3, id="a brownout that caches keep"),
        pytest.param(
            [*ALL, ("Cache-Control", "max-age=9"), ("Retry-After", "60")], ["gone-cacheable"], 3, id="for nine seconds"
        ),
        pytest.param([*ALL], ["gone-cacheable", "gone-without-retry-after"], 3, id="neither"),
    ],
)
def test_a_410_must_not_be_cached_and_should_say_when_to_retry(
    server: CannedServer, headers: Headers, codes: list[str], exit_code: int
) -> None:
    outcome = check(server.respond("/old", Canned(410, headers)))
    assert (list(findings(outcome)), outcome.code) == (codes, exit_code)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param([("Access-Control-Expose-Headers", "Deprecation, Sunset, Link")], id="no script may read it"),
        pytest.param(
            [("Access-Control-Allow-Origin", "*"), ("Access-Control-Expose-Headers", "*")],
            id="all scripts may read all",
        ),
        pytest.param(
            [("Access-Control-Allow-Origin", "*"), ("Access-Control-Expose-Headers", "link,SUNSET, deprecation")],
            id="the three names",
        ),
    ],
)
def test_cors_that_exposes_the_announcement_is_fine(server: CannedServer, more: Headers) -> None:
    assert findings(check(server.respond("/old", Canned(200, [*ALL, *more])))) == {}


@pytest.mark.parametrize(
    ("head", "difference"),
    [
        pytest.param(Canned(405, ALL), "status of HEAD is 405, that of GET 200", id="another status"),
        pytest.param(Canned(200, without(SUNSET)), "Sunset of HEAD is missing", id="no sunset"),
        pytest.param(Canned(200, [*ALL, PAGE]), "Link of HEAD is", id="one more link"),
        pytest.param(Canned(0), "HEAD has no response: Remote end closed connection", id="no response"),
    ],
)
def test_a_different_response_to_head_is_a_warning(server: CannedServer, head: Canned, difference: str) -> None:
    outcome = check(server.respond("/old", Canned(200, ALL), head=head))
    assert difference in findings(outcome)["head-differs"]
    assert (len(findings(outcome)), outcome.code) == (1, 0)


def test_head_is_not_sent_for_other_methods(server: CannedServer) -> None:
    outcome = check(server.respond("/old", Canned(200, ALL), method="POST"), "--method", "post")
    assert (findings(outcome), outcome.code) == ({}, 0)
    assert server.requests[0] == ("POST", "/old")
    assert ("HEAD", "/old") not in server.requests


@pytest.mark.parametrize(
    ("status", "is_reachable"),
    [(200, True), (301, True), (401, True), (405, True), (404, False), (410, False), (503, False)],
)
def test_a_link_is_reachable_unless_its_target_is_missing_or_broken(
    server: CannedServer, status: int, is_reachable: bool
) -> None:
    server.respond("/new", Canned(status, [("Location", "/elsewhere")]))
    outcome = check(server.respond("/old", Canned(200, ALL)))
    assert list(findings(outcome)) == ([] if is_reachable else ["link-unreachable"])
    assert ("GET", "/elsewhere") not in server.requests


def test_a_link_to_a_server_that_is_down_is_unreachable(server: CannedServer) -> None:
    link = ("Link", f'<http://127.0.0.1:{free_port()}/policy>; rel="sunset"')
    found = findings(check(server.respond("/old", Canned(200, [*ALL, link]))))
    assert "Connection refused" in found["link-unreachable"]


def test_every_link_is_requested_once(server: CannedServer) -> None:
    again = [
        ("Link", '</docs#dates>; rel="sunset", </new>; rel="alternate"'),
        ("Link", '<mailto:a@b.example>; rel="author"'),
    ]
    assert findings(check(server.respond("/old", Canned(200, [*ALL, *again])))) == {}
    assert sorted(server.requests[2:]) == [("GET", "/docs"), ("GET", "/new")]


def raw_response(status: str, *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "\r\n"]).encode()


@pytest.mark.parametrize(
    ("interim", "status"),
    [
        pytest.param(["103 Early Hints"], 200, id="early hints"),
        pytest.param(["102 Processing", "103 Early Hints", "100 Continue", "103 Early Hints"], 200, id="several"),
        pytest.param(["101 Switching Protocols"], 101, id="another protocol, which is final"),
    ],
)
def test_an_interim_response_is_not_taken_for_the_final_one(interim: list[str], status: int) -> None:
    first = [raw_response(line, "Link: </s.css>") for line in interim]
    final = raw_response("200 OK", *(f"{name}: {value}" for name, value in [DEPRECATION, SUNSET]))
    with raw_server(send(b"".join([*first, final]))) as url:
        outcome = check(url, "--method", "POST")
    assert (json.loads(outcome.out)["status"], outcome.code) == (status, 0 if status == 200 else 3)
    assert ("link-invalid" in findings(outcome)) == (status == 101)


def test_white_space_around_a_value_is_no_part_of_it(server: CannedServer) -> None:
    url = server.respond("/old", Canned(200, [(name, f"\t{value} \t ") for name, value in ALL]))
    assert json.loads(check(url).out)["findings"] == []


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        pytest.param(["Transfer-Encoding: chunked"], b"2\r\n{}\r\nx\r\n", id="a broken chunk"),
        pytest.param(["Content-Length: 500"], b"{", id="less than its length", marks=pytest.mark.slow),
    ],
)
def test_a_410_with_a_body_that_does_not_end_is_a_response(headers: list[str], body: bytes) -> None:
    announced = [f"{name}: {value}" for name, value in [DEPRECATION, SUNSET, NO_STORE]]

    def respond(connection: socket, over: threading.Event) -> None:
        connection.sendall(raw_response("410 Gone", *announced, *headers) + body)
        over.wait(60)

    with raw_server(respond) as url:
        outcome = check(url, "--method", "POST", "--timeout", "5")
    assert (json.loads(outcome.out)["status"], outcome.code) == (410, 0)


# Redirects.


@pytest.mark.parametrize(("method", "status"), [("GET", 301), ("GET", 302), ("GET", 303), ("GET", 308), ("POST", 307)])
def test_a_redirect_without_an_announcement_is_followed(server: CannedServer, method: str, status: int) -> None:
    url = server.respond("/moved", Canned(status, [("Location", "/old")]), method=method)
    final = server.respond("/old", Canned(200, ALL), method=method)
    outcome = check(url, "--method", method)
    assert findings(outcome) == {}
    assert (json.loads(outcome.out)["url"], json.loads(outcome.out)["status"]) == (url, 200)
    assert f"(redirected to {final}): 200" in run("check", url, "--method", method).out


@pytest.mark.parametrize(
    ("method", "response", "codes"),
    [
        pytest.param("GET", Canned(302, [("Location", "/old"), *ALL]), [], id="one that announces"),
        pytest.param("POST", Canned(302, [("Location", "/old")]), ["deprecation-missing"], id="one that changes POST"),
        pytest.param("GET", Canned(302), ["deprecation-missing"], id="one without a target"),
        pytest.param(
            "GET", Canned(302, [("Location", "ftp://a/")]), ["deprecation-missing"], id="one to another scheme"
        ),
        pytest.param(
            "GET", Canned(302, [("Location", "http://[x")]), ["deprecation-missing"], id="one to an invalid address"
        ),
        pytest.param("GET", Canned(302, [("Location", "/moved")]), ["deprecation-missing"], id="one to itself"),
    ],
)
def test_any_other_redirect_is_itself_the_response_that_is_checked(
    server: CannedServer, method: str, response: Canned, codes: list[str]
) -> None:
    outcome = check(server.respond("/moved", response, method=method), "--method", method)
    assert json.loads(outcome.out)["status"] == 302
    assert errors(outcome) == codes


# Unreachable servers.


def unreachable(url: str, *arguments: Any) -> str:
    outcome = run("check", url, "--timeout", "0.3", *arguments)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(f"Error: {url} is not reachable: ")
    return outcome.err.partition(" is not reachable: ")[2].strip()


def test_the_exit_code_for_a_closed_port_is_1() -> None:
    assert unreachable(f"http://127.0.0.1:{free_port()}/old") == "Connection refused"


def test_the_exit_code_for_an_unknown_host_name_is_1() -> None:
    assert unreachable("http://nobody.invalid/old", "--timeout", "20")


@pytest.mark.parametrize(
    ("respond", "reason"),
    [
        pytest.param(send_nothing, "no response within 0.3 seconds|timed out", id="silence"),
        pytest.param(drip, "no response within 0.3 seconds", id="a response without end"),
        pytest.param(send(b""), "Remote end closed connection without response", id="a hang-up"),
        pytest.param(send(b"SSH-2.0-OpenSSH\r\n"), "SSH-2.0-OpenSSH", id="another protocol"),
        pytest.param(send(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200), "got more than 100 headers", id="many headers"),
    ],
)
def test_the_exit_code_without_a_valid_response_is_1(
    respond: Callable[[socket, threading.Event], None], reason: str
) -> None:
    with raw_server(respond) as url:
        assert re.search(reason, unreachable(url))


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def context_of(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


@pytest.fixture
def trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[trustme.CA], None]:
    """Return a function that makes clients trust an authority."""

    def trust_authority(authority: trustme.CA) -> None:
        authority.cert_pem.write_to_path(tmp_path / "authority.pem")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))

    return trust_authority


def test_a_valid_certificate_is_accepted(authority: trustme.CA, trust: Callable[[trustme.CA], None]) -> None:
    trust(authority)
    with canned_server(context_of(authority.issue_cert("localhost")), "localhost") as server:
        server.respond("/new", Canned())
        server.respond("/docs", Canned())
        assert findings(check(server.respond("/old", Canned(200, ALL)))) == {}


@pytest.mark.parametrize(
    ("name", "is_trusted", "reason"),
    [("localhost", False, "unable to get local issuer|self-signed"), ("other.example", True, "[Hh]ostname mismatch")],
    ids=["of an unknown authority", "for another name"],
)
def test_the_exit_code_for_an_invalid_certificate_is_1(
    authority: trustme.CA, name: str, is_trusted: bool, reason: str, trust: Callable[[trustme.CA], None]
) -> None:
    if is_trusted:
        trust(authority)
    with canned_server(context_of(authority.issue_cert(name)), "localhost") as server:
        message = unreachable(server.respond("/old", Canned(200, ALL)), "--timeout", "10")
    assert re.fullmatch(rf"the certificate is not valid: .*({reason}).*", message)


def test_the_exit_code_for_https_at_a_port_of_http_is_1(server: CannedServer) -> None:
    assert unreachable(f"https{server.url.removeprefix('http')}/old", "--timeout", "10").startswith("TLS failed: ")


# Credentials.

SECRET = "a11ce000-0000-4000-8000-000000000001"  # noqa: S105 - of the example


def test_headers_are_sent_only_to_the_origin_of_the_url(server: CannedServer) -> None:
    with canned_server() as other:
        other.respond("/page", Canned(200))
        elsewhere = ("Link", f'<{other.url}/page>; rel="sunset"')
        url = server.respond("/old", Canned(200, [*ALL, elsewhere]))
        arguments = ["--header", f"Authorization: Bearer {SECRET}", "--header", "X-Tenant:\t7"]
        assert findings(check(url, *arguments)) == {}
        assert [sent.get("authorization") for sent in server.received] == [f"Bearer {SECRET}"] * 4
        assert {sent["x-tenant"] for sent in server.received} == {"7"}
        assert [("authorization" in sent, "x-tenant" in sent) for sent in other.received] == [(False, False)]


def test_headers_are_not_sent_to_another_origin_after_a_redirect(server: CannedServer) -> None:
    with canned_server() as other:
        other.respond("/old", Canned(200, ALL))
        url = server.respond("/old", Canned(302, [("Location", f"{other.url}/old")]))
        run("check", url, "--header", f"Cookie: a={SECRET}", "--header", "Cookie: b=2")
        assert server.received[0]["cookie"] == f"a={SECRET}; b=2"
        assert other.requests
        assert not any("cookie" in sent for sent in other.received)


@pytest.mark.parametrize("output", ["text", "json"])
def test_no_credential_is_ever_shown(server: CannedServer, output: str) -> None:
    echoed = [
        ("Deprecation", f"Bearer {SECRET}"),
        ("Sunset", SECRET),
        ("Link", f"</new?key={SECRET}>"),
        ("Link", f'</nowhere?key={SECRET}>; rel="deprecation"'),
        ("Location", f"/old?key={SECRET}"),
    ]
    server.respond("/old", Canned(302, echoed[-1:]))
    server.respond(f"/old?key={SECRET}", Canned(200, echoed), head=Canned(500, [("Link", SECRET)]))
    arguments = ["--header", f"Authorization: Bearer {SECRET}", "--header", "X-Key: s3cret", "--format", output]
    for path in ("/old", "/old?sessionId=s3ss10n", "/old?key=s3cret"):
        outcome = run("check", f"{server.url}{path}", *arguments)
        assert outcome.code == 3
        for secret in (SECRET, "s3cret", "s3ss10n"):
            assert secret not in outcome.out + outcome.err
    outcome = run("check", f"http://127.0.0.1:{free_port()}/{SECRET}?sessionId=s3ss10n", *arguments)
    assert outcome.code == 1
    assert not re.search(f"{SECRET}|s3ss10n", outcome.err)


# A header, how a server repeats its value, and what must not be shown.
ECHOES = {
    "a backslash": (r"X-Key: pa\55word-s3cret", r"pa\55word-s3cret", "word-s3cret"),
    "both quotes": ('X-Key: it\'s"quoted"-s3cret', 'it\'s"quoted"-s3cret', "quoted"),
    "a soft hyphen": ("X-Key: soft\xadhyphen", "soft\xadhyphen", "hyphen"),
    "another letter": ("X-Key: s\xe9cr\xe8t", "/s%e9cr%c3%a8t", "%"),
    "three characters": ("X-Key: k7!", "<k7!>", "k7"),
    "lower-case hexadecimal digits": ("Authorization: Bearer a+b/cdEFGH", "</x?a%2bb%2fcdEFGH>; rel=a", "EFGH"),
    "lower case": ("Authorization: Bearer aBcDeFgH", "bearer abcdefgh", "abcd"),
    "a target that is shortened": ("X-Key: ab//cdef==", "<ab//cdef==>; rel=a", "cdef"),
    "the end of a link": ("X-Key: <a>s3cret", "<a>s3cret", "s3cret"),
    "the password": ("Authorization: Basic YWxpY2U6aHVudGVyMg==", "hunter2", "hunter2"),
    "a password without padding": ("Authorization: basic YWxpY2U6aHVudGVyMg", "alice:hunter2", "alice|hunter2"),
    "no password": ("Authorization: Basic YWxpY2U6", "alice", "alice"),
    "no Base64": ("Authorization: Basic s3cre", "Basic s3cre", "s3cre"),
}


@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize(("header", "echo", "secret"), ECHOES.values(), ids=ECHOES)
def test_no_credential_is_shown_in_another_spelling(
    server: CannedServer, header: str, echo: str, secret: str, output: str
) -> None:
    url = server.respond("/old", Canned(200, [(name, echo) for name in ("Deprecation", "Sunset", "Link")]))
    outcome = run("check", url, "--header", header, "--format", output)
    assert outcome.code == 3
    assert "REDACTED" in outcome.out
    assert not re.search(secret, outcome.out, re.IGNORECASE)


@pytest.mark.parametrize("header", ["Origin: {url}", "Host: {host}", "Accept-Language: de", "X-Tenant: 7"])
def test_a_header_that_a_url_has_a_part_of_leaves_the_report_readable(server: CannedServer, header: str) -> None:
    url = server.respond("/de/old", Canned(200, ALL))
    outcome = check(url, "--header", header.format(url=server.url, host=server.url.removeprefix("http://")))
    assert json.loads(outcome.out) == {"schema": 1, "url": url, "status": 200, "findings": []}
    headers = run("check", url, "--header", "X-Tenant: 7").out.splitlines()[1:3]
    assert headers == [f"  {name}: {value}" for name, value in (DEPRECATION, SUNSET)]


@pytest.mark.parametrize(
    "header",
    ["Authorization", f"Authorization {SECRET}", f"A B: {SECRET}", f"X: {SECRET}\r\nY: z", "X: ", f"X: {SECRET}\u20ac"],
)
def test_an_invalid_header_is_a_wrong_argument_and_not_shown(header: str, server: CannedServer) -> None:
    outcome = run("check", f"{server.url}/old", "--header", header)
    assert (outcome.code, outcome.out, server.requests) == (2, "", [])
    assert "'Name: value'" in outcome.err
    assert SECRET not in outcome.err


def test_the_user_agent_begins_with_the_name_of_the_canary(server: CannedServer) -> None:
    url = server.respond("/old", Canned(200, ALL))
    check(url)
    check(url, "--header", "User-Agent: nightly/2")
    agents = [sent["user-agent"] for sent in server.received]
    assert agents == ["flask-notifications-check"] * 4 + ["flask-notifications-check nightly/2"] * 4


@pytest.mark.parametrize(
    "url",
    [
        "",
        "old",
        "/old",
        "ftp://example.com/old",
        "http://",
        "http://[x/",
        "http://a.example:0/",
        "http://a.example:70000/",
        "http://user:s3cret@a.example/old",
        "http://a.example/a b",
        "http://a.example/\u20ac",
    ],
)
def test_a_url_that_cannot_be_called_is_a_wrong_argument(url: str) -> None:
    outcome = run("check", url)
    assert (outcome.code, outcome.out) == (2, "")
    assert "s3cret" not in outcome.err


def test_a_wrong_method_is_named() -> None:
    assert "'G T' is not an HTTP method" in run("check", "http://a.example/", "--method", "G T").err


@pytest.mark.parametrize(
    "arguments", [["--method", "G T"], ["--timeout", "0"], ["--timeout", "soon"], ["--plan", "missing.toml"]]
)
def test_the_exit_code_for_wrong_options_is_2(arguments: list[str], server: CannedServer) -> None:
    assert run("check", f"{server.url}/old", *arguments).code == 2
    assert server.requests == []


def test_a_fragment_is_not_sent(server: CannedServer) -> None:
    assert check(server.respond("/old", Canned(200, ALL)) + "#part").code == 0
    assert server.requests[0] == ("GET", "/old")
