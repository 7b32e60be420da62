"""Servers that a machine may not have: their tests are skipped, or fail if ``REQUIRE_SERVICES=1`` is set."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest
from sqlalchemy import URL, create_engine, make_url, text
from sqlalchemy.exc import OperationalError

POSTGRESQL = "postgresql+psycopg://postgres@127.0.0.1:5432/test"
MARIADB = "mysql+pymysql://root@127.0.0.1:3306/test"


def service_or_skip(name: str, present: bool) -> None:
    """Skip the test if a service is missing, or fail it if all services are required."""
    if present:
        return
    if os.environ.get("REQUIRE_SERVICES") == "1":
        pytest.fail(f"{name} is required and missing")
    pytest.skip(f"{name} is missing")


@cache
def _is_reachable(url: str) -> bool:
    engine = create_engine(url, connect_args={"connect_timeout": 2})
    try:
        engine.connect().close()
    except OperationalError:
        return False
    finally:
        engine.dispose()
    return True


@contextmanager
def postgresql_schema() -> Iterator[str]:
    """Provide the URL of a PostgreSQL database with a schema of its own, so that it looks empty."""
    service_or_skip("PostgreSQL", _is_reachable(POSTGRESQL))
    schema = f"test_{uuid.uuid4().hex}"
    admin = create_engine(POSTGRESQL, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE SCHEMA {schema}"))
    try:
        yield f"{POSTGRESQL}?options=-csearch_path%3D{schema}"
    finally:
        with admin.connect() as connection:
            connection.execute(text("SET lock_timeout = '5s'"))  # a failed test may still lock its tables
            connection.execute(text(f"DROP SCHEMA {schema} CASCADE"))
        admin.dispose()


@contextmanager
def postgresql_database() -> Iterator[URL]:
    """Provide the URL of a new PostgreSQL database, for drivers that cannot choose a schema when they connect."""
    service_or_skip("PostgreSQL", _is_reachable(POSTGRESQL))
    with _database(POSTGRESQL, "DROP DATABASE {} WITH (FORCE)") as url:
        yield url


@contextmanager
def mariadb_database() -> Iterator[URL]:
    """Provide the URL of a new MariaDB database."""
    service_or_skip("MariaDB", _is_reachable(MARIADB))
    with _database(MARIADB, "DROP DATABASE {}") as url:
        yield url


@contextmanager
def _database(server: str, drop: str) -> Iterator[URL]:
    name = f"test_{uuid.uuid4().hex}"
    admin = create_engine(server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    try:
        yield make_url(server).set(database=name)
    finally:
        with admin.connect() as connection:
            connection.execute(text(drop.format(name)))
        admin.dispose()
