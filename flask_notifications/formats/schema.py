"""The JSON Schema of a plan file, for editors and validators (the extra ``openapi``)."""

import json
from typing import Any

from apispec import APISpec
from apispec.ext.marshmallow.openapi import OpenAPIConverter

from flask_notifications.plans.files import PlanSchema

# A date and time in ISO 8601 with an offset. In TOML it needs no quotation marks:
# validators see a string.
_DATE = r"^\d{4}.{3,7}\d\d\s?.*([Zz]|[+-]\d\d.*)$"
_VALUE = {"type": "string"}
_VALUES = {
    "type": ["object", "null"],
    "propertyNames": {"minLength": 1},
    "additionalProperties": {
        "anyOf": [_VALUE, {"type": "array", "items": _VALUE, "minItems": 1}]
    },
}


def format_schema() -> str:
    """Return the schema: it accepts all that ``load_plan`` accepts, and finds no errors
    between two keys.
    """
    spec = APISpec("", "", "3.1.0")
    # Without names for schemas, nothing is by reference.
    converter: Any = OpenAPIConverter(
        "3.1.0", schema_name_resolver=lambda _schema: None, spec=spec
    )
    schema = _complete(converter.schema2jsonschema(PlanSchema()))
    return json.dumps(
        {"$schema": "http://json-schema.org/draft-07/schema#", "title": "A plan"}
        | schema,
        indent=2,
    )


def _complete(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with the facts that apispec cannot know: no other keys, and the
    forms of dates and conditions.
    """
    if "items" in schema:
        return schema | {"items": _complete(schema["items"])}
    if "format" in schema:
        return {"type": schema["type"], "pattern": _DATE}
    if "properties" not in schema:
        return schema or _VALUES
    properties = {name: _complete(each) for name, each in schema["properties"].items()}
    return schema | {"properties": properties, "additionalProperties": False}
