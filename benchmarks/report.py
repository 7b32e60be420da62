"""Write the measured values as Markdown that is also readable in a terminal."""

import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

from benchmarks.measuring import Part, Results, Values

# The packages that are measured, by their names on PyPI.
_PACKAGES = (
    "Flask",
    "Werkzeug",
    "orjson",
    "falcon",
    "SQLAlchemy",
    "psycopg",
    "gunicorn",
)


def machine() -> str:
    """Return the date, the machine and the versions."""
    processor = re.findall(
        r"^model name\s*: (.*)$",
        Path("/proc/cpuinfo").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        f"Measured on {datetime.now(UTC):%-d %b %Y}, on {os.cpu_count()} cores ({processor[0]}), "
        f"Python {platform.python_version()}, with {versions}."
    )


def write(page: Path, block: str, markdown: str) -> None:
    """Replace a block of a page, which is between the two comments with its name, if
    the page has it.
    """
    begin, end = f"<!-- begin {block} -->\n", f"<!-- end {block} -->"
    head, found, rest = page.read_text(encoding="utf-8").partition(begin)
    if found:
        page.write_text(
            f"{head}{begin}{markdown}\n{end}{rest.partition(end)[2]}", encoding="utf-8"
        )


def render_values(part: Part, results: Results) -> str:
    """Return a table of medians over the rounds, and the largest of the median
    distances from them.
    """
    measured = {
        row: [results.get((column, row)) for column in part.columns]
        for row in part.rows
    }
    lines = [
        [row, *(_number(median(each)) if each else "" for each in values)]
        for row, values in measured.items()
    ]
    table = _table(["", *part.columns], lines)
    return f"{table}\n\nThe rounds differ by {max(map(_distance, results.values())):.0f} % or less."


def draw(part: Part, results: Results, column: str) -> str:
    """Draw the medians of one column as bars, in the colours of the documentation."""
    medians = {row: median(results[column, row]) for row in part.rows}
    described = ", ".join(f"{row}: {_number(value)}" for row, value in medians.items())
    bars = [
        f'<text x="180" y="{y + 5}" class="note end">{row}</text>\n'
        f'<line x1="190" y1="{y}" x2="{190 + 200 * value / max(medians.values()):.0f}" y2="{y}" class="works bar"/>\n'
        f'<text x="400" y="{y + 5}" class="note start">{_number(value)}</text>\n'
        for y, (row, value) in zip(range(20, 900, 34), medians.items(), strict=False)
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 440 {34 * len(bars)}" role="img"'
    return f'<div class="diagram">{head} aria-label="{described}">\n{"".join(bars)}</svg></div>\n'


def render_targets(part: Part, results: Results) -> str:
    """Return a table of the targets of a part, and whether they are reached."""
    lines = []
    for target in part.targets:
        measured = target.measured(results)
        reached = "yes" if median(measured) <= target.limit else "NO"
        named = f"{target.column}: {target.row} / {target.other}"
        value = f"{_number(median(measured))} ±{_distance(measured):.0f} %"
        lines.append([named, _number(target.limit), value, reached])
    return _table(["target", "at most", "measured", "reached"], lines)


def _distance(values: Values) -> float:
    """Return the median distance from the median, in percent."""
    middle = median(values)
    return 100 * median(abs(value - middle) for value in values) / abs(middle)


def _number(value: float) -> str:
    """Return a number with three significant digits, and a comma between its thousands."""
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{digits}f}"


def _table(heading: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, cells)) for cells in zip(heading, *lines, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(_line(cells, widths) for cells in (heading, rule, *lines))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (
        cell.rjust(width) if number else cell.ljust(width)
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return f"| {' | '.join([first, *others])} |"
