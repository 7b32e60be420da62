"""JavaScript clients warn their users without further code when a response has the deprecation headers."""

import pytest

from tests.clients.application import RECORDS, SESSION
from tests.clients.node import Node
from tests.clients.serving import ACCOUNT, DOCUMENTATION, LIST, SUNSET, Site

pytestmark = pytest.mark.browser


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
def test_octokit_prints_the_date_and_the_documentation(
    node: Node, site: Site, method: str, target: str, status: int
) -> None:
    result, (warning,) = node.call("octokit.mjs", method, site.url(target))
    assert result["status"] == status
    assert f" {SUNSET}." in warning
    assert warning.endswith(f" {DOCUMENTATION}")
    assert SESSION not in warning


@pytest.mark.parametrize("phase", ["brownout", "sunset"])
@pytest.mark.parametrize(("method", "target"), [("GET", LIST), ("POST", ACCOUNT), ("HEAD", LIST)])
def test_octokit_prints_both_when_the_operation_is_switched_off(
    node: Node, site: Site, phase: str, method: str, target: str
) -> None:
    result, (warning,) = node.call("octokit.mjs", method, site.url(f"/{phase}{target}"))
    assert result["status"] == 410
    assert f" {SUNSET}." in warning
    assert warning.endswith(f" {DOCUMENTATION.replace('.com', f'.com/{phase}')}")
    assert SESSION not in warning


@pytest.mark.parametrize("target", ["/news", "/API/Notification/7"])
def test_octokit_is_silent_about_what_is_not_obsolete(node: Node, site: Site, target: str) -> None:
    assert node.call("octokit.mjs", "GET", site.url(target)).warnings == []


@pytest.mark.parametrize(
    ("method", "target", "documentation"),
    [
        pytest.param("GET", LIST, DOCUMENTATION, id="get"),
        pytest.param("POST", ACCOUNT, DOCUMENTATION, id="post"),
        pytest.param("GET", f"/relative{LIST}", "{site}/relative/docs/retirement", id="link-without-a-host"),
    ],
)
def test_ketting_prints_the_date_and_the_documentation(
    node: Node, site: Site, method: str, target: str, documentation: str
) -> None:
    result, (warning,) = node.call("ketting.mjs", method, site.url(target))
    assert result == {"status": 200, "data": RECORDS}
    assert SUNSET in warning
    assert documentation.format(site=site.url("")) in warning.split()
    assert SESSION not in warning


@pytest.mark.parametrize("target", [LIST, f"/brownout{LIST}", f"/sunset{LIST}"])
def test_javascript_reads_the_dates(node: Node, site: Site, target: str) -> None:
    assert node.call("headers.mjs", "GET", site.url(target)).result == {
        "deprecation": "2026-01-01T00:00:00.000Z",
        "parameters": 0,
        "sunset": "2027-07-01T00:00:00.000Z",
    }
