"""Measure all parts, or those that are named, and print the tables.

A target that is missed is reported. Only an application that does not do the work is an
error.
"""

import argparse
import signal
import sys
from pathlib import Path

import pytest

from benchmarks import databases, in_process, middleware, servers, usage
from benchmarks.measuring import QUICK, Effort
from benchmarks.report import draw, machine, render_targets, render_values, write

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
CHART = PAGE.parent / "_diagrams" / "benchmarks.svg"
PARTS = {
    part.name: part
    for part in (
        servers.LINE,
        in_process.PART,
        servers.PART,
        middleware.PART,
        databases.SQLITE,
        databases.POSTGRESQL,
        usage.PART,
    )
}


def main() -> None:
    """Measure, print the tables, and write those that the page has."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument(
        "--quick", action="store_true", help="few rounds, for a first look"
    )
    parser.add_argument(
        "--write", action="store_true", help=f"put the tables into {PAGE.name}, too"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(143)
    )  # so that servers are stopped and tables dropped
    blocks, chart = {"machine": machine()}, ""
    for name in arguments.parts or PARTS:
        part = PARTS[name]
        print(f"## {name}\n\n{part.note}\n", flush=True)
        try:
            results = part.run(QUICK if arguments.quick else Effort())
        except pytest.skip.Exception as reason:
            print(f"Skipped: {reason}\n", flush=True)
            continue
        blocks[name] = render_values(part, results)
        if part is servers.PART:
            chart = draw(part, results, servers.CHARTED)
        print(f"{blocks[name]}\n\n{render_targets(part, results)}\n", flush=True)
    if arguments.write:
        for name, markdown in blocks.items():
            write(PAGE, name, markdown)
    if arguments.write and chart:
        CHART.write_text(chart, encoding="utf-8")


if __name__ == "__main__":
    main()
