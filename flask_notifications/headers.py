"""Operations on header lists, as WSGI has them: lists of (name, value) pairs.

Knows the syntax of headers (RFC 9110 section 5, RFC 9111 section 5.2), and nothing of what a header means to this
library. No function changes the list that it was given.
"""

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

HeaderList = list[tuple[str, str]]

# RFC 9110 section 5.6.2: token = 1*tchar
TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105 - a grammar

# RFC 9111 section 5.2: cache-directive = token [ "=" ( token / quoted-string ) ]
_DIRECTIVE = re.compile(rf'({TOKEN})(?:=(?:"(?:[^"\\]|\\.)*+"|[^\s,"]*))?')


def remove_headers(headers: Iterable[tuple[str, str]], names: AbstractSet[str]) -> HeaderList:
    """Return the headers whose lower-case name is not in ``names``."""
    return [header for header in headers if header[0].lower() not in names]


def values_of(headers: HeaderList, name: str) -> list[str]:
    """Return the values of the headers with this lower-case name, in their order."""
    return [value for key, value in headers if key.lower() == name]


def members_of(headers: HeaderList, name: str) -> list[str]:
    """Return the members of the list-valued headers with this lower-case name (RFC 9110 section 5.6.1)."""
    members = [member.strip() for value in values_of(headers, name) for member in value.split(",")]
    return list(filter(None, members))


def merge_members(headers: HeaderList, name: str, members: Iterable[str]) -> HeaderList:
    """Return the list with ``members`` in the list-valued header ``name``, on one line (RFC 9110 section 5.3).

    Members that are there already, in any letter case, are not repeated. A missing header is added at the end.
    """
    present = members_of(headers, name.lower())
    known = {member.lower() for member in present}
    added = [member for member in members if member.lower() not in known]
    return _put(headers, name, ", ".join([*present, *added]))


def vary_on(headers: HeaderList, member: str) -> HeaderList:
    """Return the list with ``member`` in ``Vary``; a ``*`` stays as it is (RFC 9110 section 12.5.5)."""
    if ("Vary", member) in headers:
        return headers
    return headers if "*" in members_of(headers, "vary") else merge_members(headers, "Vary", [member])


def keep_private(headers: HeaderList) -> HeaderList:
    """Return the list with a ``Cache-Control`` that no shared cache may store (RFC 9111 section 5.2.2).

    ``public``, ``s-maxage`` and a ``private`` that names headers are dropped, ``private`` is added unless
    ``no-store`` is there, every other directive is kept.
    """
    values = values_of(headers, "cache-control")
    directives = [found for value in values for found in _DIRECTIVE.finditer(value)]
    kept = [found[0] for found in directives if found[1].lower() not in {"public", "s-maxage", "private"}]
    if not any(found[1].lower() == "no-store" for found in directives):
        kept.append("private")
    return _put(headers, "Cache-Control", ", ".join(kept))


def forbid_storing(headers: HeaderList) -> HeaderList:
    """Return the list with ``Cache-Control: no-store`` and no other directive (RFC 9111 section 5.2.2.5)."""
    return _put(headers, "Cache-Control", "no-store")


def _put(headers: HeaderList, name: str, value: str) -> HeaderList:
    """Return the list with one line of that header: in the place of the first one, otherwise at the end."""
    result: HeaderList = []
    is_there = False
    for header in headers:
        if header[0].lower() != name.lower():
            result.append(header)
        elif not is_there:
            result.append((header[0], value))
            is_there = True
    return result if is_there else [*result, (name, value)]
