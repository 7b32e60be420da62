"""Read a report from the store, from access logs, or from both."""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, date, datetime
from os import PathLike
from typing import TYPE_CHECKING

from flask_notifications.dates import to_utc, utc_now
from flask_notifications.plans.operations import Operation
from flask_notifications.validation import clean_label, is_number, require

from .connections import Database
from .fingerprints import fingerprints
from .logs import Log, add_logs
from .reading import Snapshot, read_snapshot
from .results import UsageReport
from .store import StoreUnavailable, explain
from .times import DAY, HOUR, start_of_window, to_datetime, to_microseconds
from .verdict import Judge

if TYPE_CHECKING:
    from flask_notifications.plans.plan import Plan

_MAX_DAYS = 3650


def read_usage(
    database: Database | None,
    *,
    plan: "Plan | None" = None,
    days: int = 30,
    until: datetime | date | None = None,
    operations: Iterable[str | Operation] | None = None,
    ignore_clients: Collection[str] = (),
    ignore_callers: Collection[str] = (),
    min_coverage: float = 0.99,
    allow_gap: float = 6,
    service: str | None = None,
    hosts: int | None = None,
    require_probe: bool = False,
    caller: str | None = None,
    logs: Sequence[Log] = (),
    log_format: str | None = None,
    log_prefix: str | None = None,
) -> UsageReport:
    """Read who still calls, and whether each operation may be switched off.

    Calls are kept by UTC day, so those of a day are read together.

    :param database: an SQLAlchemy URL or engine of the database that ``UsageRecorder``
        writes; ``None`` with logs only.
    :param plan: the plan that is in production; only time in which recorders had its
        rules is covered. ``None`` takes those of the recorder that was heard last.
    :param days: the number of complete UTC days to look at, besides the day so far; 1
        to 3650.
    :param until: the end of the window, an aware datetime, or a date that it includes;
        ``None`` is now.
    :param operations: the operations, or their names, in the order of the report;
        ``None`` is all retired ones of the plan, or all in the store.
    :param ignore_clients: clients that do not count as use, each as the store has it:
        ``curl/8.5.0``.
    :param ignore_callers: labels of callers that do not count as use.
    :param min_coverage: the share of the window that has to be covered, from 0 to 1.
    :param allow_gap: hours for which nothing need be recorded, at a time.
    :param service: the application to look at, of several that share the database;
        ``None`` is all of them, and then each that knows an operation has to cover it.
    :param hosts: the number of hosts that have to record in each hour; by default any.
    :param require_probe: whether each complete day needs a call by
        ``flask-notifications-check``.
    :param caller: the label of the only caller to report, besides the probe. Calls
        without a label may be its own, so they make the verdict unknown unless their
        client is ignored. ``None`` reports all callers.
    :param logs: paths of access logs, or binary streams, each perhaps compressed with
        gzip. They count for the time before the first recorder of the database, and
        need the plan. By default there are none.
    :param log_format: a regular expression for a line of the logs, with the named
        groups ``time`` (as in the Common format, or in ISO 8601 with an offset),
        ``method``, ``target``, ``status``, and optionally ``agent`` and ``user``, which
        is the caller. ``None`` is the Common or the Combined format.
    :param log_prefix: the path in the logs below which the application is mounted,
        ``"/"`` if that is the root. ``None`` is the root too, but a line that would
        match below any other path makes the verdict unknown.
    :raises ValueError: naming the argument that does not fit.
    :raises OSError: when a log cannot be read or is not complete.
    :raises StoreUnavailable: when there is no such database, it cannot be reached, or
        its tables are missing or have foreign content.
    """
    _check_rules(days, min_coverage, allow_gap, hosts, require_probe)
    _check_sources(database, plan, logs, service, caller)
    expected = None if plan is None else fingerprints(plan)
    names = _names(operations, expected)
    ignored = (
        _labels("ignore_clients", ignore_clients),
        _labels("ignore_callers", ignore_callers),
    )
    end, last = _end(until, days)
    snapshot = Snapshot(to_microseconds(utc_now()))
    if database is not None:
        snapshot = read_snapshot(
            database,
            days,
            end,
            last,
            names=names,
            service=service,
            caller=caller,
            planned=expected,
        )
    end = snapshot.now if end is None else end
    since = start_of_window(end, days)
    if plan is not None and logs:
        snapshot = add_logs(
            snapshot,
            logs,
            plan,
            log_format,
            log_prefix,
            since=since,
            last=last,
            service=service,
        )
    asked = (
        expected,
        *ignored,
        min_coverage,
        allow_gap * HOUR,
        hosts,
        require_probe,
        caller,
    )
    try:
        usages = tuple(Judge(snapshot, end, days, *asked).judge_all(names))
        last_call = _find_last_call(snapshot, caller)
    except OverflowError as error:
        message = f"the database cannot be read: {explain(error)}"
        raise StoreUnavailable(message) from error
    start, until = to_datetime(since), to_datetime(end)
    return UsageReport(
        since=start, until=until, days=days, operations=usages, last_call=last_call
    )


def _find_last_call(snapshot: Snapshot, caller: str | None) -> datetime | None:
    """Return the time of the last call of a caller, in the database also before the
    window.
    """
    called = [
        snapshot.last_call,
        *(calls.last_at for name, calls in snapshot.calls.items() if name[1] == caller),
    ]
    return None if caller is None or not max(called) else to_datetime(max(called))


def _check_rules(
    days: int,
    min_coverage: float,
    allow_gap: float,
    hosts: int | None,
    require_probe: bool,
) -> None:
    is_days = is_number(days, 1, _MAX_DAYS, is_whole=True)
    require(is_days, "days", f"a whole number from 1 to {_MAX_DAYS}", days)
    require(
        is_number(min_coverage, 0, 1),
        "min_coverage",
        "a number from 0 to 1",
        min_coverage,
    )
    require(
        is_number(allow_gap, 0), "allow_gap", "a number of hours, 0 or more", allow_gap
    )
    require(
        hosts is None or is_number(hosts, 1, is_whole=True),
        "hosts",
        "a whole number, 1 or more",
        hosts,
    )
    require(
        isinstance(require_probe, bool),
        "require_probe",
        "True or False",
        require_probe,
    )


def _check_sources(
    database: Database | None,
    plan: "Plan | None",
    logs: Sequence[Log],
    service: str | None,
    caller: str | None,
) -> None:
    require(service is None or isinstance(service, str), "service", "a string", service)
    require(
        caller is None or clean_label(caller) is not None, "caller", "a label", caller
    )
    is_list = isinstance(logs, Sequence) and not isinstance(logs, str)
    are_logs = is_list and all(
        isinstance(each, str | PathLike) or hasattr(each, "readinto") for each in logs
    )
    require(are_logs, "logs", "a list of paths or binary streams", logs)
    require(
        database is not None or logs,
        "database",
        "an SQLAlchemy URL or engine, or None with logs",
        database,
    )
    require(plan or not logs, "plan", "a plan, with logs", plan)


def _end(until: datetime | date | None, days: int) -> tuple[int | None, int | None]:
    """Return the end of a window, and the last moment whose calls belong to it: the end
    too, unless a date ends it.
    """
    if until is None:
        return None, None
    fits = (
        until.utcoffset() is not None
        if isinstance(until, datetime)
        else isinstance(until, date)
    )
    require(fits, "until", "an aware datetime or a date", until)
    try:
        if isinstance(until, datetime):
            end = to_microseconds(to_utc(until))
        else:
            end = (
                to_microseconds(
                    datetime(until.year, until.month, until.day, tzinfo=UTC)
                )
                + DAY
            )
        to_datetime(start_of_window(end, days))
        to_datetime(end)
    except OverflowError as error:
        message = f"until must be a time whose window is within the years 1 to 9999, not {until!r}"
        raise ValueError(message) from error
    return end, end - (not isinstance(until, datetime))


def _names(
    operations: Iterable[str | Operation] | None, expected: Iterable[str] | None = None
) -> list[str] | None:
    if operations is None:
        return None if expected is None else list(expected)
    is_list = isinstance(operations, Iterable) and not isinstance(operations, str)
    listed = list(operations) if is_list else []
    require(listed, "operations", "a list of operations or their names", operations)
    names = [each.name if isinstance(each, Operation) else each for each in listed]
    _labels("operations", names)
    return list(dict.fromkeys(names))


def _labels(argument: str, labels: Collection[str]) -> frozenset[str]:
    is_list = isinstance(labels, Collection) and not isinstance(labels, str)
    fits = is_list and all(isinstance(label, str) and label for label in labels)
    require(fits, argument, "a list of strings that are not empty", labels)
    return frozenset(labels)
