"""The command line: arguments in, results and exit codes out.

Logic is in the modules that the commands import.

Each command imports what it needs when it runs, so ``--help`` needs neither Flask nor
SQLAlchemy nor marshmallow.
"""

import os
import sys
from io import TextIOWrapper
from typing import Any

import click

from .check import check
from .guide import guide
from .plan import plan
from .usage import usage

__all__ = ["main"]


class _Group(click.Group):
    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command with output in UTF-8, except on terminals; the exit code is 1
        if the disk is full.
        """
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(
                errors="backslashreplace",
                encoding=None if sys.stdout.isatty() else "utf-8",
            )
        try:
            return super().main(*args, **extra)
        except OSError as error:
            click.echo(
                f"Error: the output cannot be written to: {error.strerror}", err=True
            )
            sys.exit(1)


@click.group(
    cls=_Group,
    commands=[plan, check, usage, guide],
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(package_name="Flask-Notifications", message="%(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Retire operations of an HTTP API: check the plan, check production, and find out
    who still calls.

    Results go to standard output, messages to standard error. NO_COLOR switches colours
    off.
    """
    if os.environ.get("NO_COLOR"):
        context.color = False
