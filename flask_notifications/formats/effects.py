"""The effect of each brownout: the callers before it, those that got 410 during it, and
those that called again.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from flask_notifications.plans.policy import DeprecationPolicy, Window

from .plot import list_brownouts, list_days

if TYPE_CHECKING:
    from flask_notifications.usage.results import (
        CallerUsage,
        OperationUsage,
        UsageReport,
    )

# What rows with and without the label of a caller share.
_origin_of = attrgetter("client", "source")


class CallerEffect(NamedTuple):
    """A caller that got 410: how often, whether it had called before, and its last call
    if that was after.
    """

    usage: "CallerUsage"
    closed: int
    called_before: bool
    returned_at: datetime | None


class BrownoutEffect:
    """One brownout that has begun, by its number.

    ``called_before`` is the number of callers before it, ``refused`` are the callers
    that got 410, ``missed`` is the number of those that called before and after, but
    not during the brownout. ``shares_day`` says that another brownout was on the same
    UTC day, so that the counts of 410 are those of both.
    """

    def __init__(
        self,
        number: int,
        window: Window,
        callers: Sequence["_Caller"],
        brownouts_on: Mapping[date, int],
    ) -> None:
        self.number: int = number
        self.window: Window = window
        days = list_days(window.start, window.end)
        effects = [(each, each.measure(window, days)) for each in callers]
        refused = [effect for _caller, effect in effects if effect.closed]
        reached = {
            _origin_of(each.usage) for each in refused if each.usage.caller is None
        }
        before = [
            effect
            for caller, effect in effects
            if effect.called_before and not caller.has_labelled
        ]
        missed = [
            each
            for each in before
            if not each.closed and _origin_of(each.usage) not in reached
        ]
        self.called_before: int = len(before)
        self.refused: list[CallerEffect] = sorted(
            refused, key=lambda each: (each.returned_at is None, -each.closed)
        )
        self.missed: int = sum(each.returned_at is not None for each in missed)
        self.shares_day: bool = any(brownouts_on[day] > 1 for day in days)


def describe_brownouts(
    usage: "OperationUsage", report: "UsageReport", policy: DeprecationPolicy | None
) -> list[BrownoutEffect]:
    """Return the effects of the brownouts that began in the window of a report."""
    windows = list_brownouts(policy, report.since, report.until)
    brownouts_on = Counter(
        day for each in windows for day in list_days(each.start, each.end)
    )
    callers = _read_callers(usage) if windows else []
    return [
        BrownoutEffect(number, window, callers, brownouts_on)
        for number, window in enumerate(windows, 1)
    ]


class _Caller:
    """A caller with its 410s by day, and its first and last call.

    The middleware responds with 410 before the application labels the caller. A row
    without a label therefore has the first and the last call of all rows with the same
    client and source, and says whether one of these has a label.
    """

    def __init__(self, usage: "CallerUsage", alike: Sequence["CallerUsage"]) -> None:
        rows = alike if usage.caller is None else [usage]
        self.usage = usage
        self.closed = {
            day.day: day.closed for day in usage.days if day.closed
        }  # decoded once for all brownouts
        self.first_at, self.last_at = (
            min(row.first_at for row in rows),
            max(row.last_at for row in rows),
        )
        self.has_labelled = usage.caller is None and any(
            row.caller is not None for row in rows
        )

    def measure(self, window: Window, days: Sequence[date]) -> CallerEffect:
        """Return the effect of a brownout, which is on these days."""
        closed = sum(self.closed.get(day, 0) for day in days)
        returned_at = self.last_at if self.last_at >= window.end else None
        return CallerEffect(
            self.usage, closed, self.first_at < window.start, returned_at
        )


def _read_callers(usage: "OperationUsage") -> list[_Caller]:
    rows: defaultdict[object, list[CallerUsage]] = defaultdict(list)
    for each in usage.callers:
        rows[_origin_of(each)].append(each)
    return [
        _Caller(each, rows[_origin_of(each)])
        for each in usage.callers
        if not each.ignored
    ]
