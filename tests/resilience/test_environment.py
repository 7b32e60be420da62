"""Responses are the same, byte for byte, under other Python options and environments:
this module prints them.
"""

import locale
import logging
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from flask_notifications import DeprecationMiddleware, NotificationApp, load_plan
from tests.servers.process import ROOT, run_program
from tests.storages import (
    ACCOUNT,
    CURRENT_USER,
    SESSION_ID,
    OneSession,
    flask_app,
)
from tests.wsgi import call

# Its date does not fit in 32 bits, and New York has the hour of its clock twice.
POLICY = {
    "deprecated_at": "2026-11-01T01:30:00-04:00",
    "sunset_at": "2106-02-07T06:28:16Z",
    "documentation": "/docs/retire",
}
NOW = datetime(2026, 11, 1, 6, tzinfo=UTC)
REQUESTS: list[tuple[str, str, str]] = [
    ("GET", "/api/notification", f"a=1&sessionId={SESSION_ID}"),
    ("POST", ACCOUNT.format("\xc3\xa9"), f"sessionId={SESSION_ID}"),
    ("POST", ACCOUNT.format("\x00"), f"sessionId={SESSION_ID}"),
    ("GET", CURRENT_USER, "sessionId=%FF"),
]


def list_records() -> Iterator[Any]:
    yield {"name": "W\xf6chentlich", "on": datetime(2026, 1, 1, tzinfo=UTC)}
    yield b"{}"


def responses() -> list[Any]:
    """Return the responses of both entry points."""
    received = []
    plan, storage = load_plan(POLICY), OneSession(list_records)
    for app in (flask_app(storage, spool_threshold=1), NotificationApp(storage)):
        retired = DeprecationMiddleware(app, plan, clock=lambda: NOW)
        for request in REQUESTS:
            received.append(call(retired, *request).wire)
    return received


@pytest.mark.parametrize(
    ("flags", "environ"),
    [
        ("", {"PYTHONOPTIMIZE": "2"}),  # neither assertions nor docstrings
        ("-bb -X dev -W error", {"TZ": "America/New_York"}),
        ("-X utf8=0", {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}),
    ],
)
def test_options_and_environment_change_no_response(
    flags: str, environ: dict[str, str]
) -> None:
    command = [sys.executable, *flags.split(), "-m", __name__]
    done = run_program(*command, cwd=ROOT, env=os.environ | environ)
    assert (done.stderr, done.stdout) == ("", ascii(responses()))


if __name__ == "__main__":
    locale.setlocale(locale.LC_ALL, "")
    logging.getLogger("flask_notifications").addHandler(logging.NullHandler())
    sys.stdout.write(ascii(responses()))
