"""Load plans from TOML and JSON files and from mappings, and dump them.

Knows how values are written outside of Python. ``policy`` decides whether a policy is
valid, and ``operations`` whether an operation is.
"""

import errno
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from dataclasses import fields as dataclass_fields
from datetime import UTC, datetime, timedelta
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
    validates_schema,
)
from marshmallow.validate import Length

from flask_notifications.validation import check_uri, is_number

from .operations import Operation, find_clashes, notification_operations
from .plan import Plan, check_plan, find_live_errors
from .policy import Brownout, DeprecationPolicy, Exemption, check_date

# A place in a plan, such as ("operations", 1, "sunset_at").
Place = tuple[str | int, ...]
# Lists of messages, nested by place as in marshmallow.
_Messages = dict[Any, Any]
# The name of an argument that is wrong, and a message that begins with it.
_Error = tuple[str, str]

# The error messages of the parsers of TOML and JSON, which end with the position.
_POSITION = re.compile(r"(.*?)(?: \(at|:) line (\d+),? column (\d+).*", re.DOTALL)
# A line of TOML whose value is a word without quotation marks.
_BARE_WORD = re.compile(r"\s*([\w.-]+)\s*=\s*([A-Za-z/*{][^\s\"'#,]*)\s*(?:#.*)?")
_BOOLEANS = {"true": "true", "yes": "true", "on": "true"}
_BOOLEANS |= {"false": "false", "no": "false", "off": "false"}


def _list_arguments(kind: Any) -> list[str]:
    return [field.name for field in dataclass_fields(kind) if field.init]


_OPERATION_KEYS = _list_arguments(Operation)
_POLICY_KEYS = _list_arguments(DeprecationPolicy)
_PREFIX_KEYS = ("prefix", "successor_prefix")
_MAX_HOURS = timedelta.max // timedelta(hours=1)
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

# Valid arguments that replace a missing or wrong one, so that all errors are found at
# once. Arguments that depend on it are replaced as well. Other keys become ``None``.
_REPLACEMENTS: Mapping[str, Mapping[str, Any]] = {
    "name": {"name": "?"},
    "method": {"method": "GET"},
    "path": {"path": "/", "successor": None},
    "deprecated_at": {"deprecated_at": _FIRST},
    "sunset_at": {"sunset_at": _LAST, "brownouts": ()},
    "enforce_sunset": {"enforce_sunset": False},
    "brownouts": {"brownouts": ()},
    "exemptions": {"exemptions": ()},
    "caller": {"caller": "?"},
    "until": {"until": _LAST},
    "reason": {"reason": "?"},
}


class InvalidPlan(ValidationError):
    """A plan has errors.

    ``messages`` contains them by place. ``lines`` contains one sentence for each, after
    the file, the place and the name of the operation, as far as there are any.
    """

    def __init__(
        self, messages: _Messages, *, file: str = "", mapping: object = None
    ) -> None:
        super().__init__(messages)
        self.lines: list[str] = []
        for place, message in flatten_messages(messages):
            # marshmallow's key for errors of a whole table.
            keys = ".".join(str(key) for key in place if key != "_schema")
            parts = (file, keys, _operation_at(place, mapping), message)
            self.lines.append(": ".join(filter(None, parts)))

    def __str__(self) -> str:
        return "\n".join(self.lines)


def load_plan(
    source: str | os.PathLike[str] | Mapping[str, Any],
) -> dict[Operation, DeprecationPolicy | None]:
    """Load a plan: the policy of each operation, or ``None`` for a live operation.

    :param source: the path of a file that ends with ``.toml`` or ``.json``, or a
        mapping, such as ``app.config.get_namespace("NOTIFICATIONS_")``. Its keys are
        the arguments of ``DeprecationPolicy``, which are the defaults of all
        operations, and ``operations``, a list of mappings. Each of these has ``name``,
        ``method`` and ``path``, and optionally ``successor``, ``query``, ``headers``,
        ``rewrite_path``, ``unify_session``, ``live`` and arguments of
        ``DeprecationPolicy``, which replace the defaults. Without ``operations`` the
        plan has the two notification operations, below ``prefix`` and with successors
        below ``successor_prefix``, as in ``notification_operations``. Dates are aware
        datetimes, or strings in ISO 8601 with an offset.
    :raises marshmallow.ValidationError: something is wrong; ``messages`` has every
        error by place, as in ``{"operations": {1: {"sunset_at": [...]}}}``, where 1 is
        the second operation. The place of an error that all deprecated operations
        inherit is the default; that of an error in the syntax of a file is file, line
        and column.
    :raises OSError: the file cannot be read.
    """
    if not isinstance(source, str | os.PathLike):
        return _load(source)
    path = Path(source)
    if path.suffix not in _PARSERS:
        message = "the name of the file must end with .toml or .json"
        raise InvalidPlan({str(path): [message]})
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        if path.is_absolute():
            raise
        message = f"there is no such file in {Path.cwd()}"
        raise FileNotFoundError(errno.ENOENT, message, str(path)) from error
    return parse_plan(content, path.suffix, str(path))


def parse_plan(
    content: bytes, suffix: str, name: str
) -> dict[Operation, DeprecationPolicy | None]:
    """Load a plan from the content of a file, as ``load_plan`` does.

    :param suffix: ``.toml`` or ``.json``.
    :param name: the name of the file, for messages.
    """
    try:
        text = content.decode("utf-8-sig")
        mapping = _PARSERS[suffix](text)
    except RecursionError as error:
        raise InvalidPlan({name: ["nested too deeply"]}) from error
    except ValueError as error:
        position = _POSITION.fullmatch(str(error))
        if position is None:
            raise InvalidPlan({name: [str(error)]}) from error
        message, line, column = position.groups()
        message += _suggest_value(text.split("\n")[int(line) - 1])
        raise InvalidPlan({f"{name}:{line}:{column}": [message]}) from error
    return _load(mapping, name)


def dump_plan(plan: Plan) -> dict[str, Any]:
    """Return a plan as a mapping of plain values, which ``load_plan`` loads unchanged.

    :param plan: the operations and their policies.
    :raises ValueError: ``plan`` is not a plan.
    """
    check_plan(plan)
    operations = [
        _dump_operation(operation, policy) for operation, policy in plan.items()
    ]
    return {"operations": operations}


def flatten_messages(messages: Any, place: Place = ()) -> list[tuple[Place, str]]:
    """Return each message of a ``ValidationError`` with its place, ordered by place.

    :param messages: its attribute ``messages``.
    """
    if not isinstance(messages, Mapping):
        return [(place, message) for message in messages]
    flat = []
    for key in sorted(messages, key=lambda key: (isinstance(key, str), key)):
        flat += flatten_messages(messages[key], (*place, key))
    return flat


def refuse_repetitions(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a mapping, or raise ``ValueError``.

    Of two pairs with the same key, one would be lost.
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


def _load(mapping: Any, file: str = "") -> dict[Operation, DeprecationPolicy | None]:
    try:
        plan: dict[Operation, DeprecationPolicy | None] = PlanSchema().load(mapping)
    except ValidationError as error:
        messages: Any = error.messages
        raise InvalidPlan(messages, file=file, mapping=mapping) from error
    return plan


def _operation_at(place: Place, mapping: Any) -> str | None:
    """Return the name of the operation to which a place in a mapping belongs."""
    if place[0] != "operations" or place[-1] == "name":
        return None
    try:
        name = mapping["operations"][place[1]]["name"]
    except (LookupError, TypeError):
        return None
    return name if isinstance(name, str) else None


def _suggest_value(line: str) -> str:
    """Return how to write the value of a line of TOML, if it lacks quotation marks."""
    bare = _BARE_WORD.fullmatch(line.rstrip("\r"))
    if bare is None:
        return ""
    key, word = bare.groups()
    value = _BOOLEANS.get(word.lower(), f'"{word}"')
    return f"; write {key} = {value}"


def _describe_errors(expected: str) -> dict[str, Any]:
    """Return the messages for each kind of error that marshmallow finds in a value."""
    return {
        "required": f"is missing; it must be {expected}",
        "null": f"must be {expected}, not null",
        "invalid": f"must be {expected}",
        "type": f"must be {expected}",
    }


class _Value(fields.Raw):
    """A value of one type. The class that it is an argument of checks the rest."""

    def __init__(self, kind: type, expected: str, **options: Any) -> None:
        super().__init__(error_messages=_describe_errors(expected), **options)
        self._kind = kind

    def _deserialize(self, value: Any, *_arguments: Any, **_options: Any) -> Any:
        if not isinstance(value, self._kind):
            raise self.make_error(key="invalid")
        return value


_QUOTED = "a string in quotation marks"
_String = partial(_Value, str, _QUOTED)
_Boolean = partial(_Value, bool, "true or false, without quotation marks")


class _Uri(_Value):
    def __init__(self) -> None:
        super().__init__(str, _QUOTED, allow_none=True)

    def _deserialize(self, value: Any, *arguments: Any, **options: Any) -> Any:
        uri = super()._deserialize(value, *arguments, **options)
        try:
            check_uri(str(self.name), uri)
        except ValueError as error:
            raise ValidationError(str(error)) from error
        return uri


def _list_of(schema: type[Schema], expected: str, **options: Any) -> fields.Nested:
    messages = _describe_errors(expected)
    return fields.Nested(schema, many=True, error_messages=messages, **options)


class _Hours(fields.Raw):
    default_error_messages: dict[str, Any] = _describe_errors(
        "a whole number of hours, such as 168 for a week"
    )

    def _deserialize(self, value: Any, *_arguments: Any, **_options: Any) -> timedelta:
        if not is_number(value, 1, _MAX_HOURS, is_whole=True):
            raise self.make_error(key="invalid")
        return timedelta(hours=value)


class _Date(fields.AwareDateTime):
    """An aware datetime, or one written in ISO 8601 with an offset."""

    default_error_messages: dict[str, Any] = _describe_errors(
        "a date and time with an offset, such as 2027-07-01T09:00:00Z"
    )

    def _deserialize(self, value: Any, *_arguments: Any, **_options: Any) -> datetime:
        try:
            time = datetime.fromisoformat(str(value))
        except ValueError as error:
            raise self.make_error(key="invalid") from error
        if time.tzinfo is None:
            right = f"{time.isoformat()}Z"
            message = (
                f"must have a time and an offset: write {right} if {value} is meant in"
                " UTC"
            )
            raise ValidationError(message)
        try:
            return check_date(str(self.name), time)
        except ValueError as error:
            raise ValidationError(str(error)) from error


def _build_anyway(
    kind: Callable[..., Any], values: Mapping[str, Any], required: Iterable[str] = ()
) -> tuple[Any, list[_Error]]:
    """Build an object in spite of wrong values, and return it with their errors.

    Whenever the constructor refuses a value, it is replaced and the constructor called
    again. Required values that are missing are replaced without an error.
    """
    arguments: dict[str, Any] = {}
    for key in required:
        arguments |= _REPLACEMENTS[key]
    arguments |= values
    errors: list[_Error] = []
    while True:
        try:
            return kind(**arguments), errors
        except ValueError as error:
            message = str(error)
            key = message.partition(" ")[0]  # the name of the argument
            errors.append((key, message))
            arguments |= _REPLACEMENTS.get(key, {key: None})


def _add_message(messages: _Messages, place: Place, message: str) -> None:
    """Add a message to those that are nested by place."""
    *outer, key = place
    for part in outer:
        messages = messages.setdefault(part, {})
    messages.setdefault(key, []).append(message)


class _TableSchema(Schema):
    class Meta:
        unknown = EXCLUDE  # ``_check`` refuses them in other words

    error_messages: dict[str, Any] = {"type": "must be a table of keys and values"}  # noqa: RUF012 - as marshmallow declares it

    def complete(
        self, data: dict[str, Any], original: Mapping[str, Any], messages: _Messages
    ) -> None:
        """Add objects built from ``data`` to it, and errors to ``messages``.

        :param data: the valid values.
        :param original: the table as it was loaded.
        """

    @validates_schema(skip_on_field_errors=False, pass_original=True)
    def _check(self, data: dict[str, Any], original: Any, **_context: Any) -> None:
        if not isinstance(original, Mapping):
            return
        messages: _Messages = {}
        for key in original:
            if key not in self.fields:
                _add_message(
                    messages, (key,), f"is not a known key; {self._suggest(key)}"
                )
        self.complete(data, original, messages)
        if messages:
            raise ValidationError(messages)

    def _suggest(self, key: object) -> str:
        near = get_close_matches(str(key).lower(), self.fields)
        if near:
            return f"did you mean {near[0]}?"
        return f"known are {', '.join(self.declared_fields)}"


class _BrownoutSchema(_TableSchema):
    start = _Date(required=True)
    end = _Date(required=True)
    every_hours = _Hours()
    until = _Date()

    def complete(
        self, data: dict[str, Any], original: Mapping[str, Any], messages: _Messages
    ) -> None:
        if not {"start", "end"} <= data.keys() or original.keys() - data.keys():
            return
        values = dict(data)
        if "every_hours" in data:
            values["every"] = values.pop("every_hours")
        try:
            data["built"] = Brownout(**values)
        except ValueError as error:
            key, _space, words = str(error).partition(" ")
            place = "every_hours" if key == "every" else key
            _add_message(messages, (place,), f"{place} {words}")


class _ExemptionSchema(_TableSchema):
    caller = _String(required=True)
    until = _Date(required=True)
    reason = _String(required=True)

    def complete(
        self, data: dict[str, Any], original: Mapping[str, Any], messages: _Messages
    ) -> None:
        exemption, errors = _build_anyway(Exemption, data, self.fields)
        for key, message in errors:
            _add_message(messages, (key,), message)
        if not errors and self.fields.keys() <= original.keys():
            data["built"] = exemption


class _PolicySchema(_TableSchema):
    deprecated_at: _Date = _Date()
    sunset_at: _Date = _Date(allow_none=True)
    documentation: _Uri = _Uri()
    sunset_documentation: _Uri = _Uri()
    brownouts: fields.Nested = _list_of(_BrownoutSchema, "a list in brackets")
    enforce_sunset: _Value = _Boolean()
    exemptions: fields.Nested = _list_of(_ExemptionSchema, "a list in brackets")

    def complete(
        self, data: dict[str, Any], original: Mapping[str, Any], messages: _Messages
    ) -> None:
        """Put the brownouts, the exemptions and replacements into ``data``."""
        for key in ("brownouts", "exemptions"):
            tables = data.get(key)
            if tables is not None:
                data[key] = [table["built"] for table in tables if "built" in table]
        for key, message in _find_conflicts(data):
            _add_message(messages, (key,), message)
            del data[key]
        # The default does not replace a wrong value: it need not fit the others.
        for key in _POLICY_KEYS:
            if key in original and key not in data:
                data |= _REPLACEMENTS.get(key, {key: None})


class _OperationSchema(_PolicySchema):
    name = _String(required=True)
    method = _String(required=True)
    path = _String(required=True)
    successor = _Uri()
    query = fields.Raw(allow_none=True)
    headers = fields.Raw(allow_none=True)
    rewrite_path = _Boolean()
    unify_session = _Boolean()
    live = _Boolean()

    def complete(
        self, data: dict[str, Any], original: Mapping[str, Any], messages: _Messages
    ) -> None:
        super().complete(data, original, messages)
        values = _pick(_OPERATION_KEYS, data)
        if "path" not in values:
            values.pop("successor", None)
        operation, errors = _build_anyway(Operation, values, ("name", "method", "path"))
        for key, message in errors:
            _add_message(messages, (key,), message)
            del data[key]
        if {"method", "path"} <= data.keys():
            data["operation"] = operation
        if not data.get("live"):
            return
        for key, message in find_live_errors(data):
            _add_message(messages, (key,), message)


class PlanSchema(_PolicySchema):
    """Define the keys of a plan file, and load a mapping to a plan."""

    operations: fields.Nested = _list_of(
        _OperationSchema,
        "a list; in TOML, begin each operation with [[operations]]",
        validate=Length(min=1, error="must have at least one operation"),
    )
    prefix: _Value = _String()
    successor_prefix: _Value = _String(allow_none=True)

    def complete(
        self, data: dict[str, Any], original: Mapping[str, Any], messages: _Messages
    ) -> None:
        """Build the plan. Keys of an operation replace the defaults in its policy."""
        super().complete(data, original, messages)
        if "operations" in original:
            for key in _PREFIX_KEYS:
                if key in original:
                    _add_message(
                        messages, (key,), f"{key} is for plans without operations"
                    )
            entries = data.get("operations", [])
            _refuse_repeated(entries, messages)
        else:
            for key in _PREFIX_KEYS:
                try:
                    notification_operations(**_pick([key], data))
                except ValueError as error:
                    _add_message(messages, (key,), str(error))
                    del data[key]
            operations = notification_operations(**_pick(_PREFIX_KEYS, data))
            entries = [{"operation": operation} for operation in operations]
        data["plan"] = _build_policies(data, entries, messages)

    @post_load
    def _finish(
        self, data: dict[str, Any], **_context: Any
    ) -> dict[Operation, DeprecationPolicy | None]:
        plan: dict[Operation, DeprecationPolicy | None] = data["plan"]
        return plan


def _find_conflicts(data: Mapping[str, Any]) -> list[_Error]:
    """Return errors in the lists of brownouts and of exemptions of one table.

    Brownouts that repeat until the sunset are left out, because the sunset may be in
    another table.
    """
    values = _pick(("brownouts", "exemptions"), data)
    if not values:
        return []
    values["brownouts"] = [
        brownout
        for brownout in values.get("brownouts", ())
        if brownout.every is None or brownout.until is not None
    ]
    return _build_anyway(DeprecationPolicy, values, ("deprecated_at",))[1]


def _build_policies(
    defaults: Mapping[str, Any], entries: list[dict[str, Any]], messages: _Messages
) -> dict[Operation, DeprecationPolicy | None]:
    plan: dict[Operation, DeprecationPolicy | None] = {}
    shared, shared_errors = _build_policy(defaults)
    # By the indexes of deprecated operations.
    errors: dict[int, list[_Error]] = {}
    for index, entry in enumerate(entries):
        policy = None
        if not entry.get("live"):
            policy, errors[index] = shared, shared_errors
            if not entry.keys().isdisjoint(_POLICY_KEYS):
                policy, errors[index] = _build_policy({**defaults, **entry})
        if "operation" in entry:
            plan[entry["operation"]] = policy
    # An error of the defaults that all of them inherit is reported once.
    inherited = shared_errors if errors else []
    for wrong in errors.values():
        inherited = [error for error in inherited if error in wrong]
    for key, message in inherited:
        _add_message(messages, (key,), message)
    for index, wrong in errors.items():
        for key, message in wrong:
            if (key, message) not in inherited:
                _add_message(messages, ("operations", index, key), message)
    return plan


def _build_policy(
    values: Mapping[str, Any],
) -> tuple[DeprecationPolicy, list[_Error]]:
    """Return a policy and the errors between its values, each of which is valid."""
    policy, errors = _build_anyway(
        DeprecationPolicy, _pick(_POLICY_KEYS, values), ("deprecated_at",)
    )
    if "deprecated_at" not in values:
        message = _Date.default_error_messages["required"]
        errors.insert(0, ("deprecated_at", message))
    return policy, errors


def _refuse_repeated(entries: list[dict[str, Any]], messages: _Messages) -> None:
    """Refuse operations with the name or the requests of an earlier one."""
    names: dict[object, int] = {}
    indexes: list[int] = []
    operations: list[tuple[Operation, bool]] = []
    for index, entry in enumerate(entries):
        name = entry.get("name", index)
        first = names.setdefault(name, index)
        if first != index:
            message = f"name must differ from that of operation {first}: {name!r}"
            _add_message(messages, ("operations", index, "name"), message)
        if "operation" in entry:
            indexes.append(index)
            operations.append((entry["operation"], bool(entry.get("live"))))
    for clash in find_clashes(operations):
        index, first = indexes[clash.place], indexes[clash.first]
        message = (
            f"path must differ from that of operation {first} in {clash.difference}:"
            f" {entries[index]['path']!r}"
        )
        _add_message(messages, ("operations", index, "path"), message)


def _pick(keys: Iterable[str], values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: values[key] for key in keys if key in values}


def _dump_operation(
    operation: Operation, policy: DeprecationPolicy | None
) -> dict[str, Any]:
    """Return an operation and its policy as a table of a plan file."""
    table = {key: getattr(operation, key) for key in _OPERATION_KEYS}
    if policy is None:
        table["live"] = True
    else:
        table |= {key: getattr(policy, key) for key in _POLICY_KEYS}
    return _make_table(table)


def _make_table(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table without empty values."""
    return {key: _make_value(value) for key, value in values.items() if value}


def _make_value(value: Any) -> Any:
    """Return a value in a form that JSON can express."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Brownout):
        table = asdict(value)
        if value.every is not None:
            table["every_hours"] = table.pop("every") // timedelta(hours=1)
        return _make_table(table)
    if isinstance(value, Exemption):
        return _make_table(asdict(value))
    if isinstance(value, tuple):
        return [_make_value(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _make_value(item) for key, item in value.items()}
    return value
