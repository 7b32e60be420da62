"""What monitoring tools keep of a request: with the middleware outermost, no session ID in any of it.

These tools patch the process that they are installed in, so each of them gets one of its own: this very module, run with
the tool's name, prints all that was captured.
"""

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flask_notifications import DeprecationMiddleware
from tests.stacks.hosts import OPERATIONS, POLICY, django_host, flask_host, host, library
from tests.wsgi import environ_of, run

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

# Far from any line that stands in a traceback: the tools keep the source around those.
SECRET = "4f2c1e9a7b3d4c5e8f6a0b1c2d3e4f50"
REQUESTS = {
    "served": ("/old/cookies", f"a=1&sessionId={SECRET}"),
    "refused": ("/old/cookies", f"sessionId={SECRET}&sessionId={SECRET}"),
    "crashed": ("/old/crash", f"a=1&SESSIONID={SECRET}"),
}

SENTRY = ["sentry-wsgi", "sentry-flask", "sentry-django"]
TELEMETRY = ["opentelemetry-wsgi", "opentelemetry-flask"]

Captured = dict[str, dict[str, str]]
Install = Callable[["WSGIApplication"], "WSGIApplication"]


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("tool", [*SENTRY, *TELEMETRY])
def test_outermost_the_middleware_leaves_no_session_to_capture(tool: str, request_name: str) -> None:
    assert SECRET not in captured(tool)["outermost"][request_name]


@pytest.mark.parametrize("tool", SENTRY)
def test_neither_do_the_variables_of_its_own_frames_show_one(tool: str) -> None:
    # Sentry can be told to keep every frame down to the server's, not only those below the handler.
    crashed = captured(tool)["outermost, whole stacks"]["crashed"]
    assert "flask_notifications/middleware.py" in crashed
    assert SECRET not in crashed


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("tool", [*SENTRY, "opentelemetry-wsgi"])
def test_inside_of_the_tool_the_middleware_comes_too_late(tool: str, request_name: str) -> None:
    assert SECRET in captured(tool)["inside"][request_name]


@pytest.mark.parametrize("request_name", REQUESTS)
def test_the_flask_instrumentation_reads_late_enough_for_either_order(request_name: str) -> None:
    assert SECRET not in captured("opentelemetry-flask")["inside"][request_name]


@pytest.mark.parametrize("tool", [*SENTRY, *TELEMETRY])
def test_requests_and_crashes_are_captured_indeed(tool: str) -> None:
    # Otherwise the tests above would prove nothing.
    outermost = captured(tool)["outermost"]
    assert "/old/cookies" in outermost["served"]
    assert "on purpose" in outermost["crashed"]
    assert ('"vars"' in outermost["crashed"]) == (tool in SENTRY)


@cache
def captured(tool: str) -> Captured:
    """Return all that a tool keeps, by the order of installation and the request, from a process of its own."""
    kind, framework = tool.split("-")
    library("sentry_sdk" if kind == "sentry" else f"opentelemetry.instrumentation.{framework}")
    library("opentelemetry.sdk" if kind == "opentelemetry" else "django" if framework == "django" else "flask")
    child = subprocess.run(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", __spec__.name if __spec__ else __name__, tool],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    result: Captured = json.loads(child.stdout)
    return result


# From here on: in the tool's own process.


def outermost(app: "WSGIApplication") -> "WSGIApplication":
    return DeprecationMiddleware(app, POLICY, operations=OPERATIONS)


def watch(app: "WSGIApplication", drain: Callable[[], str]) -> dict[str, str]:
    """Send each request, as a server passes it on, and return what was captured of it."""
    seen = {}
    for name, environ in environs():
        try:
            run(app, environ)
        except RuntimeError:
            logging.getLogger("server").info("the application raised")
        seen[name] = drain()
    return seen


def environs() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, (path, query) in REQUESTS.items():
        target = f"{path}?{query}"
        addresses = {"RAW_URI": target, "REQUEST_URI": target, "HTTP_REFERER": f"http://api.example{target}"}
        yield name, environ_of("GET", path, query, **addresses, REMOTE_ADDR="192.0.2.7", **{"wsgi.errors": StringIO()})


def with_sentry(framework: str) -> Captured:
    sentry = library("sentry_sdk")
    wrap = library("sentry_sdk.integrations.wsgi").SentryWsgiMiddleware
    kept: list[str] = []

    class Memory(library("sentry_sdk.transport").Transport):  # type: ignore[misc]  # the base class is any module's
        def capture_envelope(self, envelope: Any) -> None:
            kept.append(envelope.serialize().decode("utf-8", "replace"))

    def drain() -> str:
        sentry.flush()
        text = "".join(kept)
        kept.clear()
        return text

    def start(**options: Any) -> None:
        sentry.init("http://key@127.0.0.1:9/1", transport=Memory, traces_sample_rate=1.0, **options)

    def instrumented() -> "WSGIApplication":
        # Sentry patches Flask and Django, also where they are created before; anything else is wrapped.
        return {"wsgi": lambda: wrap(host("bare")), "flask": lambda: host("flask"), "django": lambda: host("django")}[
            framework
        ]()

    def inside() -> "WSGIApplication":
        if framework == "flask":
            app: Any = flask_host(False)
            app.wsgi_app = outermost(app.wsgi_app)
            return app
        return wrap(outermost(host("bare") if framework == "wsgi" else django_host(False)))

    start()
    result = {"outermost": watch(outermost(instrumented()), drain)}
    start(add_full_stack=True, max_stack_frames=None)
    result["outermost, whole stacks"] = watch(outermost(instrumented()), drain)
    start()
    result["inside"] = watch(inside(), drain)
    return result
