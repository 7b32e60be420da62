"""Starlette with msgspec."""

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.work import ANNOUNCEMENT, PATH, RECORDS_OF, SESSIONS

_encode = msgspec.json.Encoder().encode


async def notifications(request: Request) -> Response:
    """Return the records of the session's user."""
    session_id = request.query_params.get("sessionId")
    if session_id is None:
        session_id = request.headers.get("Authorization", "").removeprefix("Bearer ")
    user = SESSIONS.get(session_id)
    if user is None:
        return Response(status_code=401, headers=ANNOUNCEMENT)
    return Response(_encode(RECORDS_OF[user]), media_type="application/json", headers=ANNOUNCEMENT)


application = Starlette(routes=[Route(PATH, notifications)])
