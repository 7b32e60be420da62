"""The effect of each brownout: the callers before it, those that got 410 during it, and those that called again."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from flask_notifications.deprecation import Brownout, DeprecationPolicy

from .plot import list_brownouts, list_days

if TYPE_CHECKING:
    from flask_notifications.usage.results import CallerUsage, OperationUsage, UsageReport

_DAY = timedelta(days=1)

# The complete days before and after a brownout whose calls are compared.
_COMPARED = 7


# The client and the source of the session ID, which rows with and without the label of a caller share.
_Origin = tuple[str | None, str | None]
_Rows = Mapping[_Origin, Sequence["CallerUsage"]]


class CallerEffect(NamedTuple):
    """A caller that got 410: how often, its calls on the days before, its last call, and whether it has called since.

    The middleware responds with 410 before the application labels the caller. A row without a label therefore has the
    calls before and the last call of all rows with the same client and source.
    """

    usage: "CallerUsage"
    closed: int
    before: int
    last_at: datetime
    has_returned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BrownoutEffect:
    """One brownout that has begun.

    ``refused`` are the callers that got 410, ``missed`` is the number of those that called before and after, but not
    during the brownout. The averages are calls per day in the week before and after, ``None`` without complete days.
    ``shares_day`` says that another brownout was on the same UTC day, so that the counts of 410 are those of both.
    """

    number: int
    window: Brownout
    called_before: int
    refused: Sequence[CallerEffect]
    missed: int
    average_before: float | None
    average_after: float | None
    shares_day: bool


def describe_brownouts(
    usage: "OperationUsage", report: "UsageReport", policy: DeprecationPolicy | None
) -> list[BrownoutEffect]:
    """Return the effects of the brownouts that began in the window of a report."""
    windows = list_brownouts(policy, report.since, report.until)
    touched = Counter(day for each in windows for day in list_days(each.start, each.end))
    rows = defaultdict(list)
    for each in usage.callers:
        rows[_client_and_source(each)].append(each)
    callers = [each for each in usage.callers if not each.ignored]
    described = []
    for number, window in enumerate(windows, 1):
        days = list_days(window.start, window.end)
        effects = [_measure_effect(each, window, days, rows) for each in callers]
        refused = [each for each in effects if each.closed]
        reached = {_client_and_source(each.usage) for each in refused if each.usage.caller is None}
        before = [
            each
            for each in effects
            if each.usage.first_at < window.start and not _is_counted_by_label(each.usage, rows)
        ]
        missed = [each for each in before if not each.closed and _client_and_source(each.usage) not in reached]
        described.append(
            BrownoutEffect(
                number=number,
                window=window,
                called_before=len(before),
                refused=sorted(refused, key=lambda each: (not each.has_returned, -each.closed)),
                missed=sum(each.has_returned for each in missed),
                average_before=_average(callers, report, days[0] - _COMPARED * _DAY, days[0]),
                average_after=_average(callers, report, days[-1] + _DAY, days[-1] + (_COMPARED + 1) * _DAY),
                shares_day=any(touched[day] > 1 for day in days),
            )
        )
    return described


def _measure_effect(usage: "CallerUsage", window: Brownout, days: Sequence[date], rows: _Rows) -> CallerEffect:
    compared = rows[_client_and_source(usage)] if usage.caller is None else [usage]
    closed = sum(day.closed for day in usage.days if day.day in days)
    before = sum(day.calls for each in compared for day in each.days if day.day < days[0])
    last_at = max(each.last_at for each in compared)
    return CallerEffect(usage, closed, before, last_at, last_at >= window.end)


def _client_and_source(usage: "CallerUsage") -> _Origin:
    return usage.client, usage.source


def _is_counted_by_label(usage: "CallerUsage", rows: _Rows) -> bool:
    """Return whether a row has no label, but others of its client and source do, which are counted instead."""
    return usage.caller is None and any(each.caller is not None for each in rows[_client_and_source(usage)])


def _average(callers: Sequence["CallerUsage"], report: "UsageReport", first: date, end: date) -> float | None:
    """Return the calls per day on those days of a period, its end excluded, that the report has completely."""
    first, end = max(first, report.since.date()), min(end, report.until.date())
    calls = sum(day.calls for each in callers for day in each.days if first <= day.day < end)
    return None if end <= first else calls / (end - first).days
