"""Responses are the same, byte for byte, under other Python options and environments and after other failures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.resilience.responses import responses

ROOT = Path(__file__).parents[2]
ASK = ["-m", "tests.resilience.responses"]


@pytest.fixture(scope="module")
def expected() -> str:
    return ascii(responses())


def run_python(arguments: list[str], **environ: str) -> str:
    """Return the standard output of a new interpreter, which must succeed without a warning."""
    command, environ = [sys.executable, *arguments], os.environ | environ
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("flags", "environ"),
    [
        pytest.param([], {"PYTHONOPTIMIZE": "2"}, id="without assertions and docstrings"),
        pytest.param(["-bb", "-X", "dev", "-W", "error"], {}, id="warnings are errors, also for bytes as strings"),
        pytest.param(["-X", "utf8=0"], {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}, id="ASCII only"),
        pytest.param([], {"PYTHONHASHSEED": "0", "TZ": "America/New_York"}, id="west of Greenwich, fixed hashes"),
    ],
)
def test_options_and_environment_change_no_response(expected: str, flags: list[str], environ: dict[str, str]) -> None:
    assert run_python([*flags, *ASK], **environ) == expected
