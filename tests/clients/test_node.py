"""Clients in JavaScript warn their users, by themselves, as soon as the announcement is there."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.clients.host import RECORDS, SESSION
from tests.clients.serving import ACCOUNT, DOCUMENTATION, LIST, SUNSET, Site

HERE = Path(__file__).parent

# Seconds: how long a call may take before it counts as broken.
PATIENCE = 20


class Outcome(NamedTuple):
    """What a client made of an answer, and the lines it wrote on standard error."""

    result: Any
    warnings: list[str]


Call = Callable[[str, str, str], Outcome]


@pytest.fixture
def call(node: str, site: Site) -> Call:
    """Return what makes a call with one of the clients, with the session in the header."""

    def call(script: str, method: str, target: str) -> Outcome:
        command = [node, str(HERE / script), method, site.url(target), SESSION]
        done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=PATIENCE)
        return Outcome(json.loads(done.stdout), done.stderr.splitlines())

    return call


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        pytest.param("GET", LIST, 200, id="get"),
        pytest.param("POST", ACCOUNT, 200, id="post"),
        pytest.param("HEAD", LIST, 200, id="head"),
        pytest.param("GET", "/api/notification", 200, id="as-old-clients-spell-it"),
        pytest.param("POST", ACCOUNT.replace("alice", "nobody"), 404, id="error"),
    ],
)
def test_octokit_prints_the_date_and_the_documentation(call: Call, method: str, target: str, status: int) -> None:
    result, (warning,) = call("octokit.mjs", method, target)
    assert result["status"] == status
    assert f" {SUNSET}." in warning
    assert warning.endswith(f" {DOCUMENTATION}")
    assert SESSION not in warning


@pytest.mark.parametrize("phase", ["brownout", "sunset"])
@pytest.mark.parametrize(("method", "target"), [("GET", LIST), ("POST", ACCOUNT), ("HEAD", LIST)])
def test_octokit_prints_them_when_the_operation_is_switched_off(
    call: Call, phase: str, method: str, target: str
) -> None:
    result, (warning,) = call("octokit.mjs", method, f"/{phase}{target}")
    assert result["status"] == 410
    assert f" {SUNSET}." in warning
    assert warning.endswith(f" {DOCUMENTATION.replace('.com', f'.com/{phase}')}")
    assert SESSION not in warning


@pytest.mark.parametrize("target", ["/news", "/API/Notification/7"])
def test_octokit_is_silent_about_what_is_not_obsolete(call: Call, target: str) -> None:
    assert call("octokit.mjs", "GET", target).warnings == []


@pytest.mark.parametrize(
    ("method", "target", "documentation"),
    [
        pytest.param("GET", LIST, DOCUMENTATION, id="get"),
        pytest.param("POST", ACCOUNT, DOCUMENTATION, id="post"),
        pytest.param("GET", f"/relative{LIST}", "{site}/relative/docs/retirement", id="link-without-a-host"),
    ],
)
def test_ketting_prints_the_date_and_the_documentation(
    call: Call, site: Site, method: str, target: str, documentation: str
) -> None:
    result, (warning,) = call("ketting.mjs", method, target)
    assert result == {"status": 200, "data": RECORDS}
    assert SUNSET in warning
    assert documentation.format(site=site.url("")) in warning.split()
    assert SESSION not in warning


@pytest.mark.parametrize("target", [LIST, f"/brownout{LIST}", f"/sunset{LIST}"])
def test_javascript_reads_the_dates(call: Call, target: str) -> None:
    assert call("fields.mjs", "GET", target).result == {
        "deprecation": "2026-01-01T00:00:00.000Z",
        "parameters": 0,
        "sunset": "2027-07-01T00:00:00.000Z",
    }
