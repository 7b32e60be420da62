"""A MariaDB Galera cluster that a test may break."""

import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.resilience.postgresql import drop_privileges
from tests.servers.process import eventually, free_port
from tests.services import program_or_skip, service_or_skip

PROVIDER = Path("/usr/lib/galera/libgalera_smm.so")
OPTIONS = """\
[mysqld]
datadir={data}
port={port}
bind-address=127.0.0.1
socket={data}/socket
pid-file={data}/pid
log-error={data}.log
skip-name-resolve
innodb_buffer_pool_size=32M
innodb_log_file_size=8M
innodb_autoinc_lock_mode=2
innodb_flush_log_at_trx_commit=2
binlog_format=ROW
performance_schema=OFF
wsrep_on=ON
wsrep_provider={provider}
wsrep_cluster_name=test
wsrep_cluster_address=gcomm://{members}
wsrep_node_name={name}
wsrep_node_address=127.0.0.1:{group_port}
wsrep_node_incoming_address=127.0.0.1:{port}
wsrep_sst_method=rsync
wsrep_sst_receive_address=127.0.0.1:{state_port}
wsrep_provider_options="gmcast.listen_addr=tcp://127.0.0.1:{group_port};ist.recv_addr=127.0.0.1:{increment_port};gcache.size=16M"
"""


class Node:
    """A member of a cluster, in a folder and on ports of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.port = free_port()
        self.group_port = free_port()
        self._data = folder / name
        self._options = folder / f"{name}.cnf"
        self._user = drop_privileges(folder)
        self._process: subprocess.Popen[bytes] | None = None

    def configure(self, members: str) -> None:
        content = OPTIONS.format(
            data=self._data,
            name=self._data.name,
            provider=PROVIDER,
            members=members,
            port=self.port,
            group_port=self.group_port,
            state_port=free_port(),
            increment_port=free_port(),
        )
        self._options.write_text(content, encoding="utf-8")

    def install(self) -> None:
        command = [
            program_or_skip("mariadb-install-db"),
            f"--defaults-file={self._options}",
            "--auth-root-authentication-method=normal",
            "--skip-name-resolve",
            "--skip-test-db",
        ]
        subprocess.run(command, check=True, capture_output=True, **self._user)

    def copy(self, node: "Node") -> None:
        """Begin with the data of a node, which takes less time than its installation."""
        subprocess.run(["cp", "--archive", node._data, self._data], check=True)

    def url(self, database: str = "mysql") -> str:
        return f"mysql+pymysql://root@127.0.0.1:{self.port}/{database}"

    def start(self, *options: str) -> None:
        command = [program_or_skip("mariadbd"), f"--defaults-file={self._options}"]
        self._process = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **self._user,
        )

    def wait(self) -> None:
        """Wait until the node is a member of the cluster, with all data."""
        eventually(self._is_synced)

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self.kill()

    def ask(self, statement: str) -> str:
        """Execute a statement, and return the last column of its only row, if any."""
        command = [
            program_or_skip("mariadb"),
            "--no-defaults",
            "--host=127.0.0.1",
            f"--port={self.port}",
            "--user=root",
            "--batch",
            "--skip-column-names",
            f"--execute={statement}",
        ]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.rstrip("\n").rpartition("\t")[2]

    def _is_synced(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "a node has ended"
        try:
            return self.ask("SHOW STATUS LIKE 'wsrep_local_state_comment'") == "Synced"
        except subprocess.CalledProcessError:  # it does not answer yet
            return False


@contextmanager
def galera() -> Iterator[list[Node]]:
    """Start a cluster of three nodes in a temporary folder, and yield them."""
    service_or_skip("galera-4", PROVIDER.exists())
    program_or_skip("rsync")
    # Not below pytest's folder, which only its own user may enter.
    with tempfile.TemporaryDirectory(prefix="galera-") as folder:
        nodes = [Node(Path(folder), name) for name in ("a", "b", "c")]
        members = ",".join(f"127.0.0.1:{node.group_port}" for node in nodes)
        try:
            first, *others = nodes
            for node in nodes:
                node.configure(members)
            first.install()
            for node in others:
                node.copy(first)
            first.start("--wsrep-new-cluster")
            first.wait()
            for node in others:
                node.start()
            for node in others:
                node.wait()
            first.ask("CREATE DATABASE shop")
            yield nodes
        finally:
            for node in nodes:
                node.stop()
