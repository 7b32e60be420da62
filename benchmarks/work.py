"""The work of every candidate: find the user of a session, respond with their records, announce the retirement."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import cycle, islice
from types import MappingProxyType
from typing import Any, TypeVar

import orjson

from flask_notifications import DeprecationPolicy

Record = dict[str, Any]
Found = TypeVar("Found")

# How many records each user has; a user is known by that number.
SIZES = (0, 1, 100, 1_000, 10_000, 100_000, 200_000, 1_000_000)

PATH = "/API/Notification/"
POLICY = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC), sunset_at=datetime(2027, 7, 1, tzinfo=UTC))
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
    """Return a record of eight members; all records have the same length as JSON, 363 bytes."""
    return {
        "id": f"{number:08x}-7a1e-4b5c-9d2f-{number * 7919:012x}",
        "name": f"Weekly sales of region {number:04d}",
        "kind": "threshold",
        "schedule": "0 6 * * 1",
        "recipients": [f"sales-{number:04d}@example.com", "controlling@example.com"],
        "condition": {"measure": "revenue", "operator": "below", "value": 10_000 + number, "currency": "EUR"},
        "createdOn": f"2025-03-31T08:{number % 60:02d}:18.450Z",
        "comment": "Tells the region when it falls behind",
    }


RECORDS = [_make_record(number) for number in range(1_000)]
ENCODED_RECORDS = [orjson.dumps(record) for record in RECORDS]


def rows(user: int) -> Iterator[Record]:
    """Yield the records of a user, each created when it is needed, as a database's driver does."""
    return map(dict.copy, islice(cycle(RECORDS), user))


def encoded_rows(user: int) -> Iterator[bytes]:
    """Yield the records of a user as JSON, in bytes."""
    return islice(cycle(ENCODED_RECORDS), user)


class Users(dict[int, Found]):
    """The records of each user: some are ready, and all others are created for each request."""

    def __init__(self, make: Callable[[int], Found], ready: Mapping[int, Found] = MappingProxyType({})) -> None:
        super().__init__(ready)
        self._make = make

    def __missing__(self, user: int) -> Found:
        return self._make(user)


# Records for small responses are ready, because creating them would hide the cost of the response.
_FEW = [user for user in SIZES if user <= 10_000]
_READY = {user: list(rows(user)) for user in _FEW}

# For applications that can respond with an iterator, and for those that need a list.
ROWS_OF: Users[Iterable[Record]] = Users(rows, _READY)
ITERATORS_OF: Users[Iterable[Record]] = Users(lambda user: iter(_READY[user]) if user in _READY else rows(user))
RECORDS_OF: Users[list[Record]] = Users(lambda user: list(rows(user)), _READY)
ENCODED_OF: Users[Iterable[bytes]] = Users(encoded_rows, {user: list(encoded_rows(user)) for user in _FEW})
