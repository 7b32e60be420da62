"""The command ``check``: call a live URL and check its announcement."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click
from click import option

from flask_notifications.check.links import is_splittable
from flask_notifications.headers import TOKEN
from flask_notifications.wording import escape

from .arguments import (
    FILE,
    demand,
    fail,
    format_option,
    is_watched,
    parse_base_url,
    progress_file,
    read_file,
    read_plan,
)

if TYPE_CHECKING:
    from flask_notifications.plans.plan import Plan

# RFC 9110 sections 5.1 and 5.5: a token, a colon, and a value without control
# characters.
_VISIBLE = r"[\x21-\x7e\xa1-\xff]"
_HEADER = re.compile(rf"({TOKEN}):[ \t]*({_VISIBLE}+(?:[ \t]+{_VISIBLE}+)*)[ \t]*")


def _parse_url(value: str) -> str:
    """Check a URL, and return it without its fragment.

    The messages do not show the URL, because it may contain credentials.
    """
    parts = urlsplit(value if is_splittable(value) else "")
    is_url = (
        parts.scheme in {"http", "https"}
        and parts.hostname
        and re.fullmatch(r"[\x21-\x7e]+", value)
    )
    demand(is_url, "a URL must be like https://example.com/old, percent-encoded")
    demand(
        "@" not in parts.netloc,
        "a URL must not hold credentials: use --header 'Authorization: …'",
    )
    return parts._replace(fragment="").geturl()


def _parse_base_url(value: str) -> str:
    return _parse_url(parse_base_url(value))


def _parse_headers(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> list[tuple[str, str]]:
    """Return the names and values of headers, from options, files and the environment.

    The message does not show a value, because it may be a credential.
    """
    lines = os.environ.get("FLASK_NOTIFICATIONS_HEADERS", "").splitlines()
    for value in values:
        if value.startswith("@"):
            file = FILE.convert(value[1:], parameter, context)
            lines += read_file(file).decode("utf-8-sig", "replace").splitlines()
        else:
            lines.append(value)
    headers = []
    for line in lines:
        match = _HEADER.fullmatch(line)
        demand(match or not line, "a header must be like 'Name: value'")
        if match is not None:
            headers.append((match[1], match[2]))
    demand("" not in values, "a header must be like 'Name: value'")
    return headers


def _parse_method(value: str) -> str:
    demand(re.fullmatch(TOKEN, value), f"{value!r} is not an HTTP method")
    return value.upper()


def _list_urls(url: str | None, base_url: str | None, plan: "Plan | None") -> list[str]:
    from flask_notifications.check.comparison import find_simple_operations

    if url is not None and base_url is None:
        return [url]
    if url is not None or base_url is None or plan is None:
        message = "give a URL, or --plan and --base-url"
        raise click.UsageError(message)
    simple = find_simple_operations(plan)
    if all(plan[operation] is None for operation in simple):
        fail(
            "the plan has no deprecated GET operation without parameters and "
            "conditions: give the URL of one request"
        )
    others = [operation.name for operation in plan if operation not in simple]
    if others:
        message = (
            f"{len(others)} of {len(plan)} operations not checked, "
            "because each needs a URL of its own: "
        )
        click.echo(escape(message + ", ".join(others)), err=True)
    return [f"{base_url.rstrip('/')}{path}" for path in simple.values()]


@click.command
@click.argument("url", type=_parse_url, required=False)
@option(
    "--base-url",
    metavar="U",
    type=_parse_base_url,
    help="Without URL: check each GET operation of the plan without parameters and "
    "conditions, below this URL.",
)
@option(
    "--method",
    default="GET",
    metavar="M",
    type=_parse_method,
    help="The HTTP method to call.",
)
@option(
    "--header",
    "headers",
    multiple=True,
    metavar="'N: V'|@FILE",
    callback=_parse_headers,
    help="A header to send to the origin of the URL, or a file with one header per "
    "line; @- is standard input. A file keeps credentials out of the list of "
    "processes. May be repeated. Headers in $FLASK_NOTIFICATIONS_HEADERS are sent too.",
)
@option(
    "--plan", "file", type=FILE, metavar="FILE", help="Compare with this plan file."
)
@option(
    "--no-links",
    "calls_links",
    flag_value=False,
    default=True,
    show_default=False,
    help="Do not call the links.",
)
@format_option("text", "json")
@click.pass_context
def check(
    context: click.Context,
    /,
    *,
    url: str | None,
    base_url: str | None,
    method: str,
    headers: list[tuple[str, str]],
    file: Path | None,
    calls_links: bool,
    output: str,
) -> None:
    """Call a live URL and check its announcement strictly.

    It checks the syntax of Deprecation, Sunset and Link, the order of the dates, the
    links, the caching of 410, CORS, and the response to HEAD. With --plan, it also
    compares production with the plan. The request is real, so take care with methods
    that change data.

    Exit code: 0; 1 if a URL is not reachable or the plan has errors; 3 if a finding is
    an error.
    """
    from flask_notifications.check.checker import check_url
    from flask_notifications.check.comparison import PlanComparison
    from flask_notifications.check.fetching import Fetcher, Unreachable
    from flask_notifications.formats import json, text

    demand(
        base_url is None or method == "GET", "--base-url calls operations with GET only"
    )
    plan = comparison = None
    if file is not None:
        plan = read_plan(file)
        comparison = PlanComparison(plan)
    urls = _list_urls(url, base_url, plan)
    fetcher = Fetcher(urls[0], headers)
    reports, errors = [], []
    bar_file = progress_file(is_shown=len(urls) > 1 and is_watched())
    with click.progressbar(urls, label="Checking", file=bar_file) as bar:
        for target in bar:
            try:
                report = check_url(
                    fetcher,
                    target,
                    method=method,
                    comparison=comparison,
                    calls_links=calls_links,
                )
                reports.append(report)
            except Unreachable as error:
                errors.append(str(error))
    if reports and output == "json":
        click.echo(json.format_result(reports if url is None else reports[0]))
    elif reports:
        click.echo("\n\n".join(text.format_check(method, report) for report in reports))
    for message in errors:
        click.echo(f"Error: {escape(message)}", err=True)
    if errors:
        context.exit(1)
    if any(report.has_errors for report in reports):
        context.exit(3)
