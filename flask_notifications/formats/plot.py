"""Calls as stacked bars, with the dates of the plan and the coverage: numbers to
places, for one operation.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

from flask_notifications.plans.policy import DeprecationPolicy, Phase, Window
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
    """The calls of one caller with one client, or of all that are not shown on their
    own (``number`` 0), by period.
    """

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
    happening = (
        each for each in policy.windows if policy.phase(each.start) is Phase.BROWNOUT
    )
    return [each for each in happening if each.start < until and each.end > since]


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
        unit, periods = _divide(dates, limit)
        self.unit: str = unit
        places = {day: place for place, period in enumerate(periods) for day in period}
        calls: defaultdict[_Name, list[int]] = defaultdict(lambda: [0] * len(periods))
        total, closed = [0] * len(periods), [0] * len(periods)
        for each in usage.callers:
            counted = () if each.ignored else each.days
            for place, day in (
                (places[day.day], day) for day in counted if day.day in places
            ):
                calls[each.caller, each.client][place] += day.calls
                total[place] += day.calls
                closed[place] += day.closed
        self.maximum: int = max(total)
        self.series: list[Series] = _draw_series(
            calls, [len(period) for period in periods], self.maximum
        )
        self.others: int = max(len(calls) - _SERIES, 0)
        starts = [period[0] for period in periods]
        covered = [
            sum(usage.covered.get(day, 0) for day in period) for period in periods
        ]
        self.rows: list[tuple[Any, ...]] = list(
            zip(
                starts,
                *(each.calls for each in self.series),
                total,
                closed,
                map(round, covered),
                strict=True,
            )
        )
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


def _divide(days: Sequence[date], limit: int) -> tuple[str, list[list[date]]]:
    """Return the shortest unit of time with at most ``limit`` periods, or the year, and
    the days of each period.
    """
    divided = {
        unit: [list(group) for _, group in groupby(days, key=start)]
        for unit, start in _UNITS.items()
    }
    unit = next(
        (unit for unit, periods in divided.items() if len(periods) <= limit), "year"
    )
    return unit, divided[unit]


def _choose_axis(
    report: "UsageReport", policy: DeprecationPolicy | None, dates: Sequence[date]
) -> Axis:
    """Return the window of the report, followed by the events that are scheduled for
    half of its length after it.
    """
    end = _midnight(dates[-1]) + _DAY
    length = end - report.since
    near = end + length / 2
    events = [end, *(each.end for each in list_brownouts(policy, end, near))]
    if policy is not None and policy.sunset_at is not None:
        events.append(policy.sunset_at)
    return Axis(
        report.since, max(each for each in events if each <= near) + length / 40
    )


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
    shown = [
        (number, *name, own) for number, (name, own) in enumerate(ranked[:_SERIES], 1)
    ]
    if ranked[_SERIES:]:
        shown.append(
            (
                0,
                None,
                None,
                [
                    sum(own)
                    for own in zip(
                        *(own for _name, own in ranked[_SERIES:]), strict=True
                    )
                ],
            )
        )
    tops = [0] * len(lengths)
    series = []
    for number, caller, client, own in shown:
        tops = list(map(add, tops, own))
        heights = [top if value else 0 for top, value in zip(tops, own, strict=True)]
        series.append(
            Series(number, caller, client, own, _draw_bars(lengths, heights, maximum))
        )
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

    def level(period: tuple[datetime, datetime, float]) -> str:
        start, end, hours = period
        possible = (min(end, until) - start) / timedelta(hours=1)
        return "full" if hours >= possible - _MISSING else "part" if hours else "none"

    spans = [(_midnight(days[0]), _midnight(days[-1]) + _DAY) for days in periods]
    runs = groupby(
        ((*span, hours) for span, hours in zip(spans, covered, strict=True)), key=level
    )
    joined = ((name, list(run)) for name, run in runs)
    return [
        (name, axis.place(run[0][0]), axis.width(run[0][0], run[-1][1]))
        for name, run in joined
    ]


def _label_plot(
    report: "UsageReport",
    policy: DeprecationPolicy | None,
    axis: Axis,
    brownouts: Sequence[Window],
) -> list[Label]:
    labels = [("today", "now", axis.place(report.until))]
    dates = (
        {}
        if policy is None
        else {"deprecated": policy.deprecated_at, "sunset": policy.sunset_at}
    )
    for kind, at in dates.items():
        if at is not None and axis.since <= at <= axis.until:
            labels.append((f"{kind} {short_date(at)}", kind, axis.place(at)))
    if len(brownouts) <= _LABELLED:
        labels += [
            (f"B{number}", "brownout", axis.place(each.start))
            for number, each in enumerate(brownouts, 1)
        ]
    return arrange_labels(labels)
