"""Serve traffic during random failures, and check every response against the guarantees: `make soak`.

The soak runs gunicorn with and without nginx, PostgreSQL, and a TCP proxy that injects failures. The command exits with
status 1 if a guarantee was violated.
"""

import argparse
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from statistics import median
from types import FrameType

import pytest

from tests.soak.judge import TOLERANCES, thirds
from tests.soak.rounds import PROGRAMS, History, soak, staged

# The number of violations that are reported in full.
REPORTED = 5


def main() -> int:
    """Run the soak that the command line asks for, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, prog="make soak")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))  # noqa: S311 - no secret
    parser.add_argument("--worker", choices=PROGRAMS, default="gthread")
    arguments = parser.parse_args()
    interrupts: list[int] = []
    handle_signals(
        lambda number, _frame: interrupts.append(number)
    )  # one while a process starts would leave it running
    sys.stdout.write(f"{arguments.seconds:.0f} seconds of {arguments.worker}, seed {arguments.seed}\n")
    sys.stdout.flush()
    try:
        with staged(arguments.worker) as stage:
            handle_signals(signal.default_int_handler)  # stops the processes that were started
            for number in interrupts:
                signal.raise_signal(number)
            history = soak(stage, arguments.seconds, arguments.seed)
    except pytest.skip.Exception as missing:
        sys.exit(f"{missing}. On Debian: apt-get install nginx-light postgresql")
    except KeyboardInterrupt:
        os._exit(130)  # all processes are stopped, and threads that wait for a response are abandoned
    sys.stdout.writelines(f"{line}\n" for line in report(history))
    return 1 if history.broken else 0


def handle_signals(handler: Callable[[int, FrameType | None], object]) -> None:
    """Call a function when somebody stops the program."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


def report(history: History) -> Iterator[str]:
    """Yield the lines of the report on a soak."""
    yield from _table("requests", _requests(history))
    yield from _table("disturbances: times, seconds to heal (median, worst), requests that suffered", _healing(history))
    yield from _table("idle workers: from the first third of the time to the last", _workers(history))
    yield from history.broken[:REPORTED]
    yield f"{sum(history.outcomes.values())} requests, broken promises: {len(history.broken)}"


def _table(title: str, rows: Iterator[tuple[str, str]]) -> Iterator[str]:
    yield title
    yield from (f"  {name:32} {value}" for name, value in rows)
    yield ""


def _requests(history: History) -> Iterator[tuple[str, str]]:
    names = dict.fromkeys(name for name, _situation in sorted(history.outcomes))
    for name in names:
        counts = sorted((count, what) for (asked, what), count in history.outcomes.items() if asked == name)
        yield name, ", ".join(f"{what} {count}" for count, what in reversed(counts))


def _healing(history: History) -> Iterator[tuple[str, str]]:
    for name, seconds in sorted(history.healing.items()):
        yield name, f"{len(seconds):3} {median(seconds):6.2f} {max(seconds):6.2f} {history.suffered[name]:5}"


def _workers(history: History) -> Iterator[tuple[str, str]]:
    for (worker, unit), samples in sorted(history.samples.items()):
        first, last = thirds(samples) or (samples[0], samples[-1])
        change = f"{first:.1f} -> {last:.1f}, of {len(samples)}; may grow by {TOLERANCES[unit]}"
        yield f"process {worker}, {unit}", change


if __name__ == "__main__":
    sys.exit(main())
