"""Every guarantee and every failure in the documentation refers to tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# A row of a table, and the tests in it.
ROW = re.compile(r"^\|(?! *-)(.+)\|$", re.MULTILINE)
TEST = re.compile(r"\b(tests/[\w/]+\.py)::(\w+)")


def rows(page: str, heading: str) -> list[str]:
    """Return the rows of the first table below a heading, without its title row."""
    _, _, section = f"\n{(ROOT / page).read_text(encoding='utf-8')}".partition(f"\n{heading}\n")
    table = re.search(r"(?:^\|.*\n)+", section.partition("\n## ")[0], re.MULTILINE)
    assert table is not None, f"{page} has no table below {heading!r}"
    _titles, *others = ROW.findall(table[0])
    return others


@cache
def list_tests(file: str) -> set[str]:
    """Return the names of the test functions of a file."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {function.name for function in functions if function.name.startswith("test_")}


def assert_tests_exist(row: str) -> None:
    listed = TEST.findall(row)
    assert listed, f"no test is listed: {row}"
    for file, name in listed:
        assert (ROOT / file).is_file(), file
        assert name in list_tests(file), f"{file}::{name}"


def test_there_are_seven_guarantees() -> None:
    assert [row.split("|")[0].strip() for row in rows("docs/guarantees.md", "# Guarantees")] == list("1234567")


@pytest.mark.parametrize(
    ("page", "heading"), [("docs/guarantees.md", "# Guarantees"), ("docs/failures.md", "## What the client sees")]
)
def test_every_row_lists_tests_that_exist(page: str, heading: str) -> None:
    for row in rows(page, heading):
        assert_tests_exist(row)
