"""What a part of the benchmarks is: a question, and the values that answer it."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.rounds import Effort, Values, ratios

Case = tuple[str, str]
"""What is measured (a column of the table), and for whom (a row)."""

Results = dict[Case, Values]


@dataclass(frozen=True, slots=True)
class Target:
    """What one row of a column may be at most, in times of another row: of the best, where there are several."""

    column: str
    row: str
    limit: float
    others: tuple[str, ...]

    def measured(self, results: Results) -> Values | None:
        """Return the ratio inside each round, or ``None`` without all of the values."""
        cases = [(self.column, row) for row in (self.row, *self.others)]
        if not results.keys() >= set(cases):
            return None
        ours, *others = (results[case] for case in cases)
        return ratios(ours, tuple(map(min, zip(*others, strict=True))))


@dataclass(frozen=True, slots=True)
class Part:
    """A part by its name on the command line, with the shape of its table.

    ``note`` says what the values are and how they were taken.
    """

    name: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    run: Callable[[Effort], Results]


def thousands(number: float, digits: int = 0) -> str:
    """Return a number with so many decimals, and a space between its thousands."""
    return f"{number:,.{digits}f}".replace(",", " ")


def of_records(user: int) -> str:
    """Return the heading of a column: the number of records of a user."""
    return f"N = {thousands(user)}"


def column(name: str, values: dict[str, Values]) -> Results:
    """Return one column of a table."""
    return {(name, row): each for row, each in values.items()}
