"""A part of the benchmarks: its table, the function that measures it, and its targets."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.rounds import Effort, Values, ratios

Case = tuple[str, str]
"""A column and a row of a table."""

Results = dict[Case, Values]


@dataclass(frozen=True, slots=True)
class Target:
    """The largest ratio of one row of a column to another row, or to the best of several other rows."""

    column: str
    row: str
    limit: float
    others: tuple[str, ...]

    def measured(self, results: Results) -> Values | None:
        """Return the ratio in each round, or ``None`` if a value is missing."""
        cases = [(self.column, row) for row in (self.row, *self.others)]
        if not results.keys() >= set(cases):
            return None
        ours, *others = (results[case] for case in cases)
        return ratios(ours, tuple(map(min, zip(*others, strict=True))))


@dataclass(frozen=True, slots=True)
class Part:
    """A part with its name on the command line, and the columns and rows of its table.

    ``note`` describes the values and how they were measured.
    """

    name: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    run: Callable[[Effort], Results]


def thousands(number: float, digits: int = 0) -> str:
    """Return a number with some decimals, and a space between its thousands."""
    return f"{number:,.{digits}f}".replace(",", " ")


def of_records(user: int) -> str:
    """Return the heading of a column: the number of records of a user."""
    return f"N = {thousands(user)}"


def column(name: str, values: dict[str, Values]) -> Results:
    """Return one column of a table."""
    return {(name, row): each for row, each in values.items()}
