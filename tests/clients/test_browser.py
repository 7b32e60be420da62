"""A page of another origin reads the announcement, in a real browser, exactly where it may read the answer."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from shutil import which
from threading import Thread
from typing import Any

import pytest

from tests.clients.host import SESSION
from tests.clients.serving import ACCOUNT, DEPRECATION, DOCUMENTATION, LIST, POLICY, SUCCESSORS, SUNSET, Site, serving
from tests.services import service_or_skip

HERE = Path(__file__).parent

# Seconds: how long the browser may take for all of it before it counts as broken.
PATIENCE = 60

# What Fetch asks for about a call; a header of the page's own makes the browser ask the host first.
HEADER = {"headers": {"Authorization": f"Bearer {SESSION}"}}
QUERY = f"?sessionId={SESSION}"

# Target, what Fetch is told, status.
READABLE: dict[str, tuple[str, dict[str, Any], int]] = {
    "session-in-the-query": (f"{LIST}{QUERY}", {}, 200),
    "session-in-the-header": (LIST, HEADER, 200),
    "post": (f"{ACCOUNT}{QUERY}", {"method": "POST"}, 200),
    "head": (f"{LIST}{QUERY}", {"method": "HEAD"}, 200),
    "as-old-clients-spell-it": (f"/api/notification{QUERY}", {}, 200),
    "error": (LIST, {}, 401),
    # Where the host's own wildcard means nothing.
    "credentials-and-a-wildcard": (f"/wildcard{LIST}{QUERY}", {"credentials": "include"}, 200),
}
# Answers without the field that allows a page to read them. The middleware's own never reach the host that adds it.
UNREADABLE: dict[str, tuple[str, dict[str, Any]]] = {
    "without-cors": (f"/closed{LIST}{QUERY}", {}),
    "brownout": (f"/brownout{LIST}{QUERY}", {}),
    "sunset": (f"/sunset{LIST}{QUERY}", {}),
    "session-refused": (f"{LIST}{QUERY}&sessionId=", {}),
}
# Calls that need no table; what the browser asks before the first one is not switched off with the operation.
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "outermost": (f"/outermost{LIST}", HEADER),
    "unclaimed": ("/news", {}),
}

PAGE = (
    b'<!doctype html><title>Page</title><link rel="icon" href="data:,"><script type="module" src="/page.mjs"></script>'
)


class Handler(BaseHTTPRequestHandler):
    """Serve the page, tell it what to call, and take what it saw."""

    server: "PageServer"

    def do_GET(self) -> None:  # the name that the standard library looks for
        bodies = {
            "/": ("text/html", PAGE),
            "/page.mjs": ("text/javascript", (HERE / "page.mjs").read_bytes()),
            "/calls": ("application/json", json.dumps(self.server.calls).encode()),
        }
        media_type, body = bodies[self.path]
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.server.seen.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Stay silent."""


class PageServer(ThreadingHTTPServer):
    """The other origin: a server of its own, on a port of its own."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.calls: dict[str, Any] = {}
        self.seen: Queue[Any] = Queue()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def page_server() -> Iterator[PageServer]:
    with PageServer() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def browser(url: str, folder: Path) -> Iterator[Path]:
    """Show a page in Chromium until it is no longer needed; lend the log of the browser."""
    program = which("chromium") or which("chromium-browser") or which("google-chrome")
    service_or_skip("Chromium", program is not None)
    options = [
        "--headless",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--no-proxy-server",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # it asks nobody else
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={folder}/profile",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ]
    log = folder / "chromium.log"
    # All that it writes is in the folder.
    environ = os.environ | {"HOME": str(folder), "TMPDIR": str(folder)}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(program), *options, url], env=environ, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield log
    finally:
        # The browser is many processes, in a group of their own.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the page saw of each call, by name."""
    folder = tmp_path_factory.mktemp("browser")
    with page_server() as page, pytest.MonkeyPatch.context() as environment:
        environment.setenv("PAGE_ORIGIN", page.origin)
        with serving(tmp_path_factory.mktemp("site")) as site:
            page.calls = calls(site)
            with browser(page.origin, folder) as log:
                try:
                    found: dict[str, Any] = page.seen.get(timeout=PATIENCE)
                except Empty:
                    pytest.fail(f"the page has reported nothing\n{log.read_text(encoding='utf-8', errors='replace')}")
    return found


def calls(site: Site) -> dict[str, Any]:
    """Return what the page is to call."""
    named = [
        *((name, target, init) for name, (target, init, _status) in READABLE.items()),
        *((name, target, init) for name, (target, init) in (UNREADABLE | OTHERS).items()),
    ]
    return {name: {"url": site.url(target), "init": init} for name, target, init in named}


def announcement(answer: dict[str, Any]) -> tuple[str | None, str | None, str | None]:
    """Return what the page could read of it."""
    deprecation, sunset, link = (answer["fields"].get(name) for name in ("deprecation", "sunset", "link"))
    return deprecation, sunset, link


def links(mount: str, method: str) -> str:
    """Return the links of an announcement as a page gets them, joined."""
    successor, documentation = (uri.replace(".com", f".com{mount}") for uri in (SUCCESSORS[method], DOCUMENTATION))
    return ", ".join(
        [
            f'<{successor}>; rel="successor-version"',
            f'<{documentation}>; rel="deprecation"; type="text/html"',
            f'<{POLICY}>; rel="sunset"; type="text/html"',
        ]
    )


@pytest.mark.parametrize("name", READABLE)
def test_a_page_of_another_origin_reads_the_announcement(seen: dict[str, Any], name: str) -> None:
    target, init, status = READABLE[name]
    mount = "/wildcard" if target.startswith("/wildcard") else ""
    assert seen[name]["status"] == status
    assert announcement(seen[name]) == (
        DEPRECATION,
        SUNSET,
        f'</help>; rel="help", {links(mount, init.get("method", "GET"))}',
    )


def test_it_still_reads_what_the_host_exposes(seen: dict[str, Any]) -> None:
    assert seen["session-in-the-query"]["fields"]["x-own"] == "mine"


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_page_cannot_read_what_the_host_has_not_opened(seen: dict[str, Any], name: str) -> None:
    assert seen[name] == {"fault": "TypeError"}


def test_a_page_cannot_read_fields_that_nobody_has_exposed(seen: dict[str, Any]) -> None:
    fields = seen["unclaimed"]["fields"]
    assert ("x-own" in fields, "link" in fields) == (True, False)


def test_a_page_reads_a_brownout_where_the_host_opens_answers_outside_of_the_middleware(seen: dict[str, Any]) -> None:
    # Nobody but the host can expose the fields then.
    answer = seen["outermost"]
    assert (answer["status"], answer["fields"]["retry-after"]) == (410, "3600")
    assert announcement(answer) == (DEPRECATION, SUNSET, links("/outermost", "GET"))
