"""Load policies and plans from mappings, such as those of TOML, JSON or Flask configuration.

Knows how values are written outside of Python. ``deprecation`` decides what makes a policy valid, ``operations`` what
makes an operation valid.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from itertools import count
from typing import Any, NamedTuple

from marshmallow import RAISE, Schema, ValidationError, fields, post_load, validate, validates_schema
from marshmallow.exceptions import SCHEMA

from .deprecation import Brownout, ConfigurationError, DeprecationPolicy, brownout_errors, policy_errors
from .operations import Operation, Shape, notification_operations, template_shape
from .validation import check_uri

# A place in a plan, as in ("operations", 1, "sunset_at"), and a message about it.
Place = tuple[str | int, ...]
Problem = tuple[Place, str]

_OPERATION_KEYS = ("name", "method", "path", "successor", "rewrite_path", "unify_session")
_PREFIX_KEYS = frozenset({"prefix", "successor_prefix"})


def load_policy(mapping: Mapping[str, Any]) -> DeprecationPolicy:
    """Load a policy from a mapping whose keys are the attributes of ``DeprecationPolicy``.

    :param mapping: the values as JSON or TOML write them. Dates are ISO 8601 strings with an offset, or aware
        datetimes; ``brownouts`` are mappings with ``start`` and ``end``. ``app.config.get_namespace("NOTIFICATIONS_")``
        can be passed as it is. Unknown keys are refused.
    :raises marshmallow.ValidationError: something is wrong; ``messages`` has every error, those between two keys too,
        by key.
    """
    policy: DeprecationPolicy = _PolicySchema().load(mapping)
    return policy


def load_plan(mapping: Mapping[str, Any]) -> dict[Operation, DeprecationPolicy | None]:
    """Load a plan: the policy of each operation, or ``None`` for a live operation, which is not retired.

    :param mapping: the keys of ``load_policy``, which are the defaults of all operations, and ``operations``, a list of
        mappings. Each of these has ``name``, ``method`` and ``path``, and optionally ``successor``, ``rewrite_path``,
        ``unify_session``, ``live`` and keys of ``load_policy``, which replace the defaults. Without ``operations`` the
        plan has the two notification operations, below ``prefix`` and with successors below ``successor_prefix``, as
        in ``notification_operations``. Unknown keys are refused.
    :raises marshmallow.ValidationError: something is wrong; ``messages`` has every error by place, as in
        ``{"operations": {1: {"sunset_at": [...]}}}``, where 1 is the second operation. The place of an error that all
        retired operations inherit is the default.
    """
    if not isinstance(mapping, Mapping):
        raise ValidationError({SCHEMA: [f"a plan must be a mapping, not {mapping!r}"]})
    top = _load(_PlanSchema(), mapping)
    entries = _load_entries(top) if "operations" in mapping else _notification_entries(top)
    problems = [*top.problems, *_prefix_problems(mapping)]
    problems += [*_operation_problems(entries), *_policy_problems(top, entries)]
    if problems:
        raise ValidationError(_nest(sorted(problems, key=_order)))
    return {entry.operation: entry.policy for entry in entries}


def flatten_messages(messages: Any, place: Place = ()) -> Iterator[Problem]:
    """Yield the messages of a ``ValidationError`` one by one, each with its place.

    :param messages: the attribute ``messages`` of the error.
    :param place: where in the plan these messages belong; by default the plan itself.
    """
    if isinstance(messages, Mapping):
        for key, nested in messages.items():
            yield from flatten_messages(nested, (*place, key))
    else:
        yield from ((place, message) for message in messages)


class _Date(fields.AwareDateTime):
    """An aware datetime, or one written in ISO 8601 with an offset."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> datetime:
        string = value.isoformat() if isinstance(value, datetime) else value
        return super()._deserialize(string, attr, data, **kwargs)


class _BrownoutSchema(Schema):
    class Meta:
        unknown = RAISE

    start = _Date(required=True)
    end = _Date(required=True)

    @validates_schema(skip_on_field_errors=False)
    def _check(self, data: dict[str, Any], **_context: Any) -> None:
        _raise_all(brownout_errors(data))

    @post_load
    def _make(self, data: dict[str, Any], **_context: Any) -> Brownout:
        return Brownout(**data)


class _PolicyKeys(Schema):
    class Meta:
        unknown = RAISE

    deprecated_at = _Date()
    sunset_at = _Date(allow_none=True, load_default=None)
    documentation = fields.String(allow_none=True, load_default=None)
    sunset_documentation = fields.String(allow_none=True, load_default=None)
    brownouts = fields.List(fields.Nested(_BrownoutSchema), load_default=())
    enforce_sunset = fields.Boolean(load_default=False)


_POLICY_KEYS = frozenset(_PolicyKeys().fields)


class _PolicySchema(_PolicyKeys):
    deprecated_at = _Date(required=True)

    @validates_schema(skip_on_field_errors=False)
    def _check(self, data: dict[str, Any], **_context: Any) -> None:
        _raise_all(_policy_errors(data))

    @post_load
    def _make(self, data: dict[str, Any], **_context: Any) -> DeprecationPolicy:
        return DeprecationPolicy(**data)


def _accepted_by(check: Callable[[Any], object]) -> Callable[[Any], None]:
    """Return a marshmallow validator that refuses what ``check`` refuses with a ``ValueError``."""

    def validator(value: Any) -> None:
        try:
            check(value)
        except ValueError as error:
            raise ValidationError(str(error)) from error

    return validator


class _OperationSchema(_PolicyKeys):
    name = fields.String(required=True, validate=_accepted_by(lambda name: Operation(name, "GET", "/")))
    method = fields.String(required=True, validate=_accepted_by(lambda method: Operation("name", method, "/")))
    path = fields.String(required=True, validate=_accepted_by(lambda path: Operation("name", "GET", path)))
    successor = fields.String(
        allow_none=True, load_default=None, validate=_accepted_by(lambda uri: check_uri("successor", uri))
    )
    rewrite_path = fields.Boolean(load_default=False)
    unify_session = fields.Boolean(load_default=False)
    live = fields.Boolean(load_default=False)

    @validates_schema(skip_on_field_errors=False)
    def _check_successor(self, data: dict[str, Any], **_context: Any) -> None:
        if "path" in data and data.get("successor") is not None:
            check = _accepted_by(lambda uri: Operation("name", "GET", data["path"], uri))
            try:
                check(data["successor"])
            except ValidationError as error:
                raise ValidationError({"successor": error.messages}) from error


class _PlanSchema(_PolicyKeys):
    operations = fields.List(fields.Raw(), validate=validate.Length(min=1, error="must have at least one operation"))
    prefix = fields.String(validate=_accepted_by(notification_operations))
    successor_prefix = fields.String(
        allow_none=True, validate=_accepted_by(lambda prefix: notification_operations(successor_prefix=prefix))
    )


class _Loaded(NamedTuple):
    """What a schema made of a mapping: its valid values, and the messages about the others."""

    values: dict[str, Any]
    messages: dict[Any, Any]

    @property
    def problems(self) -> list[Problem]:
        """The messages one by one."""
        return list(flatten_messages(self.messages))

    @property
    def invalid(self) -> frozenset[str]:
        """The keys that were given without a valid value."""
        return frozenset(self.messages.keys() - self.values.keys())


class _Entry(NamedTuple):
    """An operation of a plan: where its own keys are, what they hold, and its policy merged with the defaults."""

    place: Place
    own: _Loaded
    values: dict[str, Any]
    errors: frozenset[ConfigurationError]

    @property
    def operation(self) -> Operation:
        """The operation, of an entry without errors."""
        return Operation(**{name: self.own.values[name] for name in _OPERATION_KEYS})

    @property
    def policy(self) -> DeprecationPolicy | None:
        """The policy, of an entry without errors; ``None`` for a live operation."""
        return None if _is_live(self) else DeprecationPolicy(**self.values)


def _load(schema: Schema, mapping: Any, **options: Any) -> _Loaded:
    try:
        return _Loaded(schema.load(mapping, **options), {})
    except ValidationError as error:
        return _Loaded(error.valid_data if isinstance(error.valid_data, dict) else {}, error.messages_dict)


def _load_entries(top: _Loaded) -> list[_Entry]:
    """Load the operations; marshmallow leaves out those that are null, and has their indexes among the messages."""
    nulls = top.messages.get("operations", ())
    indexes = (index for index in count() if index not in nulls)
    items = zip(indexes, top.values.get("operations", ()), strict=False)
    return [
        _entry(top, ("operations", index), _load(_OperationSchema(), item, partial=_POLICY_KEYS))
        for index, item in items
    ]


def _notification_entries(top: _Loaded) -> list[_Entry]:
    prefixes = {name: top.values[name] for name in _PREFIX_KEYS if name in top.values}
    values = [
        {name: getattr(operation, name) for name in _OPERATION_KEYS}
        for operation in notification_operations(**prefixes)
    ]
    return [_entry(top, (), _Loaded(own, {})) for own in values]


def _entry(top: _Loaded, place: Place, own: _Loaded) -> _Entry:
    """Merge an operation's own values with the defaults; of a live operation, only the own values are checked."""
    invalid = own.invalid | (top.invalid - own.values.keys())
    merged = {name: value for name, value in (top.values | own.values).items() if name in _POLICY_KEYS - invalid}
    errors = frozenset(_policy_errors(own.values)) if own.values.get("live") else _merged_errors(merged, invalid)
    return _Entry(place, own, merged, errors)


def _is_live(entry: _Entry) -> bool:
    return bool(entry.own.values.get("live"))


def _merged_errors(values: Mapping[str, Any], invalid: AbstractSet[str]) -> frozenset[ConfigurationError]:
    is_missing = "deprecated_at" not in values.keys() | invalid
    missing = [("deprecated_at", "Missing data for required field.")] if is_missing else []
    return frozenset([*missing, *_policy_errors(values)])


def _policy_problems(top: _Loaded, entries: Sequence[_Entry]) -> Iterator[Problem]:
    """Yield the errors of the merged policies; those that all of them have from the defaults only once."""
    defaults = {name: value for name, value in top.values.items() if name in _POLICY_KEYS}
    retired = [entry for entry in entries if not _is_live(entry)]
    inherited = _merged_errors(defaults, top.invalid) if retired else frozenset()
    inherited = inherited.intersection(*(entry.errors for entry in retired))
    places = [((), inherited), *((entry.place, entry.errors - inherited) for entry in entries)]
    yield from (((*place, name), message) for place, errors in places for name, message in sorted(errors))


def _prefix_problems(mapping: Mapping[str, Any]) -> Iterator[Problem]:
    for key in sorted(_PREFIX_KEYS & mapping.keys() if "operations" in mapping else ()):
        yield (key,), f"{key} is for plans without operations"


def _operation_problems(entries: Sequence[_Entry]) -> Iterator[Problem]:
    """Yield the problems of each operation, and those of operations that equal an earlier one."""
    names: dict[str, _Entry] = {}
    shapes: dict[Shape, _Entry] = {}
    for entry in entries:
        yield from (((*entry.place, *place), message) for place, message in entry.own.problems)
        values = entry.own.values
        if "name" in values and (first := names.setdefault(values["name"], entry)) is not entry:
            yield (*entry.place, "name"), _SAME_NAME.format(first=first.place[-1], name=values["name"])
        if {"method", "path"} <= values.keys():
            first = shapes.setdefault(template_shape(Operation("name", values["method"], values["path"])), entry)
            if first is not entry:
                yield (*entry.place, "path"), _SAME_TEMPLATE.format(first=first.place[-1], path=values["path"])


_SAME_NAME = "name must differ from that of operation {first}, not {name!r}"
_SAME_TEMPLATE = (
    "path must differ from that of operation {first} in more than letter case and parameter names: {path!r}"
)


def _order(problem: Problem) -> tuple[object, ...]:
    """Return a sort key: by operation, then by place, because marshmallow's unknown keys have no order."""
    place, _message = problem
    index = place[1] if len(place) > 1 and isinstance(place[1], int) else -1
    return index, [(key, "") if isinstance(key, int) else (-1, str(key)) for key in place]


def _nest(problems: Sequence[Problem]) -> Any:
    """Nest messages as marshmallow does: a list of them at each place."""
    here = [message for place, message in problems if not place]
    keys = dict.fromkeys(place[0] for place, _message in problems if place)
    inside = {key: _nest([(place[1:], message) for place, message in problems if place[:1] == (key,)]) for key in keys}
    return {SCHEMA: here, **inside} if here and inside else inside or here


def _policy_errors(values: Mapping[str, Any]) -> Iterator[ConfigurationError]:
    """Yield the problems of the values of a policy, of whose brownouts only the valid ones are checked."""
    valid = [window for window in values.get("brownouts", ()) if isinstance(window, Brownout)]
    return policy_errors({**values, "brownouts": valid})


def _raise_all(errors: Iterable[ConfigurationError]) -> None:
    messages: dict[str, list[str]] = {}
    for name, sentence in errors:
        messages.setdefault(name, []).append(sentence)
    if messages:
        raise ValidationError(messages)
