"""The cost of recording usage, for a request."""

import tempfile

from benchmarks.clients import environ_with, repeat_request
from benchmarks.measuring import Effort, Part, Results, Target, column, time_requests
from benchmarks.middleware import trivial
from benchmarks.work import PLAN, session_of
from flask_notifications import DeprecationMiddleware
from flask_notifications.usage import UsageRecorder

MATCHED, UNMATCHED = "matched", "unmatched"
WITH, WITHOUT = "with a recorder", "without"


def measure(effort: Effort) -> Results:
    """Return the microseconds of processor time of a request, with and without a
    recorder.
    """
    with tempfile.TemporaryDirectory() as folder:
        recorder = UsageRecorder(f"sqlite:///{folder}/usage.sqlite3")
        applications = {
            WITH: DeprecationMiddleware(trivial, PLAN, observers=[recorder]),
            WITHOUT: DeprecationMiddleware(
                trivial, PLAN, observers=[lambda _call: None]
            ),
        }
        environs = {
            MATCHED: environ_with(session_of(1)),
            UNMATCHED: environ_with(path="/API/Reports/17"),
        }
        results: Results = {}
        for name, environ in environs.items():
            repeats = {
                each: repeat_request(application, environ)
                for each, application in applications.items()
            }
            results |= column(name, time_requests(repeats, effort))
        recorder.close()
    return results


PART = Part(
    "usage",
    "Microseconds of processor time of a request to a trivial application inside the middleware, with an observer that "
    "does nothing and with a recorder.",
    (MATCHED, UNMATCHED),
    (WITH, WITHOUT),
    measure,
    (Target(MATCHED, WITH, 1.25, WITHOUT), Target(UNMATCHED, WITH, 1.05, WITHOUT)),
)
