"""The rules for a verdict: calls that count are use, and their absence is safe if
nothing gives a reason for doubt.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import TypeAlias

from flask_notifications.wording import count, duration, full_date

from .counts import OTHER, PROBE, is_probe
from .coverage import Coverage, RecorderRow, Recorders, combine
from .reading import Snapshot
from .results import CallerUsage, OperationUsage, Verdict
from .times import (
    DAY,
    HOUR,
    SECOND,
    describe_moment,
    start_of_window,
    to_date,
    to_datetime,
)

# Microseconds by which a clock may be off.
_TOLERANCE = 60 * SECOND
# The recorders of each service that has to cover an operation, and the digests of the
# plans that have its rules.
_Listening: TypeAlias = tuple[tuple[Recorders, frozenset[str]], ...]


@dataclass(eq=False)
class Judge:
    """Give the verdict on each operation of a snapshot by what ``read_usage`` was asked
    for, in microseconds.
    """

    snapshot: Snapshot
    until: int
    days: int
    expected: Mapping[str, str] | None
    ignored_clients: frozenset[str]
    ignored_callers: frozenset[str]
    min_coverage: float
    allow_gap: float
    hosts: int | None
    require_probe: bool
    caller: str | None

    def __post_init__(self) -> None:
        """Prepare what all operations share."""
        self._since = start_of_window(self.until, self.days)
        rows: dict[str, list[RecorderRow]] = defaultdict(list)
        for row in self.snapshot.rows:
            rows[row.service].append(row)
        self._services = [
            Recorders(own, self.snapshot.plans, self.snapshot.now, self.until)
            for own in rows.values()
        ]
        # Most operations have the same recorders, whose number may be large.
        self._cover = cache(self._compute_coverage)
        self._doubt_record = cache(lambda *of: list(self._record_doubts(*of)))
        self._calls: dict[str, list[CallerUsage]] = defaultdict(list)
        self._unlabelled: dict[str, list[CallerUsage]] = defaultdict(list)
        for (operation, caller, client, source), calls in self.snapshot.calls.items():
            answered, failed, closed = (sum(calls.days[kind::4]) for kind in (1, 2, 3))
            is_own = self.caller in {None, caller}
            usage = CallerUsage(
                caller=caller
                if is_own
                else None,  # a report on one caller names no other one
                client=client,
                source=source,
                answered=answered,
                failed=failed,
                closed=closed,
                first_at=to_datetime(calls.first_at),
                last_at=to_datetime(calls.last_at),
                ignored=self._ignore(caller, client),
                packed_days=calls.days,
            )
            if is_own or is_probe(client):
                self._calls[operation].append(usage)
            elif caller in {None, OTHER} and not usage.ignored:
                self._unlabelled[operation].append(usage)

    def judge_all(self, names: Sequence[str] | None) -> list[OperationUsage]:
        """Return the usage of operations, by default of all that were recorded."""
        if names is None:
            digests = {
                row.plan for row in self.snapshot.rows
            } or self.snapshot.plans.keys()
            known = {
                name
                for digest in digests
                for name in self.snapshot.plans.get(digest, {})
            }
            names = sorted(known | self._calls.keys())
        return [self._judge_operation(name) for name in names]

    def _ignore(self, caller: str | None, client: str | None) -> bool:
        """Return whether the calls of a pair do not count as use; calls beyond the
        limit always do.
        """
        is_ignored = client in self.ignored_clients or caller in self.ignored_callers
        return client != OTHER and (is_ignored or is_probe(client))

    def _judge_operation(self, name: str) -> OperationUsage:
        callers = sorted(
            self._calls[name],
            key=lambda each: (
                -each.calls,
                each.caller or "",
                each.client or "",
                each.source or "",
            ),
        )
        counted = [each for each in callers if not each.ignored]
        last_at = max((each.last_at for each in counted), default=None)
        calls = sum(each.calls for each in counted)
        reasons = (
            [f"{count(calls, 'call')}, the last on {full_date(last_at)}"]
            if last_at
            else []
        )
        listening = self._listening(name)
        coverage = self._cover(listening, self._since)
        doubts = (
            [] if counted else list(self._doubts(name, listening, callers, self._since))
        )
        if doubts:
            doubts += self._smaller_window(name, listening, callers)
        verdict = (
            Verdict.IN_USE if counted else Verdict.UNKNOWN if doubts else Verdict.SAFE
        )
        hours, longest = (self.until - self._since) / HOUR, coverage.longest_gap
        return OperationUsage(
            name=name,
            verdict=verdict,
            reasons=(*reasons, *doubts, *self.snapshot.remarks),
            answered=sum(each.answered for each in counted),
            failed=sum(each.failed for each in counted),
            closed=sum(each.closed for each in counted),
            ignored=sum(each.calls for each in callers if each.ignored),
            first_at=min((each.first_at for each in counted), default=None),
            last_at=last_at,
            coverage=round(coverage.share, 6),
            covered_hours=round(coverage.share * hours, 3),
            longest_gap_hours=round((longest[1] - longest[0]) / HOUR, 3),
            hosts=coverage.fewest_hosts,
            callers=tuple(callers),
            covered={
                to_date(day): hours for day, hours in coverage.hours_of_days.items()
            },
            window_hours=hours,
        )

    def _listening(self, name: str) -> _Listening:
        wanted = None if self.expected is None else self.expected.get(name, "")
        found = ((each, each.fitting(name, wanted)) for each in self._services)
        return tuple((each, fitting) for each, fitting in found if fitting is not None)

    def _compute_coverage(self, listening: _Listening, since: int) -> Coverage:
        """Return the coverage of an operation; with several services, the time that all
        of them cover.
        """
        kept = min(max(since, self.snapshot.kept_from), self.until)
        own = [
            Coverage(kept, self.until, *recorders.join(fitting))
            for recorders, fitting in listening
        ]
        if not own:
            return Coverage(since, self.until, ())
        covered = combine(
            [(kept, self.until)], without=chain.from_iterable(each.gaps for each in own)
        )
        return Coverage(
            since,
            self.until,
            covered,
            min(own, key=lambda each: each.fewest_hosts).hosts,
        )

    def _doubts(
        self,
        name: str,
        listening: _Listening,
        callers: Sequence[CallerUsage],
        since: int,
    ) -> Iterator[str]:
        """Yield why the absence of calls proves nothing."""
        kept_from = self.snapshot.kept_from
        if kept_from > since:
            yield f"what was recorded before {describe_moment(kept_from)} was deleted"
        is_covered = bool(self._cover(listening, since).covered)
        if not is_covered and kept_from < self.until:
            yield self._why_nothing(listening)
        yield from self.snapshot.doubts.get(name, ())
        if is_covered:
            yield from self._doubt_record(listening, since)
            if unlabelled := sum(
                each.calls
                for each in self._unlabelled[name]
                if each.last_at >= to_datetime(since)
            ):
                yield f"{count(unlabelled, 'call')} without a label may be of this caller"
            if self.require_probe:
                yield from self._missing_probes(callers, since)

    def _record_doubts(self, listening: _Listening, since: int) -> Iterator[str]:
        """Yield the doubts about the recorders."""
        coverage, until = self._cover(listening, since), self.until
        yield from self._clock_doubts(since)
        yield from self._gap_doubts(coverage)
        for recorders, fitting in listening:
            rows = [row for row in recorders.rows if row.is_in(since, until)]
            yield from _loss_doubts(recorders, since, until)
            yield from _stranger_doubts(row for row in rows if row.plan not in fitting)
            if recorders.heard_at < until - HOUR:
                yield f"nothing was recorded after {describe_moment(recorders.heard_at)}"
        if self.hosts is not None and coverage.fewest_hosts < self.hosts:
            yield f"in some hour {count(coverage.fewest_hosts, 'host')} recorded, not {self.hosts}"

    def _why_nothing(self, listening: _Listening) -> str:
        if not listening or (self.snapshot.began or 0) >= self.until:
            return "nothing was recorded for this operation in the window"
        if not any(fitting for _recorders, fitting in listening):
            return "nothing was recorded with the rules of this plan; another plan is in production"
        return "no time of the window is covered, because of recorders that were lost or did not know the operation"

    def _gap_doubts(self, coverage: Coverage) -> Iterator[str]:
        if coverage.share < self.min_coverage:
            share = int(coverage.share * 1000) / 10
            yield f"only {share:g} % of the window is covered, not {self.min_coverage * 100:g} %"
        start, end = coverage.longest_gap
        if end - start > self.allow_gap:
            length = duration(timedelta(microseconds=end - start))
            yield f"nothing was recorded for {length}, from {describe_moment(start)}"

    def _clock_doubts(self, since: int) -> Iterator[str]:
        until, now = self.until, self.snapshot.now
        off = max(
            (row.skew for row in self.snapshot.rows if row.is_in(since, until)),
            default=0,
        )
        if off > _TOLERANCE:
            yield f"the clock of a machine was off by {duration(timedelta(microseconds=off))}"
        if not any(row.own_clock for row in self.snapshot.rows):
            if until > now + _TOLERANCE:
                yield "the window ends in the future"
            later = max(
                [self.snapshot.latest, *(each.heard_at for each in self._services)]
            )
            if later > now + _TOLERANCE:
                yield f"something was recorded later than now, on {describe_moment(later)}"

    def _missing_probes(
        self, callers: Sequence[CallerUsage], since: int
    ) -> Iterator[str]:
        called = {
            day for each in callers if is_probe(each.client) for day in each.day_numbers
        }
        missing = [
            day for day in range(since // DAY, self.until // DAY) if day not in called
        ]
        if missing:
            more = (
                f" and {count(len(missing) - 1, 'other day')}"
                if len(missing) > 1
                else ""
            )
            yield f"no call of {PROBE} was recorded on {full_date(to_date(missing[0]))}{more}"

    def _smaller_window(
        self, name: str, listening: _Listening, callers: Sequence[CallerUsage]
    ) -> list[str]:
        """Return a sentence on the largest window that would be safe."""
        for days in range(self.days - 1, 0, -1):
            if not any(
                self._doubts(
                    name, listening, callers, start_of_window(self.until, days)
                )
            ):
                return [
                    f"the last {count(days, 'day')} {'is' if days == 1 else 'are'} complete: --days {days}"
                ]
        return []


def _loss_doubts(recorders: Recorders, since: int, until: int) -> Iterator[str]:
    lost = [
        row for (start, end), row in recorders.losses if start < until and end > since
    ]
    if lost:
        last = max(lost, key=attrgetter("heard_at"))
        more = f" and {count(len(lost) - 1, 'other')}" if lost[1:] else ""
        yield (
            f"{last.host} (process {last.process}){more} {'were' if more else 'was'} not heard again after "
            f"{describe_moment(last.heard_at)}; {'their' if more else 'its'} last calls may be missing"
        )


def _stranger_doubts(rows: Iterable[RecorderRow]) -> Iterator[str]:
    last = max(rows, key=attrgetter("heard_at"), default=None)
    if last is not None:
        yield (
            f"the recorder of {last.host} (process {last.process}), heard on {describe_moment(last.heard_at)}, "
            "has another plan, or is that of another application (which needs a service of its own)"
        )
