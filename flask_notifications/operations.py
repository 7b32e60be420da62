"""The operations, how old clients spell a path, and which operation a request matches.

An operation is a method and an OpenAPI path template. Knows nothing of dates, sessions or responses.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from .headers import TOKEN
from .validation import check_uri, require

CURRENT_USER = "current_user"
ACCOUNT = "account"

_METHOD = re.compile(TOKEN)
# A parameter in a path template, and its name.
PARAMETER = re.compile(r"\{([\w.-]+)\}")
# What routers write where OpenAPI has a parameter in braces, and what no path segment holds.
_OTHER_SYNTAX = re.compile(r"[<>*\\]|^[:(]")
_NOT_IN_A_PATH = re.compile(r"[\x00-\x20\x7f?#\ud800-\udfff]")
_NEVER_A_SEGMENT = frozenset({"", ".", ".."})

# Letters that are not ASCII and fold to an ASCII letter, at least to a regular expression that ignores case.
_FOLDS_TO_ASCII = {0x130: "i", 0x131: "i", 0x17F: "s", 0x212A: "k"}
# No router reads a path of these characters in another way, unless it joins slashes.
_ORDINARY_PATH = re.compile(r"/[\x21-\x7e]*")
# Control characters (Unicode category Cc) and white space.
_PADDING = "".join(map(chr, (*range(0x21), *range(0x7F, 0xA1), 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029)))
_PADDING += "\u202f\u205f\u3000"
# How lenient routers read a path; bytes that are not UTF-8 are surrogates in it.
_LENIENT_READINGS: tuple[Callable[[str], str], ...] = (
    lambda path: re.sub("[\udc80-\udcff]", "", path),
    lambda path: path.strip(_PADDING),
    lambda path: path.translate(_FOLDS_TO_ASCII),
    lambda path: re.sub("/+", "/", f"/{path}"),
)


@dataclass(frozen=True, slots=True)
class Operation:
    """Name one operation of an HTTP API: a method and an OpenAPI path template.

    Paths match in any ASCII letter case, with or without a trailing slash.

    :param name: identifies the operation, for observers and reports: printable characters, at least one.
    :param method: the HTTP method, kept in upper case; ``GET`` includes ``HEAD``.
    :param path: begins with ``/``; a segment in braces is a parameter, every other segment a literal, percent-encoded
        where it must be.
    :param successor: the URI reference of what replaces the operation (RFC 5829 section 3.3), by default none. It may
        use the parameters of the path in braces; they are filled in from the request, percent-encoded.
    :param rewrite_path: whether your application sees the path as ``path`` spells it, whatever the client sent; by
        default it sees the path that the client sent.
    :param unify_session: whether the session ID is moved to where your application expects it, by default not.
    :raises ValueError: an argument does not fit, or no request can match the path; the message names the argument.
    """

    name: str
    method: str
    path: str
    successor: str | None = None
    _: KW_ONLY
    rewrite_path: bool = False
    unify_session: bool = False

    def __post_init__(self) -> None:
        is_printable = isinstance(self.name, str) and self.name and self.name.isprintable()
        require(is_printable, "name", "a string of one or more printable characters", self.name)
        _check_method(self.method)
        object.__setattr__(self, "method", self.method.upper())
        template = _Template(self)
        if self.successor is not None:
            _check_successor(self.successor, template)
        for name in ("rewrite_path", "unify_session"):
            require(isinstance(getattr(self, name), bool), name, "True or False", getattr(self, name))


def _check_method(method: object) -> None:
    require(isinstance(method, str) and _METHOD.fullmatch(method), "method", "an HTTP method", method)
    is_wildcard = str(method).upper() in {"*", "ANY"}
    require(not is_wildcard, "method", "one HTTP method, such as 'GET' (list one operation per method)", method)


def _check_successor(successor: object, template: "_Template") -> None:
    check_uri("successor", successor)
    rest = str(successor)
    for name in template.parameters:
        rest = rest.replace(f"{{{name}}}", "")
    expected = f"a URI whose braces hold parameters of path {template.operation.path!r}"
    require(set("{}").isdisjoint(rest), "successor", expected, successor)


class Match(NamedTuple):
    """A request that belongs to an operation.

    ``path`` is the request's path in the template's spelling; ``parameters`` are the segments for the template's
    parameters, by name. Both are WSGI strings: percent-decoded bytes, read as latin-1.
    """

    operation: Operation
    path: str
    parameters: dict[str, str]

    def fill_in(self, uri: str) -> str:
        """Return a URI with the parameters in place of their names in braces, percent-encoded."""
        for name, value in self.parameters.items():
            if f"{{{name}}}" in uri:
                uri = uri.replace(f"{{{name}}}", quote(value, safe="", encoding="latin-1", errors="replace"))
        return uri


class Shape(NamedTuple):
    """What two operations must differ in: a literal segment is its bytes in lower case, a parameter is ``None``."""

    method: str
    has_slash: bool
    segments: tuple[bytes | None, ...]


class _Template:
    """A path template, taken apart: a literal segment is its WSGI string, a parameter is ``None``."""

    def __init__(self, operation: Operation) -> None:
        path = operation.path
        require(isinstance(path, str) and path.startswith("/"), "path", "a string that begins with '/'", path)
        self.operation = operation
        self.has_slash = path.endswith("/")
        segments = _split(path)
        _check_syntax(path, segments)
        self.literals = [_parse_segment(path, segment) for segment in segments]
        self.parameters = [segment[1:-1] for segment in segments if PARAMETER.fullmatch(segment)]
        is_unique = len(set(self.parameters)) == len(self.parameters)
        require(is_unique, "path", "a template whose parameters have different names", path)

    @property
    def shape(self) -> Shape:
        """The shape, in which neither letter case nor the names of parameters count."""
        folded = tuple(None if literal is None else _fold(literal) for literal in self.literals)
        return Shape(self.operation.method, self.has_slash, folded)

    def match(self, segments: list[str]) -> Match:
        """Return the match of a request's segments, spelled as in the template."""
        pairs = list(zip(self.literals, segments, strict=True))
        path = "".join(f"/{segment if literal is None else literal}" for literal, segment in pairs)
        values = [segment for literal, segment in pairs if literal is None]
        spelled = f"{path}/" if self.has_slash else path
        return Match(self.operation, spelled, dict(zip(self.parameters, values, strict=True)))


def _check_syntax(path: str, segments: list[str]) -> None:
    literals = [segment for segment in segments if not PARAMETER.fullmatch(segment)]
    is_plain = all(set("{}").isdisjoint(each) and not _OTHER_SYNTAX.search(each) for each in literals)
    right = "a template whose parameters are whole segments in braces, as in '/items/{id}'"
    require(is_plain, "path", right, path)
    require(not _NOT_IN_A_PATH.search(path), "path", "free of spaces, control characters, ? and #", path)


def _parse_segment(path: str, segment: str) -> str | None:
    """Return a segment's literal as a WSGI string, or ``None`` for a parameter."""
    if PARAMETER.fullmatch(segment):
        return None
    literal = unquote_to_bytes(segment).decode("latin-1")
    can_match = literal not in _NEVER_A_SEGMENT and "/" not in literal
    require(can_match, "path", "free of empty segments, dot segments and encoded slashes", path)
    return literal


class _Node:
    """A place in the tree of the templates with parameters: the segments that may follow, and the template here."""

    def __init__(self) -> None:
        self.literals: dict[bytes, _Node] = {}
        self.parameter: _Node | None = None
        # By whether the path ends with a slash.
        self.templates: dict[bool, _Template] = {}

    def add(self, template: _Template) -> None:
        """Add a template, unless there is one with its shape already."""
        node = self
        for literal in template.literals:
            if literal is None:
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.literals.setdefault(_fold(literal), _Node())
        node.templates.setdefault(template.has_slash, template)

    def find(self, segments: list[str], has_slash: bool, depth: int = 0) -> _Template | None:
        """Return the template of a path; a literal wins over a parameter, the leftmost segment first."""
        if depth == len(segments):
            return self.templates.get(has_slash) or self.templates.get(not has_slash)
        literal = self.literals.get(_fold(segments[depth]))
        found = None if literal is None else literal.find(segments, has_slash, depth + 1)
        if found is None and self.parameter is not None and segments[depth] not in _NEVER_A_SEGMENT:
            found = self.parameter.find(segments, has_slash, depth + 1)
        return found


class _Paths:
    """The paths of one method: a look-up for those without parameters, which win, and a tree for the others."""

    def __init__(self) -> None:
        self._matches: dict[bytes, Match] = {}
        self._tree = _Node()

    def add(self, template: _Template) -> None:
        """Add a template, unless there is one with its shape already."""
        if template.parameters:
            self._tree.add(template)
        else:
            match = template.match([literal for literal in template.literals if literal is not None])
            self._matches.setdefault(_fold(match.path), match)

    def add_other_spellings(self) -> None:
        """Make one trailing slash optional, except where another operation has that spelling."""
        for path, match in list(self._matches.items()):
            self._matches.setdefault(path[:-1] if path.endswith(b"/") else path + b"/", match)

    def match(self, path: str) -> Match | None:
        """Return the match of a path, or ``None``."""
        match = self._matches.get(_fold(path))
        if match is not None:
            return match
        segments = _split(path)
        template = self._tree.find(segments, path.endswith("/"))
        return None if template is None else template.match(segments)


class OperationTable:
    """Find the operation that a request matches.

    The method and literal segments match in any ASCII letter case, one trailing slash is optional, a parameter is one
    segment that is not empty; ``//`` and dot segments never match. A literal wins over a parameter, the leftmost first.
    ``HEAD`` matches an operation of ``GET``. Operations may differ in the trailing slash alone: each then matches its
    own spelling. The cost of a look-up depends on the length of the path, not on the number of operations.

    :param operations: one or more.
    :raises ValueError: there are none, or two of them differ only in letter case or parameter names.
    """

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations: tuple[Operation, ...] = tuple(operations) if isinstance(operations, Iterable) else ()
        is_valid = self.operations and all(isinstance(each, Operation) for each in self.operations)
        require(is_valid, "operations", "one or more of Operation", operations)
        templates = [_Template(operation) for operation in self.operations]
        _check_differences(templates)
        self._methods: dict[bytes, _Paths] = {}
        for template in templates:
            self._paths(template.operation.method).add(template)
        for template in templates:
            if template.operation.method == "GET":  # an operation of HEAD that is listed wins
                self._paths("HEAD").add(template)
        for paths in self._methods.values():
            paths.add_other_spellings()

    def _paths(self, method: str) -> _Paths:
        return self._methods.setdefault(_fold(method), _Paths())

    def match(self, method: str, path: str) -> Match | None:
        """Return the match of a request, or ``None``; ``path`` is ``PATH_INFO``."""
        paths = self._methods.get(_fold(method))
        return None if paths is None else paths.match(path)

    def match_lookalikes(self, method: str, path: str) -> list[Match]:
        """Return what lenient routers may take for a match of a request, whether or not it matches anything itself.

        Such routers drop bytes that are not UTF-8, strip white space and control characters, fold letters that are not
        ASCII, or join slashes: one of these, or several.
        """
        if "//" not in path and _ORDINARY_PATH.fullmatch(path):
            return []
        readings = [path.encode("latin-1", "replace").decode("utf-8", "surrogateescape")]
        for read in _LENIENT_READINGS:
            readings += [read(each) for each in readings]
        matches = (self.match(method, each.encode("utf-8", "surrogateescape").decode("latin-1")) for each in readings)
        return [match for match in matches if match is not None]

    def methods(self, path: str) -> list[str]:
        """Return the methods that a path responds to, for ``Allow`` (RFC 9110 section 10.2.1); none: no such path."""
        methods = sorted(method.decode("ascii").upper() for method in self._methods)
        return [method for method in methods if self.match(method, path) is not None]


def _check_differences(templates: list[_Template]) -> None:
    known: dict[Shape, _Template] = {}
    for template in templates:
        other = known.setdefault(template.shape, template)
        expected = f"different from {other.operation} in more than letter case and parameter names"
        require(other is template, "operations", expected, template.operation)


def template_shape(operation: Operation) -> Shape:
    """Return the shape of an operation, which no other operation of a table may have."""
    return _Template(operation).shape


def _fold(string: str) -> bytes:
    """Return a WSGI string as bytes with ASCII letters in lower case; every other byte has one case."""
    return string.encode("latin-1", "backslashreplace").lower()


def _split(path: str) -> list[str]:
    """Return the segments of a path, without one trailing slash; a path without a leading slash never matches."""
    if path in {"", "/"}:
        return []
    if path[0] != "/":
        return [""]
    return path.removesuffix("/")[1:].split("/")


def notification_operations(
    prefix: str = "/API/Notification", *, successor_prefix: str | None = None
) -> tuple[Operation, Operation]:
    """Return the two obsolete operations, ``current_user`` and ``account``.

    :param prefix: the path below which they are, by default ``"/API/Notification"``.
    :param successor_prefix: the path or absolute URI below which their successors are; by default ``prefix``.
    :raises ValueError: as ``Operation`` does.
    """
    is_path = isinstance(prefix, str) and (not prefix or prefix.startswith("/"))
    require(is_path, "prefix", "a path that begins with '/', as a string", prefix)
    is_prefix = successor_prefix is None or isinstance(successor_prefix, str)
    require(is_prefix, "successor_prefix", "a path or an absolute URI as a string", successor_prefix)
    below = prefix.rstrip("/")
    successors = (below if successor_prefix is None else successor_prefix).rstrip("/")
    paths = (
        (CURRENT_USER, "GET", f"{below}/", f"{successors}/CurrentUser"),
        (ACCOUNT, "POST", f"{below}/GetNotificationsForAccount/{{id}}/", f"{successors}/Account"),
    )
    current_user, account = (Operation(*each, rewrite_path=True, unify_session=True) for each in paths)
    return current_user, account


NOTIFICATION_OPERATIONS = notification_operations()
