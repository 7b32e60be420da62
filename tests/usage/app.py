"""The application for the tests with servers; its database and its spool are in the environment."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from wsgiref.types import StartResponse, WSGIEnvironment

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation
from flask_notifications.usage import UsageRecorder

OPERATIONS = (Operation("report", "GET", "/report"), Operation("export", "GET", "/export/{id}"))


def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Respond to everything; the caller is in a header."""
    environ["flask_notifications.caller"] = environ.get("HTTP_X_CALLER")
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "2")])
    return [b"ok"]


recorder = UsageRecorder(os.environ["USAGE_DATABASE"], flush_interval=3600, spool=os.environ.get("USAGE_SPOOL"))
application = DeprecationMiddleware(
    serve,
    dict.fromkeys(OPERATIONS, DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))),
    observers=[recorder],
)
