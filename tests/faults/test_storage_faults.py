"""On real servers, behind real proxies: a storage that fails, anywhere, is a clean answer and leaves nothing behind."""

import gzip
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.faults.app import ACCOUNT, COUNT, DOCUMENTATION, DOORS, LIST, RECORD, SECRET, WHOLE, unreleased
from tests.servers.nginx import proxying
from tests.servers.process import (
    PATIENCE,
    PROGRAMS,
    Program,
    Server,
    answer_of,
    eventually,
    program_name,
    request_of,
    serving,
)
from tests.wsgi import Answer

Ask = Callable[[str, str], Answer]

# nginx in front, by its directives; the first is what it does when it is told nothing.
PROXIES = {
    "http-1.0-upstream": "proxy_http_version 1.0",
    "http-1.1-upstream": 'proxy_http_version 1.1; proxy_set_header Connection ""',
    "gzip": "gzip on; gzip_proxied any; gzip_types *; gzip_http_version 1.0",
}
WAYS = ["direct", "http-1.0-client", *PROXIES]
EVERY_WAY = pytest.mark.parametrize("ask", WAYS, indirect=True)

# Where the storage fails: asked for the caller, asked for records, reading the first one, one of the first, one behind
# what fits into memory, the last one, and behind the last one.
PLACES = ["session", "call", "0", "1", "21", "256", f"{COUNT - 1}", f"{COUNT}"]

# What it raises there, the code of the answer, and the kind in the log.
FAULTS = {
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

# What every error carries.
GUARDS = {
    "Content-Type": "application/problem+json",
    "Cache-Control": "no-store",
    "Vary": "Authorization",
    "X-Content-Type-Options": "nosniff",
    "Deprecation": "@1767225600",
}

# What is no record.
RECORDS = [
    "nothing",
    "number",
    "text",
    "array",
    "half-an-object",
    "decimal",
    "large-integer",
    "lone-surrogate",
    "key-that-is-no-text",
    "deep",
]


FAULTY = [replace(program, application="tests.faults.app:application") for program in PROGRAMS]


@pytest.fixture(scope="module", params=FAULTY, ids=program_name)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    program: Program = request.param
    with serving(program, tmp_path_factory.mktemp(program.name)) as lent:
        yield lent


@pytest.fixture(scope="module")
def proxies(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(proxying(site, server.port, tmp_path_factory.mktemp(name)))
            for name, site in PROXIES.items()
        }


@pytest.fixture
def ask(request: pytest.FixtureRequest, server: Server, proxies: dict[str, Server]) -> Ask:
    """Lend a way to ask a server for a target, as a session."""
    way: str = request.param
    if way == "http-1.0-client":
        return lambda session, target: answer_of(
            server.exchange(f"GET {target} HTTP/1.0\r\nAuthorization: Bearer {session}\r\n\r\n".encode())
        )
    port = proxies.get(way, server).port
    return lambda session, target: fetch(port, session, target, "gzip" if way == "gzip" else "identity")


def fetch(port: int, session: str, target: str, encoding: str = "identity", method: str = "GET") -> Answer:
    """Ask as a client does that understands chunks and compression, and that notices a body that is cut."""
    headers = {"Authorization": f"Bearer {session}", "Accept-Encoding": encoding, "Connection": "close"}
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request(method, target, headers=headers)
        response = connection.getresponse()
        body = response.read()
    compressed = response.getheader("Content-Encoding") == "gzip"
    assert compressed == (encoding == "gzip" and response.status == 200)  # nginx leaves most errors as they are
    status = f"{response.status} {response.reason}"
    return Answer(status, response.getheaders(), gzip.decompress(body) if compressed else body)


def check_refused(answer: Answer, code: str, successor: str = f"{LIST}CurrentUser") -> None:
    """Check that an answer is one whole error, as guarded and as announced as any other answer."""
    status = STATUSES[code]
    assert (answer.code, answer.json["status"], answer.json["code"]) == (status, status, code)
    assert {name: answer.one(name) for name in GUARDS} == GUARDS
    assert answer.one("Content-Length") == str(len(answer.body))
    assert answer.all("Retry-After") == (["7"] if code == "storage_unavailable" else [])
    announced = [f'<{successor}>; rel="successor-version"', f'<{DOCUMENTATION}>; rel="deprecation"; type="text/html"']
    assert sorted(answer.all("Link")) == announced
    assert SECRET not in f"{answer.fields}{answer.body!r}"


def check_released(server: Server) -> None:
    """Check that nothing is left of the requests that have been answered; the storage was released before they were."""
    log = server.written()
    assert unreleased(log) == []
    assert SECRET not in log
    eventually(lambda: not server.open_spools())


@pytest.mark.parametrize(
    ("ask", "fault"),
    [("direct", fault) for fault in FAULTS] + [(way, "broken-pipe") for way in WAYS[1:]],
    indirect=["ask"],
)
def test_a_fault_is_the_same_clean_error_wherever_the_storage_meets_it(server: Server, ask: Ask, fault: str) -> None:
    code, kind = FAULTS[fault]
    before = logged(server, code, kind)
    answers = [ask(f"{fault}-at-{place}", LIST) for place in PLACES]
    for answer in answers:
        check_refused(answer, code)
    assert len({answer.body for answer in answers}) == 1
    assert logged(server, code, kind) - before == len(PLACES)
    check_released(server)
    assert ask("whole", LIST).body == WHOLE


def logged(server: Server, code: str, kind: str) -> int:
    """Return how often the library has logged a fault of the storage, in which nothing that it said itself may hide."""
    return len(re.findall(rf"^flask_notifications ERROR {code}\b.*\b{kind} \(", server.written(), re.MULTILINE))


@pytest.mark.parametrize("door", DOORS)
def test_a_fault_is_the_same_clean_error_behind_every_door(server: Server, door: str) -> None:
    target = f"{DOORS[door]}{LIST}"
    for place in PLACES:
        answer = fetch(server.port, f"broken-pipe-at-{place}", target)
        check_refused(answer, "storage_error", f"{target}CurrentUser")
    check_released(server)


def test_a_fault_in_reading_an_account_is_a_clean_error(server: Server) -> None:
    for place in PLACES[1:]:
        answer = fetch(server.port, "user-1", f"{ACCOUNT}/unavailable-at-{place}/", method="POST")
        check_refused(answer, "storage_unavailable", f"{LIST}Account")
    check_released(server)


@pytest.mark.parametrize("index", ["0", f"{COUNT - 1}"])
@pytest.mark.parametrize("record", RECORDS)
def test_what_is_no_record_is_a_clean_error_and_its_index_is_in_the_log(
    server: Server, record: str, index: str
) -> None:
    line = f"flask_notifications ERROR unserialisable_record at record {index}: "
    before = server.written().count(line)
    check_refused(fetch(server.port, f"{record}-at-{index}", LIST), "unserialisable_record")
    assert server.written().count(line) == before + 1
    check_released(server)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        pytest.param("nothing", "storage_error", id="nothing"),
        pytest.param("number", "storage_error", id="number"),
        pytest.param("text", "unserialisable_record", id="text"),
    ],
)
def test_what_is_no_sequence_of_records_is_a_clean_error(server: Server, value: str, code: str) -> None:
    check_refused(fetch(server.port, f"{value}-at-call", LIST), code)


@EVERY_WAY
def test_not_a_number_is_null(ask: Ask) -> None:
    records = ask("not-a-number-at-21", LIST).json
    assert (len(records), records[21]) == (COUNT, {"value": None})


@EVERY_WAY
def test_records_that_fail_when_they_are_closed_are_sent_whole(server: Server, ask: Ask) -> None:
    """The array is complete by then; the failure is logged once."""
    before = logged(server, "storage_error", "OSError")
    answer = ask("oserror-at-close", LIST)
    assert (answer.code, answer.body) == (200, WHOLE)
    assert logged(server, "storage_error", "OSError") == before + 1
    eventually(lambda: not server.open_spools())
    assert unreleased(server.written()) == []


@pytest.mark.parametrize(
    ("name", "fault", "exit_code"),
    [
        pytest.param("gunicorn-sync", "exit", None, id="gunicorn-sync"),
        pytest.param("gunicorn-gthread", "exit", 3, id="gunicorn-gthread-ends-with-its-worker"),
        pytest.param("gunicorn-gthread", "interrupt", None, id="gunicorn-gthread-interrupted"),
        pytest.param("gunicorn-gevent", "exit", None, id="gunicorn-gevent"),
        pytest.param("uwsgi", "exit", 3, id="uwsgi-without-a-master-ends"),
        pytest.param("werkzeug", "exit", None, id="werkzeug"),
    ],
)
def test_what_ends_a_process_is_no_answer_of_ours_and_leaves_nothing_behind(
    name: str, fault: str, exit_code: int | None, tmp_path: Path
) -> None:
    (program,) = (each for each in FAULTY if each.name == name)
    with serving(program, tmp_path) as server:
        received = server.exchange(request_of("GET", LIST, f"Authorization: Bearer {fault}-at-280"))
        # Some servers answer in its place.
        assert received == b"" or (answer_of(received).code, RECORD in received) == (500, False)
        assert unreleased(server.written()) == []
        if exit_code is None:
            eventually(lambda: server.answers() and not server.open_spools())
        else:
            assert server.exit_code() == exit_code
