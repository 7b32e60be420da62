"""Rewriting ``Location``: a redirect to a matched operation keeps its session, and a redirect loop is noticed.

Routers build a target from the query string, in which a digest has replaced the session pair by then. An old client
that follows would arrive without a session. Every other target loses the digest, and never gets the session ID.
"""

import re
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, quote, unquote_to_bytes, urljoin, urlsplit

from .operations import Match, OperationTable
from .sessions import digest_pair, session_pairs

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

# RFC 9110 section 15.4: the redirects that clients follow by themselves; the last two with the method unchanged.
_REDIRECTS = frozenset({"301", "302", "303", "307", "308"})
_SAME_METHOD = frozenset({"307", "308"})
_PORTS = {"http": 80, "https": 443}
# RFC 3986 section 4.2, less what clients are known to read in different ways: backslashes, an authority that is empty
# or follows another number of slashes, a scheme without one, empty segments.
_PLAIN = re.compile(
    r"(?=[\x21-\x5b\x5d-\x7e]*\Z)"  # nothing but what a URI may hold: clients drop some of the rest
    r"(?:(?:https?:)?//[^/?#]+(?=[/?#]|\Z)|(?!//|[^/?#]*:))"
    r"(?:(?!//)[^?#])*+(?:[?#].*)?",
    re.IGNORECASE,
)
# A delimiter, as it is or percent-encoded any number of times, as in the target of a login page.
_FIRST, _NEXT, _EQUALS = (rf"(?:{char}|%(?:25)*{ord(char[-1]):02x})" for char in (r"\?", "&", "="))


class Redirect(NamedTuple):
    """A redirect to an operation of this application. ``path`` is the target's, as a WSGI string below the mount."""

    match: Match
    path: str

    @property
    def has_other_spelling(self) -> bool:
        """Whether the target is spelled in another way than its template."""
        return self.path != self.match.path

    @property
    def spelling(self) -> str:
        """The target's path with the names of the parameters in place of their values."""
        segments = zip_longest(self.match.operation.path.split("/"), self.path.split("/"), fillvalue="")
        spelled = [own if own.startswith("{") else sent for own, sent in segments]
        return "/".join(spelled[: self.path.count("/") + 1])


class RequestTarget(NamedTuple):
    """Where a request arrived, as the middleware saw it: an application may change its environ later."""

    method: str
    scheme: str
    host: str
    mount: str
    path: str

    @classmethod
    def of(cls, environ: "WSGIEnvironment", path: str) -> "RequestTarget":
        """Return the target of a request; ``path`` is ``PATH_INFO`` as received."""
        return cls(
            method=environ["REQUEST_METHOD"],
            scheme=environ["wsgi.url_scheme"],
            host=environ.get("HTTP_HOST") or f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}",
            mount=environ.get("SCRIPT_NAME", "").rstrip("/"),
            path=path,
        )

    def follow(self, location: str, status: str, table: OperationTable) -> Redirect | None:
        """Return where a client arrives that follows a ``Location``; ``None`` if that is no operation of this origin.

        :param status: the status line; it decides whether the client follows, and with which method.
        """
        if status[:3] not in _REDIRECTS or not _PLAIN.fullmatch(location):
            return None
        here = f"{self.scheme}://{self.host}{quote(self.mount + self.path, encoding='latin-1', errors='replace')}"
        try:
            # urljoin knows parameters of a segment, which no client does, and drops empty ones.
            target = urlsplit(urljoin(here, location.replace(";", "%3B")))
            is_ours = "@" not in target.netloc and _is_same_origin(urlsplit(here), target)
        except ValueError:  # not a URL
            return None
        path = _path_below(target.path, self.mount)
        if not is_ours or path is None:
            return None
        match = table.match(self.method if status[:3] in _SAME_METHOD or self.method == "HEAD" else "GET", path)
        return None if match is None else Redirect(match, path)


def restore_pair(location: str, pair: str) -> str:
    """Return a ``Location`` with the session pair in it once: where its digest is, or else at the end of the query."""
    before, hash_sign, fragment = location.partition("#")
    query = before.partition("?")[2]
    if not before or session_pairs(query):  # the same page with the query that the client has, or it has a session
        return remove_digest(location, pair)
    digest = digest_pair(pair)
    if digest in query.split("&"):
        return remove_digest(location.replace(digest, pair, 1), pair)
    separator = "?" if "?" not in before else "&" if query and not query.endswith("&") else ""
    return f"{remove_digest(before, pair)}{separator}{pair}{hash_sign}{fragment}"


def remove_digest(location: str, pair: str) -> str:
    """Return a ``Location`` without the digest that replaces a session pair, also where it is percent-encoded."""
    key, _equals, value = digest_pair(pair).partition("=")
    pattern = rf"({_FIRST}|{_NEXT})?{re.escape(key)}{_EQUALS}{value}({_NEXT})?"
    return re.sub(pattern, _join_neighbours, location, flags=re.IGNORECASE)


def _join_neighbours(removed: re.Match[str]) -> str:
    """Return the delimiter that remains in place of a pair and the delimiters around it."""
    before, after = removed[1] or "", removed[2] or ""
    is_first = before == "?" or before.lower().endswith("3f")
    return (before if after else "") if is_first else after


def _is_same_origin(here: SplitResult, target: SplitResult) -> bool:
    """Return whether a target is of the same host, scheme and port, or its upgrade to https (RFC 9110 section 4.2)."""
    origins = [(url.scheme, _PORTS.get(url.scheme) if url.port is None else url.port) for url in (here, target)]
    is_upgrade = origins == [("http", 80), ("https", 443)]
    return here.hostname == target.hostname and (origins[0] == origins[1] or is_upgrade)


def _path_below(path: str, mount: str) -> str | None:
    """Return the part of a URL's path that an application mounted at ``mount`` sees, or ``None`` outside of it."""
    decoded = unquote_to_bytes(path).decode("latin-1")
    below = decoded.removeprefix(mount)
    return below if decoded.startswith(mount) and (not below or below[0] == "/") else None
