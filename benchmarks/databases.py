"""The rows of a database: SQLite in a file, and PostgreSQL."""

import tempfile
import time
from collections.abc import Callable
from wsgiref.types import WSGIApplication

from sqlalchemy import create_engine, text

from benchmarks.applications import rows
from benchmarks.candidates import time_records
from benchmarks.measuring import Effort, Part, Results, Target, of_records
from benchmarks.work import ENCODED_RECORDS, SIZES, session_of
from tests.services import postgresql_schema

OURS, CORE = "NotificationApp", "SQLAlchemy Core, join"
MAKE: dict[str, Callable[[str], WSGIApplication]] = {OURS: rows.ours, CORE: rows.core}

# The rows of the users are among those of another owner.
_OTHER, _ROWS = 2, 100_000
_TABLES = (
    "CREATE TABLE sessions (id TEXT PRIMARY KEY, owner INTEGER NOT NULL)",
    "CREATE TABLE notifications (owner INTEGER NOT NULL, document TEXT NOT NULL)",
    "CREATE INDEX notifications_owner ON notifications (owner)",
)


def measure_sqlite(effort: Effort) -> Results:
    """Return the microseconds of processor time of a request."""
    with tempfile.TemporaryDirectory() as folder:
        return measure(
            f"sqlite:///{folder}/notifications.sqlite", effort, time.process_time
        )


def measure_postgresql(effort: Effort) -> Results:
    """Return the microseconds of a request by the wall clock."""
    with postgresql_schema() as url:
        return measure(url, effort, time.perf_counter)


def measure(url: str, effort: Effort, clock: Callable[[], float]) -> Results:
    """Fill a database, and return the microseconds of a request for each number of
    rows.
    """
    fill(url)
    return time_records(
        {name: make(url) for name, make in MAKE.items()}, effort, clock, announced=False
    )


def fill(url: str) -> None:
    """Create the tables, with the rows of each user scattered among those of another
    owner.
    """
    documents = [record.decode() for record in ENCODED_RECORDS]
    owners = [user for user in SIZES if user]
    stored = []
    for number in range(_ROWS):
        stored.append({"owner": _OTHER, "document": documents[0]})
        for owner in owners:
            nth, rest = divmod(number, _ROWS // owner)
            if rest == 0:
                stored.append(
                    {"owner": owner, "document": documents[nth % len(documents)]}
                )
    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in _TABLES:
            connection.execute(text(statement))
        sessions = [{"id": session_of(user), "owner": user} for user in SIZES]
        connection.execute(text("INSERT INTO sessions VALUES (:id, :owner)"), sessions)
        connection.execute(
            text("INSERT INTO notifications VALUES (:owner, :document)"), stored
        )
        connection.execute(text("ANALYZE"))
    engine.dispose()


SQLITE = Part(
    "sqlite",
    "Microseconds of processor time for one request, without a network: a session and N JSON documents from a file.",
    tuple(map(of_records, SIZES)),
    (OURS, CORE),
    measure_sqlite,
    (Target("N = 1", OURS, 1.2, CORE), Target("N = 10,000", OURS, 1.1, CORE)),
)
POSTGRESQL = Part(
    "postgresql",
    "The same from PostgreSQL over loopback, by the wall clock.",
    SQLITE.columns,
    SQLITE.rows,
    measure_postgresql,
    (Target("N = 1", OURS, 1.3, CORE), Target("N = 10,000", OURS, 1.1, CORE)),
)
