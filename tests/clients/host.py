"""The application that the clients call: one host and one policy, at several places that differ as their names say."""

import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from time import time
from typing import TYPE_CHECKING

import flask
from werkzeug.http import http_date
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from flask_notifications import (
    Brownout,
    DeprecationMiddleware,
    DeprecationPolicy,
    StorageUnavailable,
    create_blueprint,
)
from flask_notifications.testing import MemoryStorage

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

SESSION = "c0de5e55-0000-4000-8000-000000000001"
RECORDS = [{"id": 1, "name": "Daily"}, {"id": 2, "name": "Weekly"}]
OUT_OF_REACH = "out-of-reach"

BASE_URL = "https://api.example.com"
POLICY = DeprecationPolicy(
    deprecated_at=datetime(2026, 1, 1, tzinfo=UTC),
    sunset_at=datetime(2027, 7, 1, tzinfo=UTC),
    documentation="/docs/retirement",
    sunset_documentation="https://example.com/policy",
    brownouts=[Brownout(datetime(2026, 10, 1, 12, tzinfo=UTC), datetime(2026, 10, 1, 14, tzinfo=UTC))],
    enforce_sunset=True,
)
DEPRECATED = datetime(2026, 6, 1, tzinfo=UTC)
BROWNOUT = datetime(2026, 10, 1, 13, tzinfo=UTC)  # one hour before its end
SUNSET = datetime(2027, 7, 1, tzinfo=UTC)

# The one other origin whose pages may read answers.
ORIGIN = os.environ.get("PAGE_ORIGIN", "https://app.example.com")
CORS = {
    "Access-Control-Allow-Origin": ORIGIN,
    "Access-Control-Allow-Headers": "Authorization",
    "Access-Control-Expose-Headers": "X-Own",
}
# To a request with credentials the wildcard means nothing (Fetch, "CORS-exposed header-name").
WILDCARD = CORS | {"Access-Control-Allow-Credentials": "true", "Access-Control-Expose-Headers": "*"}


class Storage(MemoryStorage):
    """A storage in memory, where one account is out of reach."""

    def account_notifications(self, caller: str, account_id: str) -> Iterable[object]:
        if account_id == OUT_OF_REACH:
            raise StorageUnavailable(retry_after=7)
        return super().account_notifications(caller, account_id)


def host(fields: dict[str, str]) -> flask.Flask:
    """Return the host, which adds some fields of its own to whatever it answers."""
    app = flask.Flask(__name__)
    storage = Storage(sessions={SESSION: "alice"}, notifications={"alice": RECORDS}, administrators=["alice"])
    app.register_blueprint(create_blueprint(storage))
    app.add_url_rule("/docs/retirement", "retirement", lambda: "<h1>Moving on</h1>")
    app.add_url_rule("/news", "news", lambda: "of today")

    @app.after_request
    def add_own(answer: flask.Response) -> flask.Response:
        answer.headers["X-Own"] = "mine"
        answer.headers["Link"] = '</help>; rel="help"'
        answer.headers.extend(fields)
        return answer

    return app


def announced(
    *, at: datetime = DEPRECATED, fields: dict[str, str] = CORS, base_url: str | None = BASE_URL
) -> "WSGIApplication":
    """Return the host under the middleware, whose clock stands still."""
    return DeprecationMiddleware(host(fields), POLICY, base_url=base_url, clock=lambda: at)


def adding(app: "WSGIApplication", fields: Callable[[], dict[str, str]]) -> "WSGIApplication":
    """Return an application with a layer around it, which adds fields to whatever comes through."""

    def layer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], exc_info: object = None) -> Callable[[bytes], object]:
            assert exc_info is None
            return start_response(status, [*headers, *fields().items()])

        return app(environ, start)

    return layer


def opened() -> dict[str, str]:
    return CORS | {"Access-Control-Expose-Headers": "Deprecation, Sunset, Link, Retry-After"}


def kept_for_an_hour() -> dict[str, str]:
    """Return what front servers are often told to add to all that they pass on."""
    return {"Expires": http_date(time() + 3600)}


application = adding(
    DispatcherMiddleware(
        announced(),
        {
            "/brownout": announced(at=BROWNOUT),
            "/sunset": announced(at=SUNSET),
            "/relative": announced(base_url=None),
            "/closed": announced(fields={}),
            "/wildcard": announced(fields=WILDCARD),
            "/outermost": adding(announced(at=BROWNOUT, fields={}), opened),
        },
    ),
    kept_for_an_hour,
)
