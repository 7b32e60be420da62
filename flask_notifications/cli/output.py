"""Results and errors: where they go, and their exit codes."""

from collections.abc import Callable
from functools import partial
from typing import NoReturn, TextIO

import click

from flask_notifications.wording import escape

Decorator = Callable[[Callable[..., None]], Callable[..., None]]

# An option of a command, whose help shows its default.
option: Callable[..., Decorator] = partial(click.option, show_default=True)

# Where the result of a command goes.
TO = option(
    "--output",
    "to",
    type=click.File("w", encoding="utf-8", lazy=True),
    metavar="FILE",
    help="Write to this file, in UTF-8, instead of standard output.",
)


def demand(condition: object, message: str) -> None:
    """Raise ``click.UsageError``, which is the exit code 2, unless a condition holds."""
    if not condition:
        raise click.UsageError(message)


def fail(message: str) -> NoReturn:
    """Raise ``click.ClickException``, which is the exit code 1; the message may hold what a file or a server sent."""
    raise click.ClickException(escape(message))


def print_result(result: str, to: TextIO | None = None) -> None:
    """Write a result to a file, or to standard output."""
    click.echo(result, file=to)
