"""Real applications pass their own tests through the middleware as they pass them
without it.

Their tests are part of their source distributions.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.services import service_or_skip

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]


class Suite(NamedTuple):
    """The tests of an application: its release, its class, the arguments for pytest and
    what they need besides.
    """

    release: str
    application: str
    arguments: tuple[str, ...]
    needs: tuple[str, ...]


SUITES = {
    "bottle": Suite("bottle==0.13.4", "bottle:Bottle", ("test",), ("jinja2", "mako")),
    "ihatemoney": Suite(
        "ihatemoney==7.2.1",
        "flask:Flask",
        (
            "ihatemoney/tests/api_test.py",
            "ihatemoney/tests/budget_test.py::TestBudget::test_demo",  # "/demo" is a page beside "/demo/"
        ),
        ("pytest-flask",),
    ),
}


def run(*command: object) -> bool:
    """Run a command and return whether it succeeded."""
    return (
        subprocess.run(
            list(map(str, command)), capture_output=True, check=False
        ).returncode
        == 0
    )


def install(suite: Suite, folder: Path) -> bool:
    """Unpack a release, install it with what its tests need, and return whether the
    registry has them.
    """
    if (folder / "ready").exists():
        return True
    shutil.rmtree(folder, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--retries=1"]
    download = [*pip, "download", "--no-deps", "--no-binary=:all:", f"--dest={folder}"]
    if not run(*download, suite.release):
        return False
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(folder / "source", filter="data")
    venv.create(folder / "venv", clear=True)
    into = [*pip, "--python", folder / "venv", "install", "pytest"]
    is_installed = run(*into, archive, *suite.needs)
    if is_installed:
        (folder / "ready").touch()
    return is_installed


def run_tests(suite: Suite, folder: Path, report: Path, around: str) -> Any:
    """Run the tests of an application, through the middleware around a class or, with
    an empty name, without it; return the report.
    """
    (source,) = (folder / "source").iterdir()
    command = f"{folder}/venv/bin/python -m pytest -q -p every_request_matched"
    isolation = f"-p no:cacheprovider -c {os.devnull} --rootdir . --confcutdir ."
    environ = os.environ | {
        "MIDDLEWARE_AROUND": around,
        "PYTHONPATH": f"{HERE}{os.pathsep}{PROJECT}",
        "REPORT": str(report),
    }
    subprocess.run(
        [*command.split(), *isolation.split(), *suite.arguments],
        cwd=source,
        env=environ,
        check=False,
    )
    return json.loads(report.read_text())


@pytest.mark.world
@pytest.mark.parametrize("name", SUITES)
def test_the_middleware_breaks_no_test_of_applications(
    name: str, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    suite = SUITES[name]
    assert pytestconfig.cache is not None
    folder = pytestconfig.cache.mkdir(f"applications-{suite.release}")
    service_or_skip("a registry of Python packages", install(suite, folder))
    without = run_tests(suite, folder, tmp_path / "without.json", "")
    through = run_tests(suite, folder, tmp_path / "through.json", suite.application)
    assert through["outcomes"] == without["outcomes"]
    assert ["passed"] * 3 in through["outcomes"].values()
    assert through["matched"] == through["requests"] > 0
