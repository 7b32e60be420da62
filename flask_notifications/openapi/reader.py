"""An OpenAPI document to a plan; needs the standard library only."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from typing import Any
from urllib.parse import unquote, urlsplit

from flask_notifications.dates import parse_time
from flask_notifications.plans.announcement import resolve_below
from flask_notifications.plans.operations import REST, Operation, template_shape
from flask_notifications.plans.overlaps import Group, Overlaps
from flask_notifications.plans.plan import table_of
from flask_notifications.plans.policy import DeprecationPolicy
from flask_notifications.validation import require

PARAMETER = re.compile(r"\{([^{}]+)\}")
# A segment that is plainly a literal, which is neither empty nor dots.
_LITERAL = re.compile(r"(?!\.\.?\Z)[\w.~-]+", re.ASCII)
# A parameter, with a plus sign if its values may have slashes: first in RFC 6570
# section 3.2.3, last for gateways.
_PLUS_PARAMETER = re.compile(r"\{(\+?)([^{}+]+)(\+?)\}")

# The fields of a Path Item that are operations in OpenAPI 3.1 and in 3.2, and all of
# them (3.2 section 4.9).
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_READABLE = (*METHODS, "query")
# The keys of an operation in a plan file that are written with x- before them.
EXTENSIONS = ("successor", "query", "headers", "rewrite_path", "unify_session")
# The keys of a live operation that a plan needs.
_OF_LIVE = ("operationId", "x-name", "x-method", "x-query", "x-headers")
_FIELDS = frozenset(
    {
        *_READABLE,
        "additionalOperations",
        "summary",
        "description",
        "servers",
        "parameters",
    }
)
# Characters, with the variables.
_MAX_SERVER = 8_000


def plan_from_openapi(
    document: Mapping[str, Any], policy: DeprecationPolicy
) -> dict[Operation, DeprecationPolicy | None]:
    """Return a plan of the operations that an OpenAPI 3 document declares with
    ``deprecated: true``, in its order.

    Another one is in it as a live operation if these would take its requests, as
    ``/users/{id}`` takes those of ``/users/me``; a path that a plan cannot express,
    such as ``/users/{id}.json``, is an error there.

    The name of an operation is its ``operationId``, or method and path. The path begins
    with that of the server (OpenAPI 3.1 section 4.8.5); an operation of several servers
    is there once for each of their paths. Where an earlier operation has the name
    already, method and path follow it. In an operation, ``x-sunset`` replaces the
    sunset, ``externalDocs.url`` the documentation, ``x-sunset-documentation`` the page
    about sunsets, and ``x-successor`` is the successor, below the path of the server
    too. ``x-query`` and ``x-headers`` are its conditions, ``x-method: "*"`` makes it an
    operation of any method, and ``x-name``, ``x-path``, ``x-rewrite-path`` and
    ``x-unify-session`` are what an ``Operation`` has. A last segment ``**``,
    ``{name+}`` or ``{+name}``, or a parameter there with ``format: path``, is
    everything below the path before it. References within the document are followed.
    Needs the standard library only.

    :param document: a mapping, as parsers of JSON and YAML return it. An ``x-sunset``
        is a date, which begins at midnight UTC, or a date and time with an offset.
    :param policy: applies where the document says nothing else.
    :raises ValueError: something cannot be read; the message has the place in the
        document.
    """
    version = _check_mapping("document", document).get("openapi")
    require(
        isinstance(policy, DeprecationPolicy), "policy", "a DeprecationPolicy", policy
    )
    require(
        isinstance(version, str) and version.startswith("3."),
        "openapi",
        "a version 3",
        version,
    )
    paths = _check_mapping("paths", document.get("paths", {}))
    # Keys that begin with x- are extensions, and not paths (OpenAPI 3.1 section 4.8.8).
    items = [(path, item) for path, item in paths.items() if not path.startswith("x-")]
    unreadable: dict[Operation, ValueError] = {}
    entries = [
        entry
        for each in items
        for entry in _path_operations(document, *each, policy, unreadable)
    ]
    retired = Overlaps(operation for operation, own in entries if own is not None)
    for operation, error in unreadable.items():
        if is_taken(operation, retired):
            raise error
    plan: dict[Operation, DeprecationPolicy | None] = {}
    names: set[str] = set()
    for operation, own in entries:
        if own is not None or is_taken(operation, retired):
            name = operation.name
            while name in names:
                name = f"{name} {operation.method} {operation.path}"
            names.add(name)
            plan[replace(operation, name=name)] = own
    if plan:
        with _located("paths"):
            table_of(plan)
    return plan


_Entry = tuple[Operation, DeprecationPolicy | None]


def _check_mapping(place: str, value: Any) -> Mapping[str, Any]:
    require(isinstance(value, Mapping), place, "a mapping", value)
    others = [key for key in value if not isinstance(key, str)]
    require(not others, place, "a mapping whose keys are strings", others)
    mapping: Mapping[str, Any] = value
    return mapping


def _check_list(place: str, value: Any) -> Sequence[Any]:
    require(value is None or isinstance(value, list | tuple), place, "a list", value)
    return value or ()


def is_taken(operation: Operation, retired: Overlaps) -> bool:
    """Return whether retired operations, but for more specific ones, would take some
    request of a live operation.
    """
    shape = template_shape(operation)
    group = Group.of(shape)
    others = [
        each for each in retired.groups if each.covers(group) or not group.covers(each)
    ]
    return any(retired.find(shape, filter(group.has_method_of, others)))


def _path_operations(
    document: Mapping[str, Any],
    path: str,
    item: Any,
    policy: DeprecationPolicy,
    unreadable: dict[Operation, ValueError],
) -> Iterator[_Entry]:
    """Yield the operations of a path, once for each path of their servers; a live one
    has no policy.

    ``unreadable`` gets the errors of live ones that no plan can express, by operations
    that take their requests too.
    """
    require(path.startswith("/"), "paths", "paths that begin with '/'", path)
    item = _check_mapping(f"paths.{path}", _follow(document, f"paths.{path}", item))
    unknown = [key for key in item if key not in _FIELDS and not key.startswith("x-")]
    require(
        not unknown,
        f"paths.{path}",
        "a path item, whose methods are in lower case",
        unknown,
    )
    more = _check_mapping(
        f"paths.{path}.additionalOperations", item.get("additionalOperations", {})
    )
    declared = [
        (f"paths.{path}.{method}", method, item[method])
        for method in _READABLE
        if method in item
    ]
    declared += [
        (f"paths.{path}.additionalOperations.{method}", method, each)
        for method, each in more.items()
    ]
    for place, method, each in declared:
        operation = _check_mapping(place, _follow(document, place, each))
        deprecated = operation.get("deprecated", False)
        require(
            isinstance(deprecated, bool),
            f"{place}.deprecated",
            "true or false",
            deprecated,
        )
        bases = _list_bases(place, operation, item, document)
        try:
            greedy = _list_greedy(
                document,
                {f"paths.{path}.parameters": item, f"{place}.parameters": operation},
            )
            spelled = operation.get("x-path", path)
            require(
                isinstance(spelled, str),
                f"{place}.x-path",
                "a path as a string",
                spelled,
            )
            template, successor = _read_rest(
                place, spelled, operation.get("x-successor"), greedy
            )
            for base in bases:
                below = (
                    resolve_below(successor, base)
                    if isinstance(successor, str)
                    else successor
                )
                own = {**operation, "x-successor": below}
                if not deprecated:
                    own = {
                        key: value
                        for key, value in operation.items()
                        if key in _OF_LIVE
                    }
                read, own_policy = _read_operation(
                    place, method, f"{base}{template}", own, policy
                )
                yield read, own_policy if deprecated else None
        except ValueError as error:
            if deprecated:
                raise
            with _located(place):
                unreadable |= {
                    Operation(method, method, _widen(f"{base}{path}")): error
                    for base in bases
                }


def _widen(path: str) -> str:
    """Return a path with a parameter in place of each segment that may be none of a
    template.
    """
    first, *segments = path.removesuffix("/").split("/")
    wide = [
        each if _LITERAL.fullmatch(each) else f"{{{place}}}"
        for place, each in enumerate(segments)
    ]
    return "/".join([first, *wide]) + "/" * path.endswith("/")


def _list_bases(place: str, *holders: Mapping[str, Any]) -> Iterable[str]:
    """Return the different paths of the servers of the first holder that has any."""
    lists = (_check_list(f"{place}: servers", each.get("servers")) for each in holders)
    return dict.fromkeys(
        _server_path(place, server)
        for server in next(filter(None, lists), [{"url": "/"}])
    )


def _list_greedy(
    document: Mapping[str, Any], items: Mapping[str, Mapping[str, Any]]
) -> set[str]:
    """Return the names of the parameters in the path that are declared to have slashes,
    in items by their place.
    """
    schemas = {}
    for place, item in items.items():
        for each in _check_list(place, item.get("parameters")):
            parameter = _check_mapping(place, _follow(document, place, each))
            if parameter.get("in") == "path":
                schemas[str(parameter.get("name"))] = _follow(
                    document, f"{place}.schema", parameter.get("schema")
                )
    return {
        name
        for name, schema in schemas.items()
        if isinstance(schema, Mapping) and schema.get("format") == "path"
    }


def _read_rest(
    place: str, path: str, successor: Any, greedy: set[str]
) -> tuple[str, Any]:
    """Return a path and its successor, in which the rest of a path is ``**``, if the
    path ends in such a parameter.
    """
    found = _PLUS_PARAMETER.findall(path)
    names = {name for before, name, after in found if before or after or name in greedy}

    def mark(template: str) -> str:
        return _PLUS_PARAMETER.sub(
            lambda each: REST if each[2] in names else each[0], template
        )

    marked = mark(path)
    is_last = marked.endswith(f"/{REST}") and marked.count(REST) == 1
    require(
        is_last or not names,
        place,
        "a path in which nothing but its last segment has slashes",
        path,
    )
    return marked, mark(successor) if isinstance(successor, str) else successor


def _read_operation(
    place: str,
    method: str,
    path: str,
    declared: Mapping[str, Any],
    policy: DeprecationPolicy,
) -> tuple[Operation, DeprecationPolicy]:
    external = _check_mapping(f"{place}.externalDocs", declared.get("externalDocs", {}))
    pages = {
        "documentation": external.get("url"),
        "sunset_documentation": declared.get("x-sunset-documentation"),
    }
    own = {key: value for key, value in pages.items() if value is not None}
    sunset = declared.get("x-sunset")
    if sunset is not None:
        with _located(f"{place}.x-sunset"):  # YAML parsers return dates
            own["sunset_at"] = parse_time(
                sunset.isoformat() if isinstance(sunset, date) else str(sunset)
            )
    name = declared.get(
        "x-name", declared.get("operationId", f"{method.upper()} {path}")
    )
    extensions = {key: declared.get(f"x-{key.replace('_', '-')}") for key in EXTENSIONS}
    given = {key: value for key, value in extensions.items() if value is not None}
    with _located(place):
        return Operation(
            name, declared.get("x-method", method), path, **given
        ), replace(policy, **own)


def _server_path(place: str, server: Any) -> str:
    """Return the path of a server's URL, its variables at their defaults (OpenAPI 3.1
    section 4.8.6).
    """
    require(
        isinstance(server, Mapping) and isinstance(server.get("url"), str),
        f"{place}: servers",
        "URLs",
        server,
    )
    url: str = server["url"]
    variables = _check_mapping(
        f"{place}: the variables of a server", server.get("variables", {})
    )

    def default_of(name: str) -> str:
        variable = variables.get(name)
        default = variable.get("default") if isinstance(variable, Mapping) else None
        is_plain = (
            isinstance(default, str | int)
            and not isinstance(default, bool)
            and set("{}").isdisjoint(str(default))
        )
        expected = "a mapping with a default, which has no braces"
        require(
            is_plain, f"{place}: the variable {name!r} of a server", expected, variable
        )
        return str(default)

    size = len(url) + sum(len(default_of(name)) for name in PARAMETER.findall(url))
    require(
        size <= _MAX_SERVER,
        f"{place}: the path of a server",
        f"at most {_MAX_SERVER:,} characters",
        size,
    )
    url = PARAMETER.sub(lambda found: default_of(found[1]), url)
    with _located(f"{place}: servers must be URLs"):
        return urlsplit(url).path.rstrip("/")


@contextmanager
def _located(place: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        message = f"{place}: {error}"
        raise ValueError(message) from error


def _follow(document: Mapping[str, Any], place: str, item: Any, most: int = 9) -> Any:
    """Follow a few references within the document (RFC 6901 section 6); return any
    other value unchanged.
    """
    reference = item.get("$ref") if isinstance(item, Mapping) else None
    if reference is None:
        return item
    place = f"{place}.$ref"
    require(
        str(reference).startswith("#/"),
        place,
        "a reference within the document",
        reference,
    )
    require(most, place, "a reference that ends soon", reference)
    target: Any = document
    for step in unquote(reference.removeprefix("#/")).split("/"):
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list):
            target = {str(index): each for index, each in enumerate(target)}
        require(
            isinstance(target, Mapping) and key in target,
            place,
            "a place in the document",
            reference,
        )
        target = target[key]
    target = _follow(document, place, target, most - 1)
    require(isinstance(target, Mapping), place, "a reference to a mapping", reference)
    return {**target, **{key: value for key, value in item.items() if key != "$ref"}}
