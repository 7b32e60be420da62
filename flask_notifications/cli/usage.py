"""The command ``usage``: who still calls, and the verdict."""

import json
from datetime import date, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .arguments import PLAN_FILE, check_format, parse_day, read_plan
from .output import print_result
from .usage_formats import format_csv, format_markdown, format_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from flask_notifications.plans import Plan
    from flask_notifications.usage import UsageReport

_EXIT_CODES = {"safe": 0, "in use": 3, "unknown": 4}
_FORMATS: "dict[str, Callable[[UsageReport], str]]" = {
    "text": format_text,
    "csv": format_csv,
    "markdown": format_markdown,
}


@click.command
@click.argument("database", envvar="FLASK_NOTIFICATIONS_DATABASE")
@click.option(
    "--plan", "file", type=PLAN_FILE, callback=check_format, metavar="FILE", help="Report its retired operations."
)
@click.option(
    "--days", type=click.IntRange(1, 3650), default=30, show_default=True, help="Complete UTC days to look at."
)
@click.option("--operation", "operations", multiple=True, metavar="NAME", help="Report this operation only.")
@click.option(
    "--ignore-client", "ignore_clients", multiple=True, metavar="C", help="Leave its calls out of the verdict."
)
@click.option(
    "--ignore-caller", "ignore_callers", multiple=True, metavar="C", help="Leave its calls out of the verdict."
)
@click.option(
    "--allow-gap",
    type=click.FloatRange(min=0),
    default=24.0,
    show_default=True,
    metavar="HOURS",
    help="How long a gap in the record may be.",
)
@click.option("--require-canary", is_flag=True, help="Require a call of flask-notifications-check on each day.")
@click.option("--until", callback=parse_day, metavar="DATE", help="The end of the window, by default now.")
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json", "csv", "markdown", "html"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@click.pass_context
def usage(
    context: click.Context,
    /,
    *,
    database: str,
    file: Path | None,
    operations: tuple[str, ...],
    until: datetime | date | None,
    output: str,
    **options: Any,
) -> None:
    """Show who still calls, and whether operations may be switched off.

    DATABASE is the SQLAlchemy URL that UsageRecorder writes to, as in sqlite:///usage.sqlite3. To keep a password out
    of the list of processes, put the URL into FLASK_NOTIFICATIONS_DATABASE instead.

    Exit code: 0 if all operations are safe, 3 if any is in use, 4 if none is in use and any is unknown, 1 on an error,
    such as a database that is not there.
    """
    plan = None if file is None else read_plan(file)
    report = _read(database, operations=_select(plan, operations), until=until, **options)
    print_result(_format(report, plan, output))
    context.exit(_EXIT_CODES[report.verdict])


def _select(plan: "Plan | None", names: tuple[str, ...]) -> list[str] | None:
    """Return the names of the operations to report, or ``None`` for all that are in the database."""
    if plan is None:
        return list(names) or None
    retired = [operation.name for operation, policy in plan.items() if policy is not None]
    if not retired:
        message = "the plan has no retired operation"
        raise click.BadParameter(message, param_hint="'--plan'")
    unknown = sorted(set(names) - set(retired))
    if unknown:
        message = f"the plan has no retired operation {unknown[0]!r}"
        raise click.BadParameter(message, param_hint="'--operation'")
    return list(names) or retired


def _read(database: str, **options: Any) -> "UsageReport":
    try:
        from flask_notifications.usage import StoreUnavailable, read_usage
    except ModuleNotFoundError as error:  # its message says which extra is missing
        raise click.ClickException(str(error)) from error
    try:
        return read_usage(database, **options)
    except (StoreUnavailable, ModuleNotFoundError) as error:
        raise click.ClickException(str(error)) from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _format(report: "UsageReport", plan: "Plan | None", output: str) -> str:
    if output == "json":
        return json.dumps(report.to_dict(), indent=2)
    if output == "html":
        page: str = import_module("flask_notifications.pages").render_usage(report, plan=plan)
        return page
    return _FORMATS[output](report)
