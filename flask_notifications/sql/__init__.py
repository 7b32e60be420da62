"""Read notifications with your own SELECT statements (extra ``sqlalchemy``)."""

from importlib import import_module
from importlib.util import find_spec

if find_spec("sqlalchemy") is None or import_module(
    "sqlalchemy"
).__version__.startswith("1."):
    message = (
        "flask_notifications.sql needs SQLAlchemy 2: pip install"
        " 'Flask-Notifications[sqlalchemy]'"
    )
    raise ModuleNotFoundError(message, name="sqlalchemy")

from .storage import SQLAlchemyStorage, deny_all

__all__ = ["SQLAlchemyStorage", "deny_all"]
