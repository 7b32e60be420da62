"""An observer that counts matched requests with OpenTelemetry.

It needs the extra ``opentelemetry``, which installs only the API of OpenTelemetry.
"""

from http import HTTPMethod
from importlib.util import find_spec

from flask_notifications.observers import Call
from flask_notifications.plans.plan import Plan, deprecated_operations
from flask_notifications.validation import require

if find_spec("opentelemetry") is None:
    message = (
        "OpenTelemetryObserver needs: pip install 'Flask-Notifications[opentelemetry]'"
    )
    raise ModuleNotFoundError(message, name="opentelemetry")

from opentelemetry import metrics, trace

# The methods that have a name in the semantic conventions; a client may send any other.
_METHODS = {*HTTPMethod, "QUERY"}


class OpenTelemetryObserver:
    """Observe ``DeprecationMiddleware``, and count requests to deprecated operations.

    The counter ``flask_notifications.requests`` has the attributes ``http.route`` (the
    path of the operation), ``http.request.method`` (``_OTHER`` for a method that HTTP
    does not define), ``http.response.status_code`` (absent when the application raised)
    and ``flask_notifications.phase``. The current span gets the attributes
    ``flask_notifications.operation`` and ``flask_notifications.phase``, if the
    middleware runs inside it.

    :param plan: the operations and their policies. Live operations, whose policy is
        ``None``, are not counted.
    :param meter_provider: creates the counter; by default the global provider of
        ``opentelemetry.metrics``.
    :raises ValueError: ``plan`` is not a plan, or ``meter_provider`` is not a
        ``MeterProvider``.
    """

    def __init__(
        self, plan: Plan, *, meter_provider: metrics.MeterProvider | None = None
    ) -> None:
        self._routes = {
            operation.name: operation.path for operation in deprecated_operations(plan)
        }
        is_provider = meter_provider is None or isinstance(
            meter_provider, metrics.MeterProvider
        )
        require(is_provider, "meter_provider", "a MeterProvider", meter_provider)
        meter = metrics.get_meter("flask_notifications", meter_provider=meter_provider)
        self._requests = meter.create_counter(
            "flask_notifications.requests",
            unit="{request}",
            description="Requests to deprecated operations.",
        )

    def __call__(self, call: Call) -> None:
        """Count one request."""
        method = call.method.upper()
        attributes: dict[str, str | int] = {
            "http.route": self._routes[call.operation],
            "http.request.method": method if method in _METHODS else "_OTHER",
            "flask_notifications.phase": call.phase.value,
        }
        if call.status is not None:
            attributes["http.response.status_code"] = call.status
        self._requests.add(1, attributes)
        span = trace.get_current_span()
        span.set_attribute("flask_notifications.operation", call.operation)
        span.set_attribute("flask_notifications.phase", call.phase.value)
