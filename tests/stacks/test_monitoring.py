"""What monitoring tools keep of a request: with the middleware outermost, no session ID in any of it.

These tools patch the process that they are installed in, so each of them gets one of its own: this very module, run
with the tool's name, prints all that was captured.
"""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flask_notifications import DeprecationMiddleware
from tests.stacks.hosts import OPERATIONS, POLICY, host, library
from tests.wsgi import environ_of, run

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

# Far from any line that stands in a traceback: the tools keep the source around those.
SESSION_ID = "4f2c1e9a7b3d4c5e8f6a0b1c2d3e4f50"
REQUESTS = {
    "served": ("/old/cookies", f"a=1&sessionId={SESSION_ID}"),
    "refused": ("/old/cookies", f"sessionId={SESSION_ID}&sessionId={SESSION_ID}"),
    "crashed": ("/old/crash", f"a=1&SESSIONID={SESSION_ID}"),
}

SENTRY = ["sentry-wsgi", "sentry-flask", "sentry-django"]
TELEMETRY = ["opentelemetry-wsgi", "opentelemetry-flask"]

Captured = dict[str, dict[str, str]]


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("tool", [*SENTRY, *TELEMETRY])
def test_outermost_the_middleware_leaves_no_session_to_capture(tool: str, request_name: str) -> None:
    assert SESSION_ID not in captured(tool)["outermost"][request_name]


@pytest.mark.parametrize("tool", SENTRY)
def test_neither_do_the_variables_of_its_own_frames_show_one(tool: str) -> None:
    # Sentry can be told to keep every frame down to the server's, not only those below the handler.
    crashed = captured(tool)["outermost, whole stacks"]["crashed"]
    assert "flask_notifications/middleware.py" in crashed
    assert SESSION_ID not in crashed


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("tool", [*SENTRY, "opentelemetry-wsgi"])
def test_inside_of_the_tool_the_middleware_comes_too_late(tool: str, request_name: str) -> None:
    assert SESSION_ID in captured(tool)["inside"][request_name]


@pytest.mark.parametrize("request_name", REQUESTS)
def test_the_flask_instrumentation_reads_late_enough_for_either_order(request_name: str) -> None:
    assert SESSION_ID not in captured("opentelemetry-flask")["inside"][request_name]


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
    child = subprocess.run(
        [sys.executable, "-m", "tests.stacks.test_monitoring", tool],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "OTEL_SEMCONV_STABILITY_OPT_IN": "http/dup"},  # the attributes of both conventions
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
    kept: list[str] = []

    def keep(_transport: object, envelope: Any) -> None:
        kept.append(envelope.serialize().decode("utf-8", "replace"))

    def drain() -> str:
        sentry.flush()
        text = "".join(kept)
        kept.clear()
        return text

    transport = type("Memory", (library("sentry_sdk.transport").Transport,), {"capture_envelope": keep})
    # The address is never dialled.
    start = partial(sentry.init, "http://key@127.0.0.1:9/1", transport=transport, traces_sample_rate=1.0)
    start()
    result = {"outermost": watch(outermost(under_sentry(framework)), drain)}
    start(add_full_stack=True, max_stack_frames=None)
    result["outermost, whole stacks"] = watch(outermost(under_sentry(framework)), drain)
    start()
    result["inside"] = watch(around_sentry(framework), drain)
    return result


def under_sentry(framework: str) -> "WSGIApplication":
    """Sentry patches Flask and Django themselves, whichever application they are asked for; others are wrapped."""
    if framework == "wsgi":
        return sentry_middleware(host("bare"))
    return host(framework)


def around_sentry(framework: str) -> "WSGIApplication":
    if framework == "flask":
        return inside_of_flask()
    return sentry_middleware(outermost(host("bare" if framework == "wsgi" else framework)))


def sentry_middleware(app: "WSGIApplication") -> "WSGIApplication":
    wrapped: WSGIApplication = library("sentry_sdk.integrations.wsgi").SentryWsgiMiddleware(app)
    return wrapped


def inside_of_flask() -> "WSGIApplication":
    app: Any = host("flask")
    app.wsgi_app = outermost(app.wsgi_app)
    wrapped: WSGIApplication = app
    return wrapped


def with_opentelemetry(framework: str) -> Captured:
    exporter = library("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    spans = library("opentelemetry.sdk.trace").TracerProvider()
    spans.add_span_processor(library("opentelemetry.sdk.trace.export").SimpleSpanProcessor(exporter))
    reader = library("opentelemetry.sdk.metrics.export").InMemoryMetricReader()
    meters = library("opentelemetry.sdk.metrics").MeterProvider([reader])
    providers = {"tracer_provider": spans, "meter_provider": meters}

    def drain() -> str:
        metrics = reader.get_metrics_data()
        text = "".join([span.to_json() for span in exporter.get_finished_spans()] + [metrics.to_json()])
        exporter.clear()
        return text

    if framework == "wsgi":
        wrap = partial(library("opentelemetry.instrumentation.wsgi").OpenTelemetryMiddleware, **providers)
        orders = {"outermost": outermost(wrap(host("bare"))), "inside": wrap(outermost(host("bare")))}
        return {order: watch(app, drain) for order, app in orders.items()}
    library("opentelemetry.instrumentation.flask").FlaskInstrumentor().instrument_app(host("flask"), **providers)
    return {"outermost": watch(outermost(host("flask")), drain), "inside": watch(inside_of_flask(), drain)}


if __name__ == "__main__":
    tool, asked = sys.argv[1].split("-")
    print(json.dumps((with_sentry if tool == "sentry" else with_opentelemetry)(asked)))  # noqa: T201 - the parent reads it
