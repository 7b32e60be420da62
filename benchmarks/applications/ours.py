"""This library with its middleware: the blueprint in a Flask application, and the
application without Flask.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import flask

from benchmarks.work import ENCODED_OF, PLAN, RECORDS_OF, SESSIONS
from flask_notifications import DeprecationMiddleware, NotificationApp, create_blueprint


class Storage:
    """Records in memory, as dictionaries or as bytes."""

    def __init__(self, records_of: Mapping[int, Iterable[Any]]) -> None:
        self._records_of = records_of

    def resolve_session(self, session_id: str) -> int | None:
        """Return the user of a session."""
        return SESSIONS.get(session_id)

    def current_user_notifications(self, caller: int) -> Iterable[Any]:
        """Return the records of a user."""
        return self._records_of[caller]

    def account_notifications(self, caller: int, _account_id: str) -> Iterable[Any]:
        """Return the records of the caller, whose account is the only one."""
        return self._records_of[caller]


app = flask.Flask(__name__)
app.secret_key = "not a secret"
app.register_blueprint(create_blueprint(Storage(RECORDS_OF)))

blueprint = DeprecationMiddleware(app, PLAN)
application = DeprecationMiddleware(NotificationApp(Storage(RECORDS_OF)), PLAN)
application_bytes = DeprecationMiddleware(NotificationApp(Storage(ENCODED_OF)), PLAN)
