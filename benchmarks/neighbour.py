"""The time that a small request waits while another thread of the process builds a large response."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median, quantiles

from benchmarks.candidates import APPLICATION, DUMPED, checked_client
from benchmarks.clients import Repeat
from benchmarks.parts import Part, Results, column, thousands
from benchmarks.rounds import Effort, in_rounds
from benchmarks.work import session_of

USER = 200_000
MEDIAN, LATE = "median", "95 %"
DURING_OURS, DURING_DUMPED = "during NotificationApp", "during one orjson.dumps"

_ARRIVALS = 50
# Seconds until the next small request, at most. They are random, so that it meets the large response at any stage.
_PAUSE = 0.05


def measure(effort: Effort) -> Results:
    """Return the milliseconds that small requests wait, during each of two ways to build a large response."""
    small = checked_client(APPLICATION, 1).repeat(session_of(1))
    large = {
        DURING_OURS: checked_client(APPLICATION, 1_000).repeat(session_of(USER)),
        DURING_DUMPED: checked_client(DUMPED, 1_000).repeat(session_of(USER)),
    }
    waits = in_rounds({name: partial(_waits, small, each) for name, each in large.items()}, effort.long_rounds)
    medians = {name: tuple(map(median, rounds)) for name, rounds in waits.items()}
    late = {name: tuple(quantiles(each, n=20)[-1] for each in rounds) for name, rounds in waits.items()}
    return column(MEDIAN, medians) | column(LATE, late)


def _waits(small: Repeat, large: Repeat) -> list[float]:
    """Return the times from arrival to response, in milliseconds."""
    pauses = random.Random(0)  # the same pauses each time
    with _in_a_thread(large):
        return [_wait(small, pauses.uniform(0, _PAUSE)) for _ in range(_ARRIVALS)]


def _wait(small: Repeat, pause: float) -> float:
    arrival = time.perf_counter() + pause
    time.sleep(pause)  # lets the other thread run, as waiting for a connection does
    small(1)
    return (time.perf_counter() - arrival) * 1e3


@contextmanager
def _in_a_thread(large: Repeat) -> Iterator[None]:
    stop = threading.Event()

    def build() -> None:
        while not stop.is_set():
            large(1)

    thread = threading.Thread(target=build)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


PART = Part(
    "neighbour",
    "Milliseconds from the arrival of a request for one record to its response, while another thread builds "
    f"responses of {thousands(USER)} records, one after the other.",
    (MEDIAN, LATE),
    (DURING_OURS, DURING_DUMPED),
    measure,
)
