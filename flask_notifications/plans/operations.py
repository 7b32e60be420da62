"""The operations, how old clients spell a path, and which operation a request matches.

An operation is a method and an OpenAPI path template. Knows nothing of dates, sessions
or responses.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from functools import lru_cache, partial
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from flask_notifications.headers import TOKEN
from flask_notifications.validation import check_uri, make_plain, require

from .conditions import (
    NOTHING,
    Condition,
    SentValues,
    Values,
    are_fulfilled,
    check_values,
    fold,
    list_conditions,
    list_spaced,
)

CURRENT_USER = "current_user"
ACCOUNT = "account"

# Every method but OPTIONS: a browser must get through to ask whether it may send the
# request itself.
ANY_METHOD = "*"
# The last segment of a subtree's path; in a successor, the rest of the request's path.
REST = "**"

_METHOD = re.compile(TOKEN)
# A parameter in a path template, and its name.
PARAMETER = re.compile(r"\{([\w.-]+)\}")
# Parameters in the syntax of routers, which OpenAPI puts in braces, and characters of
# no path segment.
_OTHER_SYNTAX = re.compile(r"[<>*|\\]|^[:(]")
_NOT_IN_A_PATH = re.compile(r"[\x00-\x20\x7f?#\ud800-\udfff]")
_DOTS = frozenset({".", ".."})

# An application that responds to a lookalike with one of these did not take it for the
# operation.
NOT_REACHED = frozenset({404, 405})

# The version of the rules in ``OperationTable``: a count of calls is complete for the
# rules that were in force.
RULES_VERSION = 5

# Some routers read a path of other characters leniently, or one with ``//`` or ``/.``.
_ORDINARY = re.compile(r"(?!.*/[/.])/[\x21-\x7e]*")
# Letters that are not ASCII and fold to an ASCII letter, at least to a regular
# expression that ignores case.
_FOLDS_TO_ASCII = {0x130: "i", 0x131: "i", 0x17F: "s", 0x212A: "k"}
# White space, of which U+3000 is the last, and control characters (Unicode category
# Cc).
_PADDING = "".join(
    re.findall(r"[\s\x00-\x1f\x7f-\x9f]", "".join(map(chr, range(0x3001))))
)


_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_SLASHES = re.compile("/+")


def resolve_dots(path: str) -> str:
    """Remove the dot segments of an absolute path (RFC 3986 section 5.2.4)."""
    if "/." not in path:
        return path
    first, *segments = path.split("/")
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments and segments[-1] in _DOTS:
        kept.append("")
    return "/".join([first, *kept])


# How lenient routers read a path, in this order; bytes that are not UTF-8 are
# surrogates in it.
_LENIENT_READINGS: tuple[Callable[[str], str], ...] = (
    lambda path: _NOT_UTF8.sub("", path),
    lambda path: path.strip(_PADDING),
    lambda path: path.translate(_FOLDS_TO_ASCII),
    lambda path: "/" + path.lstrip("/"),  # Werkzeug keeps the other slashes
    resolve_dots,
    lambda path: _SLASHES.sub("/", path),
    resolve_dots,
)


@dataclass(frozen=True, slots=True)
class Operation:
    """Name one operation of an HTTP API, or a part of it: a method, an OpenAPI path
    template, and conditions.

    Paths match in any ASCII letter case, with or without a trailing slash.

    :param name: identifies the operation, for observers and reports: printable
        characters, at least one.
    :param method: the HTTP method, kept in upper case; ``GET`` includes ``HEAD``, and
        ``*`` is every method but ``OPTIONS``.
    :param path: begins with ``/``; a segment in braces is a parameter, every other
        segment a literal, percent-encoded where it must be. A path that ends in ``/**``
        is the path before that and everything below it.
    :param successor: the URI reference of the replacement (RFC 5829 section 3.3), by
        default none. It may use the parameters of the path in braces, and ``**`` for
        what follows the path before ``/**``, its slash included; they are filled in
        from the request, percent-encoded.
    :param query: the values of the query that a request must have, by their names: a
        string or several. ``""`` is a value that is absent or empty, ``"*"`` any other
        value. Names match in any ASCII letter case, values exactly. By default any
        query matches.
    :param headers: the same of headers; values match in any ASCII letter case, those of
        a list member by member, each with or without its parameters. By default any
        headers match.
    :param rewrite_path: whether your application sees the path as ``path`` spells it,
        whatever the client sent; by default it sees the path that the client sent.
    :param unify_session: whether the session ID is moved to where your application
        expects it, by default not.
    :raises ValueError: an argument does not fit, or no request can match the path; the
        message names the argument.
    """

    name: str
    method: str
    path: str
    successor: str | None = None
    _: KW_ONLY
    query: Values | None = field(default=None, hash=False)
    headers: Values | None = field(default=None, hash=False)
    rewrite_path: bool = False
    unify_session: bool = False

    def __post_init__(self) -> None:
        for name in ("name", "method", "path", "successor"):
            object.__setattr__(self, name, make_plain(getattr(self, name)))
        is_printable = (
            isinstance(self.name, str) and self.name and self.name.isprintable()
        )
        require(
            is_printable,
            "name",
            "a string of one or more printable characters",
            self.name,
        )
        is_method = (
            isinstance(self.method, str)
            and _METHOD.fullmatch(self.method)
            and self.method.upper() != "ANY"
        )
        require(
            is_method,
            "method",
            "one HTTP method, such as 'GET', or '*' for any",
            self.method,
        )
        object.__setattr__(self, "method", self.method.upper())
        object.__setattr__(self, "query", check_values("query", self.query))
        object.__setattr__(self, "headers", check_values("headers", self.headers))
        template = _Template(self)
        if self.successor is not None:
            _check_successor(self.successor, template)
        for name in ("rewrite_path", "unify_session"):
            require(
                isinstance(getattr(self, name), bool),
                name,
                "True or False",
                getattr(self, name),
            )


def _check_successor(successor: object, template: "_Template") -> None:
    check_uri("successor", successor)
    path, left = template.operation.path, str(successor)
    for name in template.parameters.values():
        left = left.replace(f"{{{name}}}", "")
    expected = f"a URI whose braces hold parameters of path {path!r}"
    require(set("{}").isdisjoint(left), "successor", expected, successor)
    expected = f"without {REST}, because path {path!r} does not end in /{REST}"
    require(template.is_subtree or REST not in left, "successor", expected, successor)


class Match(NamedTuple):
    """An operation that a request may reach.

    ``path`` is the request's path in the template's spelling; ``parameters`` are the
    segments for the template's parameters, by name, and with the name ``**`` the rest
    of a path below the template's. They are WSGI strings: percent-decoded bytes, read
    as latin-1. A lookalike is a request that only a lenient router takes for the
    operation. ``vary`` are the headers that the choice of the operation depends on.
    """

    operation: Operation
    path: str
    parameters: dict[str, str]
    is_lookalike: bool
    vary: tuple[str, ...] = ()

    @property
    def successor(self) -> str | None:
        """The successor with the parameters filled in, percent-encoded; ``None`` if one
        has an empty or a dot segment, because the link could lead elsewhere.
        """
        uri = self.operation.successor
        if uri is None or not self.parameters:
            return uri
        if not self.is_safe:
            return None
        return fill_in(uri, self.parameters)

    @property
    def is_safe(self) -> bool:
        """Whether no parameter has a dot segment or an empty one, which some routers
        resolve.
        """
        for name, value in self.parameters.items():
            if name != REST and not value:
                return False
            if "//" in value or not _DOTS.isdisjoint(value.split("/")):
                return False
        return True


def fill_in(template: str, parameters: Mapping[str, str]) -> str:
    """Return a template with WSGI strings, percent-encoded, in place of its parameters
    in braces and of ``**``.

    The rest begins with its own slash, so it replaces ``/**``. A path that would become
    empty is ``/``.
    """
    filled = template
    for name, value in parameters.items():
        encoded = quote(
            value,
            safe="/" if name == REST else "",
            encoding="latin-1",
            errors="replace",
        )
        if name == REST:
            filled = filled.replace(f"/{REST}", encoded).replace(REST, encoded)
        else:
            filled = filled.replace(f"{{{name}}}", encoded)
    if template.startswith("/") and not filled.startswith("/"):
        return f"/{filled}"
    return filled


class Shape(NamedTuple):
    """What two operations must differ in: a literal segment is in lower case, a
    parameter is ``None``.

    ``has_slash`` is ``None`` for a path and everything below it.
    """

    method: str
    has_slash: bool | None
    segments: tuple[str | None, ...]
    conditions: frozenset[Condition]


# The order of the segments of templates, see ``_Template.rank``.
_LITERAL_RANK, _PARAMETER_RANK, _END_RANK = 0, 1, 2


class _Template:
    """A path template, taken apart: a literal segment is its WSGI string, a parameter
    is ``None``.
    """

    def __init__(self, operation: Operation) -> None:
        path = operation.path
        require(
            isinstance(path, str) and path.startswith("/"),
            "path",
            "a string that begins with '/'",
            path,
        )
        self.operation = operation
        self.is_subtree = path.endswith(f"/{REST}")
        # Of a subtree ``None``: its paths end in a slash or not.
        self.has_slash = None if self.is_subtree else path.endswith("/")
        segments = path.split("/")[1:-1] if self.is_subtree else _split(path)
        _check_syntax(path, segments)
        self.literals = [_parse_segment(path, segment) for segment in segments]
        # The parts of a path between its slashes, of which the first is empty, and the
        # places of parameters in it.
        self.spelled = [""]
        self.parameters: dict[int, str] = {}
        pairs = zip(segments, self.literals, strict=True)
        for place, (segment, literal) in enumerate(pairs, 1):
            self.spelled.append(literal or "")
            if literal is None:
                self.parameters[place] = segment[1:-1]
        if self.has_slash:
            self.spelled.append("")
        is_unique = len(set(self.parameters.values())) == len(self.parameters)
        require(
            is_unique, "path", "a template whose parameters have different names", path
        )
        self.conditions = list_conditions(operation.query, operation.headers)

    @property
    def shape(self) -> Shape:
        """The shape, in which neither letter case nor the names of parameters count."""
        folded = tuple(
            None if literal is None else fold(literal) for literal in self.literals
        )
        return Shape(self.operation.method, self.has_slash, folded, self.conditions)

    def has_spelling(self, segments: list[str]) -> bool:
        """Return whether the literals are in the letter case of a request's path."""
        for literal, segment in zip(self.literals, segments, strict=False):
            if literal is not None and literal != segment:
                return False
        return True

    def rank(
        self, methods: tuple[str, ...], segments: list[str], has_slash: bool
    ) -> tuple[Any, ...]:
        """Return a sort key: the more specific template first.

        1. From the left, a literal, then a parameter, then the end of a subtree.
        2. The trailing slash of the request.
        3. Conditions.
        4. The method of the request, then ``GET`` for ``HEAD``, then ``*``.
        5. No subtree.
        6. The letter case of the request.
        """
        kinds: list[int] = []
        for literal in self.literals:
            kinds.append(_PARAMETER_RANK if literal is None else _LITERAL_RANK)
        return (
            [*kinds, _END_RANK],
            not self.fits_slash(has_slash),
            not self.conditions,
            methods.index(self.operation.method),
            self.is_subtree,
            not self.has_spelling(segments),
        )

    def fits_slash(self, has_slash: bool) -> bool:
        """Return whether the trailing slash is that of a request; a subtree fits both."""
        return self.has_slash in {None, has_slash}

    def match(self, path: str, is_lookalike: bool) -> Match:
        """Return the match of a path, with its segments in the places of parameters."""
        segments, spelled = path.split("/"), self.spelled.copy()
        values = {}
        for place, name in self.parameters.items():
            values[name] = spelled[place] = segments[place]
        if self.is_subtree:
            rest = segments[len(spelled) :]
            values[REST] = "/".join(["", *rest])
            spelled += rest
        return Match(self.operation, "/".join(spelled), values, is_lookalike)


def decode_path(path: str) -> str:
    """Return a path in percent-encoding or in letters that are not ASCII as a WSGI
    string.
    """
    return unquote_to_bytes(path).decode("latin-1")


def _check_syntax(path: str, segments: list[str]) -> None:
    is_plain = True
    for segment in segments:
        if not PARAMETER.fullmatch(segment):
            has_braces = "{" in segment or "}" in segment
            is_plain = is_plain and not has_braces
            is_plain = is_plain and not _OTHER_SYNTAX.search(segment)
    right = f"a template, which may end in '/{REST}', with its parameters as segments in braces, as in '/items/{{id}}'"
    require(is_plain, "path", right, path)
    require(
        not _NOT_IN_A_PATH.search(path),
        "path",
        "free of spaces, control characters, ? and #",
        path,
    )


def _parse_segment(path: str, segment: str) -> str | None:
    """Return a segment's literal as a WSGI string, or ``None`` for a parameter."""
    if PARAMETER.fullmatch(segment):
        return None
    literal = decode_path(segment)
    can_match = literal not in {"", *_DOTS} and "/" not in literal
    require(
        can_match,
        "path",
        "free of empty segments, dot segments and encoded slashes",
        path,
    )
    return literal


class _Reading(Enum):
    """How a router divides a path.

    Lenient ones take dot segments and empty ones for the values of parameters (Falcon).
    Some of them refuse a rest of a path that begins with an empty segment (Flask's
    ``<path:rest>``).
    """

    STRICT = "strict"
    LENIENT = "lenient"
    EMPTY_RESTS_REFUSED = "empty rests refused"


class _Node:
    """A place in the tree of the templates: the segments that may follow, and the
    templates that end here.
    """

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.templates: list[_Template] = []
        self.subtrees: list[_Template] = []

    def add(self, template: _Template) -> None:
        node = self
        for literal in template.literals:
            if literal is None:
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.literals.setdefault(fold(literal), _Node())
        (node.subtrees if template.is_subtree else node.templates).append(template)

    def find(
        self, segments: list[str], reading: _Reading, depth: int = 1
    ) -> list[_Template]:
        """Return every template of a folded path, with or without the trailing slash.

        ``depth`` segments lead here, of which the first is empty.
        """
        rest = len(segments) - depth
        if not rest or (rest == 1 and not segments[depth]):  # the path ends here
            return self.subtrees + self.templates
        segment = segments[depth]
        templates = list(self.subtrees)
        if not segment and reading is _Reading.EMPTY_RESTS_REFUSED:
            templates = []
        if segment in self.literals:
            child = self.literals[segment]
            templates += child.find(segments, reading, depth + 1)
        is_value = segment and segment not in _DOTS
        if self.parameter is not None and (is_value or reading is not _Reading.STRICT):
            templates += self.parameter.find(segments, reading, depth + 1)
        return templates


class OperationTable:
    """Find the operations that a request may reach.

    :param live: those of the operations that are not deprecated.

    Routers read a path in different ways: as it was sent; in another ASCII letter case;
    with or without its trailing slash; or leniently, as ``_LENIENT_READINGS`` do. In
    each reading the most specific operation wins, as ``_Template.rank`` says, of those
    whose conditions hold. The cost of a look-up depends on the length of the path and
    on the number of operations with this path, not on those with other paths.
    """

    def __init__(
        self, operations: Iterable[Operation], *, live: Iterable[Operation] = ()
    ) -> None:
        self.operations: tuple[Operation, ...] = ()
        if isinstance(operations, Iterable):
            self.operations = tuple(operations)
        is_valid = all(isinstance(member, Operation) for member in self.operations)
        expected = "one or more of Operation"
        require(self.operations and is_valid, "operations", expected, operations)
        live_operations = tuple(live)
        self._live = frozenset(operation.name for operation in live_operations)
        for operation in live_operations:
            _check_values_of_live(operation)
        templates = [_Template(operation) for operation in self.operations]
        _check_differences(templates, self._live)
        self._root = _Node()
        for template in templates:
            self._root.add(template)
        # The matches of paths without parameters, computed once where nothing decides
        # but method and path.
        self._ready: dict[tuple[str, str], list[Match]] = {}
        for template in templates:
            if template.parameters:
                continue
            method, path = template.operation.method, "/".join(template.spelled)
            rivals = self._find_templates(path)
            is_conditional = any(rival.conditions for rival in rivals)
            if _ORDINARY.fullmatch(path) and not is_conditional:
                self._ready[method, path] = self._read(method, path, SentValues({}))

    def match(
        self, method: str, path: str, environ: Mapping[str, Any] = NOTHING
    ) -> Match | None:
        """Return the likeliest match without lenient readings, or ``None``."""
        matches = self._ready.get((method, path))
        if matches is None:
            matches = self._read(method, path, SentValues(environ))
        return matches[0] if matches else None

    def find(
        self, method: str, path: str, environ: Mapping[str, Any] = NOTHING
    ) -> list[Match]:
        """Return the operations that some router may take a request for, one match
        each, the likeliest first.

        A path in the exact spelling of a live operation is that operation, however
        lenient routers read it.
        """
        ready = self._ready.get((method, path))
        if ready is not None:
            return ready
        templates = self._find_templates(path)
        is_ordinary = _ORDINARY.fullmatch(path)
        if is_ordinary and not templates:
            return []
        if is_ordinary and len(templates) == 1 and not templates[0].conditions:
            # Nothing but the method decides.
            if templates[0].operation.method in _list_reached(method):
                return [templates[0].match(path, is_lookalike=False)]
            return []
        values = SentValues(environ)
        strict = self._choose(templates, method, path or "/", values, is_lenient=False)
        if is_ordinary or self._is_surely_live(strict, path):
            return strict
        return self._add_lookalikes(strict, method, path, values)

    def _add_lookalikes(
        self, strict: list[Match], method: str, path: str, sent: SentValues
    ) -> list[Match]:
        """Return the matches of a request and those of its lenient readings."""
        matches: dict[str, Match] = {}
        # The choice among readings depends on the headers of all of them.
        vary: dict[str, None] = {}
        for match in strict:
            matches[match.operation.name] = match
            vary.update(dict.fromkeys(match.vary))
        for lenient_path in _read_leniently(path):
            readings = [_Reading.LENIENT]
            if "//" in lenient_path:
                readings.append(_Reading.EMPTY_RESTS_REFUSED)
            for reading in readings:
                for match in self._read(method, lenient_path, sent, reading):
                    matches.setdefault(match.operation.name, match)
                    vary.update(dict.fromkeys(match.vary))
        return [match._replace(vary=tuple(vary)) for match in matches.values()]

    def methods(self, path: str) -> list[str]:
        """Return the methods that a path responds to, for ``Allow`` (RFC 9110 section
        10.2.1); none: no such path.
        """
        methods = {template.operation.method for template in self._find_templates(path)}
        if "GET" in methods:
            methods.add("HEAD")
        return sorted(methods)

    def _find_templates(
        self, path: str, reading: _Reading = _Reading.STRICT
    ) -> list[_Template]:
        segments = fold(path).split("/")
        return [] if segments[0] else self._root.find(segments, reading)

    def _read(
        self,
        method: str,
        path: str,
        sent: SentValues,
        reading: _Reading = _Reading.STRICT,
    ) -> list[Match]:
        """Return the matches of a request in one reading."""
        templates = self._find_templates(path, reading)
        is_lenient = reading is not _Reading.STRICT
        return self._choose(templates, method, path or "/", sent, is_lenient)

    def _choose(
        self,
        templates: list[_Template],
        method: str,
        path: str,
        sent: SentValues,
        is_lenient: bool,
    ) -> list[Match]:
        """Return the matches among the templates of a path, deprecated ones first, each
        with all headers that were looked at.
        """
        winners: dict[_Template, None] = {}
        vary: dict[str, None] = {}
        for accepted in _list_accepted(method):
            fulfilled = []
            for template in templates:
                operation = template.operation
                if operation.method in accepted:
                    vary.update(dict.fromkeys(operation.headers or ()))
                    is_live = operation.name in self._live
                    if are_fulfilled(template.conditions, sent, is_live=is_live):
                        fulfilled.append(template)
            winners.update(dict.fromkeys(_find_winners(fulfilled, accepted, path)))
        matches = [template.match(path, is_lenient) for template in winners]
        if vary:
            matches = [match._replace(vary=tuple(vary)) for match in matches]
        if len(matches) > 1:
            matches.sort(key=self._is_live)
        return matches

    def _is_live(self, match: Match) -> bool:
        return match.operation.name in self._live

    def _is_surely_live(self, matches: list[Match], path: str) -> bool:
        """Return whether all matches are live, one of them in its exact spelling, so
        that lenient readings need no look.
        """
        if not all(map(self._is_live, matches)):
            return False
        spelling = path.removesuffix("/")
        for match in matches:
            if match.is_safe and match.path.removesuffix("/") == spelling:
                return True
        return False


@lru_cache(maxsize=64)
def _list_accepted(method: str) -> tuple[tuple[str, ...], ...]:
    """Return the methods of the operations that a request reaches, its own first: of
    ``get``, these are ``get`` and ``*``, and as some routers read it, ``GET`` and ``*``.
    """
    readings: dict[tuple[str, ...], None] = {}
    for spelling in (method, method.upper()):
        if spelling == "HEAD":
            readings["HEAD", "GET", ANY_METHOD] = None
        elif spelling == "OPTIONS":
            readings[("OPTIONS",)] = None
        else:
            readings[spelling, ANY_METHOD] = None
    return tuple(readings)


@lru_cache(maxsize=64)
def _list_reached(method: str) -> frozenset[str]:
    """Return the methods of the operations that a method may reach in any reading."""
    return frozenset().union(*_list_accepted(method))


def _find_winners(
    templates: list[_Template], methods: tuple[str, ...], path: str
) -> list[_Template]:
    """Return the templates that win for a router that is strict about letter case and
    the trailing slash, about one of them, or about neither.

    Several win for one router if they differ in nothing but their conditions.
    """
    if len(templates) < 2:
        return templates
    has_slash, segments = path.endswith("/"), _split(path)
    same_case = [template for template in templates if template.has_spelling(segments)]
    same_slash = [template for template in templates if template.fits_slash(has_slash)]
    same_both = [template for template in same_case if template.fits_slash(has_slash)]
    winners: list[_Template] = []
    for group in (same_both, same_slash, same_case, templates):
        ranks = [template.rank(methods, segments, has_slash) for template in group]
        best = min(ranks, default=None)
        for template, rank in zip(group, ranks, strict=True):
            if rank == best:
                winners.append(template)
    return winners


def _read_leniently(path: str) -> list[str]:
    """Return a path, and then the paths that lenient routers read in its place."""
    readings = [path.encode("latin-1", "replace").decode("utf-8", "surrogateescape")]
    for read in _LENIENT_READINGS:
        readings = list(dict.fromkeys([*readings, *map(read, readings)]))
    return [
        reading.encode("utf-8", "surrogateescape").decode("latin-1")
        for reading in readings
    ]


def _check_differences(templates: list[_Template], live: frozenset[str]) -> None:
    """Refuse two deprecated operations that differ only in letter case or parameter
    names, and a live one that is spelled exactly as a deprecated one.
    """
    deprecated: dict[Shape, _Template] = {}
    for template in templates:
        if template.operation.name not in live:
            first = deprecated.setdefault(template.shape, template)
            expected = f"different from {first.operation} in more than letter case and parameter names"
            require(first is template, "operations", expected, template.operation)
    for template in templates:
        twin = deprecated.get(template.shape)
        if template.operation.name in live and twin is not None:
            expected = f"different from {twin.operation}, because one of both is live"
            is_different = twin.literals != template.literals
            require(is_different, "operations", expected, template.operation)


def _check_values_of_live(operation: Operation) -> None:
    spaced = list_spaced(operation.query) + list_spaced(operation.headers)
    expected = (
        f"free of spaces in the conditions of {operation.name}, which is live, because "
        "clients write a space in two ways"
    )
    require(not spaced, "operations", expected, spaced)


def template_shape(operation: Operation) -> Shape:
    """Return the shape of an operation, which no other operation of a table may have."""
    return _Template(operation).shape


def _split(path: str) -> list[str]:
    """Return the segments of a path that begins with a slash, without one trailing
    slash.
    """
    return path.removesuffix("/").split("/")[1:]


def notification_operations(
    prefix: str = "/API/Notification", *, successor_prefix: str | None = None
) -> tuple[Operation, Operation]:
    """Return the two obsolete operations, ``current_user`` and ``account``.

    :param prefix: the path below which they are, by default ``"/API/Notification"``.
    :param successor_prefix: the path or absolute URI below which their successors are;
        by default ``prefix``.
    :raises ValueError: as ``Operation`` does.
    """
    is_path = (
        isinstance(prefix, str)
        and (not prefix or prefix.startswith("/"))
        and not _NOT_IN_A_PATH.search(prefix)
    )
    require(is_path, "prefix", "a path that begins with '/', as a string", prefix)
    check_uri(
        "successor_prefix", "/" if successor_prefix in (None, "") else successor_prefix
    )
    below = prefix.rstrip("/")
    successors = (below if successor_prefix is None else successor_prefix).rstrip("/")
    retire = partial(Operation, rewrite_path=True, unify_session=True)
    return (
        retire(CURRENT_USER, "GET", f"{below}/", f"{successors}/CurrentUser"),
        retire(
            ACCOUNT,
            "POST",
            f"{below}/GetNotificationsForAccount/{{id}}/",
            f"{successors}/Account",
        ),
    )
