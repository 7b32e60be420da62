"""One request to each candidate, in this process."""

from benchmarks.candidates import APPLICATION, BLUEPRINT, CANDIDATES, FALCON, FLASK, READY, check, checked
from benchmarks.parts import Part, Results, column, of_records
from benchmarks.rounds import Effort, timed
from benchmarks.work import session_of

USERS = (0, 1, 100, 10_000)
REFUSED = "401"


def measure(effort: Effort) -> Results:
    """Return the microseconds of a request, for each number of records and for a request without a session."""
    clients = {name: checked(name, *USERS) for name in CANDIDATES}
    results: Results = {}
    for user in USERS:
        repeats = {name: client.repeat(session_of(user)) for name, client in clients.items()}
        results |= column(of_records(user), timed(repeats, effort))
    refusing = {name: clients[name] for name in (APPLICATION, BLUEPRINT, FALCON, FLASK)}
    for name, client in refusing.items():
        check(f"{name}, no session,", client, None)
    return results | column(REFUSED, timed({name: each.repeat(None) for name, each in refusing.items()}, effort))


PART = Part(
    "in-process",
    "Microseconds of processor time for one request, without a network, whose answer has N records. "
    f"{REFUSED}: a request without a session. {READY} is what nothing can go below.",
    (*map(of_records, USERS), REFUSED),
    tuple(CANDIDATES),
    measure,
)
