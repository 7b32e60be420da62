"""Read a report from the store."""

from collections.abc import Collection, Iterable, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from flask_notifications.plans.operations import Operation
from flask_notifications.validation import require

from .connections import Database
from .options import Options, check_options
from .reading import Progress, Snapshot, read_snapshot
from .results import UsageReport
from .store import StoreUnavailable, explain
from .times import to_datetime
from .verdict import Judge

if TYPE_CHECKING:
    from flask_notifications.plans.plan import Plan


def read_usage(
    database: Database | None,
    *,
    plan: "Plan | None" = None,
    days: int = 30,
    until: datetime | date | None = None,
    operations: Iterable[str | Operation] | None = None,
    ignore_clients: Collection[str] = (),
    ignore_callers: Collection[str] = (),
    ignore_refused: bool = False,
    min_coverage: float = 0.99,
    allow_gap: float = 6,
    gone_after: float | None = None,
    service: str | None = None,
    hosts: int | None = None,
    require_probe: bool = False,
    logs: Sequence[Any] = (),
) -> UsageReport:
    """Read who still calls, and whether each operation may be switched off.

    Calls are kept by UTC day, so those of a day are read together.

    :param database: an SQLAlchemy URL or engine of the database that ``UsageRecorder``
        writes.
    :param plan: the plan that is in production; only time in which recorders had its
        rules is covered. ``None`` takes those of the recorder that was heard last.
    :param days: the number of complete UTC days to look at, besides the day so far; 1
        to 3650.
    :param until: the end of the window, an aware datetime, or a date that it includes;
        ``None`` is now.
    :param operations: the operations, or their names, in the order of the report;
        ``None`` is all deprecated ones of the plan, or those of the recorders that were
        heard last.
    :param ignore_clients: clients that do not count as use, each as the store has it:
        ``curl/8.5.0``.
    :param ignore_callers: labels of callers that do not count as use.
    :param ignore_refused: whether calls without a label that got 401 or 403 do not
        count as use.
    :param min_coverage: the share of the window that has to be covered, from 0 to 1.
    :param allow_gap: the hours of the longest gap in the coverage.
    :param gone_after: the hours after which a host that is not heard any more counts as
        switched off; ``None`` is never.
    :param service: the application to look at, of several that share the database;
        ``None`` is all of them, and then each that knows an operation has to cover it.
    :param hosts: the number of hosts that have to record in each complete hour;
        ``None`` is any.
    :param require_probe: whether each complete day needs a call by
        ``flask-notifications-check``.
    :param logs: paths of access logs.
    :raises ValueError: naming the argument that does not fit.
    :raises StoreUnavailable: when there is no such database, it cannot be reached, or
        its tables are missing or have foreign content.
    """
    options = check_options(
        plan=plan,
        days=days,
        until=until,
        operations=operations,
        ignore_clients=ignore_clients,
        ignore_callers=ignore_callers,
        ignore_refused=ignore_refused,
        min_coverage=min_coverage,
        allow_gap=allow_gap,
        gone_after=gone_after,
        service=service,
        hosts=hosts,
        require_probe=require_probe,
    )
    require(not logs, "logs", "empty", logs)
    if database is None:
        message = "database must be an SQLAlchemy URL or engine, not None"
        raise ValueError(message)
    return read_report(database, options)


def read_report(
    database: Database, options: Options, progress: Progress | None = None
) -> UsageReport:
    """Read a report.

    :param progress: called with the number of days that have been read, and that of
        all; ``None`` calls nothing.
    :raises StoreUnavailable: as ``read_usage``.
    """
    snapshot = read_snapshot(database, options, progress)
    try:
        return _judge(snapshot, options)
    except OverflowError as error:
        message = f"the database cannot be read: {explain(error)}"
        raise StoreUnavailable(message) from error


def _judge(snapshot: Snapshot, options: Options) -> UsageReport:
    as_of = snapshot.until if snapshot.has_own_clock else snapshot.now
    last_call = None
    if snapshot.last_call:
        last_call = to_datetime(snapshot.last_call)
    return UsageReport(
        as_of=to_datetime(as_of).replace(microsecond=0),
        since=to_datetime(snapshot.since),
        until=to_datetime(snapshot.until),
        days=options.days,
        operations=tuple(Judge(snapshot, options).judge_all()),
        last_call=last_call,
    )
