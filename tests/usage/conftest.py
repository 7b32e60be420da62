"""Databases for the record of usage."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from tests.usage.databases import DATABASES, empty_database


@pytest.fixture(params=DATABASES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database(kind: str, tmp_path: Path) -> Iterator[str]:
    with empty_database(kind, tmp_path) as url:
        yield url


@pytest.fixture
def engine(database: str) -> Iterator[Engine]:
    """Return an engine of the application, in a transaction of which everything would
    be committed at once.
    """
    engine = create_engine(database, isolation_level="AUTOCOMMIT")
    yield engine
    engine.dispose()


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/usage.sqlite3"
