"""Find the session ID of a request, and refuse repeated and contradictory ones.

A session ID is in the query string under ``sessionId`` or in ``Authorization: Bearer``
(RFC 6750 section 2). Knows nothing of operations, of storage, or whether a session is
valid.
"""

import re
import secrets
from collections.abc import Iterable
from hashlib import blake2b
from typing import Literal
from urllib.parse import quote, unquote, unquote_plus
from wsgiref.types import WSGIEnvironment

from flask_notifications.headers import TOKEN

from .redaction import MASK, redact_environ, redact_query

SESSION = "flask_notifications.session"
CALLER = "flask_notifications.caller"

# Characters.
MAX_LENGTH = 4096

# RFC 6750 section 2.1: b64token = 1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/"
# ) *"="
_B64TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")

# RFC 9110 section 11.4: credentials = auth-scheme [ 1*SP ( token68 / #auth-param ) ]
_BEARER = re.compile(rf"bearer(?!{TOKEN})", re.IGNORECASE | re.ASCII)
# RFC 9110 section 5.6.4: quoted-string. One that is never closed matches too, without
# the group, so that a search stays linear.
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+("?)', re.DOTALL)
# RFC 9110 section 11.2: auth-param = token BWS "=" BWS ...; a comma before anything
# else begins another credential.
_SECOND_CREDENTIAL = re.compile(rf",(?![ \t]*{TOKEN}[ \t]*=)")

# The key is random: a client that could compute digests could choose the URL under
# which a cache in your application stores a page.
_DIGEST = blake2b(digest_size=8, key=secrets.token_bytes(32))

Source = Literal["header", "query"]


class SessionCredential:
    """Hold the session ID of a request.

    ``repr()``, ``str()`` and ``format()`` never show the ID, so that a credential can
    be printed, logged and captured. It is not a dataclass because JSON encoders write
    those out. Not checked: that any storage knows the session.

    :param value: the session ID, an RFC 6750 b64token of at most 4096 characters.
    :param source: where it was: ``"header"`` or ``"query"``.
    """

    __slots__ = ("_source", "_value")

    def __init__(self, value: str, source: Source) -> None:
        self._value = value
        self._source = source

    @property
    def value(self) -> str:
        """The session ID."""
        return self._value

    @property
    def source(self) -> Source:
        """``"header"`` or ``"query"``."""
        return self._source

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SessionCredential):
            return NotImplemented
        return (self._value, self._source) == (other._value, other._source)

    def __hash__(self) -> int:
        return hash((self._value, self._source))

    def __repr__(self) -> str:
        return f"SessionCredential(value={MASK}, source={self._source!r})"

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)


class SessionRefused(Exception):
    """A request's session ID is ambiguous or malformed (RFC 6750 section 3.1).

    It never carries the session ID.

    :param status: 400 or 401.
    :param code: ``"invalid_request"`` with 400, ``"invalid_token"`` with 401.
    :param detail: a sentence for the client.
    """

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail


# What a request carries: a session, one that is refused, or none.
SessionResult = SessionCredential | SessionRefused | None


def session_of(environ: WSGIEnvironment) -> SessionCredential | None:
    """Return the session of a request, or ``None`` if it carries none.

    If a middleware has resolved the session, this is its result. Otherwise, the same
    rules are applied now. Cookies, other headers, the path and the body are never read.
    The environ is not changed.

    :param environ: the WSGI environ (``request.environ`` in Flask, ``request.META`` in
        Django).
    :raises SessionRefused: the session is ambiguous (400), or not an RFC 6750 b64token
        of at most 4096 characters (401).
    """
    session = resolve(environ)
    if isinstance(session, SessionRefused):
        raise session
    return session


def resolve(environ: WSGIEnvironment) -> SessionResult:
    """Return what ``session_of`` returns or raises."""
    resolved = environ.get(SESSION)
    if isinstance(resolved, SessionCredential):
        return resolved
    pairs = session_pairs(environ.get("QUERY_STRING", ""))
    return _decide(_authorization(environ), pairs)


def resolve_header(environ: WSGIEnvironment) -> SessionResult:
    """Return the session in the ``Authorization`` header; the query is not read."""
    return _decide(_authorization(environ), [])


def unify_session(environ: WSGIEnvironment) -> tuple[SessionResult, dict[str, str]]:
    """Resolve the session of a matched request, and unify it in the environ.

    A digest replaces each session pair in ``QUERY_STRING``, ``HTTP_AUTHORIZATION`` is
    set if there was none, and the raw target and the Referer are redacted. Return the
    session, and a mapping from each replaced pair to its digest.

    The URL of each session still differs, but no longer shows the session ID. A client
    that has learnt a digest can send it, so a cache in your application must not rely
    on the URL alone.
    """
    query = environ.get("QUERY_STRING", "")
    header = _authorization(environ)
    pairs = session_pairs(query)
    session = _decide(header, pairs)
    resolved = environ.pop(SESSION, None)
    # An outer middleware may have moved the session from the query to the header. Its
    # result is kept unless the header has been changed since.
    is_moved = isinstance(resolved, SessionCredential) and not pairs
    if is_moved and session in {None, SessionCredential(resolved.value, "header")}:
        session = resolved
    digests = {pair: digest_of(value) for pair, value in pairs}
    members = query.split("&")
    if digests:
        environ["QUERY_STRING"] = "&".join(
            digests.get(member, member) for member in members
        )
    redact_environ(environ, query, redact_query(members, digests))
    if isinstance(session, SessionCredential):
        environ[SESSION] = session
        if digests and not header:
            environ["HTTP_AUTHORIZATION"] = f"Bearer {session.value}"
    return session, digests


def as_received(environ: WSGIEnvironment) -> WSGIEnvironment:
    """Return the environ as it was before an outer middleware's ``unify_session``.

    It is a copy if anything has been changed.
    """
    session = environ.get(SESSION)
    if not isinstance(session, SessionCredential):
        return environ
    query = environ.get("QUERY_STRING", "")
    pair = f"sessionId={quote(session.value)}"
    received = dict(environ)
    received["QUERY_STRING"] = query.replace(digest_of(session.value), pair)
    is_copy = _authorization(environ) == f"Bearer {session.value}"
    if session.source == "query" and is_copy:
        del received["HTTP_AUTHORIZATION"]
    return received


def list_session_ids(
    environ: WSGIEnvironment, replaced: Iterable[str] = ()
) -> list[str]:
    """Return every session ID in a request, also when the session is refused.

    :param replaced: the pairs of the query that a digest has replaced.
    """
    session_ids: list[str] = []
    authorization = _authorization(environ)
    if authorization:
        # Of a header that is refused, each word after the scheme may be an ID.
        _before, *bearer = _BEARER.split(authorization)
        session_ids += " ".join(bearer).replace(",", " ").split()
    for query in (environ.get("QUERY_STRING", ""), *replaced):
        for _pair, value in session_pairs(query):
            if value:
                session_ids.append(value)
    session = environ.get(SESSION)
    if isinstance(session, SessionCredential):
        session_ids.append(session.value)
    return session_ids


def session_pairs(query: str) -> list[tuple[str, str]]:
    """Return the pairs of a query whose key is ``sessionId``, and their decoded values.

    The key may be in any letter case. Keys and values are form-decoded to WSGI strings.
    """
    pairs: list[tuple[str, str]] = []
    if not query:
        return pairs
    for pair in query.split("&"):
        key, _equals, value = pair.partition("=")
        if unquote(key, "latin-1").lower() == "sessionid":
            pairs.append((pair, unquote_plus(value, "latin-1")))
    return pairs


def digest_of(value: str) -> str:
    """Return the pair that replaces a session pair; no client can compute it."""
    digest = _DIGEST.copy()
    digest.update(value.encode("latin-1", "replace"))
    return f"{SESSION}={digest.hexdigest()}"


def _authorization(environ: WSGIEnvironment) -> str:
    # RFC 9110 section 5.5: white space around a header's value is not part of it; some
    # servers leave it there.
    header: str = environ.get("HTTP_AUTHORIZATION", "")
    return header.strip(" \t")


def _find_in_header(header: str) -> str | SessionRefused | None:
    if not header:
        return None
    if "," in header and _SECOND_CREDENTIAL.search(
        _QUOTED.sub(_blank_if_closed, header)
    ):
        return _ambiguous("The Authorization header holds more than one credential.")
    scheme, _space, token = header.partition(" ")
    if scheme.lower() == "bearer":
        return token.lstrip(" ") or _ambiguous(
            "The Authorization header names the Bearer scheme without a token."
        )
    if _BEARER.match(header):
        return _ambiguous("Only spaces may separate the Bearer scheme from the token.")
    return None


def _blank_if_closed(quoted: re.Match[str]) -> str:
    """Empty a quoted string; an open quotation mark quotes nothing."""
    return '""' if quoted[1] else quoted[0]


def _find_in_query(pairs: list[tuple[str, str]]) -> str | SessionRefused | None:
    if not pairs:
        return None
    if len(pairs) > 1:
        return _ambiguous("The query string names the session more than once.")
    ((_pair, value),) = pairs
    return value or _ambiguous("The query string names an empty session.")


def _decide(authorization: str, pairs: list[tuple[str, str]]) -> SessionResult:
    header = _find_in_header(authorization)
    if isinstance(header, SessionRefused):
        return header
    query = _find_in_query(pairs)
    if isinstance(query, SessionRefused):
        return query
    source: Source
    if header is not None:
        value, source = header, "header"
    elif query is not None:
        value, source = query, "query"
    else:
        return None
    if query not in {None, value}:
        return _ambiguous(
            "The Authorization header and the query string name different sessions."
        )
    if len(value) > MAX_LENGTH or not _B64TOKEN.fullmatch(value):
        return SessionRefused(401, "invalid_token", _MALFORMED)
    return SessionCredential(value, source)


_MALFORMED = (
    f"The session ID is not a token of 1 to {MAX_LENGTH} characters out of A-Z a-z 0-9"
    " - . _ ~ + / with = at its end only (in a query, + is written %2B)."
)


def _ambiguous(detail: str) -> SessionRefused:
    return SessionRefused(400, "invalid_request", detail)
