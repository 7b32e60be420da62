"""Requests with a session ID, and the outcome of each with and without the middleware."""

import re
from typing import Any
from urllib.parse import parse_qsl, quote

from hypothesis import strategies as st

from flask_notifications import (
    DeprecationMiddleware,
    DeprecationPolicy,
    Operation,
    SessionCredential,
    SessionRefused,
    load_policy,
    session_of,
)
from flask_notifications.sessions import digest_pair
from tests.wsgi import Response, environ_of, run

SESSION = "flask_notifications.session"
A = "4f2c1e9a7b3d4c5e8f6a0b1c2d3e4f50"
B = "b7e23ec29af22b0b4e41da31e868d572"

POLICY: DeprecationPolicy = load_policy({"deprecated_at": "2026-01-01T00:00:00Z"})
PAGES = [
    Operation(method.lower(), method, "/{page}", rewrite_path=True, unify_session=True)
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
]

# The outcome of a request: no session, the session and where it was, or the status and code of the refusal.
Outcome = tuple[str, str] | tuple[int, str] | None
AMBIGUOUS = (400, "invalid_request")
MALFORMED = (401, "invalid_token")


def digest_of(session_id: str) -> str:
    """Return the pair of the query that replaces this session ID."""
    return digest_pair(f"sessionId={quote(session_id, encoding='latin-1')}")


class Recorder:
    """An application that keeps each environ that it is called with, and the session of the last."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.session: SessionCredential | None = None

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        self.seen.append(dict(environ))
        self.session = session_of(environ)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"ok"]


def send(environ: dict[str, Any], **options: Any) -> tuple[Recorder, Response]:
    """Send a request through the middleware, whose operations match every page."""
    app = Recorder()
    return app, run(DeprecationMiddleware(app, POLICY, operations=PAGES, **options), environ)


def request(query: str | None = "", header: str | None = None, **extra: Any) -> dict[str, Any]:
    """Return the environ of a request to a matched page; a key is absent if its argument is ``None``."""
    environ = environ_of("GET", "/p", query or "", **extra)
    if query is None:
        del environ["QUERY_STRING"]
    if header is not None:
        environ["HTTP_AUTHORIZATION"] = header
    return environ


def resolve(environ: dict[str, Any]) -> Outcome:
    """Return what ``session_of`` returns or raises."""
    try:
        session = session_of(environ)
    except SessionRefused as refused:
        return refused.status, refused.code
    return None if session is None else (session.value, session.source)


def check_outcome(environ: dict[str, Any]) -> Outcome:
    """Return the outcome of a request, which must be the same with and without the middleware."""
    alone = resolve(environ)
    app, response = send(environ)
    if isinstance(alone, tuple) and isinstance(alone[0], int):
        assert (response.code, response.json["code"], app.seen) == (*alone, [])
    else:
        assert len(app.seen) == 1
        assert (app.session and (app.session.value, app.session.source)) == alone
    return alone


# Any strings.

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
    """Return the outcome of a request with nothing but a query, as the standard library parses a form."""
    pairs = parse_qsl(query, keep_blank_values=True, encoding="latin-1")
    values = [value for key, value in pairs if key.lower() == "sessionid"]
    if not values:
        return None
    if len(values) > 1 or not values[0]:
        return AMBIGUOUS
    return (values[0], "query") if is_token(values[0]) else MALFORMED


def is_token(value: str) -> bool:
    """Return whether a session ID has an allowed length and only the characters of RFC 6750."""
    return len(value) <= 4096 and re.fullmatch(r"[-A-Za-z0-9._~+/]+=*", value) is not None
