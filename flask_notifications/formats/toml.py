"""A plan as a file in TOML (the extra ``openapi``)."""

from datetime import datetime

import tomli_w

from flask_notifications.plans.files import dump_plan
from flask_notifications.plans.plan import Plan

_DATES = ("deprecated_at", "sunset_at")


def format_plan(plan: Plan) -> str:
    """Return a file from which ``load_plan`` loads an equal plan.

    What all retired operations have is written once.
    """
    operations = dump_plan(plan)["operations"]
    for operation in operations:
        operation |= {
            key: datetime.fromisoformat(operation[key])
            for key in _DATES
            if key in operation
        }
    retired = [operation for operation in operations if "live" not in operation]
    keys = [
        key
        for key in (*_DATES, "documentation")
        if len({each.get(key) for each in retired}) == 1
    ]
    shared = {key: retired[0][key] for key in keys if key in retired[0]}
    own = [
        {key: value for key, value in each.items() if key not in shared}
        for each in operations
    ]
    written = tomli_w.dumps({**shared, "operations": own})
    # In strings, TOML allows some control characters, which a terminal obeys.
    return "".join(
        each if each.isprintable() or each == "\n" else f"\\U{ord(each):08x}"
        for each in written
    )
