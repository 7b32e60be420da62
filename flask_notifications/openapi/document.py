"""The operations of an OpenAPI document, and the paths of its servers.

Reads OpenAPI 3 and Swagger 2.0, but only the parts that a plan needs. Every error is a
``ValueError`` whose message begins with the place in the document.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

PARAMETER = re.compile(r"\{([^{}]+)\}")

# The fields of a Path Item that are operations (OpenAPI 3.2 section 4.9), and those
# that are not.
_METHODS = frozenset(
    {"get", "put", "post", "delete", "options", "head", "patch", "trace", "query"}
)
_OTHER_FIELDS = frozenset(
    {"$ref", "summary", "description", "servers", "parameters", "additionalOperations"}
)
# Strings of an operation that are copied for each path at which it is served.
_COPIED = ("operationId", "x-path", "x-successor")

_MAX_REFERENCES = 9
_MAX_SERVER = 2_000  # characters, with the values of variables
_MAX_SHOWN = 200  # characters
_LEAST_ALLOWANCE = 5_000  # operations


class RepeatedKey(dict[Any, Any]):
    """A mapping in which the key ``key`` occurred twice, so that a value is lost."""

    key: str


def fail(place: str, expected: str, value: object, way_out: str = "") -> NoReturn:
    """Raise ``ValueError``: "place must be expected, not value; way out".

    Collections are not shown, because with aliases of YAML they may not fit into
    memory.
    """
    if isinstance(value, RepeatedKey):
        shown = f"one with the key {value.key!r} twice"
    elif isinstance(value, Mapping):
        shown = "a mapping"
    elif isinstance(value, list | tuple | set):
        shown = "a list"
    else:
        shown = repr(value)[:_MAX_SHOWN]
    end = f"; {way_out}" if way_out else ""
    message = f"{place} must be {expected}, not {shown}{end}"
    raise ValueError(message)


def check_mapping(place: str, value: Any) -> Mapping[Any, Any]:
    """Check that a value is a mapping, and return it; an empty one for null."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or isinstance(value, RepeatedKey):
        fail(place, "a mapping", value)
    return value


def check_string(place: str, value: Any) -> str:
    """Check that a value is a string, and return it."""
    if not isinstance(value, str):
        fail(place, "a string", value)
    return value


def _check_list(place: str, value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        fail(place, "a list", value)
    return value


@contextmanager
def collect(errors: list[str], place: str = "") -> Iterator[None]:
    """Append the message of a ``ValueError`` to a list, with its place if any."""
    try:
        yield
    except ValueError as error:
        errors.append(f"{place}: {error}" if place else str(error))


@dataclass(frozen=True, slots=True)
class Declaration:
    """An operation as a document declares it.

    ``place`` is its place in the document, ``key`` the name of its field, and ``item``
    the path item that contains it. ``is_additional`` is whether it is one of the
    ``additionalOperations``. References are followed.
    """

    place: str
    path: str
    key: str
    content: Mapping[Any, Any]
    item: Mapping[Any, Any]
    is_additional: bool = False

    @property
    def method(self) -> str:
        """The HTTP method; ``additionalOperations`` have it as it is sent."""
        return self.key if self.is_additional else self.key.upper()

    @property
    def is_misnamed(self) -> bool:
        """Whether OpenAPI does not define the field, such as ``GET`` or ``purge``."""
        return not self.is_additional and self.key not in _METHODS


class Document:
    """The operations of an OpenAPI document, each with the paths of its servers.

    :param content: the document as a mapping.
    :raises ValueError: it is not a document of OpenAPI 3 or Swagger 2.0.
    """

    def __init__(self, content: Any) -> None:
        if content is None:
            fail("the document", "a mapping", content)
        self.content: Mapping[Any, Any] = check_mapping("the document", content)
        self.is_swagger: bool = "openapi" not in self.content
        key, prefix = ("swagger", "2.0") if self.is_swagger else ("openapi", "3.")
        version = self.content.get(key)
        # In YAML, a version without quotation marks is a float.
        is_version = isinstance(version, str | float)
        if not is_version or not str(version).startswith(prefix):
            fail("the version", "openapi: 3.x or swagger: 2.0", version)
        self._charged = 0
        self._allowance = _LEAST_ALLOWANCE

    def charge(self, declaration: Declaration, copies: int) -> None:
        """Refuse a small document that would fill the memory.

        Servers multiply the operations of a document, and so do references and aliases.
        A copy with long strings or many parameters counts as several.

        :param copies: how many copies of the operation are about to be made.
        :raises ValueError: there are more copies than the document has members.
        """
        strings = [declaration.path, *map(declaration.content.get, _COPIED)]
        size = sum(len(string) for string in strings if isinstance(string, str))
        length = 0
        for holder in (declaration.content, declaration.item):
            parameters = holder.get("parameters")
            if isinstance(parameters, list):
                length += len(parameters)
        self._charged += copies * (1 + size // 200 + length // 5)
        # Count the members only of a document that exceeds the least allowance.
        if self._charged > self._allowance:
            self._allowance = _LEAST_ALLOWANCE + _count_members(self.content)
        if self._charged > self._allowance:
            message = (
                "paths: servers, references or aliases "
                "multiply the operations of this document too often"
            )
            raise ValueError(message)

    def list_paths(self, errors: list[str]) -> Iterator[list[Declaration]]:
        """Yield the operations of each path; append the errors of unreadable ones."""
        paths = self.content.get("paths")
        with collect(errors):
            check_mapping("paths", paths)
        if not isinstance(paths, Mapping):
            return
        for path, value in paths.items():
            # Keys that begin with x- are extensions (OpenAPI 3.1 section 4.8.8).
            if isinstance(path, str) and path.startswith("x-"):
                continue
            declarations: list[Declaration] = []
            with collect(errors):
                check_string(f"the path {path!r}", path)
                item = self.follow(f"paths.{path}", value)
                declarations = self._list_operations(path, item, errors)
            for declaration in declarations:
                self.charge(declaration, 1)
            yield declarations

    def _list_operations(
        self, path: str, item: Mapping[Any, Any], errors: list[str]
    ) -> list[Declaration]:
        declarations = []
        for key, value in item.items():
            is_other = not isinstance(key, str) or key in _OTHER_FIELDS
            if is_other or key.startswith("x-"):
                continue
            # A name that OpenAPI lacks may be a method in upper case.
            if key in _METHODS or isinstance(value, Mapping):
                place = f"paths.{path}.{key}"
                with collect(errors):
                    content = self.follow(place, value)
                    declarations.append(Declaration(place, path, key, content, item))
        place = f"paths.{path}.additionalOperations"
        more = check_mapping(place, item.get("additionalOperations"))
        for key, value in more.items():
            with collect(errors):
                check_string(f"the method {key!r} of {place}", key)
                content = self.follow(f"{place}.{key}", value)
                declarations.append(
                    Declaration(f"{place}.{key}", path, key, content, item, True)
                )
        return declarations

    def follow(self, place: str, value: Any) -> Mapping[Any, Any]:
        """Return a mapping; for a reference, its target with the members beside it."""
        mapping = check_mapping(place, value)
        count = 0
        while "$ref" in mapping:
            count += 1
            if count > _MAX_REFERENCES:
                fail(f"{place}.$ref", "a reference that ends soon", mapping["$ref"])
            target = self._resolve(f"{place}.$ref", mapping["$ref"])
            beside = {key: value for key, value in mapping.items() if key != "$ref"}
            mapping = {**target, **beside} if beside else target
        return mapping

    def _resolve(self, place: str, reference: Any) -> Mapping[Any, Any]:
        """Return the mapping at a reference in the document (RFC 6901 section 6)."""
        if not isinstance(reference, str) or not reference.startswith("#/"):
            way_out = "bundle all files to one document first"
            fail(place, "a reference within the document", reference, way_out)
        target: Any = self.content
        try:
            for step in unquote(reference.removeprefix("#/")).split("/"):
                key = step.replace("~1", "/").replace("~0", "~")
                target = target[int(key) if isinstance(target, list) else key]
        except (LookupError, TypeError, ValueError):
            fail(place, "a place in the document", reference)
        return check_mapping(place, target)

    def server_paths(self, declaration: Declaration) -> tuple[str, ...]:
        """Return the distinct paths of an operation's servers, without a final slash.

        The innermost ``servers`` apply: of the operation, its path, or the document.
        """
        holders = {
            declaration.place: declaration.content,
            f"paths.{declaration.path}": declaration.item,
        }
        for place, holder in holders.items():
            if holder.get("servers") and not self.is_swagger:
                return _read_servers(f"{place}.servers", holder["servers"])
        return self.root_paths

    @cached_property
    def root_paths(self) -> tuple[str, ...]:
        """The distinct paths of the document's servers, or its ``basePath``."""
        if not self.is_swagger:
            return _read_servers("servers", self.content.get("servers"))
        base = self.content.get("basePath") or ""
        if not isinstance(base, str) or (base and not base.startswith("/")):
            fail("basePath", "a path that begins with '/'", base)
        return (base.rstrip("/"),)

    def path_schemas(self, declaration: Declaration) -> dict[str, Mapping[Any, Any]]:
        """Return the schemas of the path parameters by their name.

        :raises ValueError: a parameter of the template has no schema, and perhaps an
            unreadable declaration is for it.
        """
        errors: list[str] = []
        schemas: dict[str, Mapping[Any, Any]] = {}
        for place, holder in (
            (f"paths.{declaration.path}.parameters", declaration.item),
            (f"{declaration.place}.parameters", declaration.content),
        ):
            with collect(errors):
                parameters = _check_list(place, holder.get("parameters"))
                for index, value in enumerate(parameters):
                    with collect(errors):
                        schemas |= self._path_schema(f"{place}.{index}", value)
        if errors and not schemas.keys() >= set(PARAMETER.findall(declaration.path)):
            raise ValueError(errors[0])
        return schemas

    def _path_schema(self, place: str, value: Any) -> dict[str, Mapping[Any, Any]]:
        """Return the schema of a path parameter by its name; empty for others."""
        parameter = self.follow(place, value)
        name = parameter.get("name")
        if parameter.get("in") != "path" or not isinstance(name, str):
            return {}
        # In Swagger 2.0, a parameter is its own schema.
        schema = parameter.get("schema", parameter)
        return {name: self.follow(f"{place}.schema", schema)}


def _read_servers(place: str, servers: Any) -> tuple[str, ...]:
    paths: dict[str, None] = {}
    for index, server in enumerate(_check_list(place, servers)):
        paths[_server_path(f"{place}.{index}", server)] = None
    return tuple(paths) or ("",)


def _server_path(place: str, server: Any) -> str:
    """Return the path of a server's URL, with the defaults of its variables.

    See OpenAPI 3.1 section 4.8.6.
    """
    server = check_mapping(place, server)
    place = f"{place}.url"
    template = check_string(place, server.get("url"))
    variables = check_mapping(f"{place}: the variables", server.get("variables"))
    url = ""
    for index, part in enumerate(PARAMETER.split(template)):
        if index % 2:  # split() returns literals and names in turn
            part = _default_of(place, part, variables)  # noqa: PLW2901
        url += part
        if len(url) > _MAX_SERVER:
            fail(place, f"at most {_MAX_SERVER:,} characters", len(url))
    try:
        path = urlsplit(url).path.rstrip("/")
    except ValueError:
        fail(place, "a URL", url)
    if not set("{}").isdisjoint(path):
        fail(place, "a URL whose variables have defaults", template)
    if path and not path.startswith("/"):
        fail(place, "absolute, or a path that begins with '/'", template)
    return path


def _default_of(place: str, name: str, variables: Mapping[Any, Any]) -> str:
    """Return the default of a variable, or the variable itself if it has none.

    Variables in a host need no default, because only the path is used.
    """
    default = check_mapping(f"{place}: {name}", variables.get(name)).get("default")
    if default is None:
        return f"{{{name}}}"
    if not isinstance(default, str | int) or isinstance(default, bool):
        fail(f"{place}: {name}", "a variable whose default is a string", default)
    return str(default)


def _count_members(content: Mapping[Any, Any]) -> int:
    """Return the number of members of all collections; shared ones count once."""
    count = 0
    seen = set()
    waiting: list[Any] = [content]
    while waiting:
        collection = waiting.pop()
        if id(collection) in seen:
            continue
        seen.add(id(collection))
        count += len(collection)
        if isinstance(collection, Mapping):
            collection = collection.values()
        waiting += [
            member
            for member in collection
            if isinstance(member, Mapping | list | tuple)
        ]
    return count
