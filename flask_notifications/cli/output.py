"""Results and errors: where they go, and their exit codes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

import click

from flask_notifications.wording import escape

Decorator = Callable[[Callable[..., None]], Callable[..., None]]

# An option of a command, whose help shows its default.
option: Callable[..., Decorator] = partial(click.option, show_default=True)

# Where the result of a command goes.
TO = option(
    "--output",
    "to",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
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


def print_result(result: str, to: Path | None = None) -> None:
    """Write a result to a file, or to standard output.

    :raises click.ClickException: the file cannot be written to.
    """
    if to is None or to == Path("-"):
        click.echo(result)
        return
    try:
        to.write_text(f"{result}\n", encoding="utf-8")
    except OSError as error:
        fail(f"{to}: {error.strerror}")
