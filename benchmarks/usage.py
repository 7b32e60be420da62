"""The cost of recording usage: of a request, of a batch, and of the report on a year."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime
from functools import partial

from sqlalchemy import create_engine, text

from benchmarks.clients import environ_with, repeat_request
from benchmarks.middleware import trivial
from benchmarks.parts import Part, Results, column, thousands
from benchmarks.rounds import Effort, in_rounds, time_requests
from benchmarks.work import POLICY, session_of
from flask_notifications import DeprecationMiddleware, Use
from flask_notifications.deprecation import Phase
from flask_notifications.usage import UsageRecorder, metadata, read_usage
from tests.services import postgresql_schema

MATCHED, UNMATCHED = "matched", "unmatched"
WITH, WITHOUT = "with a recorder", "without"

FLUSH, MONTH, ONE = "batch of 10 000 new pairs", "read_usage, 30 days", "read_usage, 30 days, one operation"
SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"

_OPERATIONS, _PAIRS, _DAYS = 100, 200, 365
_TODAY = date(2026, 12, 31)
# A row for each day, operation and pair, and one for each day and operation.
_YEAR = """
WITH RECURSIVE
    days(day) AS (SELECT 0 UNION ALL SELECT day + 1 FROM days WHERE day + 1 < :days),
    operations(operation) AS (SELECT 1 UNION ALL SELECT operation + 1 FROM operations WHERE operation < :operations),
    pairs(pair) AS (SELECT 1 UNION ALL SELECT pair + 1 FROM pairs WHERE pair < :pairs)
"""
_CALLS = """
INSERT INTO flask_notifications_usage
    (day, operation, caller, client, source, first_at, last_at, answered, failed, closed)
{year}
SELECT {day}, 'operation-' || operation, 'team-' || (pair % 20), 'client/' || pair, 'header', {at}, {at}, 10, 1, 0
FROM days, operations, pairs
"""
_HOURS = """
INSERT INTO flask_notifications_coverage (operation, day, recorder, hours, batches)
{year}
SELECT DISTINCT 'operation-' || operation, {day}, '', 16777215, 0 FROM days, operations
"""
_DAY = {
    SQLITE: ("date('2026-12-31', -day || ' days')", "date('2026-12-31', -day || ' days') || ' 12:00:00.000000'"),
    POSTGRESQL: ("date '2026-12-31' - day", "date '2026-12-31' - day + time '12:00'"),
}


def of_requests(effort: Effort) -> Results:
    """Return the microseconds of processor time of a request, with and without a recorder."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = UsageRecorder(f"sqlite:///{folder}/usage.sqlite3")
        applications = {
            WITH: DeprecationMiddleware(trivial, POLICY, observers=[recorder]),
            WITHOUT: DeprecationMiddleware(trivial, POLICY, observers=[lambda _use: None]),
        }
        environs = {MATCHED: environ_with(session_of(1)), UNMATCHED: environ_with(path="/API/Reports/17")}
        results: Results = {}
        for name, environ in environs.items():
            repeats = {each: repeat_request(application, environ) for each, application in applications.items()}
            results |= column(name, time_requests(repeats, effort))
        recorder.close()
    return results


def of_stores(effort: Effort) -> Results:
    """Return the seconds that a batch takes, and a report on a database with a year of calls."""
    results: Results = {}
    for kind in (SQLITE, POSTGRESQL):
        with _database(kind) as database:
            subjects: dict[str, Callable[[], float]] = {FLUSH: partial(_flush, database)}
            results |= {(kind, name): values for name, values in in_rounds(subjects, effort.long_rounds).items()}
            _fill(kind, database, _DAYS if effort.patient else 31)
            subjects = {MONTH: partial(_read, database, None), ONE: partial(_read, database, ["operation-1"])}
            results |= {(kind, name): values for name, values in in_rounds(subjects, effort.long_rounds).items()}
    return results


@contextmanager
def _database(kind: str) -> Iterator[str]:
    with ExitStack() as stack:
        if kind == POSTGRESQL:
            yield stack.enter_context(postgresql_schema())
        else:
            yield f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory())}/usage.sqlite3"


def _flush(database: str) -> float:
    """Return the seconds that a batch of 10 000 new pairs takes: 200 of each of 50 operations."""
    now = datetime.now(UTC)
    engine = create_engine(database)
    metadata.drop_all(engine)
    metadata.create_all(engine)
    engine.dispose()
    recorder = UsageRecorder(database)
    recorder.close()
    for operation in range(50):
        for pair in range(_PAIRS):
            recorder(
                Use(f"operation-{operation}", "GET", 200, Phase.DEPRECATED, "header", f"client/{pair}", now, "team")
            )
    start = time.perf_counter()
    recorder.flush()
    return time.perf_counter() - start


def _fill(kind: str, database: str, days: int) -> None:
    engine = create_engine(database)
    metadata.drop_all(engine)
    metadata.create_all(engine)
    day, at = _DAY[kind]
    with engine.begin() as connection:
        for statement in (_CALLS, _HOURS):
            connection.execute(
                text(statement.format(year=_YEAR, day=day, at=at)),
                {"days": days, "operations": _OPERATIONS, "pairs": _PAIRS},
            )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))
    engine.dispose()


def _read(database: str, operations: list[str] | None) -> float:
    start = time.perf_counter()
    report = read_usage(database, until=_TODAY, operations=operations)
    seconds = time.perf_counter() - start
    expected = 1 if operations else _OPERATIONS
    if [each.answered for each in report.operations] != [30 * _PAIRS * 10] * expected:
        message = "the report is wrong"
        raise ValueError(message)
    return seconds


REQUESTS = Part(
    "usage",
    "Microseconds of processor time of a request to a trivial application inside the middleware, with an observer that "
    "does nothing and with a recorder.",
    (MATCHED, UNMATCHED),
    (WITH, WITHOUT),
    of_requests,
)
STORES = Part(
    "usage-store",
    "Seconds by the wall clock. A batch is written by a thread, beside the requests. The reports are read from a year "
    f"of {_OPERATIONS} operations with {_PAIRS} pairs of caller and client on each day: "
    f"{thousands(_OPERATIONS * _PAIRS * _DAYS)} rows.",
    (SQLITE, POSTGRESQL),
    (FLUSH, MONTH, ONE),
    of_stores,
)
