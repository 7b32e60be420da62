"""Send every request once, and print the responses, which depend on the requests alone and not on Python's options."""

import locale
import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from wsgiref.types import WSGIApplication
from zoneinfo import ZoneInfo

from flask_notifications import DeprecationMiddleware, NotificationApp, load_plan
from tests.storages import ACCOUNT, BEARER, CURRENT_USER, SESSION_ID, OneSession, flask_app
from tests.wsgi import call, plain_app

# New York has this hour twice. The dates of the others do not fit in 32 bits, signed and unsigned.
TWICE = datetime(2026, 11, 1, 1, 30, tzinfo=ZoneInfo("America/New_York"))
POLICIES: list[dict[str, Any]] = [
    {"deprecated_at": "1970-01-01T00:00:00Z", "sunset_at": "2038-01-19T03:14:08Z"},
    {"deprecated_at": "2106-02-07T06:28:16Z", "sunset_at": "9999-12-31T23:59:59.999999Z"},
    {"deprecated_at": "2026-03-08T02:30:00-05:00", "sunset_at": "2026-10-25T02:30:00+05:45"},
    {"deprecated_at": TWICE, "sunset_at": TWICE.replace(fold=1)},
    {"deprecated_at": "2000-01-01T00:00:00Z", "sunset_at": "2000-02-01T00:00:00Z", "enforce_sunset": True},
]
REQUESTS: list[tuple[str, str, str, dict[str, str]]] = [
    ("GET", "/api/notification", f"a=1&sessionId={SESSION_ID}", {}),
    ("POST", ACCOUNT.format("\xc3\xa9"), "", BEARER),
    ("POST", ACCOUNT.format("\x00"), "", BEARER),
    ("GET", CURRENT_USER, "sessionId=%FF", {}),
    ("GET", "/elsewhere", "", {}),
]


def applications() -> Iterator[WSGIApplication]:
    storage = OneSession(lambda: iter([{"name": "W\xf6chentlich", "on": datetime(2026, 1, 1, tzinfo=UTC)}, b"{}"]))
    yield flask_app(storage, spool_threshold=1)
    yield NotificationApp(storage)
    yield NotificationApp(OneSession(lambda: [{"n": object()}]))
    yield plain_app("302 Found", [("Location", CURRENT_USER)])


def responses() -> list[Any]:
    """Return the response to each request, from each application under each policy."""
    plans = [load_plan(policy | {"documentation": "/docs/retire"}) for policy in POLICIES]
    middlewares = (DeprecationMiddleware(app, plan, clock=lambda: TWICE) for app in applications() for plan in plans)
    return [call(app, *request, **extra).wire for app in middlewares for *request, extra in REQUESTS]


def main() -> None:
    """Print the responses in ASCII, and nothing else."""
    locale.setlocale(locale.LC_ALL, "")
    logging.getLogger("flask_notifications").addHandler(logging.NullHandler())
    sys.stdout.write(ascii(responses()))


if __name__ == "__main__":
    main()
