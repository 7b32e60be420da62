"""Responses are the same, byte for byte, under other Python options and environments:
this module prints them.
"""

import locale
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from wsgiref.types import WSGIApplication
from zoneinfo import ZoneInfo

import pytest

from flask_notifications import DeprecationMiddleware, NotificationApp, load_plan
from tests.servers.process import ROOT
from tests.storages import (
    ACCOUNT,
    CURRENT_USER,
    SESSION_ID,
    OneSession,
    flask_app,
)
from tests.wsgi import call, plain_app

# New York has this hour twice. The dates of the others do not fit in 32 bits, signed
# and unsigned.
TWICE = datetime(2026, 11, 1, 1, 30, tzinfo=ZoneInfo("America/New_York"))
POLICIES: list[dict[str, Any]] = [
    {"deprecated_at": "1970-01-01T00:00:00Z", "sunset_at": "2038-01-19T03:14:08Z"},
    {"deprecated_at": "2106-02-07T06:28:16Z", "sunset_at": "9999-12-31T23:59:59Z"},
    {"deprecated_at": TWICE, "sunset_at": TWICE.replace(fold=1)},
]
REQUESTS: list[tuple[str, str, str]] = [
    ("GET", "/api/notification", f"a=1&sessionId={SESSION_ID}"),
    ("POST", ACCOUNT.format("\xc3\xa9"), f"sessionId={SESSION_ID}"),
    ("POST", ACCOUNT.format("\x00"), f"sessionId={SESSION_ID}"),
    ("GET", CURRENT_USER, "sessionId=%FF"),
    ("GET", "/elsewhere", ""),
]


def list_records() -> Iterator[Any]:
    yield {"name": "W\xf6chentlich", "on": datetime(2026, 1, 1, tzinfo=UTC)}
    yield b"{}"


def applications() -> Iterator[WSGIApplication]:
    storage = OneSession(list_records)
    yield flask_app(storage, spool_threshold=1)
    yield NotificationApp(storage)
    yield plain_app("302 Found", [("Location", CURRENT_USER)])


def responses() -> list[Any]:
    """Return the response to each request, from each application under each policy."""
    received = []
    for app in applications():
        for policy in POLICIES:
            plan = load_plan(policy | {"documentation": "/docs/retire"})
            retired = DeprecationMiddleware(app, plan, clock=lambda: TWICE)
            for request in REQUESTS:
                received.append(call(retired, *request).wire)
    return received


@pytest.mark.parametrize(
    ("flags", "environ"),
    [
        ("", {"PYTHONOPTIMIZE": "2"}),
        ("-bb -X dev -W error", {}),
        ("-X utf8=0", {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}),
        ("", {"PYTHONHASHSEED": "0", "TZ": "America/New_York"}),
    ],
    ids=[
        "without assertions and docstrings",
        "warnings are errors, also for bytes as strings",
        "ASCII only",
        "west of Greenwich, fixed hashes",
    ],
)
def test_options_and_environment_change_no_response(
    flags: str, environ: dict[str, str]
) -> None:
    command = [sys.executable, *flags.split(), "-m", __name__]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", ascii(responses()))


if __name__ == "__main__":
    locale.setlocale(locale.LC_ALL, "")
    logging.getLogger("flask_notifications").addHandler(logging.NullHandler())
    sys.stdout.write(ascii(responses()))
