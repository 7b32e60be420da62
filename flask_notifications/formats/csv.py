"""A usage report as CSV, for spreadsheets and programs; times are ISO 8601 in UTC."""

import csv
import re
from io import StringIO
from typing import TYPE_CHECKING

from flask_notifications.plans.plan import Plan
from flask_notifications.wording import escape

from .text import group_operations

if TYPE_CHECKING:
    from flask_notifications.usage import UsageReport

_TITLES = (
    *(
        "operation",
        "verdict",
        "caller",
        "client",
        "source",
        "answered",
        "failed",
        "closed",
    ),
    *("first_at", "last_at", "ignored", "stopped_on", "coverage"),
)
# At the beginning of a cell, which a semicolon ends in some countries; East Asian
# spreadsheets accept full-width forms.
_FORMULA = re.compile(r'(^|;)(?=[\s"]*[=+\-@\uff1d\uff0b\uff0d\uff20])')


def format_usage(report: "UsageReport", plan: Plan | None = None) -> str:
    """Return a row for each caller, client and source, or one without; times are ISO
    8601 in UTC.
    """
    written = StringIO()
    writer = csv.DictWriter(written, _TITLES, lineterminator="\n")
    writer.writeheader()
    for operation, groups in group_operations(report, plan):
        of_all = {
            "operation": operation.name,
            "verdict": operation.verdict,
            "coverage": f"{operation.coverage:g}",
        }
        rows = [
            caller.to_dict() | {"stopped_on": group.stopped_on}
            for group in groups
            for caller in group.rows
        ]
        for row in rows or [{"answered": 0, "failed": 0, "closed": 0}]:
            writer.writerow(
                {title: _guard(value) for title, value in {**of_all, **row}.items()}
            )
    return written.getvalue().removesuffix("\n")


def _guard(value: object) -> str:
    """Return a cell that no spreadsheet interprets as a formula, and no terminal as a
    command.
    """
    cell = (
        ""
        if value is None
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )
    return escape(_FORMULA.sub(r"\1'", cell))
