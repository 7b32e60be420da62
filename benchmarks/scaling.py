"""The cost of a record, a route and an operation, depending on how many there are."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import flask

from benchmarks.applications.ours import Storage
from benchmarks.candidates import check
from benchmarks.clients import Repeat, WsgiClient, environ_with, repeat_request
from benchmarks.middleware import trivial
from benchmarks.parts import Part, Results, column, thousands
from benchmarks.processes import Cost, measure_response, run_alone
from benchmarks.rounds import Effort, Values, in_rounds, time_requests
from benchmarks.work import POLICY, ROWS_OF, Users, encoded_rows, rows, session_of
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
ROUTE, MATCHED, UNMATCHED = "µs per request in Flask", "µs matched", "µs unmatched"


def measure(effort: Effort) -> Results:
    """Return the cost of a record by the size of the response, and of a request by the routes and operations."""
    return {
        **column(RECORD, _measure_records(rows, effort)),
        **column(RECORD_BYTES, _measure_records(encoded_rows, effort)),
        **column(MEMORY, _measure_memory(effort)),
        **column(ROUTE, time_requests({_name_routes(count): _among_routes(count) for count in ROUTES}, effort)),
        **column(
            MATCHED, time_requests({_name_operations(count): _repeat_matched(count) for count in OPERATIONS}, effort)
        ),
        **column(
            UNMATCHED,
            time_requests({_name_operations(count): _repeat_unmatched(count) for count in OPERATIONS}, effort),
        ),
    }


def _name_records(size: int) -> str:
    return f"{thousands(size)} records"


def _name_routes(count: int) -> str:
    return f"{thousands(count)} other routes"


def _name_operations(count: int) -> str:
    return "1 operation" if count == 1 else f"{thousands(count)} operations"


def _make_client(make: Make) -> WsgiClient:
    return WsgiClient(NotificationApp(Storage(Users(make))))


def _measure_records(make: Make, effort: Effort) -> dict[str, Values]:
    client = _make_client(make)
    check("NotificationApp", client, session_of(1_000), announced=False)
    repeats = {_name_records(size): client.repeat(session_of(size)) for size in SIZES}
    times = time_requests(repeats, replace(effort, rounds=effort.long_rounds))
    return {
        row: tuple(time / size for time in values) for size, (row, values) in zip(SIZES, times.items(), strict=True)
    }


def _measure_memory(effort: Effort) -> dict[str, Values]:
    measured = in_rounds(
        {_name_records(size): partial(run_alone, _response, size) for size in SIZES}, effort.long_rounds
    )
    return {row: tuple(each.megabytes for each in values) for row, values in measured.items()}


def _response(size: int) -> Cost:
    return measure_response(_make_client(rows), size)


def _among_routes(count: int) -> Repeat:
    """Return a function that makes requests to a Flask application with a number of other routes."""
    app = flask.Flask(__name__)
    app.register_blueprint(create_blueprint(Storage(ROWS_OF)))
    for number in range(count):
        app.add_url_rule(f"/API/Reports{number}/<int:report>", f"report{number}", dict)
    client = WsgiClient(app)
    check(_name_routes(count), client, session_of(1), announced=False)
    return client.repeat(session_of(1))


def _middleware(count: int) -> DeprecationMiddleware:
    """Return a middleware with a plan for the requested operation, and for others that each have a policy."""
    others = [Operation(f"report{number}", "GET", f"/API/Reports{number}/{{id}}") for number in range(1, count)]
    plan = dict.fromkeys([NOTIFICATION_OPERATIONS[0], *others], POLICY)
    for number, operation in enumerate(others):
        plan[operation] = replace(POLICY, sunset_at=POLICY.deprecated_at + timedelta(days=number))
    return DeprecationMiddleware(trivial, plan)


def _repeat_matched(count: int) -> Repeat:
    return repeat_request(_middleware(count), environ_with(session_of(1)))


def _repeat_unmatched(count: int) -> Repeat:
    return repeat_request(_middleware(count), environ_with(path="/API/Shops/17"))


PART = Part(
    "scaling",
    "Processor time of a record by the length of the response, and the memory in MB for the response; processor time "
    "of a request by the number of other routes, and of operations in the plan. Responses above 8 MiB are written to a "
    "temporary file.",
    (RECORD, RECORD_BYTES, MEMORY, ROUTE, MATCHED, UNMATCHED),
    (*map(_name_records, SIZES), *map(_name_routes, ROUTES), *map(_name_operations, OPERATIONS)),
    measure,
)
