"""The verdict on each operation: in use, unknown or safe, with the calls and the coverage that it depends on.

Reads a snapshot of the store, writes nothing, knows nothing of requests.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from sqlalchemy import URL, Engine

from flask_notifications.operations import Operation
from flask_notifications.plans import check_plan
from flask_notifications.validation import clean_label, require
from flask_notifications.wording import count, duration, full_date, iso, moment

from .coverage import HOUR, Coverage, RecorderRow, Recorders, subtract
from .fingerprints import fingerprints
from .ledger import CANARY, DAY, OTHER, TOLERANCE, is_canary
from .logs import Log, LogFormat, add_logs
from .reading import Calls, Name, Snapshot, read_last_call, read_snapshot, split_day

if TYPE_CHECKING:
    from flask_notifications.plans import Plan

_MAX_DAYS = 3650


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

    @property
    def calls(self) -> int:
        """Return the number of calls, whatever their status."""
        return self.answered + self.failed + self.closed


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerUsage:
    """Count the calls of one caller with one client and one source of the session ID.

    ``caller`` is the label that the application chose, ``client`` the first product of ``User-Agent``, ``source``
    ``"header"`` or ``"query"``; each is ``None`` where there was none. Caller and client are both ``"(other)"`` for
    calls beyond the number of pairs that are kept by name. ``answered`` are responses below 400, ``failed`` those of
    400 and above and applications that raised, ``closed`` the middleware's own 410s. ``ignored`` calls do not count as
    use. ``encoded_days`` has the same calls by day.
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
    encoded_days: Iterable[int] = field(repr=False)

    @property
    def days(self) -> tuple[DayUsage, ...]:
        """Return the calls by UTC day, without the days that have none."""
        days: dict[int, list[int]] = {}
        for kind, day, number in map(split_day, self.encoded_days):
            days.setdefault(day, [0, 0, 0])[kind] += number
        return tuple(DayUsage(_date(day), *days[day]) for day in sorted(days))

    @property
    def dates(self) -> set[date]:
        """Return the UTC days that have calls, which is faster."""
        return {_date(day) for _kind, day, _number in map(split_day, self.encoded_days)}

    @property
    def calls(self) -> int:
        """Return the number of calls, whatever their status."""
        return self.answered + self.failed + self.closed

    def to_dict(self) -> dict[str, Any]:
        """Return the calls as ``json.dumps`` takes them."""
        names = ("caller", "client", "source", "answered", "failed", "closed", "first_at", "last_at", "ignored")
        return {name: _plain(getattr(self, name)) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationUsage:
    """Report on one operation: the verdict, its reasons in English, the calls and the coverage.

    ``answered``, ``failed``, ``closed``, ``first_at`` and ``last_at`` leave out ignored calls, ``ignored`` counts them.
    ``coverage`` is the share of the window in which calls would have been recorded, ``covered_hours`` its hours,
    ``longest_gap_hours`` the longest time without, and ``hosts`` the lowest number of hosts that recorded in a complete
    hour. ``covered`` has the covered hours of each UTC day of the window.
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
        """Return how much was covered, such as ``covered 100 % of 732 hours by 3 hosts, longest gap 20 minutes``."""
        share = int(self.coverage * 1000) / 10
        percent = f"{share:g} %"
        hosts = f" by {count(self.hosts, 'host')}" if self.hosts else ""  # an hour without a host is a gap
        covered = f"covered {percent} of {count(round(self.window_hours), 'hour')}{hosts}"
        gap = timedelta(hours=self.longest_gap_hours)
        return f"{covered}, {f'longest gap {duration(gap)}' if gap >= timedelta(seconds=1) else 'without a gap'}"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as ``json.dumps`` takes it."""
        names = ("name", "verdict", "reasons", "answered", "failed", "closed", "ignored", "first_at", "last_at")
        numbers = ("coverage", "covered_hours", "longest_gap_hours", "hosts")
        found = {name: _plain(getattr(self, name)) for name in (*names, *numbers)}
        return found | {"callers": [each.to_dict() for each in self.callers]}


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
            "schema": 2,
            "verdict": self.verdict.value,
            "from": iso(self.since),
            "until": iso(self.until),
            "days": self.days,
            "operations": [each.to_dict() for each in self.operations],
        }


def read_usage(
    database: str | URL | Engine | None,
    *,
    plan: "Plan | None" = None,
    days: int = 30,
    until: datetime | date | None = None,
    operations: Iterable[str | Operation] | None = None,
    ignore_clients: Collection[str] = (),
    ignore_callers: Collection[str] = (),
    min_coverage: float = 0.99,
    allow_gap: float = 6,
    service: str | None = None,
    hosts: int | None = None,
    require_canary: bool = False,
    caller: str | None = None,
    logs: Sequence[Log] = (),
    log_format: str | None = None,
    log_prefix: str | None = None,
) -> UsageReport:
    """Read who still calls, and whether each operation may be switched off.

    Calls are kept by UTC day, so those of a day are read together.

    :param database: an SQLAlchemy URL or engine of the database that ``UsageRecorder`` writes; ``None`` with logs only.
    :param plan: the plan that is in production; only time in which recorders had its rules is covered. ``None`` takes
        those of the recorder that was heard last.
    :param days: the number of complete UTC days to look at, besides the day so far; 1 to 3650.
    :param until: the end of the window, an aware datetime, or a date that it includes; ``None`` is now.
    :param operations: the operations, or their names, in the order of the report; ``None`` is all retired ones of the
        plan, or all in the store.
    :param ignore_clients: clients that do not count as use, each as the store has it: ``curl/8.5.0``.
    :param ignore_callers: labels of callers that do not count as use.
    :param min_coverage: the share of the window that has to be covered, from 0 to 1.
    :param allow_gap: hours for which nothing need be recorded, at a time.
    :param service: the application to look at, of several that share the database; ``None`` is all of them, and then
        each that knows an operation has to cover it.
    :param hosts: the number of hosts that have to record in each hour; by default any.
    :param require_canary: whether each complete day needs a call by ``flask-notifications-check``.
    :param caller: the label of the only caller to report, besides the canary. Calls without a label may be its own, so
        they make the verdict unknown unless their client is ignored. ``None`` reports all callers.
    :param logs: paths of access logs, or binary streams, each perhaps compressed with gzip. They count for the time
        before the first recorder of the database, and need the plan. By default there are none.
    :param log_format: a regular expression for a line of the logs, with the named groups ``time`` (as in the Common
        format, or in ISO 8601 with an offset), ``method``, ``target``, ``status``, and optionally ``agent`` and
        ``user``, which is the caller. ``None`` is the Common or the Combined format.
    :param log_prefix: the path in the logs below which the application is mounted, ``"/"`` if that is the root.
        ``None`` is the root too, but a line that would match below any other path makes the verdict unknown.
    :raises ValueError: naming the argument that does not fit.
    :raises OSError: when a log cannot be read or is not complete.
    :raises StoreUnavailable: when there is no such database, it cannot be reached, or its tables are missing or have
        foreign content.
    """
    require(_is_int(days) and 1 <= days <= _MAX_DAYS, "days", f"a whole number from 1 to {_MAX_DAYS}", days)
    _check_number("min_coverage", min_coverage, 1, "a number from 0 to 1")
    _check_number("allow_gap", allow_gap, float("inf"), "a number of hours, 0 or more")
    require(isinstance(require_canary, bool), "require_canary", "True or False", require_canary)
    require(service is None or isinstance(service, str), "service", "a string", service)
    require(hosts is None or (_is_int(hosts) and hosts >= 1), "hosts", "a whole number, 1 or more", hosts)
    require(caller is None or clean_label(caller) is not None, "caller", "a label", caller)
    names = None if operations is None else _names(operations)
    expected: dict[str, str] | None = None
    if plan is not None:
        check_plan(plan)
        expected = fingerprints(plan)
        names = list(expected) if names is None else names
    ignored = _labels("ignore_clients", ignore_clients), _labels("ignore_callers", ignore_callers)
    _check_window(until, days)
    end = _end(until)
    # A call at the very end belongs to a window, unless a date ends it.
    last = None if until is None else _microseconds(end) - (not isinstance(until, datetime))
    if database is None:
        require(logs, "database", "an SQLAlchemy URL or engine, or None with logs", database)
        snapshot = Snapshot(_microseconds(end), 0, 0, [], {}, {})
    else:
        day = None if until is None else _microseconds(end) // DAY
        snapshot = read_snapshot(database, days, day, last, operations=names, service=service)
    if until is None:
        end = _datetime(snapshot.now)
    since = _window_start(end, days)
    if logs:
        require(plan, "plan", "a plan, with logs", plan)
        format_ = LogFormat.of(log_format, log_prefix)
        snapshot = add_logs(snapshot, logs, plan or {}, format_, since=_microseconds(since), last=last, service=service)
    rules = _Rules(end, days, expected, *ignored, min_coverage, allow_gap * HOUR, hosts, require_canary, caller)
    usages = _Judge(snapshot, rules).judge_all(names)
    return UsageReport(since=since, until=end, days=days, operations=tuple(usages))


def last_call(
    database: str | URL | Engine,
    caller: str,
    *,
    operations: Iterable[str | Operation] | None = None,
    service: str | None = None,
) -> datetime | None:
    """Return the time of the last call of a caller, whenever that was, or ``None`` if none is kept.

    :param database: an SQLAlchemy URL or engine of the database that ``UsageRecorder`` writes.
    :param caller: the label of the caller.
    :param operations: the operations, or their names; ``None`` is all.
    :param service: the application, of several that share the database; ``None`` is all of them.
    :raises ValueError: naming the argument that does not fit.
    :raises StoreUnavailable: as for ``read_usage``.
    """
    require(clean_label(caller) is not None, "caller", "a label", caller)
    names = None if operations is None else _names(operations)
    found = read_last_call(database, caller, operations=names, service=service)
    return None if found is None else _datetime(found)


class _Rules(NamedTuple):
    until: datetime
    days: int
    expected: Mapping[str, str] | None
    ignored_clients: frozenset[str]
    ignored_callers: frozenset[str]
    min_coverage: float
    allow_gap: float  # microseconds
    hosts: int | None
    require_canary: bool
    caller: str | None

    def ignore(self, name: Name) -> bool:
        """Return whether the calls of a pair do not count as use; calls beyond the limit always do."""
        is_ignored = name.client in self.ignored_clients or name.caller in self.ignored_callers
        return name.client != OTHER and (is_ignored or is_canary(name.client))

    def last(self, days: int) -> tuple[int, int]:
        """Return the window of the last complete days and the day so far, in microseconds since 1970."""
        return _microseconds(_window_start(self.until, days)), _microseconds(self.until)


# The recorders of each service that has to cover an operation, and the digests of the plans that have its rules.
_Listening: TypeAlias = tuple[tuple[Recorders, frozenset[str]], ...]


class _Judge:
    """The rules for a verdict on the calls and the coverage of each operation."""

    def __init__(self, snapshot: Snapshot, rules: _Rules) -> None:
        self._snapshot, self._rules = snapshot, rules
        rows: dict[str, list[RecorderRow]] = defaultdict(list)
        for row in snapshot.rows:
            rows[row.service].append(row)
        until = _microseconds(rules.until)
        self._services = [Recorders(own, snapshot.plans, snapshot.now, until) for own in rows.values()]
        # Most operations have the same recorders, whose number may be large.
        self._cover, self._doubt_record = cache(self._compute_coverage), cache(self._list_doubts)
        self._calls: dict[str, list[CallerUsage]] = defaultdict(list)
        self._unlabelled: dict[str, int] = defaultdict(int)
        for name, calls in snapshot.calls.items():
            usage = self._caller(name, calls)
            if rules.caller in {None, name.caller} or is_canary(name.client):
                self._calls[name.operation].append(usage)
            elif name.caller in {None, OTHER} and not usage.ignored:
                self._unlabelled[name.operation] += usage.calls

    def judge_all(self, names: Sequence[str] | None) -> list[OperationUsage]:
        """Return the usage of operations, by default of all that were recorded."""
        if names is None:
            digests = {row.plan for row in self._snapshot.rows} or self._snapshot.plans.keys()
            known = {name for digest in digests for name in self._snapshot.plans.get(digest, {})}
            names = sorted(known | self._calls.keys())
        return [self._judge(name) for name in names]

    def _judge(self, name: str) -> OperationUsage:
        callers = sorted(
            self._calls[name], key=lambda each: (-each.calls, each.caller or "", each.client or "", each.source or "")
        )
        counted = [each for each in callers if not each.ignored]
        since, until = self._rules.last(self._rules.days)
        listening = self._listening(name)
        coverage = self._cover(listening, since, until)
        doubts = [] if counted else self._doubts(name, listening, callers, self._rules.days)
        if doubts:
            doubts += self._smaller_window(name, listening, callers)
        verdict = Verdict.IN_USE if counted else Verdict.UNKNOWN if doubts else Verdict.SAFE
        longest = coverage.longest_gap
        return OperationUsage(
            name=name,
            verdict=verdict,
            reasons=(*_calls_counted(counted), *doubts, *self._snapshot.remarks, *_calls_ignored(callers)),
            answered=sum(each.answered for each in counted),
            failed=sum(each.failed for each in counted),
            closed=sum(each.closed for each in counted),
            ignored=sum(each.calls for each in callers if each.ignored),
            first_at=min((each.first_at for each in counted), default=None),
            last_at=max((each.last_at for each in counted), default=None),
            coverage=round(coverage.share, 6),
            covered_hours=round(coverage.share * (until - since) / HOUR, 3),
            longest_gap_hours=round((longest[1] - longest[0]) / HOUR, 3),
            hosts=coverage.fewest_hosts,
            callers=tuple(callers),
            covered={_date(day): hours for day, hours in coverage.hours_of_days.items()},
            window_hours=(until - since) / HOUR,
        )

    def _caller(self, name: Name, calls: Calls) -> CallerUsage:
        totals = [0, 0, 0]
        for kind, _day, number in map(split_day, calls.days):
            totals[kind] += number
        answered, failed, closed = totals
        return CallerUsage(
            caller=name.caller,
            client=name.client,
            source=name.source,
            answered=answered,
            failed=failed,
            closed=closed,
            first_at=_datetime(calls.first_at),
            last_at=_datetime(calls.last_at),
            ignored=self._rules.ignore(name),
            encoded_days=calls.days,
        )

    def _listening(self, name: str) -> _Listening:
        expected = self._rules.expected
        wanted = None if expected is None else expected.get(name, "")
        found = ((each, each.fitting(name, wanted)) for each in self._services)
        return tuple((each, fitting) for each, fitting in found if fitting is not None)

    def _compute_coverage(self, listening: _Listening, since: int, until: int) -> Coverage:
        """Return the coverage of an operation; with several services, the time that all of them cover."""
        kept = min(max(since, self._snapshot.kept_from), until)
        own = [recorders.cover(fitting, kept, until) for recorders, fitting in listening]
        if not own:
            return Coverage(since, until, ())
        covered = own[0].covered
        for each in own[1:]:
            covered = subtract(covered, each.gaps)
        return Coverage(since, until, covered, min(own, key=lambda each: each.fewest_hosts).hosts)

    def _doubts(self, name: str, listening: _Listening, callers: Sequence[CallerUsage], days: int) -> list[str]:
        """Return why the absence of calls proves nothing."""
        since, until = self._rules.last(days)
        if not self._cover(listening, since, until).covered:
            return [self._why_nothing(listening)]
        doubts = [*self._snapshot.doubts.get(name, ()), *self._doubt_record(listening, since, until)]
        if unlabelled := self._unlabelled.get(name):
            doubts.append(f"{count(unlabelled, 'call')} without a label may be of this caller")
        return doubts + (self._missing_canaries(callers, since) if self._rules.require_canary else [])

    def _list_doubts(self, listening: _Listening, since: int, until: int) -> list[str]:
        """Return the doubts about the recorders."""
        coverage = self._cover(listening, since, until)
        doubts = self._clock_doubts(since, until)
        if self._snapshot.kept_from > since:
            doubts.append(f"what was recorded before {_moment(self._snapshot.kept_from)} was deleted")
        doubts += self._gap_doubts(coverage)
        for recorders, fitting in listening:
            doubts += _loss_doubts(recorders, since, until)
            doubts += _stranger_doubts(recorders.strangers(fitting, since, until))
            if recorders.heard_at < until - HOUR:
                doubts.append(f"nothing was recorded after {_moment(recorders.heard_at)}")
        if self._rules.hosts is not None and coverage.fewest_hosts < self._rules.hosts:
            doubts.append(f"in some hour {count(coverage.fewest_hosts, 'host')} recorded, not {self._rules.hosts}")
        return doubts

    def _why_nothing(self, listening: _Listening) -> str:
        if not listening:
            return "nothing was recorded for this operation in the window"
        if not any(fitting for _recorders, fitting in listening):
            return "nothing was recorded with the rules of this plan; another plan is in production"
        return "no time of the window is covered, because of recorders that were lost or did not know the operation"

    def _gap_doubts(self, coverage: Coverage) -> list[str]:
        doubts = []
        if coverage.share < self._rules.min_coverage:
            share = int(coverage.share * 1000) / 10
            doubts.append(f"only {share:g} % of the window is covered, not {self._rules.min_coverage * 100:g} %")
        start, end = coverage.longest_gap
        if end - start > self._rules.allow_gap:
            length = duration(timedelta(microseconds=end - start))
            doubts.append(f"nothing was recorded for {length}, from {_moment(start)}")
        return doubts

    def _clock_doubts(self, since: int, until: int) -> list[str]:
        snapshot = self._snapshot
        rows = [row for each in self._services for row in each.remarkable(since, until)]
        doubts = []
        off = max((row.skew for row in rows if not row.own_clock), default=0)
        if off > TOLERANCE:
            doubts.append(f"the clock of a machine was off by {duration(timedelta(microseconds=off))}")
        if any(row.own_clock for row in snapshot.rows):
            return doubts
        if until > snapshot.now + TOLERANCE:
            doubts.append("the window ends in the future")
        later = max([snapshot.latest, *(each.heard_at for each in self._services)])
        if later > snapshot.now + TOLERANCE:
            doubts.append(f"something was recorded later than now, on {_moment(later)}")
        return doubts

    def _missing_canaries(self, callers: Sequence[CallerUsage], since: int) -> list[str]:
        called = {day for each in callers if is_canary(each.client) for day in each.dates}
        days = range(since // DAY, _microseconds(self._rules.until) // DAY)
        missing = [day for day in map(_date, days) if day not in called]
        if not missing:
            return []
        more = f" and {count(len(missing) - 1, 'other day')}" if len(missing) > 1 else ""
        return [f"no call of {CANARY} was recorded on {full_date(missing[0])}{more}"]

    def _smaller_window(self, name: str, listening: _Listening, callers: Sequence[CallerUsage]) -> list[str]:
        """Return a sentence on the largest window that would be safe."""
        for days in range(self._rules.days - 1, 0, -1):
            if not self._doubts(name, listening, callers, days):
                return [f"the last {count(days, 'day')} are complete: --days {days}"]
        return []


def _loss_doubts(recorders: Recorders, since: int, until: int) -> list[str]:
    doubts = []
    lost = [row for (start, end), row in recorders.losses if start < until and end > since]
    if lost:
        last = max(lost, key=lambda row: row.heard_at)
        named = f"{last.host} (process {last.process})"
        more = f" and {count(len(lost) - 1, 'other')}" if lost[1:] else ""
        doubts.append(
            f"{named}{more} {'were' if more else 'was'} not heard again after {_moment(last.heard_at)}; "
            f"{'their' if more else 'its'} last calls may be missing"
        )
    calls = sum(row.lost for row in recorders.remarkable(since, until))
    if calls:
        doubts.append(f"{count(calls, 'call')} could not be recorded")
    return doubts


def _stranger_doubts(rows: Sequence[RecorderRow]) -> list[str]:
    if not rows:
        return []
    last = max(rows, key=lambda row: row.heard_at)
    others = "has another plan, or is that of another application (which needs a service of its own)"
    return [f"the recorder of {last.host} (process {last.process}), heard on {_moment(last.heard_at)}, {others}"]


def _calls_counted(counted: Sequence[CallerUsage]) -> list[str]:
    if not counted:
        return []
    calls = count(sum(each.calls for each in counted), "call")
    last = max(each.last_at for each in counted)
    return [f"{calls}, the last on {full_date(last)}"]


def _calls_ignored(callers: Sequence[CallerUsage]) -> list[str]:
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


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY, _MICROSECOND = timedelta(days=1), timedelta(microseconds=1)


def _microseconds(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND


def _datetime(at: int) -> datetime:
    return _EPOCH + timedelta(microseconds=at)


def _date(day: int) -> date:
    return date.fromordinal(_EPOCH.toordinal() + day)


def _moment(at: int) -> str:
    return moment(_datetime(at).replace(second=0, microsecond=0))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return iso(value)
    return list(value) if isinstance(value, tuple) else value


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_number(name: str, value: Any, most: float, expected: str) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    require(is_number and 0 <= value <= most, name, expected, value)


def _window_start(end: datetime, days: int) -> datetime:
    """Return the beginning of the window."""
    return datetime(end.year, end.month, end.day, tzinfo=UTC) - days * _DAY


def _check_window(until: datetime | date | None, days: int) -> None:
    try:
        _window_start(_end(until), days)
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
    return datetime(until.year, until.month, until.day, tzinfo=UTC) + _DAY


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
