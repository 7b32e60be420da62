"""Who still calls a deprecated operation, and whether it may be switched off.

``UsageRecorder`` is an observer of the middleware that counts calls in a database.
``read_usage`` reads the verdict. Both need the extra ``usage``.
"""

from importlib import import_module
from importlib.util import find_spec

if find_spec("sqlalchemy") is None or import_module(
    "sqlalchemy"
).__version__.startswith("1."):
    message = (
        "flask_notifications.usage needs SQLAlchemy 2: "
        "pip install 'Flask-Notifications[usage]'"
    )
    raise ModuleNotFoundError(message, name="sqlalchemy")

from .callers import CallerUsage, DayUsage
from .counts import OTHER, PROBE
from .recorder import UsageRecorder
from .report import read_usage
from .results import (
    OperationUsage,
    Reason,
    UsageReport,
    Verdict,
)
from .store import StoreUnavailable, metadata

__all__ = [
    "OTHER",
    "PROBE",
    "CallerUsage",
    "DayUsage",
    "OperationUsage",
    "Reason",
    "StoreUnavailable",
    "UsageRecorder",
    "UsageReport",
    "Verdict",
    "metadata",
    "read_usage",
]
