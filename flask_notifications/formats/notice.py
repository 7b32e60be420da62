"""A notice to one caller: its calls, and the end and successor of each operation.

It does not mention other callers.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from flask_notifications.plans.plan import Plan, deprecated_operations
from flask_notifications.wording import count, format_days, full_date

from .callers import leave_out_logs
from .migration import Migration, say_placeholders
from .rendering import render

if TYPE_CHECKING:
    from flask_notifications.usage import CallerUsage, UsageReport


_OUTCOMES = {
    "refused": "got 401 or 403",
    "failed": "failed",
    "closed": "got 410 Gone",
}


class Notice(NamedTuple):
    """The contents of a notice to one caller, in sentences without markup."""

    title: str
    sentences: Sequence[str]
    migrations: Sequence[Migration]


def describe_notice(
    report: "UsageReport",
    plan: Plan,
    caller: str,
    *,
    base_url: str | None = None,
    contact: str | None = None,
) -> Notice | None:
    """Return the notice to a caller, or ``None`` if it has never called.

    :param report: a report that was read for this caller.
    :param plan: the plan of the report, for the dates and successors.
    :param caller: the label of the caller.
    :param base_url: the absolute URL of your application, for the examples; by default
        a placeholder.
    :param contact: whom to ask; by default nobody.
    """
    operations = {}
    for operation, policy in deprecated_operations(plan).items():
        operations[operation.name] = (operation, policy)
    base_url = None if base_url is None else base_url.rstrip("/")
    migrations = []
    for usage in report.operations:
        rows = []
        for row in usage.callers:
            if row.caller == caller and not row.ignored:
                rows.append(row)
        if rows:
            operation, policy = operations[usage.name]
            migration = Migration(
                operation,
                policy,
                report.until,
                caller=caller,
                base_url=base_url,
                sources={row.source for row in rows},
            )
            migration.sentences.insert(0, _say_calls(rows, report))
            migrations.append(migration)
    if migrations:
        title = _say_title(caller, len(migrations))
        sentences = [say_placeholders(migrations, base_url)]
    elif report.last_call is None:
        return None
    else:
        title = f"{caller}: no calls"
        is_whole = len(report.operations) == len(operations)
        sentences = [
            _say_silence(report, is_whole=is_whole),
            f"Your last call was on {full_date(report.last_call)}.",
        ]
    if contact is not None:
        sentences.append(f"If you have questions, ask {contact}.")
    return Notice(title, list(filter(None, sentences)), migrations)


def render_notice(notice: Notice) -> str:
    """Return a notice as an HTML document, which has no scripts and loads nothing."""
    return render("notice.html", notice=notice)


def _say_title(caller: str, number: int) -> str:
    if number == 1:
        return f"{caller}: an operation that you call is being retired"
    return f"{caller}: {number} operations that you call are being retired"


def _say_silence(report: "UsageReport", *, is_whole: bool) -> str:
    """Return a sentence that no call was recorded, with the lowest coverage."""
    least = min(report.operations, key=lambda usage: usage.coverage)
    target = ""
    if not is_whole:
        target = f" to {', '.join(usage.name for usage in report.operations)}"
    days = format_days(report.since, report.until)
    return f"No call of yours{target} was recorded from {days} ({least.coverage_text})."


def _say_calls(rows: Sequence["CallerUsage"], report: "UsageReport") -> str:
    """Return a sentence with the number of calls, the last one, and their outcomes."""
    counted = leave_out_logs(rows)
    calls = sum(row.calls for row in counted)
    last = max(row.last_at for row in rows)
    days = format_days(report.since, report.until)
    sentence = (
        f"You called it {count(calls, 'time')} from {days}, "
        f"the last time on {full_date(last)}"
    )
    clients = dict.fromkeys(row.client for row in rows if row.client is not None)
    if clients:
        sentence += f", with {', '.join(clients)}"
    outcomes = _list_outcomes(counted)
    if outcomes:
        sentence += f". {', and '.join(outcomes)}"
    return f"{sentence}."


def _list_outcomes(rows: Sequence["CallerUsage"]) -> list[str]:
    """Return the numbers of calls that were not answered, by outcome, in words."""
    outcomes = []
    for kind, words in _OUTCOMES.items():
        number = sum(getattr(row, kind) for row in rows)
        if number:
            outcomes.append(f"{count(number, 'call')} {words}")
    return outcomes
