"""The plot of one operation: calls as stacked bars, dates of the plan, and gaps."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any

from flask_notifications.plans.policy import DeprecationPolicy, Window
from flask_notifications.wording import count

from .axis import Axis, Mark

if TYPE_CHECKING:
    from flask_notifications.usage.results import OperationUsage, UsageReport

_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)

# A caller and its client.
_Name = tuple[str | None, str | None]

# Callers with a colour of their own; the rest share one.
_SERIES = 5
# Units of the drawing: the widths of a bar and of the space after it, the height of the
# most calls, and the least height of a part of a bar, which keeps a single call
# visible.
_BAR, _SPACE, _HEIGHT, _LEAST = 8, 2, 1000, 14
# The hours that may be missing in a period that still counts as completely recorded.
_MISSING = 0.1


@dataclass
class Period:
    """One or more days: calls by caller and client, closed calls, recorded hours."""

    start: datetime
    end: datetime
    calls: Counter[_Name] = field(default_factory=Counter)
    closed: int = 0
    hours: float = 0.0


@dataclass
class Series:
    """Calls per period of one caller and client, or of all others (number 0).

    ``path`` draws its bars, as the ``d`` attribute of a path in SVG.
    """

    number: int
    caller: str | None
    client: str | None
    calls: list[int]
    path: str = ""


def list_brownouts(
    policy: DeprecationPolicy | None, since: datetime, until: datetime
) -> list[Window]:
    """Return the brownouts that happen in a period, in whole or in part.

    None begins after an enforced sunset.
    """
    if policy is None:
        return []
    if policy.enforce_sunset and policy.sunset_at is not None:
        until = min(until, policy.sunset_at)
    return [
        window
        for window in policy.windows
        if window.start < until and window.end > since
    ]


class Plot:
    """The plot of one operation, in at most ``limit`` periods of one or more days.

    Each of ``rows`` holds the first day of a period, the calls of each series, all
    calls, the calls that got 410, and the recorded hours. Each of ``gaps`` holds the
    place and width of a period that was not recorded completely, and the missing share.
    """

    def __init__(
        self,
        usage: "OperationUsage",
        report: "UsageReport",
        policy: DeprecationPolicy | None,
        *,
        limit: int,
    ) -> None:
        periods = _make_periods(usage, report, limit)
        days = (periods[0].end - periods[0].start).days
        self.unit: str = "day" if days == 1 else f"{days} days"
        self.maximum: int = max(period.calls.total() for period in periods)
        self.series: list[Series] = _make_series(periods)
        _draw_bars(self.series, self.maximum)
        end = periods[-1].end
        self.axis: Axis = Axis(report.since, _find_end(policy, report.since, end))
        self.end: float = self.axis.place(end)
        self.marks: list[Mark] = [Mark("now", "today", self.axis.place(report.until))]
        if policy is not None:
            self.marks += self.axis.marks(policy)
        self.brownouts: list[Window] = list_brownouts(policy, *self.axis)
        self.rows: list[tuple[Any, ...]] = []
        self.gaps: list[tuple[float, float, float]] = []
        for place, period in enumerate(periods):
            shown = [series.calls[place] for series in self.series]
            total, recorded = period.calls.total(), round(period.hours)
            first = period.start.date()
            self.rows.append((first, *shown, total, period.closed, recorded))
            length = (min(period.end, report.until) - period.start) / _HOUR
            if period.hours < length - _MISSING:
                left = self.axis.place(period.start)
                width = self.axis.width(period.start, period.end)
                self.gaps.append((left, width, round(1 - period.hours / length, 2)))


def _make_periods(
    usage: "OperationUsage", report: "UsageReport", limit: int
) -> list[Period]:
    days = ceil((report.until - report.since) / _DAY)
    length = ceil(days / limit)
    periods: list[Period] = []
    period_of: dict[date, Period] = {}
    for number in range(days):
        start = report.since + number * _DAY
        if number % length == 0:
            periods.append(Period(start, start + length * _DAY))
        period_of[start.date()] = periods[-1]
    for row in usage.callers:
        # Calls in an access log have usually been recorded, too.
        if row.ignored or (row.is_logged and usage.covered):
            continue
        for counts in row.days:
            if counts.day in period_of:
                period = period_of[counts.day]
                period.calls[row.caller, row.client] += counts.calls
                period.closed += counts.closed
    for day, hours in usage.covered.items():
        if day in period_of:
            period_of[day].hours += hours
    return periods


def _make_series(periods: Sequence[Period]) -> list[Series]:
    """Return the series of the callers with the most calls, and one of all others."""
    sums: Counter[_Name] = Counter()
    for period in periods:
        sums.update(period.calls)
    series = []
    others = [period.calls.total() for period in periods]
    for number, (name, _sum) in enumerate(sums.most_common(_SERIES), 1):
        calls = [period.calls[name] for period in periods]
        series.append(Series(number, *name, calls))
        for place, shown in enumerate(calls):
            others[place] -= shown
    if len(sums) > _SERIES:
        others_name = count(len(sums) - _SERIES, "other")
        series.append(Series(0, others_name, None, others))
    return series


def _draw_bars(series: Sequence[Series], maximum: int) -> None:
    """Stack the bars of all series, the first at the bottom."""
    tops: Counter[int] = Counter()
    for drawn in series:
        for place, calls in enumerate(drawn.calls):
            if calls:
                rise = max(round(_HEIGHT * calls / maximum), _LEAST)
                tops[place] += rise
                left = place * (_BAR + _SPACE)
                corner = f"M{left} {_HEIGHT - tops[place]}"
                drawn.path += f"{corner}h{_BAR}v{rise}h-{_BAR}z"


def _find_end(
    policy: DeprecationPolicy | None, since: datetime, end: datetime
) -> datetime:
    """Return the end of the axis: after the report, and after near events of the plan.

    An event is near if it is at most half of the report's days away.
    """
    near = end + (end - since) / 2
    events = [end, *(window.end for window in list_brownouts(policy, end, near))]
    if policy is not None and policy.sunset_at is not None:
        events.append(policy.sunset_at)
    last = max(event for event in events if event <= near)
    return last + (end - since) / 40  # with some space after it
