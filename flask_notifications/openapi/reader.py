"""From an OpenAPI document to a plan; needs the standard library only."""

import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from typing import Any, NamedTuple

from flask_notifications.dates import parse_time, utc_now
from flask_notifications.plans.announcement import resolve_below
from flask_notifications.plans.operations import (
    ANY_METHOD,
    REST,
    Operation,
    Shape,
)
from flask_notifications.plans.overlaps import Overlaps, is_more_specific, share_method
from flask_notifications.plans.policy import DeprecationPolicy
from flask_notifications.validation import require
from flask_notifications.wording import escape

from .document import (
    Declaration,
    Document,
    check_mapping,
    check_string,
    collect,
    fail,
)

# A parameter. A sign allows slashes in its value: a plus before the name in RFC 6570
# section 3.2.3, a star there in Spring, a plus after the name in API gateways.
_SIGNED_PARAMETER = re.compile(r"\{([+*]?)([^{}+*]+)(\+?)\}")
# A segment of a path that certainly is a literal.
_LITERAL = re.compile(r"(?!\.\.?\Z)[\w.~-]+")
# The advice for a path that a plan cannot express.
_WAY_OUT = (
    "set x-path to a path of whole segments, such as /files/{name}, "
    "or of everything below it, such as /files/**"
)

_DATES = {"x-deprecated-at": "deprecated_at", "x-sunset": "sunset_at"}
# Keywords of a schema that exclude slashes, or might.
_RULES = frozenset({"format", "enum", "const", "pattern"})
_MAX_NAMES = 5


def plan_from_openapi(
    document: Mapping[str, Any], policy: DeprecationPolicy
) -> dict[Operation, DeprecationPolicy | None]:
    """Return a plan of the operations that an OpenAPI document declares as deprecated.

    Reads OpenAPI 3 and Swagger 2.0. An operation is deprecated if it has ``deprecated:
    true``, ``x-sunset`` or ``x-deprecated-at``. A live operation is in the plan if a
    deprecated one would take its requests, as ``/users/{id}`` takes those of
    ``/users/me``.

    The name of an operation is its ``operationId``, or else its method and path. Its
    path begins with the path of the server; with several servers, the plan contains the
    operation once for each of their paths. ``x-sunset``, ``x-deprecated-at`` and
    ``externalDocs.url`` of an operation replace those of the policy. A sunset before
    the deprecation moves the deprecation to the same date. ``x-successor`` is the
    successor, also below the path of the server unless it begins with ``../``.
    ``x-path`` replaces a path that a plan cannot express. A last segment ``**``,
    ``{name+}``, ``{+name}`` or ``{*name}``, or one whose parameter has ``format:
    path``, matches everything below the path before it.

    One warning lists paths whose last parameter may contain slashes, and another lists
    operations that close at once, because the policy enforces a sunset that has passed.

    :param document: a mapping, as parsers of JSON and YAML return it. Dates are at
        midnight UTC, or have a time and an offset.
    :param policy: the policy of each operation, as far as the document does not replace
        its parts.
    :raises ValueError: a deprecated operation cannot be read, or a live one whose
        requests a deprecated one may take. The message has one line per error, which
        begins with the place in the document.
    """
    require(
        isinstance(policy, DeprecationPolicy), "policy", "a DeprecationPolicy", policy
    )
    reader = _Reader(Document(document), policy)
    plan = reader.make_plan()
    if reader.errors:
        raise ValueError("\n".join(dict.fromkeys(reader.errors)))
    slashes = (
        "in a plan, a parameter is one segment; where your route takes slashes in the "
        "last one, as <path:rest> does, set x-path to a path that ends in /**"
    )
    _warn(slashes, reader.open_paths)
    _warn("sunsets have passed and are enforced, so these close at once", reader.closed)
    return plan


def _warn(message: str, names: list[str]) -> None:
    if names:
        shown = ", ".join(names[:_MAX_NAMES])
        more = len(names) - _MAX_NAMES
        end = f", and {more} more" if more > 0 else ""
        warnings.warn(f"{message}: {shown}{end}", stacklevel=3)


class _Entry(NamedTuple):
    """An operation of the document; a live one has no policy."""

    place: str
    operation: Operation
    policy: DeprecationPolicy | None


class _Reader:
    """Read the operations of a document one by one, and collect errors and warnings.

    ``open_paths`` and ``closed`` are the operations that the two warnings list.
    """

    def __init__(self, document: Document, policy: DeprecationPolicy) -> None:
        self.errors: list[str] = []
        self.open_paths: list[str] = []
        self.closed: list[str] = []
        self._document = document
        self._policy = policy
        self._now = utc_now()
        self._entries: list[_Entry] = []
        # Unreadable live operations, as operations that match at least their requests,
        # and their errors. They matter only if a deprecated one takes these requests.
        self._doubts: list[tuple[Operation, list[str]]] = []

    def make_plan(self) -> dict[Operation, DeprecationPolicy | None]:
        """Return the plan, which is valid only if ``errors`` is empty afterwards."""
        for declarations in self._document.list_paths(self.errors):
            for declaration in declarations:
                self._read(declaration)
        deprecated = Overlaps(
            entry.operation for entry in self._entries if entry.policy is not None
        )
        for operation, errors in self._doubts:
            if _is_taken(operation, deprecated):
                end = "it is live, but a deprecated operation may take its requests"
                self.errors += [f"{error} ({end})" for error in errors]
        names: set[str] = set()
        plan: dict[Operation, DeprecationPolicy | None] = {}
        for entry in self._select_entries(deprecated):
            operation = entry.operation
            name = operation.name
            if name in names:
                name = f"{operation.method} {operation.path}"
            while name in names:
                name += " (2)"
            names.add(name)
            plan[replace(operation, name=name)] = entry.policy
        return plan

    def _select_entries(self, deprecated: Overlaps) -> list[_Entry]:
        """Return the entries that belong in the plan, one for the same requests.

        Those are the deprecated operations, and live ones whose requests they take.
        Entries for the same requests must agree.
        """
        by_shape: dict[Shape, _Entry] = {}
        for entry in self._entries:
            if entry.policy is None and not _is_taken(entry.operation, deprecated):
                continue
            first = by_shape.setdefault(entry.operation.template.shape, entry)
            is_equal = entry.policy == first.policy
            if not is_equal or entry.operation.successor != first.operation.successor:
                self.errors.append(
                    f"{entry.place}: {first.place} is for the same requests, "
                    "but has other dates or another successor, "
                    "or one of them is live; set x-path in one"
                )
        return list(by_shape.values())

    def _read(self, declaration: Declaration) -> None:
        content = declaration.content
        errors: list[str] = []
        flag = content.get("deprecated")
        is_dated = any(content.get(key) is not None for key in _DATES)
        policy = None
        if is_dated or (flag is not None and flag is not False):
            policy = self._read_policy(declaration, errors)
            with collect(errors):
                if not isinstance(flag, bool | None):
                    fail(f"{declaration.place}.deprecated", "true or false", flag)
        # To check the rest of an operation whose servers cannot be read, assume those
        # of the document, or the root.
        bases: tuple[str, ...] = ("",)
        with suppress(ValueError):
            bases = self._document.root_paths
        with collect(errors):
            bases = self._document.server_paths(declaration)
        self._document.charge(declaration, len(bases))
        operations = self._read_operations(
            declaration, bases, errors, is_live=policy is None
        )
        if not errors:
            for operation in operations:
                self._entries.append(_Entry(declaration.place, operation, policy))
        elif policy is not None:
            self.errors += errors
        else:
            self._doubt(declaration, bases, errors)

    def _doubt(
        self, declaration: Declaration, bases: tuple[str, ...], errors: list[str]
    ) -> None:
        """Keep the errors of a live operation until all deprecated ones are known."""
        for base in bases:
            path = _widen(f"{base}/{declaration.path.removeprefix('/')}")
            with suppress(ValueError):  # the method is invalid, so no request has it
                operation = Operation("?", declaration.method, path)
                self._doubts.append((operation, errors))

    def _read_policy(
        self, declaration: Declaration, errors: list[str]
    ) -> DeprecationPolicy:
        content, place = declaration.content, declaration.place
        policy = self._policy
        with collect(errors):
            pages = check_mapping(f"{place}.externalDocs", content.get("externalDocs"))
            if pages.get("url") not in (None, ""):
                url = check_string(f"{place}.externalDocs.url", pages["url"])
                with collect(errors, f"{place}.externalDocs.url"):
                    policy = replace(policy, documentation=url)
        dates = {}
        for key, name in _DATES.items():
            if content.get(key) is not None:
                with collect(errors, f"{place}.{key}"):
                    dates[name] = _read_date(content[key])
        if dates:
            sunset_at = dates.get("sunset_at", policy.sunset_at)
            deprecated_at = dates.get("deprecated_at", policy.deprecated_at)
            if sunset_at is not None:
                deprecated_at = min(deprecated_at, sunset_at)
                if policy.enforce_sunset and sunset_at <= self._now:
                    self.closed.append(f"{declaration.method} {declaration.path}")
            with collect(errors, place):
                policy = replace(
                    policy, deprecated_at=deprecated_at, sunset_at=sunset_at
                )
        return policy

    def _read_operations(
        self,
        declaration: Declaration,
        bases: tuple[str, ...],
        errors: list[str],
        *,
        is_live: bool,
    ) -> list[Operation]:
        """Return the operations of a declaration, one for each path of its servers."""
        content, place = declaration.content, declaration.place
        if declaration.is_misnamed:
            errors.append(
                f"{place}: methods are in lower case, "
                "and others in additionalOperations"
            )
        template, successor, name = "/", None, None
        with collect(errors):
            if content.get("operationId"):
                name = check_string(f"{place}.operationId", content["operationId"])
        with collect(errors):
            template, names = self._read_template(declaration, is_live=is_live)
            if content.get("x-successor") is not None and not is_live:
                text = check_string(f"{place}.x-successor", content["x-successor"])
                successor = _mark_rest(text, names)
        operations = []
        for base in bases:
            path = f"{base}{template}"
            below = None if successor is None else _resolve(successor, base)
            unique_name = name or f"{declaration.method} {escape(path)}"
            try:
                operation = Operation(unique_name, declaration.method, path, below)
            except ValueError:
                errors += _explain(declaration, unique_name, path, below)
                break
            operations.append(operation)
        return operations

    def _read_template(
        self, declaration: Declaration, *, is_live: bool
    ) -> tuple[str, set[str]]:
        """Return the template of a path, and the names of parameters with slashes."""
        place, content = declaration.place, declaration.content
        path = check_string(f"{place}.x-path", content.get("x-path", declaration.path))
        if not path.startswith("/"):
            expected = "an operation of a path that begins with '/'"
            fail(place, expected, path, _WAY_OUT)
        schemas: dict[str, Mapping[Any, Any]] = {}
        if "{" in path:
            schemas = self._document.path_schemas(declaration)
        names = {key for key in schemas if schemas[key].get("format") == "path"}
        for before, name, after in _SIGNED_PARAMETER.findall(path):
            if before or after:
                names.add(name)
        template = _mark_rest(path, names)
        is_at_end = template.endswith(f"/{REST}") and template.count(REST) == 1
        if REST in template and not is_at_end:
            expected = "an operation whose path has slashes in its last segment only"
            fail(place, expected, path, _WAY_OUT)
        last = template.removesuffix("/").rpartition("/")[2]
        is_open = last.startswith("{") and _is_open(schemas.get(last[1:-1], {}))
        if is_open and not is_live and "x-path" not in content:
            self.open_paths.append(path)
        return template, names


def _resolve(successor: str, base: str) -> str:
    """Return a successor below the path of a server, or above that for each ``../``."""
    if not successor.startswith("../"):
        return resolve_below(successor, base)
    while successor.startswith("../"):
        base = base.rpartition("/")[0]
        successor = successor.removeprefix("../")
    return f"{base}/{successor}"


def _is_open(schema: Mapping[Any, Any]) -> bool:
    """Return whether the schema of a parameter allows any string, with slashes too."""
    kind = schema.get("type", "string")
    is_string = isinstance(kind, str | list) and "string" in kind
    return is_string and _RULES.isdisjoint(schema)


def _mark_rest(template: str, names: set[str]) -> str:
    """Return a template with ``**`` in place of parameters with slashes."""

    def mark(match: re.Match[str]) -> str:
        return REST if match[2] in names else match[0]

    return _SIGNED_PARAMETER.sub(mark, template)


def _read_date(value: Any) -> datetime:
    if isinstance(value, date):  # as parsers of YAML return it
        return parse_time(value.isoformat())
    if not isinstance(value, str):
        fail("it", "a date, such as 2027-07-01 or 2027-07-01T09:00:00Z", value)
    return parse_time(value)


def _explain(
    declaration: Declaration, name: str, path: str, successor: str | None
) -> list[str]:
    """Return every error about the arguments of an operation, with its place.

    ``Operation`` raises only the first one, so try the arguments one by one.
    """
    place = declaration.place
    errors: list[str] = []
    with collect(errors, f"{place}.operationId"):
        Operation(name, ANY_METHOD, "/")
    with collect(errors, place):
        Operation("?", declaration.method, "/")
    try:
        Operation("?", ANY_METHOD, path)
    except ValueError as error:
        errors.append(f"{place}: {error}; {_WAY_OUT}")
    else:
        with collect(errors, f"{place}.x-successor"):
            Operation("?", ANY_METHOD, path, successor)
    return errors


def _widen(path: str) -> str:
    """Return a template that matches at least the requests of an unreadable path.

    Replace each segment that may not be a literal with a parameter, and drop a query.
    """
    path = re.split(r"[?#]", path)[0]
    stem = path.removesuffix("/")
    slash = path.removeprefix(stem)
    segments = stem.split("/")
    for index, segment in enumerate(segments):
        if index and not _LITERAL.fullmatch(segment):
            segments[index] = f"{{{index}}}"
    return "/".join(segments) + slash


def _is_taken(operation: Operation, deprecated: Overlaps) -> bool:
    """Return whether a deprecated operation would take a request of a live one.

    More specific deprecated operations are meant to, so they do not count.
    """
    shape = operation.template.shape
    for rival in deprecated.find(shape):
        other = rival.template.shape
        if share_method(shape, other) and not is_more_specific(other, shape):
            return True
    return False
