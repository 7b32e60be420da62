"""The horizontal axis of a plot: places of dates, in per cent of its width."""

from datetime import UTC, datetime, timedelta
from math import ceil
from typing import NamedTuple

from flask_notifications.plans.policy import DeprecationPolicy
from flask_notifications.wording import short_date

_DAY = timedelta(days=1)
# The times that Python can represent in UTC.
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
# The most labels of an axis, and the per cent of its width that one takes on a phone.
_TICKS, _LABEL = 4, 23.5


class Mark(NamedTuple):
    """A date on a plot: ``deprecated``, ``sunset`` or ``now``, its words and place."""

    kind: str
    words: str
    place: float


class Axis(NamedTuple):
    """The time between two datetimes, as places from 0 to 100."""

    since: datetime
    until: datetime

    def place(self, at: datetime) -> float:
        """Return the place of a datetime; if it is outside, that of the nearer end."""
        share = (at - self.since) / (self.until - self.since)
        return round(100 * min(max(share, 0.0), 1.0), 3)

    def width(self, start: datetime, end: datetime) -> float:
        """Return the width of a period in per cent."""
        return round(self.place(end) - self.place(start), 3)

    def ticks(self) -> list[tuple[float, str]]:
        """Return the places and labels of a few dates.

        They are the first days of months if two of them fit, and otherwise divide the
        axis into equal parts.
        """
        length = self.until - self.since
        dates = self._list_months()
        if len(dates) < 2:
            parts = min(_TICKS, length // _DAY)
            dates = [self.since + number * length / parts for number in range(parts)]
        return [(self.place(date), short_date(date)) for date in dates]

    def _list_months(self) -> list[datetime]:
        """Return the first days of months at equal distances, where a label fits."""
        first = self.since.year * 12 + self.since.month  # the month after its own
        last = self.until.year * 12 + self.until.month
        dates = []
        for number in range(first, last, ceil((last - first) / _TICKS) or 1):
            date = datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC)
            if self.place(date) <= 100 - _LABEL:
                dates.append(date)
        return dates

    def marks(self, policy: DeprecationPolicy) -> list[Mark]:
        """Return the dates of a policy that are on the axis."""
        dates = {"deprecated": policy.deprecated_at, "sunset": policy.sunset_at}
        marks = []
        for kind, at in dates.items():
            if at is not None and self.since <= at <= self.until:
                words = f"{kind} {short_date(at)}"
                marks.append(Mark(kind, words, self.place(at)))
        return marks


def pad(since: datetime, until: datetime) -> Axis:
    """Return an axis with 4 % of a period, but at least a day, before and after it."""
    margin = max((until - since) / 25, _DAY)
    # Within the times that Python can represent.
    return Axis(since - min(margin, since - FIRST), until + min(margin, LAST - until))
