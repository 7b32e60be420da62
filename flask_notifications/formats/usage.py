"""The usage report: whether each operation may be switched off, and the calls and coverage that say so."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from flask_notifications.deprecation import DeprecationPolicy
from flask_notifications.operations import Operation
from flask_notifications.plans import Plan, retired_operations
from flask_notifications.validation import require

from .callers import CallerGroup, group_callers, summarise
from .effects import BrownoutEffect, describe_brownouts
from .plot import Plot, draw_plot, sum_months
from .rendering import render

if TYPE_CHECKING:
    from flask_notifications.usage.results import OperationUsage, UsageReport

# Rows of a table that are shown at once; the others are in a part that opens.
_ROWS = 15
# Rows of all tables of callers in a page; those of a table that has more are counted.
_LISTED = 1_500
# Rows of all tables of days in a page; those of a page that has more are months.
_DAYS = 2_000


def render_usage(report: "UsageReport", *, plan: Plan | None = None, title: str | None = None) -> str:
    """Return a report of usage as an HTML document: the verdicts, and the reasons for them.

    The document has no scripts and loads nothing. It works with
    ``Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'``. It names callers, so show it only to
    those who may know them.

    :param report: from ``flask_notifications.usage.read_usage``.
    :param plan: the operations and their policies; its dates are drawn, and the effects of its brownouts listed.
    :param title: the heading; by default the verdict on all operations.
    :raises ValueError: naming the argument that does not fit.
    """
    require(title is None or isinstance(title, str), "title", "a string", title)
    plan = {} if plan is None else retired_operations(plan)
    policies = {operation.name: (operation, policy) for operation, policy in plan.items()}
    sections = []
    for usage in report.operations:
        operation, policy = policies.get(usage.name, (None, None))
        plot = draw_plot(usage, report, policy)
        groups = group_callers(usage, policy, report.until)
        effects = describe_brownouts(usage, report, policy)
        sections.append(_Section(usage, operation, policy, plot, groups, effects))
    return render(
        "usage.html",
        report=report,
        title=title,
        sections=sections,
        by_month=sum(len(section.plot.days) for section in sections) > _DAYS,
        row_limit=_ROWS,
        listed=max(_ROWS, _LISTED // max(1, len(sections))),
        sum_months=sum_months,
        summarise=summarise,
    )


class _Section(NamedTuple):
    """One operation, as the page shows it."""

    usage: "OperationUsage"
    operation: Operation | None
    policy: DeprecationPolicy | None
    plot: Plot
    groups: Sequence[CallerGroup]
    brownouts: Sequence[BrownoutEffect]
