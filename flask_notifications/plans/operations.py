"""The operations, how old clients spell a path, and which operation a request matches.

An operation is a method and an OpenAPI path template. Knows nothing of dates, sessions
or responses.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
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
)

CURRENT_USER = "current_user"
ACCOUNT = "account"

# Every method but OPTIONS: a browser must get through to ask whether it may send the
# request itself.
ANY_METHOD = "*"
# The last segment of a subtree's path; in a successor, the rest of the request's path.
REST = "**"

_METHOD = re.compile(TOKEN)
# Request methods to precompute matches for, where they are more than the operation's
# own method.
_READY_METHODS = {
    "GET": ("GET", "HEAD"),
    ANY_METHOD: ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"),
}
# By request method: the methods of the operations that it reaches, best first. For
# every other one these are the method itself and ``*``.
_ACCEPTED = {"HEAD": ("HEAD", "GET", ANY_METHOD), "OPTIONS": ("OPTIONS",)}
# A parameter in a path template, and its name.
PARAMETER = re.compile(r"\{([\w.-]+)\}")
# Parameters as routers write them (OpenAPI uses braces), and characters that no path
# segment has. The second pattern: characters that must be percent-encoded in a path.
_OTHER_SYNTAX = re.compile(r"[<>{}*|\\]|^[:(]")
_NOT_IN_A_PATH = re.compile(r"[\x00-\x20\x7f?#\ud800-\udfff]")
_DOTS = frozenset({".", ".."})
# Segments that a strict router does not accept as the value of a parameter.
_NO_VALUES = _DOTS | {""}

# An application that responds to a lookalike with one of these did not take it for the
# operation.
NOT_REACHED = frozenset({404, 405})

# The version of the matching rules in ``OperationTable``. Raise it when they change:
# calls that were counted under other rules prove nothing.
RULES_VERSION = 5

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


# Steps by which lenient routers change a path before they match it. A router takes
# any of them, in this order. Bytes that are not UTF-8 arrive here as surrogates.
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
    """Name an operation of an HTTP API by its method, path template and conditions.

    The template is one of OpenAPI. Paths match in any ASCII letter case, with or
    without a trailing slash.

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
    :param headers: the same for headers. Values match in any ASCII letter case. A list
        matches if one of its members does, with or without the member's parameters. By
        default any headers match.
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
    template: "Template" = field(init=False, repr=False, compare=False)

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
        conditions = list_conditions(self.query, self.headers)
        template = Template(self.method, self.path, conditions)
        object.__setattr__(self, "template", template)
        if self.successor is not None:
            self._check_successor(self.successor)
        for name in ("rewrite_path", "unify_session"):
            is_set = getattr(self, name)
            require(isinstance(is_set, bool), name, "True or False", is_set)

    def _check_successor(self, successor: str) -> None:
        check_uri("successor", successor)
        left = successor
        for name in self.template.parameters.values():
            left = left.replace(f"{{{name}}}", "")
        expected = f"a URI whose braces hold parameters of path {self.path!r}"
        require(set("{}").isdisjoint(left), "successor", expected, successor)
        is_below = self.template.is_subtree or REST not in left
        expected = f"without {REST}, because path {self.path!r} does not end in /{REST}"
        require(is_below, "successor", expected, successor)


class Match(NamedTuple):
    """An operation that a request may reach.

    ``path`` is the request's path in the template's spelling; ``parameters`` are the
    segments in place of the template's parameters, by name, and for a subtree, as
    ``**``, the rest of the path. They are WSGI strings: percent-decoded bytes, read
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
        """The successor with the parameters filled in, percent-encoded.

        ``None`` if one of them has an empty segment or a dot segment, because the link
        could lead elsewhere.
        """
        uri = self.operation.successor
        if uri is None or not self.parameters:
            return uri
        if not self.is_safe:
            return None
        if "{" in uri or REST in uri:
            uri = fill_in(uri, self.parameters)
        return uri

    @property
    def is_safe(self) -> bool:
        """Whether no parameter has a dot segment or an empty segment.

        Some routers resolve these, and the path would become another one.
        """
        for name, value in self.parameters.items():
            if name != REST and not value:
                return False
            if "//" in value or not _DOTS.isdisjoint(value.split("/")):
                return False
        return True


def match_operation(
    operation: Operation,
    path: str,
    is_lookalike: bool = False,
    vary: tuple[str, ...] = (),
) -> Match:
    """Return the match of a path that fits the template of an operation."""
    template = operation.template
    segments, spelled = path.split("/"), template.spelled.copy()
    values = {}
    for place, name in template.parameters.items():
        values[name] = spelled[place] = segments[place]
    if template.is_subtree:
        rest = segments[len(spelled) :]
        values[REST] = "/".join(["", *rest])
        spelled += rest
    return Match(operation, "/".join(spelled), values, is_lookalike, vary)


def fill_in(template: str, parameters: Mapping[str, str]) -> str:
    """Return a template with the parameters in braces and ``**`` filled in.

    The values are WSGI strings, and are percent-encoded. The rest begins with its own
    slash, so it replaces ``/**``, or ``**`` alone where no slash precedes it. A path
    that would lose its leading slash keeps it.
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
    """What two deprecated operations must differ in.

    ``segments`` has literals in lower case and ``None`` for each parameter.
    ``has_slash`` is ``None`` for a path and everything below it.
    """

    method: str
    has_slash: bool | None
    segments: tuple[str | None, ...]
    conditions: frozenset[Condition]


class Template:
    """A path template, taken apart."""

    def __init__(
        self, method: str, path: str, conditions: frozenset[Condition]
    ) -> None:
        is_absolute = isinstance(path, str) and path.startswith("/")
        require(is_absolute, "path", "a string that begins with '/'", path)
        self.is_subtree: bool = path.endswith(f"/{REST}")
        # Paths in a subtree may or may not end with a slash.
        has_slash = None if self.is_subtree else path.endswith("/")
        segments = path.split("/")[1:-1] if self.is_subtree else _split(path)
        # The literals between the slashes of the path, "" for a parameter and before
        # the first slash; and the names of the parameters by their place in it.
        self.spelled: list[str] = [""]
        self.parameters: dict[int, str] = {}
        folded: list[str | None] = []
        for place, segment in enumerate(segments, 1):
            if PARAMETER.fullmatch(segment):
                self.parameters[place] = segment[1:-1]
                self.spelled.append("")
                folded.append(None)
            else:
                literal = _parse_literal(path, segment)
                self.spelled.append(literal)
                folded.append(fold(literal))
        # For ``rank``: 0 for a literal, 1 for a parameter, 2 for the template's end.
        self._ranks = [1 if segment is None else 0 for segment in folded] + [2]
        if has_slash:
            self.spelled.append("")
        is_unique = len(set(self.parameters.values())) == len(self.parameters)
        expected = "a template whose parameters have different names"
        require(is_unique, "path", expected, path)
        self.shape: Shape = Shape(method, has_slash, tuple(folded), conditions)

    def has_spelling(self, segments: list[str]) -> bool:
        """Return whether the literals are in the letter case of a request's path."""
        for literal, segment in zip(self.spelled[1:], segments, strict=False):
            if literal and literal != segment:
                return False
        return True

    def rank(
        self, methods: tuple[str, ...], segments: list[str], has_slash: bool
    ) -> tuple[Any, ...]:
        """Return a sort key that puts the template that routers prefer first.

        Compared in this order, the first difference decides:

        1. segments from the left: a literal before a parameter before the template's
           end, so the longer of two subtrees wins;
        2. the same trailing slash as the request;
        3. some conditions before none;
        4. the request's own method, then ``GET`` for ``HEAD``, then ``*``;
        5. a single path before a subtree;
        6. the same letter case as the request.
        """
        return (
            self._ranks,
            not self.fits_slash(has_slash),
            not self.shape.conditions,
            methods.index(self.shape.method),
            self.is_subtree,
            not self.has_spelling(segments),
        )

    def fits_slash(self, has_slash: bool) -> bool:
        """Return whether a request has the same trailing slash; a subtree fits both."""
        return self.shape.has_slash in {None, has_slash}


def decode_path(path: str) -> str:
    """Turn a path into a WSGI string.

    Percent-encoding is decoded, and other characters are encoded as UTF-8.
    """
    return unquote_to_bytes(path).decode("latin-1")


def _parse_literal(path: str, segment: str) -> str:
    """Return a literal segment of a template as a WSGI string."""
    expected = (
        f"a template, which may end in '/{REST}', with its parameters as segments in"
        " braces, as in '/items/{id}'"
    )
    require(not _OTHER_SYNTAX.search(segment), "path", expected, path)
    expected = "free of spaces, control characters, ? and #"
    require(not _NOT_IN_A_PATH.search(segment), "path", expected, path)
    literal = decode_path(segment)
    can_match = literal not in _NO_VALUES and "/" not in literal
    expected = "free of empty segments, dot segments and encoded slashes"
    require(can_match, "path", expected, path)
    return literal


class Node:
    """A place in a tree of templates.

    ``following`` has the next places by their segments, which are ``None`` for a
    parameter; ``operations`` and ``subtrees`` have the operations that end here.
    """

    def __init__(self) -> None:
        self.following: dict[str | None, Node] = {}
        self.operations: list[Operation] = []
        self.subtrees: list[Operation] = []

    def add(self, operation: Operation) -> None:
        """Add an operation to the tree that begins here."""
        node = self
        for segment in operation.template.shape.segments:
            node = node.following.setdefault(segment, Node())
        is_subtree = operation.template.is_subtree
        (node.subtrees if is_subtree else node.operations).append(operation)

    def find(
        self, segments: list[str], *, is_lenient: bool, refuses_empty_rests: bool
    ) -> list[Operation]:
        """Return every operation whose template fits a path.

        :param segments: the path's, in lower case, without a trailing slash.
        :param is_lenient: whether empty and dot segments can be parameter values.
        :param refuses_empty_rests: whether the rest of a path below a subtree must not
            begin with an empty segment.
        """
        operations: list[Operation] = []
        nodes = [self]
        for segment in segments:
            is_value = is_lenient or segment not in _NO_VALUES
            following = []
            for node in nodes:
                # ``segment`` begins the rest of the path below this node.
                if node.subtrees and (segment or not refuses_empty_rests):
                    operations += node.subtrees
                if segment in node.following:
                    following.append(node.following[segment])
                if is_value and None in node.following:
                    following.append(node.following[None])
            if not following:
                return operations
            nodes = following
        for node in nodes:
            operations += node.subtrees + node.operations
        return operations


class OperationTable:
    """Find the operations that a request may reach.

    :param live: those of the operations that are not deprecated.

    Routers read a path in different ways: as it was sent; in another ASCII letter case;
    with or without its trailing slash; or leniently, as ``_LENIENT_READINGS`` do. In
    each reading the most specific operation wins, as ``Template.rank`` says, of those
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
        self._live = frozenset(operation.name for operation in live)
        are_live = [operation.name in self._live for operation in self.operations]
        for clash in find_clashes(zip(self.operations, are_live, strict=True)):
            pair = f"{self.operations[clash.first]} and {self.operations[clash.place]}"
            message = f"operations must differ in {clash.difference}, not {pair}"
            raise ValueError(message)
        # The operations whose templates are paths, by these in lower case and without a
        # trailing slash. The others are in a tree.
        self._literals: dict[str, list[Operation]] = {}
        self._root: Node | None = None
        for operation in self.operations:
            template = operation.template
            if template.parameters or template.is_subtree:
                self._root = self._root or Node()
                self._root.add(operation)
            else:
                path = fold("/".join(template.spelled)).removesuffix("/")
                self._literals.setdefault(path, []).append(operation)
        # A cache for the usual requests: the matches by method and path, for paths
        # without parameters where no condition can change the result.
        self._ready: dict[tuple[str, str], list[Match]] = {}
        for operation in self.operations:
            template = operation.template
            path = "/".join(template.spelled)
            if template.parameters or not _is_ordinary(path):
                continue
            rivals = self._find_operations(path)
            if not any(rival.template.shape.conditions for rival in rivals):
                methods = (operation.method,)
                for method in _READY_METHODS.get(operation.method, methods):
                    matches = self._choose(rivals, method, path, SentValues({}))
                    self._ready[method, path] = matches

    def match(
        self, method: str, path: str, environ: Mapping[str, Any] = NOTHING
    ) -> Match | None:
        """Return the match without lenient readings, or ``None``.

        A deprecated operation precedes a live one. For code that is the router itself,
        or compares operations. A middleware does not know what its router accepts, and
        needs ``find``.
        """
        matches = self._ready.get((method, path))
        if matches is None:
            operations = self._find_operations(path)
            matches = self._choose(operations, method, path, SentValues(environ))
        return min(matches, key=self._is_live, default=None)

    def find(
        self, method: str, path: str, environ: Mapping[str, Any] = NOTHING
    ) -> list[Match]:
        """Return a match for each operation that some router may take a request for.

        The likeliest is the first.

        A path in the exact spelling of a live operation is that operation, however
        lenient routers read it.
        """
        ready = self._ready.get((method, path))
        if ready is not None:
            return ready
        operations = self._find_operations(path)
        is_ordinary = _is_ordinary(path)
        if is_ordinary and not operations:
            return []
        values = SentValues(environ)
        strict = self._choose(operations, method, path, values)
        if is_ordinary or self._is_surely_live(strict, path):
            return strict
        return self._add_lookalikes(strict, method, path, values)

    def _add_lookalikes(
        self, strict: list[Match], method: str, path: str, sent: SentValues
    ) -> list[Match]:
        """Return the strict matches, then those of lenient readings of the path."""
        readings = list(strict)
        for lenient_path in _read_leniently(path):
            # Routers differ about ``//`` below a subtree, so try both behaviours.
            behaviours = (False, True) if "//" in lenient_path else (False,)
            for refuses in behaviours:
                operations = self._find_operations(
                    lenient_path, is_lenient=True, refuses_empty_rests=refuses
                )
                readings += self._choose(
                    operations, method, lenient_path, sent, is_lookalike=True
                )
        # One match per operation; the first wins, so a strict one is no lookalike.
        matches: dict[str, Match] = {}
        # The choice among readings depends on the headers of all of them.
        vary: dict[str, None] = {}
        for match in readings:
            matches.setdefault(match.operation.name, match)
            vary.update(dict.fromkeys(match.vary))
        return [match._replace(vary=tuple(vary)) for match in matches.values()]

    def methods(self, path: str) -> list[str]:
        """Return the methods of a path, for ``Allow`` (RFC 9110 section 10.2.1).

        The list is empty if no operation has the path.
        """
        operations = self._find_operations(path)
        methods = {operation.method for operation in operations}
        if "GET" in methods:
            methods.add("HEAD")
        return sorted(methods)

    def _find_operations(
        self, path: str, *, is_lenient: bool = False, refuses_empty_rests: bool = False
    ) -> list[Operation]:
        """Return every operation of a path in any letter case, with or without a slash.

        Lenient routers, such as Falcon's, accept dot segments and empty segments as
        parameter values. Some, such as Flask's for ``<path:rest>``, refuse the rest of
        a path if it begins with an empty segment.
        """
        folded = fold(path).removesuffix("/")
        operations = self._literals.get(folded, [])
        if self._root is None:
            return operations
        before_slash, *segments = folded.split("/")
        if before_slash:  # the path does not begin with a slash
            return operations
        return operations + self._root.find(
            segments, is_lenient=is_lenient, refuses_empty_rests=refuses_empty_rests
        )

    def _choose(
        self,
        operations: list[Operation],
        method: str,
        path: str,
        sent: SentValues,
        *,
        is_lookalike: bool = False,
    ) -> list[Match]:
        """Return a match for each operation that some router chooses for a path.

        The matches list every header that the choice depended on. Where it is unclear
        whether conditions hold, those of a deprecated operation do, and those of a
        live one do not.
        """
        path = path or "/"
        winners: dict[str, Operation] = {}
        vary: dict[str, None] = {}
        for accepted in _list_accepted(method):
            fulfilled = []
            for operation in operations:
                if operation.method not in accepted:
                    continue
                if operation.headers:
                    vary.update(dict.fromkeys(operation.headers))
                conditions = operation.template.shape.conditions
                is_live = operation.name in self._live
                if are_fulfilled(conditions, sent, is_live=is_live):
                    fulfilled.append(operation)
            chosen = fulfilled
            if len(fulfilled) > 1:
                chosen = _find_winners(fulfilled, accepted, path)
            for winner in chosen:
                winners[winner.name] = winner
        matches = []
        for winner in winners.values():
            match = match_operation(winner, path, is_lookalike, tuple(vary))
            matches.append(match)
        return matches

    def _is_live(self, match: Match) -> bool:
        return match.operation.name in self._live

    def _is_surely_live(self, matches: list[Match], path: str) -> bool:
        """Return whether all matches are live, and one is spelled exactly as the path.

        By the rule of ``find``, lenient readings then do not count. The match must be
        safe, because a router may resolve its dot segments and get another path.
        """
        is_exact = False
        spelling = path.removesuffix("/")
        for match in matches:
            if not self._is_live(match):
                return False
            if match.is_safe and match.path.removesuffix("/") == spelling:
                is_exact = True
        return is_exact


# Saves a tenth of the instructions of a request that is not ready.
@lru_cache(maxsize=64)
def _list_accepted(method: str) -> tuple[tuple[str, ...], ...]:
    """Return the methods of the operations that a request may reach.

    They are listed for each way in which routers read the request's method: as it was
    sent, and in upper case. ``get`` gives ``(("get", "*"), ("GET", "*"))``.
    """
    spellings = dict.fromkeys([method, method.upper()])
    return tuple(
        _ACCEPTED.get(spelling, (spelling, ANY_METHOD)) for spelling in spellings
    )


def _find_winners(
    operations: list[Operation], methods: tuple[str, ...], path: str
) -> list[Operation]:
    """Return the operations that win for some router.

    Routers are strict about letter case and the trailing slash, about one of them, or
    about neither. Several operations win for one router if they differ in nothing but
    their conditions.
    """
    has_slash, segments = path.endswith("/"), _split(path)

    def rank(operation: Operation) -> tuple[Any, ...]:
        return operation.template.rank(methods, segments, has_slash)

    same_case = [
        operation
        for operation in operations
        if operation.template.has_spelling(segments)
    ]
    winners: list[Operation] = []
    for is_strict in (True, False):
        for group in (same_case, operations):
            candidates = [
                operation
                for operation in group
                if not is_strict or operation.template.fits_slash(has_slash)
            ]
            best = min(map(rank, candidates), default=None)
            winners += [item for item in candidates if rank(item) == best]
    return winners


def _is_ordinary(path: str) -> bool:
    """Return whether no lenient router reads a path in another way."""
    return (
        path[:1] == "/"
        and path.isascii()
        and path.isprintable()
        and " " not in path
        and "//" not in path
        and "/." not in path
    )


def _read_leniently(path: str) -> list[str]:
    """Return a path, and then the paths that lenient routers read in its place.

    A router takes some of the steps in ``_LENIENT_READINGS`` and skips the others, so
    these are the results of all combinations.
    """
    readings = [path.encode("latin-1", "replace").decode("utf-8", "surrogateescape")]
    for read in _LENIENT_READINGS:
        readings = list(dict.fromkeys([*readings, *map(read, readings)]))
    return [
        reading.encode("utf-8", "surrogateescape").decode("latin-1")
        for reading in readings
    ]


class Clash(NamedTuple):
    """Two operations of a list that would get the same requests.

    ``place`` is the index of the later one, ``first`` that of the earlier one, and
    ``difference`` says what they must differ in.
    """

    place: int
    first: int
    difference: str


def find_clashes(operations: Iterable[tuple[Operation, bool]]) -> Iterator[Clash]:
    """Yield each clash of an operation with an earlier one.

    Two deprecated operations clash if they differ only in letter case or parameter
    names. A live one and a deprecated one clash only if their letter case is the same
    too. Two live ones never clash.

    :param operations: each with whether it is live.
    """
    # The first operation of each spelling, and whether it is live.
    spellings: dict[object, tuple[int, bool]] = {}
    # The first deprecated operation of each shape, in any letter case.
    shapes: dict[Shape, int] = {}
    for place, (operation, is_live) in enumerate(operations):
        shape = operation.template.shape
        spelling = (shape, tuple(operation.template.spelled))
        same_spelling, was_live = spellings.setdefault(spelling, (place, is_live))
        if is_live != was_live:
            difference = "more than parameter names, because only one of them is live"
            yield Clash(place, same_spelling, difference)
        elif not is_live:
            same_shape = shapes.setdefault(shape, place)
            if same_shape != place:
                difference = "more than letter case and parameter names"
                yield Clash(place, same_shape, difference)


def _split(path: str) -> list[str]:
    """Return the segments of a path that begins with a slash, less a trailing slash."""
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
