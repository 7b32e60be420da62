"""This library with its middleware: the blueprint in a Flask application, and the application without Flask."""

from collections.abc import Iterable
from typing import Any

import flask

from benchmarks.work import ENCODED_OF, ITERATORS_OF, POLICY, ROWS_OF, SESSIONS, Users
from flask_notifications import DeprecationMiddleware, NotificationApp, create_blueprint


class Storage:
    """Records in memory, as dictionaries or as bytes."""

    def __init__(self, records_of: Users[Any]) -> None:
        self._records_of: Users[Iterable[Any]] = records_of

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
app.register_blueprint(create_blueprint(Storage(ROWS_OF)))

blueprint = DeprecationMiddleware(app, POLICY)
application = DeprecationMiddleware(NotificationApp(Storage(ROWS_OF)), POLICY)
application_iterator = DeprecationMiddleware(NotificationApp(Storage(ITERATORS_OF)), POLICY)
application_bytes = DeprecationMiddleware(NotificationApp(Storage(ENCODED_OF)), POLICY)
