"""The record of usage and a storage on a MariaDB Galera cluster whose nodes are killed."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine

from flask_notifications import NotificationApp
from flask_notifications.usage import StoreUnavailable, read_usage
from tests.clusters.galera import Node, galera
from tests.drivers.drivers import create_tables, storage_on
from tests.servers.process import ROOT, eventually
from tests.storages import CURRENT_USER
from tests.usage.databases import now, record, record_call
from tests.wsgi import call

# PyMySQL leaves lost connections to the garbage collector, which warns about them.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)

# Sees what other nodes have committed.
CURRENT = "?init_command=SET%20SESSION%20wsrep_sync_wait%3D1"


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[Node]]:
    with galera() as nodes:
        yield nodes


@pytest.fixture
def databases(nodes: list[Node], request: pytest.FixtureRequest) -> list[str]:
    """Return the URL of a new database on each node."""
    name = request.node.name
    nodes[0].ask(f"CREATE DATABASE {name}")
    return [node.url(name) for node in nodes]


def count_calls(database: str) -> int:
    return sum(usage.answered for usage in read_usage(database + CURRENT).operations)


def test_every_node_has_the_calls_of_all(databases: list[str]) -> None:
    processes = []
    for database in databases * 2:
        command = [sys.executable, "-m", "tests.clusters.recording", database, "100"]
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)
        processes.append(process)
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert [count_calls(database) for database in databases] == [600] * 3


def test_a_report_from_another_node_is_current(databases: list[str]) -> None:
    recorder = record(databases[0])
    for number in range(1, 21):
        recorder(now())
        assert recorder.flush()
        assert count_calls(databases[number % 3]) == number
    recorder.close()


def test_calls_wait_for_a_node_that_is_killed(
    nodes: list[Node], databases: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    recorder = record_call(databases[2])
    nodes[2].kill()
    recorder(now())
    assert not recorder.flush()
    nodes[2].start()
    nodes[2].wait()
    eventually(recorder.flush)
    recorder.close()
    assert count_calls(databases[0]) == 2
    assert len(caplog.messages) == 1


def test_nothing_hangs_without_a_quorum(
    nodes: list[Node], databases: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    node, database = nodes[0], databases[0]
    engine = create_engine(database)
    create_tables(engine)
    app = NotificationApp(storage_on(engine))
    recorder = record_call(database)
    for killed in nodes[1:]:
        killed.kill()
    eventually(lambda: not is_ready(node))
    recorder(now())
    assert not recorder.flush()
    assert len(caplog.messages) == 1
    for source in (database, engine):
        with pytest.raises(StoreUnavailable):
            read_usage(source)
    response = call(app, "GET", CURRENT_USER, "sessionId=a1")
    assert response.code == 503
    assert response.one("Retry-After") == "30"
    node.ask("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=1'")
    eventually(recorder.flush)
    recorder.close()
    assert count_calls(database) == 2
    assert call(app, "GET", CURRENT_USER, "sessionId=a1").code == 200
    engine.dispose()


def is_ready(node: Node) -> bool:
    return node.ask("SHOW STATUS LIKE 'wsrep_ready'") == "ON"
