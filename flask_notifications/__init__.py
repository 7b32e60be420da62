"""Retire old endpoints of a WSGI application.

Announce the end, measure who still calls, brown out, switch off. The public names are
imported on first use, so importing this package imports neither Flask nor marshmallow.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .middleware import DeprecationMiddleware as DeprecationMiddleware
    from .notice import Notice as Notice
    from .notice import notice_of as notice_of
    from .observers import Call as Call
    from .plans.files import load_plan as load_plan
    from .plans.operations import Operation as Operation
    from .plans.operations import notification_operations as notification_operations
    from .plans.plan import Plan as Plan
    from .plans.policy import Brownout as Brownout
    from .plans.policy import DeprecationPolicy as DeprecationPolicy
    from .plans.policy import Exemption as Exemption
    from .plans.policy import Phase as Phase
    from .problems import Statuses as Statuses
    from .serving.application import NotificationApp as NotificationApp
    from .serving.blueprint import create_blueprint as create_blueprint
    from .serving.storage import AccessDenied as AccessDenied
    from .serving.storage import AccountNotFound as AccountNotFound
    from .serving.storage import NotificationStorage as NotificationStorage
    from .serving.storage import StorageError as StorageError
    from .serving.storage import StorageUnavailable as StorageUnavailable
    from .serving.storage import TransactionalStorage as TransactionalStorage
    from .sessions.credential import SessionCredential as SessionCredential
    from .sessions.credential import SessionRefused as SessionRefused
    from .sessions.credential import session_of as session_of
    from .sessions.redaction import SessionLogFilter as SessionLogFilter

_NAMES = {
    "middleware": "DeprecationMiddleware",
    "notice": "Notice notice_of",
    "observers": "Call",
    "plans.files": "load_plan",
    "plans.operations": "Operation notification_operations",
    "plans.plan": "Plan",
    "plans.policy": "Brownout DeprecationPolicy Exemption Phase",
    "problems": "Statuses",
    "serving.application": "NotificationApp",
    "serving.blueprint": "create_blueprint",
    "serving.storage": (
        "AccessDenied AccountNotFound NotificationStorage StorageError "
        "StorageUnavailable TransactionalStorage"
    ),
    "sessions.credential": "SessionCredential SessionRefused session_of",
    "sessions.redaction": "SessionLogFilter",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULES)  # noqa: PLE0605 - a list, which ruff cannot see


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f".{module}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
