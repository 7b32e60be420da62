"""The work of every candidate: find the user of a session, respond with their records,
announce the retirement.
"""

from datetime import UTC, datetime
from itertools import cycle, islice
from typing import Any

import orjson

from flask_notifications import DeprecationPolicy, notification_operations

Record = dict[str, Any]

# How many records each user has; a user is known by that number.
SIZES = (0, 1, 100, 10_000)

PATH = "/API/Notification/"
POLICY = DeprecationPolicy(
    deprecated_at=datetime(2026, 1, 1, tzinfo=UTC),
    sunset_at=datetime(2027, 7, 1, tzinfo=UTC),
)
PLAN = dict.fromkeys(notification_operations(), POLICY)
ANNOUNCEMENT = {
    "Deprecation": "@1767225600",
    "Sunset": "Thu, 01 Jul 2027 00:00:00 GMT",
    "Link": '</API/Notification/CurrentUser>; rel="successor-version"',
}


def session_of(user: int) -> str:
    """Return the session ID of a user."""
    return f"5e551011-0000-4000-8000-{user:012d}"


SESSIONS = {session_of(user): user for user in SIZES}


def _make_record(number: int) -> Record:
    """Return a record of eight members; all records have the same length as JSON, 363
    bytes.
    """
    return {
        "id": f"{number:08x}-7a1e-4b5c-9d2f-{number * 7919:012x}",
        "name": f"Weekly sales of region {number:04d}",
        "kind": "threshold",
        "schedule": "0 6 * * 1",
        "recipients": [f"sales-{number:04d}@example.com", "controlling@example.com"],
        "condition": {
            "measure": "revenue",
            "operator": "below",
            "value": 10_000 + number,
            "currency": "EUR",
        },
        "createdOn": f"2025-03-31T08:{number % 60:02d}:18.450Z",
        "comment": "Tells the region when it falls behind",
    }


RECORDS = [_make_record(number) for number in range(1_000)]
ENCODED_RECORDS = [orjson.dumps(record) for record in RECORDS]


RECORDS_OF = {user: list(islice(cycle(RECORDS), user)) for user in SIZES}
ENCODED_OF = {user: list(islice(cycle(ENCODED_RECORDS), user)) for user in SIZES}
