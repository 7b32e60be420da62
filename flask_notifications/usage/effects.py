"""The effect of each brownout: which callers got 410, and which called again."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from flask_notifications.plans.policy import Window

from .callers import CallerUsage, unpack_days
from .times import DAY, list_units, to_microseconds


class CallerEffect(NamedTuple):
    """A caller that got 410 in a brownout.

    ``closed`` counts its 410s on the days of the brownout, ``called_before`` says
    whether it called before the brownout, and ``returned_at`` is its last call if that
    was after the brownout, otherwise ``None``.
    """

    usage: CallerUsage
    closed: int
    called_before: bool
    returned_at: datetime | None


class BrownoutEffect(NamedTuple):
    """The callers that got 410 in one brownout; ``number`` counts brownouts from 1."""

    number: int
    window: Window
    refused: Sequence[CallerEffect]


class _Caller(NamedTuple):
    """A caller with its first and last call, and its 410s by the number of the day.

    The middleware responds with 410 before the application can label the caller, so a
    row without a label may be any caller with the same client and source. Its first and
    last call are therefore those of all these rows.
    """

    usage: CallerUsage
    first_at: datetime
    last_at: datetime
    closed: Mapping[int, int]


def describe_brownouts(
    rows: Sequence[CallerUsage], windows: Sequence[Window]
) -> list[BrownoutEffect]:
    """Return the effect of each brownout, in the order of ``windows``."""
    callers = _list_closed(rows)
    effects = []
    for number, window in enumerate(windows, 1):
        effects.append(BrownoutEffect(number, window, _list_refused(callers, window)))
    return effects


def _list_closed(rows: Sequence[CallerUsage]) -> list[_Caller]:
    """Return the callers that got 410 and are not ignored."""
    alike = defaultdict(list)
    for row in rows:
        alike[row.client, row.source].append(row)
    callers = []
    for row in rows:
        if row.closed and not row.ignored:
            usages = [row]
            if row.caller is None:
                usages = alike[row.client, row.source]
            first_at = min(usage.first_at for usage in usages)
            last_at = max(usage.last_at for usage in usages)
            days = unpack_days(row.packed_days)
            closed = {day: number for day, *_others, number in days}
            callers.append(_Caller(row, first_at, last_at, closed))
    return callers


def _list_refused(callers: Sequence[_Caller], window: Window) -> list[CallerEffect]:
    """Return the callers that got 410 in a brownout; those that called again first."""
    start, end = to_microseconds(window.start), to_microseconds(window.end)
    refused = []
    for usage, first_at, last_at, closed in callers:
        number = sum(closed.get(day, 0) for day in list_units(start, end, DAY))
        if number:
            returned_at = last_at if last_at >= window.end else None
            called_before = first_at < window.start
            refused.append(CallerEffect(usage, number, called_before, returned_at))
    refused.sort(key=lambda effect: (effect.returned_at is None, -effect.closed))
    return refused
