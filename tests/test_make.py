"""The two commands of the README: `make run` and `make test`."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services import program_or_skip

ROOT = Path(__file__).parents[1]

# In place of Python: the first time as on Debian without python3-venv, which leaves an
# environment without pip.
PYTHON = """#!/bin/sh
[ "$1" = -c ] && exit
mkdir -p "$4/bin"
if [ -e "$4/bin/python" ]; then
    printf '#!/bin/sh\\n' >"$4/bin/pip"
    printf '#!/bin/sh\\necho serving\\n' >"$4/bin/gunicorn"
    chmod +x "$4/bin/pip" "$4/bin/gunicorn"
else
    touch "$4/bin/python"
    exit 1
fi
"""


@pytest.mark.slow
def test_make_run_recovers_from_an_environment_without_pip(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    command = [program_or_skip("make"), "run", f"VENV={tmp_path}/venv"]
    command += [f"PYTHON={python}", f"--directory={ROOT}"]
    first = subprocess.run(command, capture_output=True, text=True, check=False)
    assert first.returncode == 2
    second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (second.returncode, second.stderr) == (0, "")
    assert "serving" in second.stdout


@pytest.mark.slow
def test_make_run_says_what_to_do_when_the_port_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        port = server.getsockname()[1]
        variables = ["HOST=::1", f"PORT={port}"]
        variables.append(f"DATABASE_URL=sqlite:///{tmp_path}/example.sqlite3")
        gunicorn = [sys.executable, "-m", "gunicorn", "example_app.wsgi:application"]
        run = subprocess.run(
            ["env", *variables, *gunicorn, "--config=example_app/gunicorn.conf.py"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert run.returncode == 1
    last = run.stderr.splitlines()[-1]
    assert last.startswith(f"::1 port {port} cannot be used (")
    assert last.endswith(f"make run PORT={port + 1}")
