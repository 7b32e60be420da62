"""Serve under traffic and random faults for a while, and hold every answer against the promises: `make soak`.

All is real: gunicorn behind nginx and without it, PostgreSQL, and a network that fails when it is told to. The command
ends with 1 when a promise was broken.
"""

import argparse
import os
import random
import signal
import sys
from collections.abc import Iterator
from statistics import median

import pytest

from tests.soak.judge import TOLERANCES, thirds
from tests.soak.rounds import PROGRAMS, History, soak, staged

# Broken promises that are told in full.
TOLD = 5


def main() -> int:
    """Soak for as long as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, prog="make soak")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))  # noqa: S311 - no secret
    parser.add_argument("--worker", choices=PROGRAMS, default="gthread")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # which stops what was started, too
    sys.stdout.write(f"{arguments.seconds:.0f} seconds of {arguments.worker}, seed {arguments.seed}\n")
    sys.stdout.flush()
    try:
        with staged(arguments.worker) as stage:
            history = soak(stage, arguments.seconds, arguments.seed)
    except pytest.skip.Exception as missing:
        sys.exit(str(missing))
    except KeyboardInterrupt:
        os._exit(130)  # everything is stopped, and no thread is waited for that still waits for an answer
    sys.stdout.writelines(f"{line}\n" for line in report(history))
    return 1 if history.broken else 0


def report(history: History) -> Iterator[str]:
    """Yield the lines of what has been."""
    yield from _table("requests", _requests(history))
    yield from _table("disturbances: times, seconds to heal (median, worst), requests that suffered", _healing(history))
    yield from _table("workers at rest: from the first third of the time to the last", _workers(history))
    yield from history.broken[:TOLD]
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
