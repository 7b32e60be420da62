"""The command ``plan``: check a plan file and show its schedule."""

import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
from click import option

from flask_notifications.wording import escape

from .arguments import AT, FILE, demand, fail, format_option, read_file, read_plan

# For validators and editors. It is a file, so that printing it imports nothing.
_SCHEMA = Path(__file__).parents[1] / "plans" / "schema.json"


@click.command
@click.argument("file", type=FILE, required=False)
@option(
    "--schema", is_flag=True, help="Print the JSON Schema of a plan file, for editors."
)
@option(
    "--from-openapi",
    "document",
    type=FILE,
    metavar="DOCUMENT",
    help="Print a plan file in TOML of the operations that an OpenAPI document "
    "deprecates, from the date of --at on.",
)
@AT
@option(
    "--against",
    type=FILE,
    metavar="OLD",
    help="Show the changes for callers since OLD.",
)
@option(
    "--min-notice",
    type=click.IntRange(0, 36500),
    default=0,
    metavar="DAYS",
    help="With --against, require this many days before anything new responds with "
    "410.",
)
@format_option("text", "json")
@click.pass_context
def plan(
    context: click.Context,
    /,
    *,
    file: Path | None,
    schema: bool,
    document: Path | None,
    at: datetime | None,
    against: Path | None,
    min_notice: int,
    output: str,
) -> None:
    """Check a plan file, and show its schedule.

    FILE must end with .toml or .json, or be - for standard input. The output shows the
    phase of each operation, its next change, and its headers as they are sent. Probable
    mistakes are printed to standard error as warnings. Whether each operation reaches a
    view, only your application knows: "flask --app NAME retirement" compares both.

    Exit code: 0; 1 with one line per error (place: message); 3 if --against finds a
    broken promise to callers.
    """
    is_one = (file is not None) + schema + (document is not None) == 1
    demand(is_one, "give one of FILE, --schema and --from-openapi DOCUMENT")
    demand(
        against is None or file is not None,
        "--against needs FILE, because it compares two plans",
    )
    demand(
        against is not None or not min_notice,
        "--min-notice needs --against OLD, because it applies to new dates",
    )
    time = datetime.now(UTC) if at is None else at
    if file is not None:
        notice = timedelta(days=min_notice)
        context.exit(_print_plan(file, time, against, notice, output))
    if document is not None:
        click.echo(_convert(document, time))
    else:
        click.echo(_SCHEMA.read_text(encoding="utf-8").removesuffix("\n"))


def _print_plan(
    file: Path, time: datetime, against: Path | None, min_notice: timedelta, output: str
) -> int:
    """Print a plan and its warnings, and return the exit code.

    If ``against`` is an older plan, also print the changes since then.
    """
    from flask_notifications.formats import json, text
    from flask_notifications.plans.changes import compare_plans, list_new_records
    from flask_notifications.plans.mistakes import plan_warnings

    plan = read_plan(file)
    changes = None
    if against is not None:
        old = read_plan(against)
        changes = compare_plans(old, plan, at=time, min_notice=min_notice)
        names = list_new_records(old, plan)
        if names:
            note = "a new name, or other rules, begin a new record of usage: "
            click.echo(
                f"{text.style('info')}: {note}{escape(', '.join(names))}", err=True
            )
    for warning in plan_warnings(plan, at=time):
        click.echo(f"{text.style('warning')}: {escape(warning)}", err=True)
    if output == "json":
        click.echo(json.format_plan(plan, time, changes or ()))
    else:
        click.echo(text.format_plan(plan, time, changes))
    broken = [change for change in changes or () if change.level == "error"]
    return 3 if broken else 0


def _convert(document: Path, at: datetime) -> str:
    """Return the plan file of an OpenAPI document, and print warnings and errors."""
    from flask_notifications.formats import text
    from flask_notifications.openapi import plan_from_openapi
    from flask_notifications.plans.policy import DeprecationPolicy

    try:
        from flask_notifications.formats.toml import format_plan
        from flask_notifications.openapi.files import parse_document
    except ModuleNotFoundError:
        fail("this needs: pip install 'Flask-Notifications[openapi]'")
    policy = DeprecationPolicy(deprecated_at=at.replace(microsecond=0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            plan = plan_from_openapi(parse_document(read_file(document)), policy)
        except ValueError as error:
            for line in str(error).splitlines():
                click.echo(escape(f"Error: {document}: {line}"), err=True)
            raise click.exceptions.Exit(1) from error
    if not plan:
        fail(
            f"{document}: no operation has deprecated: true, x-sunset "
            "or x-deprecated-at"
        )
    for warning in caught:
        line = escape(str(warning.message))
        click.echo(f"{text.style('warning')}: {line}", err=True)
    return format_plan(plan).removesuffix("\n")
