"""A Flask application on the database of ``DATABASE_URL``, for tests that make this
database fail.
"""

import json
import os
from typing import Any

from sqlalchemy import Engine, create_engine, make_url, text

from flask_notifications import DeprecationMiddleware
from tests.drivers.drivers import storage_on
from tests.middleware import PLAN
from tests.storages import flask_app

APPLICATION = "tests.resilience.database_app:application"

POOL = 3  # connections
# Seconds.
CONNECT_TIMEOUT, STATEMENT_TIMEOUT, POOL_TIMEOUT = 2, 3, 0.5
SPOOL_THRESHOLD = 65_536  # bytes

TABLES = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, login TEXT NOT NULL, is_administrator BOOLEAN NOT NULL);
CREATE TABLE notifications (
    owner TEXT, position INTEGER, document TEXT, written_at TIMESTAMP WITH TIME ZONE, PRIMARY KEY (owner, position)
)
"""
# How many notifications each user has. Only the response of ``large`` needs a temporary
# file.
COUNTS = {"alice": 3, "bob": 5, "large": 1_000, "slow": 100, "admin": 0}


def session_of(login: str) -> str:
    """Return the session ID of a user."""
    return f"{login}-5e55-4000-8000-000000000000"


def documents_of(login: str) -> list[str]:
    """Return the notifications of a user; each holds its owner, so that a test notices
    those of another user.
    """
    return [
        json.dumps({"owner": login, "n": number, "text": "t" * 1_000})
        for number in range(COUNTS[login])
    ]


def prepare(url: str) -> None:
    """Create and fill the tables of an empty database."""
    add_session = text("INSERT INTO sessions VALUES (:id, :login, :is_administrator)")
    add_document = text(
        "INSERT INTO notifications VALUES (:owner, :position, :document, '2025-03-31T08:15:18Z')"
    )
    sessions, documents = [], []
    for login in COUNTS:
        is_administrator = login == "admin"
        session = {"login": login, "is_administrator": is_administrator}
        sessions.append(session | {"id": session_of(login)})
        for position, document in enumerate(documents_of(login)):
            row = {"owner": login, "position": position, "document": document}
            documents.append(row)
    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in TABLES.split(";"):
            connection.execute(text(statement))
        connection.execute(add_session, sessions)
        connection.execute(add_document, documents)
    engine.dispose()


def open_engine(url: str) -> Engine:
    """Return an engine with short time limits for everything that it waits for."""
    limits: dict[str, Any] = {}
    if make_url(url).get_backend_name() == "postgresql":
        statement_timeout = f"-c statement_timeout={STATEMENT_TIMEOUT * 1000}"
        limits = {"connect_timeout": CONNECT_TIMEOUT, "options": statement_timeout}
    return create_engine(
        url,
        connect_args=limits,
        pool_size=POOL,
        max_overflow=0,
        pool_timeout=POOL_TIMEOUT,
        pool_pre_ping=True,
        pool_use_lifo=True,  # consecutive requests use the same connection, so that tests know the order of events
    )


engine = open_engine(
    os.environ.get("DATABASE_URL", "sqlite:////nowhere/at/all.sqlite3")
)
storage = storage_on(
    engine,
    "SELECT document FROM notifications WHERE owner = :login ORDER BY position",
    session_query="SELECT login, is_administrator AS is_admin FROM sessions WHERE id = :session_id",
    account_query="SELECT owner, position, written_at FROM notifications WHERE owner = :account_id ORDER BY position",
    account_exists_query="SELECT 1 FROM sessions WHERE login = :account_id",
)
application = DeprecationMiddleware(
    flask_app(storage, spool_threshold=SPOOL_THRESHOLD), PLAN
)
