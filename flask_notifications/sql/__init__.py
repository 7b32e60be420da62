"""Read notifications with your own SELECT statements, through SQLAlchemy Core (extra ``sqlalchemy``)."""

from importlib.metadata import version
from importlib.util import find_spec

if find_spec("sqlalchemy") is None or version("sqlalchemy").startswith("1."):
    message = "flask_notifications.sql needs SQLAlchemy 2: pip install 'Flask-Notifications[sqlalchemy]'"
    raise ModuleNotFoundError(message, name="sqlalchemy")

from .storage import SQLAlchemyStorage, deny_all

__all__ = ["SQLAlchemyStorage", "deny_all"]
