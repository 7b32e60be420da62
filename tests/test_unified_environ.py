"""The environ after the middleware: the session is in one place, and every other byte stays."""

import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flask_notifications import DeprecationMiddleware, Operation, SessionCredential
from flask_notifications.sessions import digest_pair
from tests.session_requests import (
    LATIN_1,
    PAGES,
    POLICY,
    SESSION,
    A,
    B,
    Recorder,
    digest_of,
    expected_of_query,
    request,
    send,
)
from tests.wsgi import run

# In expected queries, with a session ID and ">" after it: the digest of that session ID.
DIGEST = "<digest of "


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
    assert re.fullmatch(r"a=1&flask_notifications\.session=[0-9a-f]{16}", snapshot["QUERY_STRING"])
    assert snapshot["RAW_URI"] == "/p?a=1&sessionId=REDACTED"
    assert snapshot["HTTP_AUTHORIZATION"] == f"Bearer {A}"
    assert snapshot[SESSION] == SessionCredential(A, "query")


@pytest.mark.parametrize(
    ("query", "left"),
    [
        pytest.param(f"sessionId={A}", f"{DIGEST}{A}>", id="alone"),
        pytest.param(f"sessionId={A}&a=1", f"{DIGEST}{A}>&a=1", id="first"),
        pytest.param(f"a=1&sessionId={A}", f"a=1&{DIGEST}{A}>", id="last"),
        pytest.param(f"a=1&sessionId={A}&b=2", f"a=1&{DIGEST}{A}>&b=2", id="in between"),
        pytest.param(
            f"a=%7e&&b=+&SESSION%49D={A}&c&=&\xff;%", f"a=%7e&&b=+&{DIGEST}{A}>&c&=&\xff;%", id="bytes of all kinds"
        ),
        pytest.param("sessionId=%61b&a=1", f"{DIGEST}ab>&a=1", id="a value that is percent-encoded"),
        pytest.param("a=1&sessionId=&b=2", f"a=1&{DIGEST}>&b=2", id="refused: empty"),
        pytest.param("a=1&sessionId&b=2", f"a=1&{DIGEST}>&b=2", id="refused: without ="),
        pytest.param(f"sessionId={A}&a=1&sessionid={B}", f"{DIGEST}{A}>&a=1&{DIGEST}{B}>", id="refused: repeated"),
        pytest.param("sessionId=%00&a=1", f"{DIGEST}\x00>&a=1", id="refused: malformed"),
        pytest.param(
            f"mysessionId={A}&sessionIdx=1&q=sessionId", f"mysessionId={A}&sessionIdx=1&q=sessionId", id="no pair"
        ),
        pytest.param("a=1;b&&", "a=1;b&&", id="no pair, odd bytes"),
    ],
)
def test_a_digest_replaces_the_pair_and_every_other_byte_of_the_query_stays(query: str, left: str) -> None:
    environ = request(query)
    send(environ)
    assert environ["QUERY_STRING"] == re.sub(
        f"{DIGEST}(.*?)>", lambda found: digest_of(found[1]), left, flags=re.DOTALL
    )


def test_two_sessions_have_two_digests_and_one_session_has_one() -> None:
    digests = [digest_of(session_id) for session_id in (A, B, A)]
    assert digests[0] == digests[2] != digests[1]
    assert all(A not in digest and B not in digest for digest in digests)


@pytest.mark.slow
def test_another_process_makes_another_digest() -> None:
    """A client that could compute digests would choose the URL under which a cache keeps its page."""
    program = "from flask_notifications.sessions import digest_pair; print(digest_pair('sessionId=a'))"
    run_program = [sys.executable, "-c", program]
    other = subprocess.run(run_program, check=True, capture_output=True, text=True).stdout.strip()
    assert re.fullmatch(r"flask_notifications\.session=[0-9a-f]{16}", other)
    assert other != digest_pair("sessionId=a")


@pytest.mark.parametrize(
    ("query", "header", "left"),
    [
        pytest.param(f"sessionId={A}", None, f"Bearer {A}", id="set when there was none"),
        pytest.param("sessionId=%61b", None, "Bearer ab", id="set to the decoded value"),
        pytest.param(f"sessionId={A}", "", f"Bearer {A}", id="set when it was empty"),
        pytest.param(f"sessionId={A}", " \t", f"Bearer {A}", id="set when it was white space"),
        pytest.param(f"sessionId={A}", "Basic dTpw", "Basic dTpw", id="another scheme stays"),
        pytest.param(f"sessionId={A}", f"bearer  {A} ", f"bearer  {A} ", id="the same session stays unchanged"),
        pytest.param(f"sessionId={A}", f"Bearer {B}", f"Bearer {B}", id="a contradiction stays unchanged"),
        pytest.param("sessionId=%00", None, None, id="not set to a refused value"),
        pytest.param("a=1", None, None, id="not set without a session"),
    ],
)
def test_the_authorization_header_is_set_only_in_a_request_without_one(
    query: str, header: str | None, left: str | None
) -> None:
    environ = request(query, header)
    send(environ)
    assert environ.get("HTTP_AUTHORIZATION") == left


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
    app, response = send(environ)
    assert not app.seen
    assert SESSION not in environ
    assert "S3CRET" not in str({key: value for key, value in environ.items() if isinstance(value, str)})
    assert "S3CRET" not in str(response.wire)


def test_a_key_that_is_absent_from_the_environ_stays_absent() -> None:
    environ = request(None)
    before = set(environ)
    send(environ)
    assert set(environ) - before == {"flask_notifications.original_path"}
    environ = request(f"sessionId={A}")
    before = set(environ)
    send(environ)
    assert set(environ) - before == {"flask_notifications.original_path", SESSION, "HTTP_AUTHORIZATION"}


def test_an_unmatched_request_keeps_every_byte() -> None:
    environ = request(f"sessionId={A}", RAW_URI=f"/p/q?sessionId={A}", PATH_INFO="/p/q")
    before = dict(environ)
    app, _response = send(environ)
    assert environ == before == app.seen[0]


def test_an_operation_that_does_not_unify_the_session_leaves_it_where_it_is() -> None:
    environ = request(f"sessionId={A}", RAW_URI=f"/p?sessionId={A}", HTTP_REFERER=f"/p?sessionId={A}")
    before = dict(environ)
    app = Recorder()
    response = run(DeprecationMiddleware(app, POLICY, operations=[Operation("page", "GET", "/{page}")]), environ)
    assert app.seen[0] == before | {"flask_notifications.operation": "page"}
    assert SESSION not in environ
    assert not response.all("Referrer-Policy") + response.all("Vary") + response.all("Cache-Control")


def spellings(string: str) -> st.SearchStrategy[str]:
    """Return spellings that decode to a string: each character plain, or percent-encoded in either case."""
    of_characters = [st.sampled_from([char, f"%{ord(char):02x}", f"%{ord(char):02X}"]) for char in string]
    return st.tuples(*of_characters).map("".join)


KEYS = st.lists(st.booleans(), min_size=9, max_size=9).flatmap(
    lambda swaps: spellings("".join(c.swapcase() if swap else c for c, swap in zip("sessionId", swaps, strict=True)))
)
SECRETS = st.text("ABCxyz019-._~+/", max_size=20).map("S3CRET".__add__)
OTHERS = st.lists(st.text(st.characters(max_codepoint=0xFF, exclude_characters="&#?;"), max_size=8), max_size=3)


@given(st.data(), SECRETS, OTHERS, OTHERS, LATIN_1.filter(lambda string: "#" not in string))
def test_the_session_of_a_matched_request_is_left_in_its_authorization_header_only(
    data: st.DataObject, secret: str, before: list[str], after: list[str], path: str
) -> None:
    value = data.draw(spellings(secret).filter(lambda string: "+" not in string))
    pair = f"{data.draw(KEYS)}={value}"
    query = "&".join([*before, pair, *after])
    assume(expected_of_query(query) == (secret, "query"))
    uri = f"{path}?{query}#{pair}"
    environ = request(query, RAW_URI=uri, REQUEST_URI=f"http://api.example{uri}", HTTP_REFERER=uri)
    send(environ)
    assert environ.pop("HTTP_AUTHORIZATION") == f"Bearer {secret}"
    assert environ["QUERY_STRING"] == "&".join([*before, digest_of(secret), *after])
    assert environ["RAW_URI"] == uri.replace(f"={value}", "=REDACTED")
    for key, item in environ.items():
        assert secret not in repr(item), key
        assert value not in repr(item), key
