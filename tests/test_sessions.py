"""One session, however it is sent: what counts as one, where it is left, and where it can no longer be seen."""

import json
import logging
import re
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from pprint import pformat
from typing import Any
from urllib.parse import parse_qsl

import orjson
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from flask_notifications import (
    DeprecationMiddleware,
    DeprecationPolicy,
    Operation,
    SessionCredential,
    SessionLogFilter,
    SessionRefused,
    load_policy,
    session_of,
)
from tests.wsgi import Answer, environ_of, run

SESSION = "flask_notifications.session"
A = "4f2c1e9a7b3d4c5e8f6a0b1c2d3e4f50"
B = "b7e23ec29af22b0b4e41da31e868d572"
LONGEST = "A" * 4096

POLICY: DeprecationPolicy = load_policy({"deprecated_at": "2026-01-01T00:00:00Z"})
PAGES = [Operation(method.lower(), method, "/{page}") for method in ("GET", "POST", "PUT", "PATCH", "DELETE")]

# What a request comes to: no session, the session and where it stood, or the status and code of the refusal.
Outcome = tuple[str, str] | tuple[int, str] | None
AMBIGUOUS = (400, "invalid_request")
MALFORMED = (401, "invalid_token")


class Recorder:
    """An application that notes what it is called with, and what session that request has."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.session: SessionCredential | None = None

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        self.seen.append(dict(environ))
        self.session = session_of(environ)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"ok"]


def claim(environ: dict[str, Any], **options: Any) -> tuple[Recorder, Answer]:
    """Send a request through the middleware, every operation of which is claimed."""
    app = Recorder()
    return app, run(DeprecationMiddleware(app, POLICY, operations=PAGES, **options), environ)


def request(query: str | None = "", header: str | None = None, **extra: Any) -> dict[str, Any]:
    """Return the environ of a request to a claimed page; ``None`` stands for a key that is absent."""
    environ = environ_of("GET", "/p", query or "", **extra)
    if query is None:
        del environ["QUERY_STRING"]
    if header is not None:
        environ["HTTP_AUTHORIZATION"] = header
    return environ


def resolved(environ: dict[str, Any]) -> Outcome:
    try:
        session = session_of(environ)
    except SessionRefused as refused:
        return refused.status, refused.code
    return None if session is None else (session.value, session.source)


def outcome(environ: dict[str, Any]) -> Outcome:
    """Return what a request comes to, which is the same with and without the middleware."""
    alone = resolved(environ)
    app, answer = claim(environ)
    if isinstance(alone, tuple) and isinstance(alone[0], int):
        assert (answer.code, answer.json["code"], app.seen) == (*alone, [])
    else:
        assert len(app.seen) == 1
        assert (app.session and (app.session.value, app.session.source)) == alone
    return alone


@pytest.mark.parametrize(
    ("query", "header", "expected"),
    [
        pytest.param("", None, None, id="nothing"),
        pytest.param(None, None, None, id="no query string at all"),
        pytest.param("", "", None, id="an empty header"),
        pytest.param("", " \t ", None, id="a header of white space"),
        # The query.
        pytest.param(f"sessionId={A}", None, (A, "query"), id="query"),
        pytest.param(f"sessionid={A}", None, (A, "query"), id="key in lower case"),
        pytest.param(f"SESSIONID={A}", None, (A, "query"), id="key in upper case"),
        pytest.param(f"a=1&&b=&sessionId={A}&c", None, (A, "query"), id="among others"),
        pytest.param(f"%73ession%49%64={A}", None, (A, "query"), id="key percent-encoded"),
        pytest.param(f"%53ESSION%6cD={A}", None, None, id="an l is no i"),
        pytest.param("sessionId=%61%2Bb%3d", None, ("a+b=", "query"), id="value percent-encoded"),
        pytest.param("sessionId=YWI==", None, ("YWI==", "query"), id="the first = ends the key"),
        pytest.param(f"sessionId={A}", "Basic dTpw", (A, "query"), id="query and another scheme"),
        pytest.param(f"sessionId={A}", "BearerX B", (A, "query"), id="query and a longer scheme"),
        pytest.param(f"sessionId={A}", "", (A, "query"), id="query and an empty header"),
        pytest.param(f"sessionIdx={A}&xsessionId={A}&sessionId[]={A}", None, None, id="other keys"),
        pytest.param(f"session_id={A}&session-id={A}&sid={A}", None, None, id="keys of other systems"),
        pytest.param(f"q=sessionId&r=sessionId={A}", None, None, id="the key in a value"),
        pytest.param(f"%2573essionId={A}", None, None, id="the key is decoded once"),
        pytest.param(f"sessionId%3D{A}", None, None, id="an encoded = is part of the key"),
        pytest.param(f"+sessionId={A}&sessionId+={A}", None, None, id="a space is part of the key"),
        pytest.param(f"a=1;sessionId={A}", None, None, id="; does not separate pairs"),
        pytest.param(f"a=1%26sessionId={A}", None, None, id="an encoded & does not separate pairs"),
        # The header.
        pytest.param("", f"Bearer {A}", (A, "header"), id="header"),
        pytest.param("", f"bearer {A}", (A, "header"), id="scheme in lower case"),
        pytest.param("", f"bEARER {A}", (A, "header"), id="scheme in mixed case"),
        pytest.param("", f"Bearer    {A}", (A, "header"), id="several spaces"),
        pytest.param("", f" \tBearer {A}\t ", (A, "header"), id="white space around the field value"),
        pytest.param("", "Bearer aZ09-._~+/==", ("aZ09-._~+/==", "header"), id="every character of the grammar"),
        pytest.param("", f"Bearer {LONGEST}", (LONGEST, "header"), id="4096 characters"),
        pytest.param(f"sessionId={LONGEST}", None, (LONGEST, "query"), id="4096 characters in the query"),
        pytest.param("sessionId=" + "%41" * 4096, None, (LONGEST, "query"), id="4096 characters, encoded"),
        pytest.param("", "Basic dTpw", None, id="Basic alone"),
        pytest.param("", f"BearerX {A}", None, id="a longer scheme"),
        pytest.param("", f"Bearer-Token {A}", None, id="a longer scheme with a dash"),
        pytest.param("", A, None, id="a token without a scheme"),
        pytest.param("", f'Digest username="x, Bearer {A}", realm="r"', None, id="a comma in a quoted string"),
        pytest.param("", rf'Digest username="x\", Bearer {A}", a=b', None, id="a quoted string with a quoted quote"),
        pytest.param("", "Digest a=b, c = d,\te=f", None, id="parameters of one credential"),
        # Both.
        pytest.param(f"sessionId={A}", f"Bearer {A}", (A, "header"), id="both, equal"),
        pytest.param(f"sessionId=%34{A[1:]}", f"bearer  {A} ", (A, "header"), id="both, equal once decoded"),
        pytest.param(f"sessionId={A}", f"Bearer {B}", AMBIGUOUS, id="both, different"),
        pytest.param(f"sessionId={A.upper()}", f"Bearer {A}", AMBIGUOUS, id="values have a case"),
        pytest.param(f"sessionId={A}=", f"Bearer {A}", AMBIGUOUS, id="padding is part of a value"),
        # Ambiguous.
        pytest.param(f"sessionId={A}&sessionId={B}", None, AMBIGUOUS, id="key repeated"),
        pytest.param(f"sessionId={A}&sessionId={A}", None, AMBIGUOUS, id="key repeated, values equal"),
        pytest.param(f"sessionId={A}&sessionID={A}", None, AMBIGUOUS, id="key repeated in another case"),
        pytest.param(f"sessionId={A}&session%49d={A}", None, AMBIGUOUS, id="key repeated, encoded"),
        pytest.param(f"sessionId={A}&sessionId=", None, AMBIGUOUS, id="key repeated, second empty"),
        pytest.param(f"sessionId&sessionId={A}", None, AMBIGUOUS, id="key repeated, first without ="),
        pytest.param(f"sessionId={A}&sessionId={A}", f"Bearer {A}", AMBIGUOUS, id="key repeated, and the header"),
        pytest.param("sessionId=", None, AMBIGUOUS, id="empty value"),
        pytest.param("sessionId", None, AMBIGUOUS, id="no ="),
        pytest.param("a=1&SessionId", None, AMBIGUOUS, id="no =, in another case"),
        pytest.param("sessionId=", f"Bearer {A}", AMBIGUOUS, id="empty value and a header"),
        pytest.param("", f"Bearer {A},Bearer {B}", AMBIGUOUS, id="two headers, joined"),
        pytest.param("", f"Bearer {A}, Bearer {A}", AMBIGUOUS, id="two equal headers, joined"),
        pytest.param("", f"Basic dTpw, Bearer {A}", AMBIGUOUS, id="Basic, then Bearer"),
        pytest.param("", f"Bearer {A}, Basic dTpw", AMBIGUOUS, id="Bearer, then Basic"),
        pytest.param("", f'Digest username="x", Bearer {A}', AMBIGUOUS, id="a comma after a quoted string"),
        pytest.param("", f'Digest username="x, Bearer {A}', AMBIGUOUS, id="a quoted string that is never closed"),
        pytest.param("", rf'Digest username="x\\", Bearer {A}', AMBIGUOUS, id="a quoted backslash ends no pair"),
        pytest.param(f"sessionId={A}", "Basic dTpw, Digest a=b", AMBIGUOUS, id="two other schemes and a query"),
        pytest.param("", "Bearer", AMBIGUOUS, id="scheme alone"),
        pytest.param("", "Bearer  ", AMBIGUOUS, id="scheme and spaces"),
        pytest.param(f"sessionId={A}", "Bearer", AMBIGUOUS, id="a broken header does not fall back to the query"),
        pytest.param("", f"Bearer\t{A}", AMBIGUOUS, id="a tab is no space"),
        # Malformed.
        pytest.param("", f"Bearer {A} x", MALFORMED, id="space inside"),
        pytest.param("", "Bearer abc=def", MALFORMED, id="= inside"),
        pytest.param("", "Bearer =", MALFORMED, id="= alone"),
        pytest.param("", f'Bearer "{A}"', MALFORMED, id="quotes"),
        pytest.param("", f'Bearer token="{A}"', MALFORMED, id="parameters"),
        pytest.param("", f"Bearer {A},a=b", MALFORMED, id="a token, then a parameter"),
        pytest.param("", f"Bearer %34{A[1:]}", MALFORMED, id="a header is not decoded"),
        pytest.param("", f"Bearer \xe9{A}", MALFORMED, id="a byte that is not ASCII"),
        pytest.param("", f"Bearer {A}\n", MALFORMED, id="newline at the end"),
        pytest.param("", f"Bearer {A}\x00", MALFORMED, id="NUL"),
        pytest.param("", f"Bearer \xa0{A}", MALFORMED, id="a space that is not ASCII"),
        pytest.param("", f"Bearer {LONGEST}A", MALFORMED, id="4097 characters"),
        pytest.param(f"sessionId={LONGEST}A", None, MALFORMED, id="4097 characters in the query"),
        pytest.param(f"sessionId=%2534{A[1:]}", None, MALFORMED, id="decoded once"),
        pytest.param("sessionId=abc+def", None, MALFORMED, id="+ is a space"),
        pytest.param("sessionId=+", None, MALFORMED, id="+ alone"),
        pytest.param("sessionId=%FF%FE", None, MALFORMED, id="not UTF-8"),
        pytest.param("sessionId=%D9%A1%D9%A2", None, MALFORMED, id="digits that are not ASCII"),
        pytest.param(f"sessionId=\xff{A}", None, MALFORMED, id="a raw byte"),
        pytest.param("sessionId=A%00B", None, MALFORMED, id="NUL in the query"),
        pytest.param("sessionId=A%0d%0aB", None, MALFORMED, id="CR LF in the query"),
        pytest.param("sessionId=A%", None, MALFORMED, id="a broken escape"),
        pytest.param(f"sessionId={A};sessionId={B}", None, MALFORMED, id="; in a value"),
        pytest.param(f"sessionId={A},{B}", None, MALFORMED, id="a list"),
        pytest.param("sessionId=abc=def", None, MALFORMED, id="= inside, in the query"),
        pytest.param("sessionId=a%00", "Bearer a\x00", MALFORMED, id="both, equal, malformed"),
        # Several faults: 400 wins.
        pytest.param("sessionId=%00&sessionId=%00", None, AMBIGUOUS, id="repeated and malformed"),
        pytest.param("sessionId=%00", f"Bearer {A}", AMBIGUOUS, id="different and malformed"),
        pytest.param("sessionId=", "Bearer \x00", AMBIGUOUS, id="empty and malformed"),
        pytest.param("sessionId=%00", "Bearer", AMBIGUOUS, id="malformed and no token"),
    ],
)
def test_what_a_request_comes_to(query: str | None, header: str | None, expected: Outcome) -> None:
    assert outcome(request(query, header)) == expected


@pytest.mark.parametrize("separator", ["\x85", "\xa0", "\x0b", "\x0c", "\r\n ", "\n", "\x1c", "/", "=", '"'])
def test_only_a_space_separates_the_scheme_from_the_token(separator: str) -> None:
    assert outcome(request(header=f"Bearer{separator}{A}")) in (None, AMBIGUOUS)


def test_cookies_other_headers_the_path_and_the_body_are_never_read() -> None:
    class Unreadable(BytesIO):
        def read(self, *_size: Any) -> bytes:
            raise AssertionError

        readline = read
        readlines = read  # type: ignore[assignment] # none of them may be called

    body = f"sessionId={A}".encode()
    environ = request(
        HTTP_COOKIE=f"sessionId={A}",
        HTTP_SESSIONID=A,
        HTTP_X_SESSION_ID=A,
        HTTP_PROXY_AUTHORIZATION=f"Bearer {A}",
        HTTP_REFERER=f"https://api.example/p?sessionId={A}",
        REMOTE_USER=A,
        REQUEST_METHOD="POST",
        PATH_INFO=f"/p;sessionId={A}",
        CONTENT_TYPE="application/x-www-form-urlencoded",
        CONTENT_LENGTH=str(len(body)),
    )
    environ["wsgi.input"] = Unreadable(body)
    assert outcome(environ) is None
    assert environ["wsgi.input"].tell() == 0


def test_a_request_without_a_session_is_challenged_where_one_is_required() -> None:
    for header in (None, "", "Basic dTpw", f"BearerX {A}"):
        app, answer = claim(request(header=header), require_session=True, realm="shop")
        assert (answer.code, answer.json["code"], app.seen) == (401, "session_missing", [])
        assert answer.one("WWW-Authenticate") == 'Bearer realm="shop"'


def test_a_refused_session_is_challenged_with_its_code() -> None:
    for query, status, code in (("sessionId=", *AMBIGUOUS), ("sessionId=%00", *MALFORMED)):
        _app, answer = claim(request(query), realm="shop")
        assert answer.code == status
        assert answer.one("WWW-Authenticate") == f'Bearer realm="shop", error="{code}"'


def test_a_preflight_needs_no_session() -> None:
    app, answer = claim(request(REQUEST_METHOD="OPTIONS"), require_session=True)
    assert (answer.code, len(app.seen)) == (200, 1)


# ---- the vectors that are shared with other implementations

VECTORS = json.loads((Path(__file__).parent / "vectors" / "sessions.json").read_text("utf-8"))


def vectors(kind: str) -> list[Any]:
    return [
        pytest.param(vector, id=f"{vector['id']} {vector['title']}") for vector in VECTORS if vector["kind"] == kind
    ]


def vector_environ(vector: dict[str, Any]) -> dict[str, Any]:
    environ = {**environ_of(), **vector["environ"], "wsgi.input": BytesIO(vector.get("body", "").encode())}
    if "QUERY_STRING" not in vector["environ"]:
        del environ["QUERY_STRING"]
    return environ


def described(app: Recorder, answer: Answer) -> dict[str, Any]:
    """Return an outcome in the words of the vectors."""
    if not app.seen:
        error = re.search(r'error="([^"]*)"', answer.one("WWW-Authenticate"))
        return {"outcome": "error", "status": answer.code, "error": error and error[1]}
    if app.session is None:
        return {"outcome": "none"}
    return {"outcome": "session", "session_id": app.session.value, "source": app.session.source}


def agrees(expected: dict[str, Any], actual: dict[str, Any]) -> bool:
    if expected["outcome"] != actual["outcome"]:
        return False
    if expected["outcome"] == "error":
        code = None if expected.get("no_error_attr") else expected.get("error", actual["error"])
        return actual["status"] in expected["status"] and actual["error"] == code
    return all(actual[key] == expected[key] for key in ("session_id", "source") if key in expected)


@pytest.mark.parametrize("vector", vectors("extract"))
def test_the_shared_vectors_of_extraction(vector: dict[str, Any]) -> None:
    environ = vector_environ(vector)
    app, answer = claim(environ, require_session=vector["mode"] == "required")
    actual = described(app, answer)
    assert any(agrees(expected, actual) for expected in [vector["expect"], *vector.get("accept", [])]), actual
    assert not any(agrees(never, actual) for never in vector.get("never", [])), actual
    if vector["expect"].get("reaches_app"):
        assert app.seen
    if vector["expect"].get("body_untouched"):
        assert environ["wsgi.input"].read() == vector["body"].encode()


def assert_holds(environ: dict[str, Any], expected: dict[str, Any]) -> None:
    for key, rule in expected.items():
        if key == "*str*":
            texts = [v for k, v in environ.items() if isinstance(v, str) and k not in rule.get("except", [])]
        elif key == "*own*":
            texts = [show(environ[SESSION]) for show in (repr, str)]
        else:
            texts = [environ[key]]
        for text in texts:
            assert rule.get("equals", text) == text
            assert all(part in text for part in rule.get("contains", []))
            assert not any(part in text for part in rule.get("not_contains", []))


@pytest.mark.parametrize("vector", vectors("leak"))
def test_the_shared_vectors_of_redaction(vector: dict[str, Any]) -> None:
    environ = vector_environ(vector)
    app = Recorder()
    middleware = DeprecationMiddleware(app, POLICY, operations=PAGES)
    if vector["app"] == "nested":
        middleware = DeprecationMiddleware(middleware, POLICY, operations=PAGES)
    run(middleware, environ)
    expected = vector["expect"]
    assert_holds(environ, expected["environ_after"])
    if "seen_by_app" in expected:
        assert_holds(app.seen[0], expected["seen_by_app"])
    if "session_id_seen" in expected:
        assert app.session is not None
        assert app.session.value == expected["session_id_seen"]


# ---- the environ of a claimed request


def test_the_environ_is_changed_in_place_before_the_application_runs() -> None:
    environ = request(f"a=1&sessionId={A}", RAW_URI=f"/p?a=1&sessionId={A}")
    seen: list[dict[str, Any]] = []

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        seen.extend([environ, dict(environ)])
        start_response("200 OK", [])
        return []

    run(DeprecationMiddleware(app, POLICY, operations=PAGES), environ)
    same, snapshot = seen
    assert same is environ
    assert snapshot["QUERY_STRING"] == "a=1"
    assert snapshot["RAW_URI"] == "/p?a=1&sessionId=REDACTED"
    assert snapshot["HTTP_AUTHORIZATION"] == f"Bearer {A}"
    assert snapshot[SESSION] == SessionCredential(A, "query")


@pytest.mark.parametrize(
    ("query", "left"),
    [
        pytest.param(f"sessionId={A}", "", id="alone"),
        pytest.param(f"sessionId={A}&a=1", "a=1", id="first"),
        pytest.param(f"a=1&sessionId={A}", "a=1", id="last"),
        pytest.param(f"a=1&sessionId={A}&b=2", "a=1&b=2", id="in between"),
        pytest.param(f"a=%7e&&b=+&SESSION%49D={A}&c&=&\xff;%", "a=%7e&&b=+&c&=&\xff;%", id="bytes of all kinds"),
        pytest.param("a=1&sessionId=&b=2", "a=1&b=2", id="refused: empty"),
        pytest.param("a=1&sessionId&b=2", "a=1&b=2", id="refused: without ="),
        pytest.param(f"sessionId={A}&a=1&sessionid={B}", "a=1", id="refused: repeated"),
        pytest.param("sessionId=%00&a=1", "a=1", id="refused: malformed"),
        pytest.param(
            f"mysessionId={A}&sessionIdx=1&q=sessionId", f"mysessionId={A}&sessionIdx=1&q=sessionId", id="no pair"
        ),
        pytest.param("a=1;b&&", "a=1;b&&", id="no pair, odd bytes"),
    ],
)
def test_the_query_loses_the_pair_and_keeps_every_other_byte(query: str, left: str) -> None:
    environ = request(query)
    claim(environ)
    assert environ["QUERY_STRING"] == left


@pytest.mark.parametrize(
    ("query", "header", "left"),
    [
        pytest.param(f"sessionId={A}", None, f"Bearer {A}", id="set when there was none"),
        pytest.param("sessionId=%61b", None, "Bearer ab", id="set to the decoded value"),
        pytest.param(f"sessionId={A}", "", f"Bearer {A}", id="set when it was empty"),
        pytest.param(f"sessionId={A}", " \t", f"Bearer {A}", id="set when it was white space"),
        pytest.param(f"sessionId={A}", "Basic dTpw", "Basic dTpw", id="another scheme stays"),
        pytest.param(f"sessionId={A}", f"bearer  {A} ", f"bearer  {A} ", id="the same session stays as it came"),
        pytest.param(f"sessionId={A}", f"Bearer {B}", f"Bearer {B}", id="a contradiction stays as it came"),
        pytest.param("sessionId=%00", None, None, id="not set to what was refused"),
        pytest.param("a=1", None, None, id="not set without a session"),
    ],
)
def test_the_authorization_header_is_set_only_when_none_came(query: str, header: str | None, left: str | None) -> None:
    environ = request(query, header)
    claim(environ)
    assert environ.get("HTTP_AUTHORIZATION") == left


@pytest.mark.parametrize("key", ["RAW_URI", "REQUEST_URI", "HTTP_REFERER"])
@pytest.mark.parametrize(
    ("uri", "left"),
    [
        pytest.param("/p?sessionId=S3CRET", "/p?sessionId=REDACTED", id="alone"),
        pytest.param("/p?a=%7e&sessionId=S3CRET&b=+&c", "/p?a=%7e&sessionId=REDACTED&b=+&c", id="among others"),
        pytest.param("/p?SessionID=S3CRET&sessionid=S3CRET", "/p?SessionID=REDACTED&sessionid=REDACTED", id="any case"),
        pytest.param("/p?%73ession%49%64=S3CRET", "/p?%73ession%49%64=REDACTED", id="percent-encoded key"),
        pytest.param("/p?sessionId=%533CRET%00", "/p?sessionId=REDACTED", id="malformed value"),
        pytest.param('/p?sessionId="S3 CRET"\\', "/p?sessionId=REDACTED", id="value with a space and quotes"),
        pytest.param("/p?sessionId=S3CRET==&b=2", "/p?sessionId=REDACTED&b=2", id="value with ="),
        pytest.param(
            "http://api.example/p?sessionId=S3CRET", "http://api.example/p?sessionId=REDACTED", id="absolute form"
        ),
        pytest.param("/p?a=1;sessionId=S3CRET", "/p?a=1;sessionId=REDACTED", id="after ;"),
        pytest.param("/p;sessionId=S3CRET", "/p;sessionId=REDACTED", id="in the path"),
        pytest.param("/p?x=1#sessionId=S3CRET", "/p?x=1#sessionId=REDACTED", id="in the fragment"),
        pytest.param("/p?sessionId=S3CRET#top", "/p?sessionId=REDACTED#top", id="before a fragment"),
        pytest.param(
            "/p?sessionId=S3CRET;sessionId=S3CRET", "/p?sessionId=REDACTED;sessionId=REDACTED", id="twice with ;"
        ),
        pytest.param("/p?a=1?sessionId=S3CRET", "/p?a=1?sessionId=REDACTED", id="after a second ?"),
        pytest.param("/p?sessionId=", "/p?sessionId=REDACTED", id="an empty value"),
        pytest.param("/p?sessionId=S3CRET;S3CRET", "/p?sessionId=REDACTED", id="; in the value"),
        pytest.param("/p?sessionId=S3CRET;;S3CRET", "/p?sessionId=REDACTED", id=";; in the value"),
        pytest.param("/p?sessionId=S3CRET;=b", "/p?sessionId=REDACTED;=b", id="; before an empty key"),
        pytest.param("/p?sessionId=S3CRET;S3CRET&b=2", "/p?sessionId=REDACTED&b=2", id="; in the value, then &"),
        pytest.param("/p?sessionId=S3CRET;S3CRET#b=2", "/p?sessionId=REDACTED#b=2", id="; in the value, then #"),
        pytest.param("/p?sessionId=S3CRET;S3CRET;b=2", "/p?sessionId=REDACTED;b=2", id="; in the value, then a pair"),
        pytest.param("/p?\u017fessionId=KEEP", None, id="a letter that is not ASCII"),
        pytest.param("/p?mysessionId=KEEP&sessionIdx=KEEP&q=sessionId", None, id="similar keys"),
        pytest.param("/sessionId?a=sessionId&sessionId", None, id="no value"),
        pytest.param("/p?a=%ff\xff;&&=", None, id="odd bytes"),
        pytest.param("", None, id="empty"),
    ],
)
def test_the_value_is_redacted_in_uris(key: str, uri: str, left: str | None) -> None:
    environ = request(**{key: uri})
    claim(environ)
    assert "S3CRET" not in environ[key]
    assert environ[key] == (uri if left is None else left)


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("sessionId=S3CRET&sessionId=S3CRET", id="repeated"),
        pytest.param("sessionId=S3CRET%00", id="malformed"),
        pytest.param("sessionId=S3CRET&SESSIONID", id="repeated without a value"),
    ],
)
def test_a_refused_request_is_redacted_as_well(query: str) -> None:
    environ = request(query, RAW_URI=f"/p?{query}", HTTP_REFERER=f"http://api.example/?{query}")
    app, answer = claim(environ)
    assert not app.seen
    assert SESSION not in environ
    assert "S3CRET" not in str({key: value for key, value in environ.items() if isinstance(value, str)})
    assert "S3CRET" not in str(answer.wire)


def test_absent_keys_stay_absent() -> None:
    environ = request(None)
    before = set(environ)
    claim(environ)
    assert set(environ) - before == {"flask_notifications.original_path"}
    environ = request(f"sessionId={A}")
    before = set(environ)
    claim(environ)
    assert set(environ) - before == {"flask_notifications.original_path", SESSION, "HTTP_AUTHORIZATION"}


def test_an_unclaimed_request_keeps_every_byte() -> None:
    environ = request(f"sessionId={A}", RAW_URI=f"/p/q?sessionId={A}", PATH_INFO="/p/q")
    before = dict(environ)
    app, _answer = claim(environ)
    assert environ == before == app.seen[0]


def test_without_extraction_nothing_happens_to_the_session() -> None:
    environ = request(f"sessionId={A}", RAW_URI=f"/p?sessionId={A}", HTTP_REFERER=f"/p?sessionId={A}")
    before = dict(environ)
    app, answer = claim(environ, extract_session=False)
    assert before.items() <= app.seen[0].items()
    assert SESSION not in environ
    assert not answer.all("Referrer-Policy") + answer.all("Vary") + answer.all("Cache-Control")


# ---- session_of and the credential


def test_what_the_middleware_resolved_is_what_session_of_returns() -> None:
    environ = request(f"sessionId={A}")
    app, _answer = claim(environ)
    assert session_of(environ) is app.session is environ[SESSION]


def test_session_of_does_not_change_the_environ() -> None:
    environ = request(f"a=1&sessionId={A}", RAW_URI=f"/p?sessionId={A}")
    before = dict(environ)
    assert session_of(environ) == SessionCredential(A, "query")
    assert environ == before


@pytest.mark.parametrize("foreign", [A, {"value": A}, object(), None, ("A", "header")], ids=repr)
def test_a_foreign_object_under_our_key_is_ignored(foreign: Any) -> None:
    assert session_of(request(**{SESSION: foreign})) is None
    assert session_of(request(f"sessionId={B}", **{SESSION: foreign})) == SessionCredential(B, "query")
    app, _answer = claim(request(**{SESSION: foreign}))
    assert SESSION not in app.seen[0]


def test_a_refusal_says_why_and_never_what() -> None:
    for query, status, code in ((f"sessionId={A}&sessionId={A}", *AMBIGUOUS), (f"sessionId={A}%00", *MALFORMED)):
        with pytest.raises(SessionRefused) as caught:
            session_of(request(query))
        assert (caught.value.status, caught.value.code) == (status, code)
        assert str(caught.value)
        assert A not in f"{caught.value!r} {caught.value} {caught.value.args} {vars(caught.value)}"


@dataclass
class Holder:
    session: SessionCredential


def _fail(session: SessionCredential) -> None:
    raise LookupError(session)


def _in_a_traceback(session: SessionCredential) -> str:
    with pytest.raises(LookupError) as caught:
        _fail(session)
    return "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())


def _in_a_log(session: SessionCredential) -> str:
    return logging.LogRecord("host", logging.INFO, "", 0, "%s %r %.99s", (session, session, session), None).getMessage()


@pytest.mark.parametrize(
    "show",
    [
        pytest.param(repr, id="repr"),
        pytest.param(str, id="str"),
        pytest.param(format, id="format"),
        pytest.param("{0:>99} {0!r:>99} {0!s}".format, id="str.format"),
        pytest.param(lambda session: f"{session} {session!r} {session:<99} {session=}", id="f-string"),
        pytest.param(lambda session: "%s %r" % (session, session), id="percent"),  # noqa: UP031 - the point
        pytest.param(lambda session: str([session, {session: session}]), id="in a container"),
        pytest.param(lambda session: repr(Holder(session)), id="in a dataclass"),
        pytest.param(lambda session: pformat({"session": session}), id="pprint"),
        pytest.param(_in_a_traceback, id="in a traceback with local variables"),
        pytest.param(_in_a_log, id="in a log"),
    ],
)
def test_a_credential_never_shows_its_value(show: Callable[[SessionCredential], str]) -> None:
    shown = show(SessionCredential(A, "query"))
    assert A not in shown
    assert "SessionCredential" in shown
    assert "query" in shown


def test_a_credential_is_a_value_that_cannot_be_changed() -> None:
    session = SessionCredential(A, "header")
    assert session == SessionCredential(A, "header") != SessionCredential(B, "header")
    with pytest.raises(AttributeError):
        session.value = B  # type: ignore[misc] # the mistake that is tested
    assert not hasattr(session, "__dict__")


def test_a_credential_is_shown_without_its_value() -> None:
    assert repr(SessionCredential(A, "query")) == "SessionCredential(value=REDACTED, source='query')"


def test_a_refusal_is_told_by_its_detail() -> None:
    assert str(SessionRefused(400, "invalid_request", "why")) == "why"


@pytest.mark.parametrize(
    "header",
    [
        pytest.param('Digest a="x", Bearer S3CRET, b="y"', id="between quoted strings"),
        pytest.param('Digest a="", Bearer S3CRET, b="y"', id="after an empty one"),
        pytest.param('Digest a="\\\n", Bearer S3CRET, b="y"', id="after one with an escaped line"),
    ],
)
def test_a_credential_between_the_parameters_of_another_is_a_second_one(header: str) -> None:
    with pytest.raises(SessionRefused) as caught:
        session_of({"HTTP_AUTHORIZATION": header})
    assert (caught.value.status, caught.value.code) == AMBIGUOUS


def test_tabs_around_the_sign_of_equality_make_no_second_credential() -> None:
    assert session_of({"HTTP_AUTHORIZATION": 'Digest a="x",\tb\t=\t"y"'}) is None


# ---- what servers log


def filtered(msg: object, *args: object, **extra: Any) -> logging.LogRecord:
    record = logging.LogRecord("gunicorn.access", logging.INFO, "", 0, msg, args or None, extra.pop("exc_info", None))
    vars(record).update(extra)
    assert SessionLogFilter().filter(record)
    return record


@pytest.mark.parametrize(
    ("line", "left"),
    [
        pytest.param(
            '"GET /p?sessionId=S3CRET HTTP/1.1" 200', '"GET /p?sessionId=REDACTED HTTP/1.1" 200', id="request line"
        ),
        pytest.param("/p?a=1&sessionId=S3CRET&b=2", "/p?a=1&sessionId=REDACTED&b=2", id="among others"),
        pytest.param("GET /p?SESSIONID=S3CRET 200", "GET /p?SESSIONID=REDACTED 200", id="any case"),
        pytest.param("GET /p?%73ession%49d=S3CRET 200", "GET /p?%73ession%49d=REDACTED 200", id="percent-encoded key"),
        pytest.param("sessionId=S3CRET", "sessionId=REDACTED", id="a query alone"),
        pytest.param('"http://x/?sessionId=S3CRET" "curl"', '"http://x/?sessionId=REDACTED" "curl"', id="Referer"),
        pytest.param("'/p?sessionId=S3CRET'", "'/p?sessionId=REDACTED'", id="quoted"),
        pytest.param("/p?sessionId=S3CRET#top", "/p?sessionId=REDACTED#top", id="fragment"),
        pytest.param("/p;sessionId=S3CRET;b=2", "/p;sessionId=REDACTED;b=2", id="after ;"),
        pytest.param("<a href='?a&amp;sessionId=S3CRET'>", "<a href='?a&amp;sessionId=REDACTED'>", id="markup"),
        pytest.param("sessionId=S3CRET\nsessionId=S3CRET", "sessionId=REDACTED\nsessionId=REDACTED", id="two lines"),
        pytest.param("?sessionId=S3CRET%00%25", "?sessionId=REDACTED", id="malformed value"),
        pytest.param("/p?sessionId= 200", "/p?sessionId=REDACTED 200", id="an empty value"),
        pytest.param("/p?sessionId=S3;CRET 200", "/p?sessionId=REDACTED 200", id="; in the value"),
        pytest.param("/p?sessionId=S3;CRET a=1", "/p?sessionId=REDACTED a=1", id="; in the value, then a space"),
        pytest.param("/p?sessionId=S3;CRET&b=2", "/p?sessionId=REDACTED&b=2", id="; in the value, then &"),
        pytest.param("/p?sessionId=S3;CRET#b=2", "/p?sessionId=REDACTED#b=2", id="; in the value, then #"),
        pytest.param("/p?sessionId=S3;CRET;b=2", "/p?sessionId=REDACTED;b=2", id="; in the value, then a pair"),
        pytest.param("/p?sessionId=S3CRET;=b", "/p?sessionId=REDACTED;=b", id="; before an empty key"),
        pytest.param("Authorization: Bearer S3CRET", "Authorization: Bearer REDACTED", id="a header"),
        pytest.param("authorization=bearer  S3CRET x", "authorization=bearer  REDACTED x", id="a header, two spaces"),
        pytest.param(
            "('Authorization', 'Bearer S3CRET')", "('Authorization', 'Bearer REDACTED')", id="a header as a pair"
        ),
        pytest.param("Authorization: BearerKEEP", None, id="another scheme"),
        pytest.param("Authorization: Basic KEEP", None, id="the scheme of others"),
        pytest.param("Seen: bearer KEEP", None, id="another header"),
        pytest.param("x-sessionId=KEEP %sessionId=KEEP", None, id="longer keys"),
        pytest.param("\xe9sessionId=S3CRET", "\xe9sessionId=REDACTED", id="after a letter that is not ASCII"),
        pytest.param("/p?\u017fessionId=KEEP", None, id="a letter that is not ASCII"),
        pytest.param("/p?mysessionId=KEEP&sessionIdx=KEEP&q=sessionId %d \xff", None, id="nothing to mask"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_the_value_is_masked_in_a_log_line_and_every_other_byte_kept(line: str, left: str | None) -> None:
    expected = line if left is None else left
    assert filtered(line).getMessage() == expected
    assert filtered("%s", line).getMessage() == expected
    assert filtered("%(line)s", {"line": line}).getMessage() == expected


@pytest.mark.parametrize("sign", ['"', "'", "<", ">", "\\"])
@pytest.mark.parametrize("end", [" x", ".x", ",x", ":x", ";x", ")x", "]x", "}x", ">x", ""])
def test_a_quote_or_bracket_ends_a_value_where_it_ends_what_the_line_quotes(sign: str, end: str) -> None:
    assert filtered(f"sessionId=S3CRET{sign}{end}").getMessage() == f"sessionId=REDACTED{sign}{end}"
    assert filtered(f"sessionId=S3{sign}CRET{sign}{end}").getMessage() == f"sessionId=REDACTED{sign}{end}"


def test_a_value_that_only_the_formatted_message_shows_is_masked() -> None:
    assert filtered("GET /p?sessionId=%s %d", "S3CRET", 200).getMessage() == "GET /p?sessionId=REDACTED 200"


def test_percent_signs_in_a_masked_message_are_no_directives() -> None:
    record = filtered("%s %d%%", "/p?a=%41%s&sessionId=S3CRET&b=%(x)s", 100)
    assert record.getMessage() == "/p?a=%41%s&sessionId=REDACTED&b=%(x)s 100%"


def test_a_message_that_is_an_object_is_masked() -> None:
    assert filtered(ValueError("GET /p?sessionId=S3CRET")).getMessage() == "GET /p?sessionId=REDACTED"


def test_a_record_without_a_session_is_not_touched() -> None:
    args = ("/p", 200)
    record = filtered("GET %s %d", *args)
    assert (record.msg, record.args) == ("GET %s %d", args)


def test_a_message_that_does_not_format_is_left_to_logging() -> None:
    record = filtered("%d %d", "?sessionId=S3CRET")
    with pytest.raises(TypeError):
        record.getMessage()


def test_a_traceback_is_masked() -> None:
    try:
        message = "GET /p?sessionId=S3CRET failed"
        raise LookupError(message)  # noqa: TRY301 - a traceback is what is needed
    except LookupError as fault:
        record = filtered("Error handling request %s", "/p?sessionId=S3CRET", exc_info=(type(fault), fault, None))
    text = logging.Formatter().format(record)
    assert "S3CRET" not in text
    assert text.count("sessionId=REDACTED") == 2
    assert "LookupError: GET /p?sessionId=REDACTED failed" in text


def test_an_exception_that_has_gone_by_is_no_reason_to_fail() -> None:
    assert filtered("?sessionId=S3CRET", exc_info=(None, None, None)).getMessage() == "?sessionId=REDACTED"


def test_a_traceback_that_another_formatter_has_written_is_masked_too() -> None:
    fault = ValueError("made again")
    record = logging.LogRecord("gunicorn.error", logging.ERROR, "", 0, "failed", None, (ValueError, fault, None))
    record.exc_text = "ValueError: /p?sessionId=S3CRET"
    assert SessionLogFilter().filter(record)
    assert record.exc_text == "ValueError: /p?sessionId=REDACTED"


def test_the_filter_works_on_a_logger_and_drops_nothing() -> None:
    handled: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            handled.append(self.format(record))

    logger = logging.Logger("werkzeug")  # noqa: LOG001 - one of its own, that no other test sees
    logger.addHandler(Handler())
    logger.addFilter(SessionLogFilter())
    logger.info('"%s" %s', "GET /p?sessionId=S3CRET HTTP/1.1", 200)
    logger.debug("nothing")
    logger.warning("twice %s", "sessionId=S3CRET&sessionid=S3CRET")
    assert handled == [
        '"GET /p?sessionId=REDACTED HTTP/1.1" 200',
        "nothing",
        "twice sessionId=REDACTED&sessionid=REDACTED",
    ]


# ---- time


@contextmanager
def watchdog(seconds: int) -> Iterator[None]:
    """Fail, instead of hanging, where a pattern backtracks for minutes; ``re`` looks for signals as it works."""

    def stop(*_signal: object) -> None:
        raise TimeoutError

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


@pytest.mark.parametrize(
    "unit",
    [
        *(
            '"',
            "\\",
            '\\"',
            '"\\',
            '"a',
            ",",
            ", ",
            ",a",
            ", a ",
            ",a=",
            ',"',
            "=",
            "&",
            ";",
            ";a",
            "%",
            "%73",
            " ",
            "\t",
            "a ",
        ),
        *(
            "sessionId",
            "sessionId=",
            "&sessionId=",
            ";sessionId=",
            "?sessionId=;",
            "s",
            "Bearer ",
            "bearer,",
            "\xff",
            "\n",
        ),
    ],
)
def test_the_longest_texts_take_no_longer_than_they_must(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    with watchdog(20):
        for header in (text, f"Bearer {text}", f'Digest a=b, c="{text}'):
            uri = f"/p?{text}"
            claim(request(text, header, RAW_URI=uri, HTTP_REFERER=uri))
            filtered("%s", uri)


# ---- any text at all

LATIN_1 = st.text(st.characters(max_codepoint=0xFF), max_size=12)
PIECES = st.sampled_from(
    [
        "&",
        "&",
        "=",
        ";",
        "#",
        "?",
        "+",
        "%",
        "%00",
        "%3D",
        "sessionId",
        "sessionId=",
        "SessionID=",
        "session%49d=",
        A,
        B,
        "AB==",
    ]
)
QUERIES = st.lists(PIECES | LATIN_1, max_size=8).map("".join)
HEADERS = st.none() | st.lists(
    st.sampled_from(["Bearer", "bearer ", "Basic ", " ", "\t", ",", '"', "\\", "=", A, B, "AB=="]) | LATIN_1, max_size=6
).map("".join)


def expected_of_query(query: str) -> Outcome:
    """Return what a request with nothing but a query comes to, by the standard library's reading of forms."""
    pairs = parse_qsl(query, keep_blank_values=True, encoding="latin-1")
    values = [value for key, value in pairs if key.lower() == "sessionid"]
    if not values:
        return None
    if len(values) > 1 or not values[0]:
        return AMBIGUOUS
    return (values[0], "query") if is_token(values[0]) else MALFORMED


def is_token(value: str) -> bool:
    return len(value) <= 4096 and re.fullmatch(r"[-A-Za-z0-9._~+/]+=*", value) is not None


@settings(deadline=None, max_examples=500)
@given(QUERIES)
@example(f"a=1&sessionId={A}&b=2")
@example("sessionId=%41%42&sessionId")
def test_any_query_comes_to_what_the_rules_say(query: str) -> None:
    assert outcome(request(query)) == expected_of_query(query)


@settings(deadline=None, max_examples=500)
@given(HEADERS)
@example(f"Bearer {A}")
def test_any_header_is_a_session_only_as_one_bearer_token(header: str | None) -> None:
    credential = re.fullmatch(r"[ \t]*bearer +([^ \t].*?)[ \t]*", header or "", re.IGNORECASE | re.ASCII | re.DOTALL)
    is_session = credential is not None and is_token(credential[1])
    actual = outcome(request(header=header))
    if credential is not None and is_session:
        assert actual == (credential[1], "header")
    else:
        assert actual in (None, AMBIGUOUS, MALFORMED)


@settings(deadline=None, max_examples=300)
@given(QUERIES, HEADERS, LATIN_1)
def test_no_request_makes_the_resolver_raise_or_make_up_a_value(query: str, header: str | None, uri: str) -> None:
    environ = request(query, header, RAW_URI=uri, REQUEST_URI=query, HTTP_REFERER=f"{uri}?{query}")
    actual = outcome(environ)
    if actual is not None and actual not in (AMBIGUOUS, MALFORMED):
        value, source = actual
        values = [value for key, value in parse_qsl(query, encoding="latin-1") if key.lower() == "sessionid"]
        assert isinstance(value, str)
        assert value in (values if source == "query" else str(header))
        assert is_token(value)


@settings(deadline=None, max_examples=200)
@given(QUERIES, LATIN_1, LATIN_1)
def test_a_repeated_key_is_refused_wherever_it_stands(before: str, between: str, value: str) -> None:
    environ = request(f"{before}&sessionid={value}&{between}&SESSIONID=x")
    assert outcome(environ) == AMBIGUOUS


def encoded(text: str) -> st.SearchStrategy[str]:
    """Return spellings of a text that decode to it: each character plain, or percent-encoded in either case."""
    spellings = [st.sampled_from([char, f"%{ord(char):02x}", f"%{ord(char):02X}"]) for char in text]
    return st.tuples(*spellings).map("".join)


KEYS = st.lists(st.booleans(), min_size=9, max_size=9).flatmap(
    lambda swaps: encoded("".join(c.swapcase() if swap else c for c, swap in zip("sessionId", swaps, strict=True)))
)
SECRETS = st.text("ABCxyz019-._~+/", max_size=20).map("S3CRET".__add__)
OTHERS = st.lists(st.text(st.characters(max_codepoint=0xFF, exclude_characters="&#?;"), max_size=8), max_size=3)


@settings(deadline=None, max_examples=300)
@given(st.data(), SECRETS, OTHERS, OTHERS, LATIN_1.filter(lambda text: "#" not in text))
def test_a_claimed_session_is_left_in_the_authorization_header_only(
    data: st.DataObject, secret: str, before: list[str], after: list[str], path: str
) -> None:
    value = data.draw(encoded(secret).filter(lambda text: "+" not in text))
    pair = f"{data.draw(KEYS)}={value}"
    query = "&".join([*before, pair, *after])
    assume(expected_of_query(query) == (secret, "query"))
    uri = f"{path}?{query}#{pair}"
    environ = request(query, RAW_URI=uri, REQUEST_URI=f"http://api.example{uri}", HTTP_REFERER=uri)
    claim(environ)
    assert environ.pop("HTTP_AUTHORIZATION") == f"Bearer {secret}"
    assert environ["QUERY_STRING"] == "&".join([*before, *after])
    assert environ["RAW_URI"] == uri.replace(f"={value}", "=REDACTED")
    for key, text in environ.items():
        assert secret not in repr(text), key
        assert value not in repr(text), key


def test_a_json_encoder_does_not_write_a_credential_out() -> None:
    with pytest.raises(TypeError):
        orjson.dumps({"session": SessionCredential("s3cret", "query")})


def test_credentials_are_values() -> None:
    credential = SessionCredential("s3cret", "query")
    assert {credential, SessionCredential("s3cret", "query")} == {credential}
    assert credential != SessionCredential("s3cret", "header")
    assert credential != "s3cret"
    with pytest.raises(AttributeError):
        credential.value = "another"  # type: ignore[misc]
