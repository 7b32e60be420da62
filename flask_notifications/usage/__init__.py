"""Who still calls a retired operation, and whether it may be switched off (extra ``usage``).

``UsageRecorder`` is an observer of the middleware that counts calls in a database; ``read_usage`` reads the verdict.
"""

from importlib.util import find_spec

if find_spec("sqlalchemy") is None:
    message = "flask_notifications.usage needs: pip install 'Flask-Notifications[usage]'"
    raise ModuleNotFoundError(message, name="sqlalchemy")

from .recorder import UsageRecorder
from .report import CallerUsage, DayUsage, OperationUsage, UsageReport, Verdict, read_usage
from .store import CANARY, OTHER, StoreUnavailable, metadata

__all__ = [
    "CANARY",
    "OTHER",
    "CallerUsage",
    "DayUsage",
    "OperationUsage",
    "StoreUnavailable",
    "UsageRecorder",
    "UsageReport",
    "Verdict",
    "metadata",
    "read_usage",
]
