"""The processor time of a gunicorn worker for each request over a connection."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.applications import line
from benchmarks.candidates import (
    APPLICATION,
    BLUEPRINT,
    CANDIDATES,
    DUMPED,
    FALCON,
    FLASK,
    WrongResponse,
    check,
)
from benchmarks.measuring import (
    Effort,
    Part,
    Results,
    Target,
    column,
    in_rounds,
    of_records,
)
from benchmarks.work import ANNOUNCEMENT, PATH, session_of
from tests.servers.process import Server, running
from tests.services import service_or_skip
from tests.wsgi import Response

USERS = (1, 100, 10_000)
CHARTED = of_records(100)
NAMES = (APPLICATION, BLUEPRINT, DUMPED, FALCON, FLASK)
VIEW, PLAIN, WITH_LINE = "a small Flask view", "as it is", "with the middleware"
HOOK = "with the headers in an after_request function"
LINES = {PLAIN: "plain", WITH_LINE: "line", HOOK: "hook"}

_OPTIONS = (
    "--bind=127.0.0.1:0",
    "--worker-class=gthread",
    "--workers=1",
    "--threads=4",
)
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Worker:
    """A server with one worker."""

    server: Server
    pid: int

    def ask(self, path: str, user: int) -> Response:
        """Return the whole response to a user."""
        return self.server.ask("GET", path, f"Authorization: Bearer {session_of(user)}")

    def microseconds(self, path: str, user: int) -> float:
        """Return the processor time of a request under full load for one second."""
        before = self._ticks()
        requests = self._load(path, user)
        return (self._ticks() - before) / _TICKS_PER_SECOND * 1e6 / requests

    def _load(self, path: str, user: int) -> int:
        """Send requests for a second and return how many responses there were."""
        session = f"Authorization: Bearer {session_of(user)}"
        url = f"http://127.0.0.1:{self.server.port}{path}"
        command = [
            "wrk",
            "--threads=1",
            "--connections=4",
            "--duration=1s",
            f"--header={session}",
            url,
        ]
        output = subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout
        if "Non-2xx" in output or "Socket errors" in output:
            raise WrongResponse(output)
        return int(re.findall(r"(\d+) requests in", output)[0])

    def _ticks(self) -> int:
        """Return the processor time of the worker so far, in user and in system mode
        (man 5 proc_pid_stat).
        """
        stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii")
        return sum(map(int, stat.rpartition(")")[2].split()[11:13]))


def measure(effort: Effort) -> Results:
    """Return the microseconds of a request that reads notifications."""
    service_or_skip("wrk", shutil.which("wrk") is not None)
    results: Results = {}
    for user in USERS:
        subjects = {}
        for name in NAMES:
            subjects[name] = partial(_measure_notifications, name, user)
        results |= column(of_records(user), in_rounds(subjects, effort.long_rounds))
    return results


def _measure_notifications(name: str, user: int) -> float:
    with _worker(CANDIDATES[name]) as worker:
        check(name, worker.ask(PATH, user), session_of(user))
        worker.microseconds(PATH, user)  # warms up
        return worker.microseconds(PATH, user)


def measure_line(effort: Effort) -> Results:
    """Return the microseconds of a request to a small Flask view."""
    service_or_skip("wrk", shutil.which("wrk") is not None)
    subjects = {}
    for name in LINES:
        subjects[name] = partial(_measure_line, name)
    return column(VIEW, in_rounds(subjects, effort.long_rounds))


def _measure_line(name: str) -> float:
    with _worker(f"benchmarks.applications.line:{LINES[name]}") as worker:
        response = worker.ask(line.PATH, 1)
        for header, value in ANNOUNCEMENT.items() if name != PLAIN else ():
            if response.all(header) != [value]:
                message = f"{name}: {response}"
                raise WrongResponse(message)
        worker.microseconds(line.PATH, 1)  # warms up
        return worker.microseconds(line.PATH, 1)


@contextmanager
def _worker(application: str) -> Iterator[Worker]:
    with tempfile.TemporaryDirectory() as folder:
        settings = ("control_socket_disable = True", f"worker_tmp_dir = {folder!r}")
        (Path(folder) / "gunicorn.conf.py").write_text(
            "\n".join(settings), encoding="utf-8"
        )
        files = (f"--config={folder}/gunicorn.conf.py", f"--pid={folder}/pid")
        command = [
            sys.executable,
            "-m",
            "gunicorn",
            *files,
            *_OPTIONS,
            application,
        ]
        with running(command, Path(folder)) as server:
            yield Worker(
                server, _child(int((Path(folder) / "pid").read_text(encoding="ascii")))
            )


def _child(pid: int) -> int:
    """Return the one child of a process."""
    (child,) = (
        Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    )
    return int(child)


_NOTE = (
    "Microseconds of processor time of gunicorn's worker (gthread, 4 threads) for one"
    " request, over loopback, with wrk on 4 connections: /proc/<pid>/stat divided by"
    " the requests that wrk counted. Each server is started anew for each round."
)
LINE = Part(
    "line",
    _NOTE,
    (VIEW,),
    tuple(LINES),
    measure_line,
    (Target(VIEW, WITH_LINE, 1.03, PLAIN), Target(VIEW, HOOK, 1.04, PLAIN)),
)
PART = Part(
    "servers",
    _NOTE,
    tuple(map(of_records, USERS)),
    NAMES,
    measure,
    (
        Target("N = 1", APPLICATION, 1.03, FALCON),
        Target("N = 1", BLUEPRINT, 1.0, FLASK),
        Target("N = 10,000", APPLICATION, 1.1, DUMPED),
        Target("N = 10,000", BLUEPRINT, 1.1, FLASK),
    ),
)
