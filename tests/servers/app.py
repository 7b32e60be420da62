"""The application that the servers run: a Flask application with the blueprint, and
with views of its own.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import chain
from wsgiref.types import StartResponse, WSGIEnvironment

import flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from flask_notifications import DeprecationMiddleware, Operation, create_blueprint
from flask_notifications.testing import MemoryStorage
from tests.middleware import PLAN, POLICY
from tests.storages import raising

# Bytes; a few records are sent from memory, LARGE from a temporary file.
SPOOL_THRESHOLD = 65_536
# Larger than the buffers of a connection, so that a client can disconnect while it is
# being sent.
LARGE_RECORDS = [
    b'{"id":%d,"name":"%s"}' % (number, b"n" * 1_000) for number in range(12_000)
]
LARGE = b"[" + b",".join(LARGE_RECORDS) + b"]"

SESSIONS = {
    "alice-0001": "alice",
    "bob-0002": "bob",
    "admin-0003": "admin",
    "large-0004": "large",
}

storage = MemoryStorage(
    sessions=SESSIONS,
    notifications={
        "alice": [{"id": 1, "name": "Wöchentlich"}, {"id": 2, "name": "Daily"}],
        "bob": [{"id": 3, "name": "Bob's own"}],
        "admin": [],
        "large": LARGE_RECORDS,
    },
    administrators=["admin"],
)

flask_app = flask.Flask(__name__)
flask_app.register_blueprint(create_blueprint(storage, spool_threshold=SPOOL_THRESHOLD))


@flask_app.get("/API/Notification/<int:number>")
def live(number: int) -> str:
    """Serve a current operation, which shares the prefix and is not matched."""
    return f"notification {number}"


CACHEABLE = {"Cache-Control": "public, max-age=60"}


@flask_app.get("/profile")
def profile() -> tuple[str, dict[str, str]]:
    """Return a private page for each caller, and allow any cache to store it."""
    return f"this is for {flask.request.authorization}", CACHEABLE


@flask_app.get("/news")
def news() -> tuple[str, dict[str, str]]:
    """Return the same page to everybody, and allow any cache to store it."""
    return f"written at {datetime.now(UTC)}", CACHEABLE


# Flask logs the exception of a view, and responds with 500.
flask_app.add_url_rule("/broken", "broken", raising(RuntimeError("the view failed")))


# Fails outside of Flask, before its response.
crash = raising(RuntimeError("the application failed"))


def cut(_environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Fail outside of Flask, while the response is read."""
    start_response(
        "200 OK", [("Content-Type", "text/plain"), ("Content-Length", "1000")]
    )
    return chain([b"the beginning"], map(crash, [b""]))


APPLICATIONS = DispatcherMiddleware(
    flask_app, {"/crash": crash, "/unmatched/crash": crash, "/cut": cut}
)
VIEWS = [
    Operation(name, "GET", f"/{name}", unify_session=True)
    for name in ("profile", "broken", "crash", "cut")
]
application = DeprecationMiddleware(APPLICATIONS, PLAN | dict.fromkeys(VIEWS, POLICY))
