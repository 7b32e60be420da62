"""The command ``check``: call a live URL and check what it announces."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from flask_notifications.headers import TOKEN

from .arguments import PLAN_FILE, check_format, escape, read_plan
from .output import print_result

if TYPE_CHECKING:
    from flask_notifications.checker import CheckReport, Finding

_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}
# RFC 9110 sections 5.1 and 5.5: a token, a colon, and a value without control characters.
_VISIBLE = r"[\x21-\x7e\xa1-\xff]"
_HEADER = re.compile(rf"({TOKEN}):[ \t]*({_VISIBLE}+(?:[ \t]+{_VISIBLE}+)*)[ \t]*")


def _parse_url(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """Return a URL without its fragment; the messages do not show it, because it may hold credentials."""
    try:
        parts = urlsplit(value)
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or not re.fullmatch(r"[\x21-\x7e]+", value):
        message = "must be like https://example.com/old, percent-encoded"
        raise click.BadParameter(message)
    if "@" in parts.netloc:
        message = "must not hold credentials: use --header 'Authorization: …'"
        raise click.BadParameter(message)
    return parts._replace(fragment="").geturl()


def _parse_headers(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> list[tuple[str, str]]:
    """Return names and values; the message does not show a value, because it may be a credential."""
    found = [_HEADER.fullmatch(value) for value in values]
    headers = [(match[1], match[2]) for match in found if match is not None]
    if len(headers) < len(values):
        message = "each must be like 'Name: value'"
        raise click.BadParameter(message)
    return headers


def _parse_method(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if not re.fullmatch(TOKEN, value):
        message = f"{value!r} is not an HTTP method"
        raise click.BadParameter(message)
    return value.upper()


@click.command
@click.argument("url", callback=_parse_url)
@click.option(
    "--method", default="GET", show_default=True, metavar="M", callback=_parse_method, help="The HTTP method to call."
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="'N: V'",
    callback=_parse_headers,
    help="A header to send to the origin of the URL. Credentials in it are never shown.",
)
@click.option(
    "--plan", "file", type=PLAN_FILE, callback=check_format, metavar="FILE", help="Compare with this plan file."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True, max=3600),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for each response.",
)
@click.option(
    "--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
@click.pass_context
def check(
    context: click.Context,
    *,
    url: str,
    method: str,
    headers: list[tuple[str, str]],
    file: Path | None,
    timeout: float,
    output: str,
) -> None:
    """Call a live URL and check what it announces, strictly.

    It checks the syntax of Deprecation, Sunset and Link, the order of the dates, whether links respond, caching of 410,
    CORS, whether HEAD matches GET and, with --plan, whether production says what the plan says. The request is real, so
    take care with methods that change data.

    Exit code: 0, 1 if the URL is not reachable or the plan has errors, 3 if an error was found. Warnings do not count.
    """
    from flask_notifications.checker import check_url
    from flask_notifications.fetching import Unreachable

    plan = None if file is None else read_plan(file)
    try:
        report = check_url(url, method=method, headers=headers, plan=plan, time_limit=timeout)
    except Unreachable as error:
        raise click.ClickException(escape(str(error))) from error
    print_result(_format_json(report) if output == "json" else _format_text(method, report))
    if report.has_errors:
        context.exit(3)


def _format_json(report: "CheckReport") -> str:
    findings = [
        {"code": finding.code, "level": finding.level, "message": finding.message} for finding in report.findings
    ]
    return json.dumps({"schema": 1, "url": report.url, "status": report.status, "findings": findings}, indent=2)


def _format_text(method: str, report: "CheckReport") -> str:
    redirected = "" if report.final_url == report.url else f" (redirected to {report.final_url})"
    headers = [f"  {name}: {value}" for name, value in report.headers]
    findings = [_format_finding(finding) for finding in report.findings]
    target = f"{method} {report.url}{redirected}: {report.status}"
    return "\n".join([*map(escape, [target, *headers]), "", *findings, _format_total(report)])


def _format_finding(finding: "Finding") -> str:
    return f"{click.style(finding.level, fg=_COLOURS[finding.level])}: {finding.code}: {escape(finding.message)}"


def _format_total(report: "CheckReport") -> str:
    levels = [finding.level for finding in report.findings]
    counts = [(level, levels.count(level)) for level in ("error", "warning")]
    return ", ".join(f"{count} {level}{'' if count == 1 else 's'}" for level, count in counts)
