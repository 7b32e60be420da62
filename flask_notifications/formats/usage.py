"""The usage report as HTML: verdicts, and the calls and coverage behind them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from flask_notifications.plans.plan import Plan, deprecated_operations, next_event
from flask_notifications.plans.policy import DeprecationPolicy, Phase
from flask_notifications.validation import require
from flask_notifications.wording import enumerate_names, full_date, relative

from .callers import CallerGroup, group_callers, summarise
from .plot import Plot, list_brownouts
from .rendering import check_title, render
from .text import SUMMARIES

if TYPE_CHECKING:
    from flask_notifications.plans.operations import Operation
    from flask_notifications.usage.results import OperationUsage, UsageReport

# The most rows of a table that are visible; a click shows the others.
_ROWS = 15
# The most rows of one kind of table, or bars, in all operations together; and the most
# bytes of the page, which lists fewer rows to stay below.
_LISTED, _BYTES = 2_000, 2_000_000


def render_usage(
    report: "UsageReport", *, plan: Plan | None = None, title: str | None = None
) -> str:
    """Return a usage report as an HTML document: verdicts, reasons, and next steps.

    The document has no scripts and loads nothing. It works with
    ``Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'``. It names
    callers, so show it only to people who may know them.

    :param report: a report, as from ``flask_notifications.usage.read_usage``.
    :param plan: the operations and their policies, to draw the dates and to list the
        effects of brownouts; by default neither.
    :param title: the heading; by default the verdict on all operations.
    :raises ValueError: an argument is invalid; the message names it.
    """
    require(hasattr(report, "operations"), "report", "a UsageReport", report)
    check_title(title)
    planned: dict[str, tuple[Operation, DeprecationPolicy]] = {}
    if plan is not None:
        for item in deprecated_operations(plan).items():
            planned[item[0].name] = item
    limit = max(1, _LISTED // max(1, len(report.operations)))
    sections = []
    for usage in report.operations:
        operation, policy = planned.get(usage.name, (None, None))
        groups = group_callers(usage, policy, report.until)
        windows = list_brownouts(policy, report.since, report.until)
        sections.append(
            {
                "usage": usage,
                "operation": operation,
                "policy": policy,
                "plot": Plot(usage, report, policy, limit=limit),
                "groups": groups,
                "steps": list_steps(usage, groups, policy, report),
                "brownouts": usage.describe_brownouts(windows),
            }
        )
    heading = title
    if heading is None:
        heading = SUMMARIES[report.verdict] if sections else "Nothing has been recorded"
    values: dict[str, Any] = {
        "report": report,
        "heading": heading,
        "sections": sections,
        "row_limit": _ROWS,
        "summarise": summarise,
    }
    listed = max(_ROWS, limit)
    page = render("usage.html", **values, listed=listed)
    while listed and len(page.encode()) >= _BYTES:
        listed = listed * 2 // 3
        page = render("usage.html", **values, listed=listed)
    return page


def list_steps(
    usage: "OperationUsage",
    groups: Sequence[CallerGroup],
    policy: DeprecationPolicy | None,
    report: "UsageReport",
) -> list[str]:
    """Return the next steps for an operation: whom to write to, and by when.

    For an unknown verdict, the reasons already say what to do.
    """
    if usage.verdict == "safe":
        return [_say_end(policy, report.until)]
    if usage.verdict == "unknown":
        return []
    labels = []
    clients = []
    for group in groups:
        if group.work == "still calling":
            if group.caller is not None:
                labels.append(group.caller)
            else:
                clients.append(group.clients or "an unknown client")
    steps = []
    deadline = _say_deadline(policy, report.until)
    if labels:
        steps.append(f"Write to {enumerate_names(labels)}{deadline}.")
    if clients:
        steps.append(
            f"Find out who calls with {enumerate_names(clients)}{deadline}: "
            "give the middleware a function that identifies callers."
        )
    if not steps and usage.last_at is not None:
        leaves_on = usage.last_at + timedelta(days=report.days + 1)
        steps.append(
            "Nobody who is not exempt still calls. If that stays so, the window is "
            f"without calls on {full_date(leaves_on)}."
        )
    return steps


def _say_end(policy: DeprecationPolicy | None, now: datetime) -> str:
    """Return the next step for an operation that is safe to close."""
    if policy is not None and policy.phase(now) is Phase.SUNSET:
        return "It is closed: delete the view, and then its entry in the plan."
    if policy is not None and policy.enforce_sunset and policy.sunset_at is not None:
        return f"Nothing until its sunset on {full_date(policy.sunset_at)}."
    return "Enforce its sunset: sunset_at and enforce_sunset in the plan."


def _say_deadline(policy: DeprecationPolicy | None, now: datetime) -> str:
    """Return the next date that concerns callers, in words; empty if there is none."""
    event = None if policy is None else next_event(policy, now)
    if policy is not None and event is not None and event.phase is Phase.BROWNOUT:
        date, what = event.start, "brownout"
    elif policy is not None and policy.sunset_at is not None:
        date, what = policy.sunset_at, "sunset"
    else:
        return ""
    if date <= now:
        return f" now: the {what} was on {full_date(date)}"
    return f" before the {what} on {full_date(date)}, {relative(date, now)}"
