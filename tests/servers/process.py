"""Run servers as real processes, and send them requests over real connections."""

import os
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.services import service_or_skip
from tests.wsgi import Response

ROOT = Path(__file__).parents[2]
APPLICATION = "tests.servers.app:application"

# Seconds: the time limit for everything here.
PATIENCE = 60
# Seconds until a server has ended: gunicorn gives a worker 30 that missed the signal
# because it was starting.
STOP = 40

# The documented configuration that keeps session IDs out of each server's logs.
# Gunicorn: in gunicorn.conf.py.
GUNICORN_FILTER = """
import logging
from flask_notifications import SessionLogFilter

for name in ("gunicorn.access", "gunicorn.error"):
    logging.getLogger(name).addFilter(SessionLogFilter())
"""
# uWSGI logs without Python: the format leaves out the target, and disconnects are not
# reported.
UWSGI_FORMAT = (
    "--buffer-size=65535",
    '--log-format=%(addr) - [%(ctime)] "%(method) %(proto)" %(status) %(rsize)',
    "--ignore-sigpipe",
    "--ignore-write-errors",
)


@dataclass(frozen=True, kw_only=True)
class Program:
    """A server program: the modules it needs, the function that makes its command, and
    the application it serves.

    The function takes a folder for all output and the name of the application.
    """

    name: str
    modules: tuple[str, ...]
    start: Callable[[Path, str], list[str]]
    application: str = APPLICATION


def gunicorn(
    worker: str, conf: str = GUNICORN_FILTER, application: str = APPLICATION
) -> Program:
    """Return gunicorn with a worker class, the content of its configuration file, and
    an application.

    It has the default log format, and logs messages of all levels.
    """

    def start(folder: Path, application: str) -> list[str]:
        # No control socket in the home directory, and no heartbeat file among the
        # temporary files that tests look at.
        settings = [
            "control_socket_disable = True",
            "graceful_timeout = 3",
            f"worker_tmp_dir = {str(folder)!r}",
            f"accesslog = {str(folder / 'access.log')!r}",
            f"errorlog = {str(folder / 'error.log')!r}",
            conf,
        ]
        (folder / "gunicorn.conf.py").write_text("\n".join(settings), encoding="utf-8")
        options = f"--bind=127.0.0.1:0 --worker-class={worker} --log-level=debug"
        config = f"--config={folder}/gunicorn.conf.py"
        command = [sys.executable, "-m", "gunicorn", config]
        return [*command, *options.split(), application]

    modules = ("gunicorn", "gevent") if worker == "gevent" else ("gunicorn",)
    return Program(
        name=f"gunicorn-{worker}", modules=modules, start=start, application=application
    )


def uwsgi(log_options: tuple[str, ...] = UWSGI_FORMAT) -> Program:
    """Return uWSGI with its log options."""
    command = [sys.executable, "-c", "import pyuwsgi, sys; pyuwsgi.run(sys.argv[1:])"]
    command += ["--http-socket=127.0.0.1:0", "--need-app", "--die-on-term"]
    command += [*log_options, "--module"]
    return Program(
        name="uwsgi",
        modules=("pyuwsgi",),
        start=lambda _folder, application: [*command, application],
    )


_WAITRESS = [sys.executable, "-m", "waitress", "--listen=127.0.0.1:0"]
WAITRESS = Program(
    name="waitress",
    modules=("waitress",),
    start=lambda _folder, name: [*_WAITRESS, name],
)

# Each sends a file in its own way: sync and threads of gunicorn with sendfile, its
# greenlets with a copy, uWSGI in C, and Waitress from its main thread.
PROGRAMS = [
    gunicorn("sync"),
    gunicorn("gthread"),
    gunicorn("gevent"),
    WAITRESS,
    uwsgi(),
]


def every_server(*usual: str, application: str = APPLICATION) -> list[Any]:
    """Return parameters with all servers; those whose names are not given are for `make
    test-world` only.
    """
    servers = []
    for program in PROGRAMS:
        marks = [pytest.mark.world] * (program.name not in usual)
        served = replace(program, application=application)
        servers.append(pytest.param(served, id=program.name, marks=marks))
    return servers


def program_named(name: str, application: str = APPLICATION) -> Program:
    (program,) = (program for program in PROGRAMS if program.name == name)
    return replace(program, application=application)


class Server:
    """A process that serves on a port of this machine, and writes only to one folder."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", folder: Path, port: int | None = None
    ) -> None:
        self._process = process
        self._folder = folder
        self._port = port

    @property
    def port(self) -> int:
        """Return the port, which servers on a free port of their choice report in their
        log.
        """
        if self._port is None:
            reported = re.search(r"127\.0\.0\.1:([1-9]\d*)", self.written())
            assert reported is not None, "the server has not reported its port yet"
            self._port = int(reported[1])
        return self._port

    def written(self) -> str:
        """Return everything that the server has written to standard output, standard
        error and log files.
        """
        text = ""
        for path in sorted(self._folder.glob("*.log")):
            text += path.read_text(encoding="latin-1") + "\n"
        return text

    def exchange(self, request: bytes) -> bytes:
        """Send bytes on a new connection, and return all bytes received until it is
        closed.
        """
        with socket.create_connection(
            ("127.0.0.1", self.port), timeout=PATIENCE
        ) as connection:
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(1 << 20), b""))

    def ask(
        self, method: str, target: str, *headers: str, body: bytes = b""
    ) -> Response:
        """Send a request with these headers and ``Host`` and ``Connection``, and return
        the response.
        """
        return response_of(self.exchange(request_of(method, target, *headers) + body))

    @contextmanager
    def slow_reader(self, target: str) -> Iterator[socket.socket]:
        """Send a GET request on a connection with small buffers, yield the connection,
        and reset it on exit.
        """
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            connection.settimeout(PATIENCE)
            connection.connect(("127.0.0.1", self.port))
            connection.sendall(request_of("GET", target))
            yield connection

    def open_spools(self) -> list[str]:
        """Return the paths of the temporary files that the server holds open."""
        spools = str(self._folder / "tmp")
        opened = []
        for process in self.processes():
            for link in glob(f"{process}/fd/*"):  # noqa: PTH207 - it passes over what has ended
                target = str(Path(link).resolve())
                if target.startswith(spools):
                    opened.append(target)
        return opened

    def bytes_written(self) -> int:
        """Return how many bytes the server has written to files and with sendfile;
        ``send()`` does not count.
        """
        written = 0
        for process in self.processes():
            counters = (process / "io").read_text(encoding="ascii")
            written += int(counters.partition("wchar: ")[2].split()[0])
        return written

    def processes(self) -> list[Path]:
        """Return the directories in /proc of the process and its descendants."""
        processes = [Path(f"/proc/{self._process.pid}")]
        for process in processes:
            for children in glob(f"{process}/task/*/children"):  # noqa: PTH207 - it passes over what has ended
                with suppress(OSError):  # ended since it was listed
                    for pid in Path(children).read_text(encoding="ascii").split():
                        processes.append(Path(f"/proc/{pid}"))
        return processes

    def signal(self, number: int) -> None:
        """Send a signal to the process, and to none of its descendants."""
        self._process.send_signal(number)

    def workers(self) -> list[int]:
        """Return the process IDs of the descendants of the process."""
        return [int(process.name) for process in self.processes()[1:]]

    def exit_code(self) -> int:
        """Return the exit code of the process, after its end; minus the signal that
        killed it.
        """
        return self._process.wait(PATIENCE)

    def is_ready(self) -> bool:
        """Return whether the server responds yet; raise AssertionError with its output
        if it has ended.
        """
        assert self._process.poll() is None, self.written()
        try:
            return bool(self.exchange(request_of("GET", "/ready")))
        except (AssertionError, OSError):
            return False


def peak_memory(process: Path) -> int:
    """Return the peak memory, in bytes, of a process by its directory in /proc, since
    the last reset.
    """
    status = (process / "status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@contextmanager
def serving(program: Program, folder: Path, *before: str) -> Iterator[Server]:
    """Run a server program in a folder, yield the server when it responds, and stop it
    on exit.

    ``before`` is the beginning of the command line, which may set limits for the rest.
    """
    service_or_skip("/proc", Path("/proc/self/io").exists())
    service_or_skip(program.name, all(map(find_spec, program.modules)))
    folder.mkdir(exist_ok=True)
    with running(
        [*before, *program.start(folder, program.application)], folder
    ) as server:
        yield server


def server_fixture(params: list[Any]) -> Any:
    """Return a fixture that runs each of some servers for the tests of a module."""

    @pytest.fixture(scope="module", params=params)
    def server(
        request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[Server]:
        with serving(request.param, tmp_path_factory.mktemp("server")) as server:
            yield server

    return server


@contextmanager
def running(
    command: list[str], folder: Path, port: int | None = None
) -> Iterator[Server]:
    """Run a server, yield it when it responds, and stop it on exit."""
    (folder / "tmp").mkdir(parents=True)
    environ = os.environ | {
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(folder / "tmp"),
    }
    with (
        (folder / "stdout.log").open("wb") as stdout,
        (folder / "stderr.log").open("wb") as stderr,
    ):
        process = subprocess.Popen(
            command, cwd=ROOT, env=environ, stdout=stdout, stderr=stderr
        )
    server = Server(process, folder, port)
    try:
        eventually(server.is_ready)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            pytest.fail(f"the server did not stop\n{server.written()}")


@contextmanager
def running_with(
    conf: str, command: list[str], folder: Path, **values: object
) -> Iterator[Server]:
    """Run a server on a free port with a configuration file, whose path follows the
    command; stop it on exit.

    ``conf`` is the content of the file, with the names of the values and of the port
    and the folder in braces.
    """
    folder.mkdir(exist_ok=True)
    port, file = free_port(), folder / "server.conf"
    file.write_text(conf.format(folder=folder, port=port, **values), encoding="utf-8")
    with running([*command, str(file)], folder, port) as server:
        yield server


def run_program(
    *command: str | Path, **options: Any
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end, and fail with its output unless it succeeds."""
    done = subprocess.run(
        command,
        capture_output=True,
        check=False,
        text=True,
        timeout=2 * PATIENCE,
        **options,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def free_port() -> int:
    """Return a port that is free now, for programs that cannot choose one themselves."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def eventually(condition: Callable[[], object]) -> None:
    """Poll a condition until it holds, and fail after ``PATIENCE`` seconds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{condition} did not come true"
        time.sleep(0.02)


def request_of(method: str, target: str, *headers: str) -> bytes:
    """Return the head of a request; the server closes its connection after the
    response.
    """
    head = f"{method} {target} HTTP/1.1\r\nHost: api.example\r\nConnection: close"
    return "\r\n".join([head, *headers, "", ""]).encode("latin-1")


def response_of(received: bytes) -> Response:
    """Parse the bytes of one response."""
    head, _, body = received.partition(b"\r\n\r\n")
    status_line, *lines = head.decode("latin-1").split("\r\n")
    headers = []
    for line in lines:
        name, _, value = line.partition(":")
        headers.append((name, value.strip()))
    return Response(status_line.partition(" ")[2], headers, body)
