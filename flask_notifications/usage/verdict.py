"""The rules for a verdict.

An operation is safe to close if nobody called it, and if the record covers enough time
to prove that.

Pure functions of a snapshot. Times that are integers are microseconds since 1970.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from functools import cache
from operator import attrgetter
from typing import TypeAlias

from flask_notifications.wording import count, duration, full_date

from .callers import CallerUsage, list_rows, unpack_days
from .counts import OTHER, PROBE, is_probe
from .coverage import (
    Coverage,
    Digests,
    Interval,
    RecorderRow,
    Responsible,
    Service,
    cover,
    find_responsible,
)
from .options import Options
from .reading import Snapshot
from .results import OperationUsage, Reason, Verdict
from .times import (
    DAY,
    HOUR,
    SECOND,
    describe_moment,
    start_of_window,
    to_date,
    to_datetime,
)

# How far the clock of whoever reads the report may be ahead of the database's.
_TOLERANCE = 60 * SECOND

# The rows of an operation in the record.
_Rows: TypeAlias = Sequence[CallerUsage]


class Judge:
    """Reach a verdict on each operation of a snapshot."""

    def __init__(self, snapshot: Snapshot, options: Options) -> None:
        self._snapshot = snapshot
        self._options = options
        self._since, self._until, _last = snapshot.window
        # Most operations have the same recorders, whose number may be large.
        self._coverage_of = cache(self._compute_coverage)
        self._cached_causes = cache(self._find_causes)
        self._rows = list_rows(snapshot.table, self._until)

    def judge_all(self) -> list[OperationUsage]:
        """Return the usage of the operations of the report."""
        return [self._judge(name) for name in self._snapshot.names]

    # One operation.

    def _judge(self, name: str) -> OperationUsage:
        """Return the usage of an operation, with the verdict.

        It is in use if a call counts, unknown if there is a doubt, and otherwise safe.
        """
        has_store = self._snapshot.has_store
        all_rows = self._rows[name]
        # The numbers come from the record, or without a store from the logs. Beside a
        # record, logs only show use, and calls that the record has missed.
        rows = [row for row in all_rows if not (has_store and row.is_logged)]
        counted = self._select_use(rows)
        responsible = self._find_responsible(name, self._since)
        coverage = self._coverage_of(responsible, self._since, self._until)
        reasons = _describe_use(counted, "")
        if has_store:
            logged = self._select_use([row for row in all_rows if row.is_logged])
            reasons += _describe_use(logged, " in the logs")
            # It is never the only reason: logged calls are use, as the line above says.
            reasons += self._find_unrecorded(rows, logged, coverage.gaps)
        verdict = Verdict.IN_USE
        if not reasons:
            reasons = self._find_doubts(name, rows, responsible)
            verdict = Verdict.UNKNOWN if reasons else Verdict.SAFE
        total = self._until - self._since
        covered = total - coverage.uncovered
        return OperationUsage(
            name=name,
            verdict=verdict,
            reasons=tuple(reasons),
            sunset_at=self._options.sunsets.get(name),
            answered=sum(row.answered for row in counted),
            refused=sum(row.refused for row in rows if self._shows_refused(row)),
            failed=sum(row.failed for row in counted),
            closed=sum(row.closed for row in counted),
            ignored=sum(row.calls for row in rows if row.ignored),
            first_at=min((row.first_at for row in counted), default=None),
            last_at=max((row.last_at for row in counted), default=None),
            coverage=covered * 1_000_000 // total / 1_000_000,  # never rounded up to 1
            covered_hours=round(covered / HOUR, 3),
            longest_gap_hours=round(coverage.longest_gap / HOUR, 3),
            hosts=coverage.fewest_hosts,
            host_count=coverage.host_count,
            lost=self._list_lost(responsible),
            callers=tuple(all_rows),
            covered=coverage.hours_of_days if has_store else {},
            window_hours=total / HOUR,
        )

    def _select_use(self, rows: _Rows) -> _Rows:
        """Return the rows that count as use; with --caller, only that caller's."""
        wanted = [row for row in rows if not row.ignored]
        caller = self._options.caller
        if caller is None:
            return wanted
        return [row for row in wanted if row.caller == caller]

    def _shows_refused(self, row: CallerUsage) -> bool:
        """Return whether the report shows the refused calls of a row.

        With ``--ignore-refused``, those without a label are in ignored rows of their
        own, but are shown all the same. Those of probes never are.
        """
        if not row.ignored:
            return True
        is_unlabelled = row.caller is None and not is_probe(row.client)
        return self._options.ignore_refused and is_unlabelled

    def _find_unrecorded(
        self, rows: _Rows, logged: _Rows, gaps: Sequence[Interval]
    ) -> list[Reason]:
        """Return a reason if a recorder has missed calls that the logs have.

        It has missed a call if the time of the call is covered, but the record has no
        call by that client on that day. Clients are compared, because a caller may have
        different labels in both.
        """
        if not logged:
            return []
        # The clients in the record, by day.
        recorded: defaultdict[int, set[str | None]] = defaultdict(set)
        for row in rows:
            for day, *_rest in unpack_days(row.packed_days):
                recorded[day].add(row.client)
        unrecorded: list[int] = []
        for row in logged:
            for day, first_at, last_at, *_counts in unpack_days(row.packed_days):
                if row.client in {None, OTHER}:  # it may be any client of that day
                    is_recorded = bool(recorded[day])
                else:
                    is_recorded = bool(recorded[day] & {row.client, OTHER})
                if not is_recorded:
                    unrecorded += [first_at, last_at]
        unrecorded = [
            at
            for at in unrecorded
            if self._since <= at < self._until and not _overlap((at, at + 1), gaps)
        ]
        if not unrecorded:
            return []
        message = (
            "the logs have calls in covered time that no recorder has, the first on "
            f"{describe_moment(min(unrecorded))}: check that the middleware is around "
            "all of your application, and that nothing before it responds"
        )
        return [Reason("log-unrecorded", message)]

    # Coverage.

    def _find_responsible(self, name: str, since: int) -> Responsible:
        """Return the services that should have recorded an operation since a time."""
        rules = self._options.rules_of(name)
        return find_responsible(self._snapshot.services, name, rules, since)

    def _compute_coverage(
        self, responsible: Responsible, since: int, until: int
    ) -> Coverage:
        """Return the coverage of a window, as ``self._coverage_of`` caches it."""
        # Compute the coverage of the whole window once, and derive from it that of any
        # window that begins later.
        if since > self._since:
            coverage = self._coverage_of(responsible, self._since, self._until)
            return coverage.move(since, until)
        return cover(responsible, since, until, self._snapshot.kept_from)

    def _list_lost(self, responsible: Responsible) -> tuple[RecorderRow, ...]:
        """Return the recorders that ended in the window without a goodbye."""
        lost = []
        for service, _plans in responsible:
            for silence in service.silences:
                is_inside = self._since <= silence.row.heard_at <= self._until
                if silence.is_lost and is_inside:
                    lost.append(silence.row)
        return tuple(sorted(lost, key=attrgetter("heard_at")))

    # Doubts.

    def _find_doubts(
        self, name: str, rows: _Rows, responsible: Responsible
    ) -> list[Reason]:
        """Return why the absence of calls proves nothing."""
        doubts = []
        snapshot = self._snapshot
        if self._until > snapshot.now + _TOLERANCE:
            until = describe_moment(self._until)
            message = (
                f"the window ends in the future, on {until}: use an earlier --until"
            )
            doubts.append(Reason("future", message))
        if snapshot.logs is not None and not snapshot.has_store:
            message = snapshot.logs.absence
            if rows:
                message = (
                    "no call in the logs counts; a log cannot show that nobody calls"
                )
            return [*doubts, Reason("never-matched", message)]
        if not responsible:
            message = (
                "no recorder that was heard in this window knows this operation: check "
                "its name, --service, and that its middleware has a UsageRecorder as "
                "an observer"
            )
            return [*doubts, Reason("no-operation", message)]
        if name in snapshot.unmatched:
            message = (
                "no request was ever answered or refused under these rules: check its "
                "path, or call it once with `flask-notifications check`; "
                "`flask --app … retirement` lists the endpoints that it reaches"
            )
            doubts.append(Reason("never-matched", message))
        in_window = self._find_window_doubts(name, rows, self._since, self._until)
        if in_window:
            in_window += self._cached_causes(responsible)
        if in_window and not doubts:
            code, message = in_window.pop()
            advice = self._suggest(name, rows)
            in_window.append(Reason(code, f"{message}; {advice}"))
        return doubts + in_window

    def _find_window_doubts(
        self, name: str, rows: _Rows, since: int, until: int
    ) -> list[Reason]:
        """Return the doubts about a window that begins at midnight.

        ``_suggest`` tries windows that end later than the snapshot; the time after its
        end is taken to be covered and probed.
        """
        options = self._options
        coverage = self._coverage_of(self._find_responsible(name, since), since, until)
        doubts = []
        if coverage.share < options.min_coverage:
            share = math.floor(coverage.share * 1000) / 1000
            message = (
                f"only {share * 100:g} % of the window is covered, not "
                f"{options.min_coverage * 100:g} %: "
                f"--min-coverage {share:g} accepts that"
            )
            doubts.append(Reason("coverage", message))
        long_gaps = self._list_long_gaps(coverage)
        if long_gaps:
            doubts.append(_describe_gaps(long_gaps))
        short: list[int] = []
        if options.hosts is not None:
            short = coverage.list_hours_below(options.hosts)
        if short:
            message = (
                f"{count(coverage.fewest_hosts, 'host')} recorded in some hour, not "
                f"{options.hosts}, first from {describe_moment(short[0] * HOUR)}: "
                "record on more, or lower --hosts"
            )
            doubts.append(Reason("hosts", message))
        missing: list[date] = []
        if options.require_probe:
            probed = _days_of_probes(rows)
            days = map(to_date, range(since // DAY, self._until // DAY))
            missing = [day for day in days if day not in probed]
        if missing:
            message = (
                f"no probe was recorded on {full_date(missing[0])}"
                f"{_and_others(missing, 'other day')}: call it with "
                f"`flask-notifications check` ({PROBE}) every day"
            )
            doubts.append(Reason("probe", message))
        # Only with --caller: without it, these calls would count as use.
        unlabelled = 0
        for row in rows:
            may_count = row.caller in {None, OTHER} and not row.ignored
            if may_count and row.last_at >= to_datetime(since):
                unlabelled += row.calls
        if unlabelled:
            text = count(unlabelled, "call")
            message = f"{text} without a label may be of this caller"
            doubts.append(Reason("calls", message))
        return doubts

    def _list_long_gaps(self, coverage: Coverage) -> list[Interval]:
        allowed = self._options.allow_gap * HOUR
        return [(start, end) for start, end in coverage.gaps if end - start > allowed]

    # Causes of the gaps, as far as the store shows them.

    def _find_causes(self, responsible: Responsible) -> list[Reason]:
        coverage = self._coverage_of(responsible, self._since, self._until)
        gaps: Sequence[Interval] = self._list_long_gaps(coverage)
        if coverage.share < self._options.min_coverage:
            gaps = coverage.gaps
        if not gaps:
            return []
        causes = []
        for service, plans in responsible:
            causes += self._find_causes_in(service, plans, gaps)
            if len(responsible) > 1 and service.active_until < self._until - HOUR:
                heard = describe_moment(service.rows[-1].heard_at)
                message = (
                    f"the service {service.name!r} was not heard after {heard}: if it "
                    "has ended, choose another one with --service"
                )
                causes.append(Reason("gap", message))
        return list(dict.fromkeys(causes))  # services may share one

    def _find_causes_in(
        self, service: Service, plans: Digests, gaps: Sequence[Interval]
    ) -> list[Reason]:
        """Return the causes of the gaps of one service.

        Its record is too young, recorders went silent, or recorders had other rules.
        """
        causes = []
        began = [row.began_at for row in service.rows if row.plan in plans]
        # If no recorder had these rules, the cause is not youth, but "rules" below.
        first_began_at = min(began, default=0)
        begins_at = max(self._snapshot.kept_from, first_began_at)
        if begins_at > self._since:
            message = (
                "in this window, nothing was recorded with these rules before "
                f"{describe_moment(begins_at)}"
            )
            causes.append(Reason("young", message))
        lost = []
        for silence in service.silences:
            # No other recorder has declared it gone yet.
            is_missing = silence.is_lost and not silence.row.gone_at
            if is_missing and _overlap((silence.start, silence.end), gaps):
                lost.append(silence.row)
        if lost:
            message = _describe_rows(lost, "not heard after")
            if self._options.gone_after is None:
                message += (
                    ": if its machine or pod was switched off, --gone-after 0.1 takes "
                    "it for gone"
                )
            causes.append(Reason("host-lost", message))
        with_other_rules = []
        for row in service.rows:
            life = (row.began_at, row.heard_at + 1)
            if row.plan not in plans and _overlap(life, gaps):
                with_other_rules.append(row)
        if with_other_rules:
            message = _describe_rows(
                with_other_rules, "without these rules for the operation until"
            )
            message += (
                ": use the plan that is in production, and a service of its own for "
                "another application"
            )
            causes.append(Reason("rules", message))
        return causes

    # Advice.

    def _suggest(self, name: str, rows: _Rows) -> str:
        """Advise on a window that is complete.

        Name the largest one that is complete now, and the earliest date on which one of
        the present length can be complete.
        """
        days = self._options.days
        # Move the window a day at a time, until what is missing lies before it.
        since = self._since + DAY
        while since < self._until and self._find_window_doubts(
            name, rows, since, since + days * DAY
        ):
            since += DAY
        complete_on = full_date(to_date(since // DAY + days))
        advice = (
            f"if nothing is missing after this window, {count(days, 'day')} will be "
            f"complete on {complete_on}"
        )
        for shorter in range(days - 1, 0, -1):
            since = start_of_window(self._until, shorter)
            if not self._find_window_doubts(name, rows, since, self._until):
                return f"the largest complete window is --days {shorter}; {advice}"
        return advice


def _describe_use(rows: _Rows, where: str) -> list[Reason]:
    """Return a reason that names the calls, or nothing if there are none."""
    if not rows:
        return []
    calls = count(sum(row.calls for row in rows), "call")
    last_on = full_date(max(row.last_at for row in rows))
    return [Reason("calls", f"{calls}{where}, the last on {last_on}")]


def _describe_gaps(gaps: Sequence[Interval]) -> Reason:
    """Return the longest of several gaps, and the option that would accept it."""
    start, end = max(gaps, key=lambda gap: gap[1] - gap[0])
    message = (
        f"{duration(timedelta(microseconds=end - start))} are not covered, "
        f"from {describe_moment(start)} to {describe_moment(end)}"
        f"{_and_others(gaps, 'other long gap')}"
    )
    hours = math.ceil((end - start) / HOUR * 10) / 10
    return Reason("gap", f"{message}: --allow-gap {hours:g} accepts that")


def _describe_rows(rows: Sequence[RecorderRow], words: str) -> str:
    """Name the last of several recorders, and when it was heard.

    The result is such as ``web-7 (process 12) and 3 others were not heard after …``.
    """
    row = rows[-1]
    name = f"{row.host} (process {row.process}){_and_others(rows, 'other')}"
    verb = "were" if rows[1:] else "was"
    return f"{name} {verb} {words} {describe_moment(row.heard_at)}"


def _and_others(items: Sequence[object], noun: str) -> str:
    """Return the number of items besides one, such as `` and 3 others``."""
    others = len(items) - 1
    return f" and {count(others, noun)}" if others else ""


def _days_of_probes(rows: _Rows) -> set[date]:
    """Return the days on which a probe was answered or refused."""
    days = set()
    for row in rows:
        if is_probe(row.client):
            for usage in row.days:
                if usage.answered or usage.refused:
                    days.add(usage.day)
    return days


def _overlap(interval: Interval, gaps: Iterable[Interval]) -> bool:
    return any(start < interval[1] and interval[0] < end for start, end in gaps)
