"""What a recorder listens for: a fingerprint of each retired operation, with everything
that decides on its calls.
"""

import hashlib
import json
from typing import TYPE_CHECKING, Any

from flask_notifications.plans.conditions import Values
from flask_notifications.plans.operations import RULES_VERSION, Operation
from flask_notifications.plans.overlaps import find_rivals
from flask_notifications.plans.plan import deprecated_operations

if TYPE_CHECKING:
    from flask_notifications.plans.plan import Plan


def fingerprints(plan: "Plan") -> dict[str, str]:
    """Return the fingerprint of each retired operation of a plan, by name; anything
    else is a ``ValueError``.
    """
    retired = deprecated_operations(plan)
    rivals = find_rivals(plan)
    found = {}
    for operation in retired:
        # Whether an operation that may take its requests is live decides, too.
        others = [
            [*_requests_of(each), plan[each] is None] for each in rivals[operation.name]
        ]
        found[operation.name] = digest(
            [RULES_VERSION, _requests_of(operation), sorted(others, key=json.dumps)]
        )
    return found


def digest(value: Any) -> str:
    """Return 32 hexadecimal digits for a value that JSON can express."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def _requests_of(operation: Operation) -> list[Any]:
    conditions = (operation.query, operation.headers)
    return [
        operation.method,
        operation.path,
        *(_normalise(values or {}) for values in conditions),
    ]


def _normalise(values: Values) -> dict[str, list[str]]:
    return {
        name.lower(): sorted([each] if isinstance(each, str) else each)
        for name, each in values.items()
    }
