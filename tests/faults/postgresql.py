"""A PostgreSQL of a test's own, which may be broken without anybody else noticing."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.servers.process import PATIENCE, eventually, free_port
from tests.services import service_or_skip

# How to stop: after telling its clients, or without a word to anybody.
FAST, IMMEDIATE = signal.SIGINT, signal.SIGQUIT

# Who applications are; no superuser, for whom some connections are kept back.
APPLICATION = "shop"

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "shared_buffers": "16MB",
}
_CLIENTS = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


class Cluster:
    """A cluster in a folder, on a port of its own."""

    def __init__(self, folder: Path, *, max_connections: int) -> None:
        self.port = free_port()
        self._folder = folder
        self._user = _unprivileged(folder)
        settings = _SETTINGS | {"max_connections": max_connections, "unix_socket_directories": folder}
        options = [f"--{name}={value}" for name, value in settings.items()]
        self._command = [_program("postgres"), "-D", f"{folder}/data", "-p", str(self.port), *options]
        locale = ["--encoding=UTF8", "--locale=C"]
        initdb = [_program("initdb"), "--auth=trust", "--username=postgres", *locale, "--no-sync", f"{folder}/data"]
        subprocess.run(initdb, check=True, capture_output=True, **self._user)

    def url(self, port: int | None = None) -> str:
        """Return the SQLAlchemy URL for applications; ``port`` is that of a proxy in between."""
        return f"postgresql+psycopg://{APPLICATION}@127.0.0.1:{self.port if port is None else port}/postgres"

    def start(self) -> None:
        """Start, and wait until it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, **self._user)
        eventually(self._answers)

    def stop(self, mode: signal.Signals = FAST) -> None:
        """Stop, and wait until it is gone."""
        self._process.send_signal(mode)
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()

    @contextmanager
    def stopped(self, mode: signal.Signals = FAST) -> Iterator[None]:
        """Be down for a while."""
        self.stop(mode)
        try:
            yield
        finally:
            self.start()

    def connect(self, user: str = "postgres") -> "psycopg.Connection[Any]":
        """Return a connection, of an administrator unless told otherwise; each statement is a transaction."""
        return psycopg.connect(host="127.0.0.1", port=self.port, user=user, dbname="postgres", autocommit=True)

    def ask(self, statement: str) -> list[Any]:
        """Execute a statement as administrator, and return what is in the first column."""
        with self.connect() as connection:
            cursor = connection.execute(statement.encode())
            return [row[0] for row in cursor] if cursor.description else []

    def working(self) -> list[int]:
        """Return the processes of clients that have a statement or a transaction under way."""
        return self.ask(f"SELECT pid {_CLIENTS} AND state <> 'idle'")

    def waiting(self, event: str) -> list[int]:
        """Return the processes that wait for an event, by PostgreSQL's name for it: ``PgSleep``, ``relation``."""
        return self.ask(f"SELECT pid {_CLIENTS} AND wait_event = '{event}'")

    def terminate(self) -> None:
        """End the connections of all clients, and wait until they are gone."""
        self.ask(f"SELECT pg_terminate_backend(pid, {PATIENCE * 1000}) {_CLIENTS}")

    def _answers(self) -> bool:
        assert self._process.poll() is None, (self._folder / "log").read_text(encoding="utf-8")
        try:
            return self.ask("SELECT 1") == [1]
        except psycopg.OperationalError:
            return False


@contextmanager
def postgresql(*, max_connections: int = 20) -> Iterator[Cluster]:
    """Lend a new cluster that answers, in a folder that is removed with it."""
    service_or_skip("PostgreSQL's own programs", shutil.which("initdb", path=_search_path()) is not None)
    # Not below pytest's folder, which only its own user may enter.
    with tempfile.TemporaryDirectory(prefix="postgresql-") as folder:
        cluster = Cluster(Path(folder), max_connections=max_connections)
        try:
            cluster.start()
            cluster.ask(f"CREATE ROLE {APPLICATION} LOGIN")
            cluster.ask(f"ALTER DATABASE postgres OWNER TO {APPLICATION}")
            yield cluster
        finally:
            cluster.stop(IMMEDIATE)


def _search_path() -> str:
    """Return where programs are looked for: Debian keeps those of PostgreSQL off the PATH."""
    return os.pathsep.join([os.environ["PATH"], *map(str, Path("/usr/lib/postgresql").glob("*/bin"))])


def _program(name: str) -> str:
    return str(shutil.which(name, path=_search_path()))


def _unprivileged(folder: Path) -> dict[str, Any]:
    """Give a folder to a user who is not root, whom PostgreSQL refuses, and return how to be that user."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
