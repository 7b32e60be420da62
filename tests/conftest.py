"""Fixtures that several test files share."""

import tempfile
from typing import Any, BinaryIO

import pytest


@pytest.fixture
def spooled(monkeypatch: pytest.MonkeyPatch) -> list[BinaryIO]:
    """Return the temporary files of a test, none of which is closed by the garbage
    collector.
    """
    files: list[BinaryIO] = []
    make = tempfile.TemporaryFile

    def keep(*arguments: Any, **options: Any) -> Any:
        files.append(make(*arguments, **options))
        return files[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", keep)
    return files
