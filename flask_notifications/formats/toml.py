"""A plan as a file in TOML (the extra ``openapi``)."""

from datetime import datetime

import tomli_w

from flask_notifications.plans.files import dump_plan
from flask_notifications.plans.plan import Plan

_DATES = ("deprecated_at", "sunset_at")


def format_plan(plan: Plan) -> str:
    """Return the content of a file from which ``load_plan`` loads an equal plan.

    Dates and documentation that all deprecated operations share are written once.
    """
    tables = dump_plan(plan)["operations"]
    for table in tables:
        for key in _DATES:
            if key in table:
                table[key] = datetime.fromisoformat(table[key])
    deprecated = [table for table in tables if "live" not in table]
    defaults = {}
    for key in (*_DATES, "documentation"):
        values = {table.get(key) for table in deprecated}
        if len(values) == 1 and None not in values:
            (defaults[key],) = values
    for table in tables:
        for key in defaults:
            table.pop(key, None)
    return _escape(tomli_w.dumps({**defaults, "operations": tables}))


def _escape(content: str) -> str:
    """Escape unprintable characters in TOML, because a terminal would obey them."""
    characters = []
    for character in content:
        if character.isprintable() or character == "\n":
            characters.append(character)
        else:
            characters.append(f"\\U{ord(character):08x}")
    return "".join(characters)
