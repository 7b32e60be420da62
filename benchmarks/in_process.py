"""One request to each candidate, in this process."""

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
    checked_client,
)
from benchmarks.measuring import Effort, Part, Results, Target, column, of_records, time_requests
from benchmarks.work import session_of

USERS = (0, 1, 100, 10_000)
REFUSED = "401"


def measure(effort: Effort) -> Results:
    """Return the microseconds of a request, for each number of records and for a request without a session."""
    clients = {name: checked_client(name, *USERS) for name in CANDIDATES}
    results: Results = {}
    for user in USERS:
        repeats = {name: client.repeat(session_of(user)) for name, client in clients.items()}
        results |= column(of_records(user), time_requests(repeats, effort))
    refusing = {name: clients[name] for name in (APPLICATION, BLUEPRINT, FALCON, FLASK)}
    for name, client in refusing.items():
        check(f"{name}, no session,", client, None)
    times = time_requests({name: each.repeat(None) for name, each in refusing.items()}, effort)
    return results | column(REFUSED, times)


PART = Part(
    "in-process",
    "Microseconds of processor time for one request, without a network, whose response has N records. "
    f"{REFUSED}: a request without a session.",
    (*map(of_records, USERS), REFUSED),
    tuple(CANDIDATES),
    measure,
    (
        Target("N = 1", APPLICATION, 1.4, FALCON),
        Target("N = 1", BLUEPRINT, 1.0, FLASK),
        Target(REFUSED, BLUEPRINT, 0.6, FLASK),
        Target("N = 100", APPLICATION, 1 / 8, JSONIFY),
        Target("N = 10 000", APPLICATION, 1.1, DUMPED),
        Target("N = 10 000", BYTES, 1.0, DUMPED),
    ),
)
