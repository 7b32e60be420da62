"""Calls as stacked bars, with the dates of the plan and the coverage: numbers to
places, for one operation.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

from flask_notifications.plans.policy import DeprecationPolicy, Window
from flask_notifications.wording import short_date

from .axis import Axis, Label, arrange_labels

if TYPE_CHECKING:
    from flask_notifications.usage.results import OperationUsage, UsageReport

_DAY = timedelta(days=1)

# A caller and its client.
_Name = tuple[str | None, str | None]

# Callers with a colour of their own; the rest share one.
_SERIES = 5
# Units of the drawing: across for a day, up for the whole height, and for a single
# call, which is always visible.
_DAY_WIDTH, _HEIGHT, _LEAST = 10, 1000, 14
# With more bars than this, they touch; with more brownouts than this, they have no
# labels.
_GAPS, _LABELLED = 100, 12
# The first day of the unit of time to which a day belongs.
_UNITS: Mapping[str, Callable[[date], date]] = {
    "day": lambda day: day,
    "week": lambda day: day - day.weekday() * _DAY,
    "month": lambda day: day.replace(day=1),
    "year": lambda day: day.replace(day=1, month=1),
}
# Hours that may be missing in a period that is drawn as covered completely.
_MISSING = 0.1


class Series(NamedTuple):
    """Calls per period of one caller and client, or of all others together (number 0)."""

    number: int
    caller: str | None
    client: str | None
    calls: Sequence[int]
    path: str


def list_brownouts(
    policy: DeprecationPolicy | None, since: datetime, until: datetime
) -> list[Window]:
    """Return the brownouts of a policy that happen in a period, at least in part."""
    if policy is None:
        return []
    if policy.enforce_sunset and policy.sunset_at is not None:
        until = min(until, policy.sunset_at)
    return [
        window
        for window in policy.windows
        if window.start < until and window.end > since
    ]


def list_days(since: datetime, until: datetime) -> list[date]:
    """Return the UTC days of a period; one that begins at its end is none."""
    first, last = since.date(), (until - timedelta(microseconds=1)).date()
    return [first + number * _DAY for number in range((last - first).days + 1)]


class Plot:
    """The plot of one operation, by day, week, month or year: the shortest with at most
    ``limit`` periods.

    Places are in per cent of the width. A row is the first day of a period, the calls
    of each series, all calls, calls that got 410, and the covered hours.
    """

    def __init__(
        self,
        usage: "OperationUsage",
        report: "UsageReport",
        policy: DeprecationPolicy | None,
        *,
        limit: int,
    ) -> None:
        dates = list_days(report.since, report.until)
        self.unit: str
        self.unit, periods = _divide(dates, limit)
        calls, total, closed = _sum_up(usage, periods)
        self.maximum: int = max(total)
        lengths = [len(period) for period in periods]
        self.series: list[Series] = _draw_series(calls, lengths, self.maximum)
        self.others: int = max(len(calls) - _SERIES, 0)
        covered = [_sum_hours(usage, period) for period in periods]
        self.rows: list[tuple[Any, ...]] = []
        for place, period in enumerate(periods):
            shown = [series.calls[place] for series in self.series]
            recorded = round(covered[place])
            row = (period[0], *shown, total[place], closed[place], recorded)
            self.rows.append(row)
        self.axis: Axis = _choose_axis(report, policy, dates)
        self.width: float = (self.axis.until - self.axis.since) / _DAY * _DAY_WIDTH
        self.coverage: list[tuple[str, float, float]] = _draw_coverage(
            periods, covered, self.axis, report.until
        )
        self.brownouts: list[Window] = list_brownouts(
            policy, self.axis.since, self.axis.until
        )
        self.labels: list[Label] = _label_plot(
            report, policy, self.axis, self.brownouts
        )


def _sum_up(
    usage: "OperationUsage", periods: Sequence[Sequence[date]]
) -> tuple[dict[_Name, list[int]], list[int], list[int]]:
    """Return the calls of each name, of all, and those that got 410, by period."""
    places = {}
    for place, period in enumerate(periods):
        for day in period:
            places[day] = place
    calls: dict[_Name, list[int]] = {}
    total = [0] * len(periods)
    closed = [0] * len(periods)
    for row in usage.callers:
        if row.ignored or (row.is_logged and usage.covered):
            continue
        name = (row.caller, row.client)
        numbers = calls.setdefault(name, [0] * len(periods))
        for counts in row.days:
            if counts.day in places:
                place = places[counts.day]
                numbers[place] += counts.calls
                total[place] += counts.calls
                closed[place] += counts.closed
    return calls, total, closed


def _sum_hours(usage: "OperationUsage", period: Sequence[date]) -> float:
    return sum(usage.covered.get(day, 0) for day in period)


def _divide(days: Sequence[date], limit: int) -> tuple[str, list[list[date]]]:
    """Return the shortest unit of time with at most ``limit`` periods, or the year, and
    the days of each period.
    """
    chosen = "", list[list[date]]()
    for unit, start in _UNITS.items():
        periods = [list(period) for _first, period in groupby(days, key=start)]
        chosen = unit, periods
        if len(periods) <= limit:
            break
    return chosen


def _choose_axis(
    report: "UsageReport", policy: DeprecationPolicy | None, dates: Sequence[date]
) -> Axis:
    """Return the window of the report, followed by the events that are scheduled for
    half of its length after it.
    """
    end = _midnight(dates[-1]) + _DAY
    length = end - report.since
    near = end + length / 2
    last = end
    events = [window.end for window in list_brownouts(policy, end, near)]
    if policy is not None and policy.sunset_at is not None:
        events.append(policy.sunset_at)
    for event in events:
        if last < event <= near:
            last = event
    return Axis(report.since, last + length / 40)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _draw_series(
    calls: Mapping[_Name, Sequence[int]], lengths: Sequence[int], maximum: int
) -> list[Series]:
    """Return the series in the order of their size; drawn in the opposite order, each
    covers the foot of the one above.

    The lengths of the periods are in days.
    """
    ranked = sorted(calls.items(), key=lambda item: -sum(item[1]))
    shown: list[tuple[int, _Name, Sequence[int]]] = []
    for number, (name, numbers) in enumerate(ranked[:_SERIES], 1):
        shown.append((number, name, numbers))
    others = [numbers for _name, numbers in ranked[_SERIES:]]
    if others:
        shown.append((0, (None, None), list(map(sum, zip(*others, strict=True)))))
    tops = [0] * len(lengths)
    series = []
    for number, (caller, client), numbers in shown:
        tops = list(map(add, tops, numbers))
        heights = [top * bool(calls) for top, calls in zip(tops, numbers, strict=True)]
        path = _draw_bars(lengths, heights, maximum)
        series.append(Series(number, caller, client, numbers, path))
    return series


def _draw_bars(lengths: Sequence[int], heights: Sequence[int], maximum: int) -> str:
    gap = 0 if len(lengths) > _GAPS else 2
    steps = []
    for days, height in zip(lengths, heights, strict=True):
        rise = max(round(_HEIGHT * height / maximum), _LEAST) if height else 0
        steps.append(f"v{-rise}h{days * _DAY_WIDTH - gap}v{rise}h{gap}")
    return f"M0 {_HEIGHT}{''.join(steps)}z"


def _draw_coverage(
    periods: Sequence[Sequence[date]],
    covered: Sequence[float],
    axis: Axis,
    until: datetime,
) -> list[tuple[str, float, float]]:
    """Return the levels ``full``, ``part`` and ``none`` of successive periods, with the
    places and widths of these.
    """
    spans: list[tuple[str, datetime, datetime]] = []
    for days, hours in zip(periods, covered, strict=True):
        start, end = _midnight(days[0]), _midnight(days[-1]) + _DAY
        level = _level(hours, min(end, until) - start)
        if spans and spans[-1][0] == level:
            start = spans.pop()[1]
        spans.append((level, start, end))
    drawn = []
    for level, start, end in spans:
        drawn.append((level, axis.place(start), axis.width(start, end)))
    return drawn


def _level(hours: float, length: timedelta) -> str:
    if hours >= length / timedelta(hours=1) - _MISSING:
        return "full"
    return "part" if hours else "none"


def _label_plot(
    report: "UsageReport",
    policy: DeprecationPolicy | None,
    axis: Axis,
    brownouts: Sequence[Window],
) -> list[Label]:
    labels = [("today", "now", axis.place(report.until))]
    dates: dict[str, datetime | None] = {}
    if policy is not None:
        dates = {"deprecated": policy.deprecated_at, "sunset": policy.sunset_at}
    for kind, at in dates.items():
        if at is not None and axis.since <= at <= axis.until:
            labels.append((f"{kind} {short_date(at)}", kind, axis.place(at)))
    if len(brownouts) <= _LABELLED:
        for number, window in enumerate(brownouts, 1):
            labels.append((f"B{number}", "brownout", axis.place(window.start)))
    return arrange_labels(labels)
