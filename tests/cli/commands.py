"""Run the command line in this process and capture its output."""

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any, NamedTuple

import pytest

from flask_notifications.cli import main


class Outcome(NamedTuple):
    """The exit code of a command, and what it wrote to standard output and standard error."""

    code: int
    out: str
    err: str


def run(*arguments: Any) -> Outcome:
    """Run the command line with the arguments as strings, and return the outcome."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments], prog_name="flask-notifications")
    assert isinstance(ended.value.code, int)
    return Outcome(ended.value.code, out.getvalue(), err.getvalue())
