"""Time from left to right: where a date is on a plot, in per cent of its width, and
which dates label the axis.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import NamedTuple

from flask_notifications.wording import short_date

_DAY = timedelta(days=1)
# The times that Python can represent in UTC.
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

# How many labels an axis may have, and the per cent of the narrowest plot that one takes.
_TICKS, _LABEL = 4, 23.5
# The months between two labels.
_MONTHS = (
    1,
    2,
    3,
    6,
    *(12 * 10**n * years for n in range(4) for years in (1, 2, 3, 5)),
)
_MONTH = timedelta(days=30)

# The width of a letter in per cent of the narrowest plot, which is about 300 pixels
# wide.
_LETTER = 2.15


class Label(NamedTuple):
    """A label that belongs to a place, in a row in which it covers no other label; its
    anchor is SVG's text-anchor.
    """

    name: str
    kind: str
    place: float
    anchor: str
    row: int


class Axis(NamedTuple):
    """The time between two datetimes, as places from 0 to 100."""

    since: datetime
    until: datetime

    def place(self, at: datetime) -> float:
        """Return the place of a datetime in per cent; one outside of the axis is at the
        nearer end.
        """
        share = (at - self.since) / (self.until - self.since)
        return round(100 * min(max(share, 0.0), 1.0), 3)

    def width(self, start: datetime, end: datetime) -> float:
        """Return the length of a period in per cent."""
        return round(self.place(end) - self.place(start), 3)

    def ticks(self) -> list[tuple[float, str]]:
        """Return the places of a few dates: the first days of months, or else of equal
        parts of a day or more.
        """
        length = self.until - self.since
        dates = self._list_months(length)
        if len(dates) < 2:
            parts = min(_TICKS, length // _DAY)
            dates = [self.since + number * length / parts for number in range(parts)]
        return [(self.place(date), short_date(date)) for date in dates]

    def _list_months(self, length: timedelta) -> list[datetime]:
        """Return the first days of months where a label fits."""
        least = length * _LABEL / 100
        step = next(months for months in _MONTHS if months * _MONTH >= least)
        first = self.since.year * 12 + self.since.month
        last = self.until.year * 12 + self.until.month
        dates = []
        for number in range(max(12, first - first % step), last, step):
            date = datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC)
            if date >= self.since and self.place(date) <= 100 - _LABEL:
                dates.append(date)
        return dates


def pad(since: datetime, until: datetime) -> Axis:
    """Return an axis with some space before and after a period, and at least a day."""
    margin = max((until - since) / 25, _DAY)
    return Axis(since - min(margin, since - FIRST), until + min(margin, LAST - until))


def arrange_labels(labels: Iterable[tuple[str, str, float]]) -> list[Label]:
    """Place labels, each a name, a kind and a place, in as few rows as their lengths
    need; the first row is 0.
    """
    ends: dict[int, float] = {}  # of the last label in each row
    arranged = []
    for name, kind, place in sorted(labels, key=lambda label: label[2]):
        width = _LETTER * len(name) + 2
        anchor, start = (
            ("end", place - width) if place + width > 100 else ("start", place)
        )
        row = next(row for row in count() if ends.get(row, start) <= start)
        ends[row] = start + width
        arranged.append(Label(name, kind, place, anchor, row))
    return arranged
