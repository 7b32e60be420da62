"""Flask's command ``retirement``: compare plans with the routes of an application.

Flask imports this module for every command, so it imports only click and Flask at
first.
"""

# ruff: noqa: PLC0415

import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import MethodType
from typing import Any
from urllib.parse import unquote

import click
from flask import Flask, current_app
from flask.cli import with_appcontext

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
    from flask_notifications.cli.arguments import demand, fail, read_plan
    from flask_notifications.dates import utc_now
    from flask_notifications.wording import escape

    app: Any = current_app
    plans = [read_plan(file)] if file else list(_find_plans(app.wsgi_app))
    if not plans:
        fail("no middleware in app.wsgi_app; for an outer one, give --plan FILE")
    operations = [item for plan in plans for item in plan.items()]
    unknown = {*skipped} - {operation.name for operation, _policy in operations}
    demand(not unknown, f"no operation is named {', '.join(sorted(unknown))}")
    mount = f"/{mount.strip('/')}".rstrip("/")
    routes = [_read_rule(rule, mount) for rule in app.url_map.iter_rules()]
    levels = set()
    for operation, policy in operations:
        if operation.name in skipped:
            continue
        phase = "live" if policy is None else policy.phase(utc_now())
        title = f"{operation.name}  {operation.method} {operation.path}  {phase}"
        click.echo(escape(title))
        level, message = _print_endpoints(operation, routes)
        # The view of a closed operation may be gone already.
        if level == "error" and phase == "sunset":
            level = "note"
        levels.add(level)
        if level:
            click.echo(f"{level}: {operation.name}: {message}", err=True)
    if "error" in levels:
        raise click.exceptions.Exit(1)


def _find_plans(outermost: Any) -> Iterator[Any]:
    """Yield the plans of the middlewares around an application, the outermost first.

    WSGI does not say how a middleware refers to the application inside it, so search
    all attributes, closures and partial functions.
    """
    from werkzeug.local import LocalProxy

    from flask_notifications import DeprecationMiddleware

    layers: list[Any] = []
    waiting = [outermost]
    while waiting:
        layer = waiting.pop(0)
        if type(layer) is LocalProxy:  # it may have no object now
            continue
        if isinstance(layer, MethodType):
            layer = layer.__self__
        elif not callable(layer) and not isinstance(layer, dict):
            continue
        if isinstance(layer, Flask) or any(layer is other for other in layers):
            continue
        layers.append(layer)
        if isinstance(layer, DeprecationMiddleware):
            yield layer.plan
        waiting += _list_parts(layer)


def _list_parts(layer: Any) -> list[Any]:
    """Return the objects that a callable may call, or the values of a dictionary."""
    if isinstance(layer, dict):
        return list(layer.values())
    parts = list(getattr(layer, "__dict__", {}).values())
    if isinstance(layer, partial):
        parts.append(layer.func)
    for name in getattr(type(layer), "__slots__", ()):
        parts.append(getattr(layer, name, None))
    for cell in getattr(layer, "__closure__", None) or ():
        parts.append(cell.cell_contents)
    return parts


def _read_rule(rule: Any, mount: str) -> tuple[Any, str, tuple[Any, Any]]:
    """Return a rule, its path, and two patterns for the paths of a plan that reach it.

    The first pattern matches a path, the second the base of a subtree, which is a
    prefix of the rule's path. A group catches the value of a catch-all.
    """
    from werkzeug.routing.rules import parse_converter_args

    segments = []
    # Split at slashes, except in the arguments of a converter.
    for segment in filter(None, re.split(r"/(?![^<]*>)", mount + rule.rule)):
        pattern, end = "", 0
        for match in _CONVERTER.finditer(segment):
            arguments = parse_converter_args(match[2] or "")
            converter = rule.get_converter("", match[1] or "default", *arguments)
            regex = converter.regex if converter.part_isolating else "(.+)"
            pattern += re.escape(segment[end : match.start()]) + regex
            end = match.end()
        pattern += re.escape(segment[end:])
        # A parameter of the plan reaches every segment with a converter.
        segments.append(f"(?:{_PARAMETER}|{pattern})" if end else pattern)
    path = subtree = ""
    for segment in reversed(segments):
        path = f"/{segment}{path}"
        subtree = f"(?:/{segment}{subtree})?"
    flags = re.IGNORECASE
    patterns = re.compile(path, flags), re.compile(subtree, flags)
    return rule, mount + rule.rule, patterns


def _print_endpoints(operation: Any, routes: list[Any]) -> tuple[str, str]:
    """Print the endpoints that an operation reaches, and return a level and a message.

    The level is ``error`` for no endpoint, ``warning`` where only a catch-all serves
    it, or empty.
    """
    path = unquote(operation.path).removesuffix("/**").rstrip("/")
    level, spellings = "error", {}
    for rule, rule_path, patterns in routes:
        spellings[re.sub("<[^>]*>", "{}", rule_path)] = rule_path
        match = patterns[operation.path.endswith("/**")].fullmatch(path)
        methods = rule.methods or {operation.method}
        if match is None or operation.method not in {"*", *methods}:
            continue
        click.echo(f"  {rule.endpoint}  {rule.rule}")
        # A catch-all that catches only parameters of the plan is there for them. One
        # that also catches literals may accept anything.
        caught = "".join(filter(None, match.groups()))
        if not re.sub(f"{_PARAMETER}|/", "", caught):
            level = ""
        elif level:
            level = "warning"
    if level != "error":
        return level, "only a catch-all reaches it"
    message = f"reaches no endpoint with {operation.method}"
    spelling = re.sub(_PARAMETER, "{}", path)
    for nearest in get_close_matches(spelling, spellings, n=1):
        message += f"; did you mean {spellings[nearest]}?"
    return level, message
