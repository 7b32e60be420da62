"""Results for people who read them in a terminal.

The first line of a usage report is the verdict.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from shutil import get_terminal_size
from textwrap import fill, indent
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

import click

from flask_notifications.plans.announcement import DeprecationHeaders
from flask_notifications.plans.conditions import ABSENT, PRESENT, Values
from flask_notifications.plans.operations import Operation
from flask_notifications.plans.plan import Event, Plan, next_event, schedule
from flask_notifications.plans.policy import DeprecationPolicy
from flask_notifications.wording import (
    count,
    duration,
    escape,
    format_days,
    moment,
    relative,
)

from .callers import CallerGroup, group_callers, summarise

if TYPE_CHECKING:
    from flask_notifications.check.checker import CheckReport
    from flask_notifications.plans.changes import Change
    from flask_notifications.usage import OperationUsage, UsageReport

    from .migration import Migration
    from .notice import Notice

_COLOURS = {
    "in use": "red",
    "unknown": "yellow",
    "safe": "green",
    "announced": "cyan",
    "deprecated": "yellow",
    "brownout": "red",
    "sunset": "red",
    "live": "green",
    "error": "red",
    "warning": "yellow",
    "info": "cyan",
}
# The verdict on all operations together.
SUMMARIES = {
    "in use": "Not safe to switch off",
    "unknown": "Not known to be safe",
    "safe": "Safe to switch off",
}
# Callers that are listed, of all operations.
_LISTED = 1_500
# Follows a wide character while widths are computed. Unprintable characters are
# escaped, so no line contains it.
_PADDING = "\0"


def style(word: str) -> str:
    """Return a verdict, a phase or a level in its colour."""
    return click.style(word, fg=_COLOURS[word])


def format_verdict(report: "UsageReport") -> str:
    """Return one line that says whether the operations may be switched off."""
    if not report.operations:
        return "Unknown: nothing has been recorded."
    names = {
        verdict: [
            escape(each.name) for each in report.operations if each.verdict == verdict
        ]
        for verdict in SUMMARIES
    }
    said = "; ".join(
        f"{verdict}: {', '.join(listed)}" for verdict, listed in names.items() if listed
    )
    return f"{SUMMARIES[report.verdict]}. From {format_days(report.since, report.until)}, {said}."


def format_usage(report: "UsageReport", plan: Plan | None = None) -> str:
    """Return a report for people who read it in a terminal."""
    listed = max(_LISTED // max(1, len(report.operations)), 15)
    blocks = [
        _format_operation(usage, groups, listed)
        for usage, groups in group_operations(report, plan)
    ]
    return "\n\n".join([wrap(format_verdict(report)), *blocks])


def wrap(line: str, indent: str = "", *, hanging: str = "") -> str:
    """Return a line as lines of whole words that fit the terminal's width, 80 columns
    without one.
    """
    filled = fill(
        _pad(line),
        get_terminal_size().columns,
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled.replace(_PADDING, "")


def _pad(line: str) -> str:
    """Return a line whose length is its width: characters such as ideographs take two
    columns.
    """
    return "".join(
        each + _PADDING if east_asian_width(each) in {"W", "F"} else each
        for each in line
    )


def group_operations(
    report: "UsageReport", plan: Plan | None
) -> "Iterator[tuple[OperationUsage, list[CallerGroup]]]":
    """Yield each operation with its callers; the plan has brownouts and exemptions."""
    policies = {operation.name: policy for operation, policy in (plan or {}).items()}
    for usage in report.operations:
        yield usage, group_callers(usage, policies.get(usage.name), report.until)


def _format_operation(
    operation: "OperationUsage", groups: Sequence[CallerGroup], listed: int
) -> str:
    verdict = style(operation.verdict)
    title = f"{click.style(escape(operation.name), bold=True)}  {verdict}"
    reasons = [
        wrap(escape(reason), "  ")
        for reason in (*operation.reasons, operation.coverage_text)
    ]
    callers = (
        ["", wrap(summarise(groups), "  "), "", *map(_describe_caller, groups[:listed])]
        if groups
        else []
    )
    if groups[listed:]:
        callers += [
            "",
            wrap(
                f"{count(len(groups) - listed, 'more caller')}: --format csv lists all",
                "  ",
            ),
        ]
    return "\n".join([title, *reasons, *callers])


def _describe_caller(group: CallerGroup) -> str:
    label, clients, sources, answered, failed, closed, last_at, state = list_cells(
        group
    )
    client = f"client {clients}" if group.clients else "unknown client"
    session = f", session in {sources}" if group.sources else ""
    first = wrap(
        f"{'unnamed' if group.caller is None else label}: {state}, last call {last_at}",
        "  ",
    )
    second = wrap(
        f"{answered} answered, {failed} failed, {closed} closed; {client}{session}",
        "    ",
    )
    return f"{first}\n{second}"


def list_cells(group: CallerGroup) -> tuple[str, ...]:
    """Return the cells of a caller, with a dash for each unknown value."""
    label, clients, sources = (
        escape(each or "-") for each in (group.caller, group.clients, group.sources)
    )
    counts = (f"{number:,}" for number in group.counts)
    return (
        label,
        clients,
        sources,
        *counts,
        moment(group.last_at.replace(second=0)),
        group.state,
    )


def format_notice(notice: "Notice") -> str:
    """Return a notice to one caller, which fits a terminal and a letter."""
    blocks = [wrap(escape(each)) for each in (notice.title, *notice.sentences)]
    for each in notice.migrations:
        heading = escape(f"{each.operation.method} {each.operation.path}")
        blocks += [
            f"{heading}\n{'-' * len(heading)}",
            *(wrap(escape(sentence)) for sentence in each.sentences),
        ]
        blocks += (
            [wrap(f"More about it: {each.policy.documentation}")]
            if each.policy.documentation
            else []
        )
        blocks += list_examples(each)
    return "\n\n".join(blocks)


def list_examples(migration: "Migration") -> list[str]:
    """Return the requests before and after, each with its heading; they are indented."""
    requests = {"Before": migration.before, "After": migration.after}
    return [
        f"{name}:\n\n{indent(each.in_curl(), '    ')}"
        for name, each in requests.items()
        if each is not None
    ]


def format_plan(plan: Plan, at: datetime, changes: "Sequence[Change] | None") -> str:
    """Return the schedule of a plan, and the changes for callers if there are any since
    another plan.
    """
    blocks = [wrap(f"{count(len(plan), 'operation')} on {moment(at)}")]
    blocks += [
        _format_retirement(operation, policy, at) for operation, policy in plan.items()
    ]
    blocks += [] if changes is None else [_format_changes(changes)]
    return "\n\n".join(blocks)


def _format_changes(changes: "Sequence[Change]") -> str:
    lines = [
        _format_finding(each.level, f"{each.operation}: {each.code}: {each.message}")
        for each in changes
    ]
    errors = sum(each.level == "error" for each in changes)
    total = f"{count(len(changes), 'change')} for callers, {count(errors, 'broken promise')}"
    return "\n".join([*lines, wrap(total)])


def _format_finding(level: str, words: str) -> str:
    return _format_state(level, escape(f"{level}: {words}"))


def _format_state(state: str, line: str, indent: str = "") -> str:
    """Return a line that begins with a state, which is in its colour."""
    return wrap(line, indent, hanging="  ").replace(state, style(state), 1)


def _format_retirement(
    operation: Operation, policy: DeprecationPolicy | None, at: datetime
) -> str:
    name = wrap(
        escape(f"{operation.name}  {operation.method} {operation.path}"), hanging="  "
    )
    bold = name.replace(operation.name, click.style(operation.name, bold=True), 1)
    title = "\n".join(
        [
            bold,
            *_format_conditions("query", operation.query),
            *_format_conditions("header", operation.headers),
        ]
    )
    if policy is None:
        return f"{title}\n{_format_state('live', 'live: not retired, sends no headers', '  ')}"
    events = [
        (event.start, _describe_event(event, policy)) for event in schedule(policy)
    ]
    ends = [
        (each.until, f"end of the exemption of {each.caller}: {escape(each.reason)}")
        for each in policy.exemptions
    ]
    rows = [
        f"{moment(time):<22}  {relative(time, at):<14}  {words}"
        for time, words in [*events, *ends]
    ]
    lines = [wrap(row, "  ", hanging="  ") for row in rows]
    headers = [
        f"  {name}: {value}"
        for name, value in DeprecationHeaders(policy).render(operation.successor, "")
    ]
    phase, following = policy.phase(at), next_event(policy, at)
    change = "no further change is scheduled"
    if following is not None:
        change = f"next: {following.phase} {relative(following.start, at)}, on {moment(following.start)}"
    return "\n".join(
        [
            title,
            _format_state(phase, f"{phase}; {change}", "  "),
            "",
            *lines,
            "",
            *headers,
        ]
    )


def _format_conditions(where: str, values: Values | None) -> Iterator[str]:
    for name, value in (values or {}).items():
        listed = [value] if isinstance(value, str) else value
        words = [
            {ABSENT: "absent", PRESENT: "there"}.get(each, repr(each))
            for each in listed
        ]
        yield wrap(escape(f"if {where} {name} is {' or '.join(words)}"), "  ")


def _describe_event(event: Event, policy: DeprecationPolicy) -> str:
    if event.end is not None:
        return f"brownout for {duration(event.end - event.start)}: responds 410"
    if event.phase == "sunset":
        return (
            "sunset: responds 410"
            if policy.enforce_sunset
            else "sunset, not enforced: keeps working"
        )
    return "deprecated: keeps working"


def format_check(method: str, report: "CheckReport") -> str:
    """Return the findings of a check, errors first, and their numbers."""
    redirected = (
        "" if report.final_url == report.url else f" (redirected to {report.final_url})"
    )
    headers = [f"  {name}: {value}" for name, value in report.headers]
    findings = [
        _format_finding(each.level, f"{each.code}: {each.message}")
        for each in report.findings
    ]
    levels = [each.level for each in report.findings]
    total = ", ".join(
        count(levels.count(level), level) for level in ("error", "warning")
    )
    target = wrap(
        escape(f"{method} {report.url}{redirected}: {report.status}"), hanging="  "
    )
    return "\n".join([target, *map(escape, headers), "", *findings, total])
