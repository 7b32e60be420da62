"""docs/compatibility.md is generated from docs/compatibility.toml, and the tests in its rows exist."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]


def check(project: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(project / "docs/compatibility.py"), "--check"]
    return subprocess.run(command, capture_output=True, check=False, text=True)


def test_the_page_is_up_to_date() -> None:
    result = check(PROJECT)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        pytest.param('{ version = "1", works = "yes" }', "not up to date", id="a row that the page lacks"),
        pytest.param('{ works = "yes" }', "expected version", id="no version"),
        pytest.param('{ version = "1", works = "perhaps" }', "expected version", id="an unknown value of works"),
        pytest.param('{ version = "1", works = "line" }', "expected what to set", id="no setting where one is needed"),
        pytest.param('{ version = "1", works = "yes", test = "tests/no.py" }', "there is no tests/no.py", id="no file"),
        pytest.param(
            '{ version = "1", works = "yes", test = "docs/compatibility.py::test_no" }',
            "there is no test_no",
            id="no test",
        ),
    ],
)
def test_a_wrong_row_is_refused(row: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("compatibility.py", "compatibility.md"):
        shutil.copy(PROJECT / "docs" / name, tmp_path / "docs")
    (tmp_path / "docs/compatibility.toml").write_text(f"[Servers]\nexample = {row}\n")
    result = check(tmp_path)
    assert result.returncode == 1
    assert message in result.stderr
