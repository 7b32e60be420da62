"""Install the JavaScript clients, as package-lock.json says, and call them."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.clients.application import SESSION

HERE = Path(__file__).parent

# Seconds: the time limit of a call.
PATIENCE = 20


class Outcome(NamedTuple):
    """What a script reports about a response, and the lines that the client wrote to standard error."""

    result: Any
    warnings: list[str]


@dataclass(frozen=True)
class Node:
    """Node.js and the folder with the clients."""

    program: str
    folder: Path

    def call(self, script: str, method: str, url: str, session: str = SESSION) -> Outcome:
        """Run a script that calls a URL with the session in the header, and return its outcome."""
        command = [self.program, str(self.folder / script), method, url, session]
        done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=PATIENCE)
        return Outcome(json.loads(done.stdout), done.stderr.splitlines())


def install(folder: Path, source: Path = HERE) -> bool:
    """Install scripts and packages in a folder, unless an earlier run did, and return whether they are there."""
    for path in [*source.glob("*.mjs"), *source.glob("*.json")]:
        shutil.copy(path, folder)
    lock, installed = folder / "package-lock.json", folder / "installed"
    if installed.exists() and installed.read_bytes() == lock.read_bytes():
        return True
    # Without a network, npm must not retry for a minute.
    retries = ["--prefer-offline", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=2000"]
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", *retries]
    if subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode != 0:
        return False
    shutil.copy(lock, installed)
    return True
