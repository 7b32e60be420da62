"""Where a session ID may be in a request, and what counts as missing, repeated, contradictory or malformed."""

import re
from io import BytesIO
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import example, given

from flask_notifications import SessionRefused, session_of
from tests.growth import grows_linearly
from tests.session_requests import (
    AMBIGUOUS,
    HEADERS,
    LATIN_1,
    MALFORMED,
    QUERIES,
    A,
    B,
    Outcome,
    check_outcome,
    expected_of_query,
    is_token,
    request,
    send,
)

LONGEST = "A" * 4096


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
        pytest.param("", f" \tBearer {A}\t ", (A, "header"), id="white space around the value"),
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
        # Several problems: 400 wins.
        pytest.param("sessionId=%00&sessionId=%00", None, AMBIGUOUS, id="repeated and malformed"),
        pytest.param("sessionId=%00", f"Bearer {A}", AMBIGUOUS, id="different and malformed"),
        pytest.param("sessionId=", "Bearer \x00", AMBIGUOUS, id="empty and malformed"),
        pytest.param("sessionId=%00", "Bearer", AMBIGUOUS, id="malformed and no token"),
    ],
)
def test_the_rules_decide_which_session_a_request_has(query: str | None, header: str | None, expected: Outcome) -> None:
    assert check_outcome(request(query, header)) == expected


@pytest.mark.parametrize("separator", ["\x85", "\xa0", "\x0b", "\x0c", "\r\n ", "\n", "\x1c", "/", "=", '"'])
def test_only_a_space_separates_the_scheme_from_the_token(separator: str) -> None:
    assert check_outcome(request(header=f"Bearer{separator}{A}")) in (None, AMBIGUOUS)


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
    assert check_outcome(environ) is None
    assert environ["wsgi.input"].tell() == 0


def test_a_request_without_a_session_is_challenged_where_one_is_required() -> None:
    for header in (None, "", "Basic dTpw", f"BearerX {A}"):
        app, response = send(request(header=header), require_session=True, realm="shop")
        assert (response.code, response.json["code"], app.seen) == (401, "session_missing", [])
        assert response.one("WWW-Authenticate") == 'Bearer realm="shop"'


def test_a_refused_session_is_challenged_with_its_code() -> None:
    for query, status, code in (("sessionId=", *AMBIGUOUS), ("sessionId=%00", *MALFORMED)):
        _app, response = send(request(query), realm="shop")
        assert response.code == status
        assert response.one("WWW-Authenticate") == f'Bearer realm="shop", error="{code}"'


def test_a_preflight_needs_no_session() -> None:
    app, response = send(request(REQUEST_METHOD="OPTIONS"), require_session=True)
    assert (response.code, len(app.seen)) == (200, 1)


@pytest.mark.parametrize(
    "header",
    [
        pytest.param('Digest a="x", Bearer S3CRET, b="y"', id="between quoted strings"),
        pytest.param('Digest a="", Bearer S3CRET, b="y"', id="after an empty one"),
        pytest.param('Digest a="\\\n", Bearer S3CRET, b="y"', id="after one with an escaped line feed"),
    ],
)
def test_a_credential_between_the_parameters_of_another_is_a_second_one(header: str) -> None:
    with pytest.raises(SessionRefused) as caught:
        session_of({"HTTP_AUTHORIZATION": header})
    assert (caught.value.status, caught.value.code) == AMBIGUOUS


def test_tabs_around_an_equals_sign_make_no_second_credential() -> None:
    assert session_of({"HTTP_AUTHORIZATION": 'Digest a="x",\tb\t=\t"y"'}) is None


# Linear work.


@pytest.mark.slow
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
def test_work_on_a_session_grows_linearly_with_the_size_of_the_request(unit: str) -> None:
    def make_request(size: int) -> dict[str, Any]:
        query, header = unit * size, f'Digest a=b, c="{unit * size}'
        return request(query, header, RAW_URI=f"/p?{query}", HTTP_REFERER=f"/p?{query}")

    assert grows_linearly(send, make_request)


def test_work_on_many_session_pairs_grows_linearly_with_their_number() -> None:
    def make_request(size: int) -> dict[str, Any]:
        return request("&".join(f"sessionId={number}&&&&&&&&&&&&&&&" for number in range(size)))

    assert grows_linearly(send, make_request)


# Any query and any header.


@given(QUERIES)
@example(f"a=1&sessionId={A}&b=2")
@example("sessionId=%41%42&sessionId")
def test_any_query_has_the_outcome_that_the_rules_give(query: str) -> None:
    assert check_outcome(request(query)) == expected_of_query(query)


@given(HEADERS)
@example(f"Bearer {A}")
def test_any_header_is_a_session_only_as_one_bearer_token(header: str | None) -> None:
    credential = re.fullmatch(r"[ \t]*bearer +([^ \t].*?)[ \t]*", header or "", re.IGNORECASE | re.ASCII | re.DOTALL)
    is_session = credential is not None and is_token(credential[1])
    actual = check_outcome(request(header=header))
    if credential is not None and is_session:
        assert actual == (credential[1], "header")
    else:
        assert actual in (None, AMBIGUOUS, MALFORMED)


@given(QUERIES, HEADERS, LATIN_1)
def test_no_request_makes_session_of_fail_or_invent_a_value(query: str, header: str | None, uri: str) -> None:
    environ = request(query, header, RAW_URI=uri, REQUEST_URI=query, HTTP_REFERER=f"{uri}?{query}")
    actual = check_outcome(environ)
    if actual is not None and actual not in (AMBIGUOUS, MALFORMED):
        value, source = actual
        values = [value for key, value in parse_qsl(query, encoding="latin-1") if key.lower() == "sessionid"]
        assert isinstance(value, str)
        assert value in (values if source == "query" else str(header))
        assert is_token(value)


@given(QUERIES, LATIN_1, LATIN_1)
def test_a_repeated_key_is_refused_at_any_position(before: str, between: str, value: str) -> None:
    environ = request(f"{before}&sessionid={value}&{between}&SESSIONID=x")
    assert check_outcome(environ) == AMBIGUOUS
