"""OpenAPI: a document of your application to a plan, and a plan to a document (the extra ``openapi``).

A document is a mapping, as parsers of JSON and YAML return it. Serves no route and validates no request.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from .dates import parse_time
from .deprecation import DeprecationPolicy
from .operations import ACCOUNT, NOTIFICATION_OPERATIONS, Operation
from .plans import Plan, check_plan, is_notification_operation
from .problems import Statuses, status_codes
from .responses import reason_phrase
from .validation import check_uri, require

if TYPE_CHECKING:
    from marshmallow import Schema

_PARAMETER = re.compile(r"\{([^{}]+)\}")

# OpenAPI 3.1 section 4.8.9: the fields of a Path Item that are operations.
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


def plan_from_openapi(document: Mapping[str, Any], policy: DeprecationPolicy) -> dict[Operation, DeprecationPolicy]:
    """Return a plan of the operations that an OpenAPI 3 document declares with ``deprecated: true``, in its order.

    The name of an operation is its ``operationId``, or method and path. The path begins with that of the server
    (OpenAPI 3.1 section 4.8.5); an operation of several servers is there once for each of their paths. Where an earlier
    operation has the name already, method and path follow it. In an operation, ``x-sunset`` replaces the sunset,
    ``externalDocs.url`` the documentation, and ``x-successor`` is the successor. References within the document are
    followed. Needs the standard library only.

    :param document: a mapping, as parsers of JSON and YAML return it. An ``x-sunset`` is a date, which begins at
        midnight UTC, or a date and time with an offset.
    :param policy: applies where the document says nothing else.
    :raises ValueError: something cannot be read; the message has the place in the document.
    """
    require(isinstance(document, Mapping), "document", "a mapping", document)
    require(isinstance(policy, DeprecationPolicy), "policy", "a DeprecationPolicy", policy)
    version = document.get("openapi")
    require(isinstance(version, str) and version.startswith("3."), "openapi", "a version 3", version)
    paths = document.get("paths", {})
    require(isinstance(paths, Mapping), "paths", "a mapping", paths)
    # Keys that begin with x- are extensions, and not paths (OpenAPI 3.1 section 4.8.8).
    items = [(path, item) for path, item in paths.items() if not str(path).startswith("x-")]
    return dict(_distinguish(entry for each in items for entry in _path_operations(document, *each, policy)))


_Entry = tuple[Operation, DeprecationPolicy]


def _distinguish(entries: Iterable[_Entry]) -> Iterator[_Entry]:
    """Yield the entries, with method and path after a name that an earlier operation has."""
    names: set[str] = set()
    for operation, policy in entries:
        is_taken = operation.name in names
        name = f"{operation.name} {operation.method} {operation.path}" if is_taken else operation.name
        names.add(name)
        yield replace(operation, name=name), policy


def _path_operations(document: Mapping[str, Any], path: str, item: Any, policy: DeprecationPolicy) -> Iterator[_Entry]:
    item = _resolve(document, f"paths.{path}", item)
    require(isinstance(item, Mapping), f"paths.{path}", "a mapping", item)
    for method in _METHODS:
        declared = item.get(method, {})
        place = f"paths.{path}.{method}"
        require(isinstance(declared, Mapping), place, "a mapping", declared)
        deprecated = declared.get("deprecated", False)
        require(isinstance(deprecated, bool), f"{place}.deprecated", "true or false", deprecated)
        if deprecated:
            servers = declared.get("servers") or item.get("servers") or document.get("servers") or [{"url": "/"}]
            for base in dict.fromkeys(_server_path(place, server) for server in servers):
                yield _read_operation(place, method, f"{base}{path}", declared, policy)


def _read_operation(
    place: str, method: str, path: str, declared: Mapping[str, Any], policy: DeprecationPolicy
) -> _Entry:
    docs = declared.get("externalDocs", {})
    require(isinstance(docs, Mapping), f"{place}.externalDocs", "a mapping", docs)
    if docs.get("url") is not None:
        check_uri(f"{place}.externalDocs.url", docs["url"])
    own: dict[str, Any] = {
        "documentation": docs.get("url"),
        "sunset_at": _read_date(f"{place}.x-sunset", declared.get("x-sunset")),
    }
    name = declared.get("operationId", f"{method.upper()} {path}")
    try:
        operation = Operation(name, method, path, declared.get("x-successor"))
        return operation, replace(policy, **{key: value for key, value in own.items() if value is not None})
    except ValueError as error:
        message = f"{place}: {error}"
        raise ValueError(message) from error


def _server_path(place: str, server: Any) -> str:
    """Return the path of a server's URL, its variables at their defaults (OpenAPI 3.1 section 4.8.6)."""
    require(isinstance(server, Mapping) and isinstance(server.get("url"), str), f"{place}: servers", "URLs", server)
    url: str = server["url"]
    variables = server.get("variables", {})
    require(isinstance(variables, Mapping), f"{place}: the variables of a server", "a mapping", variables)
    for name, variable in variables.items():
        has_default = isinstance(variable, Mapping) and "default" in variable
        require(has_default, f"{place}: the variable {name!r} of a server", "a mapping with a default", variable)
        url = url.replace(f"{{{name}}}", str(variable["default"]))
    try:
        return urlsplit(url).path.rstrip("/")
    except ValueError as error:
        message = f"{place}: servers must be URLs, not {server!r}"
        raise ValueError(message) from error


def _read_date(place: str, value: Any) -> datetime | None:
    if value is None:
        return None
    string = value.isoformat() if isinstance(value, date) else str(value)  # YAML parsers return dates
    try:
        return parse_time(string)
    except ValueError as error:
        message = f"{place}: {error}"
        raise ValueError(message) from error


def _write_date(time: datetime) -> str:
    """Return what is read as this time in UTC: the date alone if it is midnight."""
    return time.isoformat().removesuffix("T00:00:00+00:00").replace("+00:00", "Z")


def _resolve(document: Mapping[str, Any], place: str, item: Any) -> Any:
    """Follow a reference within the document (RFC 6901 section 6), once; return any other value unchanged."""
    reference = item.get("$ref") if isinstance(item, Mapping) else None
    if reference is None:
        return item
    place = f"{place}.$ref"
    require(str(reference).startswith("#/"), place, "a reference within the document", reference)
    target: Any = document
    for step in unquote(reference.removeprefix("#/")).split("/"):
        key = step.replace("~1", "/").replace("~0", "~")
        require(isinstance(target, Mapping) and key in target, place, "a place in the document", reference)
        target = target[key]
    require(isinstance(target, Mapping) and "$ref" not in target, place, "a reference to a path item", reference)
    return target


def openapi_document(
    policy: DeprecationPolicy | Plan,
    *,
    operations: Sequence[Operation] | None = None,
    statuses: Statuses = Statuses(),  # noqa: B008 - frozen
    schema: "type[Schema] | None" = None,
    title: str = "Notifications",
    version: str = "1",
    server: str = "/",
) -> dict[str, Any]:
    """Return an OpenAPI 3.1 document of retired operations. Needs the extra ``openapi``.

    Each is ``deprecated``, with ``x-sunset``, ``x-successor`` and ``externalDocs`` where there are any, and with the
    headers of its responses. The two notification operations are described completely, as this library serves them
    under the middleware; of other operations only the retirement is known.

    :param policy: a policy, or a plan, whose live operations are left out.
    :param operations: the operations of a policy, by default the two of this library; not beside a plan.
    :param statuses: the statuses of the two operations, as given to the blueprint.
    :param schema: a marshmallow schema class that describes a record; by default a record is any object.
    :param title: the title of the document.
    :param version: the version of your API.
    :param server: the URL below which the operations are served.
    :raises ValueError: an argument is something else, ``operations`` are given beside a plan, two operations have the
        same name, or OpenAPI 3.1 has no such method, such as ``PURGE``.
    :raises ModuleNotFoundError: the extra is not installed.
    """
    retired = _retired(policy, operations)
    require(isinstance(statuses, Statuses), "statuses", "a Statuses", statuses)
    spec = _create_spec(title, version, server)
    spec.components.security_scheme("header", {"type": "http", "scheme": "bearer"})
    spec.components.security_scheme("query", {"type": "apiKey", "in": "query", "name": "sessionId"})
    spec.components.schema("Notification", **_describe_record(schema))
    spec.components.schema("Problem", component=_PROBLEM)
    for name, description in _HEADERS.items():
        spec.components.header(name, {"description": description, "schema": {"type": "string"}})
    for operation, own in retired:
        spec.path(operation.path, operations={operation.method.lower(): _describe(operation, own, statuses)})
    document: dict[str, Any] = spec.to_dict()
    return document


def _create_spec(title: str, version: str, server: str) -> Any:
    """Return an empty document of apispec, which reading a document does without."""
    for name, value in (("title", title), ("version", version)):
        require(isinstance(value, str), name, "a string", value)
    check_uri("server", server)
    if find_spec("apispec") is None:
        message = "openapi_document needs: pip install 'Flask-Notifications[openapi]'"
        raise ModuleNotFoundError(message, name="apispec")
    from apispec import APISpec  # noqa: PLC0415
    from apispec.ext.marshmallow import MarshmallowPlugin  # noqa: PLC0415

    plugin = MarshmallowPlugin(schema_name_resolver=_name_component)
    return APISpec(title, version, "3.1.0", plugins=[plugin], servers=[{"url": server}])


def _name_component(schema: Any) -> str:
    """Return the name of the component for a part of a record: as apispec does, but none of those that we have."""
    from apispec.ext.marshmallow import resolver  # noqa: PLC0415

    name = resolver(schema)
    return f"{name}Schema" if name in {"Notification", "Problem"} else name


def _describe_record(schema: "type[Schema] | None") -> dict[str, Any]:
    """Return the argument of apispec that describes a record."""
    from marshmallow import Schema  # noqa: PLC0415

    if schema is None:
        return {"component": {"type": "object"}}
    is_class = isinstance(schema, type) and issubclass(schema, Schema)
    require(is_class or isinstance(schema, Schema), "schema", "a marshmallow schema class", schema)
    return {"schema": schema}


def _retired(policy: DeprecationPolicy | Plan, operations: Sequence[Operation] | None) -> list[_Entry]:
    """Return the operations that are retired, each with its policy."""
    if isinstance(policy, DeprecationPolicy):
        listed = NOTIFICATION_OPERATIONS if operations is None else operations
        are_operations = isinstance(listed, Sequence) and all(isinstance(each, Operation) for each in listed)
        require(are_operations, "operations", "a sequence of Operation", listed)
        retired = [(operation, policy) for operation in listed]
    else:
        check_plan("policy", policy, "a DeprecationPolicy or a plan")
        require(operations is None, "operations", "left out beside a plan, which has its own", operations)
        retired = [(operation, own) for operation, own in policy.items() if own is not None]
    names = [operation.name for operation, _policy in retired]
    are_different = len(set(names)) == len(names)
    require(are_different, "the names of the operations", "different, because each is an operationId", names)
    return retired


def _describe(operation: Operation, policy: DeprecationPolicy, statuses: Statuses) -> dict[str, Any]:
    method = operation.method
    require(method.lower() in _METHODS, f"the method of {operation.name!r}", "one that OpenAPI 3.1 has", method)
    is_ours = is_notification_operation(operation)
    described: dict[str, Any] = {"operationId": operation.name, "deprecated": True}
    if is_ours:
        described["security"] = [{"header": []}, {"query": []}]
    described["responses"] = dict(_responses(operation, statuses) if is_ours else _retirement_responses(policy))
    if operation.successor is not None:
        described["description"] = f"Use {operation.successor} instead."
        described["x-successor"] = operation.successor
    if policy.sunset_at is not None:
        described["x-sunset"] = _write_date(policy.sunset_at)
    if policy.documentation is not None:
        described["externalDocs"] = {"url": policy.documentation}
    schema = _ACCOUNT_ID if is_ours else {"type": "string"}
    names = _PARAMETER.findall(operation.path)
    parameters = [{"name": name, "in": "path", "required": True, "schema": schema} for name in names]
    return described | ({"parameters": parameters} if parameters else {})


def _retirement_responses(policy: DeprecationPolicy) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the responses of any operation, as far as its retirement decides them."""
    headers = {name: {"$ref": f"#/components/headers/{name}"} for name in ("Deprecation", "Sunset", "Link")}
    yield "default", {"description": "As before its retirement.", "headers": headers}
    if policy.closes:
        problem = {"$ref": "#/components/schemas/Problem"}
        names = ["Deprecation", "Sunset", "Link", "Cache-Control", "Retry-After"]
        yield "410", _response(reason_phrase(410), "application/problem+json", problem, names)


def _responses(operation: Operation, statuses: Statuses) -> Iterator[tuple[str, dict[str, Any]]]:
    array = {"type": "array", "items": {"$ref": "#/components/schemas/Notification"}}
    owner = "account" if operation.name == ACCOUNT else "user"
    yield "200", _response(f"All notifications of the {owner}.", "application/json", array, _ANNOUNCED)
    by_status: dict[int, list[str]] = {}
    for code, status in (status_codes(statuses) | _REFUSALS).items():
        if code not in _OF_NO_OPERATION and (operation.name == ACCOUNT or code not in _OF_ACCOUNTS):
            by_status.setdefault(status, []).append(code)
    for status, codes in sorted(by_status.items()):
        problem = {"allOf": [{"$ref": "#/components/schemas/Problem"}, {"properties": {"code": {"enum": codes}}}]}
        headers = [*_ANNOUNCED, *(name for name, of in _HEADERS_OF.items() if not of.isdisjoint(codes))]
        yield str(status), _response(reason_phrase(status), "application/problem+json", problem, headers)


def _response(description: str, media_type: str, schema: dict[str, Any], headers: Sequence[str]) -> dict[str, Any]:
    return {
        "description": description,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in headers},
        "content": {media_type: {"schema": schema}},
    }


# The codes for refused sessions, and those that no operation or only one of them has.
_REFUSALS = {"invalid_request": 400, "invalid_token": 401}
_OF_NO_OPERATION = frozenset({"not_found", "method_not_allowed"})
_OF_ACCOUNTS = frozenset({"invalid_account_id", "account_not_found"})

_ANNOUNCED = ("Deprecation", "Sunset", "Link", "Cache-Control", "Vary")
_HEADERS = {
    "Deprecation": "The date of the deprecation: @ and seconds since 1970 (RFC 9745).",
    "Sunset": "The date from which the operation may be gone (RFC 8594).",
    "Link": "The successor, and pages for people (RFC 8288).",
    "Cache-Control": "No cache keeps the response (RFC 9111).",
    "Vary": "The response depends on the session (RFC 9110).",
    "WWW-Authenticate": "How to send a session (RFC 6750).",
    "Retry-After": "Seconds to wait (RFC 9110).",
}
_HEADERS_OF = {
    "WWW-Authenticate": frozenset({"session_missing", "session_invalid", *_REFUSALS}),
    "Retry-After": frozenset({"storage_unavailable", "brownout"}),
}
# Length in characters; the pattern leaves out those that are refused before the storage is called.
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
