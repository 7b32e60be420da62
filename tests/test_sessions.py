"""Where a session ID may be in a request, what counts as one, and that it is seen in
one place only.
"""

import json
import re
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

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


def request(
    query: str | None = "", header: str | None = None, **extra: Any
) -> dict[str, Any]:
    """Return the environ of a request to a matched page; a key is absent if its
    argument is ``None``.
    """
    environ = environ_of("GET", "/p", query or "", **extra)
    if query is None:
        del environ["QUERY_STRING"]
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
    if isinstance(alone, tuple) and isinstance(alone[0], int):
        assert (response.code, response.json["code"], spy.calls) == (*alone, [])
    else:
        assert len(spy.calls) == 1
        assert resolve(spy.seen) == alone
    return alone


LATIN_1 = st.text(st.characters(max_codepoint=0xFF), max_size=12)
PIECES = st.sampled_from(
    [
        *(
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
        ),
        *("session%49d=", A, B, "AB=="),
    ]
)
QUERIES = st.lists(PIECES | LATIN_1, max_size=8).map("".join)
HEADERS = st.none() | st.lists(
    st.sampled_from(
        ["Bearer", "bearer ", "Basic ", " ", "\t", ",", '"', "\\", "=", A, B, "AB=="]
    )
    | LATIN_1,
    max_size=6,
).map("".join)


def expected_of_query(query: str) -> Outcome:
    """Return the outcome of a request with nothing but a query, as the standard library
    parses a form.
    """
    pairs = parse_qsl(query, keep_blank_values=True, encoding="latin-1")
    values = [value for key, value in pairs if key.lower() == "sessionid"]
    if not values:
        return None
    if len(values) > 1 or not values[0]:
        return AMBIGUOUS
    return (values[0], "query") if is_token(values[0]) else MALFORMED


def is_token(value: str) -> bool:
    return (
        len(value) <= 4096 and re.fullmatch(r"[-A-Za-z0-9._~+/]+=*", value) is not None
    )


LONGEST = "A" * 4096


@pytest.mark.parametrize(
    ("query", "header", "expected"),
    [
        # One session, or none.
        pytest.param("", " \t ", None, id="a header of white space"),
        pytest.param("", f"Bearer    {A}", (A, "header"), id="several spaces"),
        pytest.param(
            "sessionId=" + "%41" * 4096,
            None,
            (LONGEST, "query"),
            id="4096 characters, encoded",
        ),
        pytest.param("", A, None, id="a token without a scheme"),
        pytest.param(
            "",
            rf'Digest username="x\", Bearer {A}", a=b',
            None,
            id="a quoted string with a quoted quote",
        ),
        pytest.param(
            "", "Digest a=b, c = d,\te=f", None, id="parameters of one credential"
        ),
        # Ambiguous.
        pytest.param(
            f"sessionId={A.upper()}", f"Bearer {A}", AMBIGUOUS, id="values have a case"
        ),
        pytest.param(
            "sessionId=", f"Bearer {A}", AMBIGUOUS, id="empty value and a header"
        ),
        pytest.param(
            "",
            f'Digest username="x, Bearer {A}',
            AMBIGUOUS,
            id="a quoted string that is never closed",
        ),
        pytest.param(
            "",
            rf'Digest username="x\\", Bearer {A}',
            AMBIGUOUS,
            id="a quoted backslash ends no pair",
        ),
        pytest.param(
            "",
            f'Digest a="x", Bearer {A}, b="y"',
            AMBIGUOUS,
            id="between quoted strings",
        ),
        pytest.param(
            "", f'Digest a="", Bearer {A}, b="y"', AMBIGUOUS, id="after an empty one"
        ),
        pytest.param(
            "",
            f'Digest a="\\\n", Bearer {A}, b="y"',
            AMBIGUOUS,
            id="after an escaped line feed",
        ),
        pytest.param(
            f"sessionId={A}",
            "Bearer",
            AMBIGUOUS,
            id="a broken header does not fall back to the query",
        ),
        # Malformed.
        pytest.param("", "Bearer =", MALFORMED, id="= alone"),
        pytest.param("", f"Bearer {A},a=b", MALFORMED, id="a token, then a parameter"),
        pytest.param("", f"Bearer %34{A[1:]}", MALFORMED, id="a header is not decoded"),
        pytest.param("", f"Bearer \xa0{A}", MALFORMED, id="a space that is not ASCII"),
        pytest.param(
            "sessionId=a%00", "Bearer a\x00", MALFORMED, id="both, equal, malformed"
        ),
        # Several problems: 400 wins.
        pytest.param(
            "sessionId=%00", f"Bearer {A}", AMBIGUOUS, id="different and malformed"
        ),
        pytest.param("sessionId=%00", "Bearer", AMBIGUOUS, id="malformed and no token"),
    ],
)
def test_the_rules_decide_which_session_a_request_has(
    query: str | None, header: str | None, expected: Outcome
) -> None:
    assert check_outcome(request(query, header)) == expected


@given(QUERIES)
@example(f"a=1&sessionId={A}&b=2")
@example("sessionId=%41%42&sessionId")
def test_any_query_has_the_outcome_that_the_rules_give(query: str) -> None:
    assert check_outcome(request(query)) == expected_of_query(query)


@given(HEADERS)
@example(f"Bearer {A}")
def test_any_header_is_a_session_only_as_one_bearer_token(header: str | None) -> None:
    credential = re.fullmatch(
        r"[ \t]*bearer +([^ \t].*?)[ \t]*",
        header or "",
        re.IGNORECASE | re.ASCII | re.DOTALL,
    )
    is_session = credential is not None and is_token(credential[1])
    actual = check_outcome(request(header=header))
    if credential is not None and is_session:
        assert actual == (credential[1], "header")
    else:
        assert actual in (None, AMBIGUOUS, MALFORMED)


@pytest.mark.parametrize("foreign", [A, {"value": A}, object(), None, ("A", "header")])
def test_a_foreign_object_under_our_key_is_ignored(foreign: Any) -> None:
    assert session_of(request(**{SESSION: foreign})) is None
    assert session_of(
        request(f"sessionId={B}", **{SESSION: foreign})
    ) == SessionCredential(B, "query")
    spy, _response = send(request(**{SESSION: foreign}))
    assert SESSION not in spy.seen


def test_a_refusal_has_its_reason_and_never_the_session_id() -> None:
    for query, status, code in (
        (f"sessionId={A}&sessionId={A}", *AMBIGUOUS),
        (f"sessionId={A}%00", *MALFORMED),
    ):
        with pytest.raises(SessionRefused) as caught:
            session_of(request(query))
        assert (caught.value.status, caught.value.code) == (status, code)
        assert str(caught.value) == caught.value.detail != ""
        assert (
            A
            not in f"{caught.value!r} {caught.value} {caught.value.args} {vars(caught.value)}"
        )


@pytest.mark.parametrize("show", [repr, str, format, "{:>99}".format])
def test_a_credential_never_shows_its_value(
    show: Callable[[SessionCredential], str],
) -> None:
    shown = show(SessionCredential("S3CRET", "query"))
    assert "S3" not in shown
    assert "SessionCredential" in shown
    assert "query" in shown


def test_a_json_encoder_refuses_a_credential() -> None:
    with pytest.raises(TypeError):
        orjson.dumps({"session": SessionCredential("s3cret", "query")})


def test_credentials_are_compared_and_hashed_by_value() -> None:
    credential = SessionCredential("s3cret", "query")
    assert {credential, SessionCredential("s3cret", "query")} == {credential}
    assert credential != SessionCredential("s3cret", "header")
    assert credential != "s3cret"
    with pytest.raises(AttributeError):
        credential.value = "another"  # type: ignore[misc]


VECTORS = json.loads(
    (Path(__file__).parent / "vectors" / "sessions.json").read_text("utf-8")
)


def vectors(kind: str) -> list[Any]:
    return [
        pytest.param(each, id=f"{each['id']} {each['title']}")
        for each in VECTORS
        if each["kind"] == kind
    ]


def vector_environ(vector: dict[str, Any]) -> dict[str, Any]:
    environ = {
        **environ_of(),
        **vector["environ"],
        "wsgi.input": BytesIO(vector.get("body", "").encode()),
    }
    if "QUERY_STRING" not in vector["environ"]:
        del environ["QUERY_STRING"]
    return environ


def describe(spy: Spy, response: Response) -> dict[str, Any]:
    if not spy.calls:
        error = re.search(r'error="([^"]*)"', response.one("WWW-Authenticate"))
        return {
            "outcome": "error",
            "status": response.code,
            "error": error and error[1],
        }
    session = session_of(spy.seen)
    if session is None:
        return {"outcome": "none"}
    return {"outcome": "session", "session_id": session.value, "source": session.source}


def agrees(expected: dict[str, Any], actual: dict[str, Any]) -> bool:
    """Return whether an outcome is an expected one; members that a vector leaves out
    may have any value.
    """
    if expected["outcome"] != actual["outcome"]:
        return False
    if expected["outcome"] == "error":
        code = (
            None
            if expected.get("no_error_attr")
            else expected.get("error", actual["error"])
        )
        return actual["status"] in expected["status"] and actual["error"] == code
    return all(
        actual[key] == expected[key]
        for key in ("session_id", "source")
        if key in expected
    )


@pytest.mark.parametrize("vector", vectors("extract"))
def test_a_request_has_the_outcome_that_its_vector_expects(
    vector: dict[str, Any],
) -> None:
    environ = vector_environ(vector)
    spy, response = send(environ, require_session=vector["mode"] == "required")
    actual = describe(spy, response)
    assert any(
        agrees(expected, actual)
        for expected in [vector["expect"], *vector.get("accept", [])]
    ), actual
    assert not any(agrees(never, actual) for never in vector.get("never", [])), actual
    if vector["expect"].get("reaches_app"):
        assert spy.calls
    if vector["expect"].get("body_untouched"):
        assert environ["wsgi.input"].read() == vector["body"].encode()


def assert_shows(string: str, rule: dict[str, Any]) -> None:
    """Check a value against the rule of a vector."""
    assert string.startswith(rule.get("prefix", ""))
    assert string == rule.get("equals", string)
    assert all(part in string for part in rule.get("contains", []))
    assert not any(part in string for part in rule.get("not_contains", []))
    assert any(part in string for part in rule.get("any_of", [""]))
    assert all(
        string.lower().count(part) == number
        for part, number in rule.get("count", {}).items()
    )
    if rule.get("charset") == "rfc6750":
        assert all(
            re.fullmatch(r"[ !#-\[\]-~]*", quoted) for quoted in string.split('"')[1::2]
        )
    assert not rule.keys() - {
        "prefix",
        "equals",
        "contains",
        "not_contains",
        "any_of",
        "count",
        "charset",
        "except",
    }


def assert_environ_shows(environ: dict[str, Any], expected: dict[str, Any]) -> None:
    for key, rule in expected.items():
        others = [
            v
            for k, v in environ.items()
            if isinstance(v, str) and k not in rule.get("except", [])
        ]
        for string in others if key == "*str*" else [environ[key]]:
            assert_shows(string, rule)


@pytest.mark.parametrize("vector", vectors("leak"))
def test_an_environ_shows_only_what_its_vector_permits(vector: dict[str, Any]) -> None:
    environ, spy, expected = vector_environ(vector), Spy(), vector["expect"]
    app = wrap(spy, operations=PAGES)
    run(wrap(app, operations=PAGES) if vector["app"] == "nested" else app, environ)
    assert_environ_shows(environ, expected["environ_after"])
    assert_environ_shows(spy.seen, expected.get("seen_by_app", {}))
    if "session_id_seen" in expected:
        assert resolve(spy.seen) == (expected["session_id_seen"], "query")


@pytest.mark.parametrize("vector", vectors("response"))
def test_a_response_is_as_its_vector_expects(vector: dict[str, Any]) -> None:
    own, expected = vector.get("app", {}), vector["expect"]
    spy = Spy(own.get("status", "200 OK"), body=[b"ok"])

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        query = environ.get("QUERY_STRING", "")
        headers = own.get("headers", [])
        spy.headers = [
            (name, value.replace("<QUERY_STRING seen by the app>", query))
            for name, value in headers
        ]
        return spy(environ, start_response)

    wrapped = wrap(app, operations=PAGES, require_session=vector["mode"] == "required")
    response = run(wrapped, environ_of() | vector["environ"])
    assert response.code in (
        expected["status"]
        if isinstance(expected["status"], list)
        else [expected["status"]]
    )
    for name, rule in expected.get("headers", {}).items():
        assert_shows(response.one(name), rule)
    assert not any(
        secret in str(response) for secret in expected.get("response_not_contains", [])
    )
    if expected.get("content_length_exact"):
        assert int(response.one("Content-Length")) == len(response.body)
    if expected.get("app_iter_identity"):
        assert (
            wrapped(
                environ_of() | vector["environ"], lambda *_arguments: lambda _data: None
            )
            is spy.body
        )
    if "follow_up_outcome" in expected:
        target = urlsplit(response.one("Location"))
        followed = (
            environ_of()
            | vector["environ"]
            | {"PATH_INFO": target.path, "QUERY_STRING": target.query}
        )
        run(wrapped, followed)
        assert (session_of(followed) is not None) is (
            expected["follow_up_outcome"] == "session"
        )


# In expected queries, with a session ID and ">" after it: the digest of that session
# ID.
PLACE = "<digest of "


@pytest.mark.parametrize(
    ("query", "left"),
    [
        pytest.param(
            f"a=%7e&&b=+&SESSION%49D={A}&c&=&\xff;%",
            f"a=%7e&&b=+&{PLACE}{A}>&c&=&\xff;%",
            id="any bytes",
        ),
        pytest.param(
            "sessionId=%61b&a=1",
            f"{PLACE}ab>&a=1",
            id="a value that is percent-encoded",
        ),
        pytest.param("a=1&sessionId&b=2", f"a=1&{PLACE}>&b=2", id="refused: without ="),
        pytest.param(
            f"sessionId={A}&a=1&sessionid={B}",
            f"{PLACE}{A}>&a=1&{PLACE}{B}>",
            id="refused: repeated",
        ),
        pytest.param("a=1;b&&", "a=1;b&&", id="no pair, odd bytes"),
    ],
)
def test_a_digest_replaces_the_pair_and_every_other_byte_of_the_query_stays(
    query: str, left: str
) -> None:
    environ = request(query)
    send(environ)
    assert environ["QUERY_STRING"] == re.sub(
        f"{PLACE}(.*?)>", lambda found: digest_of(found[1]), left, flags=re.DOTALL
    )


@pytest.mark.slow
def test_another_process_makes_another_digest() -> None:
    """A client that could compute digests would choose the URL under which a cache
    keeps its page.
    """
    program = "from flask_notifications.sessions.credential import digest_of; print(digest_of('a'))"
    other = run_program(sys.executable, "-c", program).stdout.strip()
    assert re.fullmatch(r"flask_notifications\.session=[0-9a-f]{16}", other)
    assert other != digest_of("a")


@pytest.mark.parametrize(
    ("query", "header", "left"),
    [
        pytest.param(
            f"sessionId={A}", None, f"Bearer {A}", id="set when there was none"
        ),
        pytest.param(
            f"sessionId={A}", " \t", f"Bearer {A}", id="set when it was white space"
        ),
        pytest.param(
            f"sessionId={A}", "Basic dTpw", "Basic dTpw", id="another scheme stays"
        ),
        pytest.param(
            f"sessionId={A}",
            f"bearer  {A} ",
            f"bearer  {A} ",
            id="the same session stays unchanged",
        ),
        pytest.param("sessionId=%00", None, None, id="not set to a refused value"),
    ],
)
def test_the_authorization_header_is_set_only_in_a_request_without_one(
    query: str, header: Any, left: Any
) -> None:
    environ = request(query, header)
    send(environ)
    assert environ.get("HTTP_AUTHORIZATION") == left


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
    assert (
        not response.all("Referrer-Policy")
        + response.all("Vary")
        + response.all("Cache-Control")
    )


@pytest.mark.parametrize(
    ("own", "sent"),
    [([], ["no-referrer"]), ([("referrer-policy", "origin")], ["origin"])],
)
def test_no_other_site_learns_a_url_unless_the_application_says_so(
    own: list[tuple[str, str]], sent: list[str]
) -> None:
    app = wrap(plain_app("200 OK", own), operations=PAGES)
    assert run(app, request(f"sessionId={A}")).all("Referrer-Policy") == sent
    assert run(app, request("", f"Bearer {A}")).all("Referrer-Policy") == [
        value for _name, value in own
    ]


def test_a_header_that_changes_between_two_middlewares_is_the_session_of_the_inner_one() -> (
    None
):
    spy = Spy()
    inner = wrap(spy, operations=PAGES)

    def change(environ: dict[str, Any], start_response: Any) -> Any:
        return inner(environ | {"HTTP_AUTHORIZATION": f"Bearer {B}"}, start_response)

    run(wrap(change, operations=PAGES), request(header=f"Bearer {A}"))
    assert session_of(spy.seen) == SessionCredential(B, "header")
