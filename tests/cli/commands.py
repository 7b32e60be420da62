"""Run the command line in this process and capture its output; record usage for its
reports.
"""

from contextlib import redirect_stderr, redirect_stdout
from datetime import datetime, timedelta
from io import StringIO
from typing import Any, NamedTuple

import pytest

from flask_notifications import Call
from flask_notifications.cli import main
from tests.usage.databases import EXPORT, NOON, REPORT, Past

DAY = timedelta(days=1)
YESTERDAY = NOON - DAY


class Outcome(NamedTuple):
    """The exit code of a command, and what it wrote to standard output and standard
    error.
    """

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


def record_usage(database: str, *calls: Call, at: datetime = YESTERDAY) -> None:
    """Record calls at one time, and the coverage of both operations on the three days
    until noon.
    """
    past = Past(database, REPORT, EXPORT)
    past.cover(NOON - 3.5 * DAY, NOON)
    past.call(at, *calls)
    past.write()


def run_usage(database: str, *options: Any) -> Outcome:
    return run("usage", database, "--until", NOON.isoformat(), "--days", "3", *options)
