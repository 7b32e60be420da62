"""The usage report: whether each operation may be switched off, and the calls and
coverage that say so.
"""

from typing import TYPE_CHECKING, Any

from flask_notifications.plans.plan import Plan, deprecated_operations
from flask_notifications.validation import require

from .callers import group_callers, summarise
from .effects import describe_brownouts
from .plot import Plot
from .rendering import check_title, render
from .text import SUMMARIES

if TYPE_CHECKING:
    from flask_notifications.usage.results import UsageReport

# Rows of a table that are shown at once; the others are in a part that opens.
_ROWS = 15
# Rows of a kind of table, and bars, in all operations together, and bytes of the page:
# a larger one lists fewer rows.
_LISTED, _BYTES = 2_000, 2_000_000


def render_usage(
    report: "UsageReport", *, plan: Plan | None = None, title: str | None = None
) -> str:
    """Return a report of usage as an HTML document: the verdicts, and the reasons for
    them.

    The document has no scripts and loads nothing. It works with
    ``Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'``. It names
    callers, so show it only to those who may know them.

    :param report: from ``flask_notifications.usage.read_usage``.
    :param plan: the operations and their policies; its dates are drawn, and the effects
        of its brownouts listed.
    :param title: the heading; by default the verdict on all operations.
    :raises ValueError: naming the argument that does not fit.
    """
    require(hasattr(report, "operations"), "report", "a UsageReport", report)
    check_title(title)
    plan = {} if plan is None else deprecated_operations(plan)
    policies = {
        operation.name: (operation, policy) for operation, policy in plan.items()
    }
    number = max(1, len(report.operations))
    sections = []
    for usage in report.operations:
        operation, policy = policies.get(usage.name, (None, None))
        section: dict[str, Any] = {
            "usage": usage,
            "operation": operation,
            "policy": policy,
        }
        section["plot"] = Plot(usage, report, policy, limit=max(1, _LISTED // number))
        section["groups"] = group_callers(usage, policy, report.until)
        section["brownouts"] = describe_brownouts(usage, report, policy)
        sections.append(section)
    summary = SUMMARIES[report.verdict] if sections else "Nothing has been recorded"
    values: dict[str, Any] = {
        "report": report,
        "heading": summary if title is None else title,
        "sections": sections,
    }
    values |= {"row_limit": _ROWS, "summarise": summarise}
    listed = max(_ROWS, _LISTED // number)
    while (
        len((page := render("usage.html", **values, listed=listed)).encode()) >= _BYTES
        and listed
    ):
        listed = listed * 2 // 3
    return page
