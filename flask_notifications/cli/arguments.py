"""Arguments that several commands have, and how they are read."""

import json
import re
import tomllib
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flask_notifications.dates import DATE, parse_time

if TYPE_CHECKING:
    from flask_notifications.plans import Plan

# How the parser of TOML words a place; attributes have it from Python 3.14 on only.
_TOML_PLACE = re.compile(r"(.*) \(at line (\d+), column (\d+)\)", re.DOTALL)


# A plan file that exists.
PLAN_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def parse_date(_context: click.Context, _parameter: click.Parameter, value: str | None) -> datetime | None:
    """Return a date, which begins at midnight UTC, or a date and time with an offset, as a datetime in UTC."""
    try:
        return None if value is None else parse_time(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def parse_day(context: click.Context, parameter: click.Parameter, value: str | None) -> datetime | date | None:
    """Return a date as it is, which includes all of the day, or a date and time with an offset in UTC."""
    time = parse_date(context, parameter, value)
    return time.date() if time is not None and value is not None and DATE.fullmatch(value) else time


def check_format(_context: click.Context, _parameter: click.Parameter, value: Path | None) -> Path | None:
    """Return the path of a plan file, if its name says which format it has."""
    if value is not None and value.suffix not in {".toml", ".json"}:
        message = f"the name of {str(value)!r} must end with .toml or .json"
        raise click.BadParameter(message)
    return value


class PlanError(click.ClickException):
    """Something is wrong with a plan file; one line for each error, of the form ``place: message``."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(map(escape, lines)))

    def show(self, file: Any = None) -> None:
        """Write the lines to standard error."""
        click.echo(self.message, file=file, err=True)


def escape(line: str) -> str:
    r"""Return a line with escapes such as ``\n`` in place of what cannot be printed, as in a plan or a response."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in line)


def read_plan(path: Path) -> "Plan":
    """Read a plan file.

    :param path: a file whose name ends with ``.toml`` or ``.json``.
    :raises PlanError: something is wrong with it; it has every error that the parser or the schema found.
    """
    from marshmallow import ValidationError

    from flask_notifications.config import flatten_messages, load_plan

    try:
        return load_plan(_parse(path))
    except ValidationError as error:
        problems = flatten_messages(error.messages)
        raise PlanError([f"{_place(path, place)}: {message}" for place, message in problems]) from error
    except RecursionError as error:
        raise PlanError([f"{path}: nested too deeply"]) from error


def _parse(path: Path) -> Any:
    try:
        content = path.read_text(encoding="utf-8")
        if path.suffix == ".toml":
            return tomllib.loads(content)
        return json.loads(content, object_pairs_hook=_refuse_repetitions)
    except json.JSONDecodeError as error:
        raise PlanError([f"{path}:{error.lineno}:{error.colno}: {error.msg}"]) from error
    except tomllib.TOMLDecodeError as error:
        found = _TOML_PLACE.fullmatch(str(error))
        place, message = (f"{path}:{found[2]}:{found[3]}", found[1]) if found else (str(path), str(error))
        raise PlanError([f"{place}: {message}"]) from error
    except UnicodeDecodeError as error:
        raise PlanError([f"{path}: not UTF-8: {error.reason} at byte {error.start}"]) from error
    except ValueError as error:  # a key that is there twice, or a number of thousands of digits
        raise PlanError([f"{path}: {error}"]) from error


def _refuse_repetitions(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a mapping; of two with the same key, one would be lost."""
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            message = f"the key {key!r} is there twice"
            raise ValueError(message)
        mapping[key] = value
    return mapping


def _place(path: Path, place: tuple[str | int, ...]) -> str:
    """Return a place in a plan as in ``operations.1.sunset_at``; what concerns the whole plan is at the file."""
    return ".".join(str(key) for key in place if key != "_schema") or str(path)
