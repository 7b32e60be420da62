"""A storage that fails at any stage is a clean error on real servers and proxies, and leaves nothing open."""

import gzip
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.resilience.app import (
    ACCOUNT,
    COUNT,
    DOCUMENTATION,
    ENTRY_POINTS,
    LIST,
    RECORD,
    SECRET,
    WHOLE,
    find_unreleased,
)
from tests.servers.nginx import proxying
from tests.servers.process import (
    PATIENCE,
    PROGRAMS,
    Program,
    Server,
    eventually,
    program_name,
    request_of,
    response_of,
    serving,
)
from tests.wsgi import Response

SendRequest = Callable[[str, str], Response]

# nginx as a proxy, by its directives; the first are its defaults.
PROXIES = {
    "http-1.0-upstream": "proxy_http_version 1.0",
    "http-1.1-upstream": 'proxy_http_version 1.1; proxy_set_header Connection ""',
    "gzip": "gzip on; gzip_proxied any; gzip_types *; gzip_http_version 1.0",
}
WAYS = ["direct", "http-1.0-client", *PROXIES]
EVERY_WAY = pytest.mark.parametrize("ask", WAYS, indirect=True)

# When the storage fails: at the look-up of the caller, at the call for records, at the first record, at two early ones,
# at one above the spool threshold, at the last one, and after it.
STAGES = ["session", "call", "0", "1", "21", "256", f"{COUNT - 1}", f"{COUNT}"]

# The exception of the storage, the code of the response, and the class in the log.
FAILURES = {
    "unavailable": ("storage_unavailable", "StorageUnavailable"),
    "bug": ("storage_error", "KeyError"),
    "oserror": ("storage_error", "OSError"),
    "broken-pipe": ("storage_error", "BrokenPipeError"),
    "connection-reset": ("storage_error", "ConnectionResetError"),
    "not-connected": ("storage_error", "OSError"),
    "memory": ("storage_error", "MemoryError"),
    "recursion": ("storage_error", "RecursionError"),
    "group": ("storage_error", "ExceptionGroup"),
}
STATUSES = {"storage_unavailable": 503, "storage_error": 500, "unserialisable_record": 500}

# The headers of every error.
COMMON_HEADERS = {
    "Content-Type": "application/problem+json",
    "Cache-Control": "no-store",
    "Vary": "Authorization",
    "X-Content-Type-Options": "nosniff",
    "Deprecation": "@1767225600",
}

# Values that are not records.
INVALID_RECORDS = [
    "nothing",
    "number",
    "string",
    "array",
    "half-an-object",
    "decimal",
    "large-integer",
    "lone-surrogate",
    "key-that-is-not-a-string",
    "deep",
]


FAILING = [replace(program, application="tests.resilience.app:application") for program in PROGRAMS]


@pytest.fixture(scope="module", params=FAILING, ids=program_name)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    program: Program = request.param
    with serving(program, tmp_path_factory.mktemp(program.name)) as server:
        yield server


@pytest.fixture(scope="module")
def proxies(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(proxying(site, server.port, tmp_path_factory.mktemp(name)))
            for name, site in PROXIES.items()
        }


@pytest.fixture
def ask(request: pytest.FixtureRequest, server: Server, proxies: dict[str, Server]) -> SendRequest:
    """Return a function that requests a target, directly or through a proxy, with a session."""
    way: str = request.param
    if way == "http-1.0-client":
        return lambda session, target: response_of(
            server.exchange(f"GET {target} HTTP/1.0\r\nAuthorization: Bearer {session}\r\n\r\n".encode())
        )
    port = proxies.get(way, server).port
    return lambda session, target: fetch(port, session, target, "gzip" if way == "gzip" else "identity")


def fetch(port: int, session: str, target: str, encoding: str = "identity", method: str = "GET") -> Response:
    """Send a request with a client that understands chunks and compression, and that detects a truncated body."""
    headers = {"Authorization": f"Bearer {session}", "Accept-Encoding": encoding, "Connection": "close"}
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request(method, target, headers=headers)
        response = connection.getresponse()
        body = response.read()
    compressed = response.getheader("Content-Encoding") == "gzip"
    assert compressed == (encoding == "gzip" and response.status == 200)  # nginx leaves most errors uncompressed
    status = f"{response.status} {response.reason}"
    return Response(status, response.getheaders(), gzip.decompress(body) if compressed else body)


def check_error(response: Response, code: str, successor: str = f"{LIST}CurrentUser") -> None:
    """Check that a response is a complete error with the headers of every other response."""
    status = STATUSES[code]
    assert (response.code, response.json["status"], response.json["code"]) == (status, status, code)
    assert {name: response.one(name) for name in COMMON_HEADERS} == COMMON_HEADERS
    assert response.one("Content-Length") == str(len(response.body))
    assert response.all("Retry-After") == (["7"] if code == "storage_unavailable" else [])
    announced = [f'<{successor}>; rel="successor-version"', f'<{DOCUMENTATION}>; rel="deprecation"; type="text/html"']
    assert sorted(response.all("Link")) == announced
    assert SECRET not in f"{response.headers}{response.body!r}"


def check_released(server: Server) -> None:
    """Check that the requests have left nothing open; the storage is released before the response is sent."""
    log = server.written()
    assert find_unreleased(log) == []
    assert SECRET not in log
    eventually(lambda: not server.open_spools())


@pytest.mark.parametrize(
    ("ask", "failure"),
    [("direct", failure) for failure in FAILURES] + [(way, "broken-pipe") for way in WAYS[1:]],
    indirect=["ask"],
)
def test_a_storage_failure_is_the_same_clean_error_at_every_stage(
    server: Server, ask: SendRequest, failure: str
) -> None:
    code, kind = FAILURES[failure]
    before = count_logged(server, code, kind)
    responses = [ask(f"{failure}-at-{stage}", LIST) for stage in STAGES]
    for response in responses:
        check_error(response, code)
    assert len({response.body for response in responses}) == 1
    assert count_logged(server, code, kind) - before == len(STAGES)
    check_released(server)
    assert ask("whole", LIST).body == WHOLE


def count_logged(server: Server, code: str, kind: str) -> int:
    """Return how often the library has logged an exception of the storage with this code."""
    return len(re.findall(rf"^flask_notifications ERROR {code}\b.*\b{kind} \(", server.written(), re.MULTILINE))


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_a_storage_failure_is_the_same_clean_error_through_every_entry_point(server: Server, entry_point: str) -> None:
    target = f"{ENTRY_POINTS[entry_point]}{LIST}"
    for stage in STAGES:
        response = fetch(server.port, f"broken-pipe-at-{stage}", target)
        check_error(response, "storage_error", f"{target}CurrentUser")
    check_released(server)


def test_a_storage_failure_while_reading_an_account_is_a_clean_error(server: Server) -> None:
    for stage in STAGES[1:]:
        response = fetch(server.port, "user-1", f"{ACCOUNT}/unavailable-at-{stage}/", method="POST")
        check_error(response, "storage_unavailable", f"{LIST}Account")
    check_released(server)


@pytest.mark.parametrize("index", ["0", f"{COUNT - 1}"])
@pytest.mark.parametrize("record", INVALID_RECORDS)
def test_an_invalid_record_is_a_clean_error_and_its_index_is_in_the_log(
    server: Server, record: str, index: str
) -> None:
    line = f"flask_notifications ERROR unserialisable_record at record {index}: "
    before = server.written().count(line)
    check_error(fetch(server.port, f"{record}-at-{index}", LIST), "unserialisable_record")
    assert server.written().count(line) == before + 1
    check_released(server)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        pytest.param("nothing", "storage_error", id="nothing"),
        pytest.param("number", "storage_error", id="number"),
        pytest.param("string", "unserialisable_record", id="string"),
    ],
)
def test_a_result_that_is_not_a_sequence_of_records_is_a_clean_error(server: Server, value: str, code: str) -> None:
    check_error(fetch(server.port, f"{value}-at-call", LIST), code)


@EVERY_WAY
def test_nan_becomes_null(ask: SendRequest) -> None:
    records = ask("not-a-number-at-21", LIST).json
    assert (len(records), records[21]) == (COUNT, {"value": None})


@EVERY_WAY
def test_records_that_fail_when_they_are_closed_are_sent_completely(server: Server, ask: SendRequest) -> None:
    """The array is complete by then; the failure is logged once."""
    before = count_logged(server, "storage_error", "OSError")
    response = ask("oserror-at-close", LIST)
    assert (response.code, response.body) == (200, WHOLE)
    assert count_logged(server, "storage_error", "OSError") == before + 1
    eventually(lambda: not server.open_spools())
    assert find_unreleased(server.written()) == []


@pytest.mark.parametrize(
    ("name", "failure", "exit_code"),
    [
        pytest.param("gunicorn-sync", "exit", None, id="gunicorn-sync"),
        pytest.param("gunicorn-gthread", "exit", 3, id="gunicorn-gthread-ends-with-its-worker"),
        pytest.param("gunicorn-gthread", "interrupt", None, id="gunicorn-gthread-interrupted"),
        pytest.param("gunicorn-gevent", "exit", None, id="gunicorn-gevent"),
        pytest.param("uwsgi", "exit", 3, id="uwsgi-without-a-master-ends"),
        pytest.param("werkzeug", "exit", None, id="werkzeug"),
    ],
)
def test_an_exit_gets_no_response_from_the_library_and_leaves_nothing_open(
    name: str, failure: str, exit_code: int | None, tmp_path: Path
) -> None:
    (program,) = (each for each in FAILING if each.name == name)
    with serving(program, tmp_path) as server:
        received = server.exchange(request_of("GET", LIST, f"Authorization: Bearer {failure}-at-280"))
        # Some servers send a response of their own.
        assert received == b"" or (response_of(received).code, RECORD in received) == (500, False)
        assert find_unreleased(server.written()) == []
        if exit_code is None:
            eventually(lambda: server.is_ready() and not server.open_spools())
        else:
            assert server.exit_code() == exit_code
