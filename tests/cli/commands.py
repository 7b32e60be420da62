"""Run the command line in this process and capture its output."""

from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any, NamedTuple

from flask_notifications.cli import main


class Outcome(NamedTuple):
    """The exit code of a command, and what it wrote to standard output and standard error."""

    code: int
    out: str
    err: str


def run(*arguments: Any) -> Outcome:
    """Run the command line with the arguments as strings, and return the outcome."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main(_to_strings(arguments), prog_name="flask-notifications")
        except SystemExit as ended:
            code = ended.code
    assert isinstance(code, int)
    return Outcome(code, out.getvalue(), err.getvalue())


def _to_strings(arguments: Sequence[Any]) -> list[str]:
    return [str(argument) for argument in arguments]
