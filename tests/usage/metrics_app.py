"""The application of the metrics tests: several processes share the directory in PROMETHEUS_MULTIPROC_DIR."""

from collections.abc import Iterable
from datetime import UTC, datetime
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.multiprocess import MultiProcessCollector

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation
from flask_notifications.metrics import PrometheusObserver

registry = CollectorRegistry()
MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
metrics: WSGIApplication = make_wsgi_app(registry)


def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Respond with the metrics at their path, and with 404 elsewhere."""
    if environ["PATH_INFO"] == "/metrics":
        return metrics(environ, start_response)
    start_response("404 Not Found", [("Content-Type", "text/plain"), ("Content-Length", "0")])
    return []


operation = Operation("report", "GET", "/report")
policy = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))
plan = {operation: policy}
application = DeprecationMiddleware(serve, plan, observers=[PrometheusObserver(plan)])
