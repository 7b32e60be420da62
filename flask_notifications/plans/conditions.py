"""Conditions of an operation on the query and the headers of a request.

They are for applications that choose a view by a value of either. Knows nothing of
paths and methods. Standard library only.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote, unquote_plus

from flask_notifications.headers import TOKEN
from flask_notifications.validation import make_plain, require

# The values that fit, by the name of a parameter of the query or of a header.
Values: TypeAlias = Mapping[str, str | Sequence[str]]

# These two stand for a value that is absent or empty, and for any other value.
ABSENT = ""
PRESENT = "*"

# The environ of a request without a query and without headers.
NOTHING: Mapping[str, Any] = MappingProxyType({})

# What names and values of a query and of headers may consist of.
_NAMES = {"query": re.compile("[^\ud800-\udfff]+"), "headers": re.compile(TOKEN)}
_VALUES = {
    "query": re.compile("[^\ud800-\udfff]*"),
    "headers": re.compile(r"[\x20-\x7e]*"),
}
# A quoted string, in which commas and semicolons do not separate (RFC 9110 section
# 5.6.4). One that is never closed lasts to the end.
_QUOTED = re.compile(r'"(?:[^"\\]++|\\.?)*+"?', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
# Percent-encoded characters that need no encoding (RFC 3986 section 2.3).
_NEEDLESS_ESCAPE = re.compile(
    "%(?:2[de]|3[0-9]|[46][1-9a-f]|[57][0-9a]|5f|7e)", re.IGNORECASE
)
# Separate the words, members and parameters of a header.
_SEPARATORS = re.compile(r"[ \t,;]")
# Headers that proxies set, or that hold many values under one name.
_REFUSED_HEADERS = frozenset({"host", "cookie"})
# Headers that servers may leave empty when the client has not sent them (PEP 3333).
_OPTIONAL_KEYS = frozenset({"CONTENT_TYPE", "CONTENT_LENGTH"})


def fold(string: str) -> str:
    """Return a WSGI string with its ASCII letters, and no others, in lower case."""
    if string.isascii():
        return string.lower()
    return string.encode("latin-1", "backslashreplace").lower().decode("latin-1")


def environ_key(header: str) -> str:
    """Return the key of a header in the WSGI environ (PEP 3333)."""
    key = header.upper().replace("-", "_")
    return key if key in _OPTIONAL_KEYS else f"HTTP_{key}"


def check_values(
    argument: str, conditions: Any
) -> dict[str, str | tuple[str, ...]] | None:
    """Return the checked conditions on the query or the headers, or ``None``."""
    is_mapping = conditions is None or isinstance(conditions, Mapping)
    require(is_mapping, argument, "a mapping of names to values", conditions)
    checked: dict[str, str | tuple[str, ...]] = {}
    for name, value in (conditions or {}).items():
        is_name = isinstance(name, str) and _NAMES[argument].fullmatch(name)
        require(is_name, argument, "a mapping whose keys are names", {name: value})
        values = value if isinstance(value, list | tuple) else [value]
        expected = "a mapping whose values are strings or lists of one or more strings"
        require(values, argument, expected, {name: value})
        for item in values:
            is_value = isinstance(item, str) and _VALUES[argument].fullmatch(item)
            require(is_value, argument, expected, {name: value})
        plain = tuple(map(make_plain, values))
        checked[make_plain(name)] = plain[0] if isinstance(value, str) else plain
    names = {name.lower() for name in checked}
    expected = "a mapping of names that differ in more than letter case"
    require(len(names) == len(checked), argument, expected, conditions)
    if argument == "headers":
        expected = "free of Host and Cookie, which proxies and browsers change"
        require(names.isdisjoint(_REFUSED_HEADERS), argument, expected, conditions)
    return checked or None


class SentParameter:
    """The pairs of a query with one name, and all that readers may see in them.

    Some readers form-decode names and values and some do not, so both forms are kept.
    An empty value is an empty string in ``values``.
    """

    __slots__ = ("names", "pairs", "raw_names", "values")

    def __init__(self) -> None:
        self.pairs: list[tuple[str, str]] = []
        self.raw_names: set[str] = set()
        self.names: set[str] = set()
        self.values: set[str] = set()


def _read_query(query: str) -> dict[str, SentParameter]:
    """Return the parameters of a query by each lower-case name that readers may see."""
    parameters: dict[str, SentParameter] = {}
    for pair in query.split("&"):
        raw_name, _equals, raw_value = pair.partition("=")
        name, value = _form_decode(raw_name), _form_decode(raw_value)
        for key in {fold(raw_name), fold(name)}:
            if key not in parameters:
                parameters[key] = SentParameter()
            parameter = parameters[key]
            parameter.pairs.append((raw_name, raw_value))
            parameter.raw_names.add(raw_name)
            parameter.names.add(name)
            parameter.values.update((raw_value, value))
    return parameters


def _form_decode(string: str) -> str:
    if "%" in string or "+" in string:
        return unquote_plus(string, "latin-1")
    return string


def _decode_for_all(string: str) -> str | None:
    """Return a string of a query as all readers see it, or ``None`` if they differ."""
    if "+" in string or _NEEDLESS_ESCAPE.search(string):
        return None
    return unquote(string, "latin-1")


class Member(NamedTuple):
    """One member of a list-valued header, in lower case: its value and parameters."""

    value: str
    parameters: frozenset[str]


# The members for ``ABSENT`` and ``PRESENT``.
_ABSENT_MEMBER = Member(ABSENT, frozenset())
_PRESENT_MEMBER = Member(PRESENT, frozenset())


def split_member(member: str) -> Member:
    """Split one list member.

    ``text/html; q=1`` has the value ``text/html`` and the parameter ``q=1``.
    """
    value, *pairs = _split(member, ";")
    parameters = set()
    for pair in pairs:
        name, _equals, setting = pair.partition("=")
        setting = setting.strip()
        # Quotes do not change the meaning (RFC 9110 section 5.6.6).
        if len(setting) > 1 and setting[0] == setting[-1] == '"':
            setting = _ESCAPED.sub(r"\1", setting[1:-1])
        parameters.add(fold(f"{name.strip()}={setting}"))
    return Member(fold(value.strip()), frozenset(parameters))


def _split(string: str, separator: str) -> list[str]:
    """Split a string at each separator outside of quotes."""
    if '"' not in string:
        return string.split(separator)
    # Split a copy of the same length, in which quoted strings have no separator.
    masked = _QUOTED.sub(lambda quoted: "x" * len(quoted[0]), string)
    parts, start = [], 0
    for part in masked.split(separator):
        parts.append(string[start : start + len(part)])
        start += len(part) + 1
    return parts


class SentHeader:
    """The members of a header, and what a reader may see in them.

    A header that was not sent has one empty member, because readers see no difference.
    """

    __slots__ = ("is_default", "parameters")

    def __init__(self, key: str, header: str) -> None:
        # By the value of a member, the parameters of each member with this value.
        self.parameters: dict[str, set[frozenset[str]]] = {}
        for member in map(split_member, _split(header, ",")):
            self.parameters.setdefault(member.value, set()).add(member.parameters)
        # Every client sends this by default.
        is_any = self.parameters.keys() == {"*/*"}
        self.is_default: bool = key == "HTTP_ACCEPT" and is_any

    def includes(self, member: Member) -> bool:
        """Return whether a member has this value and at least these parameters."""
        parameters = self.parameters.get(member.value, set())
        return any(map(member.parameters.issubset, parameters))


class SentValues:
    """The query and the headers of a request, parsed once a condition asks for them."""

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self.environ = environ
        self._headers: dict[str, SentHeader] = {}

    @cached_property
    def query(self) -> dict[str, SentParameter]:
        """The parameters of the query by their names in lower case."""
        return _read_query(self.environ.get("QUERY_STRING", ""))

    def header(self, key: str) -> SentHeader:
        """Return a header by its key in the environ."""
        if key not in self._headers:
            self._headers[key] = SentHeader(key, self.environ.get(key, ""))
        return self._headers[key]


@dataclass(frozen=True, slots=True)
class QueryCondition:
    """Select requests by a parameter of the query.

    ``key`` is the name in lower case and ``name`` its spelling in the plan. They and
    the values are WSGI strings; the values may include ``ABSENT`` and ``PRESENT``.
    """

    key: str
    values: frozenset[str]
    name: str = field(compare=False)

    def may_hold(self, sent: SentValues) -> bool:
        """Return whether some reader may see one of the values in a request."""
        parameter = sent.query.get(self.key)
        if parameter is None:
            return ABSENT in self.values
        if not self.values.isdisjoint(parameter.values):
            return True
        if PRESENT in self.values and parameter.values != {ABSENT}:
            return True
        # A name that is spelled or encoded in another way is absent to some readers.
        is_seen = self.name in parameter.raw_names and self.name in parameter.names
        return ABSENT in self.values and not is_seen

    def must_hold(self, sent: SentValues) -> bool:
        """Return whether every reader must see one of the values in a request."""
        parameter = sent.query.get(self.key)
        if parameter is None:
            return ABSENT in self.values
        # Readers differ about repeated names, other spellings and empty values.
        name, value = parameter.pairs[0]
        if len(parameter.pairs) > 1 or _decode_for_all(name) != self.name or not value:
            return False
        return PRESENT in self.values or _decode_for_all(value) in self.values


@dataclass(frozen=True, slots=True)
class HeaderCondition:
    """Select requests by a header, whose ``key`` is that of the environ.

    ``members`` may include those for ``ABSENT`` and ``PRESENT``. ``values`` are only
    those that every reader understands in the same way, because they contain no
    parameters, commas or white space.
    """

    key: str
    members: frozenset[Member]
    values: frozenset[str] = field(compare=False)

    def may_hold(self, sent: SentValues) -> bool:
        """Return whether some reader may see one of the values in a request."""
        header = sent.header(self.key)
        if any(map(header.includes, self.members)):
            return True
        if header.is_default:
            return _ABSENT_MEMBER in self.members
        is_present = header.parameters.keys() != {ABSENT}
        return _PRESENT_MEMBER in self.members and is_present

    def must_hold(self, sent: SentValues) -> bool:
        """Return whether every reader must see one of the values in a request."""
        value = sent.environ.get(self.key)
        if value is None or (not value and self.key in _OPTIONAL_KEYS):
            return _ABSENT_MEMBER in self.members
        if _PRESENT_MEMBER in self.members and "," not in value:
            return ABSENT not in sent.header(self.key).parameters
        return value in self.values


Condition: TypeAlias = QueryCondition | HeaderCondition


def list_conditions(
    query: Values | None, headers: Values | None
) -> frozenset[Condition]:
    """Return the conditions of an operation: none if it accepts all requests."""
    conditions: list[Condition] = []
    for name, values in (query or {}).items():
        wsgi_name = _to_wsgi(name)
        accepted = frozenset(map(_to_wsgi, list_values(values)))
        conditions.append(QueryCondition(fold(wsgi_name), accepted, wsgi_name))
    for name, values in (headers or {}).items():
        members = frozenset(map(split_member, list_values(values)))
        simple = frozenset(
            value
            for value in list_values(values)
            if value and not _SEPARATORS.search(value)
        )
        conditions.append(HeaderCondition(environ_key(name), members, simple))
    return frozenset(conditions)


def list_values(values: str | Sequence[str]) -> Sequence[str]:
    """Return the values of a condition as a list; a single one may be a string."""
    return [values] if isinstance(values, str) else values


def _to_wsgi(string: str) -> str:
    return string.encode().decode("latin-1")


def are_fulfilled(
    conditions: Iterable[Condition], sent: SentValues, *, is_live: bool
) -> bool:
    """Return whether a request fulfils all conditions of an operation.

    Applications read the query and the headers in different ways. The conditions of a
    deprecated operation hold if they hold for some reader, those of a live operation
    only if they hold for every reader.
    """
    for condition in conditions:
        holds = condition.must_hold(sent) if is_live else condition.may_hold(sent)
        if not holds:
            return False
    return True


def example_values(values: Values | None, any_value: str) -> dict[str, str]:
    """Return one accepted value per name; leave out names that must be absent."""
    examples = {}
    for name, accepted in (values or {}).items():
        value = next(filter(None, list_values(accepted)), ABSENT)
        if value:
            examples[name] = any_value if value == PRESENT else value
    return examples


def list_spaced(values: Values | None) -> list[str]:
    """Return the values with a space, which clients encode in two ways."""
    spaced = []
    for accepted in (values or {}).values():
        spaced += [value for value in list_values(accepted) if " " in value]
    return spaced
