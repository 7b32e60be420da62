"""The results of a report: verdicts and their reasons, calls and coverage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from flask_notifications.plans.policy import Window
from flask_notifications.wording import count, duration, enumerate_names, iso, moment

from .callers import CallerUsage, to_plain
from .counts import PROBE, is_probe
from .coverage import RecorderRow
from .effects import BrownoutEffect, describe_brownouts
from .times import to_datetime

_JSON_KEYS = (
    *("name", "verdict", "reasons", "sunset_at", "answered", "refused", "failed"),
    *("closed", "ignored", "first_at", "last_at", "coverage", "covered_hours"),
    *("longest_gap_hours", "hosts", "callers"),
)


class Verdict(StrEnum):
    """Say whether an operation may be switched off.

    It is ``in use``, ``unknown`` or ``safe``. Of several verdicts, the first in this
    order decides.
    """

    IN_USE = "in use"
    UNKNOWN = "unknown"
    SAFE = "safe"


class Reason(NamedTuple):
    """Explain a verdict."""

    code: str  #: For programs, such as ``gap``.
    message: str  #: For people, in English and without a full stop.


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationUsage:
    """Report on one operation: the verdict, its reasons, the calls and the coverage.

    ``answered``, ``failed``, ``closed``, ``first_at`` and ``last_at`` leave out ignored
    calls. If there is a database, they also leave out calls in access logs. ``ignored``
    counts ignored calls. ``refused`` includes those that are ignored only because they
    have no label. ``sunset_at`` is that of the plan.

    ``coverage`` is the share of the window in which calls would have been recorded,
    from 0 to 1 and rounded down; ``covered_hours`` is the same time in hours, and
    ``longest_gap_hours`` the longest time that is not covered. ``hosts`` is the lowest
    number of hosts that recorded in a complete hour, and ``host_count`` the number of
    all that recorded in the window. ``lost`` are the recorders that ended in the window
    without a goodbye, in the order of their last signs of life. ``covered`` maps each
    UTC day of the window to its covered hours; it is empty without a database.
    """

    name: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    sunset_at: datetime | None = None
    answered: int
    refused: int
    failed: int
    closed: int
    ignored: int
    first_at: datetime | None
    last_at: datetime | None
    coverage: float
    covered_hours: float
    longest_gap_hours: float
    hosts: int
    host_count: int
    lost: tuple[RecorderRow, ...] = ()
    callers: tuple[CallerUsage, ...]
    covered: Mapping[date, float] = field(repr=False)
    window_hours: float = 0.0

    @property
    def calls(self) -> int:
        """Return the number of calls in the four counts."""
        return self.answered + self.refused + self.failed + self.closed

    @property
    def notes(self) -> list[str]:
        """Return what readers should know, whatever the verdict is.

        That is the coverage, lost recorders, ignored calls and refused calls.
        """
        notes = []
        if self.covered:
            notes.append(self.coverage_text)
        if self.lost:
            last = self.lost[-1]
            notes.append(
                f"{count(len(self.lost), 'recorder')} ended without a goodbye, "
                f"the last on {last.host} (process {last.process}) after "
                f"{moment(to_datetime(last.heard_at))}"
            )
        if self.ignored:
            notes.append(self._describe_ignored())
        if self.refused:
            refused = count(self.refused, "call")
            notes.append(f"{refused} got 401 or 403")
        return notes

    @property
    def coverage_text(self) -> str:
        """Return how much of the window was covered.

        The text is such as ``covered 100 % of 732 hours by 3 hosts, never fewer than 2,
        longest gap 20 minutes``.
        """
        hours = count(round(self.window_hours), "hour")
        text = f"covered {round(self.coverage * 100, 1):g} % of {hours}"
        if self.host_count:
            text += f" by {count(self.host_count, 'host')}"
        if 0 < self.hosts < self.host_count:
            text += f", never fewer than {self.hosts}"
        gap = timedelta(hours=self.longest_gap_hours)
        if gap < timedelta(seconds=1):
            return f"{text}, without a gap"
        return f"{text}, longest gap {duration(gap)}"

    def _describe_ignored(self) -> str:
        """Return the numbers of probes and other ignored calls, and who made these."""
        probes = 0
        labels = []
        for row in self.callers:
            if is_probe(row.client):
                probes += row.calls
            elif row.ignored and not (row.is_logged and self.covered):
                labels.append(row.caller or row.client or "unnamed")
        parts = []
        if probes:
            parts.append(f"{count(probes, 'probe')} ({PROBE})")
        if labels:
            calls = count(self.ignored - probes, "ignored call")
            parts.append(f"{calls} of {enumerate_names(labels)}")
        return " and ".join(parts)

    def describe_brownouts(self, windows: Sequence[Window]) -> list[BrownoutEffect]:
        """Return the effect of each brownout that has begun.

        :param windows: the brownouts, the earliest first.
        """
        return describe_brownouts(self.callers, windows)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as ``json.dumps`` takes it."""
        result = to_plain(self, _JSON_KEYS)
        result["reasons"] = [reason._asdict() for reason in self.reasons]
        result["callers"] = [row.to_dict() for row in self.callers]
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """Say who still calls each operation.

    The window has the ``days`` complete UTC days before ``until``, and the day so far.
    ``as_of`` is the time at which the database was read, by its clock. In a report on
    one caller, ``last_call`` is the time of its last call, which the database may have
    from before ``since``; otherwise, or if it never called, ``None``. ``notes`` are
    about the access logs and the service.
    """

    as_of: datetime
    since: datetime
    until: datetime
    days: int
    operations: tuple[OperationUsage, ...]
    last_call: datetime | None = None
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Return the verdict on all operations together.

        That of a report without operations is unknown.
        """
        verdicts = [usage.verdict for usage in self.operations]
        return min(verdicts, key=list(Verdict).index, default=Verdict.UNKNOWN)

    def sort_by_calls(self) -> "UsageReport":
        """Return the report with its operations sorted, the least called first."""
        operations = sorted(self.operations, key=_count_uses)
        return replace(self, operations=tuple(operations))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as ``json.dumps`` takes it.

        Dates are in ISO 8601 and UTC; counts by day are left out.
        """
        return {
            "schema": 3,
            "verdict": self.verdict.value,
            "as_of": iso(self.as_of),
            "from": iso(self.since),
            "until": iso(self.until),
            "days": self.days,
            "operations": [usage.to_dict() for usage in self.operations],
        }


def _count_uses(usage: OperationUsage) -> int:
    """Return the number of calls that are not ignored, including those in logs."""
    return sum(row.calls for row in usage.callers if not row.ignored)
