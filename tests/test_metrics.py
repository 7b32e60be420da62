"""Metrics for Prometheus: their values, several processes, and the alert rules of the
documentation.
"""

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import requests
from opentelemetry.instrumentation.wsgi import OpenTelemetryMiddleware
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation
from flask_notifications.metrics import OpenTelemetryObserver, PrometheusObserver
from flask_notifications.plans.policy import Phase
from tests.servers.process import (
    PATIENCE,
    ROOT,
    eventually,
    gunicorn,
    run_program,
    serving,
)
from tests.services import program_or_skip
from tests.usage.databases import use
from tests.wsgi import environ_of, plain_app, run

REPORT, EXPORT, LIVE = (
    Operation(name, "GET", f"/{name}") for name in ("report", "export", "live")
)
DEPRECATED_AT, SUNSET_AT = (
    datetime(2026, 1, 1, tzinfo=UTC),
    datetime(2027, 7, 1, tzinfo=UTC),
)
PLAN = {
    REPORT: DeprecationPolicy(deprecated_at=DEPRECATED_AT, sunset_at=SUNSET_AT),
    EXPORT: DeprecationPolicy(deprecated_at=DEPRECATED_AT),
    LIVE: None,
}
REQUESTS = "flask_notifications_requests_total"


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, {"operation": "report", **labels})


def test_the_dates_of_the_plan_are_metrics(registry: CollectorRegistry) -> None:
    PrometheusObserver(PLAN, registry=registry)
    deprecated, sunset = (
        f"flask_notifications_{name}_timestamp_seconds"
        for name in ("deprecated", "sunset")
    )
    assert value(registry, deprecated) == DEPRECATED_AT.timestamp()
    assert value(registry, sunset) == SUNSET_AT.timestamp()
    assert value(registry, sunset, operation="export") == 0


@pytest.mark.parametrize(
    ("call", "labels"),
    [
        (
            use(status=200, source="header"),
            {"phase": "deprecated", "source": "header", "code": "200"},
        ),
        (
            use(status=404, source="query"),
            {"phase": "deprecated", "source": "query", "code": "404"},
        ),
        (use(status=None), {"phase": "deprecated", "source": "none", "code": "none"}),
        (
            use(status=410, phase=Phase.BROWNOUT),
            {"phase": "brownout", "source": "none", "code": "410"},
        ),
    ],
    ids=["a success", "a failure", "an application that raised", "a brownout"],
)
def test_requests_are_counted(
    registry: CollectorRegistry, call: Any, labels: dict[str, str]
) -> None:
    observer = PrometheusObserver(PLAN, registry=registry)
    observer(call)
    observer(call)
    assert value(registry, REQUESTS, **labels) == 2
    assert (
        value(registry, "flask_notifications_last_request_timestamp_seconds")
        == call.at.timestamp()
    )


def test_a_slow_request_that_ends_late_does_not_set_the_last_time_back(
    registry: CollectorRegistry,
) -> None:
    observer = PrometheusObserver(PLAN, registry=registry)
    for at in (SUNSET_AT, DEPRECATED_AT):
        observer(use()._replace(at=at))
    assert (
        value(registry, "flask_notifications_last_request_timestamp_seconds")
        == SUNSET_AT.timestamp()
    )


def test_another_kind_of_plan_registry_or_provider_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^plan must be"):
        OpenTelemetryObserver([REPORT])  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"^registry must be a CollectorRegistry, not 'x'$"
    ):
        PrometheusObserver(PLAN, registry="x")  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"^meter_provider must be a MeterProvider, not 'x'$"
    ):
        OpenTelemetryObserver(PLAN, meter_provider="x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "app", "attributes"),
    [
        (
            "GET",
            plain_app(),
            {"http.request.method": "GET", "http.response.status_code": 200},
        ),
        (
            "get",
            plain_app(),
            {"http.request.method": "GET", "http.response.status_code": 200},
        ),
        ("GET", Mock(side_effect=LookupError), {"http.request.method": "GET"}),
    ],
    ids=["a success", "in lower case", "a failure without a status"],
)
def test_opentelemetry_counts_requests_and_marks_their_span(
    method: str, app: Any, attributes: Any
) -> None:
    reader, exporter, spans = (
        InMemoryMetricReader(),
        InMemorySpanExporter(),
        TracerProvider(),
    )
    spans.add_span_processor(SimpleSpanProcessor(exporter))
    observer = OpenTelemetryObserver(PLAN, meter_provider=MeterProvider([reader]))
    retiring = DeprecationMiddleware(app, PLAN, observers=[observer])
    instrumented = OpenTelemetryMiddleware(retiring, tracer_provider=spans)
    for path in ("/report", "/live"):
        with suppress(LookupError):
            run(instrumented, environ_of(method, path, ""))
    (point,) = points(reader)
    common = {"http.route": "/report", "flask_notifications.phase": "deprecated"}
    assert (point.value, point.attributes) == (1, common | attributes)
    report, live = (
        dict(span.attributes or {}) for span in exporter.get_finished_spans()
    )
    assert report["flask_notifications.operation"] == "report"
    assert report["flask_notifications.phase"] == "deprecated"
    assert not any("flask_notifications" in name for name in live)


def points(reader: InMemoryMetricReader) -> list[Any]:
    data: Any = reader.get_metrics_data()
    (resource,) = data.resource_metrics
    (scope,) = resource.scope_metrics
    (metric,) = scope.metrics
    assert metric.name == "flask_notifications.requests"
    return list(metric.data.data_points)


def test_a_method_that_http_does_not_define_has_no_attribute_of_its_own() -> None:
    reader = InMemoryMetricReader()
    OpenTelemetryObserver(PLAN, meter_provider=MeterProvider([reader]))(
        use()._replace(method="X" * 100)
    )
    assert points(reader)[0].attributes["http.request.method"] == "_OTHER"


@pytest.mark.slow
@pytest.mark.parametrize("preload", [False, True])
def test_a_scrape_has_requests_of_all_workers(
    preload: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "metrics"
    directory.mkdir()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(directory))
    conf = f"workers = 3\npreload_app = {preload}"
    program = replace(gunicorn("sync", conf), application="tests.usage.app:application")
    with serving(program, tmp_path) as server:
        eventually(lambda: len(server.workers()) == 3)
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda _: server.ask("GET", "/report"), range(60)))
        url = f"http://127.0.0.1:{server.port}/metrics"
        # The client library raises an exception while a worker creates its file.
        responses = (requests.get(url, timeout=PATIENCE) for _ in range(20))
        exposition = next(response.text for response in responses if response.ok)
    samples = [
        sample
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
    ]
    assert sum(sample.value for sample in samples if sample.name == REQUESTS) == 60
    last = max(
        sample.value
        for sample in samples
        if sample.name.endswith("last_request_timestamp_seconds")
    )
    assert 0 <= datetime.now(UTC).timestamp() - last < 60
    deprecated = {
        sample.value
        for sample in samples
        if sample.name.endswith("deprecated_timestamp_seconds")
    }
    assert deprecated == {DEPRECATED_AT.timestamp()}


# The state of the metrics on 15 June 2027, and the alerts that fire then.
ALERTS = """
rule_files: [rules.yaml]
tests:
  - interval: 1m
    input_series:
      - {series: 'flask_notifications_sunset_timestamp_seconds{operation="near"}', values: '1296000x2900'}
      - {series: 'flask_notifications_sunset_timestamp_seconds{operation="quiet"}', values: '1296000x2900'}
      - {series: 'flask_notifications_sunset_timestamp_seconds{operation="far"}', values: '12960000x2900'}
      - {series: 'flask_notifications_sunset_timestamp_seconds{operation="undated"}', values: '0x2900'}
      - {series: 'flask_notifications_last_request_timestamp_seconds{operation="near"}', values: '86400x2900'}
      - {series: 'flask_notifications_last_request_timestamp_seconds{operation="far"}', values: '86400x2900'}
      - {series: 'flask_notifications_last_request_timestamp_seconds{operation="undated"}', values: '86400x2900'}
      - {series: 'flask_notifications_last_request_timestamp_seconds{operation="quiet"}', values: '-864000x2900'}
      - {series: 'flask_notifications_requests_total{operation="ended",phase="sunset"}', values: '0x2000 1x900'}
      - {series: 'flask_notifications_requests_total{operation="near",phase="deprecated"}', values: '0+1x2900'}
    alert_rule_test:
      - eval_time: 2d
        alertname: SunsetNearAndStillCalled
        exp_alerts:
          - exp_labels: {operation: near, severity: warning}
            exp_annotations: {summary: near ends in 13d 0h 0m 0s}
      - eval_time: 2d
        alertname: CalledAfterSunset
        exp_alerts:
          - exp_labels: {operation: ended, severity: info}
            exp_annotations: {summary: ended has ended and is still called}
"""


@pytest.mark.slow
def test_promtool_accepts_the_alert_rules_and_they_fire_when_they_should(
    tmp_path: Path,
) -> None:
    promtool = program_or_skip("promtool")
    page = (ROOT / "docs" / "usage.md").read_text(encoding="utf-8")
    (rules,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "rules.yaml").write_text(rules, encoding="utf-8")
    (tmp_path / "alerts.yaml").write_text(ALERTS, encoding="utf-8")
    for command in (["check", "rules", "rules.yaml"], ["test", "rules", "alerts.yaml"]):
        run_program(promtool, *command, cwd=tmp_path)
