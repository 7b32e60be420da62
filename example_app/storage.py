"""The storage of the application: four statements, and the rule for who may see an
account.
"""

import time
from typing import Any

from sqlalchemy import Engine, Row, bindparam, func, select

from flask_notifications.sql import SQLAlchemyStorage

from .database import accounts, notifications, sessions, users

# Old clients send GUIDs in any letter case; the tables have them in lower case.
_SESSION_ID = func.lower(bindparam("session_id"))
_ACCOUNT_ID = func.lower(bindparam("account_id"))

_CALLER = (
    select(users.c.login, users.c.account_id, users.c.is_administrator)
    .join(sessions, sessions.c.login == users.c.login)
    .where(
        sessions.c.id == _SESSION_ID,
        sessions.c.expires_at > bindparam("now", callable_=time.time),
    )
)
_DOCUMENTS = (
    select(notifications.c.document)
    .where(notifications.c.account_id == _ACCOUNT_ID)
    .order_by(notifications.c.position)
)
_ACCOUNT = select(accounts.c.id).where(accounts.c.id == _ACCOUNT_ID)


def create_storage(engine: Engine) -> SQLAlchemyStorage:
    """Return the storage on these tables; the current user's notifications are those of
    the caller's ``account_id``.
    """
    return SQLAlchemyStorage(
        engine,
        session_query=_CALLER,
        current_user_query=_DOCUMENTS,
        account_query=_DOCUMENTS,
        account_exists_query=_ACCOUNT,
        may_see_account=_may_see_account,
    )


def _may_see_account(caller: Row[Any], account_id: str) -> bool:
    return bool(caller.is_administrator) or caller.account_id == account_id.lower()


def label_caller(caller: Row[Any]) -> str:
    """Return the name under which the calls of a caller are counted."""
    return str(caller.login)
