"""Results as JSON, for programs."""

import json
from operator import methodcaller


def format_result(result: object) -> str:
    """Return a result of one of the commands, or a list of them."""
    return json.dumps(result, default=methodcaller("to_dict"), indent=2)
