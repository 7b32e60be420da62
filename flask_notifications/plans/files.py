"""Load plans from TOML and JSON files and from mappings, such as Flask's configuration,
and dump them.

Knows how values are written outside of Python. ``deprecation`` decides what makes a
policy valid, ``operations`` what makes an operation valid.
"""

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from marshmallow import (
    EXCLUDE,
    Schema,
    ValidationError,
    fields,
    post_load,
    pre_dump,
    validates_schema,
)
from marshmallow.validate import Length

from flask_notifications.headers import TOKEN
from flask_notifications.validation import check_uri, make_plain

from .operations import Operation, notification_operations, template_shape
from .plan import DEPRECATED_KEYS, Plan, check_plan
from .policy import Brownout, DeprecationPolicy, Exemption

# A place in a plan, as in ("operations", 1, "sunset_at"), and the same with a message
# about it as the last item.
Place = tuple[str | int, ...]
_Error = tuple[str | int, ...]

# How the parsers of TOML and JSON word the place of an error.
_POSITION = re.compile(r"(.*?)(?: \(at|:) line (\d+),? column (\d+).*", re.DOTALL)
_OPERATION_KEYS = Operation.__slots__
_POLICY_KEYS = DeprecationPolicy.__slots__
_PREFIX_KEYS = ("prefix", "successor_prefix")
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

# What a JSON Schema says of templates and URIs; ``Operation`` and ``check_uri`` decide.
_TEMPLATE = r"^(?=/[^\x00-\x20\x7f?#<>|\\]*$)(/(\{[^{}/:]+\}|(?![:(]|\.\.?(/|$))[^{}/*]+))*(/(\*\*)?)?$"
_URI = {"pattern": r"^([!#$&-;=?-\[\]-~]|%[0-9A-Fa-f]{2})*$", "minLength": 1}


def load_plan(
    source: str | os.PathLike[str] | Mapping[str, Any],
) -> dict[Operation, DeprecationPolicy | None]:
    """Load a plan: the policy of each operation, or ``None`` for a live operation,
    which is not retired.

    :param source: the path of a file that ends with ``.toml`` or ``.json``, or a
        mapping, such as ``app.config.get_namespace("NOTIFICATIONS_")``. Its keys are
        the attributes of ``DeprecationPolicy``, which are the defaults of all
        operations, and ``operations``, a list of mappings. Each of these has ``name``,
        ``method`` and ``path``, and optionally ``successor``, ``query``, ``headers``,
        ``rewrite_path``, ``unify_session``, ``live`` and attributes of
        ``DeprecationPolicy``, which replace the defaults. Without ``operations`` the
        plan has the two notification operations, below ``prefix`` and with successors
        below ``successor_prefix``, as in ``notification_operations``. Dates are aware
        datetimes, or strings in ISO 8601 with an offset.
    :raises marshmallow.ValidationError: something is wrong; ``messages`` has every
        error by place, as in ``{"operations": {1: {"sunset_at": [...]}}}``, where 1 is
        the second operation. The place of an error that all retired operations inherit
        is the default; that of an error in the syntax of a file is file, line and
        column.
    :raises OSError: the file cannot be read.
    """
    mapping: Any = source
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if path.suffix not in _PARSERS:
            raise ValidationError(
                {str(path): ["the name of the file must end with .toml or .json"]}
            )
        mapping = parse_plan(path.read_bytes(), path.suffix, str(path))
    plan: dict[Operation, DeprecationPolicy | None] = PlanSchema().load(mapping)
    return plan


def dump_plan(plan: Plan) -> dict[str, Any]:
    """Return a plan as a mapping of plain values, from which ``load_plan`` loads an
    equal plan.

    :param plan: the operations and their policies.
    :raises ValueError: ``plan`` is not a plan.
    """
    check_plan(plan)
    mapping: dict[str, Any] = PlanSchema().dump(plan)
    return mapping


def flatten_messages(messages: Any, place: Place = ()) -> list[tuple[Place, str]]:
    """Return the attribute ``messages`` of a ``ValidationError`` one by one, each with
    its place, and ordered by it.
    """
    if not isinstance(messages, Mapping):
        return [(place, message) for message in messages]
    keys = sorted(messages, key=lambda key: (isinstance(key, str), key))
    return [
        each for key in keys for each in flatten_messages(messages[key], (*place, key))
    ]


def parse_plan(content: bytes, suffix: str, name: str) -> Any:
    """Parse a file in TOML or JSON, as ``load_plan`` takes it."""
    try:
        return _PARSERS[suffix](content.decode("utf-8-sig"))
    except RecursionError as error:
        raise ValidationError({name: ["nested too deeply"]}) from error
    except ValueError as error:
        found = _POSITION.fullmatch(str(error))
        place, message = (
            (f"{name}:{found[2]}:{found[3]}", found[1]) if found else (name, str(error))
        )
        raise ValidationError({place: [message]}) from error


def refuse_repetitions(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a mapping; of two with the same key, one
    would be lost.
    """
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            message = f"the key {key!r} is there twice"
            raise ValueError(message)
        mapping[key] = value
    return mapping


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    ".toml": tomllib.loads,
    ".json": lambda content: json.loads(content, object_pairs_hook=refuse_repetitions),
}


def _messages(expected: str) -> dict[str, Any]:
    return {
        "required": f"is missing; it must be {expected}",
        "null": f"must be {expected}, not null",
        "invalid": f"must be {expected}",
    }


class _String(fields.String):
    default_error_messages: dict[str, Any] = _messages("a string in quotation marks")

    def _deserialize(self, value: Any, *arguments: Any, **options: Any) -> Any:
        return super()._deserialize(make_plain(value), *arguments, **options)


class _Tables(fields.Nested):
    default_error_messages: dict[str, Any] = _messages("a list in brackets")

    def _deserialize(self, value: Any, *arguments: Any, **options: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise self.make_error(key="invalid")
        return super()._deserialize(value, *arguments, **options)


class _Boolean(fields.Boolean):
    default_error_messages: dict[str, Any] = _messages(
        "true or false, without quotation marks"
    )

    def _deserialize(self, value: Any, *_arguments: Any, **_options: Any) -> bool:
        if not isinstance(value, bool):
            raise self.make_error(key="invalid")
        return value


class _Date(fields.AwareDateTime):
    """An aware datetime, or one written in ISO 8601 with an offset."""

    default_error_messages: dict[str, Any] = _messages(
        "a date and time with an offset, such as 2027-07-01T09:00:00Z"
    )

    def _deserialize(self, value: Any, *_arguments: Any, **_options: Any) -> datetime:
        try:
            time = datetime.fromisoformat(str(value))
        except ValueError as error:
            raise self.make_error(key="invalid") from error
        if time.tzinfo is None:
            message = f"must have a time and an offset: write {time.isoformat()}Z if {value} is meant in UTC"
            raise ValidationError(message)
        return time

    def _serialize(self, value: Any, *_arguments: Any, **_options: Any) -> str:
        return str(value.isoformat()).replace("+00:00", "Z")


# The classes that tables become, with valid arguments in place of those that are
# missing or wrong.
_brownout = partial(Brownout, start=_FIRST, end=_LAST)
_exemption = partial(Exemption, caller="?", until=_LAST, reason="?")
_operation = partial(Operation, name="?", method="GET", path="/")
_policy = partial(
    DeprecationPolicy, deprecated_at=_FIRST, sunset_at=_LAST, enforce_sunset=False
)

# What checks the value of a key.
_CHECKS: dict[str, Callable[..., object]] = {
    **dict.fromkeys(Brownout.__slots__, _brownout),
    **dict.fromkeys(Exemption.__slots__, _exemption),
    **dict.fromkeys(_OPERATION_KEYS, _operation),
    **dict.fromkeys(_POLICY_KEYS, _policy),
    **dict.fromkeys(_PREFIX_KEYS, notification_operations),
    "successor": lambda successor: check_uri("successor", successor),
}


def _find_error(
    check: Callable[..., object], arguments: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield the first error that ``check`` raises about arguments: the name of one,
    with which the message begins.
    """
    try:
        check(**arguments)
    except ValueError as error:
        message = str(error)
        yield message.partition(" ")[0], message


class _TableSchema(Schema):
    class Meta:
        unknown = EXCLUDE  # they are refused below, in other words

    error_messages: dict[str, Any] = {"type": "must be a table of keys and values"}  # noqa: RUF012 - as marshmallow declares it

    def find_errors(
        self, data: dict[str, Any], original: Mapping[str, Any]
    ) -> Iterator[_Error]:
        """Yield the errors that a field cannot find, and leave valid values in
        ``data``.
        """
        for key in original:
            if key not in self.fields:
                near = get_close_matches(str(key).lower(), self.fields)
                hint = (
                    f"did you mean {near[0]}?"
                    if near
                    else f"known are {', '.join(self.fields)}"
                )
                yield key, f"is not a known key; {hint}"
        for key, kind in (("brownouts", Brownout), ("exemptions", Exemption)):
            if key in data:
                data[key] = [
                    kind(**each)
                    for each in data[key]
                    if len(each) == len(kind.__slots__)
                ]
        for key in [key for key in _CHECKS if data.get(key) is not None]:
            # Each value by itself, but the end of a brownout with its start.
            for _argument, message in _find_error(
                _CHECKS[key], _pick(("start", key), data)
            ):
                del data[key]
                yield key, message
        # A wrong value replaces the default, too.
        for key in _policy.keywords.keys() & self.fields.keys() & original.keys():
            data.setdefault(key, _policy.keywords[key])

    @validates_schema(skip_on_field_errors=False, pass_original=True)
    def _check(self, data: dict[str, Any], original: Any, **_context: Any) -> None:
        messages: dict[Any, Any] = {}
        for *outer, key, message in (
            self.find_errors(data, original) if isinstance(original, Mapping) else ()
        ):
            table = messages
            for each in outer:
                table = table.setdefault(each, {})
            table.setdefault(key, []).append(message)
        if messages:
            raise ValidationError(messages)


class _BrownoutSchema(_TableSchema):
    start = _Date(required=True)
    end = _Date(required=True)


class _ExemptionSchema(_TableSchema):
    caller = _String(required=True, metadata={"pattern": r"\S", "maxLength": 64})
    until = _Date(required=True)
    reason = _String(required=True, metadata={"pattern": r"\S"})


class _PolicySchema(_TableSchema):
    deprecated_at: _Date = _Date()
    sunset_at: _Date = _Date(allow_none=True)
    documentation: _String = _String(allow_none=True, metadata=_URI)
    sunset_documentation: _String = _String(allow_none=True, metadata=_URI)
    brownouts: _Tables = _Tables(_BrownoutSchema, many=True)
    enforce_sunset: _Boolean = _Boolean()
    exemptions: _Tables = _Tables(_ExemptionSchema, many=True)


class _OperationSchema(_PolicySchema):
    name = _String(required=True, metadata={"pattern": r"^[^\x00-\x1f\x7f-\x9f]+$"})
    method = _String(required=True, metadata={"pattern": f"^(?![Aa][Nn][Yy]$){TOKEN}$"})
    path = _String(required=True, metadata={"pattern": _TEMPLATE})
    successor = _String(allow_none=True, metadata=_URI)
    query = fields.Raw(allow_none=True)
    headers = fields.Raw(allow_none=True)
    rewrite_path = _Boolean()
    unify_session = _Boolean()
    live = _Boolean()

    def find_errors(
        self, data: dict[str, Any], original: Mapping[str, Any]
    ) -> Iterator[_Error]:
        yield from super().find_errors(data, original)
        if data.get("live"):
            yield from (
                (key, f"{key} is for retired operations")
                for key in DEPRECATED_KEYS
                if data.get(key)
            )
        elif "path" in data:
            yield from _find_error(_operation, _pick(("path", "successor"), data))


class PlanSchema(_PolicySchema):
    """Define the keys of a plan file.

    It loads a mapping to a plan, and dumps a plan to a mapping of plain values.
    """

    operations: _Tables = _Tables(
        _OperationSchema,
        many=True,
        validate=Length(min=1, error="must have at least one operation"),
        error_messages=_messages(
            "a list; in TOML, begin each operation with [[operations]]"
        ),
    )
    prefix: _String = _String(metadata={"pattern": r"^(/[^\x00-\x20\x7f?#<>|\\]*)?$"})
    successor_prefix: _String = _String(
        allow_none=True, metadata=_URI | {"minLength": 0}
    )

    def find_errors(
        self, data: dict[str, Any], original: Mapping[str, Any]
    ) -> Iterator[_Error]:
        """Yield the errors between keys: those of operations, and those of each policy
        merged with the defaults.
        """
        yield from super().find_errors(data, original)
        entries: list[dict[str, Any]] = [
            {}
        ]  # the operations of a plan without any have the defaults
        if "operations" in original:
            yield from (
                (key, f"{key} is for plans without operations")
                for key in _PREFIX_KEYS
                if key in original
            )
            entries = data.get("operations", [])
            yield from _repetitions(entries)
        errors = {
            index: set(_policy_errors(data | entry))
            for index, entry in enumerate(entries)
            if not entry.get("live")
        }
        # What all retired operations have from the defaults is reported once.
        inherited = (
            set(_policy_errors(data)).intersection(*errors.values())
            if errors
            else set()
        )
        yield from inherited
        for index, found in errors.items():
            yield from (("operations", index, *error) for error in found - inherited)

    @post_load
    def _finish(
        self, data: dict[str, Any], **_context: Any
    ) -> dict[Operation, DeprecationPolicy | None]:
        if "operations" not in data:
            operations = notification_operations(**_pick(_PREFIX_KEYS, data))
            return dict.fromkeys(
                operations, DeprecationPolicy(**_pick(_POLICY_KEYS, data))
            )
        plan: dict[Operation, DeprecationPolicy | None] = {}
        for entry in data["operations"]:
            policy = (
                None
                if entry.get("live")
                else DeprecationPolicy(**_pick(_POLICY_KEYS, data | entry))
            )
            plan[Operation(**_pick(_OPERATION_KEYS, entry))] = policy
        return plan

    @pre_dump
    def _dump(self, plan: Plan, **_context: Any) -> dict[str, Any]:
        entries = []
        for operation, policy in plan.items():
            entry = json.loads(
                json.dumps(asdict(operation))
            )  # with lists in place of tuples
            entry |= {"live": True} if policy is None else asdict(policy)
            entries.append({key: value for key, value in entry.items() if value})
        return {"operations": entries}


def _policy_errors(values: Mapping[str, Any]) -> Iterator[_Error]:
    """Yield the errors between the valid values of the policy of an operation."""
    if "deprecated_at" not in values:
        yield "deprecated_at", _Date.default_error_messages["required"]
    yield from _find_error(
        _policy, {"sunset_at": None} | _pick(_policy.keywords, values)
    )


def _repetitions(entries: Iterable[Mapping[str, Any]]) -> Iterator[_Error]:
    """Yield the operations whose name, or whose method, path and conditions, are those
    of an earlier one.
    """
    seen: dict[object, int] = {}
    for index, entry in enumerate(entries):
        if (
            "name" in entry
            and (first := seen.setdefault(entry["name"], index)) != index
        ):
            yield (
                "operations",
                index,
                "name",
                f"name must differ from that of operation {first}: {entry['name']!r}",
            )
        if {"method", "path"} <= entry.keys() and not entry.get("live"):
            shape = template_shape(
                _operation(**_pick(("method", "path", "query", "headers"), entry))
            )
            if (first := seen.setdefault(shape, index)) != index:
                expected = f"that of operation {first} in more than letter case and parameter names"
                yield (
                    "operations",
                    index,
                    "path",
                    f"path must differ from {expected}: {entry['path']!r}",
                )


def _pick(keys: Iterable[str], values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: values[key] for key in keys if key in values}
