"""Results as JSON, for programs."""

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from flask_notifications.deprecation import DeprecationHeaders, DeprecationPolicy
from flask_notifications.operations import Operation
from flask_notifications.plans import Plan, next_event
from flask_notifications.wording import iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flask_notifications.check.checker import CheckReport
    from flask_notifications.plans.changes import Change
    from flask_notifications.usage import UsageReport


def format_usage(report: "UsageReport") -> str:
    """Return a usage report."""
    return json.dumps(report.to_dict(), indent=2)


def format_check(report: "CheckReport") -> str:
    """Return the findings of a check."""
    return json.dumps(report.to_dict(), indent=2)


def format_checks(reports: "Sequence[CheckReport]") -> str:
    """Return the findings of several checks, as an array."""
    return json.dumps([report.to_dict() for report in reports], indent=2)


def format_plan(plan: Plan, at: datetime, changes: "Sequence[Change] | None") -> str:
    """Return the schedule of a plan, and the changes for callers."""
    operations = [_describe(operation, policy, at) for operation, policy in plan.items()]
    found = [change.to_dict() for change in changes or ()]
    return json.dumps({"schema": 1, "at": iso(at), "operations": operations, "changes": found}, indent=2)


def _describe(operation: Operation, policy: DeprecationPolicy | None, at: datetime) -> dict[str, Any]:
    described: dict[str, Any] = {"name": operation.name, "method": operation.method, "path": operation.path}
    if operation.query or operation.headers:
        described["conditions"] = {"query": {**(operation.query or {})}, "headers": {**(operation.headers or {})}}
    if policy is None:
        return {**described, "phase": None, "next": None, "headers": []}
    change = next_event(policy, at)
    described |= {
        "phase": policy.phase(at),
        "next": None if change is None else {"phase": change.phase, "at": iso(change.start)},
        "headers": DeprecationHeaders(policy).render(operation.successor, ""),
    }
    exempt = [{"caller": each.caller, "until": iso(each.until), "reason": each.reason} for each in policy.exemptions]
    return described | ({"exemptions": exempt} if exempt else {})
