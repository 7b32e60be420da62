"""Results on standard output, which may be a pipe, a full disk or a terminal of few characters."""

import click


def print_result(result: str) -> None:
    """Write a result to standard output.

    :raises click.ClickException: its encoding lacks a character, or it cannot be written to.
    """
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
