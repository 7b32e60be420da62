"""A private PostgreSQL server that a test may break."""

import os
import pwd
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.servers.process import PATIENCE, eventually, free_port
from tests.services import program_or_skip

# How to stop: after a message to each client, or without one.
FAST, IMMEDIATE = signal.SIGINT, signal.SIGQUIT

# The role of applications; not a superuser, because PostgreSQL reserves connections for those.
APPLICATION = "shop"

_CLIENTS = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


class Cluster:
    """A database cluster in a folder, on its own port."""

    def __init__(self, folder: Path, *, max_connections: int) -> None:
        self.port = free_port()
        self._folder = folder
        self._user = _drop_privileges(folder)
        settings = {"listen_addresses": "127.0.0.1", "fsync": "off", "shared_buffers": "16MB"}
        settings |= {"max_connections": str(max_connections), "unix_socket_directories": str(folder)}
        options = [f"--{name}={value}" for name, value in settings.items()]
        self._command = [program_or_skip("postgres"), "-D", f"{folder}/data", "-p", str(self.port), *options]
        options = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync"]
        initdb = [program_or_skip("initdb"), *options, f"{folder}/data"]
        subprocess.run(initdb, check=True, capture_output=True, **self._user)

    def url(self, port: int | None = None) -> str:
        """Return the SQLAlchemy URL for applications; ``port`` is that of a proxy, if there is one."""
        return f"postgresql+psycopg://{APPLICATION}@127.0.0.1:{self.port if port is None else port}/postgres"

    def start(self) -> None:
        """Start, and wait until the server accepts statements."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, **self._user)
        eventually(self._is_ready)

    def stop(self, mode: signal.Signals = FAST) -> None:
        """Stop, and wait until the process has ended."""
        self._process.send_signal(mode)
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()

    @contextmanager
    def stopped(self, mode: signal.Signals = FAST) -> Iterator[None]:
        """Stop the server, and start it again on exit."""
        self.stop(mode)
        try:
            yield
        finally:
            self.start()

    def connect(self, user: str = "postgres") -> "psycopg.Connection[Any]":
        """Return a connection in autocommit mode, by default as the administrator."""
        return psycopg.connect(host="127.0.0.1", port=self.port, user=user, dbname="postgres", autocommit=True)

    def ask(self, statement: str) -> list[Any]:
        """Execute a statement as administrator, and return the first column."""
        with self.connect() as connection:
            cursor = connection.execute(statement.encode())
            return [row[0] for row in cursor] if cursor.description else []

    def busy_backends(self) -> list[int]:
        """Return the process IDs of clients with an open statement or transaction."""
        return self.ask(f"SELECT pid {_CLIENTS} AND state <> 'idle'")

    def waiting_backends(self, event: str) -> list[int]:
        """Return the process IDs of clients that wait for an event of PostgreSQL: ``PgSleep``, ``relation``."""
        return self.ask(f"SELECT pid {_CLIENTS} AND wait_event = '{event}'")

    def terminate(self) -> None:
        """Terminate the connections of all clients, and wait until they have ended."""
        self.ask(f"SELECT pg_terminate_backend(pid, {PATIENCE * 1000}) {_CLIENTS}")

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, (self._folder / "log").read_text(encoding="utf-8")
        try:
            return self.ask("SELECT 1") == [1]
        except psycopg.OperationalError:
            return False


@contextmanager
def postgresql(*, max_connections: int = 20) -> Iterator[Cluster]:
    """Start a new cluster in a temporary folder, and yield it."""
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


def _drop_privileges(folder: Path) -> dict[str, Any]:
    """Return the options that run a process as the folder's new owner, because PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
