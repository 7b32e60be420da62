"""What the tests of several clients need."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest

from tests.clients.serving import Site, serving
from tests.services import service_or_skip

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Lend the host on a server of its own."""
    with serving(tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest.fixture(scope="session")
def node() -> str:
    """Return Node, for which the clients of package-lock.json are installed."""
    program = which("node")
    service_or_skip("Node.js", program is not None)
    service_or_skip("npm", which("npm") is not None)
    service_or_skip("a registry of npm packages", _installed())
    return str(program)


def _installed() -> bool:
    """Install what package-lock.json asks for, unless it is there since an earlier run."""
    lock, mark = HERE / "package-lock.json", HERE / "node_modules" / ".package-lock.json"
    if mark.exists() and mark.stat().st_mtime >= lock.stat().st_mtime:
        return True
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    return subprocess.run(command, cwd=HERE, capture_output=True, check=False).returncode == 0
