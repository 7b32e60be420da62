"""The processor time that a middleware adds to a trivial application."""

from collections.abc import Iterable
from operator import sub
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug.middleware.proxy_fix import ProxyFix

from benchmarks.candidates import WrongResponse
from benchmarks.clients import environ_with, repeat_request
from benchmarks.measuring import (
    Effort,
    Part,
    Repeat,
    Results,
    Target,
    column,
    time_requests,
)
from benchmarks.work import ANNOUNCEMENT, PATH, PLAN, session_of
from flask_notifications import DeprecationMiddleware, Operation
from tests.wsgi import run

NOTHING, UNMATCHED = "no middleware", "unmatched"
MATCHED_HEADER, MATCHED_QUERY = (
    "matched, session in the header",
    "matched, session in the query",
)
PROXY_FIX, PROXY_FIX_UNUSED = (
    "ProxyFix with its headers",
    "ProxyFix without its headers",
)
# A version, a part of an operation and an operation in turn, each on a path of its own.
AMONG = {f"matched, among {count:,} others": count for count in (100, 10_000)}
ADDED = "added"

# The headers of a proxy; in Flask's documentation, ProxyFix trusts these four.
_FORWARDED = {
    "FOR": "192.0.2.7",
    "PROTO": "https",
    "HOST": "example.com",
    "PREFIX": "/shop",
}


def trivial(
    _environ: WSGIEnvironment, start_response: StartResponse
) -> Iterable[bytes]:
    """Send the smallest response that is JSON."""
    start_response(
        "200 OK", [("Content-Type", "application/json"), ("Content-Length", "2")]
    )
    return [b"[]"]


def among(count: int) -> DeprecationMiddleware:
    """Return a middleware whose plan has other operations too."""
    templates = [
        ("/API/V{}/**", None),
        ("/API/Repository{}", {"cmd": "getbundle"}),
        ("/API/Reports{}/{{id}}", None),
    ]
    others = [(number, *templates[number % 3]) for number in range(count)]
    policy = next(iter(PLAN.values()))
    plan = {
        Operation(f"{n}", "GET", path.format(n), query=query): policy
        for n, path, query in others
    }
    return DeprecationMiddleware(trivial, PLAN | plan)


def requests() -> dict[str, tuple[WSGIApplication, WSGIEnvironment]]:
    """Return the middlewares around the trivial application, each with the request that
    it gets.
    """
    ours, other = (
        DeprecationMiddleware(trivial, PLAN),
        environ_with(path="/API/Reports/17"),
    )
    proxy_fix = ProxyFix(trivial, x_for=1, x_proto=1, x_host=1, x_prefix=1)
    proxied = {f"HTTP_X_FORWARDED_{name}": value for name, value in _FORWARDED.items()}
    return {
        NOTHING: (trivial, other),
        UNMATCHED: (ours, other),
        MATCHED_HEADER: (ours, environ_with(session_of(1))),
        **{
            name: (among(count), environ_with(session_of(1)))
            for name, count in AMONG.items()
        },
        MATCHED_QUERY: (ours, environ_with(QUERY_STRING=f"sessionId={session_of(1)}")),
        PROXY_FIX_UNUSED: (proxy_fix, other),
        PROXY_FIX: (proxy_fix, other | proxied),
    }


def checked_requests() -> dict[str, Repeat]:
    """Return a function for each request that makes it repeatedly; raise
    ``WrongResponse`` if a response is wrong.
    """
    made = requests()
    for name, (application, environ) in made.items():
        response = run(application, environ.copy())
        announced = {
            header: response.all(header)
            for header in ANNOUNCEMENT
            if response.all(header)
        }
        expected = (
            {header: [value] for header, value in ANNOUNCEMENT.items()}
            if environ["PATH_INFO"] == PATH
            else {}
        )
        if response.code != 200 or response.body != b"[]" or announced != expected:
            message = f"{name}: {response}"
            raise WrongResponse(message)
    return {
        name: repeat_request(application, environ)
        for name, (application, environ) in made.items()
    }


def measure(effort: Effort) -> Results:
    """Return the microseconds that each middleware adds to a request, by round."""
    times = time_requests(checked_requests(), effort)
    bare = times.pop(NOTHING)
    return column(
        ADDED, {name: tuple(map(sub, values, bare)) for name, values in times.items()}
    )


PART = Part(
    "middleware",
    "Microseconds of processor time that each middleware adds to a request to a trivial application.",
    (ADDED,),
    (UNMATCHED, MATCHED_HEADER, MATCHED_QUERY, *AMONG, PROXY_FIX_UNUSED, PROXY_FIX),
    measure,
    (
        Target(ADDED, UNMATCHED, 1.5, PROXY_FIX_UNUSED),
        Target(ADDED, MATCHED_HEADER, 1.0, PROXY_FIX),
        Target(ADDED, MATCHED_QUERY, 1.5, PROXY_FIX),
    ),
)
