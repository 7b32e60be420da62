"""Monitoring tools capture no session ID if the middleware is outermost.

These tools patch their process, so each of them runs in its own: this module, run as a
program with the name of a tool, prints everything that the tool captured.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from io import StringIO
from typing import Any
from unittest.mock import Mock
from wsgiref.types import WSGIApplication

import pytest

from flask_notifications import DeprecationMiddleware, Operation
from tests.frameworks.applications import (
    flask_application,
    library,
    pyramid_application,
)
from tests.middleware import PLAN, POLICY
from tests.servers.process import ROOT, run_program
from tests.storages import CURRENT_USER, OneSession, flask_app, raising
from tests.wsgi import environ_of, run

pytestmark = pytest.mark.slow

# Far from any line in a traceback, because the tools keep the source around those.
SESSION_ID = "4f2c1e9a7b3d4c5e8f6a0b1c2d3e4f50"
LABEL = "the-label-of-a-caller"
REQUESTS = {
    "served": ("/old/cookies", f"a=1&sessionId={SESSION_ID}"),
    "refused": ("/old/cookies", f"sessionId={SESSION_ID}&sessionId={SESSION_ID}"),
    "crashed": ("/old/crash", f"a=1&SESSIONID={SESSION_ID}"),
}

Captured = dict[str, dict[str, str]]


@pytest.mark.parametrize("tool", ["sentry", "opentelemetry"])
def test_an_outermost_middleware_leaves_no_session_id_to_capture(tool: str) -> None:
    outermost = capture(tool)["outermost"]
    for name in REQUESTS:
        assert SESSION_ID not in outermost[name]
        assert LABEL not in outermost[name]
    # Otherwise this would prove nothing.
    assert "/old/cookies" in outermost["served"]
    assert "on purpose" in outermost["crashed"]
    assert ('"vars"' in outermost["crashed"]) == (tool == "sentry")


def test_local_variables_of_the_middleware_show_no_session_id() -> None:
    # Sentry can be configured to keep every frame from the server's on, not only those
    # below the handler.
    crashed = capture("sentry")["outermost, whole stacks"]["crashed"]
    assert "flask_notifications/middleware.py" in crashed
    assert SESSION_ID not in crashed


def test_the_stack_of_a_log_record_shows_no_session_id() -> None:
    # Sentry can be configured to attach the stack, with local variables, to each record
    # that is logged as an error.
    logged = capture("sentry")["outermost, stacks of log records"]["failed"]
    assert "storage_error" in logged
    assert "identify: builtins.LookupError" in logged
    assert "flask_notifications/serving/service.py" in logged
    assert SESSION_ID not in logged


@cache
def capture(tool: str) -> Captured:
    """Run a tool in its own process and return what it captured, by the place of the
    middleware and the request.
    """
    instrumentation = "opentelemetry.instrumentation.wsgi"
    library("sentry_sdk" if tool == "sentry" else instrumentation)
    # The attributes of both conventions.
    environ = os.environ | {"OTEL_SEMCONV_STABILITY_OPT_IN": "http/dup"}
    command = [sys.executable, "-m", "tests.frameworks.test_monitoring", tool]
    result: Captured = json.loads(run_program(*command, cwd=ROOT, env=environ).stdout)
    return result


# The functions below run in the tool's own process.


def outermost(app: WSGIApplication) -> WSGIApplication:
    old = Operation(
        "old",
        "GET",
        "/old/{page}",
        "/new/items/",
        rewrite_path=True,
        unify_session=True,
    )
    return DeprecationMiddleware(app, {old: POLICY}, identify=lambda _environ: LABEL)


def watch(app: WSGIApplication, drain: Callable[[], str]) -> dict[str, str]:
    """Send each request as a server would, and return what was captured for each."""
    seen = {}
    for name, environ in environs():
        try:
            run(app, environ)
        except RuntimeError:
            logging.getLogger("server").info("the application raised")
        seen[name] = drain()
    return seen


def environs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the requests, so that no other frame of the tests holds the session ID."""
    for name, (path, query) in REQUESTS.items():
        environ = environ_of("GET", path, query, REMOTE_ADDR="192.0.2.7")
        environ["RAW_URI"] = environ["REQUEST_URI"] = f"{path}?{query}"
        environ["HTTP_REFERER"] = f"http://api.example{path}?{query}"
        environ["wsgi.errors"] = StringIO()
        yield name, environ


def with_sentry() -> Captured:
    sentry = library("sentry_sdk")
    kept: list[str] = []

    class Memory(library("sentry_sdk.transport").Transport):  # type: ignore[misc]
        def capture_envelope(self, envelope: Any) -> None:
            kept.append(envelope.serialize().decode("utf-8", "replace"))

    def drain() -> str:
        sentry.flush()
        text = "".join(kept)
        kept.clear()
        return text

    def start(**options: Any) -> None:
        # Nothing ever connects to this address.
        address = "http://key@127.0.0.1:9/1"
        sentry.init(address, transport=Memory, traces_sample_rate=1.0, **options)

    start()
    app = flask_application()  # which Sentry has patched
    result = {"outermost": watch(outermost(app), drain)}
    start(add_full_stack=True, max_stack_frames=None)
    result["outermost, whole stacks"] = watch(outermost(app), drain)
    start(attach_stacktrace=True)
    result["outermost, stacks of log records"] = {"failed": log_failures(drain)}
    return result


def log_failures(drain: Callable[[], str]) -> str:
    """Return what is captured when ``identify`` and the storage fail with the session ID."""
    fail = raising(LookupError(SESSION_ID))
    storage = OneSession(fail)
    storage.resolve_session = Mock(return_value="alice")  # type: ignore[method-assign]
    app = flask_app(storage, identify=lambda _caller: fail())
    environ = environ_of(
        "GET",
        CURRENT_USER.lower(),
        f"sessionId={SESSION_ID}",
        **{"wsgi.errors": StringIO()},
    )
    run(DeprecationMiddleware(app, PLAN), environ)
    return drain()


def with_opentelemetry() -> Captured:
    export = library("opentelemetry.sdk.trace.export")
    memory = library("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    exporter = memory.InMemorySpanExporter()
    spans = library("opentelemetry.sdk.trace").TracerProvider()
    spans.add_span_processor(export.SimpleSpanProcessor(exporter))
    metrics = library("opentelemetry.sdk.metrics")
    reader = library("opentelemetry.sdk.metrics.export").InMemoryMetricReader()
    providers = {
        "tracer_provider": spans,
        "meter_provider": metrics.MeterProvider([reader]),
    }

    def drain() -> str:
        text = reader.get_metrics_data().to_json()
        for span in exporter.get_finished_spans():
            text += span.to_json()
        exporter.clear()
        return str(text)

    wrap = library("opentelemetry.instrumentation.wsgi").OpenTelemetryMiddleware
    # Pyramid propagates the exception.
    app = wrap(pyramid_application(), **providers)
    return {"outermost": watch(outermost(app), drain)}


if __name__ == "__main__":
    run_tool = with_sentry if sys.argv[1] == "sentry" else with_opentelemetry
    print(json.dumps(run_tool()))  # noqa: T201
