"""Flask's command ``retirement``: compare plans with the routes of an application.

Flask imports this module for every command, so it imports click and Flask only.
"""

import difflib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import click
from flask import Flask, current_app
from flask.cli import with_appcontext

# Where middlewares keep the application inside of them.
_INNER = ("app", "_app", "wsgi_app", "application", "_application")
_CONVERTER = re.compile(r"<(?:(\w+)(?:\([^>]*\))?:)?\w+>")
_NONE, _CATCH_ALL, _ROUTE = range(3)


class _Segment(NamedTuple):
    """A segment of a rule: what it matches, and whether it is variable or a path."""

    pattern: re.Pattern[str]
    is_variable: bool
    is_path: bool


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

    app, at = current_app._get_current_object(), utc_now()  # type: ignore[attr-defined]
    plans = list(_find_plans(app)) if file is None else [read_plan(file)]
    if not plans:
        message = "no middleware is around app.wsgi_app: give --plan FILE"
        raise click.ClickException(message)
    items = [item for plan in plans for item in plan.items()]
    unknown = {*skipped} - {operation.name for operation, _policy in items}
    if unknown:
        message = f"no operation is named {min(unknown)!r}"
        raise click.BadParameter(message)
    rules = [(rule, _parse_rule(app, rule.rule)) for rule in app.url_map.iter_rules()]
    levels = set()
    for operation, policy in items:
        if operation.name not in skipped:
            phase = "live" if policy is None else policy.phase(at)
            shown = f"{operation.name}  {operation.method} {operation.path}"
            click.echo(escape(f"{shown}  {phase}"))
            level, message = _list_endpoints(operation, phase, mount, rules)
            levels.add(level)
            if message:
                click.echo(escape(f"{level}: {operation.name}: {message}"), err=True)
    if "error" in levels:
        raise click.exceptions.Exit(1)


def _list_endpoints(
    operation: Any, phase: str, mount: str, rules: list[tuple[Any, list[_Segment]]]
) -> tuple[str, str]:
    """Print the endpoints of an operation, and return a level and what is wrong."""
    best = _NONE
    for rule, segments in rules:
        result = _compare_path(operation.path, mount, segments)
        if result and _allows(rule.methods, operation.method):
            best = max(best, result)
            click.echo(f"  {rule.endpoint}  {rule.rule}")
    if best == _ROUTE:
        return "", ""
    if best == _CATCH_ALL:
        return "warning", "only a catch-all reaches it"
    hint = _suggest(operation.path, mount, [rule.rule for rule, _ in rules])
    return "note" if phase == "sunset" else "error", f"reaches no endpoint{hint}"


def _find_plans(app: Flask) -> Iterator[Any]:
    """Yield the plans of the middlewares around an application, the outermost first."""
    from flask_notifications import DeprecationMiddleware  # noqa: PLC0415

    waiting: list[Any] = [app.wsgi_app]
    seen = [app]
    while waiting:
        layer = waiting.pop(0)
        if layer is None or any(layer is other for other in seen):
            continue
        seen.append(layer)
        if isinstance(layer, DeprecationMiddleware):
            yield layer.plan
        waiting += [getattr(layer, name, None) for name in _INNER]
        mounts = getattr(layer, "mounts", None)
        if isinstance(mounts, dict):
            waiting += mounts.values()


def _parse_rule(app: Flask, rule: str) -> list[_Segment]:
    """Take a rule apart; the final slash does not count."""
    segments = []
    for segment in re.split(r"/(?![^<]*>)", rule.strip("/")) if rule != "/" else []:
        pattern, end, is_path = "", 0, False
        for match in _CONVERTER.finditer(segment):
            converter = app.url_map.converters[match[1] or "default"]
            is_path = is_path or not converter.part_isolating
            pattern += f"{re.escape(segment[end : match.start()])}(?:{converter.regex})"
            end = match.end()
        pattern += re.escape(segment[end:])
        compiled = re.compile(pattern, re.IGNORECASE)
        segments.append(_Segment(compiled, end > 0, is_path))
    return segments


def _allows(methods: Iterable[str] | None, method: str) -> bool:
    allowed = {*(methods or ())}
    return bool(allowed - {"OPTIONS"}) if method == "*" else method in allowed


def _compare_path(path: str, mount: str, route: list[_Segment]) -> int:
    """Return how a route may serve a path of a plan."""
    below_mount = f"/{mount.strip('/')}/" if mount.strip("/") else "/"
    if not f"{path}/".startswith(below_mount):
        return _NONE
    is_subtree = path.endswith("/**")
    inner = path.removesuffix("/**")[len(below_mount) - 1 :].strip("/")
    return _compare(inner.split("/") if inner else [], route, is_subtree)


def _compare(template: list[str], route: list[_Segment], is_subtree: bool) -> int:
    if not template:
        return _ROUTE if is_subtree or not route else _NONE
    if not route:
        return _NONE
    if route[0].is_path:
        best = _NONE
        for count in range(1, len(template) + 1):
            result = _compare(template[count:], route[1:], is_subtree)
            if any(not segment.startswith("{") for segment in template[:count]):
                result = min(result, _CATCH_ALL)
            best = max(best, result)
        return best
    fits = route[0].is_variable
    if not template[0].startswith("{"):
        fits = route[0].pattern.fullmatch(unquote(template[0])) is not None
    return _compare(template[1:], route[1:], is_subtree) if fits else _NONE


def _suggest(path: str, mount: str, rules: list[str]) -> str:
    """Return the rule that is spelled most like a path, as a question."""
    plain = {re.sub("<[^>]*>", "{}", rule): rule for rule in rules}
    wanted = re.sub(r"\{[^}]*\}", "{}", path.removeprefix(mount))
    nearest = difflib.get_close_matches(wanted.removesuffix("/**"), plain, n=1)
    return f"; did you mean {plain[nearest[0]]}?" if nearest else ""
