"""Rewriting ``Location``: a redirect to a matched operation keeps its session, and a
redirect loop is noticed.

Routers build a target from the query string, in which a digest has replaced the session
pair by then. An old client that follows would arrive without a session. Every other
target loses the digest, and never gets the session ID.
"""

import re
from collections.abc import Iterable
from itertools import zip_longest
from typing import NamedTuple
from urllib.parse import SplitResult, quote, urljoin, urlsplit
from wsgiref.types import WSGIEnvironment

from flask_notifications.headers import ResponseHeaders, values_of
from flask_notifications.plans.operations import (
    REST,
    Match,
    OperationTable,
    decode_path,
)

from .credential import SESSION, session_pairs

# RFC 9110 section 15.4: the redirects that clients follow by themselves; the last two
# with the method unchanged.
_REDIRECTS = frozenset({"301", "302", "303", "307", "308"})
_CHANGED_TO_GET = "303"
_MAYBE_CHANGED_TO_GET = frozenset({"301", "302"})
_PORTS = {"http": 80, "https": 443}
# RFC 3986 section 4.2, less what clients are known to read in different ways:
# backslashes, an authority that is empty or follows another number of slashes, a scheme
# without one, empty segments, dot segments that are percent-encoded.
_PLAIN = re.compile(
    r"(?=[\x21-\x5b\x5d-\x7e]*\Z)"  # nothing but what a URI may hold: clients drop some of the rest
    r"(?:(?:https?:)?//[^/?#]+(?=[/?#]|\Z)|(?!//|[^/?#]*:))"
    r"(?>(?!//|(?<![^/])\.?%2e(?:\.|%2e)?(?:[/?#]|\Z))[^?#])*+(?:[?#].*)?",
    re.IGNORECASE,
)
# A delimiter, as it is or percent-encoded any number of times, as in the target of a
# login page.
_FIRST, _NEXT, _EQUALS = (
    rf"(?:{char}|%(?:25)*{ord(char[-1]):02x})" for char in (r"\?", "&", "=")
)


class Redirect(NamedTuple):
    """A redirect to an operation of this application.

    ``path`` is the target's, as a WSGI string below the mount.

    ``changes_url`` is whether the target differs from the request in its scheme or its
    query, but for the session.
    """

    match: Match
    path: str
    changes_url: bool

    def loops(self, match: Match) -> bool:
        """Return whether a client that follows a redirect of a rewritten request is
        redirected again, forever.
        """
        return (
            self.match == match
            and self.path != self.match.path
            and not self.changes_url
        )

    @property
    def spelling(self) -> str:
        """The target's path with the names of the parameters in place of their values."""
        template, sent = self.match.operation.path.split("/"), self.path.split("/")
        if template[-1] == REST:
            sent = sent[: len(template) - 1] + template[-1:] * (
                len(sent) >= len(template)
            )
        spelled = [
            own if own.startswith("{") else each
            for own, each in zip_longest(template, sent, fillvalue="")
        ]
        return "/".join(spelled[: len(sent)])


def follow(
    environ: WSGIEnvironment,
    location: str,
    status: str,
    table: OperationTable,
    pairs: Iterable[str] = (),
) -> Redirect | None:
    """Return where a client arrives that follows a ``Location``; ``None`` if it is not
    an operation of this origin.

    ``environ`` is that of the request as the client sent it, ``pairs`` are those that
    the client would send again.
    """
    if status[:3] not in _REDIRECTS or not _PLAIN.fullmatch(location):
        return None
    scheme, mount = (
        environ["wsgi.url_scheme"],
        environ.get("SCRIPT_NAME", "").rstrip("/"),
    )
    host = (
        environ.get("HTTP_HOST") or f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
    )
    here = f"{scheme}://{host}{quote(mount + environ.get('PATH_INFO', ''), encoding='latin-1', errors='replace')}"
    try:
        # urljoin knows parameters of a segment, which no client does, and drops empty
        # ones.
        target = urlsplit(urljoin(here, location.replace(";", "%3B")))
        is_ours = "@" not in target.netloc and _is_same_origin(urlsplit(here), target)
    except ValueError:  # not a URL
        return None
    decoded = decode_path(target.path)
    path = decoded.removeprefix(mount)
    if not is_ours or not decoded.startswith(mount) or path[:1] not in {"", "/"}:
        return None
    query = environ.get("QUERY_STRING", "")
    changes_url = target.scheme != scheme or _list_members(
        target.query
    ) != _list_members(query)
    sent = {**environ, "QUERY_STRING": "&".join([target.query, *pairs])}
    matches = (
        table.match(method, path, sent)
        for method in _list_next_methods(environ["REQUEST_METHOD"], status)
    )
    match = next(filter(None, matches), None)
    return None if match is None else Redirect(match, path, changes_url)


def edit_location(
    headers: ResponseHeaders,
    status: str,
    environ: WSGIEnvironment,
    match: Match,
    *,
    table: OperationTable,
    digests: dict[str, str],
) -> Redirect | None:
    """Keep the session of a redirect to an operation, and return a redirect that loops,
    or ``None``.

    ``environ`` is that of the request as the client sent it: an application may change
    its own before it redirects. ``digests`` are those of ``unify_session``.
    """
    redirects = {
        each: follow(environ, each, status, table, digests)
        for each in values_of(headers.lines, "location")
    }
    if digests:
        ((pair, digest),) = (
            digests.items()
        )  # a request with more than one pair was refused
        unified = {
            own
            for own, each in redirects.items()
            if each is not None and each.match.operation.unify_session
        }
        headers.edit(
            "location",
            lambda own: (
                restore_pair(own, pair, digest)
                if own in unified
                else remove_digest(own, digest)
            ),
        )
    if not match.operation.rewrite_path or match.path == environ.get("PATH_INFO", ""):
        return None
    return next(
        (each for each in redirects.values() if each is not None and each.loops(match)),
        None,
    )


def restore_pair(location: str, pair: str, digest: str) -> str:
    """Return a ``Location`` with the session pair in it once: where its digest is, or
    else at the end of the query.
    """
    before, hash_sign, fragment = location.partition("#")
    path, _question_mark, query = before.partition("?")
    members = query.split("&")
    if digest in members and not session_pairs(query):
        members[members.index(digest)] = pair
        location = f"{path}?{'&'.join(members)}{hash_sign}{fragment}"
    location = remove_digest(location, digest)
    before, hash_sign, fragment = location.partition("#")
    _path, question_mark, query = before.partition("?")
    if not before or session_pairs(
        query
    ):  # the same page with the query that the client has, or it has a session
        return location
    separator = (
        "?" if not question_mark else "&" if query and not query.endswith("&") else ""
    )
    return f"{before}{separator}{pair}{hash_sign}{fragment}"


def remove_digest(location: str, digest: str) -> str:
    """Return a ``Location`` without the digest that replaces a session pair, even where
    it is percent-encoded.
    """
    key, _equals, value = digest.partition("=")
    pattern = rf"{re.escape(key)}{_EQUALS}{value}"
    pattern = rf"({_FIRST}|{_NEXT})?{pattern}(?:{_NEXT}{pattern})*({_NEXT})?"
    return re.sub(pattern, _join_neighbours, location, flags=re.IGNORECASE)


def _join_neighbours(removed: re.Match[str]) -> str:
    """Return the delimiter that remains in place of a pair and the delimiters around
    it.

    Delimiters that are encoded a different number of times belong to different queries,
    one inside the other.
    """
    before, after = removed[1] or "", removed[2] or ""
    is_first = before == "?" or before.lower().endswith("3f")
    return before if is_first and len(before) == len(after) else after


def _list_next_methods(method: str, status: str) -> list[str]:
    """Return the methods with which clients follow a redirect (RFC 9110 section 15.4):
    some keep theirs.
    """
    method = method.upper()
    if method == "HEAD":
        return [method]
    if status[:3] == _CHANGED_TO_GET or (
        method == "POST" and status[:3] in _MAYBE_CHANGED_TO_GET
    ):
        return ["GET"]
    return [method, "GET"] if status[:3] in _MAYBE_CHANGED_TO_GET else [method]


def _list_members(query: str) -> list[str]:
    """Return the members of a query, but for those of the session."""
    members = query.replace(";", "%3B").split("&")
    return [
        each
        for each in members
        if each and not session_pairs(each) and not each.startswith(f"{SESSION}=")
    ]


def _is_same_origin(here: SplitResult, target: SplitResult) -> bool:
    """Return whether a target is of the same host, scheme and port, or its upgrade to
    https (RFC 9110 section 4.2).
    """
    origins = [
        (url.scheme, _PORTS.get(url.scheme) if url.port is None else url.port)
        for url in (here, target)
    ]
    is_upgrade = origins == [("http", 80), ("https", 443)]
    return here.hostname == target.hostname and (origins[0] == origins[1] or is_upgrade)
