"""Read ``Link`` headers strictly (RFC 8288 section 3). Common parsers skip unreadable parts."""

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from flask_notifications.headers import TOKEN

_PARAMETER = rf'({TOKEN})(?:[ \t]*=[ \t]*(?:({TOKEN})|"((?:[^"\\]|\\.)*)"))?'
_NEXT_PARAMETER = re.compile(rf"[ \t]*;[ \t]*(?:{_PARAMETER})?")
_TARGET = re.compile(r"<([^<>]*)>")
_BETWEEN = re.compile(r"[ \t]*(?:,[ \t,]*|\Z)")
_ESCAPED = re.compile(r"\\(.)")
# RFC 3986 appendix A: the characters of a URI reference.
_URI_REFERENCE = re.compile(r"(?:[\w\-.~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*", re.ASCII)
# More than these would keep a client busy.
_MAX_LINKS = 1_000


class Link(NamedTuple):
    """A link: the URI reference as it was sent, its relations in lower case, and what it is a link of.

    ``anchor`` is a URI reference too, and empty for the resource that was requested (RFC 8288 section 3.2).
    """

    target: str
    relations: tuple[str, ...]
    anchor: str = ""


def parse_links(value: str) -> list[Link]:
    """Return the links of a ``Link`` header.

    :param value: the value of one header line, which may hold several links.
    :raises ValueError: the value does not follow the grammar, a target is not a URI reference, a link does not have
        exactly one ``rel``, or there are more than 1,000 links.
    """
    links: list[Link] = []
    place = len(value) - len(value.lstrip(" \t,"))
    while place < len(value):
        target = _TARGET.match(value, place)
        if target is None:
            message = f"a link begins with its target, as in '</new>; rel=\"successor-version\"', not {value[place:]!r}"
            raise ValueError(message)
        parameters, place = _parse_parameters(value, target.end())
        end = _BETWEEN.match(value, place)
        if end is None:
            message = f"after a link there is ';' and a parameter, or a comma, not {value[place:]!r}"
            raise ValueError(message)
        links.append(_make_link(target[1], parameters))
        if len(links) > _MAX_LINKS:
            message = f"it contains more than {_MAX_LINKS:,} links"
            raise ValueError(message)
        place = end.end()
    if not links:
        message = "it contains no link"
        raise ValueError(message)
    return links


def valid_links(values: Iterable[str]) -> list[Link]:
    """Return the links of those ``Link`` headers that are valid, and no more of them when there are a thousand."""
    links: list[Link] = []
    for value in values:
        with suppress(ValueError):
            links += parse_links(value)
        if len(links) >= _MAX_LINKS:
            break
    return links


def own_links(values: Iterable[str], url: str) -> list[Link]:
    """Return the valid links that are links of the resource itself, and not of another one that they name."""
    return [link for link in valid_links(values) if is_splittable(link.anchor) and urljoin(url, link.anchor) == url]


def is_splittable(uri: str) -> bool:
    """Return whether a URI reference has a valid host and port, as far as it has any."""
    try:
        return urlsplit(uri).port != 0
    except ValueError:
        return False


def _parse_parameters(value: str, place: int) -> tuple[list[tuple[str, str]], int]:
    """Return the parameters of a link in order, names in lower case, and where they end."""
    parameters = []
    while (found := _NEXT_PARAMETER.match(value, place)) is not None:
        name, token, quoted = found.groups()
        if name is not None:
            parameters.append((name.lower(), token or _ESCAPED.sub(r"\1", quoted or "")))
        place = found.end()
    return parameters, place


def _make_link(target: str, parameters: list[tuple[str, str]]) -> Link:
    if not _URI_REFERENCE.fullmatch(target) or not is_splittable(target):
        message = f"<{target}> is not a URI reference (RFC 3986 section 4.1)"
        raise ValueError(message)
    relations = [value.lower().split() for name, value in parameters if name == "rel"]
    if len(relations) != 1 or not relations[0]:
        message = (
            f"<{target}> needs one rel, not {len(relations)}" if len(relations) != 1 else f"rel of <{target}> is empty"
        )
        raise ValueError(message)
    anchors = [value for name, value in parameters if name == "anchor"]
    return Link(target, tuple(relations[0]), *anchors[:1])
