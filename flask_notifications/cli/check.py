"""The command ``check``: call a live URL and check its announcement."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from flask_notifications.check.links import is_splittable
from flask_notifications.headers import TOKEN

from .arguments import FILE, PLAN_FILE, format_option, read_file, read_plan
from .output import fail, option, print_result

if TYPE_CHECKING:
    from flask_notifications.plans import Plan

# RFC 9110 sections 5.1 and 5.5: a token, a colon, and a value without control characters.
_VISIBLE = r"[\x21-\x7e\xa1-\xff]"
_TIMEOUT = click.FloatRange(min=0, min_open=True, max=3600)
_HEADER = re.compile(rf"({TOKEN}):[ \t]*({_VISIBLE}+(?:[ \t]+{_VISIBLE}+)*)[ \t]*")


def _parse_url(value: str) -> str:
    """Return a URL without its fragment; the messages do not show it, because it may hold credentials."""
    parts = urlsplit(value if is_splittable(value) else "")
    if parts.scheme not in {"http", "https"} or not parts.hostname or not re.fullmatch(r"[\x21-\x7e]+", value):
        message = "must be like https://example.com/old, percent-encoded"
        raise click.BadParameter(message)
    if "@" in parts.netloc:
        message = "must not hold credentials: use --header 'Authorization: …'"
        raise click.BadParameter(message)
    return parts._replace(fragment="").geturl()


def _parse_headers(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> list[tuple[str, str]]:
    """Return names and values; the message does not show a value, because it may be a credential."""
    lines = os.environ.get("FLASK_NOTIFICATIONS_HEADERS", "").splitlines()
    for value in values:
        lines += _read_lines(FILE.convert(value[1:], parameter, context)) if value.startswith("@") else [value]
    found = [_HEADER.fullmatch(line) for line in lines if line or line in values]
    headers = [(match[1], match[2]) for match in found if match is not None]
    if len(headers) < len(found):
        message = "each must be like 'Name: value'"
        raise click.BadParameter(message)
    return headers


def _read_lines(file: Path) -> list[str]:
    return read_file(file).decode("utf-8-sig", "replace").splitlines()


def _parse_method(value: str) -> str:
    if not re.fullmatch(TOKEN, value):
        message = f"{value!r} is not an HTTP method"
        raise click.BadParameter(message)
    return value.upper()


def _list_urls(url: str | None, base_url: str | None, plan: "Plan | None") -> list[str]:
    from flask_notifications.check.comparison import list_simple_urls

    if url is not None and base_url is None:
        return [url]
    if url is not None or base_url is None or plan is None:
        message = "give a URL, or --plan and --base-url"
        raise click.UsageError(message)
    return list_simple_urls(plan, base_url) or fail(
        "the plan has no GET operation without parameters and conditions: give the URL of one request"
    )


@click.command
@click.argument("url", type=_parse_url, required=False)
@option(
    "--base-url",
    metavar="U",
    type=_parse_url,
    help="Without URL: check each GET operation of the plan without parameters and conditions, below this URL.",
)
@option("--method", default="GET", metavar="M", type=_parse_method, help="The HTTP method to call.")
@option(
    "--header",
    "headers",
    multiple=True,
    metavar="'N: V'|@FILE",
    callback=_parse_headers,
    help="A header to send to the origin of the URL, or a file with one header per line; @- is standard input. A file "
    "keeps credentials out of the list of processes. Headers in $FLASK_NOTIFICATIONS_HEADERS are sent too.",
)
@option("--plan", "file", type=PLAN_FILE, metavar="FILE", help="Compare with this plan file.")
@option("--no-links", "calls_links", flag_value=False, default=True, show_default=False, help="Do not call the links.")
@option("--timeout", "time_limit", type=_TIMEOUT, default=10.0, metavar="SECONDS", help="The limit for each response.")
@format_option("text", "json")
@click.pass_context
def check(
    context: click.Context,
    /,
    *,
    url: str | None,
    base_url: str | None,
    file: Path | None,
    output: str,
    **options: Any,
) -> None:
    """Call a live URL and check its announcement strictly.

    It checks the syntax of Deprecation, Sunset and Link, the order of the dates, the links, the caching of 410, CORS,
    and the response to HEAD. With --plan, it also compares production with the plan. The request is real, so take care
    with methods that change data.

    Exit code: 0, 1 if the URL is not reachable or the plan has errors, 3 if an error was found. Warnings do not count.
    """
    from flask_notifications.check.checker import check_url
    from flask_notifications.check.fetching import Unreachable
    from flask_notifications.formats import json, text

    plan = None if file is None else read_plan(file)
    urls = _list_urls(url, base_url, plan)
    try:
        reports = [check_url(each, plan=plan, **options) for each in urls]
    except Unreachable as error:
        fail(str(error))
    if output == "json":
        print_result(json.format_result(reports[0]) if base_url is None else json.format_results(reports))
    else:
        print_result("\n\n".join(text.format_check(options["method"], report) for report in reports))
    if any(report.has_errors for report in reports):
        context.exit(3)
