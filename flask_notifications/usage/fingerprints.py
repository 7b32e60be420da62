"""Fingerprints of the rules by which a request counts as a call of an operation.

A record proves nothing about an operation whose fingerprint has changed since.
"""

import hashlib
import json
from typing import TYPE_CHECKING, Any

from flask_notifications.plans.conditions import Values, list_values
from flask_notifications.plans.operations import RULES_VERSION, Operation
from flask_notifications.plans.overlaps import find_rivals
from flask_notifications.plans.plan import deprecated_operations

if TYPE_CHECKING:
    from flask_notifications.plans.plan import Plan


def fingerprints(plan: "Plan") -> dict[str, str]:
    """Return the fingerprint of each deprecated operation of a plan, by name.

    :raises ValueError: ``plan`` is not a plan.
    """
    deprecated = deprecated_operations(plan)
    rivals = find_rivals(plan)
    by_name = {}
    for operation in deprecated:
        rules = []
        for rival in rivals[operation.name]:
            # A rival may take requests of the operation; it matters whether it is live.
            rules.append([*_requests_of(rival), plan[rival] is None])
        rules.sort(key=json.dumps)
        values = [RULES_VERSION, _requests_of(operation), rules]
        by_name[operation.name] = digest(values)
    return by_name


def digest(value: Any) -> str:
    """Hash a value that JSON can express; return 32 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def _requests_of(operation: Operation) -> list[Any]:
    return [
        operation.method,
        operation.path,
        _normalise(operation.query),
        _normalise(operation.headers),
    ]


def _normalise(conditions: Values | None) -> dict[str, list[str]]:
    normalised = {}
    for name, values in (conditions or {}).items():
        normalised[name.lower()] = sorted(list_values(values))
    return normalised
