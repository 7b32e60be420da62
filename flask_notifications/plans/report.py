"""The state of a plan on a date, and the effects of its changes on callers, for people and programs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flask_notifications.deprecation import DeprecationHeaders, DeprecationPolicy
from flask_notifications.operations import Operation
from flask_notifications.plans import Plan, next_event
from flask_notifications.wording import iso

from .changes import Change


@dataclass(frozen=True, slots=True)
class PlanReport:
    """The state of a plan on a date. ``changes`` are those since an older plan, or ``None`` without one."""

    plan: Plan
    at: datetime
    changes: Sequence[Change] | None

    @property
    def has_errors(self) -> bool:
        """Whether a change breaks a promise to callers."""
        return any(change.level == "error" for change in self.changes or ())

    def to_dict(self) -> dict[str, Any]:
        """Return a mapping for JSON."""
        operations = [_state_of(operation, policy, self.at) for operation, policy in self.plan.items()]
        changes = [change.to_dict() for change in self.changes or ()]
        return {"schema": 1, "at": iso(self.at), "operations": operations, "changes": changes}


def _state_of(operation: Operation, policy: DeprecationPolicy | None, at: datetime) -> dict[str, Any]:
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
