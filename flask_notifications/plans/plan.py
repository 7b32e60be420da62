"""A plan as its operators read it: the phase of each operation, and the next change.

A plan maps each operation to its policy, or to ``None`` where the operation is live and
not retired.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from flask_notifications.validation import require

from .operations import Operation, OperationTable, notification_operations
from .policy import DeprecationPolicy, Phase

Plan = Mapping[Operation, DeprecationPolicy | None]

# What a live operation does not have: its requests are not touched, and it announces
# nothing.
DEPRECATED_KEYS = ("successor", "rewrite_path", "unify_session")


def check_plan(plan: Any) -> None:
    """Check that the argument ``plan`` is a plan, perhaps empty, with different names
    and plain live operations.
    """
    expected = "a mapping from each Operation to a DeprecationPolicy or None, as load_plan returns it"
    require(isinstance(plan, Mapping), "plan", expected, plan)
    for operation, policy in plan.items():
        fits = isinstance(operation, Operation) and (
            policy is None or isinstance(policy, DeprecationPolicy)
        )
        require(fits, "plan", expected, {operation: policy})
        is_plain = policy is not None or not any(
            getattr(operation, key) for key in DEPRECATED_KEYS
        )
        require(
            is_plain,
            "plan",
            f"without {', '.join(DEPRECATED_KEYS)} in live operations",
            operation,
        )
    repeated = [
        name
        for name, times in Counter(operation.name for operation in plan).items()
        if times > 1
    ]
    require(
        not repeated, "plan", "a plan whose operations have different names", repeated
    )


def deprecated_operations(plan: Any) -> dict[Operation, DeprecationPolicy]:
    """Return the deprecated operations of a plan with their policies, or raise
    ``ValueError`` if it is no plan.
    """
    check_plan(plan)
    return {
        operation: policy for operation, policy in plan.items() if policy is not None
    }


def is_notification_operation(operation: Operation) -> bool:
    """Return whether an operation is one of the two of this library, at any path; yours
    may have the same name.
    """
    parameters = {each.name: each.path.count("{") for each in notification_operations()}
    return operation.unify_session and operation.path.count("{") == parameters.get(
        operation.name
    )


def table_of(plan: Plan) -> OperationTable:
    """Return the table that finds the operations of a plan, or raise ``ValueError`` if
    it is empty.
    """
    require(plan, "plan", "a plan with at least one operation", plan)
    return OperationTable(
        plan, live=[operation for operation, policy in plan.items() if policy is None]
    )


class Event(NamedTuple):
    """Something that a policy has scheduled: the phase, when it begins, and when it
    ends, if it does.
    """

    phase: Phase
    start: datetime
    end: datetime | None = None


def schedule(policy: DeprecationPolicy) -> list[Event]:
    """Return the events of a policy, the earliest first, and its sunset whether or not
    it is enforced.
    """
    events = [
        Event(Phase.BROWNOUT, window.start, window.end) for window in policy.brownouts
    ]
    events.append(Event(Phase.DEPRECATED, policy.deprecated_at))
    if policy.sunset_at is not None:
        events.append(Event(Phase.SUNSET, policy.sunset_at))
    return sorted(events, key=lambda event: event.start)


def next_event(policy: DeprecationPolicy, at: datetime) -> Event | None:
    """Return the next change of phase after a time, or ``None`` if no change is
    scheduled.
    """
    phase = policy.phase(at)
    times = {
        time
        for event in schedule(policy)
        for time in (event.start, event.end)
        if time is not None and time > at
    }
    changes = (Event(policy.phase(time), time) for time in sorted(times))
    return next((change for change in changes if change.phase is not phase), None)
