"""Header fields as WSGI passes them: lists of (name, value) pairs.

Knows the syntax that several rooms need (RFC 9110 section 5, RFC 9111 section 5.2, RFC 3986), how it is said that a
value does not fit, and nothing of what a field means to this library. Nothing here changes a list that it was given.
"""

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

Fields = list[tuple[str, str]]

# RFC 9110 section 5.6.2: token = 1*tchar
TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105 - a grammar

# RFC 9111 section 5.2: cache-directive = token [ "=" ( token / quoted-string ) ]
_DIRECTIVE = re.compile(rf'({TOKEN})(?:=(?:"(?:[^"\\]|\\.)*+"|[^\s,"]*))?')

# What may not stand between the angle brackets of a Link (RFC 8288 section 3): controls, space, delimiters, non-ASCII.
_NOT_IN_A_URI = re.compile(r'[^\x21-\x7e]|[<>"\\]')


def expect(holds: object, field: str, expected: str, given: object) -> None:
    """Raise ``ValueError``, unless ``holds``, that names the field, what was expected of it and what was given."""
    if not holds:
        message = f"{field} must be {expected}, not {given!r}"
        raise ValueError(message)


def check_uri(field: str, value: object) -> None:
    r"""Raise ``ValueError``, naming ``field``, unless ``value`` can stand in a header as a URI reference.

    Checked: text, not empty, printable ASCII without spaces and ``<>"\``.
    Not checked: that it resolves, or that anybody answers there.
    """
    expect(isinstance(value, str) and value, field, "a URI as text", value)
    expect(
        not _NOT_IN_A_URI.search(str(value)), field, 'a URI of printable ASCII without spaces, <, >, " and \\', value
    )


def without(fields: Iterable[tuple[str, str]], names: AbstractSet[str]) -> Fields:
    """Return a new list without the fields whose lower-case name is in ``names``."""
    return [field for field in fields if field[0].lower() not in names]


def values_of(fields: Fields, name: str) -> list[str]:
    """Return the values of the fields of that lower-case ``name``, in their order."""
    return [value for key, value in fields if key.lower() == name]


def merge(fields: Fields, name: str, members: Iterable[str]) -> Fields:
    """Return the list with ``members`` in the list-valued field ``name``, on one line (RFC 9110 section 5.3).

    Members that are there already, in any letter case, are not repeated. A missing field is added at the end.
    """
    values = values_of(fields, name.lower())
    present = [member.strip() for value in values for member in value.split(",") if member.strip()]
    known = {member.lower() for member in present}
    added = [member for member in members if member.lower() not in known]
    return _put(fields, name, ", ".join([*present, *added]))


def vary_on(fields: Fields, member: str) -> Fields:
    """Return the list with ``member`` in ``Vary``; a ``*`` stays as it is (RFC 9110 section 12.5.5)."""
    values = values_of(fields, "vary")
    if values == [member] or "*" in "".join(values):
        return fields
    return merge(fields, "Vary", [member])


def keep_private(fields: Fields) -> Fields:
    """Return the list with a ``Cache-Control`` that no shared cache may store (RFC 9111 section 5.2.2).

    ``public``, ``s-maxage`` and a ``private`` that names fields are dropped, ``private`` is added unless
    ``no-store`` is there, every other directive is kept.
    """
    values = values_of(fields, "cache-control")
    if values == ["no-store"]:
        return fields
    kept: list[str] = []
    closed = False
    for directive in (found for value in values for found in _DIRECTIVE.finditer(value)):
        name = directive[1].lower()
        if name not in {"public", "s-maxage", "private"}:
            kept.append(directive[0])
        closed = closed or name == "no-store"
    return _put(fields, "Cache-Control", ", ".join(kept if closed else [*kept, "private"]))


def _put(fields: Fields, name: str, value: str) -> Fields:
    """Return the list with one line of that field: where the first one stood, otherwise at the end."""
    result: Fields = []
    done = False
    for field in fields:
        if field[0].lower() != name.lower():
            result.append(field)
        elif not done:
            result.append((field[0], value))
            done = True
    if not done:
        result.append((name, value))
    return result
