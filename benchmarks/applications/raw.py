"""WSGI without any framework: what is left of the work, step by step, down to handing out ready bytes."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import orjson

from benchmarks.work import ANNOUNCEMENT, RECORDS_OF, SESSIONS, TEXTS_OF

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_JSON = [("Content-Type", "application/json")]


def serving(body_of: Callable[[int], list[bytes]]) -> "WSGIApplication":
    """Return an application that answers with the body of a session's user, in whatever pieces."""

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


def _joined(user: int) -> list[bytes]:
    return [b"[", b",".join(TEXTS_OF[user]), b"]"]


@cache
def _ready(authorization: str) -> tuple[list[tuple[str, str]], bytes]:
    body = b"".join(_joined(SESSIONS[authorization.removeprefix("Bearer ")]))
    return [*_JSON, ("Content-Length", str(len(body))), *ANNOUNCEMENT.items()], body


def ready_bytes(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    """Answer with bytes that are there already: the limit of what anything can reach."""
    fields, body = _ready(environ["HTTP_AUTHORIZATION"])
    start_response("200 OK", fields)
    return [body]


dumped = serving(lambda user: [orjson.dumps(RECORDS_OF[user])])
joined = serving(_joined)
