"""One request to each candidate, in this process."""

from werkzeug.utils import import_string

from benchmarks.candidates import (
    APPLICATION,
    BLUEPRINT,
    BYTES,
    CANDIDATES,
    DUMPED,
    FALCON,
    FLASK,
    JSONIFY,
    check,
    time_records,
)
from benchmarks.clients import environ_with, repeat_request
from benchmarks.measuring import (
    Effort,
    Part,
    Results,
    Target,
    column,
    of_records,
    time_requests,
)
from benchmarks.work import SIZES
from tests.wsgi import run

REFUSED = "401"


def measure(effort: Effort) -> Results:
    """Return the microseconds of a request, for each number of records and for a
    request without a session.
    """
    applications = {name: import_string(where) for name, where in CANDIDATES.items()}
    results = time_records(applications, effort)
    refusing = {
        name: applications[name] for name in (APPLICATION, BLUEPRINT, FALCON, FLASK)
    }
    for name, application in refusing.items():
        check(f"{name}, no session,", run(application, environ_with()), None)
    repeats = {
        name: repeat_request(application, environ_with())
        for name, application in refusing.items()
    }
    return results | column(REFUSED, time_requests(repeats, effort))


PART = Part(
    "in-process",
    "Microseconds of processor time for one request, without a network, whose response has N records. "
    f"{REFUSED}: a request without a session.",
    (*map(of_records, SIZES), REFUSED),
    tuple(CANDIDATES),
    measure,
    (
        Target("N = 1", APPLICATION, 1.4, FALCON),
        Target("N = 1", BLUEPRINT, 1.0, FLASK),
        Target(REFUSED, BLUEPRINT, 0.6, FLASK),
        Target("N = 100", APPLICATION, 1 / 8, JSONIFY),
        Target("N = 10,000", APPLICATION, 1.1, DUMPED),
        Target("N = 10,000", BYTES, 1.0, DUMPED),
    ),
)
