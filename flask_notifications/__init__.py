"""Retire old endpoints of any WSGI application: announce, measure, brown out, switch off.

The public names, imported on first use: importing this package imports neither Flask nor marshmallow.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .application import NotificationApp as NotificationApp
    from .blueprint import create_blueprint as create_blueprint
    from .config import load_plan as load_plan
    from .deprecation import Brownout as Brownout
    from .deprecation import DeprecationPolicy as DeprecationPolicy
    from .deprecation import Exemption as Exemption
    from .deprecation import Phase as Phase
    from .middleware import DeprecationMiddleware as DeprecationMiddleware
    from .observers import Call as Call
    from .operations import Operation as Operation
    from .operations import notification_operations as notification_operations
    from .problems import Statuses as Statuses
    from .redaction import SessionLogFilter as SessionLogFilter
    from .sessions import SessionCredential as SessionCredential
    from .sessions import SessionRefused as SessionRefused
    from .sessions import session_of as session_of
    from .storage import AccessDenied as AccessDenied
    from .storage import AccountNotFound as AccountNotFound
    from .storage import NotificationStorage as NotificationStorage
    from .storage import StorageError as StorageError
    from .storage import StorageUnavailable as StorageUnavailable
    from .storage import TransactionalStorage as TransactionalStorage

_NAMES = {
    "application": "NotificationApp",
    "blueprint": "create_blueprint",
    "config": "load_plan",
    "deprecation": "Brownout DeprecationPolicy Exemption Phase",
    "middleware": "DeprecationMiddleware",
    "observers": "Call",
    "operations": "Operation notification_operations",
    "problems": "Statuses",
    "redaction": "SessionLogFilter",
    "sessions": "SessionCredential SessionRefused session_of",
    "storage": "AccessDenied AccountNotFound NotificationStorage StorageError StorageUnavailable TransactionalStorage",
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
