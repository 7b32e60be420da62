"""Conditions of an operation on the query and the headers of a request, for
applications that choose a view by these.

Knows nothing of paths and methods. Standard library only.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote_to_bytes

from flask_notifications.headers import TOKEN
from flask_notifications.validation import make_plain, require

# The values that fit, by the name of a parameter of the query or of a header.
Values: TypeAlias = Mapping[str, str | Sequence[str]]

# In the place of a value: the name is absent or empty, or any other value.
ABSENT = ""
PRESENT = "*"

# The environ of a request without a query and without headers.
NOTHING: Mapping[str, Any] = MappingProxyType({})

# The names and the values in a query and in a header.
_NAMES = {"query": re.compile("[^\ud800-\udfff]+"), "headers": re.compile(TOKEN)}
_VALUES = {
    "query": re.compile("[^\ud800-\udfff]*"),
    "headers": re.compile(r"[\x20-\x7e]*"),
}
# Members of a list, and parameters of a member: commas and semicolons inside of quotes
# do not separate (RFC 9110 section 5.6.4).
_MEMBER, _PART = (
    re.compile(rf'(?:[^{mark}"]++|"(?:[^"\\]++|\\.)*+"?)++', re.DOTALL) for mark in ",;"
)
_QUOTED = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


def fold(string: str) -> str:
    """Return a WSGI string with ASCII letters in lower case; every other byte has one
    case.
    """
    return (
        string.lower()
        if string.isascii()
        else string.encode("latin-1", "backslashreplace").lower().decode("latin-1")
    )


def environ_key(header: str) -> str:
    """Return the key of a header in the WSGI environ (PEP 3333)."""
    key = header.upper().replace("-", "_")
    return key if key in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{key}"


def check_values(argument: str, given: Any) -> dict[str, str | tuple[str, ...]] | None:
    """Return the checked conditions of an operation on the query or the headers, or
    ``None``.
    """
    require(
        given is None or isinstance(given, Mapping),
        argument,
        "a mapping of names to values",
        given,
    )
    checked: dict[str, str | tuple[str, ...]] = {}
    for name, value in (given or {}).items():
        is_name = isinstance(name, str) and _NAMES[argument].fullmatch(name)
        require(is_name, argument, "a mapping whose keys are names", {name: value})
        values = tuple(
            map(make_plain, value if isinstance(value, list | tuple) else [value])
        )
        fits = values and all(
            isinstance(each, str) and _VALUES[argument].fullmatch(each)
            for each in values
        )
        require(
            fits,
            argument,
            "a mapping whose values are strings or lists of one or more strings",
            {name: value},
        )
        checked[make_plain(name)] = values[0] if isinstance(value, str) else values
    is_unique = len({name.lower() for name in checked}) == len(checked)
    require(
        is_unique,
        argument,
        "a mapping of names that differ in more than letter case",
        given,
    )
    return checked or None


class SentValues:
    """The values of a request's query and headers, read when a condition asks for them."""

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self._environ = environ

    @cached_property
    def _query(self) -> dict[bytes, list[frozenset[bytes]]]:
        values: dict[bytes, list[frozenset[bytes]]] = {}
        for pair in self._environ.get("QUERY_STRING", "").split("&"):
            parts = (
                part.replace("+", " ").encode("latin-1", "replace")
                for part in pair.partition("=")
            )
            name, _equals, value = map(unquote_to_bytes, parts)
            values.setdefault(name.lower(), []).append(
                frozenset([value] if value else [])
            )
        return values

    def of(self, name: bytes | str) -> Sequence[frozenset[Any]]:
        """Return each value of the query by its name in lower case, or of a header by
        its key, as its parts.

        A value of the query has one part, a member of a header those of
        ``split_member``. What is absent or empty has none.
        """
        if isinstance(name, bytes):
            return self._query.get(name, [frozenset()])
        members = (
            split_member(found[0])
            for found in _MEMBER.finditer(self._environ.get(name, ""))
        )
        return [member for member in members if member] or [frozenset()]


def split_member(member: str) -> frozenset[str]:
    """Return the parts of a member of a header in lower case: its parameters, and after
    a ``;`` what precedes them.
    """
    first, *parameters = [found[0] for found in _PART.finditer(member)] or [""]
    if not first.strip():
        return frozenset()
    pairs = (parameter.partition("=") for parameter in parameters)
    return frozenset(
        [
            f";{fold(first.strip())}",
            *(
                fold(f"{name.strip()}={_unquote(value.strip())}")
                for name, _, value in pairs
            ),
        ]
    )


def _unquote(value: str) -> str:
    """Return the value of a parameter without its quotes, with which it means the same
    (RFC 9110 section 5.6.6).
    """
    return (
        re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL)
        if _QUOTED.fullmatch(value)
        else value
    )


class Condition(NamedTuple):
    """One name, in the query or of a header (its key in the environ), and the parts of
    the values that fit.
    """

    name: bytes | str
    values: frozenset[frozenset[Any]]
    accepts_absent: bool
    accepts_any: bool

    @classmethod
    def of(
        cls,
        name: bytes | str,
        values: str | Sequence[str],
        split: Callable[[str], frozenset[Any]],
    ) -> "Condition":
        """Return a condition on a name; two that accept the same requests are equal."""
        each = {values} if isinstance(values, str) else set(values)
        parts = frozenset(filter(None, map(split, each)))
        return cls(name, parts, ABSENT in each, PRESENT in each)

    def find(self, sent: SentValues) -> Iterator[bool]:
        """Yield for each value in a request whether it fits."""
        for own in sent.of(self.name):
            fits = self.accepts_any or any(parts <= own for parts in self.values)
            yield fits if own else self.accepts_absent


def list_conditions(
    query: Values | None, headers: Values | None
) -> frozenset[Condition]:
    """Return the conditions of an operation: none if it accepts all requests."""
    of_query = (
        Condition.of(
            name.encode().lower(), own, lambda value: frozenset([value.encode()])
        )
        for name, own in (query or {}).items()
    )
    of_headers = (
        Condition.of(environ_key(name), own, split_member)
        for name, own in (headers or {}).items()
    )
    return frozenset([*of_query, *of_headers])


def are_fulfilled(
    conditions: Iterable[Condition], sent: SentValues, *, is_live: bool
) -> bool:
    """Return whether a request fulfils all conditions.

    Of several values that a request has for a name, one that fits suffices for a
    retired operation, because the application may choose that one. All of them must fit
    for a live one.
    """
    quantify = all if is_live else any
    return all(quantify(condition.find(sent)) for condition in conditions)


def example_values(values: Values | None, any_value: str) -> dict[str, str]:
    """Return a value that fits for each name, as far as one must be there or may be."""
    lists = {
        name: [own] if isinstance(own, str) else own
        for name, own in (values or {}).items()
    }
    first = {name: next(filter(None, own), ABSENT) for name, own in lists.items()}
    return {
        name: any_value if value == PRESENT else value
        for name, value in first.items()
        if value
    }


def list_unmet(headers: Values | None) -> Iterator[tuple[str, str]]:
    """Yield the names and values of headers that no request can have: a member of a
    list holds no comma.
    """
    for name, values in (headers or {}).items():
        for value in [values] if isinstance(values, str) else values:
            if value and not (_MEMBER.fullmatch(value) and split_member(value)):
                yield name, value
