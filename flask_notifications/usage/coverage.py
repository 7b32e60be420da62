"""When calls would have been recorded, computed from the rows of the recorders.

Time is covered while a recorder lived, unless another row uncovers it: a silent
recorder, or one with other rules. All times are microseconds since 1970. Knows nothing
of calls and verdicts.
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
    """The row of a recorder in the store; ``store.recorders`` describes the columns."""

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
        """The time that the recorder covers, which may be empty.

        Its calls have the time of its own clock, and its signs of life that of the
        database. It covers only what is certain in spite of the difference.
        """
        if self.skew > CLOCK_LIMIT:
            return self.began_at, self.began_at
        return self.began_at + self.skew, self.heard_at - self.skew


def join(intervals: Iterable[Interval], since: int, until: int) -> list[Interval]:
    """Clip intervals to a window and merge those that overlap; return them sorted."""
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
    """Return the total length of disjoint intervals."""
    return sum(end - start for start, end in intervals)


class Silence(NamedTuple):
    """The time for which nobody knows whether a recorder was alive.

    It begins at the last sign of life of a recorder that has not ended cleanly. It ends
    when another one declared it gone, or with the window. ``is_lost`` says whether its
    next sign of life is overdue, so that it has probably crashed.
    """

    start: int
    end: int
    row: RecorderRow
    is_lost: bool


@dataclass(frozen=True)  # no slots, because of the cached properties
class Coverage:
    """When an operation was covered in a window, and how many hosts recorded.

    ``gaps`` are disjoint and in order. ``host_count`` is the number of different hosts
    in the window. ``hosts_of_hours`` has the number of hosts for each complete hour, by
    the hour's number since 1970; of several services, it is that of the service with
    the fewest. After ``move`` it may also have hours before the window.
    """

    since: int
    until: int
    gaps: Sequence[Interval]
    host_count: int
    hosts_of_hours: Mapping[int, int]

    def move(self, since: int, until: int) -> "Coverage":
        """Return the coverage of a window that begins later.

        It may also end later; the time after this window is taken to be covered.
        """
        gaps = join(self.gaps, since, until)
        return Coverage(since, until, gaps, self.host_count, self.hosts_of_hours)

    def list_hours_below(self, hosts: int) -> list[int]:
        """Return the complete hours of the window in which fewer hosts recorded."""
        first = self.since // HOUR
        numbers = self.hosts_of_hours.items()
        return [hour for hour, number in numbers if hour >= first and number < hosts]

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
        """The number of covered hours of each day."""
        hours = {}
        for day in list_units(self.since, self.until, DAY):
            start, end = day * DAY, min((day + 1) * DAY, self.until)
            uncovered = length(join(self.gaps, start, end))
            hours[to_date(day)] = (end - start - uncovered) / HOUR
        return hours


class Service:
    """The recorders of one service that were heard in a window, or may still live.

    :param rows: the rows of its recorders, at least one.
    :param plans: from the digest of each plan to its operations, by name, and their
        rules.
    :param until: the end of the window.
    :param now: the time of the database.
    :param gone_after: the hours after which a host that is not heard any more counts as
        switched off; ``None`` is never.
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
        # In the order in which they were heard last, like the plans below.
        self.rows: list[RecorderRow] = sorted(
            rows, key=attrgetter("heard_at", "began_at")
        )
        self.name: str = self.rows[-1].service
        self._plans: dict[str, Mapping[str, str]] = {}
        heard_at: dict[str, int] = {}
        for row in self.rows:
            self._plans.pop(row.plan, None)  # so that it becomes the last one
            self._plans[row.plan] = plans.get(row.plan, {})
            heard_at[row.host] = row.heard_at
        # The last moment at which a recorder was heard or may have been alive.
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
        """The names of the operations of the recorder that was heard last."""
        return list(self._plans.values())[-1]

    def plans_with(self, operation: str, rules: str | None) -> Digests | None:
        """Return the plans in which an operation has the given rules.

        Without rules, take those that were heard last. Return ``None`` if no plan has
        the operation.
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


# The services that should have recorded an operation, and their plans with its rules.
Responsible: TypeAlias = tuple[tuple[Service, Digests], ...]


def find_responsible(
    services: Iterable[Service], operation: str, rules: str | None, since: int
) -> Responsible:
    """Return the services that should have recorded an operation since a time.

    :param rules: as for ``Service.plans_with``.
    """
    responsible = []
    for service in services:
        plans = service.plans_with(operation, rules)
        if plans is not None and service.active_until >= since:
            responsible.append((service, plans))
    return tuple(responsible)


def cover(responsible: Responsible, since: int, until: int, kept_from: int) -> Coverage:
    """Return the coverage of an operation: the time that every service covers.

    Time before ``kept_from`` is never covered, because its rows have been deleted.
    Without a service, nothing is covered.
    """
    uncovered: list[Interval] = [(since, kept_from if responsible else until)]
    hosts: set[str] = set()
    # For each service, the number of its hosts by hour.
    counts_of_services = []
    for service, plans in responsible:
        uncovered += [silence[:2] for silence in service.silences]
        lives_of_hosts = defaultdict(list)
        for row in service.rows:
            if row.plan in plans:
                lives_of_hosts[row.host].append(row.covered)
            else:
                # It may have missed calls by its own clock, earlier or later than by
                # the database's.
                skew = min(row.skew, CLOCK_LIMIT)
                uncovered.append((row.began_at - skew, row.heard_at + skew))
        uncovered += find_gaps(chain(*lives_of_hosts.values()), since, until)
        host_counts: Counter[int] = Counter()
        for host, intervals in lives_of_hosts.items():
            hours: set[int] = set()
            for start, end in join(intervals, since, until):
                hours.update(list_units(start, end, HOUR))
                hosts.add(host)
            host_counts.update(hours)
        counts_of_services.append(host_counts)
    hosts_of_hours = {}
    for hour in range(since // HOUR, until // HOUR):
        hosts_of_hours[hour] = min(
            (host_counts[hour] for host_counts in counts_of_services), default=0
        )
    gaps = join(uncovered, since, until)
    return Coverage(since, until, gaps, len(hosts), hosts_of_hours)
