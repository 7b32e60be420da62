"""Results for people who read them in a terminal."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from shutil import get_terminal_size
from textwrap import fill, indent
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

import click

from flask_notifications.plans.announcement import DeprecationHeaders
from flask_notifications.plans.conditions import ABSENT, PRESENT, Values, list_values
from flask_notifications.plans.operations import Operation
from flask_notifications.plans.plan import Event, Plan, next_event, schedule
from flask_notifications.plans.policy import DeprecationPolicy, Phase
from flask_notifications.wording import (
    count,
    duration,
    escape,
    format_days,
    moment,
    recurrence,
    relative,
)

from .callers import CallerGroup, group_callers, list_largest, summarise

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
# The most callers of an operation that are listed.
_LISTED = 10
# Takes the second column of a wide character while lines are wrapped. Unprintable
# characters are escaped, so no line contains it.
_PADDING = "\0"


def style(word: str) -> str:
    """Return a verdict, a phase or a level in its colour."""
    return click.style(word, fg=_COLOURS[word])


def _format_verdict(report: "UsageReport") -> str:
    as_of = moment(report.as_of)
    if not report.operations:
        return f"Unknown: nothing has been recorded, as of {as_of}."
    days = format_days(report.since, report.until)
    return f"{SUMMARIES[report.verdict]}. Calls from {days}, as of {as_of}."


def format_usage(report: "UsageReport", plan: Plan | None = None) -> str:
    """Return a usage report, whose first line is the verdict."""
    blocks = [wrap(_format_verdict(report))]
    for usage, groups in group_operations(report, plan):
        blocks.append(_format_operation(usage, groups, report.as_of))
    return "\n\n".join(blocks)


def wrap(line: str, indent: str = "", *, hanging: str = "") -> str:
    """Break a line between words to fit the terminal, or 80 columns without one."""
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
    """Pad wide characters, such as ideographs, so that a line's length is its width."""
    characters = []
    for character in line:
        characters.append(character)
        if east_asian_width(character) in {"W", "F"}:
            characters.append(_PADDING)
    return "".join(characters)


def group_operations(
    report: "UsageReport", plan: Plan | None
) -> "Iterator[tuple[OperationUsage, list[CallerGroup]]]":
    """Yield each operation with its callers.

    If there is a plan, their states mention its brownouts and exemptions.
    """
    policies = {operation.name: policy for operation, policy in (plan or {}).items()}
    for usage in report.operations:
        yield usage, group_callers(usage, policies.get(usage.name), report.until)


def _format_operation(
    usage: "OperationUsage", groups: Sequence[CallerGroup], now: datetime
) -> str:
    name = click.style(escape(usage.name), bold=True)
    lines = [f"{name}  {style(usage.verdict)}"]
    if usage.sunset_at is not None:
        sunset = f"{moment(usage.sunset_at)}, {relative(usage.sunset_at, now)}"
        lines.append(wrap(f"sunset on {sunset}", "  "))
    messages = [reason.message for reason in usage.reasons]
    lines += [wrap(escape(line), "  ") for line in messages + usage.notes]
    if groups:
        lines += ["", wrap(summarise(groups), "  "), ""]
        lines += map(_describe_caller, list_largest(groups, _LISTED))
    if groups[_LISTED:]:
        more = count(len(groups) - _LISTED, "more caller")
        lines += ["", wrap(f"{more}: --format csv lists all", "  ")]
    return "\n".join(lines)


def _describe_caller(group: CallerGroup) -> str:
    label = "unnamed" if group.caller is None else escape(group.caller)
    last_at = moment(group.last_at.replace(second=0))
    first = wrap(f"{label}: {group.state}, last call {last_at}", "  ")
    answered, refused, failed, closed = group.counts
    text = (
        f"{answered:,} answered, {refused:,} refused, {failed:,} failed, "
        f"{closed:,} closed; "
    )
    text += f"client {escape(group.clients)}" if group.clients else "unknown client"
    if group.sources == "log":
        text += ", in a log"
    elif group.sources:
        text += f", session in {escape(group.sources)}"
    return f"{first}\n{wrap(text, '    ')}"


def format_notice(notice: "Notice") -> str:
    """Return a notice to one caller, for a terminal or an e-mail."""
    blocks = [wrap(escape(notice.title))]
    for sentence in notice.sentences:
        blocks.append(wrap(escape(sentence)))
    for migration in notice.migrations:
        operation = migration.operation
        heading = escape(f"{operation.method} {operation.path}")
        blocks.append(f"{heading}\n{'-' * len(heading)}")
        for sentence in migration.sentences:
            blocks.append(wrap(escape(sentence)))
        documentation = migration.policy.documentation
        if documentation is not None:
            blocks.append(wrap(f"More about it: {documentation}"))
        blocks += list_examples(migration)
    return "\n\n".join(blocks)


def list_examples(migration: "Migration") -> list[str]:
    """Return the requests before and after, indented, each below its heading."""
    examples = []
    for name, request in (("Before", migration.before), ("After", migration.after)):
        if request is not None:
            examples.append(f"{name}:\n\n{indent(request.in_curl(), '    ')}")
    return examples


def format_plan(plan: Plan, at: datetime, changes: "Sequence[Change] | None") -> str:
    """Return the schedule of a plan, and its changes unless they are ``None``."""
    blocks = [wrap(f"{count(len(plan), 'operation')} on {moment(at)}")]
    # Operations often share a policy, and its dates are formatted once.
    dates: dict[DeprecationPolicy, list[str]] = {}
    for operation, policy in plan.items():
        title = _format_title(operation)
        if policy is None:
            state = "live: not deprecated, sends no headers"
            blocks.append(f"{title}\n{_format_state('live', state, '  ')}")
        else:
            if policy not in dates:
                dates[policy] = _format_dates(policy, at)
            lines = [title, *_format_policy(operation, policy, at, dates[policy])]
            blocks.append("\n".join(lines))
    if changes is not None:
        blocks.append(_format_changes(changes))
    return "\n\n".join(blocks)


def _format_changes(changes: "Sequence[Change]") -> str:
    lines = []
    for change in changes:
        message = f"{change.operation}: {change.code}: {change.message}"
        lines.append(_format_finding(change.level, message))
    errors = [change for change in changes if change.level == "error"]
    promises = count(len(errors), "broken promise")
    lines.append(wrap(f"{count(len(changes), 'change')} for callers, {promises}"))
    return "\n".join(lines)


def _format_finding(level: str, words: str) -> str:
    return _format_state(level, escape(f"{level}: {words}"))


def _format_state(state: str, line: str, indent: str = "") -> str:
    """Return a line that begins with a state, with the state in its colour."""
    return wrap(line, indent, hanging="  ").replace(state, style(state), 1)


def _format_title(operation: Operation) -> str:
    """Return the name of an operation, its method and path, and its conditions."""
    words = f"{operation.name}  {operation.method} {operation.path}"
    title = wrap(escape(words), hanging="  ")
    bold = click.style(operation.name, bold=True)
    lines = [title.replace(operation.name, bold, 1)]
    lines += _format_conditions("query", operation.query)
    lines += _format_conditions("header", operation.headers)
    return "\n".join(lines)


def _format_policy(
    operation: Operation, policy: DeprecationPolicy, at: datetime, dates: Sequence[str]
) -> list[str]:
    """Return the phase and next change of an operation, its dates and its headers."""
    phase = policy.phase(at)
    state = f"{phase}; {_describe_next(policy, at)}"
    headers = []
    for name, value in DeprecationHeaders(policy).render(operation.successor, ""):
        headers.append(f"  {name}: {value}")
    return [_format_state(phase, state, "  "), "", *dates, "", *headers]


def _format_dates(policy: DeprecationPolicy, at: datetime) -> list[str]:
    """Return the dates of a policy, each with its event."""
    dates = [
        (event.start, _describe_event(event, policy)) for event in schedule(policy)
    ]
    for exemption in policy.exemptions:
        words = f"end of the exemption of {exemption.caller}: {exemption.reason}"
        dates.append((exemption.until, words))
    rows = []
    for time, words in sorted(dates):
        row = f"{moment(time):<22}  {relative(time, at):<14}  {escape(words)}"
        rows.append(wrap(row, "  ", hanging="  "))
    return rows


def _describe_next(policy: DeprecationPolicy, at: datetime) -> str:
    event = next_event(policy, at)
    if event is not None:
        time = f"{relative(event.start, at)}, on {moment(event.start)}"
        return f"next: {event.phase} {time}"
    if policy.sunset_at is None or policy.enforce_sunset:
        return "no further change is scheduled"
    sunset = relative(policy.sunset_at, at)
    return f"keeps working, because the sunset {sunset} is not enforced"


def _format_conditions(where: str, values: Values | None) -> Iterator[str]:
    names = {ABSENT: "absent", PRESENT: "there"}
    for name, value in (values or {}).items():
        accepted = [names.get(item, repr(item)) for item in list_values(value)]
        words = " or ".join(accepted)
        yield wrap(escape(f"if {where} {name} is {words}"), "  ")


def _describe_event(event: Event, policy: DeprecationPolicy) -> str:
    if event.phase is Phase.DEPRECATED:
        return "deprecated: keeps working"
    if event.phase is Phase.SUNSET:
        if policy.enforce_sunset:
            return "sunset: responds 410"
        return "sunset, not enforced: keeps working"
    words = f"brownout for {duration((event.end or event.start) - event.start)}"
    if event.every is not None:
        words += f", {recurrence(event.every, event.windows, event.last)}"
    return f"{words}: responds 410"


def format_check(method: str, report: "CheckReport") -> str:
    """Return the findings of a check, errors first, and their numbers."""
    target = f"{method} {report.url}"
    if report.final_url != report.url:
        target += f" (redirected to {report.final_url})"
    lines = [wrap(escape(f"{target}: {report.status}"), hanging="  ")]
    for name, value in report.headers:
        lines.append(escape(f"  {name}: {value}"))
    lines.append("")
    for finding in report.findings:
        message = f"{finding.code}: {finding.message}"
        lines.append(_format_finding(finding.level, message))
    levels = [finding.level for finding in report.findings]
    errors = count(levels.count("error"), "error")
    lines.append(f"{errors}, {count(levels.count('warning'), 'warning')}")
    return "\n".join(lines)
