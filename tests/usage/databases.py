"""Databases for the tests of usage records, and a recorder whose clock the tests set."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from flask_notifications import Operation, Use
from flask_notifications.deprecation import Phase
from flask_notifications.usage import UsageRecorder
from tests.services import postgresql_schema

DATABASES = ["sqlite", "postgresql"]
REPORT, EXPORT = Operation("report", "GET", "/report"), Operation("export", "GET", "/export/{id}")
NOON = datetime(2026, 5, 31, 12, tzinfo=UTC)


@contextmanager
def empty_database(kind: str, folder: Path) -> Iterator[str]:
    """Yield the URL of an empty database."""
    with ExitStack() as stack:
        if kind == "postgresql":
            yield stack.enter_context(postgresql_schema())
        else:
            yield f"sqlite:///{folder}/usage.sqlite3"


def use(
    client: str | None = "job/1",
    caller: str | None = None,
    *,
    status: int | None = 200,
    phase: Phase = Phase.DEPRECATED,
    source: Literal["header", "query"] | None = None,
    operation: str = REPORT.name,
) -> Use:
    """Return a ``Use`` as the middleware reports it; the recorder ignores its time."""
    long_ago = datetime(2001, 1, 1, tzinfo=UTC)
    return Use(operation, "GET", status, phase, source, client, long_ago, caller)


class Past:
    """A recorder that records calls and coverage as if at any time."""

    def __init__(self, database: str, *operations: Operation, retention_days: int = 400) -> None:
        self.now = NOON
        self._operations = operations or (REPORT,)
        self.recorder = UsageRecorder(
            database, flush_interval=3600, retention_days=retention_days, clock=lambda: self.now
        )

    def call(self, at: datetime, *uses: Use) -> None:
        """Record calls at one time."""
        self.now = at
        for each in uses or (use(),):
            self.recorder(each)

    def cover(self, since: datetime, until: datetime, *operations: Operation) -> None:
        """Report a request in each of the hours."""
        self.now = since
        while self.now < until:
            self.recorder.request_passed(operations or self._operations)
            self.now += timedelta(hours=1)

    def write(self) -> None:
        """Write all counts and close the recorder."""
        assert self.recorder.flush()
        self.recorder.close()
