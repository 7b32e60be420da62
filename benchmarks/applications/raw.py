"""WSGI without any framework: less and less work, down to sending bytes that are ready."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import orjson

from benchmarks.work import ANNOUNCEMENT, ENCODED_OF, RECORDS_OF, SESSIONS

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_JSON = [("Content-Type", "application/json")]


def make_application(body_of: Callable[[int], list[bytes]]) -> "WSGIApplication":
    """Return an application that sends the body for a session's user; the body is a list of chunks."""

    def application(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        query = environ.get("QUERY_STRING", "")
        named = parse_qs(query).get("sessionId") if query else None
        session_id = named[0] if named else environ.get("HTTP_AUTHORIZATION", "").removeprefix("Bearer ")
        user = SESSIONS.get(session_id)
        if user is None:
            start_response("401 Unauthorized", [*_JSON, *ANNOUNCEMENT.items()])
            return [b"{}"]
        body = body_of(user)
        start_response("200 OK", [*_JSON, ("Content-Length", str(sum(map(len, body)))), *ANNOUNCEMENT.items()])
        return body

    return application


def _join(user: int) -> list[bytes]:
    return [b"[", b",".join(ENCODED_OF[user]), b"]"]


@cache
def _ready(authorization: str) -> tuple[list[tuple[str, str]], bytes]:
    body = b"".join(_join(SESSIONS[authorization.removeprefix("Bearer ")]))
    return [*_JSON, ("Content-Length", str(len(body))), *ANNOUNCEMENT.items()], body


def ready_bytes(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    """Send bytes that are ready: the lower limit for every application."""
    headers, body = _ready(environ["HTTP_AUTHORIZATION"])
    start_response("200 OK", headers)
    return [body]


dumped = make_application(lambda user: [orjson.dumps(RECORDS_OF[user])])
joined = make_application(_join)
