"""Servers as real processes: started on a free port, asked over a real connection, stopped by their process id."""

import os
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path

import pytest

from tests.services import service_or_skip
from tests.wsgi import Answer

ROOT = Path(__file__).parents[2]
APPLICATION = "tests.servers.app:application"

# Seconds: how long anything here may take before it counts as broken.
PATIENCE = 20

# How each server is configured so that no session ID reaches its logs, as documented. Gunicorn: in gunicorn.conf.py.
GUNICORN_FILTER = """
import logging
from flask_notifications import SessionLogFilter

for name in ("gunicorn.access", "gunicorn.error"):
    logging.getLogger(name).addFilter(SessionLogFilter())
"""
# Werkzeug: one line before it runs.
WERKZEUG = """
import logging
from flask_notifications import SessionLogFilter
from {module} import application
from werkzeug.serving import run_simple

logging.getLogger("werkzeug").addFilter(SessionLogFilter())
run_simple("127.0.0.1", 0, application, threaded=True)
"""
# uWSGI logs from memory of its own. Either the format leaves out the target, and no client that leaves is reported ...
UWSGI_FORMAT = (
    "--buffer-size=65535",
    '--log-format=%(addr) - [%(ctime)] "%(method) %(proto)" %(status) %(rsize)',
    "--ignore-sigpipe",
    "--ignore-write-errors",
)
# ... or the process that collects the log drops each line with a session pair, its key plain or percent-encoded. (The
# dots stand for percent signs, which uWSGI would expand in a configuration file.)
UWSGI_DRAIN = (
    "--master",
    "--log-drain=(?i)[?&;#](s|.[57]3)(e|.[46]5)(s|.[57]3)(s|.[57]3)(i|.[46]9)(o|.[46]f)(n|.[46]e)(i|.[46]9)(d|.[46]4)=",
)


def _gunicorn(worker: str, conf: str) -> "Start":
    """Return the start of gunicorn: the combined log format, which it has by default, and messages of all levels."""

    def start(folder: Path, application: str) -> list[str]:
        # No control socket in the home directory, and the file of the worker's heartbeat not among ours.
        settings = [
            "control_socket_disable = True",
            "graceful_timeout = 3",
            f"worker_tmp_dir = {str(folder)!r}",
            f"accesslog = {str(folder / 'access.log')!r}",
            f"errorlog = {str(folder / 'error.log')!r}",
            conf,
        ]
        (folder / "gunicorn.conf.py").write_text("\n".join(settings), encoding="utf-8")
        options = ["--bind=127.0.0.1:0", f"--worker-class={worker}", "--log-level=debug"]
        return [sys.executable, "-m", "gunicorn", f"--config={folder}/gunicorn.conf.py", *options, application]

    return start


def _waitress(_folder: Path, application: str) -> list[str]:
    return [sys.executable, "-m", "waitress", "--listen=127.0.0.1:0", application]


def _uwsgi(log_options: tuple[str, ...]) -> "Start":
    run = [sys.executable, "-c", "import pyuwsgi, sys; pyuwsgi.run(sys.argv[1:])"]
    options = ["--http-socket=127.0.0.1:0", "--need-app", "--die-on-term", *log_options]
    return lambda _folder, application: [*run, *options, f"--module={application}"]


def _werkzeug(_folder: Path, application: str) -> list[str]:
    return [sys.executable, "-c", WERKZEUG.format(module=application.removesuffix(":application"))]


# From a folder for all that a server writes, and the name of an application, to the command.
Start = Callable[[Path, str], list[str]]


@dataclass(frozen=True, kw_only=True)
class Program:
    """A server program: the modules it needs, how it is started, and what it serves."""

    name: str
    modules: tuple[str, ...]
    start: Start
    application: str = APPLICATION
    logs_targets: bool = True
    sorts_fields: bool = False

    def command(self, folder: Path) -> list[str]:
        """Return the command, given a folder for all that the server writes."""
        return self.start(folder, self.application)


def gunicorn(worker: str, conf: str = GUNICORN_FILTER) -> Program:
    """Return gunicorn with a class of workers and the text of its configuration file."""
    modules = ("gunicorn", "gevent") if worker == "gevent" else ("gunicorn",)
    return Program(name=f"gunicorn-{worker}", modules=modules, start=_gunicorn(worker, conf))


def uwsgi(log_options: tuple[str, ...] = UWSGI_FORMAT) -> Program:
    """Return uWSGI with its options about the log."""
    return Program(name="uwsgi", modules=("pyuwsgi",), start=_uwsgi(log_options), logs_targets=False)


PROGRAMS = [
    gunicorn("sync"),
    gunicorn("gthread"),
    gunicorn("gevent"),
    Program(name="waitress", modules=("waitress",), start=_waitress, logs_targets=False, sorts_fields=True),
    uwsgi(),
    Program(name="werkzeug", modules=("werkzeug",), start=_werkzeug),
]
program_name = attrgetter("name")


class Server:
    """A process that serves on a port of this machine; all that it writes is in one folder."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: Path, port: int | None = None) -> None:
        self._process = process
        self._folder = folder
        self._port = port

    @property
    def port(self) -> int:
        """Return the port, which servers that were asked for any free one tell in their log."""
        if self._port is None:
            told = re.search(r"127\.0\.0\.1:([1-9]\d*)", self.written())
            assert told is not None, "the server has not told its port yet"
            self._port = int(told[1])
        return self._port

    def written(self) -> str:
        """Return all that the server wrote: standard output, standard error and every log file."""
        return "\n".join(path.read_text(encoding="latin-1") for path in sorted(self._folder.glob("*.log")))

    def exchange(self, request: bytes) -> bytes:
        """Send bytes on a connection of their own and return all that comes back before it is closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(1 << 20), b""))

    def ask(self, method: str, target: str, *fields: str, body: bytes = b"") -> Answer:
        """Send a request with just these fields, and the two that every request needs here."""
        return answer_of(self.exchange(request_of(method, target, *fields) + body))

    @contextmanager
    def slow_reader(self, target: str) -> Iterator[socket.socket]:
        """Lend a connection, with small buffers, on which something has been asked for; it ends with a reset."""
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.settimeout(PATIENCE)
            connection.connect(("127.0.0.1", self.port))
            connection.sendall(request_of("GET", target))
            yield connection

    def open_spools(self) -> list[str]:
        """Return the temporary files that the server holds open."""
        spools = str(self._folder / "tmp")
        links = (link for process in self._processes() for link in _listed(process, "fd/*"))
        return [target for target in map(_target, links) if target.startswith(spools)]

    def bytes_written(self) -> int:
        """Return how many bytes the server has written to files and through sendfile; ``send()`` does not count."""
        counters = "".join((process / "io").read_text(encoding="ascii") for process in self._processes())
        return sum(map(int, re.findall(r"^wchar: (\d+)$", counters, re.MULTILINE)))

    def _processes(self) -> list[Path]:
        """Return the directories in /proc of the process and its descendants."""
        found = [Path(f"/proc/{self._process.pid}")]
        for process in found:
            for children in _listed(process, "task/*/children"):
                with suppress(OSError):  # ended since it was listed
                    found.extend(Path(f"/proc/{pid}") for pid in children.read_text(encoding="ascii").split())
        return found

    def signal(self, number: int) -> None:
        """Send a signal to the process, and to none of its descendants."""
        self._process.send_signal(number)

    def workers(self) -> list[int]:
        """Return the process IDs of the descendants of the process."""
        return [int(process.name) for process in self._processes()[1:]]

    def exit_code(self) -> int:
        """Return the exit code of the process, after its end; minus the signal that killed it."""
        return self._process.wait(PATIENCE)

    def answers(self) -> bool:
        """Tell whether the server answers yet; raise what it wrote when it is no longer there."""
        assert self._process.poll() is None, self.written()
        try:
            return bool(self.exchange(request_of("GET", "/ready")))
        except (AssertionError, OSError):
            return False


def _listed(process: Path, pattern: str) -> list[Path]:
    """Return what there is of a process in /proc; nothing, when it has ended."""
    with suppress(OSError):
        return list(process.glob(pattern))
    return []


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # closed since it was listed, or its process has ended
        return ""


@contextmanager
def serving(program: Program, folder: Path, *before: str) -> Iterator[Server]:
    """Run a server program, in a folder of its own, until it is no longer needed.

    ``before`` is a command that runs the one behind it: under limits, say.
    """
    service_or_skip("/proc", Path("/proc/self/io").exists())
    service_or_skip(program.name, all(map(find_spec, program.modules)))
    with running([*before, *program.command(folder)], folder) as server:
        yield server


@contextmanager
def running(command: list[str], folder: Path, port: int | None = None) -> Iterator[Server]:
    """Run a server until it is no longer needed; it has answered once before it is lent."""
    (folder / "tmp").mkdir()
    environ = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "TMPDIR": str(folder / "tmp")}
    with (folder / "stdout.log").open("wb") as stdout, (folder / "stderr.log").open("wb") as stderr:
        process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=stdout, stderr=stderr)
    server = Server(process, folder, port)
    try:
        eventually(server.answers)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            pytest.fail(f"the server did not stop\n{server.written()}")


def free_port() -> int:
    """Return a port that is free now, for a program that cannot be told to take any."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def eventually(condition: Callable[[], object]) -> None:
    """Poll a condition until it holds, and fail when it does not within our patience."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{condition} did not come true"
        time.sleep(0.02)


def request_of(method: str, target: str, *fields: str) -> bytes:
    """Return the head of a request; its connection is closed after the answer."""
    lines = [f"{method} {target} HTTP/1.1", "Host: api.example", "Connection: close", *fields]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def answer_of(received: bytes) -> Answer:
    """Take apart what was received on a connection that was closed after one answer."""
    head, _, body = received.partition(b"\r\n\r\n")
    status_line, *lines = head.decode("latin-1").split("\r\n")
    fields = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    return Answer(status_line.partition(" ")[2], fields, body)
