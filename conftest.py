"""Configure pytest: run the examples of the documentation, mark slow tests, and set the profiles of Hypothesis."""

import os
from pathlib import Path

import pytest
from hypothesis import settings
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

ROOT = Path(__file__).parent

# Every test in these folders is slow, and so is every test with one of these services in its name or in a browser.
SLOW_FOLDERS = {"applications", "cli", "clients", "drivers", "frameworks", "resilience", "servers", "usage"}
SERVICES = ("postgresql", "mariadb", "redis")

# `make test-fast` uses the second profile. In CI the examples are the same each time: a change alone makes a run fail.
IN_CI = "CI" in os.environ
settings.register_profile("thorough", deadline=None, max_examples=500, derandomize=IN_CI)
settings.register_profile("fast", deadline=None, max_examples=20, derandomize=IN_CI)
settings.load_profile("thorough")

pytest_collect_file = Sybil(parsers=[PythonCodeBlockParser()], patterns=["README.md", "docs/*.md"]).pytest()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not collect slow folders when slow tests are deselected, because importing them takes seconds."""
    return True if config.option.markexpr == "not slow" and collection_path.name in SLOW_FOLDERS else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests as slow by folder, service and browser, and ignore the warnings from importing Pyramid."""
    for item in items:
        folders = item.path.relative_to(ROOT).parent.parts
        has_service = any(service in item.name for service in SERVICES)
        if SLOW_FOLDERS.intersection(folders) or has_service or item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.slow)
        if item.path.name == "wsgi.md":  # imports every framework
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.filterwarnings("ignore"))
