"""The checks of `make soak`, and a short soak in which the guarantees are kept until one is violated."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.resilience.database_app import session_of
from tests.servers.process import PATIENCE, ROOT, Server, eventually
from tests.services import service_or_skip
from tests.soak.__main__ import main, report
from tests.soak.disturbances import FULL, INTERRUPTED, NOTHING, UNAVAILABLE, Stage
from tests.soak.judge import (
    CUT,
    GATEWAY,
    LOST,
    SPOOL,
    STORAGE,
    UNMATCHED,
    WHOLE,
    Broken,
    Request,
    find_growth,
    find_leaks,
    situation_of,
)
from tests.soak.rounds import soak, staged
from tests.soak.traffic import REQUESTS

pytestmark = pytest.mark.slow

NAMED = {request.name: request for request in REQUESTS}
ALICE, HEAD, LARGE = NAMED["alice, by query"], NAMED["alice, HEAD"], NAMED["large, by header"]
REFUSED, ELSEWHERE = NAMED["two sessions"], NAMED["elsewhere"]
SHORT = ALICE.body[: ALICE.body.index(b",{")] + b"]"

NOT_FOUND, UNAVAILABLE_NOW = "404 Not Found", "503 Service Unavailable"
PROBLEM = {"Content-Type": ["application/problem+json"]}
LATER = PROBLEM | {"Retry-After": ["30"]}
DOWN = b'{"code":"storage_unavailable"}'


def response(request: Request, body: bytes, status: str = "200 OK", /, **others: list[str]) -> bytes:
    """Return a response with the announced headers, some of which may be replaced, and others."""
    headers = request.announces | {"Content-Length": [str(len(body))]} | others
    lines = [f"{name}: {value}" for name, values in headers.items() for value in values]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


@pytest.mark.parametrize(
    ("request_", "received", "situation"),
    [
        pytest.param(ALICE, response(ALICE, ALICE.body), WHOLE, id="whole"),
        pytest.param(ALICE, response(ALICE, ALICE.body)[:-1], CUT, id="cut"),
        pytest.param(ALICE, response(ALICE, ALICE.body)[:50], LOST, id="cut in its headers"),
        pytest.param(ALICE, b"", LOST, id="nothing"),
        pytest.param(ALICE, b"HTTP/1.1 502 Bad Gateway\r\n\r\n", GATEWAY, id="from a proxy"),
        pytest.param(ALICE, response(ALICE, DOWN, UNAVAILABLE_NOW, **LATER), STORAGE, id="failed"),
        pytest.param(ALICE, response(ALICE, DOWN, UNAVAILABLE_NOW, **LATER)[:-1], CUT, id="failed and cut"),
        pytest.param(HEAD, response(HEAD, b"", **{"Content-Length": [str(len(HEAD.body))]}), WHOLE, id="HEAD"),
        pytest.param(HEAD, response(HEAD, b"", UNAVAILABLE_NOW, **LATER), STORAGE, id="HEAD failed"),
        pytest.param(HEAD, response(HEAD, b"", UNAVAILABLE_NOW, **PROBLEM), SPOOL, id="HEAD without space"),
        pytest.param(ELSEWHERE, response(ELSEWHERE, b"no", NOT_FOUND), UNMATCHED, id="unmatched"),
    ],
)
def test_a_permitted_response_is_classified(request_: Request, received: bytes, situation: str) -> None:
    assert situation_of(request_, received) == situation


@pytest.mark.parametrize(
    ("request_", "received", "reason"),
    [
        pytest.param(ALICE, response(ALICE, SHORT), "not all of it", id="a short array"),
        pytest.param(ALICE, response(ALICE, ALICE.body[:-9]), "not all of it", id="an array without its end"),
        pytest.param(
            ALICE,
            response(ALICE, SHORT, **{"Content-Length": ["9999"]}),
            "not what is stored",
            id="a short array that is cut",
        ),
        pytest.param(ALICE, response(ALICE, b"[]"), "not all of it", id="an empty array"),
        pytest.param(ALICE, response(ALICE, ALICE.body + b" "), "not what is stored", id="an array and a byte"),
        pytest.param(ALICE, response(ALICE, NAMED["bob, by query"].body), "another caller's rows", id="foreign rows"),
        pytest.param(
            ALICE, response(ALICE, NAMED["bob, by query"].body)[:-9], "another caller's rows", id="foreign rows, cut"
        ),
        pytest.param(REFUSED, response(REFUSED, ALICE.body), "who may have none", id="an array for a refused caller"),
        pytest.param(ALICE, response(ALICE, b"[]", UNAVAILABLE_NOW, **LATER), "with an array", id="a failed array"),
        pytest.param(
            ALICE, response(ALICE, ALICE.body, **{"Content-Length": []}), "Content-Length is", id="without a length"
        ),
        pytest.param(
            ALICE, response(ALICE, ALICE.body, **{"Content-Length": ["9"]}), "more than", id="longer than it says"
        ),
        pytest.param(HEAD, response(HEAD, b""), "another Content-Length", id="HEAD unlike GET"),
        pytest.param(HEAD, response(HEAD, HEAD.body), "more than", id="HEAD with a body"),
        *[
            pytest.param(ALICE, response(ALICE, ALICE.body, **{name: []}), f"{name} is", id=f"without {name}")
            for name in ALICE.announces
        ],
        pytest.param(
            ALICE, response(ALICE, ALICE.body, Sunset=["soon"]), "Sunset is", id="announced in another way"
        ),
        pytest.param(
            ELSEWHERE, response(ELSEWHERE, b"", NOT_FOUND, Sunset=["soon"]), "Sunset is", id="announced elsewhere"
        ),
        pytest.param(ALICE, response(ALICE, b"oh", "500 Oh"), "unexpected 500", id="the server's own 500"),
        pytest.param(
            ALICE, response(ALICE, b'{"code":"storage_error"}', "500 Oh", **PROBLEM), "unexpected 500", id="our own 500"
        ),
        pytest.param(ALICE, response(ALICE, DOWN, UNAVAILABLE_NOW, **PROBLEM), "come back", id="no Retry-After"),
        pytest.param(ALICE, response(ALICE, DOWN, NOT_FOUND, **LATER), "does not go with", id="another status"),
    ],
)  # fmt: skip
def test_a_response_that_no_failure_excuses_is_refused(request_: Request, received: bytes, reason: str) -> None:
    with pytest.raises(Broken, match=reason):
        situation_of(request_, received)


@pytest.mark.parametrize(
    ("request_", "situation", "permitted", "admitted"),
    [
        pytest.param(ALICE, WHOLE, UNAVAILABLE, True, id="right in spite of a failure"),
        pytest.param(ALICE, STORAGE, UNAVAILABLE, True, id="failed with its database"),
        pytest.param(ALICE, STORAGE, NOTHING, False, id="failed for no reason"),
        pytest.param(ALICE, STORAGE, INTERRUPTED, False, id="failed for another reason"),
        pytest.param(ALICE, CUT, INTERRUPTED, True, id="cut with its worker"),
        pytest.param(ALICE, CUT, UNAVAILABLE, False, id="cut by a database"),
        pytest.param(ALICE, GATEWAY, NOTHING, False, id="lost between the proxy and the server"),
        pytest.param(LARGE, SPOOL, FULL, True, id="large and without space"),
        pytest.param(ALICE, SPOOL, FULL, False, id="small and without space"),
        pytest.param(REFUSED, STORAGE, UNAVAILABLE, False, id="needs no database and failed with it"),
        pytest.param(ALICE, "session_invalid", UNAVAILABLE, False, id="refused"),
    ],
)
def test_a_failure_excuses_its_own_consequences_only(
    request_: Request, situation: str, permitted: frozenset[str], admitted: bool
) -> None:
    assert request_.admits(situation, permitted) == admitted


TRACEBACK = """Traceback (most recent call last):
  File "/usr/lib/python3/site-packages/flask/app.py", line 1, in wsgi_app
    response = self.full_dispatch_request()
  File "/srv/flask_notifications/service.py", line 2, in _respond
    caller = self._storage.resolve_session(session.value)
KeyError
"""


@pytest.mark.parametrize(
    ("log", "complaint"),
    [
        pytest.param(f"GET /?sessionId={session_of('alice')}", "a session ID in the log", id="session ID"),
        pytest.param("ERROR SELECT document FROM", "a statement in the log", id="statement"),
        pytest.param("ERROR tttttt", "what is stored in the log", id="record"),
        pytest.param(f"INFO\n{TRACEBACK}INFO", "a traceback through the library in the log", id="traceback"),
    ],
)
def test_a_log_with_private_data_is_reported(log: str, complaint: str) -> None:
    (found,) = find_leaks(log)
    assert found.startswith(complaint)


def test_a_log_without_private_data_is_not_reported() -> None:
    elsewhere = TRACEBACK.replace("flask_notifications", "flask")
    assert list(find_leaks(f"{elsewhere}ERROR storage_unavailable: /srv/flask_notifications/sql.py")) == []


@pytest.mark.parametrize(
    ("samples", "complaints"),
    [
        pytest.param([60, 62, 70, 80, 90, 91], ["a worker grew from 61.0 to 90.5 MiB"], id="growing"),
        pytest.param([60, 66, 61, 66, 60, 66], [], id="flat"),
        pytest.param([60, 60, 60, 99, 60, 60], [], id="for a moment"),
        pytest.param([90, 90, 70, 70, 60, 60], [], id="shrinking"),
        pytest.param([60, 99, 99], [], id="too few samples"),
    ],
)
def test_a_worker_that_keeps_growing_is_reported(samples: list[float], complaints: list[str]) -> None:
    assert list(find_growth(samples, "MiB")) == complaints


def test_a_missing_program_is_reported_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["soak", "1"])
    monkeypatch.setattr(signal, "signal", lambda _number, _handler: None)
    monkeypatch.setattr("tests.soak.__main__.staged", lambda _worker: service_or_skip("nginx", False))
    monkeypatch.delenv("REQUIRE_SERVICES", raising=False)
    with pytest.raises(SystemExit, match=r"^nginx is missing\. On Debian: apt-get install nginx-light postgresql$"):
        main()


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with staged() as stage:
        yield stage


def test_a_short_soak_finds_every_guarantee_kept(stage: Stage) -> None:
    history = soak(stage, 15, seed=3)
    assert history.broken == []
    assert history.healing
    assert sum(count for (_name, situation), count in history.outcomes.items() if situation == WHOLE) > 50
    assert list(report(history))[-1].endswith("broken promises: 0")


def test_a_violated_guarantee_is_reported(stage: Stage) -> None:
    stage.cluster.ask("UPDATE sessions SET login = 'alice' WHERE id LIKE 'bob%'")
    try:
        history = soak(stage, 1, seed=3)
    finally:
        stage.cluster.ask("UPDATE sessions SET login = 'bob' WHERE id LIKE 'bob%'")
    assert any("another caller's rows: {b'alice'}" in reason for reason in history.broken)
    assert list(report(history))[-1].endswith(f"broken promises: {len(history.broken)}")


@pytest.mark.usefixtures("stage")
def test_a_soak_that_is_stopped_leaves_no_process_running(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-m", "tests.soak", "600"], cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        started = Server(process, tmp_path).workers
        try:
            eventually(lambda: "nginx" in map(name_of, started()))
            processes = started()
        finally:
            stop(process)
    assert process.returncode == 130
    eventually(lambda: not any(map(name_of, processes)))


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Terminate a process; repeat the signal, because Python may lose it while a callback runs."""
    for _attempt in range(3):
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
            return
    process.kill()


def name_of(process: int) -> str:
    """Return the name of a process, or an empty string if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text(encoding="ascii").strip()
    return ""
