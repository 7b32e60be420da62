"""Calls per day as stacked bars, with the dates of the plan and the coverage: numbers to places, for one operation."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from flask_notifications.deprecation import Brownout, DeprecationPolicy, Phase
from flask_notifications.wording import short_date

from .axis import Axis, Label, arrange_labels

if TYPE_CHECKING:
    from flask_notifications.usage.results import DayUsage, OperationUsage, UsageReport

_DAY = timedelta(days=1)

# A caller, its client and its calls by day.
_Counted: TypeAlias = "tuple[str | None, str | None, Sequence[DayUsage]]"

# Callers with a colour of their own; the rest share one.
_SERIES = 5
# Units of the drawing: across for a day, up for the whole height, and for a single call, which is always visible.
_DAY_WIDTH, _HEIGHT, _LEAST = 10, 1000, 14
# With more days than this, bars touch; with more brownouts than this, they have no labels.
_GAP_DAYS, _LABELLED = 100, 12
# Hours that may be missing on a day that is drawn as covered completely.
_MISSING = 0.1


class Series(NamedTuple):
    """The calls of one caller with one client, or of all that are not shown on their own (``number`` 0)."""

    number: int
    caller: str | None
    client: str | None
    total: int
    days: Mapping[date, int]
    path: str


class DayCalls(NamedTuple):
    """A row of the table, for a day or for a month that begins with it.

    It has the calls of each series, all calls, those that got 410, and the covered hours.
    """

    day: date
    series: Sequence[int]
    total: int
    closed: int
    covered: float


class Run(NamedTuple):
    """Some days with the same coverage: ``full``, ``part`` or ``none``."""

    level: str
    place: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What the template draws; places are in per cent of the width."""

    axis: Axis
    width: int
    maximum: int
    grid: Sequence[int]
    series: Sequence[Series]
    days: Sequence[DayCalls]
    coverage: Sequence[Run]
    labels: Sequence[Label]
    brownouts: Sequence[Brownout]
    now: float
    sunset: float | None
    others: int

    @property
    def rows(self) -> int:
        """Return how many rows the labels take."""
        return 1 + max(label.row for label in self.labels)


def list_brownouts(policy: DeprecationPolicy | None, since: datetime, until: datetime) -> list[Brownout]:
    """Return the brownouts of a policy that happen in a period, at least in part."""
    windows = () if policy is None else policy.brownouts
    happening = (each for each in windows if policy is not None and policy.phase(each.start) is Phase.BROWNOUT)
    return [each for each in happening if each.start < until and each.end > since]


def draw_plot(usage: "OperationUsage", report: "UsageReport", policy: DeprecationPolicy | None) -> Plot:
    """Return the plot of one operation."""
    axis = _choose_axis(report, policy)
    dates = _list_days(report)
    counted = [(each.caller, each.client, each.days) for each in usage.callers if not each.ignored]
    groups = _group_callers(counted)
    totals = _add(calls for _caller, _client, calls in groups)
    maximum = _round_up(max(totals.values(), default=0))
    series = _draw_series(groups, dates, maximum)
    return Plot(
        axis=axis,
        width=(axis.until - axis.since) // _DAY * _DAY_WIDTH,
        maximum=maximum,
        grid=[maximum, maximum // 2] if maximum % 2 == 0 else [maximum],
        series=series,
        days=_list_rows(usage, series, counted, dates),
        coverage=_draw_coverage(usage, report, dates, axis),
        labels=_label(report, policy, axis),
        brownouts=list_brownouts(policy, axis.since, axis.until),
        now=axis.place(report.until),
        sunset=_place_sunset(policy, axis),
        others=max(len(groups) - _SERIES, 0),
    )


def _list_rows(
    usage: "OperationUsage", series: Sequence[Series], counted: Sequence[_Counted], dates: Sequence[date]
) -> list[DayCalls]:
    """Return the table of the plot."""
    closed: Counter[date] = Counter()
    for day in (day for _caller, _client, days in counted for day in days):
        closed[day.day] += day.closed
    calls = {day: [each.days.get(day, 0) for each in series] for day in dates}
    return [DayCalls(day, calls[day], sum(calls[day]), closed[day], usage.covered.get(day, 0)) for day in dates]


def sum_months(days: Sequence[DayCalls]) -> list[DayCalls]:
    """Return the sums of the days of each month."""
    rows = []
    for _month, group in groupby(days, key=lambda each: each.day.replace(day=1)):
        starts, series, *numbers = zip(*group, strict=True)
        calls = [sum(each) for each in zip(*series, strict=True)]
        rows.append(DayCalls(starts[0], calls, *map(sum, numbers)))
    return rows


def _choose_axis(report: "UsageReport", policy: DeprecationPolicy | None) -> Axis:
    """Return the window of the report, and half of its length after it for scheduled events."""
    days = _list_days(report)
    end = datetime(days[-1].year, days[-1].month, days[-1].day, tzinfo=UTC) + _DAY
    near = end + (end - report.since) / 2
    scheduled = [] if policy is None else [each.end for each in list_brownouts(policy, report.until, near)]
    if policy is not None and policy.sunset_at is not None:
        scheduled.append(policy.sunset_at)
    last = max((each for each in scheduled if end < each <= near), default=None)
    margin = (end - report.since) // _DAY // 40 + 1
    return Axis(report.since, end if last is None else end + ((last - end) // _DAY + margin) * _DAY)


def _list_days(report: "UsageReport") -> list[date]:
    """Return the days of the window; one that has only just begun is none."""
    first, last = report.since.date(), (report.until - timedelta(microseconds=1)).date()
    return [first + number * _DAY for number in range((last - first).days + 1)]


def _group_callers(counted: Sequence[_Counted]) -> list[tuple[str | None, str | None, Counter[date]]]:
    """Return the calls by day of each pair of caller and client, those with the most calls first."""
    groups: dict[tuple[str | None, str | None], Counter[date]] = {}
    for caller, client, days in counted:
        groups.setdefault((caller, client), Counter()).update({day.day: day.calls for day in days})
    ranked = sorted(groups.items(), key=lambda item: -item[1].total())
    return [(caller, client, calls) for (caller, client), calls in ranked]


def _add(groups: Iterable[Counter[date]]) -> Counter[date]:
    total: Counter[date] = Counter()
    for calls in groups:
        total.update(calls)
    return total


def _draw_series(
    groups: Sequence[tuple[str | None, str | None, Counter[date]]], dates: Sequence[date], maximum: int
) -> list[Series]:
    """Return the series in the order of their size; each path reaches from the ground to the top of its own bars.

    Drawn in the opposite order, each covers the lower part of the one above, so that no gaps show.
    """
    rest = _add(calls for _caller, _client, calls in groups[_SERIES:])
    shown = [(number, *group) for number, group in enumerate(groups[:_SERIES], 1)]
    if rest:
        shown.append((0, None, None, rest))
    below: Counter[date] = Counter()
    series = []
    for number, caller, client, calls in shown:
        below.update(calls)
        path = _draw_bars([below[day] if calls[day] else 0 for day in dates], maximum)
        series.append(Series(number, caller, client, calls.total(), calls, path))
    return series


def _draw_bars(heights: Sequence[int], maximum: int) -> str:
    """Return the outline of bars of these heights, as an SVG path."""
    gap = 0 if len(heights) > _GAP_DAYS else 2
    steps, last = [], 0
    for height in heights:
        rise = max(round(_HEIGHT * height / maximum), _LEAST) if height else 0
        steps.append(f"v{last - rise}h{_DAY_WIDTH - gap}")
        if gap:
            steps.append(f"v{rise}h{gap}")
        last = 0 if gap else rise
    return f"M0 {_HEIGHT}{''.join(steps)}v{last}z"


def _round_up(number: int) -> int:
    """Return the next number that is easy to read on an axis."""
    step = 1
    while True:
        for factor in (1, 2, 3, 4, 5, 6, 8):
            if number <= factor * step:
                return factor * step
        step *= 10


def _draw_coverage(usage: "OperationUsage", report: "UsageReport", dates: Sequence[date], axis: Axis) -> list[Run]:
    def level(day: date) -> str:
        hours = usage.covered.get(day, 0)
        possible = min(24.0, (report.until - datetime(day.year, day.month, day.day, tzinfo=UTC)) / timedelta(hours=1))
        return "full" if hours >= possible - _MISSING else "part" if hours else "none"

    runs = []
    for name, days in ((name, list(days)) for name, days in groupby(dates, key=level)):
        start = datetime(days[0].year, days[0].month, days[0].day, tzinfo=UTC)
        runs.append(Run(name, axis.place(start), axis.width(start, start + len(days) * _DAY)))
    return runs


def _label(report: "UsageReport", policy: DeprecationPolicy | None, axis: Axis) -> list[Label]:
    labels = [("today", "now", axis.place(report.until))]
    if policy is None:
        return arrange_labels(labels)
    dates = {"deprecated": policy.deprecated_at, "sunset": policy.sunset_at}
    for kind, at in dates.items():
        if at is not None and axis.since <= at <= axis.until:
            labels.append((f"{kind} {short_date(at)}", kind, axis.place(at)))
    windows = list_brownouts(policy, axis.since, axis.until)
    if len(windows) <= _LABELLED:
        labels += [(f"B{number}", "brownout", axis.place(each.start)) for number, each in enumerate(windows, 1)]
    return arrange_labels(labels)


def _place_sunset(policy: DeprecationPolicy | None, axis: Axis) -> float | None:
    if policy is None or policy.sunset_at is None or not axis.since <= policy.sunset_at <= axis.until:
        return None
    return axis.place(policy.sunset_at)
