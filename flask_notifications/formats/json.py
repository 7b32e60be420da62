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
    """Return an object with a ``to_dict`` method, or a list of such objects."""
    return json.dumps(result, default=methodcaller("to_dict"), indent=2)


def format_plan(plan: Plan, at: datetime, changes: "Sequence[Change]") -> str:
    """Return the state of a plan at a time, and the changes for callers."""
    operations = [
        _describe_state(operation, policy, at) for operation, policy in plan.items()
    ]
    effects = [change._asdict() for change in changes]
    return format_result(
        {"schema": 1, "at": iso(at), "operations": operations, "changes": effects}
    )


def _describe_state(
    operation: Operation, policy: DeprecationPolicy | None, at: datetime
) -> dict[str, Any]:
    state: dict[str, Any] = {
        "name": operation.name,
        "method": operation.method,
        "path": operation.path,
        "phase": None,
        "next": None,
        "headers": [],
    }
    if policy is None:
        return state
    state["phase"] = policy.phase(at)
    event = next_event(policy, at)
    if event is not None:
        state["next"] = {"phase": event.phase, "at": iso(event.start)}
    state["headers"] = DeprecationHeaders(policy).render(operation.successor, "")
    exemptions = []
    for exemption in policy.exemptions:
        exemptions.append(
            {
                "caller": exemption.caller,
                "until": iso(exemption.until),
                "reason": exemption.reason,
            }
        )
    if exemptions:
        state["exemptions"] = exemptions
    return state
