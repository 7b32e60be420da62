"""Flask's command ``retirement``: compare plans with the routes of an application.

Flask imports this module for every command, so it imports click and Flask only.
"""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import click
from flask import Flask, current_app
from flask.cli import with_appcontext

# Where middlewares keep the application inside of them.
_INNER = ("app", "_app", "wsgi_app", "application", "_application", "__wrapped__")
# The name and the arguments of a converter.
_CONVERTER = re.compile(r"<(?:(\w+)(?:\(([^>]*)\))?:)?\w+>")
_PARAMETER = r"\{[^/]+\}"


@click.command("retirement")
@click.option("--plan", "file", type=click.Path(path_type=Path), help="A plan file.")
@click.option("--mount", default="", help="The path at which the server mounts it.")
@click.option("--except", "skipped", multiple=True, help="Skip this operation.")
@with_appcontext
def retirement(file: Path | None, mount: str, skipped: tuple[str, ...]) -> None:
    """List the endpoints that each operation of the plan reaches.

    No view is called. Exit code: 0; 1 without a plan, or if an operation reaches none.
    """
    from flask_notifications.cli.arguments import read_plan  # noqa: PLC0415
    from flask_notifications.dates import utc_now  # noqa: PLC0415
    from flask_notifications.wording import escape  # noqa: PLC0415

    app: Any = current_app
    plans = [read_plan(file)] if file else list(_find_plans(app.wsgi_app))
    if not plans:
        message = "no middleware in app.wsgi_app; for an outer one, give --plan FILE"
        raise click.ClickException(message)
    unknown = {*skipped} - {operation.name for plan in plans for operation in plan}
    if unknown:
        message = f"no operation is named {min(unknown)!r}"
        raise click.BadParameter(message)
    mount = f"/{mount.strip('/')}".rstrip("/")
    routes = [_read_rule(rule, mount) for rule in app.url_map.iter_rules()]
    is_wrong = False
    for operation, policy in [item for plan in plans for item in plan.items()]:
        if operation.name not in skipped:
            phase = "live" if policy is None else policy.phase(utc_now())
            title = f"{operation.name}  {operation.method} {operation.path}"
            click.echo(escape(f"{title}  {phase}"))
            level, message = _list_endpoints(operation, routes)
            if level == "error" and phase == "sunset":
                level = "note"
            if level:
                click.echo(f"{level}: {operation.name}: {message}", err=True)
            is_wrong = is_wrong or level == "error"
    if is_wrong:
        raise click.exceptions.Exit(1)


def _find_plans(outermost: Any) -> Iterator[Any]:
    """Yield the plans of the middlewares around an application, the outermost first."""
    from flask_notifications import DeprecationMiddleware  # noqa: PLC0415

    layers = [outermost]
    # The list grows while its layers are looked at.
    for layer in layers:
        if isinstance(layer, DeprecationMiddleware):
            yield layer.plan
        cells = getattr(layer, "__closure__", None) or ()
        mounts = getattr(layer, "mounts", None) or {}
        parts = [getattr(layer, name, None) for name in _INNER]
        parts += [*mounts.values(), *(cell.cell_contents for cell in cells)]
        for part in filter(callable, parts):
            is_known = any(part is other for other in layers)
            if not is_known and not isinstance(part, Flask):
                layers.append(part)


def _read_rule(rule: Any, mount: str) -> tuple[Any, str, list[Any]]:
    """Return a rule, its path, and two patterns for each number of its segments: of
    paths in plans that it serves, and of those that it serves as a catch-all, too.
    """
    from werkzeug.routing.rules import parse_converter_args  # noqa: PLC0415

    exact = loose = ""
    patterns = [(re.compile(exact), re.compile(loose))]
    for segment in filter(None, re.split(r"/(?![^<]*>)", mount + rule.rule)):
        pattern, end, is_path = "", 0, False
        for match in _CONVERTER.finditer(segment):
            arguments = parse_converter_args(match[2] or "")
            converter = rule.get_converter("", match[1] or "default", *arguments)
            pattern += f"{re.escape(segment[end : match.start()])}{converter.regex}"
            end, is_path = match.end(), is_path or not converter.part_isolating
        pattern += re.escape(segment[end:])
        if end:
            pattern = f"(?:{_PARAMETER}|{pattern})"
        rest = f"{_PARAMETER}(?:/{_PARAMETER})*"
        exact += f"/{rest if is_path else pattern}"
        loose += f"/{'.+' if is_path else pattern}"
        flags = re.IGNORECASE
        patterns.append((re.compile(exact, flags), re.compile(loose, flags)))
    return rule, mount + rule.rule, patterns


def _list_endpoints(operation: Any, routes: list[Any]) -> tuple[str, str]:
    """Print the endpoints of an operation, and return how bad it is and what is wrong."""
    path = unquote(operation.path).removesuffix("/**").rstrip("/")
    first = 0 if operation.path.endswith("/**") else -1
    level, message = "error", ""
    spellings = {}
    for rule, rule_path, patterns in routes:
        spellings[re.sub("<[^>]*>", "{}", rule_path)] = rule_path
        reached = []
        for exact, loose in patterns[first:]:
            if loose.fullmatch(path):
                reached.append(exact.fullmatch(path) is not None)
        allowed = rule.methods or {operation.method}
        if reached and (operation.method in allowed or operation.method == "*"):
            click.echo(f"  {rule.endpoint}  {rule.rule}")
            if any(reached):
                level = ""
            elif level:
                level, message = "warning", "only a catch-all reaches it"
        elif reached and level == "error":
            methods = ", ".join(sorted(allowed))
            message = f"reaches no endpoint, because {rule_path} is for {methods}"
    if not message:
        message = "reaches no endpoint"
        spelling = re.sub(_PARAMETER, "{}", path)
        for nearest in get_close_matches(spelling, spellings, n=1):
            message += f"; did you mean {spellings[nearest]}?"
    return level, message
