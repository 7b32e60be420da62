"""One million records: the whole response, built and read, in a separate process for each candidate and round."""

from functools import partial

from benchmarks.candidates import CANDIDATES, READY, checked_client
from benchmarks.parts import Part, Results
from benchmarks.processes import MEGABYTES, SECONDS, Cost, in_processes, measure_response, run_alone
from benchmarks.rounds import Effort

MILLION = 1_000_000

_ROWS = tuple(name for name in CANDIDATES if name != READY)


def measure(effort: Effort) -> Results:
    """Return seconds and megabytes; slow candidates are measured once or not at all."""
    subjects = {name: partial(run_alone, measure_one, name) for name in _ROWS}
    fast = {name: subject for name, subject in subjects.items() if not CANDIDATES[name].slow}
    slow = {name: subject for name, subject in subjects.items() if CANDIDATES[name].slow}
    results = in_processes(fast, effort.long_rounds)
    return results | in_processes(slow, 1) if effort.patient else results


def measure_one(name: str) -> Cost:
    """Return the cost of a million records of one candidate."""
    return measure_response(checked_client(name, 1, 1_000, 10_000), MILLION)


PART = Part(
    "million",
    "One million records, 363 MB: seconds to build and read the whole response, by the wall clock, and the memory in "
    "MB at the peak beyond that before the request. Each in a fresh process. Records are created one by one, as by a "
    "database's driver; an application that cannot respond with an iterator makes a list of them.",
    (SECONDS, MEGABYTES),
    _ROWS,
    measure,
)
