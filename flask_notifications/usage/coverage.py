"""When calls would have been recorded: intervals of time, from the rows of the
recorders.

Time is covered while a recorder lived, unless something uncovers it. All times are
microseconds since 1970. Knows nothing of calls and verdicts.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from .times import CLOCK_LIMIT, DAY, HOUR, OVERDUE, list_units, to_date

Interval: TypeAlias = tuple[int, int]
Digests: TypeAlias = frozenset[str]
"""The digests of plans, as in the rows of recorders."""


class RecorderRow(NamedTuple):
    """The row of a recorder in the store."""

    service: str
    host: str
    plan: str
    process: int
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


def join(intervals: Iterable[Interval], since: int, until: int) -> list[Interval]:
    """Return disjoint intervals in order that cover the same time of a window."""
    joined: list[Interval] = []
    for first, last in sorted(intervals):
        start, end = max(first, since), min(last, until)
        if start >= end:
            continue
        if joined and start <= joined[-1][1]:
            start, previous = joined.pop()
            end = max(end, previous)
        joined.append((start, end))
    return joined


def find_gaps(intervals: Iterable[Interval], since: int, until: int) -> list[Interval]:
    """Return the parts of a window that no interval covers."""
    gaps = []
    at = since
    for start, end in [*join(intervals, since, until), (until, until)]:
        if at < start:
            gaps.append((at, start))
        at = end
    return gaps


def length(intervals: Iterable[Interval]) -> int:
    """Return the length of disjoint intervals."""
    return sum(end - start for start, end in intervals)


class Silence(NamedTuple):
    """The time for which nobody knows whether a recorder lived.

    It begins at the last sign of life of a recorder that has not ended. ``is_lost``
    says whether the next sign is overdue, so that the recorder has probably ended.
    """

    start: int
    end: int
    row: RecorderRow
    is_lost: bool


@dataclass(frozen=True)  # no slots, because of the cached properties
class Coverage:
    """When an operation was covered in a window, and how many hosts recorded.

    ``gaps`` are disjoint and in order. ``host_count`` is the number of all hosts, and
    ``hosts_of_hours`` that in each complete hour since 1970, the lowest of all
    services, perhaps also before the window.
    """

    since: int
    until: int
    gaps: Sequence[Interval]
    host_count: int
    hosts_of_hours: Mapping[int, int]

    def move(self, since: int, until: int) -> "Coverage":
        """Return the coverage of a window that begins later, and perhaps ends later
        without further gaps.
        """
        gaps = join(self.gaps, since, until)
        return Coverage(since, until, gaps, self.host_count, self.hosts_of_hours)

    def list_hours(self, hosts: int) -> list[int]:
        """Return the complete hours in which fewer hosts recorded."""
        first, hours = self.since // HOUR, self.hosts_of_hours.items()
        return [hour for hour, number in hours if hour >= first and number < hosts]

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
    def fewest_hosts(self) -> int:
        """The lowest number of hosts that recorded in a complete hour."""
        return min(self.hosts_of_hours.values(), default=0)

    @cached_property
    def hours_of_days(self) -> dict[date, float]:
        """The covered hours of each day."""
        hours = {}
        for day in list_units(self.since, self.until, DAY):
            start, end = day * DAY, min((day + 1) * DAY, self.until)
            uncovered = length(join(self.gaps, start, end))
            hours[to_date(day)] = (end - start - uncovered) / HOUR
        return hours


class Service:
    """The recorders of one service that were heard in a window, or may still live.

    :param rows: the rows of its recorders, at least one.
    :param plans: the rules of each operation, by name and by the digest of the plan.
    :param until: the end of the window.
    :param now: the time of the database.
    :param gone_after: the time after which a host that is not heard counts as switched
        off; ``None`` is never.
    """

    def __init__(
        self,
        rows: Iterable[RecorderRow],
        plans: Mapping[str, Mapping[str, str]],
        *,
        until: int,
        now: int,
        gone_after: float | None = None,
    ) -> None:
        # Those that were heard last are the last ones, and so are their plans.
        self.rows: list[RecorderRow] = sorted(
            rows, key=attrgetter("heard_at", "began_at")
        )
        self.name: str = self.rows[-1].service
        self._plans: dict[str, Mapping[str, str]] = {}
        heard_at: dict[str, int] = {}
        for row in self.rows:
            self._plans.pop(row.plan, None)
            self._plans[row.plan] = plans.get(row.plan, {})
            heard_at[row.host] = row.heard_at
        # When a recorder was heard last, or may have lived.
        self.active_until: int = self.rows[-1].heard_at
        self.silences: list[Silence] = []
        for row in self.rows:
            if row.ended:
                continue
            end = row.gone_at or max(until, now)
            is_lost = (row.gone_at or now) - row.heard_at > OVERDUE
            if not row.gone_at and gone_after is not None:
                end = min(end, heard_at[row.host] + int(gone_after * HOUR))
            self.silences.append(Silence(row.covered[1], end, row, is_lost))
            self.active_until = max(self.active_until, end)

    @property
    def operations(self) -> Iterable[str]:
        """The operations of the recorder that was heard last."""
        return list(self._plans.values())[-1]

    def plans_with(self, operation: str, rules: str | None) -> Digests | None:
        """Return the plans in which an operation has some rules.

        ``None`` for the rules takes those that were heard last. ``None`` is returned if
        no plan has the operation.
        """
        rules_of_plans = {}
        for digest, operations in self._plans.items():
            if operation in operations:
                rules_of_plans[digest] = operations[operation]
        if not rules_of_plans:
            return None
        if rules is None:
            rules = list(rules_of_plans.values())[-1]
        return frozenset(
            digest for digest in rules_of_plans if rules_of_plans[digest] == rules
        )


# The services that have to cover an operation, and their plans that have its rules.
Listening: TypeAlias = tuple[tuple[Service, Digests], ...]


def find_listening(
    services: Iterable[Service], operation: str, rules: str | None, since: int
) -> Listening:
    """Return the services that have to cover an operation since a time.

    :param rules: as of ``Service.plans_with``.
    """
    listening = []
    for service in services:
        plans = service.plans_with(operation, rules)
        if plans is not None and service.active_until >= since:
            listening.append((service, plans))
    return tuple(listening)


def cover(listening: Listening, since: int, until: int, kept_from: int) -> Coverage:
    """Return the coverage of an operation: the time that all services cover.

    Nothing before ``kept_from`` is covered, and nothing at all without a service.
    """
    uncovered: list[Interval] = [(since, kept_from if listening else until)]
    hosts: set[str] = set()
    numbers = []
    for service, plans in listening:
        uncovered += [silence[:2] for silence in service.silences]
        lives = defaultdict(list)
        for row in service.rows:
            if row.plan in plans:
                lives[row.host].append(row.covered)
            else:
                # Its calls go by its clock.
                skew = min(row.skew, CLOCK_LIMIT)
                uncovered.append((row.began_at - skew, row.heard_at + skew))
        uncovered += find_gaps(chain.from_iterable(lives.values()), since, until)
        number: Counter[int] = Counter()
        for host, intervals in lives.items():
            hours: set[int] = set()
            for start, end in join(intervals, since, until):
                hours.update(list_units(start, end, HOUR))
                hosts.add(host)
            number.update(hours)
        numbers.append(number)
    hosts_of_hours = {}
    for hour in range(since // HOUR, until // HOUR):
        hosts_of_hours[hour] = min((number[hour] for number in numbers), default=0)
    gaps = join(uncovered, since, until)
    return Coverage(since, until, gaps, len(hosts), hosts_of_hours)
