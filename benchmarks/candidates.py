"""The candidates, which are applications that do the same work, and the check that each
does it.
"""

import json
import time
from collections.abc import Callable, Mapping
from wsgiref.types import WSGIApplication

from benchmarks.clients import environ_with, repeat_request
from benchmarks.measuring import Effort, Results, column, of_records, time_requests
from benchmarks.work import ANNOUNCEMENT, RECORDS_OF, SESSIONS, SIZES, session_of
from tests.wsgi import Response, run

APPLICATION, BYTES, BLUEPRINT = "NotificationApp", "NotificationApp, bytes", "blueprint"
DUMPED, FALCON = "raw WSGI, orjson", "Falcon, orjson"
FLASK, JSONIFY = "usual Flask view, orjson", "Flask jsonify"

# The import name of each candidate, which servers load.
CANDIDATES = {
    name: f"benchmarks.applications.{where}"
    for name, where in {
        APPLICATION: "ours:application",
        BYTES: "ours:application_bytes",
        BLUEPRINT: "ours:blueprint",
        DUMPED: "raw:dumped",
        FALCON: "falcon_view:application",
        FLASK: "flask_view:usual",
        JSONIFY: "flask_view:jsonified",
    }.items()
}


class WrongResponse(Exception):
    """An application does not do the work, so its time means nothing."""


def check(
    name: str, response: Response, session_id: str | None, *, announced: bool = True
) -> None:
    """Raise ``WrongResponse`` unless a response has the session's records, or is 401
    without a session.
    """
    expected = 401 if session_id is None else 200
    if response.code != expected:
        message = f"{name} responded {response.status}, not {expected}"
        raise WrongResponse(message)
    if (
        session_id is not None
        and json.loads(response.body) != RECORDS_OF[SESSIONS[session_id]]
    ):
        message = f"{name} responded with other records"
        raise WrongResponse(message)
    for header, value in ANNOUNCEMENT.items() if announced else ():
        if response.all(header) != [value]:
            message = f"{name} sent {header}: {response.all(header)}, not {value!r}"
            raise WrongResponse(message)


def time_records(
    applications: Mapping[str, WSGIApplication],
    effort: Effort,
    clock: Callable[[], float] = time.process_time,
    *,
    announced: bool = True,
) -> Results:
    """Check all responses, and return the microseconds of a request for each number of
    records.
    """
    results: Results = {}
    for user in SIZES:
        session_id, environ = session_of(user), environ_with(session_of(user))
        for name, application in applications.items():
            check(
                f"{name}, {user} records,",
                run(application, environ.copy()),
                session_id,
                announced=announced,
            )
        repeats = {
            name: repeat_request(application, environ)
            for name, application in applications.items()
        }
        results |= column(of_records(user), time_requests(repeats, effort, clock))
    return results
