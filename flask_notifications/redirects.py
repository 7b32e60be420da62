"""Whether a redirect leads back to a claimed operation of the same origin, and its target with the session put back.

Routers rebuild a target from the query string, which has lost its session pair by then; a legacy client that follows
would arrive without a session. Every other target leaves as it came: it would carry the session ID to a stranger.
"""

import re
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, quote, unquote_to_bytes, urljoin, urlsplit

from .operations import OperationTable
from .sessions import session_pairs

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

# RFC 9110 section 15.4: the redirects that clients follow by themselves; the last two with the method unchanged.
_REDIRECTS = frozenset({"301", "302", "303", "307", "308"})
_SAME_METHOD = frozenset({"307", "308"})
_PORTS = {"http": 80, "https": 443}
# What no URI holds (RFC 3986 section 2), and what clients are known to read in different ways.
_DOUBTFUL = re.compile(r"[^\x21-\x7e]|\\")


def restore(
    location: str, *, pair: str, status: str, path: str, environ: "WSGIEnvironment", table: OperationTable
) -> str:
    """Return a redirect's ``Location``, with the session pair where it leads back to a claimed operation.

    ``pair`` is the query's session pair as it came, ``path`` the request's ``PATH_INFO`` as it came, ``status`` the
    status line. The pair is put in once, before a fragment.
    """
    if status[:3] not in _REDIRECTS or _DOUBTFUL.search(location):
        return location
    try:
        here = _url(environ, path)
        target = urlsplit(urljoin(here, location))
        same_origin = _origin(target) == _origin(urlsplit(here)) and "@" not in target.netloc
    except ValueError:  # what is not a URL leads nowhere
        return location
    method = environ["REQUEST_METHOD"]
    if status[:3] not in _SAME_METHOD and method != "HEAD":
        method = "GET"
    below = _below(target.path, environ.get("SCRIPT_NAME", ""))
    if not same_origin or below is None or table.match(method, below) is None or session_pairs(target.query):
        return location
    before, hash_sign, fragment = location.partition("#")
    separator = "" if before.endswith(("?", "&")) else "&" if "?" in before else "?"
    return f"{before}{separator}{pair}{hash_sign}{fragment}"


def _url(environ: "WSGIEnvironment", path: str) -> str:
    host = environ.get("HTTP_HOST") or f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
    return f"{environ['wsgi.url_scheme']}://{host}{quote(environ.get('SCRIPT_NAME', '') + path, encoding='latin-1')}"


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port or _PORTS.get(url.scheme)


def _below(path: str, mount: str) -> str | None:
    """Return the part of a URL's path that an application mounted at ``mount`` sees, or ``None`` outside of it."""
    decoded = unquote_to_bytes(path).decode("latin-1")
    below = decoded.removeprefix(mount)
    return below if decoded.startswith(mount) and (not below or below[0] == "/") else None
