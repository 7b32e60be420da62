"""Real clients read what is announced, and do not wait during a brownout: pages of
another origin, and requests.
"""

import json
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import pytest
import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from flask_notifications import (
    Brownout,
    DeprecationMiddleware,
    DeprecationPolicy,
    Operation,
    StorageUnavailable,
    notification_operations,
)
from tests.cli.servers import Canned, CannedServer, canned_server, serving
from tests.servers.process import PATIENCE
from tests.services import chromium_or_skip
from tests.storages import CURRENT_USER, SESSION_ID, OneSession, flask_app, raising

SUNSET_DOCUMENTATION = "https://example.com/policy"
SUNSET = datetime(2027, 7, 1, tzinfo=UTC)
POLICY = DeprecationPolicy(
    deprecated_at=datetime(2026, 1, 1, tzinfo=UTC),
    sunset_at=SUNSET,
    documentation="/docs/retirement",
    sunset_documentation=SUNSET_DOCUMENTATION,
    brownouts=[
        Brownout(
            datetime(2026, 10, 1, 12, tzinfo=UTC), datetime(2026, 10, 1, 14, tzinfo=UTC)
        )
    ],
    enforce_sunset=True,
)
PLAN = dict.fromkeys(notification_operations(), POLICY)
VERSION = {Operation("version", "*", "/API/**", "/v2/**"): POLICY}
BROWNOUT = datetime(2026, 10, 1, 13, tzinfo=UTC)  # one hour before its end


def retire(
    app: WSGIApplication,
    plan: Any = PLAN,
    at: datetime = datetime(2026, 6, 1, tzinfo=UTC),
) -> WSGIApplication:
    return DeprecationMiddleware(
        app, plan, base_url="https://api.example.com", clock=lambda: at
    )


def adding(headers: dict[str, str], app: WSGIApplication) -> WSGIApplication:
    """Return an application inside a layer that adds headers to all responses."""

    def layer(
        environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        def start(status: str, received: Any, *info: Any) -> Any:
            return start_response(status, [*received, *headers.items()], *info)

        return app(environ, start)

    return layer


def site(origin: str) -> WSGIApplication:
    """Return an application that is mounted with different settings; ``origin`` is the
    only other one to read it.
    """
    cors = {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Headers": "Authorization",
        "Access-Control-Allow-Methods": "DELETE",
    }
    exposing = cors | {"Access-Control-Expose-Headers": "X-Own"}
    # For a request with credentials, the wildcard has no effect (Fetch, "CORS-exposed
    # header-name").
    wildcard = cors | {
        "Access-Control-Allow-Credentials": "true",
        "Access-Control-Expose-Headers": "*",
    }
    outermost = cors | {
        "Access-Control-Expose-Headers": "Deprecation, Sunset, Link, Retry-After"
    }
    headers = {"Link": '</help>; rel="help"', "X-Own": "mine"}
    app = adding(headers, flask_app(OneSession()))
    failing = flask_app(OneSession(raising(StorageUnavailable(retry_after=7))))
    mounts = {
        "/wildcard": retire(adding(wildcard, app)),
        "/outermost": adding(outermost, retire(app, at=BROWNOUT)),
        "/version": adding(outermost, retire(app, VERSION, SUNSET)),
        "/unavailable": retire(failing),
    }
    return DispatcherMiddleware(retire(adding(exposing, app)), mounts)


BY_QUERY = f"{CURRENT_USER}?sessionId={SESSION_ID}"
# The target and the options of Fetch. With the ``Authorization`` header, the browser
# sends a preflight request first.
HEADER = {"headers": {"Authorization": f"Bearer {SESSION_ID}"}}
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "query": (BY_QUERY, {}),
    "header": (CURRENT_USER, HEADER),
    "wildcard": (f"/wildcard{BY_QUERY}", {"credentials": "include"}),
    "outermost": (f"/outermost{CURRENT_USER}", HEADER),
    # Its preflight request is served although the operation is switched off.
    "version": (f"/version{CURRENT_USER}", {**HEADER, "method": "DELETE"}),
}

DATES = {"deprecation": "@1767225600", "sunset": "Thu, 01 Jul 2027 00:00:00 GMT"}
PAGE = b'<!doctype html><title>A</title><link rel="icon" href="data:,"><script type="module" src="/page.mjs"></script>'


@contextmanager
def browser(url: str, folder: Path) -> Iterator[None]:
    """Open a page in Chromium, which writes only to a folder, and stop the browser on
    exit.
    """
    profile = f"--user-data-dir={folder}/profile"
    command = [*chromium_or_skip(), "--headless", profile, url]
    environ = os.environ | {"HOME": str(folder), "TMPDIR": str(folder)}
    with (folder / "chromium.log").open("wb") as output:
        process = subprocess.Popen(
            command, env=environ, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield
    finally:
        # The browser is many processes in one process group.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def page() -> Iterator[CannedServer]:
    with canned_server() as page:
        yield page


@pytest.fixture(scope="module")
def url(page: CannedServer) -> Iterator[str]:
    with serving(site(page.url)) as url:
        yield url


@pytest.fixture(scope="module")
def seen(
    page: CannedServer, url: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Return the page's result of each call, by name."""
    calls = {}
    for name, (target, init) in CALLS.items():
        calls[name] = {"url": f"{url}{target}", "init": init}
    script = Path(__file__).with_name("page.mjs").read_bytes()
    page.respond("/page.mjs", canned("text/javascript", script))
    page.respond("/calls", canned("application/json", json.dumps(calls).encode()))
    address = page.respond("/", canned("text/html", PAGE))
    with browser(address, tmp_path_factory.mktemp("browser")):
        results: dict[str, Any] = json.loads(page.bodies.get(timeout=PATIENCE))
    return results


def canned(media_type: str, body: bytes) -> Canned:
    return Canned(200, [("Content-Type", media_type)], body)


def links(mount: str) -> str:
    """Return the ``Link`` header as a page reads it, with all links joined."""
    return (
        f'<https://api.example.com{mount}/API/Notification/CurrentUser>; rel="successor-version", '
        f'<https://api.example.com{mount}/docs/retirement>; rel="deprecation"; type="text/html", '
        f'<{SUNSET_DOCUMENTATION}>; rel="sunset"; type="text/html"'
    )


@pytest.mark.parametrize("name", ["query", "header", "wildcard"])
def test_a_page_of_another_origin_reads_the_deprecation_headers(
    seen: dict[str, Any], name: str
) -> None:
    mount = "/wildcard" if name == "wildcard" else ""
    announced = DATES | {"link": f'</help>; rel="help", {links(mount)}'}
    if not mount:
        announced["x-own"] = "mine"  # which the application exposes
    assert seen[name]["headers"].items() >= announced.items()


def test_a_page_reads_a_brownout_if_a_cors_layer_wraps_the_middleware(
    seen: dict[str, Any],
) -> None:
    response = seen["outermost"]
    assert response["status"] == 410
    announced = DATES | {"link": links("/outermost"), "retry-after": "3600"}
    assert response["headers"].items() >= announced.items()


def test_a_page_reads_the_410_of_a_version_because_its_preflight_request_passes(
    seen: dict[str, Any],
) -> None:
    assert seen["version"]["status"] == 410
    link = '<https://api.example.com/version/v2/Notification/>; rel="successor-version"'
    assert seen["version"]["headers"]["link"].startswith(link)


@pytest.mark.parametrize(
    ("mount", "status", "retries"), [("outermost", 410, 0), ("unavailable", 503, 3)]
)
def test_requests_repeats_a_request_for_an_outage_only(
    url: str, mount: str, status: int, retries: int
) -> None:
    # It repeats what the server asks for, but at once.
    retry = Retry(3, allowed_methods=None, retry_after_max=0)
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", HTTPAdapter(max_retries=retry))
        response = session.get(f"{url}/{mount}{BY_QUERY}")
    assert response.status_code == status
    raw: Any = response.raw
    assert len(raw.retries.history) == retries
