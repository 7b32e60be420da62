"""Calls per day as stacked bars, with the dates of the plan and the coverage: numbers to places, for one operation."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import chain, groupby
from typing import TYPE_CHECKING, NamedTuple

from flask_notifications.deprecation import Brownout, DeprecationPolicy, Phase
from flask_notifications.wording import short_date

from .axis import Axis, Label, arrange_labels

if TYPE_CHECKING:
    from flask_notifications.usage.results import OperationUsage, UsageReport

_DAY = timedelta(days=1)

# A caller and its client.
_Name = tuple[str | None, str | None]

# Callers with a colour of their own; the rest share one.
_SERIES = 5
# Units of the drawing: across for a day, up for the whole height, and for a single call, which is always visible.
_DAY_WIDTH, _HEIGHT, _LEAST = 10, 1000, 14
# With more days than this, bars touch; with more brownouts than this, they have no labels.
_GAP_DAYS, _LABELLED = 100, 12
# The length of a date in ISO 8601.
_UNITS = {"day": 10, "month": 7, "year": 4}
# Hours that may be missing on a day that is drawn as covered completely.
_MISSING = 0.1


class Series(NamedTuple):
    """The calls of one caller with one client, or of all that are not shown on their own (``number`` 0)."""

    number: int
    caller: str | None
    client: str | None
    total: int
    days: Counter[date]
    path: str


class DayCalls(NamedTuple):
    """A row of the table, for a day, or for a month or a year of which it is the first day.

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
    """What the template draws; places are in per cent of the width. A bar is the busiest of ``step`` days."""

    axis: Axis
    step: int
    width: int
    maximum: int
    grid: Sequence[int]
    series: Sequence[Series]
    days: Sequence[DayCalls]
    coverage: Sequence[Run]
    labels: Sequence[Label]
    brownouts: Sequence[Brownout]
    others: int


def list_brownouts(policy: DeprecationPolicy | None, since: datetime, until: datetime) -> list[Brownout]:
    """Return the brownouts of a policy that happen in a period, at least in part."""
    if policy is None:
        return []
    happening = (each for each in policy.brownouts if policy.phase(each.start) is Phase.BROWNOUT)
    return [each for each in happening if each.start < until and each.end > since]


def list_days(since: datetime, until: datetime) -> list[date]:
    """Return the UTC days of a period; one that begins at its end is none."""
    first, last = since.date(), (until - timedelta(microseconds=1)).date()
    return [first + number * _DAY for number in range((last - first).days + 1)]


def draw_plot(
    usage: "OperationUsage", report: "UsageReport", policy: DeprecationPolicy | None, *, most_bars: int
) -> Plot:
    """Return the plot of one operation, with at most so many bars."""
    dates = list_days(report.since, report.until)
    step = -(-len(dates) // most_bars)
    bars = [dates[number : number + step] for number in range(0, len(dates), step)]
    axis = _choose_axis(report, policy, dates)
    groups: defaultdict[_Name, Counter[date]] = defaultdict(Counter)
    total: Counter[date] = Counter()
    closed: Counter[date] = Counter()
    for each in usage.callers:
        if not each.ignored:
            days = each.days
            calls = {day.day: day.calls for day in days}
            groups[each.caller, each.client].update(calls)
            total.update(calls)
            closed.update({day.day: day.closed for day in days})
    maximum = _round_up(max(total.values(), default=0))
    series = _draw_series(groups, bars, maximum)
    brownouts = list_brownouts(policy, axis.since, axis.until)
    return Plot(
        axis=axis,
        step=step,
        width=(axis.until - axis.since) // _DAY * _DAY_WIDTH,
        maximum=maximum,
        grid=[maximum, maximum // 2] if maximum % 2 == 0 else [maximum],
        series=series,
        days=[
            DayCalls(day, [each.days[day] for each in series], total[day], closed[day], usage.covered.get(day, 0))
            for day in dates
        ],
        coverage=_draw_coverage(usage, report, bars, axis),
        labels=_label(report, policy, axis, brownouts),
        brownouts=brownouts,
        others=max(len(groups) - _SERIES, 0),
    )


def sum_days(days: Sequence[DayCalls], limit: int) -> tuple[str, list[DayCalls]]:
    """Return a unit of time and a row for each: days, or else months, or else years, if there are at most so many."""
    rows = []
    unit = next((each for each in _UNITS if len({str(row.day)[: _UNITS[each]] for row in days}) <= limit), "year")
    for _start, group in groupby(days, key=lambda each: str(each.day)[: _UNITS[unit]]):
        starts, series, *numbers = zip(*group, strict=True)
        calls = [sum(each) for each in zip(*series, strict=True)]
        rows.append(DayCalls(starts[0], calls, *map(sum, numbers)))
    return unit, rows


def _choose_axis(report: "UsageReport", policy: DeprecationPolicy | None, dates: Sequence[date]) -> Axis:
    """Return the window of the report, and half of its length after it for scheduled events."""
    end = _midnight(dates[-1]) + _DAY
    near = end + (end - report.since) / 2
    scheduled = [each.end for each in list_brownouts(policy, report.until, near)]
    if policy is not None and policy.sunset_at is not None:
        scheduled.append(policy.sunset_at)
    last = max((each for each in scheduled if end < each <= near), default=None)
    margin = (end - report.since) // _DAY // 40 + 1
    return Axis(report.since, end if last is None else end + ((last - end) // _DAY + margin) * _DAY)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _draw_series(groups: Mapping[_Name, Counter[date]], bars: Sequence[Sequence[date]], maximum: int) -> list[Series]:
    """Return the series in the order of their size; each path reaches from the ground to the top of its own bars.

    Drawn in the opposite order, each covers the lower part of the one above, so that no gaps show.
    """
    ranked = sorted(groups.items(), key=lambda item: -item[1].total())
    shown = [(number, *name, calls) for number, (name, calls) in enumerate(ranked[:_SERIES], 1)]
    if ranked[_SERIES:]:
        shown.append((0, None, None, sum((calls for _name, calls in ranked[_SERIES:]), Counter())))
    below: Counter[date] = Counter()
    series = []
    for number, caller, client, calls in shown:
        below.update(calls)
        heights = [(len(bar), max(below[day] if calls[day] else 0 for day in bar)) for bar in bars]
        path = _draw_bars(heights, maximum)
        series.append(Series(number, caller, client, calls.total(), calls, path))
    return series


def _draw_bars(heights: Sequence[tuple[int, int]], maximum: int) -> str:
    """Return the outline of bars of these numbers of days and heights, as an SVG path."""
    gap = 0 if len(heights) > _GAP_DAYS else 2
    steps, last = [], 0
    for days, height in heights:
        rise = max(round(_HEIGHT * height / maximum), _LEAST) if height else 0
        steps.append(f"v{last - rise}h{days * _DAY_WIDTH - gap}")
        if gap:
            steps.append(f"v{rise}h{gap}")
        last = 0 if gap else rise
    return f"M0 {_HEIGHT}{''.join(steps)}v{last}z"


def _round_up(number: int) -> int:
    """Return the next number that is easy to read on an axis."""
    power: int = 10 ** (len(str(number)) - 1)
    return next(factor * power for factor in (1, 2, 3, 4, 5, 6, 8, 10) if number <= factor * power)


def _draw_coverage(
    usage: "OperationUsage", report: "UsageReport", bars: Sequence[Sequence[date]], axis: Axis
) -> list[Run]:
    def level(day: date) -> str:
        hours = usage.covered.get(day, 0)
        possible = min(24.0, (report.until - _midnight(day)) / timedelta(hours=1))
        return "full" if hours >= possible - _MISSING else "part" if hours else "none"

    def level_of_all(days: Sequence[date]) -> str:
        first, *others = {level(day) for day in days}
        return "part" if others else first

    runs = []
    for name, group in groupby(bars, key=level_of_all):
        start, *more = map(_midnight, chain.from_iterable(group))
        runs.append(Run(name, axis.place(start), axis.width(start, start + (len(more) + 1) * _DAY)))
    return runs


def _label(
    report: "UsageReport", policy: DeprecationPolicy | None, axis: Axis, brownouts: Sequence[Brownout]
) -> list[Label]:
    labels = [("today", "now", axis.place(report.until))]
    dates = {} if policy is None else {"deprecated": policy.deprecated_at, "sunset": policy.sunset_at}
    for kind, at in dates.items():
        if at is not None and axis.since <= at <= axis.until:
            labels.append((f"{kind} {short_date(at)}", kind, axis.place(at)))
    if len(brownouts) <= _LABELLED:
        labels += [(f"B{number}", "brownout", axis.place(each.start)) for number, each in enumerate(brownouts, 1)]
    return arrange_labels(labels)
