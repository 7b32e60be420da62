"""The rows of a database: SQLite in a file, and PostgreSQL."""

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from benchmarks.applications import rows
from benchmarks.candidates import check
from benchmarks.clients import WsgiClient
from benchmarks.million import MILLION
from benchmarks.parts import Part, Results, column, of_records
from benchmarks.processes import MEGABYTES, SECONDS, Cost, in_processes, measure_response, run_alone
from benchmarks.rounds import Effort, time_requests
from benchmarks.work import ENCODED_RECORDS, session_of
from tests.services import postgresql_schema

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

Make: TypeAlias = "Callable[[str], WSGIApplication]"
"""A function from the URL of a database to an application."""

USERS = (0, 1, 100, 10_000)
_COLUMNS = tuple(map(of_records, USERS))

OURS, CORE = "NotificationApp", "SQLAlchemy Core, join"
SQLITE3, PSYCOPG, STREAM = "sqlite3, join", "psycopg, join", "psycopg, stream()"

_ON_SQLITE: dict[str, Make] = {OURS: rows.ours, CORE: rows.core, SQLITE3: rows.sqlite}
_ON_POSTGRESQL: dict[str, Make] = {OURS: rows.ours, CORE: rows.core, PSYCOPG: rows.plain, STREAM: rows.stream}

# One owner has a million rows, and the rows of the others are scattered among them.
_OTHERS = (1, 100, 1_000, 10_000)
_TABLES = (
    "CREATE TABLE sessions (id TEXT PRIMARY KEY, owner INTEGER NOT NULL)",
    "CREATE TABLE notifications (owner INTEGER NOT NULL, document TEXT NOT NULL)",
)
_INDEX = "CREATE INDEX notifications_owner ON notifications (owner)"
_SESSIONS = [(session_of(owner), owner) for owner in (0, *_OTHERS, MILLION)]


def measure_sqlite(effort: Effort) -> Results:
    """Return the microseconds of processor time of a request."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/notifications.sqlite"
        _fill_sqlite(path)
        return run_alone(_requests, _ON_SQLITE, f"sqlite:///{path}", effort, time.process_time)


def measure_postgresql(effort: Effort) -> Results:
    """Return the microseconds of a request, and the seconds and the memory for a million rows."""
    with postgresql_schema() as url:
        _fill_postgresql(url)
        millions = {name: partial(run_alone, _million, make, url) for name, make in _ON_POSTGRESQL.items()}
        return run_alone(_requests, _ON_POSTGRESQL, url, effort, time.perf_counter) | in_processes(
            millions, effort.long_rounds
        )


def _requests(makes: dict[str, Make], url: str, effort: Effort, clock: Callable[[], float]) -> Results:
    clients = {name: WsgiClient(make(url)) for name, make in makes.items()}
    results: Results = {}
    for user, heading in zip(USERS, _COLUMNS, strict=True):
        for name, client in clients.items():
            check(name, client, session_of(user), announced=False)
        repeats = {name: client.repeat(session_of(user)) for name, client in clients.items()}
        results |= column(heading, time_requests(repeats, effort, clock))
    return results


def _million(make: Make, url: str) -> Cost:
    return measure_response(WsgiClient(make(url)), MILLION)


def _rows() -> Iterator[tuple[int, str]]:
    """Yield owners and documents: a million of one owner, with those of the other owners scattered among them."""
    documents = [document.decode() for document in ENCODED_RECORDS]
    for number in range(MILLION):
        yield MILLION, documents[number % len(documents)]
        for owner in _OTHERS:
            nth, rest = divmod(number, MILLION // owner)
            if rest == 0:
                yield owner, documents[nth % len(documents)]


def _fill_sqlite(path: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in _TABLES:
            connection.execute(statement)
        connection.executemany("INSERT INTO sessions VALUES (?, ?)", _SESSIONS)
        connection.executemany("INSERT INTO notifications VALUES (?, ?)", _rows())
        connection.execute(_INDEX)
        connection.execute("ANALYZE")


def _fill_postgresql(url: str) -> None:
    with rows.connect(url) as connection:
        for statement in _TABLES:
            connection.execute(statement)
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO sessions VALUES (%s, %s)", _SESSIONS)
            with cursor.copy("COPY notifications FROM STDIN") as copy:
                for row in _rows():
                    copy.write_row(row)
        connection.execute(_INDEX)
        connection.execute("VACUUM ANALYZE notifications")


SQLITE = Part(
    "sqlite",
    "Microseconds of processor time for one request, without a network: a session and N JSON documents out of one "
    "million, from a file.",
    _COLUMNS,
    tuple(_ON_SQLITE),
    measure_sqlite,
)
POSTGRESQL = Part(
    "postgresql",
    "The same from PostgreSQL over loopback, by the wall clock; and the seconds and the memory for a million "
    "documents, each in a fresh process.",
    (*_COLUMNS, SECONDS, MEGABYTES),
    tuple(_ON_POSTGRESQL),
    measure_postgresql,
)
