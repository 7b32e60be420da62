"""A notice for one caller: its calls, the end of each operation and the replacement.

It names no other caller.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from flask_notifications.plans.plan import Plan, deprecated_operations
from flask_notifications.wording import count, format_days, full_date

from .migration import Migration, say_placeholders
from .rendering import render

if TYPE_CHECKING:
    from flask_notifications.usage.results import CallerUsage, UsageReport


class Notice(NamedTuple):
    """What is to be said to one caller, in sentences without markup."""

    title: str
    sentences: Sequence[str]
    migrations: Sequence[Migration]


def describe_notice(
    report: "UsageReport", plan: Plan, caller: str, last_at: datetime
) -> Notice:
    """Return the notice for a caller, whose last call may have been before the report,
    or of another operation.
    """
    retired = {
        operation.name: (operation, policy)
        for operation, policy in deprecated_operations(plan).items()
    }
    migrations = []
    for usage in report.operations:
        rows = [each for each in usage.callers if each.caller == caller]
        if rows:
            migration = Migration(*retired[usage.name], report.until, caller=caller)
            migration.sentences.insert(0, _say_calls(rows, report))
            migrations.append(migration)
    if not migrations:
        covered = min(report.operations, key=lambda each: each.coverage).coverage_text
        is_whole = len(report.operations) == len(retired)
        target = (
            ""
            if is_whole
            else f" to {', '.join(each.name for each in report.operations)}"
        )
        silence = f"No call of yours{target} was recorded from {format_days(report.since, report.until)} ({covered})."
        return Notice(
            f"{caller}: no calls",
            (silence, f"Your last call was on {full_date(last_at)}."),
            (),
        )
    number = len(migrations)
    subject = (
        "an operation that you call is"
        if number == 1
        else f"{number} operations that you call are"
    )
    hint = say_placeholders(migrations)
    return Notice(f"{caller}: {subject} being retired", (hint,), migrations)


def render_notice(notice: Notice) -> str:
    """Return a notice as an HTML document, which has no scripts and loads nothing."""
    return render("notice.html", notice=notice)


def _say_calls(rows: Sequence["CallerUsage"], report: "UsageReport") -> str:
    calls, failed, closed = (
        sum(getattr(each, name) for each in rows)
        for name in ("calls", "failed", "closed")
    )
    last = max(each.last_at for each in rows)
    clients = list(
        dict.fromkeys(each.client for each in rows if each.client is not None)
    )
    using = f", with {', '.join(clients)}" if clients else ""
    window = format_days(report.since, report.until)
    outcome = (
        f" {count(failed, 'call')} failed, and {count(closed, 'call')} got 410 Gone."
        if failed or closed
        else ""
    )
    return f"You called it {count(calls, 'time')} from {window}, the last time on {full_date(last)}{using}.{outcome}"
