"""What a middleware adds to a trivial application."""

import tempfile
from collections.abc import Iterable
from operator import sub
from pathlib import Path
from typing import TYPE_CHECKING

from werkzeug.middleware.proxy_fix import ProxyFix

from benchmarks.candidates import WrongAnswer
from benchmarks.clients import Repeat, environ_with, repeated
from benchmarks.parts import Part, Results, column
from benchmarks.rounds import Effort, Values, timed
from benchmarks.work import ANNOUNCEMENT, PATH, POLICY, session_of
from flask_notifications import DeprecationMiddleware
from tests.wsgi import run

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

NOTHING = "nothing around it"
IDENTITY = "class that only passes on"
UNCLAIMED, UNCLAIMED_POST = "unclaimed", "unclaimed POST"
CLAIMED_HEADER, CLAIMED_QUERY = "claimed, session in the header", "claimed, session in the query"
PROXY_FIX, PROXY_FIX_UNUSED = "ProxyFix with its headers", "ProxyFix without its headers"
WHITENOISE = "WhiteNoise, path that it does not serve"
ADDED = "added"
ROWS = (
    IDENTITY,
    UNCLAIMED,
    UNCLAIMED_POST,
    CLAIMED_HEADER,
    CLAIMED_QUERY,
    PROXY_FIX_UNUSED,
    PROXY_FIX,
    WHITENOISE,
)

_OTHER_PATH = "/API/Reports/17"
_SESSION = session_of(1)
# What a proxy tells; Flask's documentation has ProxyFix believe these four.
_FORWARDED = {"FOR": "192.0.2.7", "PROTO": "https", "HOST": "example.com", "PREFIX": "/shop"}


class Identity:
    """Pass everything on."""

    def __init__(self, application: "WSGIApplication") -> None:
        self._application = application

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Pass a request on."""
        return self._application(environ, start_response)


def trivial(_environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    """Answer as little as possible."""
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", "2")])
    return [b"[]"]


def requests() -> "dict[str, tuple[WSGIApplication, WSGIEnvironment]]":
    """Return the middlewares around the trivial application, each with the request that it gets."""
    ours, other = DeprecationMiddleware(trivial, POLICY), environ_with(path=_OTHER_PATH)
    proxied = {f"HTTP_X_FORWARDED_{name}": value for name, value in _FORWARDED.items()}
    return {
        NOTHING: (trivial, other),
        IDENTITY: (Identity(trivial), other),
        UNCLAIMED: (ours, other),
        UNCLAIMED_POST: (ours, other | {"REQUEST_METHOD": "POST"}),
        CLAIMED_HEADER: (ours, environ_with(_SESSION)),
        CLAIMED_QUERY: (ours, environ_with(QUERY_STRING=f"sessionId={_SESSION}")),
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
    """Return what makes each of the requests again and again; raise ``WrongAnswer`` where one is not right."""
    made = requests()
    for name, (application, environ) in made.items():
        answer = run(application, environ.copy())
        announced = {field: answer.all(field) for field in ANNOUNCEMENT if answer.all(field)}
        expected = {field: [value] for field, value in ANNOUNCEMENT.items()} if environ["PATH_INFO"] == PATH else {}
        if answer.code != 200 or answer.body != b"[]" or announced != expected:
            message = f"{name}: {answer}"
            raise WrongAnswer(message)
    return {name: repeated(application, environ) for name, (application, environ) in made.items()}


def measure(effort: Effort) -> Results:
    """Return the microseconds that each middleware adds to a request, inside each round."""
    return column(ADDED, added(timed(repeats(), effort)))


def added(times: dict[str, Values]) -> dict[str, Values]:
    """Return what each costs beyond the trivial application alone."""
    bare = times.pop(NOTHING)
    return {name: tuple(map(sub, values, bare)) for name, values in times.items()}


PART = Part(
    "middleware",
    "Microseconds of processor time that each adds to a request, around a trivial application.",
    (ADDED,),
    ROWS,
    measure,
)
