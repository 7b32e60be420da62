"""An observer that counts matched requests for Prometheus (extra ``prometheus``)."""

from importlib.util import find_spec
from itertools import product
from threading import Lock
from typing import Literal

from flask_notifications.observers import Call
from flask_notifications.plans.plan import Plan, deprecated_operations
from flask_notifications.plans.policy import Phase
from flask_notifications.validation import require

if find_spec("prometheus_client") is None:
    message = "PrometheusObserver needs: pip install 'Flask-Notifications[prometheus]'"
    raise ModuleNotFoundError(message, name="prometheus_client")

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge

_PREFIX = "flask_notifications"
# The source of a request without a session, and the code if the application raised.
_NONE = "none"

# The usual status in each phase. These series are created in advance, because rate()
# misses the first request of a new series.
_USUAL = {
    Phase.ANNOUNCED: "200",
    Phase.DEPRECATED: "200",
    Phase.BROWNOUT: "410",
    Phase.SUNSET: "410",
}
_SOURCES = ("header", "query", _NONE)


class PrometheusObserver:
    """Observe ``DeprecationMiddleware``, and count requests to deprecated operations.

    ``flask_notifications_requests_total`` has the labels ``operation``, ``phase``,
    ``source`` (``header``, ``query`` or ``none``) and ``code`` (the status, or ``none``
    when the application raised). The gauges
    ``flask_notifications_deprecated_timestamp_seconds``,
    ``flask_notifications_sunset_timestamp_seconds`` and
    ``flask_notifications_last_request_timestamp_seconds`` have the label ``operation``;
    their values are seconds since 1970, and 0 where there is no date, or no request
    yet.

    :param plan: the operations and their policies. Live operations, whose policy is
        ``None``, have no metrics.
    :param registry: registers the metrics, only once; by default the global registry.
    :raises ValueError: ``plan`` is not a plan, ``registry`` is not a registry, or these
        metrics are already registered there.
    """

    def __init__(self, plan: Plan, *, registry: CollectorRegistry = REGISTRY) -> None:
        policies = deprecated_operations(plan)
        require(
            isinstance(registry, CollectorRegistry),
            "registry",
            "a CollectorRegistry",
            registry,
        )
        labels = ("operation", "phase", "source", "code")
        self._requests = Counter(
            f"{_PREFIX}_requests",
            "Requests to deprecated operations.",
            labels,
            registry=registry,
        )

        def make_gauge(
            name: str, documentation: str, mode: Literal["mostrecent", "max"]
        ) -> Gauge:
            name = f"{_PREFIX}_{name}_timestamp_seconds"
            return Gauge(
                name,
                documentation,
                ("operation",),
                registry=registry,
                multiprocess_mode=mode,
            )

        deprecated = make_gauge(
            "deprecated",
            "The date from which an operation is deprecated.",
            "mostrecent",
        )
        sunset = make_gauge(
            "sunset", "The date at which an operation is to end, or 0.", "mostrecent"
        )
        self._last_request = make_gauge(
            "last_request", "The time of the last request to an operation, or 0.", "max"
        )
        self._latest: dict[str, float] = {}
        self._lock = Lock()
        for operation, policy in policies.items():
            deprecated.labels(operation.name).set(policy.deprecated_at.timestamp())
            sunset.labels(operation.name).set(
                0 if policy.sunset_at is None else policy.sunset_at.timestamp()
            )
            self._last_request.labels(operation.name)
            for (phase, code), source in product(_USUAL.items(), _SOURCES):
                self._requests.labels(operation.name, phase.value, source, code)

    def __call__(self, call: Call) -> None:
        """Count one request."""
        code = _NONE if call.status is None else str(call.status)
        self._requests.labels(
            call.operation, call.phase.value, call.source or _NONE, code
        ).inc()
        at = call.at.timestamp()
        # A request that began later may have ended earlier.
        with self._lock:
            if at > self._latest.get(call.operation, 0):
                self._latest[call.operation] = at
                self._last_request.labels(call.operation).set(at)
