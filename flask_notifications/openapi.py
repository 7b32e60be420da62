"""OpenAPI in and out (extra ``openapi``): operations from the host's document, and a document of the two operations.

A document is a mapping, as JSON and YAML parsers give it. Serves no route and validates no request.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from .deprecation import DeprecationPolicy
from .fields import check_uri, expect
from .operations import ACCOUNT, NOTIFICATION_OPERATIONS, Operation
from .problems import Statuses, status_codes
from .replies import phrase

if find_spec("apispec") is None:
    message = "flask_notifications.openapi needs: pip install 'Flask-Notifications[openapi]'"
    raise ModuleNotFoundError(message, name="apispec")

from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from marshmallow import Schema

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)

# OpenAPI 3.1 section 4.8.9: the fields of a Path Item that are operations.
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


@dataclass(frozen=True, slots=True)
class DeclaredOperation(Operation):
    """An operation that an OpenAPI document declares deprecated, with what the document says of its retirement.

    ``sunset_at`` comes from ``x-sunset``, ``documentation`` from ``externalDocs``; ``None`` where it is silent.
    """

    sunset_at: datetime | None = None
    documentation: str | None = None


def operations_from_openapi(document: Mapping[str, Any]) -> tuple[DeclaredOperation, ...]:
    """Return the operations of an OpenAPI 3 document that have ``deprecated: true``, in its order.

    The name is the ``operationId``, or method and path; the path begins with that of the server (OpenAPI 3.1 section
    4.8.5; of several servers each path once). ``x-sunset`` is a date, which begins at midnight UTC, or a date and time
    with an offset. References within the document are followed. Raises ``ValueError`` naming the place in the document
    that cannot be read.
    """
    expect(isinstance(document, Mapping), "document", "a mapping", document)
    version = document.get("openapi")
    expect(isinstance(version, str) and version.startswith("3."), "openapi", "a version 3", version)
    paths = document.get("paths", {})
    expect(isinstance(paths, Mapping), "paths", "a mapping", paths)
    # Keys that begin with x- are extensions, and no paths (OpenAPI 3.1 section 4.8.8).
    items = {path: _resolved(document, item) for path, item in paths.items() if not str(path).startswith("x-")}
    return tuple(found for path, item in items.items() for found in _path_operations(document, path, item))


def _path_operations(document: Mapping[str, Any], path: str, item: Any) -> Iterator[DeclaredOperation]:
    expect(isinstance(item, Mapping), f"paths.{path}", "a mapping", item)
    for method in _METHODS:
        described = item.get(method, {})
        place = f"paths.{path}.{method}"
        expect(isinstance(described, Mapping), place, "a mapping", described)
        deprecated = described.get("deprecated", False)
        expect(isinstance(deprecated, bool), f"{place}.deprecated", "true or false", deprecated)
        if deprecated:
            servers = described.get("servers") or item.get("servers") or document.get("servers") or [{"url": "/"}]
            for base in dict.fromkeys(_server_path(place, server) for server in servers):
                yield _declared(place, method, f"{base}{path}", described)


def _declared(place: str, method: str, path: str, described: Mapping[str, Any]) -> DeclaredOperation:
    docs = described.get("externalDocs", {})
    expect(isinstance(docs, Mapping), f"{place}.externalDocs", "a mapping", docs)
    documentation = docs.get("url")
    if documentation is not None:
        check_uri(f"{place}.externalDocs.url", documentation)
    sunset_at = _sunset(f"{place}.x-sunset", described.get("x-sunset"))
    name = described.get("operationId", f"{method.upper()} {path}")
    try:
        return DeclaredOperation(name, method, path, sunset_at=sunset_at, documentation=documentation)
    except ValueError as fault:
        message = f"{place}: {fault}"
        raise ValueError(message) from fault


def _server_path(place: str, server: Any) -> str:
    """Return the path of a server's URL, its variables at their defaults (OpenAPI 3.1 section 4.8.6)."""
    expect(isinstance(server, Mapping) and isinstance(server.get("url"), str), f"{place}: servers", "URLs", server)
    url: str = server["url"]
    variables = server.get("variables", {})
    expect(isinstance(variables, Mapping), f"{place}: servers", "variables in a mapping", server)
    for name, variable in variables.items():
        expect(isinstance(variable, Mapping) and "default" in variable, f"{place}: servers", "defaults", server)
        url = url.replace(f"{{{name}}}", str(variable["default"]))
    try:
        return urlsplit(url).path.rstrip("/")
    except ValueError as fault:
        message = f"{place}: servers must be URLs, not {server!r}"
        raise ValueError(message) from fault


def _sunset(place: str, value: Any) -> datetime | None:
    if value is None:
        return None
    text = value.isoformat() if isinstance(value, date) else str(value)  # YAML parsers give dates
    try:
        sunset_at = datetime.fromisoformat(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text)
    except ValueError:
        sunset_at = None
    expect(
        sunset_at is not None and sunset_at.tzinfo is not None,
        place,
        "a date, or a date and time with an offset",
        value,
    )
    return sunset_at


def _resolved(document: Mapping[str, Any], item: Any) -> Any:
    """Follow a reference within the document (RFC 6901), once; anything else is what it is."""
    reference = item.get("$ref") if isinstance(item, Mapping) else None
    if reference is None:
        return item
    expect(str(reference).startswith("#/"), "$ref", "a reference within the document", reference)
    target: Any = document
    for step in reference.removeprefix("#/").split("/"):
        key = step.replace("~1", "/").replace("~0", "~")
        expect(isinstance(target, Mapping) and key in target, "$ref", "a place in the document", reference)
        target = target[key]
    expect(isinstance(target, Mapping) and "$ref" not in target, "$ref", "a reference to a path item", reference)
    return target


def openapi_document(
    policy: DeprecationPolicy,
    *,
    operations: Sequence[Operation] = NOTIFICATION_OPERATIONS,
    statuses: Statuses = Statuses(),  # noqa: B008 - frozen
    schema: type[Schema] | None = None,
    title: str = "Notifications",
    version: str = "1",
    server: str = "/",
) -> dict[str, Any]:
    """Return an OpenAPI 3.1 document of the two operations, as this library serves them under the middleware.

    Both are ``deprecated``, with ``x-sunset`` where the policy has a date. Each status has its problem body, each
    answer its header fields. ``schema``, a marshmallow schema class, describes a record; without one it is any object.
    ``server`` is the URL below which the operations are served.
    """
    spec = APISpec(title, version, "3.1.0", plugins=[MarshmallowPlugin()], servers=[{"url": server}])
    spec.components.security_scheme("header", {"type": "http", "scheme": "bearer"})
    spec.components.security_scheme("query", {"type": "apiKey", "in": "query", "name": "sessionId"})
    record = {"component": {"type": "object"}} if schema is None else {"schema": schema}
    spec.components.schema("Notification", **record)
    spec.components.schema("Problem", component=_PROBLEM)
    for name, description in _FIELDS.items():
        spec.components.header(name, {"description": description, "schema": {"type": "string"}})
    for operation in operations:
        spec.path(operation.path, operations={operation.method.lower(): _described(operation, policy, statuses)})
    return spec.to_dict()


def _described(operation: Operation, policy: DeprecationPolicy, statuses: Statuses) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "deprecated": True,
        "security": [{"header": []}, {"query": []}],
        "responses": dict(_responses(operation, statuses)),
    }
    if operation.successor is not None:
        described["description"] = f"Use {operation.successor} instead."
    if policy.sunset_at is not None:
        described["x-sunset"] = policy.sunset_at.date().isoformat()
    if policy.documentation is not None:
        described["externalDocs"] = {"url": policy.documentation}
    if operation.name == ACCOUNT:
        parameter = operation.path.partition("{")[2].partition("}")[0]
        described["parameters"] = [{"name": parameter, "in": "path", "required": True, "schema": _ACCOUNT_ID}]
    return described


def _responses(operation: Operation, statuses: Statuses) -> Iterator[tuple[str, dict[str, Any]]]:
    array = {"type": "array", "items": {"$ref": "#/components/schemas/Notification"}}
    yield "200", _response("All of them.", "application/json", array, _ANNOUNCED)
    by_status: dict[int, list[str]] = {}
    for code, status in (status_codes(statuses) | _REFUSALS).items():
        if code not in _OF_NO_OPERATION and (operation.name == ACCOUNT or code not in _OF_ACCOUNTS):
            by_status.setdefault(status, []).append(code)
    for status, codes in sorted(by_status.items()):
        problem = {"allOf": [{"$ref": "#/components/schemas/Problem"}, {"properties": {"code": {"enum": codes}}}]}
        headers = [*_ANNOUNCED, *(field for field, of in _FIELDS_OF.items() if not of.isdisjoint(codes))]
        yield str(status), _response(phrase(status), "application/problem+json", problem, headers)


def _response(description: str, media_type: str, schema: dict[str, Any], headers: Sequence[str]) -> dict[str, Any]:
    return {
        "description": description,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in headers},
        "content": {media_type: {"schema": schema}},
    }


# What a session is refused with, and what answers no operation or one of them only.
_REFUSALS = {"invalid_request": 400, "invalid_token": 401}
_OF_NO_OPERATION = frozenset({"not_found", "method_not_allowed"})
_OF_ACCOUNTS = frozenset({"invalid_account_id", "account_not_found"})

_ANNOUNCED = ("Deprecation", "Sunset", "Link", "Cache-Control", "Vary")
_FIELDS = {
    "Deprecation": "Since when the operation is deprecated: @ and seconds since 1970 (RFC 9745).",
    "Sunset": "From when on the operation may be gone (RFC 8594).",
    "Link": "The successor, and pages for people (RFC 8288).",
    "Cache-Control": "No cache keeps the answer (RFC 9111).",
    "Vary": "The answer depends on the session (RFC 9110).",
    "WWW-Authenticate": "How to send a session (RFC 6750).",
    "Retry-After": "Seconds to wait (RFC 9110).",
}
_FIELDS_OF = {
    "WWW-Authenticate": frozenset({"session_missing", "session_invalid", *_REFUSALS}),
    "Retry-After": frozenset({"storage_unavailable", "brownout"}),
}
# Characters; the ones that no storage is asked for are left out.
_ACCOUNT_ID = {"type": "string", "minLength": 1, "maxLength": 512, "pattern": r"^[^\x00-\x1f\x7f-\x9f/]+$"}
_PROBLEM = {
    "description": "RFC 9457",
    "type": "object",
    "properties": {
        "type": {"const": "about:blank"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "successor": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail", "code"],
}
