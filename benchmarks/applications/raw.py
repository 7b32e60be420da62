"""WSGI without any framework: the least code that does the work."""

from collections.abc import Iterable
from urllib.parse import parse_qs
from wsgiref.types import StartResponse, WSGIEnvironment

import orjson

from benchmarks.work import ANNOUNCEMENT, RECORDS_OF, SESSIONS

_JSON = [("Content-Type", "application/json")]


def dumped(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Send the records of the session's user."""
    query = environ.get("QUERY_STRING", "")
    named = parse_qs(query).get("sessionId") if query else None
    session_id = (
        named[0]
        if named
        else environ.get("HTTP_AUTHORIZATION", "").removeprefix("Bearer ")
    )
    user = SESSIONS.get(session_id)
    if user is None:
        start_response("401 Unauthorized", [*_JSON, *ANNOUNCEMENT.items()])
        return [b"{}"]
    body = orjson.dumps(RECORDS_OF[user])
    start_response(
        "200 OK", [*_JSON, ("Content-Length", str(len(body))), *ANNOUNCEMENT.items()]
    )
    return [body]
