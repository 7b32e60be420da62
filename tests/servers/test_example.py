"""The example application as `make run` serves it, with gunicorn as a real process."""

import json
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from sqlite3 import connect

import pytest

from tests.servers.process import (
    ROOT,
    Server,
    free_port,
    peak_memory,
    run_program,
    running,
)
from tests.services import program_or_skip

ALICE, BOB = (
    "a11ce000-0000-4000-8000-000000000001",
    "b0b00000-0000-4000-8000-000000000002",
)
ACCOUNT_OF_ALICE = "acc00000-0000-4000-8000-00000000000a"

COMMAND = [
    sys.executable,
    "-m",
    "gunicorn",
    "-c",
    f"{ROOT}/example_app/gunicorn.conf.py",
]
COMMAND.append("example_app.wsgi:application")

MIB = 1024 * 1024


def example(
    database_url: str, folder: Path, *options: str
) -> AbstractContextManager[Server]:
    """Run the example with a database, yield its server, and stop it on exit."""
    port = free_port()
    variables = [f"PORT={port}", f"DATABASE_URL={database_url}"]
    return running(["env", *variables, *COMMAND, *options], folder, port)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("example")
    with example(f"sqlite:///{folder}/example.sqlite3", folder) as server:
        yield server


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("POST", f"GetNotificationsForAccount/{ACCOUNT_OF_ALICE}/")],
)
def test_production_announces_what_the_plan_says(
    server: Server, method: str, path: str
) -> None:
    url = f"http://127.0.0.1:{server.port}/API/Notification/{path}"
    plan = f"--plan={ROOT}/example_app/retirement.toml"
    options = [f"--method={method}", plan, f"--header=Authorization: Bearer {ALICE}"]
    command = [sys.executable, "-m", "flask_notifications", "check", url, *options]
    result = json.loads(run_program(*command, "--format=json").stdout)
    assert (result["status"], result["final_url"], result["findings"]) == (200, url, [])


def test_the_printed_commands_work(server: Server) -> None:
    program_or_skip("curl")
    printed = re.findall("^curl .*", server.written(), re.MULTILINE)
    assert len(printed) == 6
    for line in printed:
        response = run_program(*shlex.split(line), "--silent").stdout
        assert response.startswith("HTTP/1.1 200 "), line


def test_the_access_log_is_on_standard_output_without_session_ids(
    server: Server,
) -> None:
    server.ask("GET", f"/API/Notification/?sessionId={BOB}")
    server.ask("GET", f"/nothing/here?sessionId={BOB}")
    log = server.written()
    assert '"GET /API/Notification/?sessionId=REDACTED HTTP/1.1" 200' in log
    assert '"GET /nothing/here?sessionId=REDACTED HTTP/1.1" 404' in log
    assert f"sessionId={BOB} HTTP/1.1" not in log


def test_many_records_are_sent_completely_while_memory_stays_flat(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/example.sqlite3"
    document, count = json.dumps({"name": "n" * 512}), 200_000
    insert = (
        "INSERT INTO notifications WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL "
        "SELECT n + 1 FROM s WHERE n < ?) SELECT account_id, n, ? FROM s, users WHERE login = 'bob'"
    )
    with example(url, tmp_path, "--workers=1") as server:
        with closing(connect(tmp_path / "example.sqlite3")) as database, database:
            database.execute(insert, [count, document])
        assert server.ask("GET", f"/API/Notification/?sessionId={ALICE}").code == 200
        before = max(map(peak_memory, server.processes()))
        response = server.ask("GET", f"/API/Notification/?sessionId={BOB}")
        grown = max(map(peak_memory, server.processes())) - before
    assert response.body == f"[{','.join([document] * count)}]".encode()
    assert grown < 32 * MIB < len(response.body) / 3
