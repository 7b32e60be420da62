"""The calls of one caller, as a report has them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NamedTuple

from flask_notifications.wording import iso

from .logs import SOURCE
from .times import to_date


class DayUsage(NamedTuple):
    """Count the calls of one UTC day."""

    day: date  #: The day.
    answered: int  #: Responses below 400.
    refused: int  #: Responses with 401 or 403.
    failed: int  #: Other responses of 400 and above, and applications that raised.
    closed: int  #: The middleware's own 410s.

    @property
    def calls(self) -> int:
        """Return the number of calls, whatever their status."""
        return self.answered + self.refused + self.failed + self.closed


def unpack_days(packed: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield the number of each day since 1970, with its four counts."""
    for place in range(0, len(packed), 5):
        yield packed[place : place + 5]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerUsage:
    """Count the calls of one caller with one client and one source of the session ID.

    ``caller`` is the label that the application chose, ``client`` the first product of
    ``User-Agent``, ``source`` ``"header"``, ``"query"`` or ``"log"``; each is ``None`` where there
    was none. Caller and client are both ``"(other)"`` for calls beyond the number of
    pairs that are kept by name. The counts are those of ``DayUsage``. ``ignored`` calls
    do not count as use. ``stopped_on`` is the day of the last call of a caller that has
    been silent for longer than ever in the window; a caller without a label is a
    client. ``packed_days`` has five integers for each day: its number since 1970, and
    the four counts.
    """

    caller: str | None
    client: str | None
    source: str | None
    answered: int
    refused: int
    failed: int
    closed: int
    first_at: datetime
    last_at: datetime
    stopped_on: date | None = None
    ignored: bool
    packed_days: Sequence[int] = field(repr=False)

    @property
    def days(self) -> tuple[DayUsage, ...]:
        """Return the calls by UTC day, without the days that have none."""
        totals: dict[int, tuple[int, ...]] = {}
        for day, *counts in unpack_days(self.packed_days):
            before = totals.get(day, (0, 0, 0, 0))
            totals[day] = tuple(map(sum, zip(before, counts, strict=True)))
        return tuple(DayUsage(to_date(day), *totals[day]) for day in sorted(totals))

    @property
    def calls(self) -> int:
        """Return the number of calls, whatever their status."""
        return self.answered + self.refused + self.failed + self.closed

    @property
    def is_logged(self) -> bool:
        """Return whether the calls are from access logs, and perhaps in the record too."""
        return self.source == SOURCE

    def to_dict(self) -> dict[str, Any]:
        """Return the calls as ``json.dumps`` takes them."""
        stopped_on = None
        if self.stopped_on is not None:
            stopped_on = self.stopped_on.isoformat()
        return {
            "caller": self.caller,
            "client": self.client,
            "source": self.source,
            "answered": self.answered,
            "refused": self.refused,
            "failed": self.failed,
            "closed": self.closed,
            "first_at": iso(self.first_at),
            "last_at": iso(self.last_at),
            "stopped_on": stopped_on,
            "ignored": self.ignored,
        }
