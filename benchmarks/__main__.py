"""Measure all parts, or those that are named, and print the tables.

A target that is missed is reported. Only an application that does not do the work is an error.
"""

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks import (
    databases,
    in_process,
    instructions,
    middleware,
    million,
    neighbour,
    scaling,
    schema,
    servers,
    usage,
)
from benchmarks.plot import draw
from benchmarks.report import machine, tables, write
from benchmarks.rounds import QUICK, Effort

if TYPE_CHECKING:
    from benchmarks.parts import Results

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"

PARTS = {
    part.name: part
    for part in (
        in_process.PART,
        million.PART,
        schema.PART,
        middleware.PART,
        instructions.PART,
        scaling.PART,
        servers.PART,
        databases.SQLITE,
        databases.POSTGRESQL,
        neighbour.PART,
        usage.REQUESTS,
        usage.STORES,
    )
}


def main() -> None:
    """Measure, print the tables, and write the page if that is asked for."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers are stopped and tables dropped
    results: dict[str, Results] = {}
    for name in arguments.parts or PARTS:
        print(f"## {name}\n", flush=True)
        try:
            results[name] = PARTS[name].run(QUICK if arguments.quick else Effort())
        except pytest.skip.Exception as reason:
            print(f"Skipped: {reason}\n", flush=True)
        else:
            _show(name, tables(PARTS[name], results[name]), to_page=arguments.write)
    _show("machine", machine(), to_page=arguments.write)
    if arguments.write and {in_process.PART.name, million.PART.name} <= results.keys():
        draw(results[in_process.PART.name], results[million.PART.name], PAGE.with_suffix(".svg"))


def _show(block: str, markdown: str, *, to_page: bool) -> None:
    print(f"{markdown}\n", flush=True)
    if to_page:
        write(PAGE, block, markdown)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="few rounds, for a first look")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}, too")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    return arguments


if __name__ == "__main__":
    main()
