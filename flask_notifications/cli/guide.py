"""The command ``guide``: the migration guide of a plan as HTML."""

from datetime import datetime
from importlib import import_module
from pathlib import Path

import click

from .arguments import PLAN_FILE, check_format, parse_date, read_plan
from .output import print_result


@click.command
@click.argument("file", type=PLAN_FILE, callback=check_format)
@click.option("--base-url", metavar="U", help="The URL of your API, for complete links.")
@click.option("--at", callback=parse_date, metavar="DATE", help="Show the state at this time instead of now.")
def guide(file: Path, base_url: str | None, at: datetime | None) -> None:
    """Write the migration guide of a plan as HTML.

    FILE must end with .toml or .json. The page tells callers what goes away, when, and what to call instead.

    Exit code: 0, or 1 with one line per error (place: message).
    """
    plan = read_plan(file)
    try:
        page: str = import_module("flask_notifications.pages").render_guide(plan, at=at, base_url=base_url)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    print_result(page)
