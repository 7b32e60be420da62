"""The effect of each brownout: the callers before it, those that got 410 during it, and
those that called again.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

from flask_notifications.plans.policy import Window

from .callers import CallerUsage, unpack_days
from .times import DAY, to_microseconds

# The client and the source, which rows with and without the label of a caller share.
_Origin: TypeAlias = tuple[str | None, str | None]


class CallerEffect(NamedTuple):
    """A caller that got 410: how often, whether it had called before, and its last call
    if that was after.
    """

    usage: CallerUsage
    closed: int
    called_before: bool
    returned_at: datetime | None


class BrownoutEffect(NamedTuple):
    """One brownout that has begun, by its number.

    ``called_before`` is the number of callers before it, ``refused`` are the callers
    that got 410, ``missed`` is the number of those that called before and after, but
    not during the brownout. ``shares_day`` says that another brownout was on the same
    UTC day, so that the counts of 410 are those of both.
    """

    number: int
    window: Window
    called_before: int
    refused: Sequence[CallerEffect]
    missed: int
    shares_day: bool


def describe_brownouts(
    rows: Sequence[CallerUsage], windows: Sequence[Window], until: datetime
) -> list[BrownoutEffect]:
    """Return the effect of each brownout that began before a time."""
    windows = [window for window in windows if window.start < until]
    if not windows:
        return []
    callers = _read_callers(rows)
    brownouts_on: Counter[int] = Counter()
    for window in windows:
        brownouts_on.update(_list_days(window))
    effects = []
    for number, window in enumerate(windows, 1):
        effects.append(_measure(number, window, callers, brownouts_on))
    return effects


class _Caller:
    """A caller with its 410s by day, and its first and last call.

    The middleware responds with 410 before the application labels the caller. A row
    without a label therefore has the first and the last call of all rows with the same
    client and source, and says whether one of these has a label.
    """

    def __init__(self, usage: CallerUsage, alike: Sequence[CallerUsage]) -> None:
        rows = alike if usage.caller is None else [usage]
        self.usage = usage
        self.origin: _Origin = (usage.client, usage.source)
        # Decoded once for all brownouts.
        self._closed: Counter[int] = Counter()
        for day, *_others, closed in unpack_days(usage.packed_days):
            self._closed[day] += closed
        self._first_at = min(row.first_at for row in rows)
        self._last_at = max(row.last_at for row in rows)
        self.has_labelled = usage.caller is None and any(
            row.caller is not None for row in rows
        )

    def measure(self, window: Window) -> CallerEffect:
        """Return the effect of a brownout."""
        closed = sum(self._closed[day] for day in _list_days(window))
        returned_at = self._last_at if self._last_at >= window.end else None
        return CallerEffect(
            self.usage, closed, self._first_at < window.start, returned_at
        )


def _read_callers(rows: Sequence[CallerUsage]) -> list[_Caller]:
    """Return the callers that are not ignored."""
    alike: defaultdict[_Origin, list[CallerUsage]] = defaultdict(list)
    for row in rows:
        alike[row.client, row.source].append(row)
    counted = [row for row in rows if not row.ignored]
    return [_Caller(row, alike[row.client, row.source]) for row in counted]


def _measure(
    number: int,
    window: Window,
    callers: Sequence[_Caller],
    brownouts_on: Mapping[int, int],
) -> BrownoutEffect:
    refused: list[CallerEffect] = []
    reached: set[_Origin] = set()
    before: list[tuple[_Caller, CallerEffect]] = []
    for caller in callers:
        effect = caller.measure(window)
        if effect.closed:
            refused.append(effect)
            if caller.usage.caller is None:
                reached.add(caller.origin)
        if effect.called_before and not caller.has_labelled:
            before.append((caller, effect))
    missed = 0
    for caller, effect in before:
        is_reached = effect.closed or caller.origin in reached
        if effect.returned_at is not None and not is_reached:
            missed += 1
    refused.sort(key=lambda effect: (effect.returned_at is None, -effect.closed))
    shares_day = any(brownouts_on[day] > 1 for day in _list_days(window))
    return BrownoutEffect(number, window, len(before), refused, missed, shares_day)


def _list_days(window: Window) -> range:
    """Return the UTC days of a brownout, by their number since 1970."""
    first = to_microseconds(window.start) // DAY
    last = (to_microseconds(window.end) - 1) // DAY
    return range(first, last + 1)
