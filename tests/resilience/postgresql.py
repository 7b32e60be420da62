"""A private PostgreSQL server that a test may break."""

import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.servers.process import PATIENCE, free_port
from tests.services import program_or_skip

# How to stop: after a message to each client, or without one.
FAST, IMMEDIATE = "fast", "immediate"

# The role of applications; not a superuser, because PostgreSQL reserves connections for
# those.
APPLICATION = "shop"

_CLIENTS = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


class Cluster:
    """A database cluster in a folder, on its own port.

    :param primary: the cluster of which this one is a hot standby.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_connections: int = 20,
        primary: "Cluster | None" = None,
    ) -> None:
        self.port = free_port()
        self._folder = folder
        self._user = drop_privileges(folder)
        settings = (
            f"-p {self.port} -h 127.0.0.1 -k {folder} -F -B 16MB -N {max_connections}"
        )
        self._start = ["start", f"--log={folder}/log", f"--options={settings}"]
        if primary is None:
            self._run(
                "init",
                "--options=--auth=trust --username=postgres --encoding=UTF8 --locale=C --no-sync",
            )
        else:
            command = [
                program_or_skip("pg_basebackup"),
                f"--pgdata={folder}/data",
                f"--port={primary.port}",
                "--host=127.0.0.1",
                "--username=postgres",
                "--write-recovery-conf",
                "--checkpoint=fast",
                "--no-sync",
            ]
            subprocess.run(command, check=True, **self._user)

    def _run(self, *arguments: str) -> None:
        """Run PostgreSQL's own program for clusters, which waits until the server
        accepts statements or has ended.
        """
        command = [
            program_or_skip("pg_ctl"),
            f"--pgdata={self._folder}/data",
            f"--timeout={PATIENCE}",
            *arguments,
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **self._user)

    def url(self, port: int | None = None) -> str:
        """Return the SQLAlchemy URL for applications; ``port`` is that of a proxy, if
        there is one.
        """
        return f"postgresql+psycopg://{APPLICATION}@127.0.0.1:{self.port if port is None else port}/postgres"

    def start(self) -> None:
        self._run(*self._start)

    def stop(self, mode: str = FAST) -> None:
        self._run("stop", f"--mode={mode}")

    def promote(self) -> None:
        """Make the standby the primary."""
        self._run("promote")

    @contextmanager
    def stopped(self, mode: str = FAST) -> Iterator[None]:
        """Stop the server, and start it again on exit."""
        self.stop(mode)
        try:
            yield
        finally:
            self.start()

    def connect(self, user: str = "postgres") -> "psycopg.Connection[Any]":
        """Return a connection in autocommit mode, by default as the administrator."""
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=user,
            dbname="postgres",
            autocommit=True,
        )

    def ask(self, statement: str) -> list[Any]:
        """Execute a statement as administrator, and return the first column."""
        with self.connect() as connection:
            cursor = connection.execute(statement.encode())
            return [row[0] for row in cursor] if cursor.description else []

    def busy_backends(self) -> list[int]:
        """Return the process IDs of clients with an open statement or transaction."""
        return self.ask(f"SELECT pid {_CLIENTS} AND state <> 'idle'")

    def terminate(self) -> None:
        """Terminate the connections of all clients, and wait until they have ended."""
        self.ask(f"SELECT pg_terminate_backend(pid, {PATIENCE * 1000}) {_CLIENTS}")


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


@contextmanager
def standby_of(primary: Cluster) -> Iterator[Cluster]:
    """Start a hot standby of a cluster, and yield it."""
    with tempfile.TemporaryDirectory(prefix="postgresql-") as folder:
        standby = Cluster(Path(folder), primary=primary)
        try:
            standby.start()
            yield standby
        finally:
            standby.stop(IMMEDIATE)


def drop_privileges(folder: Path) -> dict[str, Any]:
    """Return the options that run a process as the folder's new owner, because some
    servers refuse to run as root.
    """
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
