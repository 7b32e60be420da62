"""Operations on header lists, as WSGI has them: lists of (name, value) pairs.

Knows the syntax of headers (RFC 9110 section 5, RFC 9111 section 5.2), and nothing of
the meaning of a header to this library.
"""

import re
from collections.abc import Callable, Iterable, Sequence

HeaderList = list[tuple[str, str]]

# RFC 9110 section 5.6.2: token = 1*tchar
TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105 - a grammar

# RFC 9111 section 5.2: cache-directive = token [ "=" ( token / quoted-string ) ]
_DIRECTIVE = re.compile(rf'(({TOKEN})(?:=(?:"(?:[^"\\]|\\.)*+"|[^\s,"]*))?)')

# Headers that only the middleware sends (RFC 9745, RFC 8594); two lines of either are
# invalid.
_DATES = frozenset({"deprecation", "sunset"})

# Directives that let a shared cache store a response, or all but some of its headers.
_SHARED = frozenset({"public", "s-maxage", "private"})


def values_of(headers: HeaderList, name: str) -> list[str]:
    """Return the values of the headers with this lower-case name, in their order."""
    return [value for key, value in headers if key.lower() == name]


def members_of(values: Iterable[str]) -> list[str]:
    """Return the members of a list-valued header (RFC 9110 section 5.6.1)."""
    return list(filter(None, map(str.strip, ",".join(values).split(","))))


class ResponseHeaders:
    """Edit a copy of the headers of a response.

    ``names`` are the names of ``lines`` in lower case.
    """

    __slots__ = ("lines", "names")

    def __init__(self, headers: HeaderList) -> None:
        self.lines: HeaderList = list(headers)
        self.names: list[str] = []
        for name, _value in self.lines:
            self.names.append(name.lower())

    def append(self, name: str, value: str) -> None:
        """Add a header at the end."""
        self.names.append(name.lower())
        self.lines.append((name, value))

    def edit(self, name: str, edit: Callable[[str], str]) -> None:
        """Replace the value of each header with this lower-case name."""
        for place, key in enumerate(self.names):
            if key == name:
                spelling, value = self.lines[place]
                self.lines[place] = (spelling, edit(value))

    def merge(self, name: str, members: Sequence[str], *, unless: str = "") -> None:
        """Add members to a list-valued header, on one line (RFC 9110 section 5.3).

        Members that are there already, in any letter case, are not repeated. Nothing is
        added if the member ``unless`` is there, as the ``*`` of ``Vary``.
        """
        value = ", ".join(members)
        if (name, value) not in self.lines:
            self._replace(name, value, lambda values: _merge(values, members, unless))

    def keep_private(self) -> None:
        """Let no shared cache store the response (RFC 9111 section 5.2.2).

        ``public``, ``s-maxage`` and a ``private`` that names headers are dropped,
        ``private`` is added unless ``no-store`` is there, every other directive is
        kept.
        """
        self._replace("Cache-Control", "private", _keep_private)

    def remove(self, names: frozenset[str]) -> None:
        """Leave out all headers with these lower-case names."""
        self.lines = [line for line in self.lines if line[0].lower() not in names]
        self.names = [name for name in self.names if name not in names]

    def announce(self, dates: HeaderList, links: Sequence[str]) -> HeaderList:
        """Return the headers with the dates at the end, and links in the last ``Link``.

        Dates that are there already are replaced. Links that another middleware has
        announced are not repeated.
        """
        announced = ", ".join(links)
        lines: HeaderList = []
        # The place of the last ``Link``, and all links with a comma on both sides.
        last_link, other_links = None, ""
        for name, line in zip(self.names, self.lines, strict=True):
            if name == "link":
                if line[1] == announced:  # it is added again below
                    continue
                last_link = len(lines)
                other_links += f", {line[1]}, "
            if name not in _DATES:
                lines.append(line)
        if last_link is not None:
            name, value = lines[last_link]
            for link in links:
                if f", {link}, " not in other_links:
                    value += f", {link}"
            lines[last_link] = (name, value)
        lines += dates
        if last_link is None and links:
            lines.append(("Link", announced))
        return lines

    def _replace(
        self, name: str, value: str, compute: Callable[[list[str]], str]
    ) -> None:
        """Leave one line of a header, with the result of ``compute`` for its values.

        A header that is missing is added with ``value``.
        """
        key = name.lower()
        if key not in self.names:
            self.append(name, value)
            return
        place = self.names.index(key)
        spelling, first = self.lines[place]
        values = [first]
        while key in self.names[place + 1 :]:
            further = self.names.index(key, place + 1)
            values.append(self.lines.pop(further)[1])
            del self.names[further]
        self.lines[place] = (spelling, compute(values))


def _merge(values: list[str], members: Sequence[str], unless: str) -> str:
    merged = members_of(values)
    present = set(map(str.lower, merged))
    if unless not in present:
        for member in members:
            if member.lower() not in present:
                merged.append(member)
    return ", ".join(merged)


def _keep_private(values: list[str]) -> str:
    directives = []
    for directive, name in _DIRECTIVE.findall(",".join(values)):
        if name.lower() not in _SHARED:
            directives.append(directive)
    if "no-store" not in map(str.lower, directives):
        directives.append("private")
    return ", ".join(directives)
