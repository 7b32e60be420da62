"""Configure pytest.

It runs the examples of the documentation, sorts and marks tests, and sets the profiles
of Hypothesis.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from sybil import Sybil
from sybil.integration.pytest import SybilItem
from sybil.parsers.markdown import PythonCodeBlockParser

from tests import examples
from tests.services import explain_skips

ROOT = Path(__file__).parent

# Every test in these folders is slow, and so is every test with one of these services
# in its name.
SLOW_FOLDERS = {
    "applications",
    "cli",
    "clients",
    "clusters",
    "drivers",
    "frameworks",
    "resilience",
    "servers",
    "usage",
}
SERVICES = ("postgresql", "mariadb", "redis")
# These take longest, so they begin: no process is left with them at the end.
LONGEST = ("usage", "resilience")

# `make test-fast` uses the second profile. In CI the examples are the same each time: a
# change alone makes a run fail.
IN_CI = "CI" in os.environ
settings.register_profile(
    "thorough", deadline=None, max_examples=500 if IN_CI else 100, derandomize=IN_CI
)
settings.register_profile("fast", deadline=None, max_examples=20, derandomize=IN_CI)
settings.load_profile("thorough")


def follow_pages(
    setup: Callable[[dict[str, Any]], None], *patterns: str, **options: Any
) -> Sybil:
    """Execute the examples of pages, whose readers begin as ``setup`` says."""
    return Sybil(
        parsers=[PythonCodeBlockParser(), examples.parse],
        patterns=patterns,
        setup=setup,
        teardown=lambda namespace: namespace["leave"](),
        **options,
    )


# Readers of these pages have a plan and an application; tests/test_django_guide.py
# follows the guide for Django.
LATER = ["docs/callers.md", "docs/check.md", "docs/deploy.md", "docs/usage.md"]
pytest_collect_file = (
    follow_pages(examples.enter_after_the_quickstart, *LATER)
    + follow_pages(
        examples.enter_an_empty_folder,
        "README.md",
        "docs/*.md",
        excludes=[*LATER, "docs/django.md"],
    )
).pytest()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not collect slow folders for fast tests: importing them takes seconds."""
    is_slow = collection_path.name in SLOW_FOLDERS
    if is_slow and config.option.markexpr == "not slow":
        return True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort tests, mark slow ones, and ignore the warnings from importing Pyramid."""
    items.sort(key=lambda item: item.path.parent.name not in LONGEST)
    for item in items:
        folders = item.path.relative_to(ROOT).parent.parts
        has_service = any(service in item.name for service in SERVICES)
        if SLOW_FOLDERS.intersection(folders) or has_service:
            item.add_marker(pytest.mark.slow)
        if isinstance(item, SybilItem) and examples.is_slow(item.example):
            item.add_marker(pytest.mark.slow)
        if item.path.name == "wsgi.md":  # imports every framework
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.filterwarnings("ignore"))
        if isinstance(item, pytest.Function) and item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the skipped tests need; ``-rs`` lists each of them."""
    reasons = []
    for report in terminalreporter.getreports("skipped"):
        _file, _line, message = report.longrepr
        reasons.append(message.removeprefix("Skipped: "))
    if reasons:
        terminalreporter.section("skipped")
        for line in explain_skips(reasons):
            terminalreporter.line(line)
