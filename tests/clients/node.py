"""The clients in JavaScript: installed as package-lock.json says, in a folder that outlives a run, and called."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.clients.host import SESSION

HERE = Path(__file__).parent

# Seconds: how long a call may take before it counts as broken.
PATIENCE = 20


class Outcome(NamedTuple):
    """What a script has to say about an answer, and the lines that the client wrote on standard error."""

    result: Any
    warnings: list[str]


@dataclass(frozen=True)
class Node:
    """Node and the folder with the clients."""

    program: str
    folder: Path

    def call(self, script: str, method: str, url: str, session: str = SESSION) -> Outcome:
        """Make a call with one of the scripts, with the session in the header."""
        command = [self.program, str(self.folder / script), method, url, session]
        done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=PATIENCE)
        return Outcome(json.loads(done.stdout), done.stderr.splitlines())


def install(folder: Path) -> bool:
    """Bring scripts and clients into a folder, unless the same clients are there since an earlier run."""
    for path in [*HERE.glob("*.mjs"), *HERE.glob("*.json")]:
        shutil.copy(path, folder)
    lock, installed = folder / "package-lock.json", folder / "installed"
    if installed.exists() and installed.read_bytes() == lock.read_bytes():
        return True
    # Where there is no network, we do not want to wait a minute for it.
    retries = ["--prefer-offline", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=2000"]
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", *retries]
    if subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode != 0:
        return False
    shutil.copy(lock, installed)
    return True
