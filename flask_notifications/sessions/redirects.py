"""Put the session back into ``Location`` headers that the application sends.

Routers build the target of a redirect from the query string, where a digest has
replaced the session pair. A client that followed it would arrive without its session.
"""

import re
from typing import NamedTuple
from urllib.parse import urlsplit
from wsgiref.types import WSGIEnvironment

_DEFAULT_PORTS = {"http": 80, "https": 443}

_FORWARDED_HTTPS = re.compile(r'(?:^|[;,\s])proto="?https\b', re.IGNORECASE)

# Clients drop control characters and leading spaces, and take a backslash for a slash.
_UNSAFE = re.compile(r"^\s|[\x00-\x1f\x7f\\]")


class Origin(NamedTuple):
    """Where a client sent its request, kept because applications may change it."""

    scheme: str
    host: str
    is_secure: bool


def origin_of(environ: WSGIEnvironment) -> Origin:
    """Return the scheme and the host of a request as it was received.

    It is secure if the server or a proxy says ``https`` (RFC 7239 section 5.4).
    """
    scheme = environ["wsgi.url_scheme"]
    host = environ.get("HTTP_HOST")
    if not host:
        host = f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
    is_secure = (
        scheme == "https"
        or "https" in environ.get("HTTP_X_FORWARDED_PROTO", "").lower()
        or _FORWARDED_HTTPS.search(environ.get("HTTP_FORWARDED", "")) is not None
    )
    return Origin(scheme, host, is_secure)


def restore_session(location: str, origin: Origin, pair: str, digest: str) -> str:
    """Return a ``Location`` with the session pair in place of its digest.

    The first copy of the digest that is a whole member of the query becomes the pair
    if the target is relative or on the host of the request, and does not lead from
    ``https`` to ``http``. All others are removed.

    :param pair: the session pair as the client sent it, such as ``sessionId=x``.
    :param digest: the pair that replaced it.
    """
    before, hash_sign, fragment = location.partition("#")
    path, _question_mark, query = before.partition("?")
    members = query.split("&")
    if digest in members and _keeps_origin(location, origin):
        members[members.index(digest)] = pair
        location = f"{path}?{'&'.join(members)}{hash_sign}{fragment}"
    return _remove(location, digest)


def _keeps_origin(location: str, origin: Origin) -> bool:
    """Return whether a location stays on the origin of the request.

    It may also lead from port 80 of ``http`` to port 443 of ``https``. A location that
    clients may read in another way than this function does not count.
    """
    if _UNSAFE.search(location):
        return False
    try:
        target = urlsplit(location)
        requested = urlsplit(f"//{origin.host}")
        target_port, requested_port = target.port, requested.port
    except ValueError:
        return False
    if not target.scheme and not location.startswith("//"):
        return True
    scheme = target.scheme
    if not scheme:  # //host takes the scheme of the page
        scheme = "https" if origin.is_secure else "http"
    if scheme not in _DEFAULT_PORTS or (origin.is_secure and scheme == "http"):
        return False
    if not target.hostname or target.hostname != requested.hostname:
        return False
    if target_port is None:
        target_port = _DEFAULT_PORTS[scheme]
    if requested_port is None:
        requested_port = _DEFAULT_PORTS.get(origin.scheme)
    is_plain = (origin.scheme, requested_port) == ("http", 80)
    is_upgrade = is_plain and (scheme, target_port) == ("https", 443)
    is_same_port = target_port == requested_port
    return "@" not in target.netloc and (is_same_port or is_upgrade)


def _in_any_encoding(character: str) -> str:
    """Return a pattern for a character, percent-encoded any number of times or not."""
    return rf"(?:{re.escape(character)}|%(?:25)*{ord(character):02x})"


_FIRST, _NEXT, _EQUALS = map(_in_any_encoding, "?&=")


def _remove(location: str, digest: str) -> str:
    """Return a ``Location`` without the digest, wherever it is."""
    key, _equals, value = digest.partition("=")
    pair = f"{re.escape(key)}{_EQUALS}{value}"
    pattern = rf"({_FIRST}|{_NEXT})?{pair}(?:{_NEXT}{pair})*({_NEXT}|(?=#)|\Z)?"
    return re.sub(pattern, _join_neighbours, location, flags=re.IGNORECASE)


def _join_neighbours(removed: re.Match[str]) -> str:
    """Return the delimiter that stays in place of a digest and those around it.

    If the two are not encoded equally often, the digest was all of a query inside the
    value of another, so the delimiter after it stays.
    """
    before = removed[1] or ""
    after = removed[2]
    if after is None:  # the digest is only the beginning of a member
        return before
    is_first = before == "?" or before.lower().endswith("3f")
    if is_first and len(before) == len(after):
        return before
    return after
