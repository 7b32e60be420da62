"""The results of a report: the verdict on each operation, its reasons, calls and
coverage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from operator import add
from typing import Any, NamedTuple

from flask_notifications.wording import count, duration, iso

from .times import to_date


class Verdict(StrEnum):
    """Say whether an operation may be switched off: ``in use``, ``unknown`` or
    ``safe``.

    Of several verdicts, the first in this order decides.
    """

    IN_USE = "in use"
    UNKNOWN = "unknown"
    SAFE = "safe"


class DayUsage(NamedTuple):
    """Count the calls of one UTC day."""

    day: date  #: The day.
    answered: int  #: Responses below 400.
    failed: int  #: Responses of 400 and above, and applications that raised.
    closed: int  #: The middleware's own 410s.

    @property
    def calls(self) -> int:
        """Return the number of calls, whatever their status."""
        return self.answered + self.failed + self.closed


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerUsage:
    """Count the calls of one caller with one client and one source of the session ID.

    ``caller`` is the label that the application chose, ``client`` the first product of
    ``User-Agent``, ``source`` ``"header"`` or ``"query"``; each is ``None`` where there
    was none. Caller and client are both ``"(other)"`` for calls beyond the number of
    pairs that are kept by name. ``answered`` are responses below 400, ``failed`` those
    of 400 and above and applications that raised, ``closed`` the middleware's own 410s.
    ``ignored`` calls do not count as use. ``packed_days`` has four integers for each
    day: its number since 1970, and the three counts.
    """

    caller: str | None
    client: str | None
    source: str | None
    answered: int
    failed: int
    closed: int
    first_at: datetime
    last_at: datetime
    ignored: bool
    packed_days: Sequence[int] = field(repr=False)

    @property
    def days(self) -> tuple[DayUsage, ...]:
        """Return the calls by UTC day, without the days that have none."""
        days: dict[int, list[int]] = {}
        numbers = iter(self.packed_days)
        for day, *counts in zip(numbers, numbers, numbers, numbers, strict=True):
            days[day] = list(map(add, days.get(day, (0, 0, 0)), counts))
        return tuple(DayUsage(to_date(day), *days[day]) for day in sorted(days))

    @property
    def day_numbers(self) -> set[int]:
        """Return the UTC days that have calls, by their number since 1970."""
        return set(self.packed_days[::4])

    @property
    def calls(self) -> int:
        """Return the number of calls, whatever their status."""
        return self.answered + self.failed + self.closed

    def to_dict(self) -> dict[str, Any]:
        """Return the calls as ``json.dumps`` takes them."""
        names = (
            "caller",
            "client",
            "source",
            "answered",
            "failed",
            "closed",
            "first_at",
            "last_at",
            "ignored",
        )
        return {name: _plain(getattr(self, name)) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationUsage:
    """Report on one operation: the verdict, its reasons in English, the calls and the
    coverage.

    ``answered``, ``failed``, ``closed``, ``first_at`` and ``last_at`` leave out ignored
    calls, ``ignored`` counts them. ``coverage`` is the share of the window in which
    calls would have been recorded, ``covered_hours`` its hours, ``longest_gap_hours``
    the longest time without, and ``hosts`` the lowest number of hosts that recorded in
    a complete hour. ``covered`` has the covered hours of each UTC day of the window.
    """

    name: str
    verdict: Verdict
    reasons: tuple[str, ...]
    answered: int
    failed: int
    closed: int
    ignored: int
    first_at: datetime | None
    last_at: datetime | None
    coverage: float
    covered_hours: float
    longest_gap_hours: float
    hosts: int
    callers: tuple[CallerUsage, ...]
    covered: Mapping[date, float] = field(repr=False)
    window_hours: float = 0.0

    @property
    def calls(self) -> int:
        """Return the number of calls that are not ignored."""
        return self.answered + self.failed + self.closed

    @property
    def coverage_text(self) -> str:
        """Return how much was covered, such as ``covered 100 % of 732 hours by 3 hosts,
        longest gap 20 minutes``.
        """
        share = int(self.coverage * 1000) / 10
        percent = f"{share:g} %"
        hosts = (
            f" by {count(self.hosts, 'host')}" if self.hosts else ""
        )  # an hour without a host is a gap
        covered = (
            f"covered {percent} of {count(round(self.window_hours), 'hour')}{hosts}"
        )
        gap = timedelta(hours=self.longest_gap_hours)
        return f"{covered}, {f'longest gap {duration(gap)}' if gap >= timedelta(seconds=1) else 'without a gap'}"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as ``json.dumps`` takes it."""
        names = (
            "name",
            "verdict",
            "reasons",
            "answered",
            "failed",
            "closed",
            "ignored",
            "first_at",
            "last_at",
        )
        numbers = ("coverage", "covered_hours", "longest_gap_hours", "hosts")
        found = {name: _plain(getattr(self, name)) for name in (*names, *numbers)}
        return found | {"callers": [each.to_dict() for each in self.callers]}


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """Say who still calls each operation, in the ``days`` complete UTC days before
    ``until`` and the day so far.

    ``last_call`` is that of the only caller of the report, in the database also before
    ``since``, or ``None``.
    """

    since: datetime
    until: datetime
    days: int
    operations: tuple[OperationUsage, ...]
    last_call: datetime | None = None

    @property
    def verdict(self) -> Verdict:
        """Return the verdict on all operations together; a report without any is
        unknown.
        """
        found = {each.verdict for each in self.operations} or {Verdict.UNKNOWN}
        return next(verdict for verdict in Verdict if verdict in found)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as ``json.dumps`` takes it: dates as ISO 8601 in UTC,
        without the counts by day.
        """
        return {
            "schema": 2,
            "verdict": self.verdict.value,
            "from": iso(self.since),
            "until": iso(self.until),
            "days": self.days,
            "operations": [each.to_dict() for each in self.operations],
        }


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return iso(value)
    return list(value) if isinstance(value, tuple) else value
