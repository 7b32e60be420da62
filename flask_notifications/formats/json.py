"""Results as JSON, for programs."""

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flask_notifications.check.checker import CheckReport
    from flask_notifications.plans.report import PlanReport
    from flask_notifications.usage import UsageReport


def format_result(result: "UsageReport | CheckReport | PlanReport") -> str:
    """Return a result of one of the commands."""
    return json.dumps(result.to_dict(), indent=2)


def format_results(results: "Sequence[CheckReport]") -> str:
    """Return several results, as an array."""
    return json.dumps([result.to_dict() for result in results], indent=2)
