"""Measure the time and the memory for a whole response, in a separate process."""

import gc
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec

from benchmarks.candidates import WrongResponse
from benchmarks.clients import Client
from benchmarks.parts import Results
from benchmarks.rounds import Outcome, in_rounds
from benchmarks.work import session_of

Arguments = ParamSpec("Arguments")

SECONDS, MEGABYTES = "seconds", "MB added"


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a whole response: wall time, and memory at the peak beyond that before the request."""

    seconds: float
    megabytes: float


def run_alone(
    function: Callable[Arguments, Outcome], *arguments: Arguments.args, **options: Arguments.kwargs
) -> Outcome:
    """Call a function in a fresh interpreter and return its result."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(function, *arguments, **options).result()


def measure_response(client: Client, user: int) -> Cost:
    """Measure one response, whose length must fit those of shorter ones, which have been checked."""
    expected = _length_of(client, user)
    gc.collect()
    gc.freeze()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
    before, start = _kilobytes("VmRSS"), time.perf_counter()
    length = client.length(session_of(user))
    seconds = time.perf_counter() - start
    if length != expected:
        message = f"{length} bytes for {user} records, not {expected}"
        raise WrongResponse(message)
    return Cost(seconds, (_kilobytes("VmHWM") - before) / 1024)


def _length_of(client: Client, user: int) -> int:
    """Return how long a response must be: the records repeat every thousand."""
    one, ten = (client.length(session_of(size)) for size in (1_000, 10_000))
    return one + (ten - one) // 9 * (user // 1_000 - 1)


def _kilobytes(name: str) -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition(f"{name}:")[2].split()[0])


def in_processes(subjects: Mapping[str, Callable[[], Cost]], rounds: int) -> Results:
    """Call each subject once a round, and return the seconds and the megabytes."""
    results: Results = {}
    for name, each in in_rounds(subjects, rounds).items():
        results[SECONDS, name] = tuple(one.seconds for one in each)
        results[MEGABYTES, name] = tuple(one.megabytes for one in each)
    return results
