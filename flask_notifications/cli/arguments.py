"""Read the arguments that several commands share, and report errors about them."""

import io
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn, TextIO

import click

from flask_notifications.dates import DATE, parse_time
from flask_notifications.sessions.redaction import redact_uri
from flask_notifications.validation import check_base_url
from flask_notifications.wording import escape

if TYPE_CHECKING:
    from flask_notifications.plans.plan import Plan

STANDARD_INPUT = Path("-")

# A file that exists, or standard input.
FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


def demand(condition: object, message: str) -> None:
    """Raise ``click.UsageError`` (exit code 2) unless a condition holds."""
    if not condition:
        raise click.UsageError(message)


def fail(message: str) -> NoReturn:
    """Raise ``click.ClickException`` (exit code 1).

    The message is escaped, because it may contain parts of a file or a response.
    """
    raise click.ClickException(escape(message))


def format_option(*formats: str) -> Callable[[Any], Any]:
    """Return the option ``--format``; the first of the formats is the default."""
    return click.option(
        "--format",
        "output",
        type=click.Choice(formats),
        default=formats[0],
        help="Output format.",
    )


def parse_date(value: str) -> datetime:
    """Parse a date, which means midnight UTC, or a date and time with an offset."""
    try:
        return parse_time(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


# The option for the time whose state a command shows.
AT = click.option(
    "--at",
    type=parse_date,
    metavar="DATE",
    help="Show the state at this time, such as 2027-07-01T09:00:00Z, instead of now.",
)


def parse_day(value: str) -> datetime | date:
    """Parse a date, which means the whole day, or a date and time with an offset."""
    time = parse_date(value)
    return time.date() if DATE.fullmatch(value) else time


def parse_base_url(value: str) -> str:
    """Check that a value is an absolute URL without a query, and return it."""
    try:
        check_base_url(value)
    except ValueError as error:
        raise click.BadParameter(redact_uri(str(error))) from error
    return value


def progress_file(*, is_shown: bool) -> TextIO:
    """Return the file for a progress bar: standard error, or a discarded string."""
    return sys.stderr if is_shown else io.StringIO()


def is_watched() -> bool:
    """Return whether standard error is a terminal, where somebody sees progress."""
    # It is None if it was closed before Python started.
    return sys.stderr is not None and sys.stderr.isatty()


def read_plan(path: Path) -> "Plan":
    """Read a plan from a file or standard input; print each error on a line, and exit.

    On standard input, JSON begins with ``{``, and everything else is TOML.
    """
    from flask_notifications.plans.files import InvalidPlan, parse_plan

    has_suffix = path == STANDARD_INPUT or path.suffix in {".toml", ".json"}
    demand(has_suffix, f"the name of {str(path)!r} must end with .toml or .json")
    content = read_file(path)
    is_json = content.lstrip(BOM_UTF8 + b" \t\r\n").startswith(b"{")
    suffix = path.suffix or (".json" if is_json else ".toml")
    try:
        return parse_plan(content, suffix, str(path))
    except InvalidPlan as error:
        for line in error.lines:
            click.echo(escape(line), err=True)
        raise click.exceptions.Exit(1) from error


def read_file(path: Path) -> bytes:
    """Return the bytes of a file, or of standard input."""
    with open_file(path) as stream:
        return bytes(stream.read())


@contextmanager
def open_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file or standard input, which only one argument of a command can read."""
    if path == STANDARD_INPUT:
        readers = click.get_current_context().meta.setdefault(__name__, [])
        demand(not readers, "only one argument can read standard input")
        readers.append(path)
        if sys.stdin is None:
            fail("standard input is closed")
    try:
        with click.open_file(str(path), "rb") as stream:
            yield stream
    except OSError as error:
        fail(f"{path}: {error.strerror}")
