"""Time several things next to each other: in rounds, each of which runs every one of them once, in changing order.

A machine that is slow for a while is then slow for all of them. Ratios are taken inside a round, medians over rounds.
"""

import gc
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import truediv
from statistics import median
from typing import TypeVar

from benchmarks.clients import Repeat

Outcome = TypeVar("Outcome")
Values = tuple[float, ...]
"""One value for each round."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure.

    ``rounds``, of ``seconds`` for each thing; ``long_rounds`` of what takes seconds by itself; and whether to measure
    at all what takes minutes.
    """

    rounds: int = 15
    seconds: float = 0.02
    long_rounds: int = 5
    patient: bool = True


QUICK = Effort(rounds=3, seconds=0.005, long_rounds=1, patient=False)


def in_rounds(subjects: Mapping[str, Callable[[], Outcome]], rounds: int) -> dict[str, tuple[Outcome, ...]]:
    """Call every subject once a round, and return what each returned, round by round."""
    values: dict[str, list[Outcome]] = {name: [] for name in subjects}
    names = list(subjects)
    order = random.Random(0)  # the same order in each run
    for _ in range(rounds):
        order.shuffle(names)
        for name in names:
            values[name].append(subjects[name]())
    return {name: tuple(each) for name, each in values.items()}


def timed(
    repeats: Mapping[str, Repeat], effort: Effort, clock: Callable[[], float] = time.process_time
) -> dict[str, Values]:
    """Return the microseconds that one request takes, round by round; the collector is on, as in production.

    Processor time, unless another ``clock`` is given: what else the machine does is not counted.
    """
    subjects = {name: _timer(repeat, effort.seconds, clock) for name, repeat in repeats.items()}
    gc.collect()
    gc.freeze()  # the records stand for a database: no collection walks through them
    return in_rounds(subjects, effort.rounds)


def _timer(repeat: Repeat, seconds: float, clock: Callable[[], float]) -> Callable[[], float]:
    count = _count(repeat, seconds)
    return lambda: _taken(repeat, count, clock) * 1e6 / count


def _count(repeat: Repeat, seconds: float) -> int:
    """Return how many requests take about so many seconds; this warms up, too."""
    count = 1
    # The best of three, or a hiccup ends in far too few.
    while (taken := min(_taken(repeat, count, time.perf_counter) for _ in range(3))) < seconds / 4:
        count *= 2
    return max(1, round(count * seconds / taken))


def _taken(repeat: Repeat, count: int, clock: Callable[[], float]) -> float:
    start = clock()
    repeat(count)
    return clock() - start


def ratios(these: Values, those: Values) -> Values:
    """Return the ratios inside the rounds that both were in."""
    return tuple(map(truediv, these, those))


def spread(values: Values) -> float:
    """Return the median distance from the median."""
    middle = median(values)
    return median(abs(value - middle) for value in values)
