"""A plan to an OpenAPI document (the extra ``openapi``)."""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from flask_notifications.plans.operations import ANY_METHOD, Operation
from flask_notifications.plans.overlaps import Overlaps
from flask_notifications.plans.plan import (
    Plan,
    deprecated_operations,
    is_notification_operation,
)
from flask_notifications.plans.policy import DeprecationPolicy
from flask_notifications.responses import reason_phrase
from flask_notifications.validation import check_uri, require

from .reader import EXTENSIONS, METHODS, PARAMETER, is_taken

if TYPE_CHECKING:
    from marshmallow import Schema


def openapi_document(
    plan: Plan,
    *,
    schema: "type[Schema] | Schema | None" = None,
    title: str = "Notifications",
    version: str = "1",
    server: str = "/",
) -> dict[str, Any]:
    """Return an OpenAPI 3.1 document of retired operations.

    Needs the extra ``openapi``.

    Each is ``deprecated``, with ``x-sunset``, ``x-sunset-documentation``,
    ``x-successor`` and ``externalDocs`` where there are any, and with the headers of
    its responses. ``x-deprecation-plan`` has the rest of its policy, in the keys of a
    plan file; it names exempt callers, so remove it from a document that everybody may
    read. For the two notification operations, sessions and bodies are described too; of
    others only the retirement is known. A live one is written if a retired one would
    take its requests otherwise, unless both have the same method and path in OpenAPI.

    :param plan: the operations and their policies.
    :param schema: a marshmallow schema, as a class or an instance, that describes a
        record, by default any object.
    :param title: the title of the document.
    :param version: the version of your API.
    :param server: the URL below which the operations are served.
    :raises ValueError: an argument is something else, two operations have the same
        name, OpenAPI 3.1 has no such method, such as ``PURGE``, or two operations have
        the same method and path but for the names of parameters: it has no conditions.
    :raises ModuleNotFoundError: the extra is not installed.
    """
    retired = Overlaps(deprecated_operations(plan))
    for name, value in (("title", title), ("version", version)):
        require(isinstance(value, str), name, "a string", value)
    check_uri("server", server)
    paths: dict[str, dict[str, Any]] = {}
    spellings: dict[str, str] = {}
    places: dict[tuple[str, str], Operation] = {}
    for operation, own in sorted(plan.items(), key=lambda item: item[1] is None):
        # Paths that differ only in the names of parameters are the same to OpenAPI.
        path = spellings.setdefault(
            PARAMETER.sub("{}", operation.path), _fit_names(operation.path)
        )
        method = (
            "get" if operation.method == ANY_METHOD else operation.method.lower()
        )  # of any, the most usual
        if own is None and (
            (path, method) in places or not is_taken(operation, retired)
        ):
            continue
        other = places.setdefault((path, method), operation)
        expected = f"without two operations for {method.upper()} {path} in OpenAPI"
        require(other is operation, "plan", expected, [other.name, operation.name])
        paths.setdefault(path, {})[method] = _write_operation(
            path, method, operation, own
        )
    headers = {
        name: {"description": each, "schema": {"type": "string"}}
        for name, each in _HEADERS.items()
    }
    schemes = {
        "header": {"type": "http", "scheme": "bearer"},
        "query": _SESSION_IN_QUERY,
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "servers": [{"url": server}],
        # Only the operations themselves know who may call them; the two of this library
        # say so.
        "security": [{}, {"header": []}],
        "paths": paths,
        "components": {
            "schemas": _describe_schemas(schema),
            "securitySchemes": schemes,
            "headers": headers,
        },
    }


def _describe_schemas(schema: "type[Schema] | Schema | None") -> dict[str, Any]:
    """Return the schemas of a record and its parts, which apispec describes, and of a
    problem.
    """
    if find_spec("apispec") is None:
        message = "openapi_document needs: pip install 'Flask-Notifications[openapi]'"
        raise ModuleNotFoundError(message, name="apispec")
    from apispec import APISpec  # noqa: PLC0415
    from apispec.ext.marshmallow import MarshmallowPlugin, resolver  # noqa: PLC0415
    from marshmallow import Schema  # noqa: PLC0415

    def name_component(schema: Any) -> str:
        """Return the name for a part of a record as apispec does, in ASCII, but no name
        of our own components.
        """
        name = re.sub(r"\W", "_", resolver(schema), flags=re.ASCII)
        return f"{name}Schema" if name in {"Notification", "Problem"} else name

    if schema is None:
        return {"Notification": {"type": "object"}, "Problem": _PROBLEM}
    is_class = isinstance(schema, type) and issubclass(schema, Schema)
    require(
        is_class or isinstance(schema, Schema),
        "schema",
        "a marshmallow schema, as a class or an instance",
        schema,
    )
    spec = APISpec(
        "",
        "",
        "3.1.0",
        plugins=[MarshmallowPlugin(schema_name_resolver=name_component)],
    )
    spec.components.schema("Notification", schema=schema)
    return {**spec.components.schemas, "Problem": _PROBLEM}


def _fit_names(path: str) -> str:
    """Return a path whose parameters have different names in ASCII, which linters want."""
    names: set[str] = set()

    def fit(found: re.Match[str]) -> str:
        name = re.sub(r"[^\w-]", "_", found[1], flags=re.ASCII)
        while name in names:
            name += "_"
        names.add(name)
        return f"{{{name}}}"

    return PARAMETER.sub(fit, path)


def _write_operation(
    path: str, method: str, operation: Operation, policy: DeprecationPolicy | None
) -> dict[str, Any]:
    from flask_notifications.plans.files import dump_plan  # noqa: PLC0415

    require(
        method in METHODS,
        f"the method of {operation.name!r}",
        "one that OpenAPI 3.1 has",
        method.upper(),
    )
    is_ours = is_notification_operation(operation)
    (entry,) = dump_plan({operation: policy})["operations"]
    schema = _ACCOUNT_ID if is_ours else {"type": "string"}
    names = PARAMETER.findall(path)
    # Fit for a URL; different names stay different.
    identifier = quote(operation.name, safe="").replace("~", "%7E").replace("%", "~")
    described: dict[str, Any] = {
        "summary": operation.name,
        "description": "It is not retired.",
        "operationId": identifier,
        "x-name": None if identifier == operation.name else operation.name,
        "responses": {"default": {"description": "Any response."}},
        **{f"x-{key.replace('_', '-')}": entry.get(key) for key in EXTENSIONS},
        "x-method": ANY_METHOD if operation.method == ANY_METHOD else None,
        "x-path": None if operation.path == path else operation.path,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": schema}
            for name in names
        ]
        or None,
    }
    if policy is not None:
        described |= {
            "description": "It is retired."
            if operation.successor is None
            else f"Use {operation.successor} instead.",
            "deprecated": True,
            "security": [{"header": []}, {"query": []}] if is_ours else None,
            "responses": dict(_describe_responses(policy, is_ours=is_ours)),
            # The date alone for midnight UTC, as people write it.
            "x-sunset": entry["sunset_at"].removesuffix("T00:00:00Z")
            if "sunset_at" in entry
            else None,
            "externalDocs": None
            if policy.documentation is None
            else {"url": policy.documentation},
            "x-sunset-documentation": policy.sunset_documentation,
            "x-deprecation-plan": {
                key: entry[key] for key in _ONLY_IN_PLANS if key in entry
            },
        }
    return {key: value for key, value in described.items() if value is not None}


def _describe_responses(
    policy: DeprecationPolicy, *, is_ours: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    array = {"type": "array", "items": {"$ref": "#/components/schemas/Notification"}}
    problem = {
        "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
    }
    bodies = (
        ({"application/json": {"schema": array}}, problem) if is_ours else (None, None)
    )
    for status, content in zip(("2XX", "default"), bodies, strict=True):
        yield status, _response("As before its retirement.", content)
    if policy.closes:
        yield (
            "410",
            _response(reason_phrase(410), problem, "Cache-Control", "Retry-After"),
        )


def _response(
    description: str, content: dict[str, Any] | None, *more: str
) -> dict[str, Any]:
    headers = {
        name: {"$ref": f"#/components/headers/{name}"}
        for name in ("Deprecation", "Sunset", "Link", *more)
    }
    return {
        "description": description,
        "headers": headers,
        **({} if content is None else {"content": content}),
    }


# The keys of a policy in a plan file for which OpenAPI defines none.
_ONLY_IN_PLANS = ("deprecated_at", "enforce_sunset", "brownouts", "exemptions")

_SESSION_IN_QUERY = {
    "type": "apiKey",
    "in": "query",
    "name": "sessionId",
    "description": "Deprecated, because URLs are logged. Send the session ID in the header.",
    "x-deprecated": True,
}
_HEADERS = {
    "Deprecation": "The date of the deprecation: @ and seconds since 1970 (RFC 9745).",
    "Sunset": "The date from which the operation may be gone (RFC 8594).",
    "Link": "The successor, and pages for people (RFC 8288).",
    "Cache-Control": "No cache keeps the response (RFC 9111).",
    "Retry-After": "Seconds to wait (RFC 9110).",
}
# Length in characters; the pattern leaves out those that are refused before the storage
# is called.
_ACCOUNT_ID = {
    "type": "string",
    "minLength": 1,
    "maxLength": 512,
    "pattern": r"^[^\x00-\x1f\x7f-\x9f/]+$",
}
_PROBLEM = {
    "description": "RFC 9457",
    "type": "object",
    "properties": {
        "type": {"const": "about:blank"},
        "status": {"type": "integer"},
        **{
            name: {"type": "string"}
            for name in ("title", "detail", "code", "successor", "documentation")
        },
        **{
            name: {"type": "string", "format": "date-time"}
            for name in ("sunset", "brownout_ends")
        },
    },
    "required": ["type", "title", "status", "detail", "code"],
}
