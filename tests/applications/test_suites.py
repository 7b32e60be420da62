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
    """The tests of an application: its release, the arguments for pytest and what they
    need besides.
    """

    release: str
    arguments: tuple[str, ...]
    needs: tuple[str, ...]
    tests: int  # how many pass at least


SUITES = {
    "bottle": Suite("bottle==0.13.4", ("test",), ("jinja2", "mako"), 350),
    "ihatemoney": Suite(
        "ihatemoney==7.2.1",
        (
            "ihatemoney/tests/api_test.py",
            "ihatemoney/tests/budget_test.py::TestBudget::test_demo",  # "/demo" is a page beside "/demo/"
            "ihatemoney/tests/budget_test.py::TestBudget::test_deactivated_demo",
        ),
        ("pytest-flask",),
        20,
    ),
    "webtest": Suite(
        "webtest==3.0.7", ("tests",), ("pastedeploy", "pyquery", "wsgiproxy2"), 180
    ),
}


def run(*command: str | Path, **options: Any) -> bool:
    """Run a command and return whether it succeeded."""
    return (
        subprocess.run(command, capture_output=True, check=False, **options).returncode
        == 0
    )


def install(suite: Suite, folder: Path) -> bool:
    """Unpack a release, install it with what its tests need, and return whether the
    registry has them.
    """
    ready, wanted = folder / "ready", repr((suite.release, suite.needs))
    if ready.exists() and ready.read_text() == wanted:
        return True
    shutil.rmtree(folder, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--retries=1"]
    if not run(
        *pip,
        "download",
        "--no-deps",
        "--no-binary",
        ":all:",
        "--dest",
        folder,
        suite.release,
    ):
        return False
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(folder / "source", filter="data")
    venv.create(folder / "venv", clear=True)
    if not run(
        *pip, "--python", folder / "venv", "install", "pytest", archive, *suite.needs
    ):
        return False
    ready.write_text(wanted)
    return True


def start_tests(
    suite: Suite, folder: Path, report: Path, *, around: str
) -> "subprocess.Popen[bytes]":
    """Start the tests of an application, through the middleware or, with an empty name,
    without it.
    """
    (source,) = (folder / "source").iterdir()
    python = folder / "venv/bin/python"
    plugin = ["-p", "every_request_matched", "-p", "no:cacheprovider"]
    isolation = ["-c", os.devnull, "--rootdir", ".", "--confcutdir", "."]
    environ = {
        **os.environ,
        "MIDDLEWARE_AROUND": around,
        "PYTHONPATH": os.pathsep.join(map(str, (HERE, PROJECT))),
        "REPORT": str(report),
    }
    command = [str(python), "-m", "pytest", "-q", *plugin, *isolation, *suite.arguments]
    with report.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(
            command, cwd=source, env=environ, stdout=log, stderr=log
        )


@pytest.mark.world
@pytest.mark.parametrize("name", SUITES)
def test_the_middleware_breaks_no_test_of_applications(
    name: str, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    suite = SUITES[name]
    assert pytestconfig.cache is not None
    folder = pytestconfig.cache.mkdir(f"applications-{name}")
    service_or_skip("a registry of Python packages", install(suite, folder))
    reports = {around: tmp_path / f"report-{around}.json" for around in ("", name)}
    for process in [
        start_tests(suite, folder, report, around=around)
        for around, report in reports.items()
    ]:
        process.wait()
    without, through = (json.loads(report.read_text()) for report in reports.values())
    assert through["outcomes"] == without["outcomes"]
    assert (
        sum(set(each) == {"passed"} for each in through["outcomes"].values())
        >= suite.tests
    )
    assert without["requests"] == 0
    assert through["matched"] == through["requests"] > 0
    assert len(through["announced"]) == through["started"] > 0
    assert set(through["announced"]) == {"@1767225600"}
