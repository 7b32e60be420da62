"""Databases for the tests of usage records, and a recorder whose clock the tests set."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Engine, create_engine

from flask_notifications import Call, DeprecationPolicy, Operation
from flask_notifications.plans.policy import Phase
from flask_notifications.usage import StoreUnavailable, UsageRecorder, read_usage
from tests.servers.process import eventually
from tests.services import MARIADB, new_database, postgresql_schema

DATABASES = ["sqlite", "postgresql", "mariadb"]
REPORT, EXPORT = (
    Operation("report", "GET", "/report"),
    Operation("export", "GET", "/export/{id}"),
)
NOON = datetime(2026, 5, 31, 12, tzinfo=UTC)
POLICY = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))


@contextmanager
def empty_database(kind: str, folder: Path) -> Iterator[str]:
    with ExitStack() as stack:
        if kind == "postgresql":
            yield stack.enter_context(postgresql_schema())
        elif kind == "mariadb":
            yield stack.enter_context(new_database(MARIADB)).render_as_string(
                hide_password=False
            )
        else:
            yield f"sqlite:///{folder}/usage.sqlite3"


def execute(database: str | Engine, statement: Any) -> list[tuple[Any, ...]]:
    """Execute a statement in a transaction of its own, and return the rows, if it has
    any.
    """
    engine = database if isinstance(database, Engine) else create_engine(database)
    try:
        with engine.begin() as connection:
            result = connection.execute(statement)
            return [tuple(row) for row in result] if result.returns_rows else []
    finally:
        if engine is not database:
            engine.dispose()


def counted(database: str | Engine) -> dict[tuple[str, str | None, str | None], int]:
    """Return the calls of each operation, caller and client in a store; none while
    there are no tables.
    """
    try:
        report = read_usage(database)
    except StoreUnavailable:
        return {}
    calls = {}
    for operation in report.operations:
        for row in operation.callers:
            calls[operation.name, row.caller, row.client] = row.calls
    return calls


def use(
    client: str | None = "job/1",
    caller: str | None = None,
    *,
    status: int | None = 200,
    phase: Phase = Phase.DEPRECATED,
    source: Literal["header", "query"] | None = None,
    operation: str = REPORT.name,
    at: datetime = NOON,
) -> Call:
    return Call(operation, "GET", status, phase, source, client, at, caller)


def now(client: str | None = "job/1", caller: str | None = None) -> Call:
    return use(client, caller, at=datetime.now(UTC))


def record(database: str | Engine, **options: Any) -> UsageRecorder:
    """Return a recorder that listens, and writes only what is new."""
    recorder = UsageRecorder(database, **{"flush_interval": 3600, **options})
    recorder.listen({REPORT: POLICY})
    return recorder


def record_call(database: str | Engine, **options: Any) -> UsageRecorder:
    """Return a recorder that has written a call."""
    recorder = record(database, **options)
    recorder(now())
    eventually(recorder.flush)
    return recorder


class Past:
    """A recorder that records calls and coverage as if at any time."""

    def __init__(
        self, database: str | Engine, *operations: Operation, **options: Any
    ) -> None:
        self.now = NOON
        self._database = database
        self._options: dict[str, Any] = {
            "flush_interval": 3600,
            "clock": lambda: self.now,
        } | options
        self._operations = operations or (REPORT,)
        self.recorder = self.start(NOON)

    def start(
        self, at: datetime, *operations: Operation, **options: Any
    ) -> UsageRecorder:
        """Return a recorder that listens for operations since a time."""
        self.now = at
        recorder = UsageRecorder(self._database, **self._options | options)
        recorder.listen(dict.fromkeys(operations or self._operations, POLICY))
        return recorder

    def call(self, at: datetime, *calls: Call) -> None:
        for call in calls or (use(),):
            self.recorder(call._replace(at=at))

    def cover(
        self, since: datetime, until: datetime, *operations: Operation, **options: Any
    ) -> None:
        """Record that a process listened from one time to another."""
        recorder = self.start(since, *operations, **options)
        recorder.request_passed()
        assert recorder.flush()
        self.now = until
        recorder.close()

    def write(self) -> None:
        """Write all counts and close the recorder."""
        self.now = NOON
        assert self.recorder.flush()
        self.recorder.close()
