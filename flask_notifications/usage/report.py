"""Read a report from the store, from access logs, or from both."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from flask_notifications.plans.operations import Operation
from flask_notifications.validation import require

from .callers import CallTable
from .connections import Database
from .counts import LAST_AT
from .logs import Log, read_logs
from .options import Options
from .reading import Progress, Snapshot, read_snapshot
from .results import UsageReport
from .times import DAY, to_datetime, to_microseconds
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
    logs: Iterable[Log] = (),
    log_format: str | None = None,
    log_prefix: str | None = None,
) -> UsageReport:
    """Read who still calls, and whether each operation may be switched off.

    Calls are stored by UTC day, so the counts of a day are read as a whole.

    :param database: an SQLAlchemy URL or engine of the database that ``UsageRecorder``
        writes; ``None`` reads access logs only.
    :param plan: the plan that is in production: only time in which recorders had its
        rules counts as covered. ``None`` takes the rules of the recorder that was heard
        last.
    :param days: the number of complete UTC days in the window, besides the day so far;
        1 to 3650.
    :param until: the end of the window: an aware datetime or a date, which is included;
        ``None`` is now.
    :param operations: the operations, or their names, in the order of the report;
        ``None`` is all deprecated ones of the plan, or without a plan those of the
        recorders that were heard last.
    :param ignore_clients: clients that do not count as use, written as in the store,
        such as ``curl/8.5.0``.
    :param ignore_callers: labels of callers that do not count as use.
    :param ignore_refused: whether calls without a label that got 401 or 403 do not
        count as use.
    :param min_coverage: the share of the window that has to be covered, from 0 to 1.
    :param allow_gap: the hours of the longest gap in the coverage that is accepted.
    :param gone_after: the hours after which a host that is not heard any more counts as
        switched off; ``None`` is never.
    :param service: the application to report on, if several share the database.
        ``None`` is all of them; an operation is then covered only while every service
        that has it records.
    :param hosts: the number of hosts that have to record in each complete hour;
        ``None`` is any.
    :param require_probe: whether each complete day needs a call by
        ``flask-notifications-check``.
    :param logs: access logs, which prove use and never its absence. Each is a path of a
        file or a folder, a path with the wildcards of a shell, or a binary stream; the
        data may be compressed with gzip, bzip2 or xz. Logs need ``plan``.
    :param log_format: a regular expression for a line of the logs, with the named
        groups ``time`` and ``target``, and perhaps ``method``, ``status``, ``agent``
        and ``user`` (the caller); or ``json:FIELD=KEY,…`` with these names as fields.
        Without ``method``, the target is a whole request line. ``None`` is the Common
        or the Combined format.
    :param log_prefix: the path in the logs below which the application is mounted.
        ``None`` is the root.
    :raises ValueError: an argument does not fit; the message names it.
    :raises OSError: a log cannot be opened.
    :raises StoreUnavailable: the database does not exist, cannot be reached, or its
        tables are missing or have content that no recorder has written.
    """
    options = Options(
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
        logs=logs,
        log_format=log_format,
        log_prefix=log_prefix,
    )
    return read_report(database, options)


def read_report(
    database: Database | None, options: Options, progress: Progress | None = None
) -> UsageReport:
    """Read a report from what the arguments of ``read_usage`` name.

    :param progress: called with the number of days read so far, and that of all days;
        ``None`` calls nothing.
    :raises ValueError: as ``read_usage``.
    :raises OSError: as ``read_usage``.
    :raises StoreUnavailable: as ``read_usage``.
    """
    has_source = database is not None or options.logs
    expected = "an SQLAlchemy URL or engine, unless there are logs"
    require(has_source, "database", expected, database)
    if database is None:
        now = to_microseconds(datetime.now(UTC))
        snapshot = Snapshot(
            now=now,
            window=options.find_window(now),
            names=options.names or (),
            table=CallTable(options),
            has_store=False,
        )
    else:
        snapshot = read_snapshot(database, options, progress)
    if options.plan is not None and options.logs:
        snapshot = _add_logs(snapshot, options, options.plan)
    last_call = None
    if snapshot.last_call:
        last_call = to_datetime(snapshot.last_call)
    notes = []
    if snapshot.logs is not None:
        notes += snapshot.logs.notes
    if options.service is not None and not snapshot.services:
        known = ", ".join(map(repr, snapshot.known_services)) or "none"
        notes.append(
            f"no recorder of the service {options.service!r} was heard; "
            f"services in this database: {known}"
        )
    return UsageReport(
        as_of=to_datetime(snapshot.now).replace(microsecond=0),
        since=to_datetime(snapshot.window.since),
        until=to_datetime(snapshot.window.until),
        days=options.days,
        operations=tuple(Judge(snapshot, options).judge_all()),
        last_call=last_call,
        notes=tuple(notes),
    )


def _add_logs(snapshot: Snapshot, options: Options, plan: "Plan") -> Snapshot:
    """Return the snapshot with the calls in the logs added to it."""
    since, until, last = snapshot.window
    reading = read_logs(
        options.logs,
        plan,
        since,
        min(last, until + DAY),  # the clock of another server may be ahead
        log_format=options.log_format,
        log_prefix=options.log_prefix,
    )
    names = set(snapshot.names)
    last_call = snapshot.last_call
    for change in reading.calls:
        operation, caller, _client, _source = change.name
        if operation in names:
            snapshot.table.add(change.name, change.day, change.numbers)
        if caller is not None and caller == options.caller:
            last_call = max(last_call, change.numbers[LAST_AT])
    return replace(snapshot, logs=reading, last_call=last_call)
