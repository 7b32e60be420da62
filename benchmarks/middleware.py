"""The processor time that a middleware adds to a trivial application."""

import tempfile
from collections.abc import Iterable
from operator import sub
from pathlib import Path
from typing import TYPE_CHECKING

from werkzeug.middleware.proxy_fix import ProxyFix

from benchmarks.candidates import WrongResponse
from benchmarks.clients import Repeat, environ_with, repeat_request
from benchmarks.parts import Part, Results, column
from benchmarks.rounds import Effort, Values, time_requests
from benchmarks.work import ANNOUNCEMENT, PATH, POLICY, session_of
from flask_notifications import DeprecationMiddleware
from tests.wsgi import run

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

NOTHING = "no middleware"
IDENTITY = "class that only calls the application"
UNMATCHED, UNMATCHED_POST = "unmatched", "unmatched POST"
MATCHED_HEADER, MATCHED_QUERY = "matched, session in the header", "matched, session in the query"
PROXY_FIX, PROXY_FIX_UNUSED = "ProxyFix with its headers", "ProxyFix without its headers"
WHITENOISE = "WhiteNoise, path that it does not serve"
ADDED = "added"
ROWS = (
    IDENTITY,
    UNMATCHED,
    UNMATCHED_POST,
    MATCHED_HEADER,
    MATCHED_QUERY,
    PROXY_FIX_UNUSED,
    PROXY_FIX,
    WHITENOISE,
)

_OTHER_PATH = "/API/Reports/17"
_SESSION = session_of(1)
# The headers of a proxy; in Flask's documentation, ProxyFix trusts these four.
_FORWARDED = {"FOR": "192.0.2.7", "PROTO": "https", "HOST": "example.com", "PREFIX": "/shop"}


class PassThrough:
    """Call the application and return its response, unchanged."""

    def __init__(self, application: "WSGIApplication") -> None:
        self._application = application

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Call the application."""
        return self._application(environ, start_response)


def trivial(_environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    """Send the smallest response that is JSON."""
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", "2")])
    return [b"[]"]


def requests() -> "dict[str, tuple[WSGIApplication, WSGIEnvironment]]":
    """Return the middlewares around the trivial application, each with the request that it gets."""
    ours, other = DeprecationMiddleware(trivial, POLICY), environ_with(path=_OTHER_PATH)
    proxied = {f"HTTP_X_FORWARDED_{name}": value for name, value in _FORWARDED.items()}
    return {
        NOTHING: (trivial, other),
        IDENTITY: (PassThrough(trivial), other),
        UNMATCHED: (ours, other),
        UNMATCHED_POST: (ours, other | {"REQUEST_METHOD": "POST"}),
        MATCHED_HEADER: (ours, environ_with(_SESSION)),
        MATCHED_QUERY: (ours, environ_with(QUERY_STRING=f"sessionId={_SESSION}")),
        PROXY_FIX_UNUSED: (_proxy_fix(), other),
        PROXY_FIX: (_proxy_fix(), other | proxied),
        WHITENOISE: (_whitenoise(), other),
    }


def _proxy_fix() -> "WSGIApplication":
    return ProxyFix(trivial, x_for=1, x_proto=1, x_host=1, x_prefix=1)


def _whitenoise() -> "WSGIApplication":
    from whitenoise import WhiteNoise

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "style.css").write_text("body {}", encoding="ascii")
        application: WSGIApplication = WhiteNoise(trivial, root=folder, prefix="static")
        return application


def repeats() -> dict[str, Repeat]:
    """Return a function for each request that makes it repeatedly; raise ``WrongResponse`` if a response is wrong."""
    made = requests()
    for name, (application, environ) in made.items():
        response = run(application, environ.copy())
        announced = {header: response.all(header) for header in ANNOUNCEMENT if response.all(header)}
        expected = {header: [value] for header, value in ANNOUNCEMENT.items()} if environ["PATH_INFO"] == PATH else {}
        if response.code != 200 or response.body != b"[]" or announced != expected:
            message = f"{name}: {response}"
            raise WrongResponse(message)
    return {name: repeat_request(application, environ) for name, (application, environ) in made.items()}


def measure(effort: Effort) -> Results:
    """Return the microseconds that each middleware adds to a request, by round."""
    return column(ADDED, subtract_bare(time_requests(repeats(), effort)))


def subtract_bare(times: dict[str, Values]) -> dict[str, Values]:
    """Return the times without that of the trivial application alone."""
    bare = times.pop(NOTHING)
    return {name: tuple(map(sub, values, bare)) for name, values in times.items()}


PART = Part(
    "middleware",
    "Microseconds of processor time that each middleware adds to a request to a trivial application.",
    (ADDED,),
    ROWS,
    measure,
)
