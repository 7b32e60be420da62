"""Servers that a machine may or may not have: skipped by name, or a failure where ``REQUIRE_SERVICES=1`` is set."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

POSTGRESQL = "postgresql+psycopg://postgres@127.0.0.1:5432/test"


def service_or_skip(name: str, present: bool) -> None:
    """Skip the test where a service is missing, or fail it where all of them are required."""
    if present:
        return
    if os.environ.get("REQUIRE_SERVICES") == "1":
        pytest.fail(f"{name} is required and missing")
    pytest.skip(f"{name} is missing")


@cache
def _postgresql_answers() -> bool:
    engine = create_engine(POSTGRESQL, connect_args={"connect_timeout": 2})
    try:
        engine.connect().close()
    except OperationalError:
        return False
    finally:
        engine.dispose()
    return True


@contextmanager
def postgresql_schema() -> Iterator[str]:
    """Lend the URL of a PostgreSQL database that looks empty, since it has a schema of its own for the test."""
    service_or_skip("PostgreSQL", _postgresql_answers())
    schema = f"test_{uuid.uuid4().hex}"
    admin = create_engine(POSTGRESQL, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE SCHEMA {schema}"))
    try:
        yield f"{POSTGRESQL}?options=-csearch_path%3D{schema}"
    finally:
        with admin.connect() as connection:
            connection.execute(text("SET lock_timeout = '5s'"))  # a test that has failed may hold what is in it
            connection.execute(text(f"DROP SCHEMA {schema} CASCADE"))
        admin.dispose()
