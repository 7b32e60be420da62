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
# A link with its parameters, and the commas before the next one.
_LINK = re.compile(rf"<([^<>]*)>((?:{_PARAMETER})*+)[ \t]*(?:,[ \t,]*|\Z)")
_ESCAPED = re.compile(r"\\(.)")
# RFC 3986 appendix A: the characters of a URI reference.
_URI_REFERENCE = re.compile(
    r"(?:[\w\-.~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*", re.ASCII
)
# A larger number would keep a client busy.
_MAX_LINKS = 1_000


class Link(NamedTuple):
    """A link: the target as it was sent, its relations in lower case, and its context.

    ``anchor`` is the context as a URI reference; empty for the requested resource (RFC
    8288 section 3.2).
    """

    target: str
    relations: tuple[str, ...]
    anchor: str = ""


def parse_links(value: str) -> list[Link]:
    """Parse the value of one header line.

    :raises ValueError: the value is invalid, or contains no link, or more than 1,000.
    """
    links: list[Link] = []
    place = len(value) - len(value.lstrip(" \t,"))
    while place < len(value):
        link = _LINK.match(value, place)
        if link is None:
            shown = value[place:]
            message = (
                "a link is like '</new>; rel=\"successor-version\"', "
                f"with a comma before the next, not {shown!r}"
            )
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
    """Return the links of valid ``Link`` headers, and invalid values with reasons."""
    links: list[Link] = []
    invalid = []
    for value in values:
        try:
            links += parse_links(value)
        except ValueError as error:
            invalid.append((value, error))
    return links, invalid


def select_links(links: Iterable[Link], url: str) -> list[Link]:
    """Return the links whose context is the resource at a URL, not another anchor."""
    return [
        link
        for link in links
        if is_splittable(link.anchor) and urljoin(url, link.anchor) == url
    ]


def is_splittable(uri: str) -> bool:
    """Return whether ``urlsplit`` accepts a URI reference with its host and port."""
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
    # Of several anchors, the first counts.
    return Link(target, relations[0], *values["anchor"][:1])
