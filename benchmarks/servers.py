"""The processor time of a gunicorn worker for each request over a connection."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

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
from benchmarks.work import PATH, session_of
from tests.servers.process import Server, running
from tests.services import service_or_skip
from tests.wsgi import Response

USERS = (1, 100, 10_000)
CHARTED = of_records(100)
NAMES = (APPLICATION, BLUEPRINT, DUMPED, FALCON, FLASK)

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

    def response(self, session_id: str | None) -> Response:
        """Return the whole response."""
        return self.server.ask("GET", PATH, f"Authorization: Bearer {session_id}")

    def microseconds(self, user: int) -> float:
        """Return the processor time of a request under full load for one second."""
        before = self._ticks()
        requests = self._load(user)
        return (self._ticks() - before) / _TICKS_PER_SECOND * 1e6 / requests

    def _load(self, user: int) -> int:
        """Send requests for a second and return how many responses there were."""
        session = f"Authorization: Bearer {session_of(user)}"
        url = f"http://127.0.0.1:{self.server.port}{PATH}"
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
    """Return the microseconds of a request; all servers run all the time, and one at
    once gets requests.
    """
    service_or_skip("wrk", shutil.which("wrk") is not None)
    with ExitStack() as stack:
        workers = {name: stack.enter_context(_worker(name)) for name in NAMES}
        results: Results = {}
        for user in USERS:
            for name, worker in workers.items():
                check(name, worker.response(session_of(user)), session_of(user))
            subjects = {
                name: partial(worker.microseconds, user)
                for name, worker in workers.items()
            }
            in_rounds(subjects, 1)  # warms up
            results |= column(of_records(user), in_rounds(subjects, effort.long_rounds))
        return results


@contextmanager
def _worker(name: str) -> Iterator[Worker]:
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
            CANDIDATES[name],
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


PART = Part(
    "servers",
    "Microseconds of processor time of gunicorn's worker (gthread, 4 threads) for one request, over loopback, with "
    "wrk on 4 connections: /proc/<pid>/stat divided by the requests that wrk counted.",
    tuple(map(of_records, USERS)),
    NAMES,
    measure,
    (
        Target("N = 1", APPLICATION, 1.05, DUMPED),
        Target("N = 1", BLUEPRINT, 0.98, FLASK),
        Target("N = 10 000", APPLICATION, 1.1, DUMPED),
        Target("N = 10 000", BLUEPRINT, 1.1, FLASK),
    ),
)
