"""A usage report as CSV, for spreadsheets and programs; times are ISO 8601 in UTC."""

import csv
import re
from io import StringIO
from typing import TYPE_CHECKING, Any

from flask_notifications.plans.plan import Plan
from flask_notifications.wording import escape, iso

from .text import group_operations

if TYPE_CHECKING:
    from flask_notifications.usage import UsageReport

_TITLES = (
    "operation",
    "verdict",
    "caller",
    "client",
    "source",
    "answered",
    "refused",
    "failed",
    "closed",
    "first_at",
    "last_at",
    "ignored",
    "stopped_on",
    "coverage",
    "as_of",
    "record",
)
# The beginning of a formula in a cell. Spreadsheets of some countries begin a new cell
# after a semicolon, and East Asian ones accept full-width characters.
_FORMULA = re.compile(r'(^|;)(?=[\s"]*[=+\-@\uff1d\uff0b\uff0d\uff20])')


def format_usage(report: "UsageReport", plan: Plan | None = None) -> str:
    """Return a row for each caller, client and source of an operation.

    An operation without calls has one row.
    """
    written = StringIO()
    writer = csv.DictWriter(written, _TITLES, lineterminator="\n")
    writer.writeheader()
    for usage, groups in group_operations(report, plan):
        rows: list[dict[str, Any]] = []
        for group in groups:
            rows += [row.to_dict() for row in group.rows]
        if not rows:
            rows.append({"answered": 0, "refused": 0, "failed": 0, "closed": 0})
        for row in rows:
            row |= {
                "operation": usage.name,
                "verdict": usage.verdict,
                "coverage": f"{usage.coverage:g}",
                "as_of": iso(report.as_of),
                "record": "; ".join(usage.notes),
            }
            writer.writerow({title: _guard(value) for title, value in row.items()})
    return written.getvalue().removesuffix("\n")


def _guard(value: object) -> str:
    """Return a cell that is a formula for no spreadsheet and harmless on a terminal."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return escape(_FORMULA.sub(r"\1'", str(value)))
