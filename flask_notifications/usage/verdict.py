"""The rules for a verdict: in the time that was recorded, nobody called, and that time
is enough.

Pure functions of a snapshot. All times are microseconds since 1970.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import TypeAlias

from flask_notifications.wording import count, duration, full_date

from .callers import CallerUsage, unpack_days
from .counts import OTHER, PROBE, is_probe
from .coverage import (
    Coverage,
    Interval,
    Listening,
    RecorderRow,
    Service,
    Silence,
    clip,
    cover,
)
from .logs import SOURCE, LogCalls
from .options import Options
from .reading import Calls, Origin, Snapshot
from .results import LostRecorder, OperationUsage, Reason, Verdict
from .times import (
    DAY,
    HOUR,
    SECOND,
    describe_moment,
    start_of_window,
    to_date,
    to_datetime,
)

# By how much the clock of a reader may be ahead of the database's.
_TOLERANCE = 60 * SECOND
# Days without a call after which a caller may count as one that has stopped.
_SILENT = 2
# Calls that decide together whether their caller has stopped: the operation, the
# caller, the client of a caller without a label, and whether they are ignored.
_Group: TypeAlias = tuple[str, str | None, str | None, bool]
_Logged: TypeAlias = tuple[int, str | None, str | None, LogCalls]


class Judge:
    """Give the verdict on the operations of a snapshot."""

    def __init__(self, snapshot: Snapshot, options: Options) -> None:
        self._snapshot = snapshot
        self._options = options
        self._since, self._until = snapshot.since, snapshot.until
        # Most operations have the same recorders, whose number may be large.
        self._cover = cache(self._compute_coverage)
        self._doubt_record = cache(self._find_record_doubts)
        self._rows: defaultdict[str, list[CallerUsage]] = defaultdict(list)
        # Calls that may be of the only caller of the report.
        self._unlabelled: defaultdict[str, list[Calls]] = defaultdict(list)
        self._read_calls()
        # The calls in logs by operation: day, caller, client and numbers.
        self._logged: defaultdict[str, list[_Logged]] = defaultdict(list)
        if snapshot.logs is not None:
            for (day, name, caller, client), calls in snapshot.logs.calls.items():
                self._logged[name].append((day, caller, client, calls))

    def judge_all(self) -> list[OperationUsage]:
        """Return the usage of the operations of the plan, or of those that were
        recorded last.
        """
        names = self._options.names
        if names is None:
            names = list_operations(self._snapshot.services, self._since)
        return [self._judge(name) for name in names]

    # Calls.

    def _read_calls(self) -> None:
        """Make the rows of the report, and set the calls aside that may be of its only
        caller.
        """
        groups: defaultdict[_Group, list[Calls]] = defaultdict(list)
        listed = []
        for name, calls in self._snapshot.calls.items():
            operation, caller, client, source = name
            is_ignored = self._ignore(caller, client, calls)
            if self._is_asked(caller) or is_probe(client):
                group = (operation, caller, None if caller else client, is_ignored)
                groups[group].append(calls)
                listed.append((name, calls, group))
            elif source == SOURCE and self._snapshot.has_store:
                continue  # the record has the labels
            elif caller in {None, OTHER} and not is_ignored:
                self._unlabelled[operation].append(calls)
        stops = {}
        for group, members in groups.items():
            days: set[int] = set()
            for calls in members:
                days.update(calls.days[::5])
            stops[group] = find_stop(days, self._until // DAY)
        for (operation, caller, client, source), calls, group in listed:
            answered, refused, failed, closed = calls.totals
            row = CallerUsage(
                # A report on one caller names no other one.
                caller=caller if self._is_asked(caller) else None,
                client=client,
                source=source,
                answered=answered,
                refused=refused,
                failed=failed,
                closed=closed,
                first_at=to_datetime(calls.first_at),
                last_at=to_datetime(calls.last_at),
                stopped_on=stops[group],
                ignored=group[3],
                packed_days=calls.days,
            )
            self._rows[operation].append(row)
        for rows in self._rows.values():
            rows.sort(key=_order_of)

    def _is_asked(self, caller: str | None) -> bool:
        """Return whether the report is about a caller."""
        return self._options.caller in {None, caller}

    def _ignore(self, caller: str | None, client: str | None, calls: Calls) -> bool:
        """Return whether calls do not count as use; those of ``(other)`` always count."""
        if is_probe(client):
            return True
        if client == OTHER:
            return False
        if self._is_ignored_name(caller, client):
            return True
        answered, _refused, failed, closed = calls.totals
        is_refused = not answered and not failed and not closed
        return self._options.ignore_refused and caller is None and is_refused

    def _is_ignored_name(self, caller: str | None, client: str | None) -> bool:
        options = self._options
        return caller in options.ignored_callers or client in options.ignored_clients

    def _count_ignored(self, row: CallerUsage) -> int:
        """Return how many calls of a row do not count as use."""
        if row.ignored:
            return row.calls
        if self._options.ignore_refused and row.caller is None:
            return row.refused
        return 0

    def _count_refused(self, rows: Iterable[CallerUsage]) -> int:
        """Return how many calls were refused; those without a label are shown, although
        they may not count.
        """
        refused = 0
        for row in rows:
            is_unlabelled = row.caller is None and not is_probe(row.client)
            if not row.ignored or (self._options.ignore_refused and is_unlabelled):
                refused += row.refused
        return refused

    # One operation.

    def _judge(self, name: str) -> OperationUsage:
        rows = self._rows[name]
        logged = [row for row in rows if row.source == SOURCE]
        if self._snapshot.has_store:
            rows = [row for row in rows if row.source != SOURCE]
        counted = [row for row in rows if not row.ignored]
        ignored = sum(self._count_ignored(row) for row in rows)
        calls = sum(row.calls for row in rows) - ignored
        last_at = max((row.last_at for row in counted), default=None)
        reasons = self._find_use(name, calls, last_at, logged)
        verdict = Verdict.IN_USE
        if not reasons:
            reasons = self._find_doubts(name, rows)
            verdict = Verdict.UNKNOWN if reasons else Verdict.SAFE
        listening = self._find_services(name, self._since)
        coverage = self._cover(listening, self._since)
        lost, last_lost = _count_lost(listening)
        total = self._until - self._since
        millionths = (total - coverage.uncovered) * 1_000_000 // total
        covered = {}
        if self._snapshot.has_store:
            for day, hours in coverage.hours_of_days.items():
                covered[to_date(day)] = hours
        return OperationUsage(
            name=name,
            verdict=verdict,
            reasons=tuple(reasons),
            sunset_at=self._options.sunsets.get(name),
            answered=sum(row.answered for row in counted),
            refused=self._count_refused(rows),
            failed=sum(row.failed for row in counted),
            closed=sum(row.closed for row in counted),
            ignored=ignored,
            first_at=min((row.first_at for row in counted), default=None),
            last_at=last_at,
            coverage=millionths / 1_000_000,  # never rounded up to 1
            covered_hours=round((total - coverage.uncovered) / HOUR, 3),
            longest_gap_hours=round(coverage.longest_gap / HOUR, 3),
            hosts=coverage.fewest_hosts,
            host_count=len(coverage.hosts),
            lost=lost,
            last_lost=last_lost,
            callers=tuple(self._rows[name]),
            covered=covered,
            window_hours=total / HOUR,
        )

    def _find_use(
        self,
        name: str,
        calls: int,
        last_at: datetime | None,
        logged: Sequence[CallerUsage],
    ) -> list[Reason]:
        """Return the reasons why an operation is in use."""
        reasons = []
        if last_at is not None:
            message = f"{count(calls, 'call')}, the last on {full_date(last_at)}"
            reasons.append(Reason("calls", message))
        if self._snapshot.has_store:
            reasons += self._find_logged(name, logged)
        return reasons

    def _find_services(self, name: str, since: int) -> Listening:
        """Return the services that have to cover an operation since a time."""
        rules = None
        if self._options.rules is not None:
            rules = self._options.rules.get(name, "")
        services = []
        for service in self._snapshot.services:
            plans = service.plans_with(name, rules)
            if plans is not None and service.is_active(since):
                services.append((service, plans))
        return tuple(services)

    def _compute_coverage(self, services: Listening, since: int) -> Coverage:
        if since > self._since:
            return self._cover(services, self._since).narrow(since)
        return cover(services, since, self._until, self._snapshot.kept_from)

    # Logs.

    def _find_logged(self, name: str, rows: Sequence[CallerUsage]) -> list[Reason]:
        """Return the reasons that the logs give beside the record."""
        counted = [row for row in rows if not row.ignored]
        if not counted:
            return []
        calls = sum(row.calls - self._count_ignored(row) for row in counted)
        text = count(calls, "call")
        last_at = max(row.last_at for row in counted)
        message = f"{text} in the logs, the last on {full_date(last_at)}"
        reasons = [Reason("calls", message)]
        unrecorded = self._find_unrecorded(name)
        if unrecorded:
            message = (
                "the logs have calls in covered time that no recorder has, the first "
                f"on {describe_moment(min(unrecorded))}: check that the middleware is "
                "around all of your application, and that nothing before it responds"
            )
            reasons.append(Reason("log-unrecorded", message))
        return reasons

    def _find_unrecorded(self, name: str) -> list[int]:
        """Return times of calls in the logs that were covered, although the record has
        no call by the same client on that day.

        A caller may have different labels in a log and in the record.
        """
        recorded: defaultdict[int, set[str | None]] = defaultdict(set)
        for (operation, _caller, client, source), calls in self._snapshot.calls.items():
            if operation == name and source != SOURCE:
                for day in calls.days[::5]:
                    recorded[day].add(client)
        gaps = self._cover(self._find_services(name, self._since), self._since).gaps
        unrecorded: list[int] = []
        for day, caller, client, logged in self._logged[name]:
            clients = recorded[day]
            if client in {None, OTHER}:  # it may be any client of that day
                is_recorded = bool(clients)
            else:
                is_recorded = client in clients or OTHER in clients
            is_asked = self._is_asked(caller)
            if is_recorded or not is_asked or self._is_ignored_name(caller, client):
                continue
            for at in (logged.first_at, logged.last_at):
                is_inside = self._since <= at < self._until
                if is_inside and not _overlap((at, at + 1), gaps):
                    unrecorded.append(at)
        return unrecorded

    # Doubts.

    def _find_doubts(self, name: str, rows: Sequence[CallerUsage]) -> list[Reason]:
        """Return why the absence of calls proves nothing."""
        doubts = []
        snapshot = self._snapshot
        if not snapshot.has_own_clock and self._until > snapshot.now + _TOLERANCE:
            until = describe_moment(self._until)
            message = (
                f"the window ends in the future, on {until}: use an earlier --until"
            )
            doubts.append(Reason("future", message))
        if snapshot.logs is not None and not snapshot.has_store:
            return [*doubts, Reason("never-matched", snapshot.logs.absence)]
        listening = self._find_services(name, 0)
        if not listening:
            message = (
                "no recorder knows this operation: check its name, and that its "
                "middleware has a UsageRecorder as an observer"
            )
            return [*doubts, Reason("no-operation", message)]
        if not self._was_matched(name, listening):
            message = (
                "no request has ever matched it: check its path, or call it once with "
                "`flask-notifications check`; `flask --app … retirement` lists the "
                "endpoints that it reaches"
            )
            doubts.append(Reason("never-matched", message))
        probed = _days_of_probes(rows)
        in_window = self._find_window_doubts(name, probed, self._since)
        if in_window and not doubts:
            code, message = in_window.pop()
            advice = self._suggest(name, probed)
            in_window.append(Reason(code, f"{message}; {advice}"))
        return doubts + in_window

    def _was_matched(self, name: str, services: Listening) -> bool:
        """Return whether a request was answered or refused under the present rules;
        ``True`` as well if no recorder has these, because gaps say that already.
        """
        origins: set[Origin] = set()
        for service, plans in services:
            origins.update((service.name, digest) for digest in plans)
        if not origins:
            return True
        return not origins.isdisjoint(self._snapshot.matched[name])

    def _find_window_doubts(
        self, name: str, probed: set[int], since: int
    ) -> list[Reason]:
        """Return the doubts about a window that begins at a midnight."""
        doubts = list(self._doubt_record(self._find_services(name, since), since))
        missing = self._missing_probes(probed, since)
        if missing:
            message = f"no probe was recorded on {full_date(to_date(missing[0]))}"
            if missing[1:]:
                message += f" and {count(len(missing) - 1, 'other day')}"
            message += f": call it with `flask-notifications check` ({PROBE}) every day"
            doubts.append(Reason("probe", message))
        unlabelled = self._count_unlabelled(name, since)
        if unlabelled:
            text = count(unlabelled, "call")
            message = f"{text} without a label may be of this caller"
            doubts.append(Reason("calls", message))
        return doubts

    def _count_unlabelled(self, name: str, since: int) -> int:
        """Return the calls since a time that may be of the only caller of the report."""
        unlabelled = 0
        for calls in self._unlabelled[name]:
            if calls.last_at >= since:
                unlabelled += sum(calls.totals)
        return unlabelled

    def _missing_probes(self, probed: set[int], since: int) -> list[int]:
        """Return the complete days without a probe, if one is required on each."""
        if not self._options.require_probe:
            return []
        days = range(since // DAY, self._until // DAY)
        return [day for day in days if day not in probed]

    def _find_record_doubts(self, listening: Listening, since: int) -> list[Reason]:
        """Return the doubts about the recorders."""
        options = self._options
        coverage = self._cover(listening, since)
        long_gaps = self._long_gaps(coverage)
        doubts = []
        is_covered = coverage.share >= options.min_coverage
        if not is_covered:
            share, accepted = (
                math.floor(coverage.share * 1000) / 10,
                math.floor(coverage.share * 1000) / 1000,
            )
            message = f"only {share:g} % of the window is covered, not {options.min_coverage * 100:g} %"
            if accepted:
                message += f": --min-coverage {accepted:g} accepts that"
            doubts.append(Reason("coverage", message))
        if long_gaps:
            doubts.append(self._describe_gaps(coverage, long_gaps))
        if doubts:
            causes = long_gaps if is_covered else coverage.gaps
            doubts += self._find_causes(listening, since, causes)
        short = coverage.list_hours(options.hosts) if options.hosts else []
        if short:
            fewest = coverage.fewest_hosts
            message = (
                f"{count(fewest, 'host')} recorded in some hour, not {options.hosts}, "
                f"first from {describe_moment(short[0] * HOUR)}"
            )
            if fewest:
                message += f": --hosts {fewest} accepts that"
            doubts.append(Reason("hosts", message))
        return doubts

    def _long_gaps(self, coverage: Coverage) -> list[Interval]:
        allowed = self._options.allow_gap
        return [(start, end) for start, end in coverage.gaps if end - start > allowed]

    def _describe_gaps(
        self, coverage: Coverage, long_gaps: Sequence[Interval]
    ) -> Reason:
        """Return the longest gap, and the option that would accept it."""
        start, end = max(long_gaps, key=lambda gap: gap[1] - gap[0])
        message = (
            f"{_duration(end - start)} are not covered, "
            f"from {describe_moment(start)} to {describe_moment(end)}"
        )
        if long_gaps[1:]:
            message += f", and {count(len(long_gaps) - 1, 'other long gap')}"
        hours = math.ceil(coverage.longest_gap / HOUR * 10) / 10
        return Reason("gap", f"{message}: --allow-gap {hours:g} accepts that")

    def _find_causes(
        self, listening: Listening, since: int, gaps: Sequence[Interval]
    ) -> list[Reason]:
        """Return what made some gaps, as far as the store knows."""
        causes = []
        kept_from = self._snapshot.kept_from
        if kept_from > since:
            kept = describe_moment(kept_from)
            message = f"what was recorded before {kept} was deleted (retention_days)"
            causes.append(Reason("young", message))
        for service, plans in listening:
            causes += self._find_causes_in(service, plans, since, gaps)
            if len(listening) > 1 and service.active_until < self._until - HOUR:
                heard = describe_moment(service.active_until)
                message = (
                    f"the service {service.name!r} was not heard after {heard}: if it "
                    "has ended, choose another one with --service"
                )
                causes.append(Reason("gap", message))
        return causes

    def _find_causes_in(
        self,
        service: Service,
        plans: frozenset[str],
        since: int,
        gaps: Sequence[Interval],
    ) -> list[Reason]:
        causes = []
        began = [self._snapshot.began.get((service.name, plan), 0) for plan in plans]
        if began and min(began) > since:
            message = (
                f"recording with these rules began on {describe_moment(min(began))}"
            )
            causes.append(Reason("young", message))
        lost = [silence.row for silence in service.silences if _explains(silence, gaps)]
        if lost:
            row = max(lost, key=lambda row: row.heard_at)
            message = _describe_rows(row, len(lost), "not heard after")
            if self._options.gone_after is None:
                message += (
                    ": if its machine or pod was switched off, --gone-after 0.1 takes "
                    "it for gone"
                )
            causes.append(Reason("host-lost", message))
        strangers = []
        for row in service.rows:
            life = (row.began_at, row.heard_at + 1)
            if row.plan not in plans and _overlap(life, gaps):
                strangers.append(row)
        if strangers:
            row = max(strangers, key=lambda row: row.heard_at)
            message = _describe_rows(
                row, len(strangers), "without these rules for the operation until"
            )
            message += (
                ": use the plan that is in production, and a service of its own for "
                "another application"
            )
            causes.append(Reason("rules", message))
        return causes

    # Advice.

    def _suggest(self, name: str, probed: set[int]) -> str:
        """Return the largest window that is complete, and the earliest date on which
        the present one can be.
        """
        days = self._options.days
        complete_on = full_date(self._find_date(name, probed))
        advice = (
            f"if nothing is missing from now on, {count(days, 'day')} will be complete "
            f"on {complete_on}"
        )
        for shorter in range(days - 1, 0, -1):
            since = start_of_window(self._until, shorter)
            if not self._find_window_doubts(name, probed, since):
                verb = "is" if shorter == 1 else "are"
                text = count(shorter, "day")
                return f"the last {text} {verb} complete: --days {shorter}; {advice}"
        return advice

    def _find_date(self, name: str, probed: set[int]) -> date:
        """Return the first day on which a window of the same length is complete, if
        nothing is missing from now on.

        Days that are not complete must leave the window.
        """
        options = self._options
        allowed = (1 - options.min_coverage) * options.days * DAY
        since = self._since + DAY
        while since < self._until:
            listening = self._find_services(name, since)
            coverage = self._cover(listening, since)
            is_complete = (
                coverage.uncovered <= allowed
                and not self._long_gaps(coverage)
                and not (options.hosts and coverage.list_hours(options.hosts))
                and not self._missing_probes(probed, since)
                and not self._count_unlabelled(name, since)
            )
            if is_complete:
                break
            since += DAY
        return to_date(since // DAY + options.days)


def list_operations(services: Iterable[Service], since: int) -> list[str]:
    """Return the operations in the latest plan of each service that recorded
    in a window.
    """
    names: set[str] = set()
    for service in services:
        if service.is_active(since):
            names.update(service.operations)
    return sorted(names)


def find_stop(days: Iterable[int], until: int) -> date | None:
    """Return the last day with a call, if the silence since then is longer than any
    before.

    :param days: the days with calls, by their number since 1970.
    :param until: the day of the end of the window.
    """
    called = sorted(days)
    if len(called) < 2 or until - called[-1] < _SILENT:
        return None
    longest = max(after - before for before, after in pairwise(called))
    return to_date(called[-1]) if until - called[-1] > longest else None


def _order_of(row: CallerUsage) -> tuple[int, str, str, str]:
    """Return the order of callers: those with the most calls first."""
    return -row.calls, row.caller or "", row.client or "", row.source or ""


def _days_of_probes(rows: Iterable[CallerUsage]) -> set[int]:
    """Return the days on which a probe was answered or refused."""
    days = set()
    for row in rows:
        if is_probe(row.client):
            for day, answered, refused, *_others in unpack_days(row.packed_days):
                if answered or refused:
                    days.add(day)
    return days


def _count_lost(listening: Listening) -> tuple[int, LostRecorder | None]:
    """Return how many recorders ended without a goodbye, and the last of them."""
    lost = []
    for service, _plans in listening:
        lost += service.find_lost()
    if not lost:
        return 0, None
    last = max(lost, key=lambda row: row.heard_at)
    heard_at = to_datetime(last.heard_at).replace(microsecond=0)
    return len(lost), LostRecorder(last.host, last.process, heard_at)


def _describe_rows(row: RecorderRow, number: int, words: str) -> str:
    """Return the last recorder of several, such as ``web-7 (process 12) and 3 others``,
    and when it was heard.
    """
    text = f"{row.host} (process {row.process})"
    if number > 1:
        text += f" and {count(number - 1, 'other')}"
    verb = "was" if number == 1 else "were"
    return f"{text} {verb} {words} {describe_moment(row.heard_at)}"


def _explains(silence: Silence, gaps: Iterable[Interval]) -> bool:
    """Return whether a silence overlaps with a gap, and is of a recorder that is
    overdue and was not declared gone.
    """
    return silence.is_lost and silence.is_open and _overlap(silence[:2], gaps)


def _overlap(interval: Interval, gaps: Iterable[Interval]) -> bool:
    return any(clip([interval], start, end) for start, end in gaps)


def _duration(microseconds: int) -> str:
    return duration(timedelta(microseconds=microseconds))
