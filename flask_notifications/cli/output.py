"""Results on standard output, which may be a pipe, a full disk or a terminal of few characters."""

from pathlib import Path

import click

# Where the result of a command goes.
TO = click.option(
    "--output",
    "to",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Write to this file, in UTF-8, instead of standard output.",
)


def print_result(result: str, to: Path | None = None) -> None:
    """Write a result to a file, or to standard output.

    :raises click.ClickException: its encoding lacks a character, or it cannot be written to.
    """
    if to is not None and to != Path("-"):
        try:
            to.write_text(f"{result}\n", encoding="utf-8")
        except OSError as error:
            message = f"{to}: {error.strerror}"
            raise click.ClickException(message) from error
        return
    try:
        click.echo(result)
    except UnicodeEncodeError as error:
        lacking = ascii(error.object[error.start])
        message = f"standard output has the encoding {error.encoding}, without {lacking}: set PYTHONIOENCODING=utf-8"
        raise click.ClickException(message) from error
    except BrokenPipeError:  # click ends quietly, because nobody reads on
        raise
    except OSError as error:
        message = f"standard output cannot be written to: {error.strerror}"
        raise click.ClickException(message) from error
