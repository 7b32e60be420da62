"""Whether a redirect leads back to a claimed operation of the same origin, and its target with the session put back.

Routers rebuild a target from the query string, which has lost its session pair by then; a legacy client that follows
would arrive without a session. Every other target leaves as it came: it would carry the session ID to a stranger.
"""

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, quote, unquote_to_bytes, urljoin, urlsplit

from .fields import Fields
from .operations import OperationTable
from .sessions import Session, SessionCredential, session_pairs

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

# RFC 9110 section 15.4: the redirects that clients follow by themselves; the last two with the method unchanged.
_REDIRECTS = frozenset({"301", "302", "303", "307", "308"})
_SAME_METHOD = frozenset({"307", "308"})
_PORTS = {"http": 80, "https": 443}
# RFC 3986 section 4.2, less what clients are known to read in different ways: backslashes, an authority that is empty
# or behind another number of slashes, a scheme without one, empty segments.
_PLAIN = re.compile(
    r"(?=[\x21-\x5b\x5d-\x7e]*\Z)"  # nothing but what a URI may hold: clients drop some of the rest
    r"(?:(?:https?:)?//[^/?#]+(?=[/?#]|\Z)|(?!//|[^/?#]*:))"
    r"(?:(?!//)[^?#])*+(?:[?#].*)?",
    re.IGNORECASE,
)


@dataclass(slots=True)  # not frozen: one is made at each request with a query session
class WayBack:
    """Remember where a query-borne request came in, so that a redirect back to it keeps the session.

    ``pair`` is the query's session pair and ``path`` the request's ``PATH_INFO``, both as they came; ``host`` has the
    port where it is not the scheme's own, ``mount`` is ``SCRIPT_NAME``. All as the middleware saw them: what an
    application makes of its environ later does not count.
    """

    pair: str = field(repr=False)
    method: str
    scheme: str
    host: str
    mount: str
    path: str
    table: OperationTable

    def restored(self, fields: Fields, status: str) -> Fields:
        """Return the fields of an answer with the pair in each ``Location`` that leads to a claimed operation."""
        return [(name, self.restore(value, status) if name.lower() == "location" else value) for name, value in fields]

    def restore(self, location: str, status: str) -> str:
        """Return a ``Location``, with the pair in it once, before a fragment, where it leads to a claimed operation.

        ``status`` is the status line. Claimed means: of the same scheme, host and port, with the method that a client
        uses then.
        """
        if status[:3] not in _REDIRECTS or not _PLAIN.fullmatch(location) or not self._leads_back(location, status):
            return location
        before, hash_sign, fragment = location.partition("#")
        if not before:  # the same page, with the query that the client has
            return location
        _path, question_mark, query = before.partition("?")
        separator = "?" if not question_mark else "&" if query and not query.endswith("&") else ""
        return f"{before}{separator}{self.pair}{hash_sign}{fragment}"

    def _leads_back(self, location: str, status: str) -> bool:
        here = f"{self.scheme}://{self.host}{quote(self.mount + self.path, encoding='latin-1', errors='replace')}"
        try:
            # urljoin knows parameters of a segment, which no client does, and drops empty ones.
            target = urlsplit(urljoin(here, location.replace(";", "%3B")))
            same_origin = _origin(target) == _origin(urlsplit(here)) and "@" not in target.netloc
        except ValueError:  # what is not a URL leads nowhere
            return False
        method = self.method if status[:3] in _SAME_METHOD or self.method == "HEAD" else "GET"
        below = _below(target.path, self.mount)
        claimed = below is not None and self.table.match(method, below) is not None
        return same_origin and claimed and not session_pairs(target.query)


def way_back(environ: "WSGIEnvironment", path: str, session: Session, table: OperationTable) -> WayBack | None:
    """Return the way back of a request whose environ has not been handed on yet; ``None`` when no session needs it."""
    if not isinstance(session, SessionCredential) or session.pair is None:
        return None
    return WayBack(
        pair=session.pair,
        method=environ["REQUEST_METHOD"],
        scheme=environ["wsgi.url_scheme"],
        host=environ.get("HTTP_HOST") or f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}",
        mount=environ.get("SCRIPT_NAME", "").rstrip("/"),
        path=path,
        table=table,
    )


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, _PORTS.get(url.scheme) if url.port is None else url.port


def _below(path: str, mount: str) -> str | None:
    """Return the part of a URL's path that an application mounted at ``mount`` sees, or ``None`` outside of it."""
    decoded = unquote_to_bytes(path).decode("latin-1")
    below = decoded.removeprefix(mount)
    return below if decoded.startswith(mount) and (not below or below[0] == "/") else None
