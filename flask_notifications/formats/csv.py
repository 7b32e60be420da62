"""A usage report as CSV, for spreadsheets and programs; times are ISO 8601 in UTC."""

import csv
import re
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING

from flask_notifications.plans import Plan
from flask_notifications.wording import escape

from .callers import CallerGroup
from .text import group_operations

if TYPE_CHECKING:
    from flask_notifications.usage import CallerUsage, UsageReport

_TITLES = (
    *("operation", "verdict", "caller", "client", "source", "answered", "failed", "closed"),
    *("first_at", "last_at", "ignored", "stopped_on", "coverage"),
)
# At the beginning of a cell, which a semicolon ends in some countries; East Asian spreadsheets accept full-width forms.
_FORMULA = re.compile(r'(^|;)(?=[\s"]*[=+\-@\uff1d\uff0b\uff0d\uff20])')


def format_usage(report: "UsageReport", plan: Plan | None = None) -> str:
    """Return a row for each caller, client and source, or one without; times are ISO 8601 in UTC."""
    written = StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(_TITLES)
    for operation, groups in group_operations(report, plan):
        rows = [_csv_row(caller, group) for group in groups for caller in group.rows] or [_NOBODY]
        coverage = f"{operation.coverage:g}"
        writer.writerows(map(_guard, [operation.name, operation.verdict, *row, coverage]) for row in rows)
    return written.getvalue().removesuffix("\n")


_NOBODY = ("", "", "", "0", "0", "0", "", "", "", "")


def _csv_row(caller: "CallerUsage", group: CallerGroup) -> Sequence[str]:
    values = caller.to_dict() | {"ignored": str(caller.ignored).lower(), "stopped_on": group.stopped_on}
    return ["" if value is None else str(value) for value in values.values()]


def _guard(cell: str) -> str:
    """Return a cell that no spreadsheet interprets as a formula, and no terminal as a command."""
    return escape(_FORMULA.sub(r"\1'", cell))
