"""Where a session ID may stand in a request, what counts as absent, repeated or contradictory, and its redaction.

A session ID comes in the query string under ``sessionId`` or as ``Authorization: Bearer`` (RFC 6750 section 2).
Knows nothing of operations, of storage, or whether a session is valid.
"""

import logging
import re
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote_plus

from .fields import TOKEN

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

SESSION = "flask_notifications.session"
MASK = "REDACTED"

# Characters; longer values are refused before anything looks at them.
MAX_LENGTH = 4096

# RFC 6750 section 2.1: b64token = 1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"="
_B64TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
# The header of nearly every request that has one, white space around it as some servers leave it there.
_ORDINARY = re.compile(rf"[ \t]*(?i:bearer) +({_B64TOKEN.pattern})[ \t]*")

# RFC 9110 section 11.4: credentials = auth-scheme [ 1*SP ( token68 / #auth-param ) ]
_BEARER = re.compile(rf"bearer(?!{TOKEN})", re.IGNORECASE | re.ASCII)
# RFC 9110 section 5.6.4: a quoted-string. One that is never closed matches too, so that a scan stays linear.
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+("?)', re.DOTALL)
# RFC 9110 section 11.2: auth-param = token BWS "=" BWS ...; a comma before anything else begins another credential.
_SECOND_CREDENTIAL = re.compile(rf",(?![ \t]*{TOKEN}[ \t]*=)")

# The key in any letter case, each character plain or percent-encoded: all that form-decodes to "sessionId".
_KEY = "".join(f"(?:{char}|%{ord(char):02x}|%{ord(char.upper()):02x})" for char in "sessionid")
_PAIR = re.compile(rf"{_KEY}(?:=|\Z)", re.IGNORECASE | re.ASCII)
# In a URI the value ends at "&" and "#", and at a ";" that begins another pair.
_IN_URI = re.compile(rf"([?&;#]{_KEY}=)[^&#;]*+(?:;(?![^&#;=]*=)[^&#;]*+)*+", re.IGNORECASE | re.ASCII)
# In a log line it ends at white space too, and at a quote or bracket that is the end of what the line quotes. Servers
# quote a whole header line, too, when it is none.
_IN_LOG = re.compile(
    rf"""((?<![\w%-]){_KEY}=|authorization\W{{1,4}}bearer\ +)"""
    rf"""(?:[^&#;\s"'<>\\]|["'<>\\](?![\s.,:;)\]}}>]|\Z)|;(?![^&#;=\s]*=))*+""",
    re.IGNORECASE | re.ASCII,
)
_URIS = ("RAW_URI", "REQUEST_URI", "HTTP_REFERER")

Source = Literal["header", "query"]


class SessionCredential:
    """Hold the session ID of a request: ``value``, and ``source``, where it stood.

    ``repr()``, ``str()`` and ``format()`` never show the value, so that it can be printed, logged and captured; it is
    no dataclass, which JSON encoders would write out. The value is an RFC 6750 b64token of at most 4096 characters.
    Not checked: that any storage knows it.
    """

    __slots__ = ("_pair", "_source", "_value")

    def __init__(self, value: str, source: Source, pair: str | None = None) -> None:
        self._value = value
        self._source = source
        self._pair = pair

    @property
    def value(self) -> str:
        """The session ID."""
        return self._value

    @property
    def source(self) -> Source:
        """``"header"`` or ``"query"``."""
        return self._source

    @property
    def pair(self) -> str | None:
        """The pair of the query that named it, as it came, also where the header named it too; or ``None``."""
        return self._pair

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
    """Say that a request's session ID is ambiguous or malformed (RFC 6750 section 3.1).

    ``status`` is 400 with ``code`` ``"invalid_request"``, or 401 with ``"invalid_token"``; ``detail`` is a sentence for
    the client. It never carries the session ID.
    """

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail


# What a request carries: a session, one that is refused, or none.
Session = SessionCredential | SessionRefused | None


def session_of(environ: "WSGIEnvironment") -> SessionCredential | None:
    """Return the session of a request: what the middleware resolved, or resolved now by the same rules.

    ``None`` when the request carries none. Raises ``SessionRefused`` when what it carries is ambiguous (400) or not
    an RFC 6750 b64token of at most 4096 characters (401). Cookies, other headers, the path and the body are never
    read; the environ is not changed.
    """
    session = resolve(environ)
    if isinstance(session, SessionRefused):
        raise session
    return session


def resolve(environ: "WSGIEnvironment") -> Session:
    """Return what ``session_of`` returns, and a refusal as a value."""
    known = environ.get(SESSION)
    if isinstance(known, SessionCredential):
        return known
    return _resolved(environ, session_pairs(environ.get("QUERY_STRING", "")))


def resolve_header(environ: "WSGIEnvironment") -> Session:
    """Return the session of a request that may send it in the ``Authorization`` header only."""
    return _resolved(environ, [])


def claim_session(environ: "WSGIEnvironment") -> tuple[Session, bool]:
    """Resolve the session of a claimed request and leave it in one place of its environ, in place.

    ``QUERY_STRING`` loses its session pairs and keeps every other byte, ``HTTP_AUTHORIZATION`` is set when none came,
    the raw target and the Referer are redacted. Returns the session, and whether the query named one, accepted or not.
    """
    query = environ.get("QUERY_STRING", "")
    pairs = session_pairs(query)
    session = _resolved(environ, pairs)
    if pairs:
        environ["QUERY_STRING"] = "&".join(pair for pair in query.split("&") if pair not in pairs)
    for key in _URIS:
        if key in environ and "=" in environ[key]:  # or no pair can be in it
            environ[key] = redact_uri(environ[key])
    if isinstance(session, SessionCredential):
        environ[SESSION] = session
        if pairs and not _authorization(environ):
            environ["HTTP_AUTHORIZATION"] = f"Bearer {session.value}"
    else:
        environ.pop(SESSION, None)
    return session, bool(pairs)


def session_pairs(query: str) -> list[str]:
    """Return the pairs of a query string whose form-decoded key is ``sessionId`` in any letter case, as they came."""
    return [pair for pair in query.split("&") if _PAIR.match(pair)] if query else []


def redact_uri(uri: str) -> str:
    """Return a URI with the value of every session pair masked, wherever some reader might see a pair."""
    return _IN_URI.sub(_masked, uri)


def redact_text(text: str) -> str:
    """Return a text, such as a log line, with the value of every session pair in it masked."""
    return _IN_LOG.sub(_masked, text)


def _masked(pair: re.Match[str]) -> str:
    return pair[1] + MASK


class SessionLogFilter(logging.Filter):
    """Mask session IDs in what servers log from their own copy of a request.

    Put it on each logger by name (``gunicorn.access``, ``gunicorn.error``, ``werkzeug``): a filter on a parent logger
    does not see the records of its children. In the formatted message and in the traceback it masks the value of
    session pairs, of unclaimed requests too, and what follows ``Authorization: Bearer``. It drops no record. Not
    masked: the value alone of an ``Authorization`` header, which a log format may print.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask the record in place; always ``True``."""
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - a message that does not format is reported by logging itself
            return True
        masked = redact_text(message)
        if masked != message:
            record.msg, record.args = masked, ()
        if record.exc_info and not record.exc_text:
            record.exc_text = _traceback(record.exc_info)
        if record.exc_text:
            record.exc_text = redact_text(record.exc_text)
        return True


_traceback = logging.Formatter().formatException


def _authorization(environ: "WSGIEnvironment") -> str:
    # RFC 9110 section 5.5: white space around a field value is not part of it; some servers leave it there.
    header: str = environ.get("HTTP_AUTHORIZATION", "")
    return header.strip(" \t")


def _in_header(environ: "WSGIEnvironment") -> str | SessionRefused | None:
    header = _authorization(environ)
    if "," in header and _SECOND_CREDENTIAL.search(_QUOTED.sub(_blank_if_closed, header)):
        return _ambiguous("The Authorization header holds more than one credential.")
    scheme, _space, token = header.partition(" ")
    if scheme.lower() == "bearer":
        return token.lstrip(" ") or _ambiguous("The Authorization header names the Bearer scheme without a token.")
    if _BEARER.match(header):
        return _ambiguous("Only spaces may separate the Bearer scheme from the token.")
    return None


def _blank_if_closed(quoted: re.Match[str]) -> str:
    return '""' if quoted[1] else quoted[0]


def _in_query(pairs: list[str]) -> str | SessionRefused:
    if len(pairs) > 1:
        return _ambiguous("The query string names the session more than once.")
    value = pairs[0].partition("=")[2]
    if not value:
        return _ambiguous("The query string names an empty session.")
    return unquote_plus(value, "latin-1")


def _resolved(environ: "WSGIEnvironment", pairs: list[str]) -> Session:
    ordinary = _ORDINARY.fullmatch(environ.get("HTTP_AUTHORIZATION", ""))
    if ordinary and not pairs and len(ordinary[1]) <= MAX_LENGTH:
        return SessionCredential(ordinary[1], "header")
    return _decide(_in_header(environ), pairs)


def _decide(header: str | SessionRefused | None, pairs: list[str]) -> Session:
    query = _in_query(pairs) if pairs else None
    if isinstance(header, SessionRefused):
        return header
    if isinstance(query, SessionRefused):
        return query
    if header is not None and query is not None and header != query:
        return _ambiguous("The Authorization header and the query string name different sessions.")
    value = query if header is None else header
    if value is None:
        return None
    if len(value) > MAX_LENGTH or not _B64TOKEN.fullmatch(value):
        return SessionRefused(401, "invalid_token", _MALFORMED)
    return SessionCredential(value, "query" if header is None else "header", pairs[0] if pairs else None)


_MALFORMED = (
    f"The session ID is not a token of 1 to {MAX_LENGTH} characters out of A-Z a-z 0-9 - . _ ~ + / "
    "with = at its end only (in a query, + is written %2B)."
)


def _ambiguous(detail: str) -> SessionRefused:
    return SessionRefused(400, "invalid_request", detail)
