"""What a report was asked for: arguments of ``read_usage``, checked."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from io import IOBase
from typing import TYPE_CHECKING, NamedTuple

from flask_notifications.dates import to_utc
from flask_notifications.plans.operations import Operation
from flask_notifications.validation import clean_label, is_number, require

from .fingerprints import fingerprints
from .logs import Log
from .times import DAY, HOUR, start_of_window, to_datetime, to_microseconds

if TYPE_CHECKING:
    from flask_notifications.plans.plan import Plan

_MAX_DAYS = 3650


class End(NamedTuple):
    """The end of a window, and the last moment whose calls belong to it."""

    at: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a report was asked for. Times and lengths are in microseconds.

    ``names`` are the operations to report, and ``rules`` the fingerprints of the plan;
    both are ``None`` where the store decides. ``end`` is ``None`` for now. ``logs`` need
    the ``plan``.
    """

    days: int = 30
    end: End | None = None
    names: Sequence[str] | None = None
    rules: Mapping[str, str] | None = None
    sunsets: Mapping[str, datetime | None]
    ignored_clients: frozenset[str] = frozenset()
    ignored_callers: frozenset[str] = frozenset()
    ignore_refused: bool = False
    min_coverage: float = 0.99
    allow_gap: float = 6 * HOUR
    gone_after: int | None = None
    service: str | None = None
    hosts: int | None = None
    require_probe: bool = False
    caller: str | None = None
    plan: "Plan | None" = None
    logs: Iterable[Log] = ()
    log_format: str | None = None
    log_prefix: str | None = None


def check_options(
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
    caller: str | None = None,
    logs: Iterable[Log] = (),
    log_format: str | None = None,
    log_prefix: str | None = None,
) -> Options:
    """Return the arguments of ``read_usage`` as options.

    :param caller: the label of the only caller to report; ``None`` is all.
    :raises ValueError: naming the argument that does not fit.
    """
    is_days = is_number(days, 1, _MAX_DAYS, is_whole=True)
    require(is_days, "days", f"a whole number from 1 to {_MAX_DAYS}", days)
    is_share = is_number(min_coverage, 0, 1)
    require(is_share, "min_coverage", "a number from 0 to 1", min_coverage)
    _check_hours("allow_gap", allow_gap)
    if gone_after is not None:
        _check_hours("gone_after", gone_after)
        gone_after = int(gone_after * HOUR)
    _check_flag("ignore_refused", ignore_refused)
    _check_flag("require_probe", require_probe)
    is_number_of_hosts = hosts is None or is_number(hosts, 1, is_whole=True)
    require(is_number_of_hosts, "hosts", "a whole number, 1 or more", hosts)
    require(service is None or isinstance(service, str), "service", "a string", service)
    is_label = caller is None or clean_label(caller) is not None
    require(is_label, "caller", "a label", caller)
    is_list = isinstance(logs, Iterable) and not isinstance(logs, str | bytes | IOBase)
    require(is_list, "logs", "a list of paths or binary streams", logs)
    require(plan is not None or not logs, "plan", "the plan to read logs with", plan)
    rules = None
    sunsets: dict[str, datetime | None] = {}
    if plan is not None:
        rules = fingerprints(plan)
        for operation, policy in plan.items():
            if policy is not None:
                sunsets[operation.name] = policy.sunset_at
    names = None if operations is None else _list_names(operations)
    if names is None and rules is not None:
        names = list(rules)
    return Options(
        days=days,
        end=_find_end(until, days),
        names=names,
        rules=rules,
        sunsets=sunsets,
        ignored_clients=_check_names("ignore_clients", ignore_clients),
        ignored_callers=_check_names("ignore_callers", ignore_callers),
        ignore_refused=ignore_refused,
        min_coverage=min_coverage,
        allow_gap=allow_gap * HOUR,
        gone_after=gone_after,
        service=service,
        hosts=hosts,
        require_probe=require_probe,
        caller=caller,
        plan=plan,
        logs=logs,
        log_format=log_format,
        log_prefix=log_prefix,
    )


def _check_hours(argument: str, hours: object) -> None:
    fits = is_number(hours, 0, _MAX_DAYS * 24)
    require(fits, argument, "a number of hours, 0 or more", hours)


def _check_flag(argument: str, value: object) -> None:
    require(isinstance(value, bool), argument, "True or False", value)


def _check_names(argument: str, names: Collection[str]) -> frozenset[str]:
    is_list = isinstance(names, Collection) and not isinstance(names, str)
    fits = is_list and all(isinstance(name, str) and name for name in names)
    require(fits, argument, "a list of strings that are not empty", names)
    return frozenset(names)


def _list_names(operations: Iterable[str | Operation]) -> list[str]:
    """Return the names of operations, each once."""
    is_list = isinstance(operations, Iterable) and not isinstance(operations, str)
    listed = list(operations) if is_list else []
    require(listed, "operations", "a list of operations or their names", operations)
    names: dict[str, None] = {}
    for operation in listed:
        name = operation.name if isinstance(operation, Operation) else operation
        _check_names("operations", [name])
        names[name] = None
    return list(names)


def _find_end(until: datetime | date | None, days: int) -> End | None:
    """Return the end of a window; a date is included as a whole."""
    if until is None:
        return None
    is_time = isinstance(until, datetime) and until.utcoffset() is not None
    is_date = isinstance(until, date) and not isinstance(until, datetime)
    require(is_time or is_date, "until", "an aware datetime or a date", until)
    try:
        if isinstance(until, datetime):
            at = last = to_microseconds(to_utc(until))
        else:
            midnight = datetime(until.year, until.month, until.day, tzinfo=UTC)
            at = to_microseconds(midnight) + DAY
            last = at - 1
        to_datetime(start_of_window(at, days))
        to_datetime(at)
    except OverflowError as error:
        message = f"until must be a time whose window is within the years 1 to 9999, not {until!r}"
        raise ValueError(message) from error
    return End(at, last)
