"""One million records: the whole answer, built and read, in a process of its own for each candidate and round."""

from functools import partial

from benchmarks.candidates import CANDIDATES, READY, checked
from benchmarks.parts import Part, Results
from benchmarks.processes import MEGABYTES, SECONDS, Whole, alone, in_processes, whole
from benchmarks.rounds import Effort

MILLION = 1_000_000

_ROWS = tuple(name for name in CANDIDATES if name != READY)


def measure(effort: Effort) -> Results:
    """Return seconds and megabytes; the slow ones are asked once, if at all."""
    subjects = {name: partial(alone, answer, name) for name in _ROWS}
    fast = {name: subject for name, subject in subjects.items() if not CANDIDATES[name].slow}
    slow = {name: subject for name, subject in subjects.items() if CANDIDATES[name].slow}
    results = in_processes(fast, effort.long_rounds)
    return results | in_processes(slow, 1) if effort.patient else results


def answer(name: str) -> Whole:
    """Measure one candidate."""
    return whole(checked(name, 1, 1_000, 10_000), MILLION)


PART = Part(
    "million",
    "One million records, 363 MB: seconds to build and read the whole answer, by the wall clock, and the memory in MB "
    "at the peak beyond that before the request. Each in a fresh process. Records are made one by one, as by a "
    "database's driver; whoever cannot answer with rows as they come makes a list of them.",
    (SECONDS, MEGABYTES),
    _ROWS,
    measure,
)
