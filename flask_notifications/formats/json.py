"""Results as JSON, for programs."""

import json
from operator import methodcaller
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flask_notifications.check.checker import CheckReport
    from flask_notifications.plans.report import PlanReport
    from flask_notifications.usage import UsageReport


def format_result(result: "UsageReport | PlanReport | CheckReport | Sequence[CheckReport]") -> str:
    """Return a result of one of the commands."""
    return json.dumps(result, default=methodcaller("to_dict"), indent=2)
