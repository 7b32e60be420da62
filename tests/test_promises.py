"""What the README promises, and what the page about faults says: each with tests that are there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# A table's row, and in it the tests by which it stands.
ROW = re.compile(r"^\|(?! *-)(.+)\|$", re.MULTILINE)
TEST = re.compile(r"\b(tests/[\w/]+\.py)::(\w+)")


def rows(page: str, heading: str) -> list[str]:
    """Return the rows of the first table below a heading, without that of its titles."""
    _, _, section = (ROOT / page).read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    table = re.search(r"(?:^\|.*\n)+", section.partition("\n## ")[0], re.MULTILINE)
    assert table is not None, f"{page} has no table below {heading!r}"
    _titles, *told = ROW.findall(table[0])
    return told


@cache
def named_in(file: str) -> set[str]:
    """Return the names of the test functions of a file."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {function.name for function in functions if function.name.startswith("test_")}


def assert_tests_are_there(row: str) -> None:
    named = TEST.findall(row)
    assert named, f"no test is named: {row}"
    for file, name in named:
        assert (ROOT / file).is_file(), file
        assert name in named_in(file), f"{file}::{name}"


def test_there_are_seven_promises() -> None:
    assert [row.split("|")[0].strip() for row in rows("README.md", "Promises")] == list("1234567")


@pytest.mark.parametrize(("page", "heading"), [("README.md", "Promises"), ("docs/faults.md", "What the client sees")])
def test_what_is_said_stands_by_tests_that_are_there(page: str, heading: str) -> None:
    for row in rows(page, heading):
        assert_tests_are_there(row)
