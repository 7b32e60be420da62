"""The table of operations, and how legacy clients spell a path.

An operation is a method and an OpenAPI path template. Knows nothing of dates, sessions or answers.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from posixpath import commonpath
from urllib.parse import unquote_to_bytes

from .fields import TOKEN, check_uri, expect

CURRENT_USER = "current_user"
ACCOUNT = "account"

_METHOD = re.compile(TOKEN)
_PARAMETER = re.compile(r"\{([^{}/]+)\}")
_NOT_IN_A_PATH = re.compile(r"[\x00-\x20\x7f?#]")
_NEVER_A_SEGMENT = frozenset({"", ".", ".."})
_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


@dataclass(frozen=True, slots=True)
class Operation:
    """Name one operation of an HTTP API: a method and an OpenAPI path template.

    ``name`` identifies it in what observers are told. ``method`` is kept in upper case. ``path`` begins with ``/``;
    a segment in braces is a parameter, every other segment a literal, percent-encoded where it must be.
    ``successor`` is the URI reference of what takes its place (RFC 5829 section 3.3), or ``None``.

    Raises ``ValueError`` naming the attribute: an empty name or method, a path that does not begin with ``/``, has a
    space, a control character, ``?`` or ``#``, an unbalanced brace, a parameter that is not a whole segment, or a
    segment that no request can match (empty, ``.``, ``..``); a successor that cannot stand in a header.
    """

    name: str
    method: str
    path: str
    successor: str | None = None

    def __post_init__(self) -> None:
        expect(isinstance(self.name, str) and self.name, "name", "a text that is not empty", self.name)
        expect(isinstance(self.method, str) and _METHOD.fullmatch(self.method), "method", "an HTTP method", self.method)
        object.__setattr__(self, "method", self.method.upper())
        _Template(self)
        if self.successor is not None:
            check_uri("successor", self.successor)

    def __hash__(self) -> int:
        return hash(self.path)  # a text knows its own; few operations have one path


@dataclass(frozen=True, slots=True)
class Claim:
    """A request that belongs to an operation.

    ``path`` is the request's path in the template's own spelling; ``parameters`` are the segments that stand for
    the template's parameters, as they came. Both are WSGI text: percent-decoded bytes, read as latin-1.
    """

    operation: Operation
    path: str
    parameters: tuple[str, ...] = ()


# A template's folded literal segments, with ``None`` for each parameter; and the places of the parameters.
_Shape = tuple[str | None, ...]
_Mask = tuple[int, ...]


class _Template:
    """A path template, taken apart: a literal segment is its WSGI text, a parameter is ``None``."""

    __slots__ = ("operation", "segments", "trailing_slash")

    def __init__(self, operation: Operation) -> None:
        path = operation.path
        if not isinstance(path, str) or not path.startswith("/"):
            message = f"path must begin with '/', not {path!r}"
            raise ValueError(message)
        if _NOT_IN_A_PATH.search(path):
            message = f"path must not hold spaces, control characters, ? or #: {path!r}"
            raise ValueError(message)
        self.operation = operation
        self.trailing_slash = path.endswith("/")
        self.segments = [self._segment(path, text) for text in _segments(path)]

    @staticmethod
    def _segment(path: str, text: str) -> str | None:
        if _PARAMETER.fullmatch(text):
            return None
        if "{" in text or "}" in text:
            message = f"path must have balanced braces around whole segments, as in '/items/{{id}}': {path!r}"
            raise ValueError(message)
        literal = unquote_to_bytes(text).decode("latin-1")
        if literal in _NEVER_A_SEGMENT or "/" in literal:
            message = f"path must not hold empty segments, dot segments or an encoded slash: {path!r}"
            raise ValueError(message)
        return literal

    @property
    def shape(self) -> _Shape:
        """What tells templates apart: neither letter case nor the names of parameters."""
        return tuple(segment and _fold(segment) for segment in self.segments)

    @property
    def beginning(self) -> str:
        """What every path of it begins with, in lower case."""
        return ("/" + "/".join(map(str, takewhile(bool, self.segments)))).lower()

    def claim(self, segments: list[str]) -> Claim:
        """Spell the request's segments in the template's way."""
        spelled = [own or came for own, came in zip(self.segments, segments, strict=True)]
        path = "/" + "/".join(spelled) + ("/" if self.trailing_slash and spelled else "")
        parameters = [came for own, came in zip(self.segments, segments, strict=True) if own is None]
        return Claim(self.operation, path, tuple(parameters))


class _Paths:
    """Sort out the paths of one method: most are decided by one look-up."""

    __slots__ = ("literal", "masks")

    def __init__(self) -> None:
        # Claims on paths without parameters, by folded path.
        self.literal: dict[str, Claim] = {}
        # Which segments of the other templates are parameters, by their number of segments, the leftmost literal first.
        self.masks: dict[int, list[_Mask]] = {}

    def add(self, template: _Template) -> None:
        shape = template.shape
        literals = [segment for segment in shape if segment is not None]
        if len(literals) == len(shape):
            path = "".join(f"/{literal}" for literal in literals)
            self.literal[path] = self.literal[f"{path}/"] = template.claim(literals)
        else:
            masks = {*self.masks.get(len(shape), ()), tuple(place for place, each in enumerate(shape) if each is None)}
            self.masks[len(shape)] = sorted(masks, key=lambda mask: [place in mask for place in range(len(shape))])


class OperationTable:
    """Find the operation that a request belongs to.

    Literal segments compare without regard to ASCII case, one trailing slash is optional, a parameter is one
    segment that is not empty; ``//`` and dot segments never match. A literal wins over a parameter, the leftmost first.
    ``HEAD`` belongs to an operation of ``GET``. The cost of a look-up does not depend on the number of operations.
    ``beginning`` is what the lower-case paths of all of them begin with: others need no look-up.

    Raises ``ValueError`` when two operations differ only in letter case or parameter names.
    """

    __slots__ = ("_methods", "_templates", "beginning", "operations")

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations: tuple[Operation, ...] = tuple(operations) if isinstance(operations, Iterable) else ()
        expect(
            isinstance(operations, Iterable) and all(isinstance(each, Operation) for each in self.operations),
            "operations",
            "a sequence of Operation",
            operations,
        )
        self._templates = _templates(self.operations)
        self._methods = {method: _Paths() for method, _shape in self._templates}
        for (method, _shape), template in self._templates.items():
            self._methods[method].add(template)
        beginnings = [template.beginning for template in self._templates.values()]
        self.beginning: str = commonpath(beginnings).rstrip("/") if beginnings else ""

    def match(self, method: str, path: str) -> Claim | None:
        """Return the claim on a request, or ``None``; ``path`` is WSGI text, as in ``PATH_INFO``."""
        paths = self._methods.get(method)
        if paths is None:
            return None
        folded = path.lower() if path.isascii() else _fold(path)
        claim = paths.literal.get(folded)
        if claim is not None or not paths.masks:
            return claim
        for mask in paths.masks.get(path.count("/") - (path[-1:] == "/"), ()):
            template = self._templates.get((method, _shape(_segments(folded), mask)))
            if template is not None:
                return template.claim(_segments(path))
        return None

    def methods(self, path: str) -> list[str]:
        """Return the methods that a path answers to, for ``Allow`` (RFC 9110 section 10.2.1); none: no such path."""
        return [method for method in sorted(self._methods) if self.match(method, path) is not None]


def _templates(operations: Iterable[Operation]) -> dict[tuple[str, _Shape], _Template]:
    """Return the templates by method and shape, those of ``GET`` for ``HEAD`` as well, unless it has one of its own."""
    templates: dict[tuple[str, _Shape], _Template] = {}
    for operation in operations:
        template = _Template(operation)
        twin = templates.setdefault((operation.method, template.shape), template)
        if twin is not template:
            message = (
                f"operations must differ in more than letter case and parameter names: {twin.operation} and {operation}"
            )
            raise ValueError(message)
    heads = {("HEAD", shape): template for (method, shape), template in templates.items() if method == "GET"}
    return heads | templates


def _shape(segments: list[str], mask: _Mask) -> _Shape:
    """Return the shape of a path whose segments in the mask stand for parameters; those that cannot are left."""
    shape: list[str | None] = [*segments]
    for place in mask:
        if place < len(shape) and shape[place] not in _NEVER_A_SEGMENT:
            shape[place] = None
    return tuple(shape)


def _fold(path: str) -> str:
    return path.translate(_ASCII_LOWER)


def _segments(path: str) -> list[str]:
    """Split a path, without the one trailing slash that does not count; one without a leading slash never matches."""
    if path in {"", "/"}:
        return []
    if path[0] != "/":
        return [""]
    return path[1 : -1 if path[-1] == "/" else None].split("/")


def notification_operations(
    prefix: str = "/API/Notification", *, successor_prefix: str | None = None
) -> tuple[Operation, Operation]:
    """Return the two obsolete operations below another ``prefix``.

    The successors stand below ``successor_prefix``, a path or an absolute URI, or below ``prefix`` without one.
    Raises ``ValueError`` as ``Operation`` does.
    """
    for name, value in (("prefix", prefix), ("successor_prefix", successor_prefix or "")):
        expect(isinstance(value, str), name, "a path as text", value)
    below = prefix.rstrip("/")
    successors = (below if successor_prefix is None else successor_prefix).rstrip("/")
    return (
        Operation(CURRENT_USER, "GET", f"{below}/", f"{successors}/CurrentUser"),
        Operation(ACCOUNT, "POST", f"{below}/GetNotificationsForAccount/{{id}}/", f"{successors}/Account"),
    )


NOTIFICATION_OPERATIONS = notification_operations()
