"""No request reaches a closed operation on real servers, however lenient the router of a framework is."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.servers.process import PROGRAMS, Program, Server, program_name, serving

ROUTERS = ("blueprint", "NotificationApp", "flask", "django", "pyramid", "falcon", "bottle")
ROWS = b"Weekly sales"

REQUESTS = {
    "as documented": ("GET", "/API/Notification/"),
    "a method in lower case": ("get", "/API/Notification/"),
    "a method in mixed case": ("Get", "/api/notification"),
    "a slash too many at the beginning": ("GET", "//API/Notification/"),
    "a slash too many inside": ("GET", "/API//Notification/"),
    "a slash too many at the end": ("GET", "/API/Notification//"),
    "a byte that is not UTF-8": ("GET", "/API/Notification%FF/"),
    "a line feed at the end": ("GET", "/API/Notification/%0A"),
    "a line feed instead of the slash": ("GET", "/API/Notification%0A"),
    "a space at the end": ("GET", "/API/Notification/%20"),
    "a dotless i": ("GET", "/API/Not%C4%B1fication/"),
    "a capital i with a dot": ("GET", "/AP%C4%B0/Notification/"),
    "an absolute URL": ("GET", "http://api.example/API/Notification/"),
    "an absolute URL with two slashes": ("GET", "http://api.example//API/Notification/"),
}


@pytest.fixture(scope="module", params=PROGRAMS[1:], ids=program_name)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    program: Program = replace(request.param, application="tests.servers.closed:application")
    with serving(program, tmp_path_factory.mktemp(program.name)) as server:
        yield server


def respond(server: Server, request: str, router: str, phase: str) -> bytes:
    method, target = REQUESTS[request]
    headers = (f"X-Router: {router}", f"X-Phase: {phase}", "Authorization: Bearer s3cret")
    return server.ask(method, target, *headers).body


def test_no_spelling_of_a_request_reaches_a_closed_operation(server: Server) -> None:
    leaks = [
        (request, router)
        for request in REQUESTS
        for router in ROUTERS
        if ROWS in respond(server, request, router, "sunset")
    ]
    assert leaks == []


def test_the_same_requests_reach_an_open_operation(server: Server) -> None:
    """Otherwise the test above could not fail; each router accepts some of the spellings."""
    served = {
        router: [request for request in REQUESTS if ROWS in respond(server, request, router, "open")]
        for router in ROUTERS
    }
    assert all("as documented" in requests for requests in served.values()), served
    assert len({request for requests in served.values() for request in requests}) >= 8, served
