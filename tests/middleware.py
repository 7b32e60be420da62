"""The middleware with a policy at a fixed time, and an application that records its
calls.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from flask_notifications import (
    DeprecationMiddleware,
    DeprecationPolicy,
    Operation,
    notification_operations,
)
from tests.wsgi import Response, call, plain_app

# Keys of the environ.
SESSION = "flask_notifications.session"
DEPRECATED_AT = datetime(2026, 1, 1, tzinfo=UTC)
SUNSET_AT = datetime(2027, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 6, 1, tzinfo=UTC)
POLICY = DeprecationPolicy(
    deprecated_at=DEPRECATED_AT,
    sunset_at=SUNSET_AT,
    documentation="https://example.com/retire",
    sunset_documentation="https://example.com/policy",
)
OPERATIONS = notification_operations()
PLAN = dict.fromkeys(OPERATIONS, POLICY)
LINKS = (
    '</API/Notification/CurrentUser>; rel="successor-version", '
    '<https://example.com/retire>; rel="deprecation"; type="text/html", '
    '<https://example.com/policy>; rel="sunset"; type="text/html"'
)
ANNOUNCED = [
    ("Deprecation", "@1767225600"),
    ("Sunset", "Fri, 01 Jan 2027 00:00:00 GMT"),
    ("Link", LINKS),
]
DATE_ONLY = DeprecationPolicy(deprecated_at=DEPRECATED_AT)
CLOSED = DeprecationPolicy(
    deprecated_at=DEPRECATED_AT, sunset_at=DEPRECATED_AT, enforce_sunset=True
)
PATH = "/API/Notification/"


class Spy:
    """An application that records the arguments of each call, and always sends the same
    response.
    """

    def __init__(
        self,
        status: str = "200 OK",
        headers: Iterable[tuple[str, str]] = (),
        body: Any = (b"ok",),
    ) -> None:
        self.status, self.headers, self.body = (
            status,
            [("Content-Type", "text/plain"), *headers],
            body,
        )
        self.calls: list[tuple[WSGIEnvironment, StartResponse]] = []
        self.seen: dict[str, Any] = {}

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Any:
        self.calls.append((environ, start_response))
        self.seen = dict(environ)
        before = list(self.headers)
        start_response(self.status, self.headers)
        assert self.headers == before  # a middleware leaves it as it is
        return self.body


def wrap(
    app: WSGIApplication | None = None,
    policy: DeprecationPolicy = POLICY,
    operations: Iterable[Operation] = OPERATIONS,
    **options: Any,
) -> Any:
    """Return the middleware around an application, or around one that always sends
    ``ok``; one policy for all.
    """
    plan = dict.fromkeys(operations, policy)
    return DeprecationMiddleware(
        plain_app() if app is None else app, plan, **{"clock": lambda: NOW, **options}
    )


def response_of(
    status: str = "200 OK",
    headers: Iterable[tuple[str, str]] = (),
    query: str = "",
    **options: Any,
) -> Response:
    """Return the response of the middleware around an application that sends a status
    and headers.
    """
    return call(wrap(plain_app(status, headers), **options), "GET", PATH, query)
