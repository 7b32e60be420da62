"""The same two queries with the library's storage and without it, as WSGI applications on a database."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.types.string import ByteaBinaryLoader
from sqlalchemy import create_engine, make_url, text

from flask_notifications import NotificationApp
from flask_notifications.sql import SQLAlchemyStorage

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_SESSION = "SELECT owner FROM sessions WHERE id = {}"
_DOCUMENTS = "SELECT document FROM notifications WHERE owner = {}"

# Rows that the driver fetches, and that are joined, in one step.
_BATCH = 128

Read = Callable[[str], Iterable[bytes] | None]
"""A function from a session ID to the chunks of the body, or to ``None`` for an unknown session."""


def ours(url: str) -> "WSGIApplication":
    """Return the library's application with its storage on SQLAlchemy."""
    storage = SQLAlchemyStorage(
        create_engine(url),
        session_query=_SESSION.format(":session_id"),
        current_user_query=_DOCUMENTS.format(":owner"),
        account_query=_DOCUMENTS.format(":account_id"),
    )
    return NotificationApp(storage)


def core(url: str) -> "WSGIApplication":
    """Return an application on SQLAlchemy Core, with all rows in memory."""
    engine = create_engine(url)
    session, documents = text(_SESSION.format(":id")), text(_DOCUMENTS.format(":owner"))

    def read(session_id: str) -> list[bytes] | None:
        with engine.connect() as connection:
            owner = connection.execute(session, {"id": session_id}).scalar()
            if owner is None:
                return None
            found = connection.execute(documents, {"owner": owner}).scalars()
            return [f"[{','.join(found)}]".encode()]

    return _respond_with(read)


def sqlite(url: str) -> "WSGIApplication":
    """Return an application on the standard library's driver, with all rows in memory."""
    connection = sqlite3.connect(make_url(url).database or "")

    def read(session_id: str) -> list[bytes] | None:
        session = connection.execute(_SESSION.format("?"), (session_id,)).fetchone()
        if session is None:
            return None
        found = connection.execute(_DOCUMENTS.format("?"), session)
        return [f"[{','.join(document for (document,) in found)}]".encode()]

    return _respond_with(read)


def plain(url: str) -> "WSGIApplication":
    """Return an application on psycopg, with all rows in memory."""
    connection = connect(url)

    def read(session_id: str) -> list[bytes] | None:
        session = connection.execute(_SESSION.format("%s"), (session_id,)).fetchone()
        if session is None:
            return None
        found = connection.execute(_DOCUMENTS.format("%s"), session, binary=True)
        return [b"[%b]" % b",".join(document for (document,) in found)]

    return _respond_with(read)


def stream(url: str) -> "WSGIApplication":
    """Return an application that streams the rows of psycopg, so that a failure truncates the response."""
    connection = connect(url)

    def read(session_id: str) -> Iterator[bytes] | None:
        session = connection.execute(_SESSION.format("%s"), (session_id,)).fetchone()
        return None if session is None else _stream_array(connection, session)

    return _respond_with(read)


def _stream_array(connection: "psycopg.Connection[Any]", session: tuple[int]) -> Iterator[bytes]:
    with connection.cursor() as cursor:
        found = cursor.stream(_DOCUMENTS.format("%s"), session, binary=True, size=_BATCH)
        documents = (document for (document,) in found)
        yield b"[" + b",".join(islice(documents, _BATCH))
        while batch := b",".join(islice(documents, _BATCH)):
            yield b"," + batch
        yield b"]"


def connect(url: str) -> "psycopg.Connection[Any]":
    """Return a connection that returns the bytes of a text column undecoded."""
    conninfo = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    connection = psycopg.connect(conninfo, autocommit=True)
    connection.adapters.register_loader("text", _Undecoded)
    return connection


class _Undecoded(ByteaBinaryLoader):
    """Loads a text column, in the binary format, as bytes."""


def _respond_with(read: Read) -> "WSGIApplication":
    """Return a WSGI application without any framework that sends the body of a session."""

    def application(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        body = read(environ["HTTP_AUTHORIZATION"].removeprefix("Bearer "))
        if body is None:
            start_response("401 Unauthorized", [])
            return []
        start_response("200 OK", [("Content-Type", "application/json")])
        return body

    return application
