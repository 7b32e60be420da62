"""Read ``Link`` headers strictly (RFC 8288 section 3).

Common parsers skip unreadable parts.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from flask_notifications.headers import TOKEN

_PARAMETER = (
    rf'[ \t]*;[ \t]*(?:({TOKEN})(?:[ \t]*=[ \t]*(?:({TOKEN})|"((?:[^"\\]|\\.)*)"))?)?'
)
_NEXT_PARAMETER = re.compile(_PARAMETER)
# A link, and the commas before another one.
_LINK = re.compile(rf"<([^<>]*)>((?:{_PARAMETER})*+)[ \t]*(?:,[ \t,]*|\Z)")
_ESCAPED = re.compile(r"\\(.)")
# RFC 3986 appendix A: the characters of a URI reference.
_URI_REFERENCE = re.compile(
    r"(?:[\w\-.~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*", re.ASCII
)
# More than these would keep a client busy.
_MAX_LINKS = 1_000


class Link(NamedTuple):
    """A link: the URI reference as it was sent, its relations in lower case, and what
    it is a link of.

    ``anchor`` is a URI reference too, and empty for the resource that was requested
    (RFC 8288 section 3.2).
    """

    target: str
    relations: tuple[str, ...]
    anchor: str = ""


def parse_links(value: str) -> list[Link]:
    """Return the links in the value of one header line, or raise ``ValueError`` with
    the reason if it is invalid.
    """
    links: list[Link] = []
    place = len(value) - len(value.lstrip(" \t,"))
    while place < len(value):
        link = _LINK.match(value, place)
        if link is None:
            shown = value[place:]
            message = f"a link is like '</new>; rel=\"successor-version\"', with a comma before the next, not {shown!r}"
            raise ValueError(message)
        links.append(_make_link(link[1], link[2]))
        if len(links) > _MAX_LINKS:
            message = f"it contains more than {_MAX_LINKS:,} links"
            raise ValueError(message)
        place = link.end()
    if not links:
        message = "it contains no link"
        raise ValueError(message)
    return links


def read_links(
    values: Iterable[str],
) -> tuple[list[Link], list[tuple[str, ValueError]]]:
    """Return the links of valid ``Link`` headers, and the invalid ones with the
    reasons.
    """
    links: list[Link] = []
    invalid = []
    for value in values:
        try:
            links += parse_links(value)
        except ValueError as error:
            invalid.append((value, error))
    return links, invalid


def select_links(links: Iterable[Link], url: str) -> list[Link]:
    """Return the links whose context is the resource at a URL, not one of another
    anchor.
    """
    return [
        link
        for link in links
        if is_splittable(link.anchor) and urljoin(url, link.anchor) == url
    ]


def is_splittable(uri: str) -> bool:
    """Return whether a URI reference has a valid host and port, as far as it has any."""
    try:
        return urlsplit(uri).port != 0
    except ValueError:
        return False


def _make_link(target: str, parameters: str) -> Link:
    if not _URI_REFERENCE.fullmatch(target) or not is_splittable(target):
        message = f"<{target}> is not a URI reference (RFC 3986 section 4.1)"
        raise ValueError(message)
    values: dict[str, list[str]] = {"rel": [], "anchor": []}
    for name, token, quoted in _NEXT_PARAMETER.findall(parameters):
        if name.lower() in values:
            values[name.lower()].append(token or _ESCAPED.sub(r"\1", quoted))
    relations = [tuple(value.lower().split()) for value in values["rel"]]
    if len(relations) != 1 or () in relations:
        message = f"<{target}> needs one rel that is not empty"
        raise ValueError(message)
    return Link(target, relations[0], *values["anchor"][:1])
