"""Write the measured values as Markdown that is also readable in a terminal."""

import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

from benchmarks.parts import Part, Results, Target, thousands
from benchmarks.rounds import Values, spread
from benchmarks.targets import TARGETS

# The packages that are measured, by their names on PyPI.
_PACKAGES = (
    "Flask-Notifications",
    "Flask",
    "Werkzeug",
    "orjson",
    "marshmallow",
    "flask-smorest",
    "Flask-RESTful",
    "Django",
    "djangorestframework",
    "falcon",
    "starlette",
    "msgspec",
    "fastapi",
    "pydantic",
    "whitenoise",
    "SQLAlchemy",
    "psycopg",
    "gunicorn",
)


def tables(part: Part, results: Results) -> str:
    """Return a part as Markdown: its note, the measured values, and the targets."""
    sections = (part.note, _render_values(part, results), _targets(part, results))
    return "\n\n".join(section for section in sections if section)


def machine() -> str:
    """Return the date, the machine and the versions as Markdown."""
    processor = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        f"Measured on {datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} cores ({processor[0]}), {platform.system()} "
        f"{platform.release()}, Python {platform.python_version()}, with {versions}."
    )


def write(page: Path, block: str, markdown: str) -> None:
    """Replace a block of a page, which is between the two comments with its name."""
    begin, end = f"<!-- begin {block} -->\n", f"<!-- end {block} -->"
    head, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        message = f"{page} has no block {block}"
        raise LookupError(message)
    page.write_text(f"{head}{begin}{markdown}\n{end}{tail}", encoding="utf-8")


def _render_values(part: Part, results: Results) -> str:
    cells = {row: [_cell(results.get((column, row))) for column in part.columns] for row in part.rows}
    return _table(["", *part.columns], [[row, *each] for row, each in cells.items() if any(each)])


def _cell(values: Values | None) -> str:
    if values is None:
        return ""
    number = _number(median(values))
    return number if len(values) == 1 else f"{number} ±{_percent(values)}"


def _percent(values: Values) -> str:
    middle = abs(median(values))
    return f"{100 * spread(values) / middle:.0f} %" if middle else "0 %"


def _number(value: float) -> str:
    """Return a number with three significant digits."""
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return thousands(value, digits)


def _targets(part: Part, results: Results) -> str:
    measured = ((target, target.measured(results)) for target in TARGETS[part.name])
    lines = [_target(target, values) for target, values in measured if values is not None]
    return _table(["target", "at most", "measured", "reached"], lines)


def _target(target: Target, measured: Values) -> list[str]:
    other = target.others[0] if len(target.others) == 1 else "the best peer"
    reached = "yes" if median(measured) <= target.limit else "NO"
    return [f"{target.column}: {target.row} / {other}", _number(target.limit), _cell(measured), reached]


def _table(heading: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    if not lines:
        return ""
    widths = [max(map(len, cells)) for cells in zip(heading, *lines, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(_line(cells, widths) for cells in (heading, rule, *lines))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (
        cell.rjust(width) if number else cell.ljust(width)
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return f"| {' | '.join([first, *others])} |"
