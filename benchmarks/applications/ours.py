"""This library under its middleware: the blueprint in a Flask application, and the application without Flask."""

from collections.abc import Iterable
from typing import Any

import flask

from benchmarks.work import POLICY, ROWS_OF, SESSIONS, TEXTS_OF, Users
from flask_notifications import DeprecationMiddleware, NotificationApp, create_blueprint


class Storage:
    """Records that are there already, as dictionaries or as texts."""

    def __init__(self, records_of: Users[Any]) -> None:
        self._records_of: Users[Iterable[Any]] = records_of

    def resolve_session(self, session_id: str) -> int | None:
        """Return the user of a session."""
        return SESSIONS.get(session_id)

    def current_user_notifications(self, caller: int) -> Iterable[Any]:
        """Return the records of a user."""
        return self._records_of[caller]

    def account_notifications(self, caller: int, _account_id: str) -> Iterable[Any]:
        """Return the records of a user, who is the only account there is."""
        return self._records_of[caller]


host = flask.Flask(__name__)
host.secret_key = "not a secret"
host.register_blueprint(create_blueprint(Storage(ROWS_OF)))

blueprint = DeprecationMiddleware(host, POLICY)
application = DeprecationMiddleware(NotificationApp(Storage(ROWS_OF)), POLICY)
application_bytes = DeprecationMiddleware(NotificationApp(Storage(TEXTS_OF)), POLICY)
