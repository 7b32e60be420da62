"""Time several subjects in rounds: each round runs every subject once, in changing
order.

A machine that is slow for a while is then slow for all subjects. Ratios are computed in
a round, medians over rounds.
"""

import gc
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import truediv

Values = tuple[float, ...]
"""One value for each round."""

Results = dict[tuple[str, str], Values]
"""The values of each column and row of a table."""

Repeat = Callable[[int], object]
"""Make a number of requests, one after the other, and read each response to its end."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: ``rounds`` take ``seconds`` for each subject; each server is
    started ``long_rounds`` times, because one start may be off by 10 %.
    """

    rounds: int = 15
    seconds: float = 0.02
    long_rounds: int = 14


QUICK = Effort(rounds=3, seconds=0.005, long_rounds=2)


@dataclass(frozen=True, slots=True)
class Target:
    """The largest ratio of one row of a column to another row."""

    column: str
    row: str
    limit: float
    other: str

    def measured(self, results: Results) -> Values:
        """Return the ratio in each round."""
        return tuple(
            map(
                truediv,
                results[self.column, self.row],
                results[self.column, self.other],
            )
        )


@dataclass(frozen=True, slots=True)
class Part:
    """A part with its name on the command line, and the columns, rows and targets of
    its table.

    ``note`` describes the values and how they were measured.
    """

    name: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    run: Callable[[Effort], Results]
    targets: tuple[Target, ...]


def of_records(user: int) -> str:
    """Return the heading of a column: the number of records of a user."""
    return f"N = {user:,}"


def column(name: str, values: Mapping[str, Values]) -> Results:
    """Return one column of a table."""
    return {(name, row): each for row, each in values.items()}


def in_rounds(
    subjects: Mapping[str, Callable[[], float]], rounds: int
) -> dict[str, Values]:
    """Call every subject once a round, and return the results of each by round."""
    values: dict[str, list[float]] = {name: [] for name in subjects}
    names = list(subjects)
    order = random.Random(0)  # the same order in each run
    for _ in range(rounds):
        order.shuffle(names)
        for name in names:
            values[name].append(subjects[name]())
    return {name: tuple(each) for name, each in values.items()}


def time_requests(
    repeats: Mapping[str, Repeat],
    effort: Effort,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, Values]:
    """Return the microseconds of one request by round; the garbage collector is on, as
    in production.

    By default ``clock`` is processor time, which does not depend on other processes.
    """
    subjects = {
        name: _timer(repeat, effort.seconds, clock) for name, repeat in repeats.items()
    }
    gc.collect()
    gc.freeze()  # the collector skips the records, which would be in a database
    return in_rounds(subjects, effort.rounds)


def _timer(
    repeat: Repeat, seconds: float, clock: Callable[[], float]
) -> Callable[[], float]:
    count = _count(repeat, seconds)
    return lambda: _elapsed(repeat, count, clock) * 1e6 / count


def _count(repeat: Repeat, seconds: float) -> int:
    """Return how many requests take about this many seconds; counting them also warms
    up.
    """
    count = 1
    # The best of three, because one interruption would lead to far too few requests.
    while (
        taken := min(_elapsed(repeat, count, time.perf_counter) for _ in range(3))
    ) < seconds / 4:
        count *= 2
    return max(1, round(count * seconds / taken))


def _elapsed(repeat: Repeat, count: int, clock: Callable[[], float]) -> float:
    start = clock()
    repeat(count)
    return clock() - start
