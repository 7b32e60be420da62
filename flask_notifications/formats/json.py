"""Results as JSON, for programs."""

import json
from datetime import datetime
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from flask_notifications.plans.announcement import DeprecationHeaders
from flask_notifications.plans.operations import Operation
from flask_notifications.plans.plan import Plan, next_event
from flask_notifications.plans.policy import DeprecationPolicy
from flask_notifications.wording import iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flask_notifications.plans.changes import Change


def format_result(result: object) -> str:
    """Return a result of one of the commands, or a list of them."""
    return json.dumps(result, default=methodcaller("to_dict"), indent=2)


def format_plan(plan: Plan, at: datetime, changes: "Sequence[Change]") -> str:
    """Return the state of a plan on a date, and the changes for callers."""
    operations = [
        _describe_state(operation, policy, at) for operation, policy in plan.items()
    ]
    listed = [each._asdict() for each in changes]
    return format_result(
        {"schema": 1, "at": iso(at), "operations": operations, "changes": listed}
    )


def _describe_state(
    operation: Operation, policy: DeprecationPolicy | None, at: datetime
) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": operation.name,
        "method": operation.method,
        "path": operation.path,
    }
    if operation.query or operation.headers:
        described["conditions"] = {
            "query": {**(operation.query or {})},
            "headers": {**(operation.headers or {})},
        }
    if policy is None:
        return {**described, "phase": None, "next": None, "headers": []}
    change = next_event(policy, at)
    described |= {
        "phase": policy.phase(at),
        "next": None
        if change is None
        else {"phase": change.phase, "at": iso(change.start)},
        "headers": DeprecationHeaders(policy).render(operation.successor, ""),
    }
    exempt = [
        {"caller": each.caller, "until": iso(each.until), "reason": each.reason}
        for each in policy.exemptions
    ]
    return described | ({"exemptions": exempt} if exempt else {})
