"""Whether the cost of a record, a route and an operation depends on how many there are."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import flask

from benchmarks.applications.ours import Storage
from benchmarks.candidates import check
from benchmarks.clients import Repeat, WsgiClient, environ_with, repeated
from benchmarks.middleware import trivial
from benchmarks.parts import Part, Results, column, thousands
from benchmarks.processes import Whole, alone, whole
from benchmarks.rounds import Effort, Values, in_rounds, timed
from benchmarks.work import POLICY, ROWS_OF, Users, rows, session_of, texts
from flask_notifications import (
    NOTIFICATION_OPERATIONS,
    DeprecationMiddleware,
    NotificationApp,
    Operation,
    create_blueprint,
)

Make = Callable[[int], Iterable[Any]]

SIZES = (1_000, 10_000, 100_000, 1_000_000)
ROUTES = (0, 300, 3_000)
OPERATIONS = (1, 100, 1_000)

RECORD, RECORD_BYTES, MEMORY = "µs per record", "µs per record, bytes", "MB added"
ROUTE, CLAIMED, UNCLAIMED = "µs per request in Flask", "µs claimed", "µs unclaimed"


def measure(effort: Effort) -> Results:
    """Return the cost of a record by the size of the answer, and of a request by what else there is."""
    return {
        **column(RECORD, _per_record(rows, effort)),
        **column(RECORD_BYTES, _per_record(texts, effort)),
        **column(MEMORY, _memory(effort)),
        **column(ROUTE, timed({_routes(count): _beside(count) for count in ROUTES}, effort)),
        **column(CLAIMED, timed({_operations(count): _claimed(count) for count in OPERATIONS}, effort)),
        **column(UNCLAIMED, timed({_operations(count): _unclaimed(count) for count in OPERATIONS}, effort)),
    }


def _records(size: int) -> str:
    return f"{thousands(size)} records"


def _routes(count: int) -> str:
    return f"{thousands(count)} other routes"


def _operations(count: int) -> str:
    return f"{thousands(count)} operations"


def _client(make: Make) -> WsgiClient:
    return WsgiClient(NotificationApp(Storage(Users(make))))


def _per_record(make: Make, effort: Effort) -> dict[str, Values]:
    client = _client(make)
    check("NotificationApp", client, session_of(1_000), announced=False)
    repeats = {_records(size): client.repeat(session_of(size)) for size in SIZES}
    times = timed(repeats, replace(effort, rounds=effort.long_rounds))
    return {
        row: tuple(time / size for time in values) for size, (row, values) in zip(SIZES, times.items(), strict=True)
    }


def _memory(effort: Effort) -> dict[str, Values]:
    measured = in_rounds({_records(size): partial(alone, _whole, size) for size in SIZES}, effort.long_rounds)
    return {row: tuple(each.megabytes for each in values) for row, values in measured.items()}


def _whole(size: int) -> Whole:
    return whole(_client(rows), size)


def _beside(count: int) -> Repeat:
    """Return requests to a Flask application with so many other routes."""
    host = flask.Flask(__name__)
    host.register_blueprint(create_blueprint(Storage(ROWS_OF)))
    for number in range(count):
        host.add_url_rule(f"/API/Reports{number}/<int:report>", f"report{number}", dict)
    client = WsgiClient(host)
    check(_routes(count), client, session_of(1), announced=False)
    return client.repeat(session_of(1))


def _middleware(count: int) -> DeprecationMiddleware:
    """Return a middleware of so many operations with a parameter, and of the one that is asked for."""
    others = [Operation(f"report{number}", "GET", f"/API/Reports{number}/{{id}}") for number in range(count)]
    return DeprecationMiddleware(trivial, POLICY, operations=[NOTIFICATION_OPERATIONS[0], *others])


def _claimed(count: int) -> Repeat:
    return repeated(_middleware(count), environ_with(session_of(1)))


def _unclaimed(count: int) -> Repeat:
    return repeated(_middleware(count), environ_with(path="/API/Shops/17"))


PART = Part(
    "scaling",
    "Processor time of a record by the length of the answer, and the memory in MB that it takes; processor time of a "
    "request by the number of other routes and operations. Answers beyond 8 MiB go through a temporary file.",
    (RECORD, RECORD_BYTES, MEMORY, ROUTE, CLAIMED, UNCLAIMED),
    (*map(_records, SIZES), *map(_routes, ROUTES), *map(_operations, OPERATIONS)),
    measure,
)
