"""The command ``plan``: check a plan file and show what will happen when."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flask_notifications.wording import count, duration, iso, relative

from .arguments import PLAN_FILE, check_format, parse_date, read_plan
from .output import print_result
from .times import format_time

if TYPE_CHECKING:
    from flask_notifications.deprecation import DeprecationPolicy
    from flask_notifications.operations import Operation
    from flask_notifications.plans import Event, Plan

_COLOURS = {"announced": "cyan", "deprecated": "yellow", "brownout": "red", "sunset": "red", "live": "green"}


@click.command
@click.argument("file", type=PLAN_FILE, callback=check_format)
@click.option("--at", callback=parse_date, metavar="DATE", help="Show the phases at this time instead of now.")
@click.option(
    "--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
def plan(file: Path, at: datetime | None, output: str) -> None:
    """Check a plan file, and show what happens when.

    FILE must end with .toml or .json. For each operation you see the phase, what happens next, and the headers as they
    are sent. Probable mistakes are printed to standard error as warnings.

    Exit code: 0, or 1 with one line per error (place: message).
    """
    from flask_notifications.plans import plan_warnings

    loaded = read_plan(file)
    time = datetime.now(UTC) if at is None else at
    for warning in plan_warnings(loaded):
        click.echo(f"{click.style('warning', fg='yellow')}: {warning}", err=True)
    print_result(_format_json(loaded, time) if output == "json" else _format_text(loaded, time))


def _format_json(plan: "Plan", at: datetime) -> str:
    operations = [_describe(operation, policy, at) for operation, policy in plan.items()]
    return json.dumps({"schema": 1, "at": iso(at), "operations": operations}, indent=2)


def _describe(operation: "Operation", policy: "DeprecationPolicy | None", at: datetime) -> dict[str, Any]:
    from flask_notifications.deprecation import DeprecationHeaders
    from flask_notifications.plans import next_event

    described = {"name": operation.name, "method": operation.method, "path": operation.path}
    if policy is None:
        return {**described, "phase": None, "next": None, "headers": []}
    change = next_event(policy, at)
    return {
        **described,
        "phase": policy.phase(at),
        "next": None if change is None else {"phase": change.phase, "at": iso(change.start)},
        "headers": DeprecationHeaders(policy).render(operation.successor, ""),
    }


def _format_text(plan: "Plan", at: datetime) -> str:
    title = f"{count(len(plan), 'operation')} at {format_time(at)}"
    blocks = [_format_operation(operation, policy, at) for operation, policy in plan.items()]
    return "\n\n".join([title, *blocks])


def _format_operation(operation: "Operation", policy: "DeprecationPolicy | None", at: datetime) -> str:
    from flask_notifications.deprecation import DeprecationHeaders
    from flask_notifications.plans import schedule

    title = f"{click.style(operation.name, bold=True)}  {operation.method} {operation.path}"
    if policy is None:
        return f"{title}\n  {_style('live')}: not retired, sends no headers"
    events = [_format_event(event, policy, at) for event in schedule(policy)]
    headers = [f"  {name}: {value}" for name, value in DeprecationHeaders(policy).render(operation.successor, "")]
    return "\n".join([title, f"  {_format_state(policy, at)}", "", *events, "", *headers])


def _format_state(policy: "DeprecationPolicy", at: datetime) -> str:
    from flask_notifications.plans import next_event

    change = next_event(policy, at)
    state = _style(policy.phase(at))
    if change is None:
        return f"{state}; no further change is scheduled"
    return f"{state}; next: {_style(change.phase)} {relative(change.start, at)}, at {format_time(change.start)}"


def _format_event(event: "Event", policy: "DeprecationPolicy", at: datetime) -> str:
    return f"  {format_time(event.start):<23}  {relative(event.start, at):<14}  {_explain(event, policy)}"


def _explain(event: "Event", policy: "DeprecationPolicy") -> str:
    if event.end is not None:
        return f"brownout for {duration(event.end - event.start)}: responds 410"
    if event.phase == "sunset":
        return "sunset: responds 410" if policy.enforce_sunset else "sunset: announced, not enforced, keeps working"
    return "deprecated: keeps working"


def _style(phase: str) -> str:
    return click.style(phase, fg=_COLOURS[phase])
