"""The command ``usage``: who still calls, and the verdict."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
from click import option

from flask_notifications.wording import escape

from .arguments import (
    FILE,
    STANDARD_INPUT,
    demand,
    fail,
    format_option,
    is_watched,
    open_file,
    parse_base_url,
    parse_day,
    progress_file,
    read_plan,
)

if TYPE_CHECKING:
    from flask_notifications.formats.notice import Notice
    from flask_notifications.plans.plan import Plan
    from flask_notifications.usage import UsageReport

# Seconds after which reading a database shows its progress.
_PATIENCE = 1.0
_HOURS, _SHARE = click.FloatRange(min=0), click.FloatRange(0, 1)
_EXIT_CODES = {"safe": 0, "in use": 3, "unknown": 4}


@click.command
@click.argument("database", envvar="FLASK_NOTIFICATIONS_DATABASE", required=False)
@option(
    "--log",
    "files",
    multiple=True,
    metavar="FILE",
    help="Read this access log, the logs in this folder, or those that fit wildcards; "
    "needs --plan.",
)
@option(
    "--log-format",
    metavar="FORMAT",
    help="A regular expression for lines that are neither in the Common nor in the "
    "Combined format, with the groups time and target, and perhaps method, status, "
    "agent and user, or json:FIELD=KEY,… with these fields.",
)
@option(
    "--log-prefix",
    metavar="PATH",
    help="The mount point of the application in the logs; / is the root.",
)
@option(
    "--plan",
    "file",
    type=FILE,
    metavar="FILE",
    help="Report the deprecated operations of this plan.",
)
@option(
    "--days",
    type=click.IntRange(1, 3650),
    default=30,
    metavar="N",
    help="The window, in complete UTC days.",
)
@option(
    "--operation",
    "operations",
    multiple=True,
    metavar="NAME",
    help="Report this operation only.",
)
@option(
    "--caller",
    metavar="NAME",
    help="Write a notice for this caller alone; needs --plan.",
)
@option(
    "--ignore-client",
    "ignore_clients",
    multiple=True,
    metavar="C",
    help="Ignore this client in the verdict.",
)
@option(
    "--ignore-caller",
    "ignore_callers",
    multiple=True,
    metavar="C",
    help="Ignore this caller in the verdict.",
)
@option(
    "--ignore-refused",
    is_flag=True,
    help="Ignore calls without a label that got 401 or 403.",
)
@option(
    "--allow-gap",
    type=_HOURS,
    default=6.0,
    metavar="HOURS",
    help="The longest gap that a safe verdict allows.",
)
@option(
    "--min-coverage",
    type=_SHARE,
    default=0.99,
    metavar="SHARE",
    help="The covered share that a safe verdict needs.",
)
@option(
    "--gone-after",
    type=_HOURS,
    metavar="HOURS",
    help="Take a host that is not heard for so long for switched off.",
)
@option(
    "--service", metavar="NAME", help="The application, if several share the database."
)
@option(
    "--hosts",
    type=click.IntRange(min=1),
    metavar="N",
    help="Require N hosts that record in each hour.",
)
@option(
    "--require-probe",
    is_flag=True,
    help="Require a call of flask-notifications-check on each day.",
)
@option(
    "--until",
    type=parse_day,
    metavar="DATE",
    help="The end of the window, such as 2027-06-30; by default now.",
)
@option(
    "--base-url",
    type=parse_base_url,
    metavar="U",
    help="The URL of the application in a notice.",
)
@option("--contact", metavar="TEXT", help="Whom to ask, in a notice.")
@option(
    "--sort",
    type=click.Choice(["plan", "calls"]),
    default="plan",
    help="The order of operations: that of the plan, or least called first.",
)
@format_option("text", "json", "csv", "html")
@click.pass_context
def usage(
    context: click.Context,
    /,
    *,
    database: str | None,
    files: tuple[str, ...],
    file: Path | None,
    operations: tuple[str, ...],
    caller: str | None,
    base_url: str | None,
    contact: str | None,
    sort: str,
    output: str,
    **options: Any,
) -> None:
    """Show who still calls, and whether it is safe to switch off.

    DATABASE is the SQLAlchemy URL that UsageRecorder writes to, as in
    sqlite:///usage.sqlite3. To keep a password out of the list of processes, put the
    URL into FLASK_NOTIFICATIONS_DATABASE instead. With --log, calls are read from
    access logs too, compressed or not. They prove use, and never its absence.

    --log, --operation, --ignore-client and --ignore-caller may be repeated.

    Exit code: 0 if all operations are safe, 3 if any is in use, 4 if none is in use and
    any is unknown, 1 on an error, such as a missing database. With --caller, the code
    is for that caller alone, and a caller without a recorded call is an error.
    """
    plan = None if file is None else read_plan(file)
    _check_notice(plan, caller, base_url, contact, output)
    demand(database is not None or files, "give a DATABASE, or access logs with --log")
    demand(
        not files or plan is not None,
        "--log needs --plan, for the operations to look for",
    )
    describes_logs = {options["log_format"], options["log_prefix"]} != {None}
    demand(files or not describes_logs, "--log-format and --log-prefix need --log")
    names = _check_operations(plan, operations)
    report = _read_report(
        database, files, plan=plan, operations=names, caller=caller, **options
    )
    for note in report.notes:
        click.echo(escape(note), err=True)
    if sort == "calls":
        report = report.sort_by_calls()
    if caller is None or plan is None:
        click.echo(_format_report(report, plan, output))
    else:
        from flask_notifications.formats.notice import describe_notice

        notice = describe_notice(
            report, plan, caller, base_url=base_url, contact=contact
        )
        if notice is None:
            fail(f"no call of {caller!r} has been recorded")
        click.echo(_format_notice(notice, output))
    context.exit(_EXIT_CODES[report.verdict])


def _check_notice(
    plan: "Plan | None",
    caller: str | None,
    base_url: str | None,
    contact: str | None,
    output: str,
) -> None:
    """Check the options of a notice, which needs a plan and is for people only."""
    if caller is None:
        is_plain = base_url is None and contact is None
        demand(is_plain, "--base-url and --contact need --caller")
        return
    demand(plan, "--caller needs --plan, for the dates and the successors")
    demand(output in {"text", "html"}, "--caller needs --format text or html")


def _check_operations(plan: "Plan | None", names: tuple[str, ...]) -> list[str] | None:
    """Check the names of operations, and return them, or ``None`` if there are none.

    Without names, all operations of the plan or the database are reported.
    """
    if plan is not None:
        deprecated = {
            operation.name for operation, policy in plan.items() if policy is not None
        }
        demand(deprecated, "the plan has no deprecated operation")
        unknown = sorted(set(names) - deprecated)
        demand(
            not unknown,
            f"the plan has no deprecated operation {', '.join(map(repr, unknown))}",
        )
    return list(names) or None


class _WatchedFile:
    """A file that reports how many bytes each read has returned."""

    def __init__(
        self, path: Path, stream: IO[bytes], report: Callable[[int], object]
    ) -> None:
        self.name = str(path)
        self._stream = stream
        self._report = report

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._report(len(data))
        return data


def _find_logs(arguments: Sequence[str], log_format: str | None) -> list[Path]:
    """Return the files that the arguments of ``--log`` mean, without duplicates."""
    from flask_notifications.usage.logs import find_files

    paths: dict[Path, Path] = {}
    for argument in arguments:
        if argument == str(STANDARD_INPUT):
            paths[STANDARD_INPUT] = STANDARD_INPUT
            continue
        for path in find_files(argument, log_format):
            paths.setdefault(path.resolve(), path)
    return list(paths.values())


def _open_logs(paths: Sequence[Path]) -> Iterator[_WatchedFile]:
    """Open files one after the other, and show the progress on a terminal.

    The size of standard input is unknown, so it does not count.
    """
    size = 0
    for path in paths:
        if path != STANDARD_INPUT:
            size += path.stat().st_size
    file = progress_file(is_shown=size > 0 and is_watched())
    with click.progressbar(length=size, label="Reading logs", file=file) as bar:
        for path in paths:
            with open_file(path) as stream:
                yield _WatchedFile(path, stream, bar.update)


def _read_report(
    database: str | None, files: Sequence[str], **options: Any
) -> "UsageReport":
    try:
        from flask_notifications.usage import StoreUnavailable
        from flask_notifications.usage.options import Options
        from flask_notifications.usage.report import read_report
    except ModuleNotFoundError as error:  # its message says which extra is missing
        fail(str(error))
    try:
        logs: Iterable[Any] = ()
        if files:
            logs = _open_logs(_find_logs(files, options["log_format"]))
        with _show_progress() as progress:
            report = read_report(database, Options(logs=logs, **options), progress)
    except (FileNotFoundError, ValueError) as error:
        raise click.UsageError(escape(str(error))) from error
    except (StoreUnavailable, ModuleNotFoundError, OSError) as error:
        fail(str(error))
    return report


@contextmanager
def _show_progress() -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function that shows how much of the database has been read.

    Yield ``None`` if standard error is not a terminal. The progress bar appears only if
    reading takes long.
    """
    if not is_watched():
        yield None
        return
    started_at = time.monotonic()
    bars: list[Any] = []  # the progress bar, once it is shown
    with ExitStack() as stack:

        def show(done: int, total: int) -> None:
            if not bars and time.monotonic() - started_at > _PATIENCE:
                bar = click.progressbar(
                    length=total, label="Reading the database", file=sys.stderr
                )
                bars.append(stack.enter_context(bar))
            for bar in bars:
                bar.update(done - bar.pos)

        yield show


def _format_report(report: "UsageReport", plan: "Plan | None", output: str) -> str:
    from flask_notifications.formats import csv, json, text

    if output == "json":
        return json.format_result(report)
    if output == "csv":
        return csv.format_usage(report, plan)
    if output == "html":
        from flask_notifications.pages import render_usage

        return render_usage(report, plan=plan)
    return text.format_usage(report, plan)


def _format_notice(notice: "Notice", output: str) -> str:
    if output == "html":
        from flask_notifications.formats.notice import render_notice

        return render_notice(notice)
    from flask_notifications.formats.text import format_notice

    return format_notice(notice)
