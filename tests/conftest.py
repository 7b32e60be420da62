"""Fixtures that several test files share."""

from typing import BinaryIO

import pytest

from tests.storages import keep_temporary_files


@pytest.fixture
def spooled(monkeypatch: pytest.MonkeyPatch) -> list[BinaryIO]:
    """Return the temporary files of a test, none of which is closed by the garbage collector."""
    return keep_temporary_files(monkeypatch)
