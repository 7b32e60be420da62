"""One request to each candidate, in this process."""

from benchmarks.candidates import APPLICATION, BLUEPRINT, CANDIDATES, FALCON, FLASK, READY, check, checked_client
from benchmarks.parts import Part, Results, column, of_records
from benchmarks.rounds import Effort, time_requests
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
    return results | column(
        REFUSED, time_requests({name: each.repeat(None) for name, each in refusing.items()}, effort)
    )


PART = Part(
    "in-process",
    "Microseconds of processor time for one request, without a network, whose response has N records. "
    f"{REFUSED}: a request without a session. {READY}: the lower limit for every application.",
    (*map(of_records, USERS), REFUSED),
    tuple(CANDIDATES),
    measure,
)
