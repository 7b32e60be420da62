"""The application that the clients call, mounted at several paths with different settings."""

import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from flask_notifications import (
    Brownout,
    DeprecationMiddleware,
    DeprecationPolicy,
    Operation,
    create_blueprint,
    notification_operations,
)
from tests.servers.app import Storage
from tests.servers.process import gunicorn

# With a thread, because the open connections of browsers would block a sync worker.
PROGRAM = gunicorn("gthread", application="tests.clients.app:application")
LIST = "/API/Notification/"
SESSION = "c0de5e55-0000-4000-8000-000000000001"
RECORDS = [{"id": 1, "name": "Daily"}, {"id": 2, "name": "Weekly"}]

BASE_URL = "https://api.example.com"
SUCCESSOR, DOCUMENTATION = f"{BASE_URL}{LIST}CurrentUser", f"{BASE_URL}/docs/retirement"
SUNSET_DOCUMENTATION = "https://example.com/policy"
POLICY = DeprecationPolicy(
    deprecated_at=datetime(2026, 1, 1, tzinfo=UTC),
    sunset_at=datetime(2027, 7, 1, tzinfo=UTC),
    documentation="/docs/retirement",
    sunset_documentation=SUNSET_DOCUMENTATION,
    brownouts=[Brownout(datetime(2026, 10, 1, 12, tzinfo=UTC), datetime(2026, 10, 1, 14, tzinfo=UTC))],
    enforce_sunset=True,
)
DEPRECATED = datetime(2026, 6, 1, tzinfo=UTC)
BROWNOUT = datetime(2026, 10, 1, 13, tzinfo=UTC)  # one hour before its end
SUNSET = datetime(2027, 7, 1, tzinfo=UTC)

# The only other origin whose pages may read responses.
ORIGIN = os.environ.get("PAGE_ORIGIN", "https://app.example.com")
CORS = {
    "Access-Control-Allow-Origin": ORIGIN,
    "Access-Control-Allow-Headers": "Authorization",
    "Access-Control-Allow-Methods": "DELETE",
    "Access-Control-Expose-Headers": "X-Own",
}
# For a request with credentials, the wildcard has no effect (Fetch, "CORS-exposed header-name").
WILDCARD = CORS | {"Access-Control-Allow-Credentials": "true", "Access-Control-Expose-Headers": "*"}


def make_application(headers: dict[str, str]) -> flask.Flask:
    """Return the application, which adds headers to all its responses."""
    app = flask.Flask(__name__)
    storage = Storage(sessions={SESSION: "alice"}, notifications={"alice": RECORDS}, administrators=["alice"])
    app.register_blueprint(create_blueprint(storage))
    app.add_url_rule("/docs/retirement", "retirement", lambda: "<h1>Moving on</h1>")
    app.add_url_rule("/news", "news", lambda: "of today")

    @app.after_request
    def add_own(response: flask.Response) -> flask.Response:
        response.headers["X-Own"] = "mine"
        response.headers["Link"] = '</help>; rel="help"'
        response.headers.extend(headers)
        return response

    return app


def deprecate(*, at: datetime = DEPRECATED, headers: dict[str, str] = CORS) -> WSGIApplication:
    """Return the application wrapped by the middleware, with a fixed clock."""
    plan = dict.fromkeys(notification_operations(), POLICY)
    return DeprecationMiddleware(make_application(headers), plan, base_url=BASE_URL, clock=lambda: at)


def retire_everything() -> WSGIApplication:
    """Return the application whose whole API is switched off, for any method."""
    plan = {Operation("version", "*", "/API/**", "/v2/**"): POLICY}
    return DeprecationMiddleware(make_application({}), plan, clock=lambda: SUNSET)


def expose(app: WSGIApplication) -> WSGIApplication:
    """Return the application wrapped by a layer that adds the CORS headers to all responses."""
    exposed = {"Access-Control-Expose-Headers": "Deprecation, Sunset, Link, Retry-After"}

    def layer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        def start(status: str, original: list[tuple[str, str]], exc_info: object = None) -> Callable[[bytes], object]:
            assert exc_info is None
            return start_response(status, [*original, *(CORS | exposed).items()])

        return app(environ, start)

    return layer


application = DispatcherMiddleware(
    deprecate(),
    {
        "/brownout": deprecate(at=BROWNOUT),
        "/wildcard": deprecate(headers=WILDCARD),
        "/outermost": expose(deprecate(at=BROWNOUT, headers={})),
        "/version": expose(retire_everything()),
    },
)
