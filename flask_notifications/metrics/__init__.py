"""Observers that count matched requests for a monitoring system.

Each needs the extra of its system.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .opentelemetry import OpenTelemetryObserver as OpenTelemetryObserver
    from .prometheus import PrometheusObserver as PrometheusObserver

_MODULES = {
    "OpenTelemetryObserver": "opentelemetry",
    "PrometheusObserver": "prometheus",
}

__all__ = sorted(_MODULES)  # noqa: PLE0605 - a list, which ruff cannot see


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
