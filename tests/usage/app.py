"""The application for the tests with servers: it records in a database, or shows
metrics, as its environment says.
"""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.multiprocess import MultiProcessCollector
from werkzeug.test import Client

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation
from flask_notifications.metrics import PrometheusObserver
from flask_notifications.usage import UsageRecorder

OPERATIONS = (
    Operation("report", "GET", "/report"),
    Operation("export", "GET", "/export/{id}"),
)
PLAN = dict.fromkeys(
    OPERATIONS, DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))
)


def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Respond with the metrics of all processes at their path, and with the ID of the
    process to everything else; the caller is in a header.
    """
    if environ["PATH_INFO"] == "/metrics":
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        metrics: WSGIApplication = make_wsgi_app(registry)
        return metrics(environ, start_response)
    environ["flask_notifications.caller"] = environ.get("HTTP_X_CALLER")
    body = str(os.getpid()).encode()
    headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
    start_response("200 OK", headers)
    return [body]


def make_observer() -> UsageRecorder | PrometheusObserver:
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        return PrometheusObserver(PLAN)
    return UsageRecorder(os.environ["USAGE_DATABASE"], flush_interval=3600)


application = DeprecationMiddleware(serve, PLAN, observers=[make_observer()])
if "WARM_UP" in os.environ:
    # While it is imported, as some applications fill their caches.
    Client(application).get("/report", headers={"User-Agent": "warm-up"})
