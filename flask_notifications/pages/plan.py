"""The operations of a plan that the pages show."""

from typing import Any

from flask_notifications.deprecation import DeprecationPolicy
from flask_notifications.operations import Operation
from flask_notifications.plans import check_plan


def read_plan(plan: Any) -> dict[Operation, DeprecationPolicy]:
    """Return the operations of a plan that are retired, with their policies.

    :raises ValueError: the value is not a plan.
    """
    check_plan("plan", plan, "a mapping from each Operation to a DeprecationPolicy or None")
    return {operation: policy for operation, policy in plan.items() if policy is not None}
