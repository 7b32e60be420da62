"""In a real browser, a page of another origin reads the deprecation headers if it may read the response."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.servers import Canned, canned_server
from tests.clients.app import DOCUMENTATION, LIST, PROGRAM, SESSION, SUCCESSOR, SUNSET_DOCUMENTATION
from tests.servers.process import PATIENCE, Server, serving
from tests.services import chromium_or_skip

HERE = Path(__file__).parent

# Options of Fetch. With the ``Authorization`` header, the browser sends a preflight request first.
HEADER = {"headers": {"Authorization": f"Bearer {SESSION}"}}
QUERY = f"?sessionId={SESSION}"

# The target, the options of Fetch, and the status.
READABLE: dict[str, tuple[str, dict[str, Any], int]] = {
    "session-in-the-query": (f"{LIST}{QUERY}", {}, 200),
    "session-in-the-header": (LIST, HEADER, 200),
    "error": (LIST, {}, 401),
    # The application's wildcard has no effect here.
    "credentials-and-a-wildcard": (f"/wildcard{LIST}{QUERY}", {"credentials": "include"}, 200),
}
# The preflight request of the last one is served although the operation is switched off.
CLOSED: dict[str, tuple[str, dict[str, Any], int]] = {
    "brownout": (f"/brownout{LIST}{QUERY}", {}, 410),
    "outermost": (f"/outermost{LIST}", HEADER, 410),
    "version": (f"/version{LIST}", {**HEADER, "method": "DELETE"}, 410),
}

DATES = ("@1767225600", "Thu, 01 Jul 2027 00:00:00 GMT")
PAGE = b'<!doctype html><title>A</title><link rel="icon" href="data:,"><script type="module" src="/page.mjs"></script>'


@contextmanager
def browser(url: str, folder: Path) -> Iterator[None]:
    """Open a page in Chromium, which writes only to a folder, and stop the browser on exit."""
    command = [*chromium_or_skip(), "--headless", f"--user-data-dir={folder}/profile", url]
    environ = os.environ | {"HOME": str(folder), "TMPDIR": str(folder)}
    with (folder / "chromium.log").open("wb") as output:
        process = subprocess.Popen(command, env=environ, stdout=output, stderr=output, start_new_session=True)
    try:
        yield
    finally:
        # The browser is many processes in one process group.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the page's result of each call, by name."""
    with canned_server() as page, pytest.MonkeyPatch.context() as environment:
        environment.setenv("PAGE_ORIGIN", page.url)
        with serving(PROGRAM, tmp_path_factory.mktemp("server")) as server:
            page.respond("/page.mjs", canned("text/javascript", (HERE / "page.mjs").read_bytes()))
            page.respond("/calls", canned("application/json", json.dumps(calls(server)).encode()))
            with browser(page.respond("/", canned("text/html", PAGE)), tmp_path_factory.mktemp("browser")):
                found: dict[str, Any] = json.loads(page.bodies.get(timeout=PATIENCE))
    return found


def canned(media_type: str, body: bytes) -> Canned:
    return Canned(200, [("Content-Type", media_type)], body)


def calls(server: Server) -> dict[str, Any]:
    """Return the calls for the page, by name."""
    named = (READABLE | CLOSED).items()
    return {name: {"url": server.url(target), "init": init} for name, (target, init, _status) in named}


def deprecation_headers(response: dict[str, Any]) -> tuple[str | None, str | None, str | None]:
    """Return the deprecation headers that the page could read."""
    deprecation, sunset, link = (response["headers"].get(name) for name in ("deprecation", "sunset", "link"))
    return deprecation, sunset, link


def links(mount: str) -> str:
    """Return the ``Link`` header as a page reads it, with all links joined."""
    successor, documentation = (uri.replace(".com", f".com{mount}") for uri in (SUCCESSOR, DOCUMENTATION))
    return ", ".join(
        [
            f'<{successor}>; rel="successor-version"',
            f'<{documentation}>; rel="deprecation"; type="text/html"',
            f'<{SUNSET_DOCUMENTATION}>; rel="sunset"; type="text/html"',
        ]
    )


@pytest.mark.parametrize("name", READABLE)
def test_a_page_of_another_origin_reads_the_deprecation_headers(seen: dict[str, Any], name: str) -> None:
    target, _init, status = READABLE[name]
    mount = "/wildcard" if target.startswith("/wildcard") else ""
    assert seen[name]["status"] == status
    assert deprecation_headers(seen[name]) == (*DATES, f'</help>; rel="help", {links(mount)}')


def test_a_page_still_reads_the_headers_that_the_application_exposes(seen: dict[str, Any]) -> None:
    assert seen["session-in-the-query"]["headers"]["x-own"] == "mine"


def test_a_page_reads_a_brownout_only_if_a_cors_layer_wraps_the_middleware(seen: dict[str, Any]) -> None:
    # The middleware's own response never reaches the application, which adds the CORS headers.
    assert seen["brownout"] == {"error": "TypeError"}
    # Only the application can expose the headers in this case.
    response = seen["outermost"]
    assert (response["status"], response["headers"]["retry-after"]) == (410, "3600")
    assert deprecation_headers(response) == (*DATES, links("/outermost"))


def test_a_page_reads_the_410_of_a_version_because_its_preflight_request_passes(seen: dict[str, Any]) -> None:
    response = seen["version"]
    assert (response["status"], response["headers"]["link"].partition(",")[0]) == (
        410,
        '</version/v2/Notification/>; rel="successor-version"',
    )
