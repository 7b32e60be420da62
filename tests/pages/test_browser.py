"""Both pages in Chromium under a strict policy: self-contained, without errors, accessible, and fit for a phone."""

import json
import os
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import which
from threading import Thread
from typing import Any
from urllib.parse import quote, unquote

import pytest

from tests.clients.node import install
from tests.pages.documents import DOCUMENTS, render
from tests.services import service_or_skip

pytestmark = pytest.mark.browser

HERE = Path(__file__).parent

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
MODES = ["wide", "narrow", "dark", "print"]

# Seconds that a program may take for all pages.
PATIENCE = 600

OPTIONS = [
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Handler(BaseHTTPRequestHandler):
    """Serve the pages by name, with the strictest content security policy that they support."""

    def do_GET(self) -> None:  # the name that the standard library looks for
        name = unquote(self.path[1:])
        page = render(name) if name in DOCUMENTS else None
        self.send_response(200 if page is not None else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write((page or "").encode())

    def log_message(self, *_arguments: object) -> None:
        """Stay silent."""


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="session")
def tools(pytestconfig: pytest.Config) -> Path:
    """Return the folder with the packages of package.json, which is kept in pytest's cache between runs."""
    service_or_skip("Node.js", which("node") is not None)
    service_or_skip("npm", which("npm") is not None)
    assert pytestconfig.cache is not None
    folder = pytestconfig.cache.mkdir("pages")
    service_or_skip("a registry of npm packages", install(folder, HERE))
    return folder


@pytest.fixture(scope="module")
def seen(tools: Path, origin: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the browser saw of each page in each mode."""
    program = which("chromium") or which("chromium-browser") or which("google-chrome")
    service_or_skip("Chromium", program is not None)
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    pages = {name: f"{origin}/{quote(name)}" for name in DOCUMENTS}
    job = {"executablePath": program, "args": [*OPTIONS, *sandbox], "pages": pages}
    folder = str(tmp_path_factory.mktemp("browser"))
    done = subprocess.run(
        ["node", tools / "inspect.mjs"],
        input=json.dumps(job),
        env=os.environ | {"HOME": folder, "TMPDIR": folder},
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", DOCUMENTS)
class TestPage:
    def test_nothing_else_is_loaded(self, seen: dict[str, Any], name: str, origin: str) -> None:
        assert seen[name]["requests"] == [f"{origin}/{quote(name)}"]

    def test_the_console_stays_empty(self, seen: dict[str, Any], name: str) -> None:
        assert seen[name]["messages"] == []

    def test_the_policy_allows_the_styles(self, seen: dict[str, Any], name: str) -> None:
        assert seen[name]["styled"]

    @pytest.mark.parametrize("mode", MODES)
    def test_axe_finds_no_violations(self, seen: dict[str, Any], name: str, mode: str) -> None:
        assert seen[name]["modes"][mode]["violations"] == []

    @pytest.mark.parametrize("mode", MODES)
    def test_nothing_is_wider_than_the_window(self, seen: dict[str, Any], name: str, mode: str) -> None:
        assert seen[name]["modes"][mode]["overflow"] == []


def test_the_validator_of_the_w3c_finds_no_errors(tools: Path, tmp_path: Path) -> None:
    service_or_skip("Java", which("java") is not None)
    for number, name in enumerate(DOCUMENTS):
        (tmp_path / f"{number}.html").write_text(render(name), encoding="utf-8")
    checker = tools / "node_modules" / "vnu-jar" / "build" / "dist" / "vnu.jar"
    command: list[str | Path] = ["java", "-jar", checker, "--format", "gnu", *sorted(tmp_path.glob("*.html"))]
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
