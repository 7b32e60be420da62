"""When calls would have been recorded: intervals of time, from the rows of the recorders.

Times are microseconds since 1970. Knows nothing of calls and verdicts.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import NamedTuple, TypeAlias

from .ledger import TOLERANCE
from .times import DAY, HOUR

Interval: TypeAlias = tuple[int, int]


class RecorderRow(NamedTuple):
    """The row of a recorder."""

    service: str
    host: str
    process: int
    plan: str
    began_at: int
    heard_at: int
    next_at: int
    ended: int
    own_clock: int
    lost: int
    skew: int


def unite(intervals: Iterable[Interval]) -> list[Interval]:
    """Return disjoint intervals in order that cover the same."""
    united: list[Interval] = []
    for start, end in sorted(intervals):
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((start, end))
    return united


def subtract(intervals: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """Return the parts of intervals outside of others; both are disjoint and in order."""
    rest: list[Interval] = []
    number = 0
    for start, end in intervals:
        place = start
        while number < len(others) and others[number][1] <= start:
            number += 1
        for other_start, other_end in islice(others, number, None):
            if other_start >= end:
                break
            if other_start > place:
                rest.append((place, other_start))
            place = max(place, other_end)
        if place < end:
            rest.append((place, end))
    return rest


def clip(intervals: Iterable[Interval], since: int, until: int) -> list[Interval]:
    """Return the parts of intervals in a window."""
    clipped = ((max(start, since), min(end, until)) for start, end in intervals)
    return [(start, end) for start, end in clipped if start < end]


def length(intervals: Iterable[Interval]) -> int:
    """Return the length of disjoint intervals."""
    return sum(end - start for start, end in intervals)


@dataclass(frozen=True)  # no slots, because of the cached properties
class Coverage:
    """When an operation was covered in a window, and when each host recorded."""

    since: int
    until: int
    covered: Sequence[Interval]
    hosts: Mapping[str, Sequence[Interval]] = field(default_factory=dict)

    @cached_property
    def share(self) -> float:
        """The covered part of the window, from 0 to 1."""
        return length(self.covered) / max(1, self.until - self.since)

    @cached_property
    def gaps(self) -> list[Interval]:
        """The parts of the window that are not covered."""
        return subtract([(self.since, self.until)], self.covered)

    @cached_property
    def longest_gap(self) -> Interval:
        """The longest gap, an empty interval if there is none."""
        return max(self.gaps, key=lambda gap: gap[1] - gap[0], default=(self.since, self.since))

    @cached_property
    def hours_of_days(self) -> dict[int, float]:
        """The covered hours of each day, by its number since 1970."""
        days = range(self.since // DAY, -(-self.until // DAY))
        return {day: length(clip(self.covered, day * DAY, (day + 1) * DAY)) / HOUR for day in days}

    @cached_property
    def fewest_hosts(self) -> int:
        """The lowest number of hosts that recorded in a complete hour of the window; 0 without one."""
        first, last = -(-self.since // HOUR), self.until // HOUR
        recording = [0] * max(0, last - first)
        for intervals in self.hosts.values():
            for hour in {hour for start, end in intervals for hour in range(start // HOUR, -(-end // HOUR))}:
                if first <= hour < last:
                    recording[hour - first] += 1
        return min(recording, default=0)


class Recorders:
    """The recorders of one service, and the operations for which they listened.

    :param rows: those of one service.
    :param plans: the fingerprint of each operation for which recorders listened, by digest.
    :param now: the time of the database.
    :param until: the end of the window, which is the time of recorders with a clock of their own.
    """

    def __init__(
        self, rows: Sequence[RecorderRow], plans: Mapping[str, Mapping[str, str]], now: int, until: int
    ) -> None:
        self.rows = rows
        self.heard_at: int = max(row.heard_at for row in rows)
        self._plans = plans
        self._lives: dict[str, dict[str, list[Interval]]] = defaultdict(lambda: defaultdict(list))
        self.losses: list[tuple[Interval, RecorderRow]] = []
        for row in rows:
            self._lives[row.plan][row.host].append((row.began_at, row.heard_at))
            if not row.ended and row.next_at < (until if row.own_clock else now):
                # Whatever it counted since its last sign of life is missing, and nobody knows when it ended.
                loss = (row.heard_at, max((row.heard_at // DAY + 1) * DAY, row.heard_at + HOUR))
                self.losses.append((loss, row))
        self._remarkable = [row for row in rows if row.lost or row.skew > TOLERANCE]

    def fitting(self, operation: str, expected: str | None) -> frozenset[str] | None:
        """Return the digests of the plans with the rules of an operation, or ``None`` if no recorder knows it.

        :param expected: the fingerprint; ``None`` is that of the recorder that was heard last, of those that know it.
        """
        known = {plan: self._plans[plan][operation] for plan in self._lives if operation in self._plans.get(plan, {})}
        if not known:
            return None
        if expected is None:
            last = max((row for row in self.rows if row.plan in known), key=lambda row: (row.heard_at, row.began_at))
            expected = known[last.plan]
        return frozenset(plan for plan, fingerprint in known.items() if fingerprint == expected)

    def cover(self, fitting: frozenset[str], since: int, until: int) -> Coverage:
        """Return the coverage of an operation by the recorders whose plans have its rules."""
        lives: dict[bool, list[Interval]] = {True: [], False: [loss for loss, _row in self.losses]}
        hosts: dict[str, list[Interval]] = defaultdict(list)
        for plan, own in self._lives.items():
            for host, intervals in own.items():
                lives[plan in fitting] += intervals
                if plan in fitting:
                    hosts[host] += intervals
        covered = subtract(*(unite(clip(lives[fits], since, until)) for fits in (True, False)))
        return Coverage(since, until, covered, {host: unite(own) for host, own in hosts.items()})

    def strangers(self, fitting: frozenset[str], since: int, until: int) -> list[RecorderRow]:
        """Return the rows in a window of recorders whose plans have other rules."""
        return _in_window((row for row in self.rows if row.plan not in fitting), since, until)

    def remarkable(self, since: int, until: int) -> list[RecorderRow]:
        """Return the rows in a window of recorders that lost calls or whose clock was off."""
        return _in_window(self._remarkable, since, until)


def _in_window(rows: Iterable[RecorderRow], since: int, until: int) -> list[RecorderRow]:
    return [row for row in rows if row.began_at < until and row.heard_at >= since]
