"""From a mapping (Flask configuration, JSON, TOML) to a policy.

Knows how values are written outside of Python; what makes a policy valid is the business of ``deprecation``.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from marshmallow import RAISE, Schema, ValidationError, fields, post_load, validates_schema

from .deprecation import Brownout, DeprecationPolicy, Fault, policy_faults, window_faults


def load_policy(mapping: Mapping[str, Any]) -> DeprecationPolicy:
    """Load a policy from the attributes of ``DeprecationPolicy``, written as JSON or TOML would have them.

    Dates are ISO 8601 texts with an offset, or aware datetimes (as TOML gives); ``brownouts`` are mappings with
    ``start`` and ``end``. Takes ``app.config.get_namespace("NOTIFICATIONS_")`` as it is. Unknown keys are refused.
    Raises marshmallow's ``ValidationError`` with every fault, those between fields too, keyed by field.
    """
    policy: DeprecationPolicy = _PolicySchema().load(mapping)
    return policy


class _Date(fields.AwareDateTime):
    """An aware datetime, or one written in ISO 8601 with an offset."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> datetime:
        text = value.isoformat() if isinstance(value, datetime) else value
        return super()._deserialize(text, attr, data, **kwargs)


class _BrownoutSchema(Schema):
    class Meta:
        unknown = RAISE

    start = _Date(required=True)
    end = _Date(required=True)

    @validates_schema(skip_on_field_errors=False)
    def _check(self, data: dict[str, Any], **_context: Any) -> None:
        _raise_all(window_faults(data))

    @post_load
    def _make(self, data: dict[str, Any], **_context: Any) -> Brownout:
        return Brownout(**data)


class _PolicySchema(Schema):
    class Meta:
        unknown = RAISE

    deprecated_at = _Date(required=True)
    sunset_at = _Date(allow_none=True, load_default=None)
    documentation = fields.String(allow_none=True, load_default=None)
    sunset_documentation = fields.String(allow_none=True, load_default=None)
    brownouts = fields.List(fields.Nested(_BrownoutSchema), load_default=())
    enforce_sunset = fields.Boolean(load_default=False)

    @validates_schema(skip_on_field_errors=False)
    def _check(self, data: dict[str, Any], **_context: Any) -> None:
        loaded = [window for window in data.get("brownouts", ()) if isinstance(window, Brownout)]
        _raise_all(policy_faults(data | {"brownouts": loaded}))

    @post_load
    def _make(self, data: dict[str, Any], **_context: Any) -> DeprecationPolicy:
        return DeprecationPolicy(**data)


def _raise_all(faults: Iterable[Fault]) -> None:
    messages: dict[str, list[str]] = {}
    for name, sentence in faults:
        messages.setdefault(name, []).append(sentence)
    if messages:
        raise ValidationError(messages)
