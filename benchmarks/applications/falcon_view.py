"""Falcon with orjson."""

import falcon
import orjson
from falcon import Request, Response

from benchmarks.work import ANNOUNCEMENT, PATH, RECORDS_OF, SESSIONS


class Notifications:
    """The records of a session's user."""

    def on_get(self, request: Request, response: Response) -> None:
        """Send the records."""
        response.set_headers(ANNOUNCEMENT)
        session_id = request.get_param("sessionId")
        if session_id is None:
            session_id = (request.auth or "").removeprefix("Bearer ")
        user = SESSIONS.get(session_id)
        if user is None:
            raise falcon.HTTPUnauthorized
        response.content_type = falcon.MEDIA_JSON
        response.data = orjson.dumps(RECORDS_OF[user])


application = falcon.App()
application.add_route(PATH, Notifications())
