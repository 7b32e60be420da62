"""The effect of each brownout: the callers before it, those that got 410 during it, and
those that called again.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

from flask_notifications.plans.policy import Window

from .callers import CallerUsage, unpack_days
from .times import DAY, list_units, to_microseconds

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

    ``called_before`` is the number of callers before it, and ``refused`` are the
    callers that got 410. ``shares_day`` says that another brownout was on the same UTC
    day, so that the counts of 410 are those of both.
    """

    number: int
    window: Window
    called_before: int
    refused: Sequence[CallerEffect]
    shares_day: bool


class _Caller(NamedTuple):
    """A caller with its 410s by day, and its first and last call.

    The middleware responds with 410 before the application labels the caller. A row
    without a label therefore has the first and the last call of all rows of the same
    origin, and ``is_double`` says whether one of these has a label.
    """

    usage: CallerUsage
    first_at: datetime
    last_at: datetime
    is_double: bool
    closed: Mapping[int, int]


def describe_brownouts(
    rows: Sequence[CallerUsage], windows: Sequence[Window], until: datetime
) -> list[BrownoutEffect]:
    """Return the effect of each brownout that began before a time."""
    windows = [window for window in windows if window.start < until]
    if not windows:
        return []
    callers = _list_callers(rows)
    brownouts_on: Counter[int] = Counter()
    for window in windows:
        brownouts_on.update(_list_days(window))
    effects = []
    for number, window in enumerate(windows, 1):
        shares_day = any(brownouts_on[day] > 1 for day in _list_days(window))
        effects.append(_measure(number, window, callers, shares_day=shares_day))
    return effects


def _list_callers(rows: Sequence[CallerUsage]) -> list[_Caller]:
    """Return the callers that are not ignored; their days are unpacked only once."""
    alike: defaultdict[_Origin, list[CallerUsage]] = defaultdict(list)
    for row in rows:
        alike[row.client, row.source].append(row)
    callers = []
    for row in rows:
        if row.ignored:
            continue
        same = [row]
        if row.caller is None:
            same = alike[row.client, row.source]
        days = unpack_days(row.packed_days)
        closed = {day: number for day, *_others, number in days}
        caller = _Caller(
            row,
            min(usage.first_at for usage in same),
            max(usage.last_at for usage in same),
            any(usage.caller != row.caller for usage in same),
            closed,
        )
        callers.append(caller)
    return callers


def _measure(
    number: int, window: Window, callers: Sequence[_Caller], *, shares_day: bool
) -> BrownoutEffect:
    """Return the effect of a brownout."""
    days = _list_days(window)
    refused = []
    called_before = 0
    for caller in callers:
        is_earlier = caller.first_at < window.start
        called_before += is_earlier and not caller.is_double
        returned_at = caller.last_at if caller.last_at >= window.end else None
        closed = sum(caller.closed.get(day, 0) for day in days)
        if closed:
            refused.append(CallerEffect(caller.usage, closed, is_earlier, returned_at))
    refused.sort(key=lambda effect: (effect.returned_at is None, -effect.closed))
    return BrownoutEffect(number, window, called_before, refused, shares_day)


def _list_days(window: Window) -> range:
    """Return the UTC days of a brownout, by their number since 1970."""
    return list_units(to_microseconds(window.start), to_microseconds(window.end), DAY)
