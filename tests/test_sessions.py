"""Where a session ID may be in a request, what counts as one, and that it is seen in
one place only.
"""

import json
import re
import sys
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flask_notifications import Operation, SessionCredential, SessionRefused, session_of
from flask_notifications.sessions.credential import digest_of
from tests.middleware import SESSION, Spy, wrap
from tests.servers.process import run_program
from tests.wsgi import Response, environ_of, plain_app, run

A = "4f2c1e9a7b3d4c5e8f6a0b1c2d3e4f50"
B = "b7e23ec29af22b0b4e41da31e868d572"

PAGES = [
    Operation(method.lower(), method, "/{page}", rewrite_path=True, unify_session=True)
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
]

# The outcome of a request: no session, the session and where it was, or the status and
# code of the refusal.
Outcome = tuple[str, str] | tuple[int, str] | None
AMBIGUOUS = (400, "invalid_request")
MALFORMED = (401, "invalid_token")


def send(environ: dict[str, Any], **options: Any) -> tuple[Spy, Response]:
    spy = Spy()
    return spy, run(wrap(spy, operations=PAGES, **options), environ)


def request(query: str = "", header: str | None = None, **extra: Any) -> dict[str, Any]:
    """Return the environ of a request to a matched page."""
    environ = environ_of("GET", "/p", query, **extra)
    if header is not None:
        environ["HTTP_AUTHORIZATION"] = header
    return environ


def resolve(environ: dict[str, Any]) -> Outcome:
    try:
        session = session_of(environ)
    except SessionRefused as refused:
        return refused.status, refused.code
    return None if session is None else (session.value, session.source)


def check_outcome(environ: dict[str, Any]) -> Outcome:
    """Return the outcome of a request, which must be the same with and without the
    middleware.
    """
    alone = resolve(environ)
    spy, response = send(environ)
    if spy.calls:
        assert resolve(spy.seen) == alone
    else:
        assert (response.code, response.json["code"]) == alone
    return alone


LATIN_1 = st.text(st.characters(max_codepoint=0xFF), max_size=12)
PIECES = ["&", "&", "=", ";", "#", "?", "+", "%", "%00", "%3D", A, B, "AB=="]
PIECES += ["sessionId", "sessionId=", "SessionID=", "session%49d="]
QUERIES = st.lists(st.sampled_from(PIECES) | LATIN_1, max_size=8).map("".join)
SCHEMES = ["Bearer", "bearer ", "Basic ", " ", "\t", ",", '"', "\\", "=", A, B, "AB=="]
HEADERS = st.lists(st.sampled_from(SCHEMES) | LATIN_1, max_size=6).map("".join)


LONGEST = "A" * 4096
# What vectors/sessions.json leaves out: the query, the header, and the outcome.
REQUESTS: dict[str, tuple[str, str | None, Outcome]] = {
    "a header of white space": ("", " \t ", None),
    "4096 characters, encoded": ("sessionId=" + "%41" * 4096, None, (LONGEST, "query")),
    "a quoted quote": ("", rf'Digest username="x\", Bearer {A}", a=b', None),
    "parameters of one credential": ("", "Digest a=b, c = d,\te=f", None),
    "an open quoted string": ("", f'Digest username="x, Bearer {A}', AMBIGUOUS),
    "a quoted backslash": ("", rf'Digest username="x\\", Bearer {A}', AMBIGUOUS),
    "between quoted strings": ("", f'Digest a="x", Bearer {A}, b="y"', AMBIGUOUS),
    "a broken header and a query": (f"sessionId={A}", "Bearer", AMBIGUOUS),
    "a token, then a parameter": ("", f"Bearer {A},a=b", MALFORMED),
    "different and malformed": ("sessionId=%00", f"Bearer {A}", AMBIGUOUS),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_the_rules_decide_which_session_a_request_has(case: str) -> None:
    query, header, expected = REQUESTS[case]
    assert check_outcome(request(query, header)) == expected


TOKEN = re.compile(r"[-A-Za-z0-9._~+/]+=*")


@given(QUERIES, HEADERS)
@example(f"sessionId={A}", "")
@example("", f"Bearer {A}")
def test_any_request_has_one_valid_session_or_none_or_is_refused(
    query: str, header: str
) -> None:
    outcome = check_outcome(request(query, header))
    if outcome not in (None, AMBIGUOUS, MALFORMED):
        value, source = outcome
        assert TOKEN.fullmatch(str(value))
        assert str(value) in (header if source == "header" else unquote_plus(query))


def test_a_foreign_object_under_our_key_is_ignored() -> None:
    environ = request(f"sessionId={B}") | {SESSION: ("A", "header")}
    assert session_of(environ) == SessionCredential(B, "query")
    spy, _response = send(request() | {SESSION: A})
    assert SESSION not in spy.seen


def test_a_refusal_never_has_the_session_id() -> None:
    with pytest.raises(SessionRefused) as caught:
        session_of(request(f"sessionId={A}%00"))
    refused = caught.value
    assert str(refused) == refused.detail != ""
    assert A not in f"{refused!r} {refused} {refused.args} {vars(refused)}"


def test_a_credential_never_shows_its_value() -> None:
    credential = SessionCredential("S3CRET", "query")
    assert "S3" not in f"{credential!r} {credential!s} {credential} {credential:>99}"
    with pytest.raises(TypeError):
        orjson.dumps(credential)


def test_credentials_are_compared_and_hashed_by_value() -> None:
    credential = SessionCredential("s3cret", "query")
    assert {credential} == {SessionCredential("s3cret", "query")}
    assert credential != SessionCredential("s3cret", "header")
    assert credential != "s3cret"
    with pytest.raises(AttributeError):
        credential.value = "another"  # type: ignore[misc]


FILE = Path(__file__).parent / "vectors" / "sessions.json"
VECTORS = {
    f"{vector['id']} {vector['title']}": vector
    for vector in json.loads(FILE.read_text("utf-8"))
}


@pytest.mark.parametrize("case", VECTORS)
def test_a_request_has_the_outcome_that_its_vector_expects(case: str) -> None:
    vector = VECTORS[case]
    expected = vector["expect"]
    environ = environ_of() | vector["environ"]
    body = vector.get("body", "").encode()
    environ["wsgi.input"] = BytesIO(body)
    if "QUERY_STRING" not in vector["environ"]:
        del environ["QUERY_STRING"]
    spy, response = send(environ, require_session=vector["mode"] == "required")
    if expected["outcome"] == "error":
        assert spy.calls == []
        assert response.code in expected["status"]
        assert expected.get("error", "") in response.one("WWW-Authenticate")
    else:
        session = session_of(spy.seen)
        assert (session is None) == (expected["outcome"] == "none")
        if session is not None:
            assert session.value == expected["session_id"]
            assert session.source == expected["source"]
    assert environ["wsgi.input"].read() == body


def test_only_one_string_of_the_environ_shows_the_session() -> None:
    environ = request(f"b=1&sessionId={A}", RAW_URI=f"/p?b=1&sessionId={A}")
    spy = Spy()
    run(wrap(wrap(spy, operations=PAGES), operations=PAGES), environ)
    shown = []
    for key, value in spy.seen.items():
        if isinstance(value, str) and A in value:
            shown.append(key)
    assert shown == ["HTTP_AUTHORIZATION"]
    assert environ["RAW_URI"] == spy.seen["RAW_URI"] == "/p?b=1&sessionId=REDACTED"
    assert resolve(spy.seen) == (A, "query")


@pytest.mark.parametrize("end", ["", "&sessionId={0}"], ids=["none", "a session"])
def test_the_rest_of_a_target_that_ends_with_the_query_is_masked_too(end: str) -> None:
    rest = f"next=%2Fx%3FsessionId%3D{{0}}&;sessionId={{0}}&sessionId%3D{{0}}{end}"
    query, masked = (rest.format(value) for value in (A, "REDACTED"))
    environ = request(query, RAW_URI=f"/p?{query}")
    environ["REQUEST_URI"] = f"/p;sessionId={A}?{query}"
    send(environ)
    assert environ["RAW_URI"] == f"/p?{masked}"
    assert A not in environ["REQUEST_URI"]


@pytest.mark.parametrize("query", [f"sessionid={A}&SESSIONID={A}", f"sessionId={A}%00"])
def test_a_refused_session_is_shown_nowhere(query: str) -> None:
    environ = request(query, RAW_URI=f"/p?{query}")
    _spy, response = send(environ)
    assert A not in f"{environ} {response}"


@pytest.mark.parametrize(
    ("name", "value", "query", "expected"),
    [
        ("Cache-Control", "public, s-maxage=9, max-age=6", A, "max-age=6, private"),
        ("Cache-Control", "public, max-age=6", "", "public, max-age=6"),
        ("Vary", "Accept-Encoding", "", "Accept-Encoding, Authorization"),
        ("Vary", "authorization", "", "authorization"),
        ("Vary", "*", "", "*"),
    ],
)
def test_a_shared_cache_keeps_no_response_for_another_session(
    name: str, value: str, query: str, expected: str
) -> None:
    app = wrap(plain_app("200 OK", [(name, value)]), operations=PAGES)
    environ = request(query and f"sessionId={query}", f"Bearer {A}")
    assert run(app, environ).one(name) == expected


def test_a_digest_replaces_the_pair_and_every_other_byte_of_the_query_stays() -> None:
    for query, expected in {
        f"a=%7e&&b=+&SESSION%49D={A}&c&=&\xff;%": f"a=%7e&&b=+&{digest_of(A)}&c&=&\xff;%",
        "sessionId=%61b&a=1": f"{digest_of('ab')}&a=1",
        "a=1&sessionId&b=2": f"a=1&{digest_of('')}&b=2",
        f"sessionId={A}&a=1&sessionid={B}": f"{digest_of(A)}&a=1&{digest_of(B)}",
    }.items():
        environ = request(query)
        send(environ)
        assert environ["QUERY_STRING"] == expected


@pytest.mark.slow
def test_another_process_makes_another_digest() -> None:
    """A client that could compute digests would choose the URL under which a cache
    keeps its page.
    """
    module = "flask_notifications.sessions.credential"
    program = f"from {module} import digest_of; print(digest_of('a'))"
    digest = run_program(sys.executable, "-c", program).stdout.strip()
    assert re.fullmatch(r"flask_notifications\.session=[0-9a-f]{16}", digest)
    assert digest != digest_of("a")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, f"Bearer {A}"),
        (" \t", f"Bearer {A}"),
        ("Basic dTpw", "Basic dTpw"),
        (f"bearer  {A} ", f"bearer  {A} "),
    ],
)
def test_the_authorization_header_is_set_only_in_a_request_without_one(
    header: str | None, expected: str
) -> None:
    environ = request(f"sessionId={A}", header)
    send(environ)
    assert environ["HTTP_AUTHORIZATION"] == expected


def test_an_operation_that_does_not_unify_the_session_leaves_it_where_it_is() -> None:
    environ = request(
        f"sessionId={A}", RAW_URI=f"/p?sessionId={A}", HTTP_REFERER=f"/p?sessionId={A}"
    )
    before = dict(environ)
    spy = Spy()
    response = run(wrap(spy, operations=[Operation("page", "GET", "/{page}")]), environ)
    assert spy.seen.pop("flask_notifications.served")  # for notice_of
    assert spy.seen == before
    assert SESSION not in environ
    for name in ("Referrer-Policy", "Vary", "Cache-Control"):
        assert not response.all(name)


def test_no_other_site_learns_a_url_unless_the_application_says_so() -> None:
    query = request(f"sessionId={A}")
    silent = wrap(plain_app(), operations=PAGES)
    assert run(silent, query.copy()).all("Referrer-Policy") == ["no-referrer"]
    assert run(silent, request("", f"Bearer {A}")).all("Referrer-Policy") == []
    headers = [("referrer-policy", "origin")]
    app = wrap(plain_app("200 OK", headers), operations=PAGES)
    assert run(app, query).all("Referrer-Policy") == ["origin"]


def test_the_session_of_the_inner_of_two_middlewares_counts() -> None:
    spy = Spy()
    inner = wrap(spy, operations=PAGES)

    def change(environ: dict[str, Any], start_response: Any) -> Any:
        return inner(environ | {"HTTP_AUTHORIZATION": f"Bearer {B}"}, start_response)

    run(wrap(change, operations=PAGES), request(header=f"Bearer {A}"))
    assert session_of(spy.seen) == SessionCredential(B, "header")
