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

# What lets a shared cache store a response, or some of its headers.
_SHARED = frozenset({"public", "s-maxage", "private"})


def values_of(headers: HeaderList, name: str) -> list[str]:
    """Return the values of the headers with this lower-case name, in their order."""
    return [value for key, value in headers if key.lower() == name]


def members_of(values: Iterable[str]) -> list[str]:
    """Return the members of the values of a list-valued header (RFC 9110 section
    5.6.1).
    """
    return list(filter(None, map(str.strip, ",".join(values).split(","))))


class ResponseHeaders:
    """Edit a copy of the headers of a response, whose names are put in lower case once."""

    __slots__ = ("lines", "names")

    def __init__(self, headers: HeaderList) -> None:
        self.lines: HeaderList = list(headers)
        self.names: list[str] = [name.lower() for name, _value in self.lines]

    def put(self, name: str, value: str) -> None:
        """Leave one line of a header: in the place of the first one, otherwise at the
        end.
        """
        self._replace(name, value, lambda _values: value)

    def edit(self, name: str, edit: Callable[[str], str]) -> None:
        """Replace the value of each header with this lower-case name."""
        self.lines = [
            (own, edit(value) if own.lower() == name else value)
            for own, value in self.lines
        ]

    def merge(self, name: str, members: Sequence[str], *, unless: str = "") -> None:
        """Put ``members`` into a list-valued header, on one line (RFC 9110 section
        5.3).

        Members that are there already, in any letter case, are not repeated. The member
        ``unless`` includes all others, as the ``*`` of ``Vary`` does.
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

    def announce(self, dates: HeaderList, links: Sequence[str]) -> None:
        """Put one line of each date at the end, and links into the last line of
        ``Link``.

        Links that another middleware has announced already are not repeated.
        """
        all_links = ", ".join(links)
        lines: HeaderList = []
        last_link, linked = None, ""
        for name, line in zip(self.names, self.lines, strict=True):
            if name == "link" and line[1] != all_links:
                last_link = len(lines)
                linked += f", {line[1]}, "
            if name not in _DATES and (name != "link" or line[1] != all_links):
                lines.append(line)
        missing = ", ".join(link for link in links if f", {link}, " not in linked)
        if missing and last_link is not None:
            name, value = lines[last_link]
            lines[last_link] = (name, f"{value}, {missing}")
        lines += dates
        if missing and last_link is None:
            lines.append(("Link", missing))
        self.lines = lines
        self.names = [name.lower() for name, _value in lines]

    def remove(self, names: frozenset[str]) -> None:
        """Leave out all headers with these lower-case names."""
        self.lines = [line for line in self.lines if line[0].lower() not in names]
        self.names = [name for name in self.names if name not in names]

    def _replace(
        self, name: str, value: str, compute: Callable[[list[str]], str]
    ) -> None:
        """Leave one line of a header: with what a function of its values returns, or
        with a value if it has none.
        """
        key = name.lower()
        if key not in self.names:
            self.names.append(key)
            self.lines.append((name, value))
            return
        place = self.names.index(key)
        own, first = self.lines[place]
        values = [first]
        while key in self.names[place + 1 :]:
            other = self.names.index(key, place + 1)
            values.append(self.lines.pop(other)[1])
            del self.names[other]
        self.lines[place] = (own, compute(values))


def _merge(values: list[str], members: Sequence[str], unless: str) -> str:
    own = members_of(values)
    known = set(map(str.lower, own))
    missing = (
        []
        if unless in known
        else [member for member in members if member.lower() not in known]
    )
    return ", ".join(own + missing)


def _keep_private(values: list[str]) -> str:
    directives = _DIRECTIVE.findall(",".join(values))
    kept = [directive for directive, name in directives if name.lower() not in _SHARED]
    return ", ".join(kept if "no-store" in map(str.lower, kept) else [*kept, "private"])
