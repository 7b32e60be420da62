"""The verdict on each operation: in use, unknown or safe, with the calls and the coverage that it depends on.

Reads the store, writes nothing, knows nothing of requests.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import URL, Engine

from flask_notifications.operations import Operation
from flask_notifications.validation import require
from flask_notifications.wording import count, full_date, iso

from .store import CANARY, OTHER, Calls, is_canary, read_calls, read_coverage, reading

_MAX_DAYS = 3650

_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_MOMENT = timedelta(microseconds=1)


class Verdict(StrEnum):
    """Say whether an operation may be switched off."""

    IN_USE = "in use"
    UNKNOWN = "unknown"
    SAFE = "safe"


class DayUsage(NamedTuple):
    """Count the calls of one UTC day."""

    day: date
    answered: int
    failed: int
    closed: int


@dataclass(frozen=True, kw_only=True)  # no slots, because of the cached property
class CallerUsage:
    """Count the calls of one caller with one client and one source of the session ID.

    ``caller`` is the label that the application chose, ``client`` the first product of ``User-Agent``, ``source``
    ``"header"`` or ``"query"``; each is ``None`` where there was none. Caller and client are both ``"(other)"`` for
    calls beyond the number of pairs that the store keeps for a day. ``answered`` are responses below 400, ``failed``
    those of 400 and above and applications that raised, ``closed`` the middleware's own 410s. ``ignored`` calls do not
    count as use. ``days`` has the same calls by UTC day, without the days that have none; ``days_json`` is a JSON array
    of them, each an array of the day, ``answered``, ``failed`` and ``closed``.
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
    days_json: str = field(repr=False)

    @cached_property
    def days(self) -> tuple[DayUsage, ...]:
        """The calls by UTC day."""
        counts = json.loads(self.days_json)
        return tuple(sorted(DayUsage(date.fromisoformat(day), *numbers) for day, *numbers in counts))

    @property
    def calls(self) -> int:
        """Return the number of calls, whatever their status."""
        return self.answered + self.failed + self.closed


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationUsage:
    """Report on one operation: the verdict, its reasons in English, the calls and the coverage.

    ``answered``, ``failed``, ``closed``, ``first_at`` and ``last_at`` leave out ignored calls, ``ignored`` counts them.
    ``covered_hours`` is the number of hours of the window in which calls would have been recorded, and
    ``longest_gap_hours`` the longest run of complete hours without. ``covered`` has the number of covered hours of each
    UTC day of the window.
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
    covered_hours: int
    longest_gap_hours: int
    callers: tuple[CallerUsage, ...]
    covered: Mapping[date, int] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """Say who still calls each operation, in the ``days`` complete UTC days before ``until`` and the day so far."""

    since: datetime
    until: datetime
    days: int
    operations: tuple[OperationUsage, ...]

    @property
    def verdict(self) -> Verdict:
        """Return the verdict on all operations together; a report without any is unknown."""
        verdicts = {each.verdict for each in self.operations}
        for verdict in (Verdict.IN_USE, Verdict.UNKNOWN):
            if verdict in verdicts:
                return verdict
        return Verdict.SAFE if verdicts else Verdict.UNKNOWN

    def to_dict(self) -> dict[str, Any]:
        """Return the report as ``json.dumps`` takes it: dates as ISO 8601 in UTC, without the counts by day."""
        return {
            "schema": 1,
            "from": _iso(self.since),
            "until": _iso(self.until),
            "days": self.days,
            "operations": [_operation_dict(each) for each in self.operations],
        }


def read_usage(
    database: str | URL | Engine,
    *,
    days: int = 30,
    until: datetime | date | None = None,
    operations: Iterable[str | Operation] | None = None,
    ignore_clients: Collection[str] = (),
    ignore_callers: Collection[str] = (),
    allow_gap: float = 24,
    require_canary: bool = False,
) -> UsageReport:
    """Read who still calls, and whether each operation may be switched off.

    Calls are kept by UTC day, so those of a day are read together.

    :param database: an SQLAlchemy URL or engine of the database that ``UsageRecorder`` writes.
    :param days: the number of complete UTC days to look at, besides the day so far; 1 to 3650.
    :param until: the end of the window, an aware datetime, or a date that it includes; ``None`` is now.
    :param operations: the operations, or their names, in the order of the report; ``None`` is all in the store.
    :param ignore_clients: clients that do not count as use, each as the store has it: ``curl/8.5.0``.
    :param ignore_callers: labels of callers that do not count as use.
    :param allow_gap: hours without any record that still count as covered.
    :param require_canary: whether each complete day needs a call by ``flask-notifications-check``.
    :raises ValueError: naming the argument that does not fit.
    :raises StoreUnavailable: when there is no such database, it cannot be reached, or its tables are missing or have
        foreign content.
    """
    whole = isinstance(days, int) and not isinstance(days, bool)
    require(whole and 1 <= days <= _MAX_DAYS, "days", f"a whole number from 1 to {_MAX_DAYS}", days)
    is_number = isinstance(allow_gap, int | float) and not isinstance(allow_gap, bool)
    require(is_number and allow_gap >= 0, "allow_gap", "a number of hours, 0 or more", allow_gap)
    require(isinstance(require_canary, bool), "require_canary", "True or False", require_canary)
    names = None if operations is None else _names(operations)
    window = _window(days, until)
    ignores = _Ignores(_labels("ignore_clients", ignore_clients), _labels("ignore_callers", ignore_callers))
    with reading(database) as connection:
        callers = _callers(read_calls(connection, window.first_day, window.last.replace(tzinfo=None), names), ignores)
        coverage = read_coverage(connection, names)
    found = sorted({*callers, *coverage}) if names is None else names
    rules = _Rules(window, allow_gap, require_canary=require_canary)
    usages = [rules.judge(name, callers.get(name, []), coverage.get(name, {})) for name in found]
    return UsageReport(since=window.since, until=window.until, days=days, operations=tuple(usages))


class _Ignores(NamedTuple):
    clients: frozenset[str]
    callers: frozenset[str]

    def match(self, caller: str, client: str) -> bool:
        """Return whether the calls of a pair do not count as use; calls beyond the limit always do."""
        if client == OTHER:
            return False
        return is_canary(client) or client in self.clients or caller in self.callers


@dataclass(frozen=True, slots=True)
class _Window:
    """The hours of a report: the complete ones, and the one that ``until`` is in.

    ``last`` is the last moment whose calls belong to it: ``until`` itself, or the last one of a date.
    """

    since: datetime
    until: datetime
    last: datetime

    @property
    def first_day(self) -> date:
        return self.since.date()

    @property
    def last_day(self) -> date:
        return self.last.date()

    @property
    def days(self) -> list[date]:
        return [self.first_day + number * _DAY for number in range((self.last_day - self.first_day).days + 1)]

    @property
    def complete_days(self) -> list[date]:
        return [day for day in self.days if day < self.until.date()]

    @property
    def complete_hours(self) -> int:
        return (self.until - self.since) // _HOUR

    @property
    def hours(self) -> int:
        return -((self.since - self.until) // _HOUR)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules for a verdict on the calls and the coverage of an operation."""

    window: _Window
    allow_gap: float
    require_canary: bool

    def judge(self, name: str, callers: list[CallerUsage], coverage: Mapping[date, int]) -> OperationUsage:
        """Return the usage of an operation, given the hours of each day, as bits, in which it was covered."""
        counted = [each for each in callers if not each.ignored]
        of_days = [bool(coverage.get(day, 0) >> hour & 1) for day in self.window.days for hour in range(24)]
        hours = of_days[: self.window.hours]
        doubts = [] if counted else self._doubts(callers, coverage, hours)
        verdict = Verdict.IN_USE if counted else Verdict.UNKNOWN if doubts else Verdict.SAFE
        return OperationUsage(
            name=name,
            verdict=verdict,
            reasons=(*_calls_counted(counted), *doubts, *_calls_ignored(callers)),
            answered=sum(each.answered for each in counted),
            failed=sum(each.failed for each in counted),
            closed=sum(each.closed for each in counted),
            ignored=sum(each.calls for each in callers if each.ignored),
            first_at=min((each.first_at for each in counted), default=None),
            last_at=max((each.last_at for each in counted), default=None),
            covered_hours=sum(hours),
            longest_gap_hours=_longest_gap(hours[: self.window.complete_hours])[1],
            callers=tuple(callers),
            covered={day: sum(hours[24 * number :][:24]) for number, day in enumerate(self.window.days)},
        )

    def _doubts(self, callers: list[CallerUsage], coverage: Mapping[date, int], hours: list[bool]) -> list[str]:
        """Return why the absence of calls proves nothing."""
        began = _first_hour(coverage)
        if began is None or began > self.window.until:
            return ["nothing was recorded for this operation before the end of the window"]
        if not any(hours):
            return ["nothing was recorded in the window"]
        doubts = []
        skipped = 0
        if began > self.window.since:
            skipped = (began - self.window.since) // _HOUR
            doubts.append(f"recorded only since {_moment(began)}; the window begins on {full_date(self.window.since)}")
        start, length = _longest_gap(hours[skipped : self.window.complete_hours])
        if length > self.allow_gap:
            gap = self.window.since + (skipped + start) * _HOUR
            doubts.append(f"nothing was recorded for {length:,} hours, from {_moment(gap)}")
        return doubts + (self._missing_canaries(callers) if self.require_canary else [])

    def _missing_canaries(self, callers: list[CallerUsage]) -> list[str]:
        canaries = [each for each in callers if is_canary(each.client)]
        called = {each.day for caller in canaries for each in caller.days}
        missing = [day for day in self.window.complete_days if day not in called]
        if not missing:
            return []
        more = f" and {count(len(missing) - 1, 'other day')}" if len(missing) > 1 else ""
        return [f"no call of {CANARY} was recorded on {full_date(missing[0])}{more}"]


def _callers(calls: Iterable[Calls], ignores: _Ignores) -> dict[str, list[CallerUsage]]:
    """Return the callers of each operation, those with the most calls first."""
    callers: dict[str, list[CallerUsage]] = defaultdict(list)
    for each in calls:
        callers[each.operation].append(_caller(each, ignored=ignores.match(each.caller, each.client)))
    for usages in callers.values():
        usages.sort(key=lambda usage: (-usage.calls, usage.caller or "", usage.client or "", usage.source or ""))
    return callers


def _caller(calls: Calls, *, ignored: bool) -> CallerUsage:
    return CallerUsage(
        caller=calls.caller or None,
        client=calls.client or None,
        source=calls.source or None,
        answered=calls.answered,
        failed=calls.failed,
        closed=calls.closed,
        first_at=calls.first_at.replace(tzinfo=UTC),
        last_at=calls.last_at.replace(tzinfo=UTC),
        ignored=ignored,
        days_json=calls.days,
    )


def _first_hour(coverage: Mapping[date, int]) -> datetime | None:
    covered = [day for day, hours in coverage.items() if hours]
    if not covered:
        return None
    first = min(covered)
    lowest_bit = coverage[first] & -coverage[first]
    return _midnight(first) + (lowest_bit.bit_length() - 1) * _HOUR


def _longest_gap(hours: list[bool]) -> tuple[int, int]:
    """Return where the longest run of hours without coverage starts, and its length."""
    longest = (0, 0)
    start = 0
    for covered, run in groupby(hours):
        length = len(list(run))
        if not covered and length > longest[1]:
            longest = (start, length)
        start += length
    return longest


def _calls_counted(counted: list[CallerUsage]) -> list[str]:
    if not counted:
        return []
    calls = count(sum(each.calls for each in counted), "call")
    last = max(each.last_at for each in counted)
    return [f"{calls}, the last on {full_date(last)}"]


def _calls_ignored(callers: list[CallerUsage]) -> list[str]:
    """Return one sentence on calls that are ignored by name; those of the canary are left out."""
    calls: dict[str, int] = defaultdict(int)
    for each in callers:
        if each.ignored and not is_canary(each.client):
            calls[" with ".join(filter(None, (each.caller, each.client)))] += each.calls
    if not calls:
        return []
    listed = sorted(calls.items(), key=itemgetter(1), reverse=True)
    named = ", ".join(f"{name} ({count(number, 'call')})" for name, number in listed)
    return [f"ignored, but still calling: {named}"]


def _operation_dict(usage: OperationUsage) -> dict[str, Any]:
    return {
        "name": usage.name,
        "verdict": usage.verdict.value,
        "reasons": list(usage.reasons),
        "answered": usage.answered,
        "failed": usage.failed,
        "closed": usage.closed,
        "ignored": usage.ignored,
        "first_at": _iso(usage.first_at),
        "last_at": _iso(usage.last_at),
        "covered_hours": usage.covered_hours,
        "longest_gap_hours": usage.longest_gap_hours,
        "callers": [_caller_dict(each) for each in usage.callers],
    }


def _caller_dict(usage: CallerUsage) -> dict[str, Any]:
    return {
        "caller": usage.caller,
        "client": usage.client,
        "source": usage.source,
        "answered": usage.answered,
        "failed": usage.failed,
        "closed": usage.closed,
        "first_at": _iso(usage.first_at),
        "last_at": _iso(usage.last_at),
        "ignored": usage.ignored,
    }


def _iso(at: datetime | None) -> str | None:
    return None if at is None else iso(at)


def _moment(at: datetime) -> str:
    return f"{full_date(at)}, {at:%H:%M} UTC"


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _window(days: int, until: datetime | date | None) -> _Window:
    try:
        end = _end(until)
        is_moment = until is None or isinstance(until, datetime)
        return _Window(_midnight(end.date()) - days * _DAY, end, end if is_moment else end - _MOMENT)
    except OverflowError as error:
        message = f"until must be a time whose window is within the years 1 to 9999, not {until!r}"
        raise ValueError(message) from error


def _end(until: datetime | date | None) -> datetime:
    if until is None:
        return datetime.now(UTC)
    if isinstance(until, datetime):
        require(until.tzinfo is not None, "until", "an aware datetime", until)
        return until.astimezone(UTC)
    require(isinstance(until, date), "until", "an aware datetime or a date", until)
    return _midnight(until) + _DAY


def _names(operations: Iterable[str | Operation]) -> list[str]:
    is_list = isinstance(operations, Iterable) and not isinstance(operations, str)
    listed = list(operations) if is_list else []
    require(listed, "operations", "a list of operations or their names", operations)
    names = [each.name if isinstance(each, Operation) else each for each in listed]
    require(all(isinstance(each, str) and each for each in names), "operations", "a list of names", operations)
    return list(dict.fromkeys(names))


def _labels(argument: str, labels: Collection[str]) -> frozenset[str]:
    is_list = isinstance(labels, Collection) and not isinstance(labels, str)
    fits = is_list and all(isinstance(label, str) and label for label in labels)
    require(fits, argument, "a list of strings that are not empty", labels)
    return frozenset(labels)
