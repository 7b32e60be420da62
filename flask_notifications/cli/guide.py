"""The command ``guide``: the migration guide of a plan as HTML."""

from pathlib import Path
from typing import Any

import click
from click import option

from .arguments import AT, FILE, parse_base_url, read_plan


def _parse_title(value: str) -> str:
    if not value.strip():
        message = "must not be empty"
        raise click.BadParameter(message)
    return value


@click.command
@click.argument("file", type=FILE)
@option("--title", type=_parse_title, metavar="TEXT", help="The heading of the page.")
@option(
    "--base-url",
    type=parse_base_url,
    metavar="U",
    help="The URL of your API, for complete links.",
)
@option(
    "--contact",
    metavar="TEXT",
    help="The contact for questions. A URL or an e-mail address becomes a link.",
)
@AT
def guide(file: Path, **options: Any) -> None:
    """Write the migration guide of a plan as HTML.

    FILE must end with .toml or .json, or be - for standard input. The page shows
    callers which operations end and when, and the requests to send instead.

    Exit code: 0, or 1 with one line per error (place: message).
    """
    from flask_notifications.pages import render_guide

    click.echo(render_guide(read_plan(file), **options))
