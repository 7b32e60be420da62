"""When calls would have been recorded: intervals of time, from the rows of the
recorders.

Times are microseconds since 1970. Knows nothing of calls and verdicts.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain, pairwise
from typing import NamedTuple, TypeAlias

from .times import DAY, HOUR, SECOND

Interval: TypeAlias = tuple[int, int]


class RecorderRow(NamedTuple):
    """The row of a recorder."""

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

    def is_in(self, since: int, until: int) -> bool:
        """Return whether the recorder was alive in a window."""
        return self.began_at < until and self.heard_at >= since


def combine(
    intervals: Iterable[Interval], *, without: Iterable[Interval] = ()
) -> list[Interval]:
    """Return disjoint intervals in order that cover the time of some, but not that of
    others.
    """
    edges = [edge for start, end in intervals for edge in ((start, 1, 0), (end, -1, 0))]
    edges += [edge for start, end in without for edge in ((start, 0, 1), (end, 0, -1))]
    combined: list[Interval] = []
    inside = outside = 0
    for (at, one, other), (after, _one, _other) in pairwise(sorted(edges)):
        inside, outside = inside + one, outside + other
        if inside > 0 and outside == 0 and at < after:
            is_next = combined and combined[-1][1] == at
            since = combined.pop()[0] if is_next else at
            combined.append((since, after))
    return combined


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
        return combine([(self.since, self.until)], without=self.covered)

    @cached_property
    def longest_gap(self) -> Interval:
        """The longest gap, an empty interval if there is none."""
        return max(
            self.gaps, key=lambda gap: gap[1] - gap[0], default=(self.since, self.since)
        )

    @cached_property
    def hours_of_days(self) -> dict[int, float]:
        """The covered hours of each day, by its number since 1970."""
        days = range(self.since // DAY, -(-self.until // DAY))
        return {
            day: length(clip(self.covered, day * DAY, (day + 1) * DAY)) / HOUR
            for day in days
        }

    @cached_property
    def fewest_hosts(self) -> int:
        """The lowest number of hosts that recorded in a complete hour of the window; 0
        without one.
        """
        recording = Counter(
            hour
            for own in (
                clip(intervals, self.since, self.until)
                for intervals in self.hosts.values()
            )
            for hour in {
                hour
                for start, end in own
                for hour in range(start // HOUR, -(-end // HOUR))
            }
        )
        hours = range(-(-self.since // HOUR), self.until // HOUR)
        return min((recording[hour] for hour in hours), default=0)


# The time that is covered, and when each host recorded.
_Lives: TypeAlias = tuple[list[Interval], dict[str, list[Interval]]]


class Recorders:
    """The recorders of one service.

    The time of those with a clock of their own is the end of the window.
    """

    def __init__(
        self,
        rows: Sequence[RecorderRow],
        plans: Mapping[str, Mapping[str, str]],
        now: int,
        until: int,
    ) -> None:
        self.rows = rows
        self.heard_at: int = max(row.heard_at for row in rows)
        self._plans = {row.plan: plans.get(row.plan, {}) for row in rows}
        lost = [
            row
            for row in rows
            if not row.ended
            and row.heard_at + 90 * SECOND < (until if row.own_clock else now)
        ]
        # Whatever it counted since its last sign of life is missing, and nobody knows
        # when it ended.
        self.losses: list[tuple[Interval, RecorderRow]] = [
            (
                (
                    row.heard_at,
                    row.gone_at
                    or max((row.heard_at // DAY + 1) * DAY, row.heard_at + HOUR),
                ),
                row,
            )
            for row in lost
        ]
        self.join: Callable[[frozenset[str]], _Lives] = cache(self._join_lives)

    def fitting(self, operation: str, expected: str | None) -> frozenset[str] | None:
        """Return the digests of the plans with a fingerprint, by default that heard
        last; ``None``: no plan has any.
        """
        known = {
            plan: own[operation]
            for plan, own in self._plans.items()
            if operation in own
        }
        if not known:
            return None
        if expected is None:
            last = max(
                (row for row in self.rows if row.plan in known),
                key=lambda row: (row.heard_at, row.began_at),
            )
            expected = known[last.plan]
        return frozenset(
            plan for plan, fingerprint in known.items() if fingerprint == expected
        )

    def _join_lives(self, fitting: frozenset[str]) -> _Lives:
        """Return the time that recorders with some plans cover, and when each of their
        hosts recorded.
        """
        hosts: dict[str, list[Interval]] = defaultdict(list)
        others = [loss for loss, _row in self.losses]
        for row in self.rows:
            (hosts[row.host] if row.plan in fitting else others).append(
                (row.began_at, row.heard_at)
            )
        covered = combine(chain.from_iterable(hosts.values()), without=others)
        return covered, {host: combine(own) for host, own in hosts.items()}
