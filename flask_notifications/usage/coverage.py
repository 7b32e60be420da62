"""When calls would have been recorded: intervals of time, from the rows of the
recorders.

Time is covered while a recorder lived, unless something uncovers it. All times are
microseconds since 1970. Knows nothing of calls and verdicts.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

from .times import CLOCK_LIMIT, DAY, HOUR, OVERDUE

Interval: TypeAlias = tuple[int, int]
Digests: TypeAlias = frozenset[str]
"""The digests of plans, as in the rows of recorders."""


class RecorderRow(NamedTuple):
    """The row of a recorder in the store."""

    service: str
    host: str
    process: int
    plan: str
    began_at: int
    heard_at: int
    skew: int
    ended: int
    gone_at: int
    own_clock: int

    @property
    def covered(self) -> Interval:
        """The time that it covers, which may be empty.

        Calls go by its clock, and its signs of life by the database's.
        """
        if self.skew > CLOCK_LIMIT:
            return self.began_at, self.began_at
        return self.began_at + self.skew, self.heard_at - self.skew


def join(intervals: Iterable[Interval]) -> list[Interval]:
    """Return disjoint intervals in order that cover the same time."""
    joined: list[Interval] = []
    for start, end in sorted(intervals):
        if start >= end:
            continue
        if joined and start <= joined[-1][1]:
            first, last = joined.pop()
            joined.append((first, max(last, end)))
        else:
            joined.append((start, end))
    return joined


def clip(intervals: Iterable[Interval], since: int, until: int) -> list[Interval]:
    """Return the parts of intervals in a window."""
    clipped = []
    for start, end in intervals:
        part = (max(start, since), min(end, until))
        if part[0] < part[1]:
            clipped.append(part)
    return clipped


def find_gaps(intervals: Iterable[Interval], since: int, until: int) -> list[Interval]:
    """Return the parts of a window that no interval covers."""
    gaps = []
    at = since
    for start, end in join(clip(intervals, since, until)):
        if at < start:
            gaps.append((at, start))
        at = end
    if at < until:
        gaps.append((at, until))
    return gaps


def length(intervals: Iterable[Interval]) -> int:
    """Return the length of disjoint intervals."""
    return sum(end - start for start, end in intervals)


class Silence(NamedTuple):
    """The time for which nobody knows whether a recorder lived.

    It begins at the last sign of life of a recorder that has not ended.
    """

    start: int
    end: int
    row: RecorderRow

    @property
    def is_open(self) -> bool:
        """Whether nobody has declared the recorder gone."""
        return not self.row.gone_at

    @property
    def is_lost(self) -> bool:
        """Whether a sign of life is overdue, so that the recorder has probably ended."""
        return not self.is_open or self.end - self.start > OVERDUE


@dataclass(frozen=True)  # no slots, because of the cached properties
class Coverage:
    """When an operation was covered in a window, and how many hosts recorded.

    ``gaps`` are disjoint and in order. ``hosts`` are the names of the hosts.
    ``recording`` counts the hosts in each hour since 1970, for each service.
    """

    since: int
    until: int
    gaps: Sequence[Interval]
    hosts: frozenset[str] = frozenset()
    recording: Sequence[Mapping[int, int]] = ()

    def narrow(self, since: int) -> "Coverage":
        """Return the coverage of a window that begins later."""
        gaps = self._find_gaps(since, self.until)
        return Coverage(since, self.until, gaps, self.hosts, self.recording)

    def _find_gaps(self, start: int, end: int) -> list[Interval]:
        """Return the gaps in a part of the window, of which there may be many."""
        first = bisect_right(self.gaps, start, key=lambda gap: gap[1])
        last = bisect_right(self.gaps, end, key=lambda gap: gap[0])
        return clip(self.gaps[first:last], start, end)

    @cached_property
    def uncovered(self) -> int:
        """The length of all gaps."""
        return length(self.gaps)

    @cached_property
    def share(self) -> float:
        """The covered part of the window, from 0 to 1."""
        total = self.until - self.since
        return (total - self.uncovered) / total

    @cached_property
    def longest_gap(self) -> int:
        """The length of the longest gap, 0 if there is none."""
        return max((end - start for start, end in self.gaps), default=0)

    @cached_property
    def hours_of_days(self) -> dict[int, float]:
        """The covered hours of each day, by its number since 1970."""
        hours = {}
        for day in range(self.since // DAY, -(-self.until // DAY)):
            start, end = day * DAY, min((day + 1) * DAY, self.until)
            missing = length(self._find_gaps(start, end))
            hours[day] = (end - start - missing) / HOUR
        return hours

    def list_hours(self, hosts: int) -> list[int]:
        """Return the complete hours in which fewer hosts recorded."""
        short: set[int] = set()
        for recorded in self.recording or [{}]:
            short.update(hour for hour in self._hours if recorded.get(hour, 0) < hosts)
        return sorted(short)

    @cached_property
    def fewest_hosts(self) -> int:
        """The lowest number of hosts that recorded in a complete hour, 0 without one."""
        fewest = []
        for recorded in self.recording:
            fewest += [recorded.get(hour, 0) for hour in self._hours]
        return min(fewest, default=0)

    @property
    def _hours(self) -> range:
        """The complete hours of the window, since 1970."""
        return range(-(-self.since // HOUR), self.until // HOUR)


class Service:
    """The recorders of one service that were heard in a window, or may still live.

    :param rows: the rows of its recorders, at least one.
    :param plans: the rules of each operation, by name and by the digest of the plan.
    :param now: the time of the database. The time of a recorder with a clock of its own
        is the end of the window.
    :param gone_after: the time after which a host that is not heard counts as switched
        off; ``None`` is never.
    """

    def __init__(
        self,
        rows: Sequence[RecorderRow],
        plans: Mapping[str, Mapping[str, str]],
        *,
        since: int,
        until: int,
        now: int,
        gone_after: int | None = None,
    ) -> None:
        self.name: str = rows[0].service
        self.rows: Sequence[RecorderRow] = rows
        self._since, self._until = since, until
        self._plans = {row.plan: plans.get(row.plan, {}) for row in rows}
        # When a recorder with each plan was heard last, and when that had begun.
        self._heard: dict[str, Interval] = {}
        hosts: dict[str, int] = {}
        for row in rows:
            sign = (row.heard_at, row.began_at)
            self._heard[row.plan] = max(self._heard.get(row.plan, sign), sign)
            hosts[row.host] = max(hosts.get(row.host, 0), row.heard_at)
        self.silences: list[Silence] = []
        for row in rows:
            if row.ended:
                continue
            end = row.gone_at
            if not end:
                end = until if row.own_clock else max(until, now)
                if gone_after is not None:
                    end = min(end, hosts[row.host] + gone_after)
            self.silences.append(Silence(row.covered[1], end, row))
        self.active_until: int = max(row.heard_at for row in rows)
        for silence in self.silences:
            self.active_until = max(self.active_until, silence.end)

    def is_active(self, since: int) -> bool:
        """Return whether a recorder was heard since a time, or may have lived then."""
        return self.active_until >= since

    @property
    def operations(self) -> Iterable[str]:
        """The operations of the recorder that was heard last."""
        return self._plans[max(self._heard, key=self._heard.__getitem__)]

    def plans_with(self, operation: str, rules: str | None) -> Digests | None:
        """Return the plans in which an operation has some rules.

        ``None`` for the rules takes those that were heard last. ``None`` is returned if
        no plan has the operation.
        """
        known = {}
        for digest, operations in self._plans.items():
            if operation in operations:
                known[digest] = operations[operation]
        if not known:
            return None
        if rules is None:
            rules = known[max(known, key=self._heard.__getitem__)]
        return frozenset(digest for digest in known if known[digest] == rules)

    def find_gaps(self, plans: Digests) -> list[Interval]:
        """Return the gaps in the time that recorders with some plans cover."""
        lives = []
        uncovered: list[Interval] = [silence[:2] for silence in self.silences]
        for row in self.rows:
            if row.plan in plans:
                lives.append(row.covered)
            else:
                # Its calls go by its clock.
                skew = min(row.skew, CLOCK_LIMIT)
                uncovered.append((row.began_at - skew, row.heard_at + skew))
        gaps = find_gaps(lives, self._since, self._until)
        return join([*gaps, *clip(uncovered, self._since, self._until)])

    def join_hosts(self, plans: Digests) -> dict[str, list[Interval]]:
        """Return when each host recorded with some plans, without those that did not."""
        lives = defaultdict(list)
        for row in self.rows:
            if row.plan in plans:
                lives[row.host].append(row.covered)
        hosts = {}
        for host, intervals in lives.items():
            recorded = join(clip(intervals, self._since, self._until))
            if recorded:
                hosts[host] = recorded
        return hosts

    def find_lost(self) -> list[RecorderRow]:
        """Return the recorders that ended in the window without a goodbye."""
        lost = []
        for silence in self.silences:
            row = silence.row
            if silence.is_lost and self._since <= row.heard_at <= self._until:
                lost.append(row)
        return lost


def count_hours(hosts: Mapping[str, Iterable[Interval]]) -> Counter[int]:
    """Return how many hosts recorded in each hour since 1970."""
    recording: Counter[int] = Counter()
    for intervals in hosts.values():
        hours: set[int] = set()
        for start, end in intervals:
            hours.update(range(start // HOUR, -(-end // HOUR)))
        recording.update(hours)
    return recording


# The services that have to cover an operation, and their plans that have its rules.
Listening: TypeAlias = tuple[tuple[Service, Digests], ...]


def cover(listening: Listening, since: int, until: int, kept_from: int) -> Coverage:
    """Return the coverage of an operation: the time that all services cover.

    Nothing before ``kept_from`` is covered, and nothing at all without a service.
    """
    gaps = [(since, min(max(since, kept_from), until) if listening else until)]
    hosts: set[str] = set()
    recording = []
    for service, plans in listening:
        gaps += service.find_gaps(plans)
        recorded = service.join_hosts(plans)
        hosts.update(recorded)
        recording.append(count_hours(recorded))
    return Coverage(since, until, join(gaps), frozenset(hosts), recording)
