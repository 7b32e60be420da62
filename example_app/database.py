"""The application's own tables, and their first rows."""

import json
import time
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Engine,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    func,
    insert,
    make_url,
    select,
)

from flask_notifications.usage import metadata as usage_metadata

metadata = MetaData()

accounts = Table(
    "accounts",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("name", Text, nullable=False),
)
users = Table(
    "users",
    metadata,
    Column("login", String(64), primary_key=True),
    Column("account_id", ForeignKey(accounts.c.id), nullable=False),
    Column("is_administrator", Boolean, nullable=False),
)
sessions = Table(
    "sessions",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("login", ForeignKey(users.c.login), nullable=False),
    Column("expires_at", BigInteger, nullable=False),  # seconds since 1970, UTC
)
notifications = Table(
    "notifications",
    metadata,
    Column("account_id", ForeignKey(accounts.c.id), nullable=False),
    Column("position", Integer, nullable=False),
    Column("document", Text, nullable=False),  # a JSON object
    Index("notifications_by_account", "account_id", "position", unique=True),
)

# Any number that nothing else in the database locks.
_PREPARING = 20260101

_YEAR = 365 * 24 * 60 * 60  # seconds

# Those of the documentation; the last one has expired.
SESSIONS = {
    "alice": "a11ce000-0000-4000-8000-000000000001",
    "bob": "b0b00000-0000-4000-8000-000000000002",
    "admin": "ad000000-0000-4000-8000-000000000003",
    "carol": "ca401000-0000-4000-8000-000000000004",
}


def open_engine(url: str) -> Engine:
    """Return an engine that fails within seconds, because clients do not wait as long
    as a database would.

    An SQLite file is readable for its owner only.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() != "postgresql":
        if parsed.database is not None and parsed.database != ":memory:":
            file = Path(parsed.database)
            file.touch(mode=0o600)
            file.chmod(0o600)
        return create_engine(url)
    limits = "-c statement_timeout=15000 -c idle_in_transaction_session_timeout=10000"  # milliseconds
    options = f"{limits} {parsed.query.get('options', '')}"
    return create_engine(
        url,
        connect_args={"connect_timeout": 3, "options": options},  # seconds
        pool_pre_ping=True,  # a connection that the server closed in the meantime is replaced, not used
        pool_timeout=5,  # seconds
    )


def prepare(engine: Engine) -> None:
    """Create the tables and seed them, once, and close all connections, which a fork
    would share.
    """
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_PREPARING)))
        metadata.create_all(connection)
        usage_metadata.create_all(connection)
        if connection.scalar(select(func.count()).select_from(accounts)) == 0:
            for table, rows in _seed().items():
                connection.execute(insert(table), rows)
    engine.dispose()


def _seed() -> dict[Table, list[dict[str, Any]]]:
    now = int(time.time())
    people = {
        login: f"acc00000-0000-4000-8000-{number:012x}"
        for number, login in enumerate(SESSIONS, 10)
    }
    documents = {
        "alice": [
            _notification(
                "Weekly sales",
                "Scheduled",
                scheduleRule="FREQ=WEEKLY;BYDAY=MO",
                recipients=["alice@example.com"],
            ),
            _notification(
                "Stock below minimum",
                "DataDriven",
                condition={"measure": "Stock", "below": 100},
            ),
            _notification(
                "Month end", "Note", recipients=["alice@example.com", "bob@example.com"]
            ),
        ],
        "admin": [
            _notification(
                "Failed logons",
                "DataDriven",
                condition={"measure": "FailedLogons", "above": 20},
            )
        ],
    }
    return {
        accounts: [
            {"id": account, "name": login.title()} for login, account in people.items()
        ],
        users: [
            {
                "login": login,
                "account_id": account,
                "is_administrator": login == "admin",
            }
            for login, account in people.items()
        ],
        sessions: [
            {
                "id": session,
                "login": login,
                "expires_at": now + (-1 if login == "carol" else 10 * _YEAR),
            }
            for login, session in SESSIONS.items()
        ],
        notifications: [
            {
                "account_id": account,
                "position": position,
                "document": json.dumps(document),
            }
            for login, account in people.items()
            for position, document in enumerate(documents.get(login, []))
        ],
    }


def _notification(name: str, kind: str, **members: Any) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        **members,
        "createdOn": "2025-03-31T08:15:18.45Z",
    }
