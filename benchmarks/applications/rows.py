"""The same two queries with the library's storage and without it, as WSGI applications
on a database.
"""

from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from sqlalchemy import create_engine, text

from flask_notifications import NotificationApp
from flask_notifications.sql import SQLAlchemyStorage

_SESSION = "SELECT owner FROM sessions WHERE id = {}"
_DOCUMENTS = "SELECT document FROM notifications WHERE owner = {}"


def ours(url: str) -> WSGIApplication:
    """Return the library's application with its storage on SQLAlchemy."""
    storage = SQLAlchemyStorage(
        create_engine(url),
        session_query=_SESSION.format(":session_id"),
        current_user_query=_DOCUMENTS.format(":owner"),
        account_query=_DOCUMENTS.format(":account_id"),
    )
    return NotificationApp(storage)


def core(url: str) -> WSGIApplication:
    """Return an application on SQLAlchemy Core, with all rows in memory."""
    engine = create_engine(url)
    session, documents = text(_SESSION.format(":id")), text(_DOCUMENTS.format(":owner"))

    def application(
        environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        with engine.connect() as connection:
            session_id = environ["HTTP_AUTHORIZATION"].removeprefix("Bearer ")
            owner = connection.execute(session, {"id": session_id}).scalar()
            if owner is None:
                start_response("401 Unauthorized", [])
                return []
            found = connection.execute(documents, {"owner": owner}).scalars()
            start_response("200 OK", [("Content-Type", "application/json")])
            return [f"[{','.join(found)}]".encode()]

    return application
