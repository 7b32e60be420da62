"""Time from left to right: where a date is on a plot, in per cent of its width, and which dates label the axis."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import NamedTuple

from flask_notifications.wording import month_name

_DAY, _MONTH = timedelta(days=1), timedelta(days=31)
# The times that Python can represent in UTC.
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

_DAYS = (1, 2, 4, 7, 14)
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 6000, 24000, 120_000)

# How many labels an axis may have, and where the last one may begin, so that it ends within the plot.
_TICKS, _LAST_TICK = 5, 86

# The width of a letter in per cent of the narrowest plot, which is about 300 pixels wide.
_LETTER = 2.15


class Tick(NamedTuple):
    """A label of the axis."""

    place: float
    label: str


class Label(NamedTuple):
    """A label that belongs to a place, in a row in which it covers no other label.

    ``anchor`` is a value of the SVG attribute ``text-anchor``: the label extends to the right of its place (``start``)
    or to the left (``end``).
    """

    name: str
    kind: str
    place: float
    anchor: str
    row: int


@dataclass(frozen=True, slots=True)
class Axis:
    """The time between two datetimes, as places from 0 to 100."""

    since: datetime
    until: datetime

    def place(self, at: datetime) -> float:
        """Return the place of a datetime in per cent; one outside of the axis is at the nearer end."""
        share = (at - self.since) / (self.until - self.since)
        return round(100 * min(max(share, 0.0), 1.0), 3)

    def width(self, start: datetime, end: datetime) -> float:
        """Return the length of a period in per cent."""
        return round(self.place(end) - self.place(start), 3)

    def ticks(self) -> list[Tick]:
        """Return labelled dates at equal intervals, none so far to the right that its label does not fit."""
        length = self.until - self.since
        days = (self._every_days(step) for step in _DAYS if length <= (_TICKS + 1) * step * _DAY)
        months = (self._every_months(step) for step in _MONTHS if length <= (_TICKS + 1) * step * _MONTH)
        dates = next(dates for dates in chain(days, months) if len(dates) <= _TICKS)
        return [Tick(self.place(date), label) for date, label in _label_dates(dates) if self.place(date) <= _LAST_TICK]

    def _every_days(self, step: int) -> list[datetime]:
        first = self.since.replace(hour=0, minute=0, second=0, microsecond=0)
        dates = (first + days * _DAY for days in range(0, (self.until - first).days + 1, step))
        return [date for date in dates if date >= self.since]

    def _every_months(self, step: int) -> list[datetime]:
        first, last = self.since.year * 12 + self.since.month - 1, self.until.year * 12 + self.until.month - 1
        numbers = range(-(-first // step) * step, last + 1, step)
        dates = (datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC) for number in numbers if number >= 12)
        return [date for date in dates if self.since <= date <= self.until]


def pad(since: datetime, until: datetime) -> Axis:
    """Return an axis with some space before and after a period, and at least a day."""
    margin = max((until - since) / 25, _DAY)
    start = since - margin if since - FIRST > margin else FIRST
    end = until + margin if LAST - until > margin else LAST
    return Axis(start, end)


def arrange_labels(labels: Iterable[tuple[str, str, float]]) -> list[Label]:
    """Place labels, each a name, a kind and a place, in as few rows as their lengths need; the first row is 0."""
    rows: list[float] = []
    arranged = []
    for name, kind, place in sorted(labels, key=lambda label: label[2]):
        width = _LETTER * len(name) + 2
        anchor = "end" if place + width > 100 else "start"
        start = place - width if anchor == "end" else place
        row = next((row for row, end in enumerate(rows) if end <= start), len(rows))
        rows[row:] = [max(place, start + width), *rows[row + 1 :]]
        arranged.append(Label(name, kind, place, anchor, row))
    return arranged


def _label_dates(dates: list[datetime]) -> Iterator[tuple[datetime, str]]:
    """Yield each date with its label: the year only where it is new."""
    year = None
    are_first_days = all(date.day == 1 for date in dates)
    are_years = are_first_days and len(dates) > 1 and all(date.month == 1 for date in dates)
    for date in dates:
        label = month_name(date) if are_first_days else f"{date.day} {month_name(date)}"
        new_year = "" if date.year == year else f" {date.year}"
        yield date, str(date.year) if are_years else f"{label}{new_year}"
        year = date.year
