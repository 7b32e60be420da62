"""The command line: arguments in, results and exit codes out.

The commands contain no logic. Each imports the modules with its logic when it runs, so
``--help`` needs neither Flask nor SQLAlchemy nor marshmallow.
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
        """Run a command, with output in UTF-8 except on terminals.

        The exit code is 1 if the output cannot be written, on a full disk for instance.
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
    """Retire operations of an HTTP API: check plan and production, find callers.

    Results go to standard output, messages to standard error. NO_COLOR switches colours
    off.
    """
    if os.environ.get("NO_COLOR"):
        context.color = False
