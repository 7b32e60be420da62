"""Redirect locations are resolved as browsers do, so that no session reaches another
origin or path.
"""

import json
from pathlib import Path
from random import Random
from urllib.parse import unquote_to_bytes

import pytest

from flask_notifications import Operation, notification_operations
from flask_notifications.plans.operations import OperationTable
from flask_notifications.sessions.redirects import follow
from tests.servers.process import run_program
from tests.services import program_or_skip
from tests.wsgi import environ_of

PIECES = [
    "/",
    "//",
    "\\",
    "\t",
    "\n",
    " ",
    ".",
    "..",
    "%2e",
    "%2F",
    ";",
    ":",
    "@",
    "?",
    "#",
    "&",
    "http:",
    "https:",
]
PIECES += [
    "api.example",
    "b.example",
    "API",
    "Notification",
    "api/notification/",
    "a",
    ":80",
    "[::1]",
    "sessionId=x",
]


@pytest.mark.parametrize(
    "operations",
    [notification_operations(), [Operation("notes", "GET", "/{tenant}/{notes}")]],
    ids=["the two operations", "an operation of parameters"],
)
def test_a_redirect_keeps_the_session_only_if_a_browser_finds_a_matched_operation(
    operations: list[Operation],
) -> None:
    table = OperationTable(operations)
    environ = environ_of("GET", "/API/Notification/")
    random = Random(7)  # noqa: S311 - the same locations each time
    locations = [
        "".join(random.choices(PIECES, k=random.randint(1, 6))) for _ in range(15_000)
    ]
    restored = [
        location
        for location in dict.fromkeys(locations)
        if follow(environ, location, "302 Found", table)
    ]
    assert len(restored) > 100
    asked = json.dumps(
        {"base": "http://api.example/API/Notification/", "locations": restored}
    )
    done = run_program(
        program_or_skip("node"), Path(__file__).with_name("urls.mjs"), input=asked
    )
    for location, resolved in zip(restored, json.loads(done.stdout), strict=True):
        assert resolved is not None, location
        origin, path = resolved
        assert origin == "http://api.example", location
        assert (
            table.match("GET", unquote_to_bytes(path).decode("latin-1")) is not None
        ), (location, path)
