"""What a middleware adds to a trivial application: processor time, and instructions
where valgrind is installed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from operator import sub
from pathlib import Path
from typing import NamedTuple
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug.middleware.proxy_fix import ProxyFix

from benchmarks.by_hand import Announce, MoveSession
from benchmarks.candidates import WrongResponse
from benchmarks.clients import environ_with, repeat_request
from benchmarks.measuring import (
    Effort,
    Part,
    Results,
    Target,
    column,
    time_requests,
)
from benchmarks.work import ANNOUNCEMENT, PATH, PLAN, POLICY, session_of
from flask_notifications import Brownout, DeprecationMiddleware, Operation
from flask_notifications.observers import Call
from flask_notifications.usage import UsageRecorder
from tests.wsgi import run

ADDED, INSTRUCTIONS = "added", "instructions"
NOTHING = "no middleware"
UNMATCHED, EXACT, PARAMETER = "unmatched", "exact path", "a parameter"
SUBTREE, HEAD, CASE = "a subtree", "HEAD", "another letter case"
QUERY, HEADER, CLOSED = "a condition on the query", "a condition on a header", "410"
OBSERVER, RECORDER = "exact path, an observer", "exact path, the recorder"
IN_HEADER, IN_QUERY = "a session in the header", "a session in the query"
MANY = "exact path, among 10,000 others"
BY_HAND = "by hand"
PROXY_FIX, PROXY_FIX_UNUSED = "ProxyFix with its headers", "ProxyFix without them"

ROWS = (
    *(UNMATCHED, f"{UNMATCHED}, {BY_HAND}", EXACT, f"{EXACT}, {BY_HAND}", MANY),
    *(PARAMETER, SUBTREE, HEAD, CASE, QUERY, HEADER, CLOSED, OBSERVER, RECORDER),
    *(IN_HEADER, f"{IN_HEADER}, {BY_HAND}", IN_QUERY, f"{IN_QUERY}, {BY_HAND}"),
    *(PROXY_FIX_UNUSED, PROXY_FIX),
)

OLD, SUCCESSOR = "/API/Reports", "/API/Notification/CurrentUser"
# In Flask's documentation, ProxyFix trusts these four headers.
_FORWARDED = {
    "HTTP_X_FORWARDED_FOR": "192.0.2.7",
    "HTTP_X_FORWARDED_PROTO": "https",
    "HTTP_X_FORWARDED_HOST": "example.com",
    "HTTP_X_FORWARDED_PREFIX": "/shop",
}
# Requests in a process under callgrind; the difference is what a request executes.
_FEW, _MANY = 20, 120


class Scenario(NamedTuple):
    """An application, the request that it gets, and whether it is announced."""

    app: WSGIApplication
    environ: WSGIEnvironment
    is_matched: bool = True


def trivial(
    _environ: WSGIEnvironment, start_response: StartResponse
) -> Iterable[bytes]:
    """Send the smallest response that is JSON."""
    start_response(
        "200 OK", [("Content-Type", "application/json"), ("Content-Length", "2")]
    )
    return [b"[]"]


def ignore(_call: Call) -> None:
    """Observe nothing."""


def wrap(
    path: str,
    *,
    query: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
    others: int = 0,
    observers: Iterable[Callable[[Call], object]] = (),
) -> DeprecationMiddleware:
    """Return the middleware for one operation, and others that no request matches."""
    operation = Operation(
        "old", "GET", path, successor=SUCCESSOR, query=query, headers=headers
    )
    plan = {operation: POLICY}
    for number in range(others):
        plan[Operation(f"{number}", "GET", f"/API/V{number}/**")] = POLICY
    return DeprecationMiddleware(trivial, plan, observers=tuple(observers))


def make_scenarios(recorder: UsageRecorder) -> dict[str, Scenario]:
    """Return what is measured, in the order of the table."""
    session = session_of(1)
    query = f"sessionId={session}"
    in_query = environ_with(QUERY_STRING=query, RAW_URI=f"{PATH}?{query}")
    in_header = environ_with(session)
    exact = environ_with(path=OLD)
    below = environ_with(path=f"{OLD}/17")
    other = environ_with(path="/API/Invoices/17")
    closed = Brownout(POLICY.deprecated_at, POLICY.sunset_at or POLICY.deprecated_at)
    plan = dict.fromkeys(
        wrap(OLD).plan, type(POLICY)(deprecated_at=closed.start, brownouts=[closed])
    )
    proxy_fix = ProxyFix(trivial, x_for=1, x_proto=1, x_host=1, x_prefix=1)
    return {
        NOTHING: Scenario(trivial, other, is_matched=False),
        UNMATCHED: Scenario(wrap(OLD), other, is_matched=False),
        f"{UNMATCHED}, {BY_HAND}": Scenario(
            Announce(trivial, OLD), other, is_matched=False
        ),
        EXACT: Scenario(wrap(OLD), exact),
        f"{EXACT}, {BY_HAND}": Scenario(Announce(trivial, OLD), exact),
        MANY: Scenario(wrap(OLD, others=10_000), exact),
        PARAMETER: Scenario(wrap(f"{OLD}/{{id}}"), below),
        SUBTREE: Scenario(wrap(f"{OLD}/**"), below),
        HEAD: Scenario(wrap(OLD), exact | {"REQUEST_METHOD": "HEAD"}),
        CASE: Scenario(wrap(OLD), exact | {"PATH_INFO": OLD.lower()}),
        QUERY: Scenario(
            wrap(OLD, query={"version": "1"}), exact | {"QUERY_STRING": "version=1"}
        ),
        HEADER: Scenario(
            wrap(OLD, headers={"API-Version": "1"}), exact | {"HTTP_API_VERSION": "1"}
        ),
        CLOSED: Scenario(DeprecationMiddleware(trivial, plan), exact, is_matched=False),
        OBSERVER: Scenario(wrap(OLD, observers=[ignore]), exact),
        RECORDER: Scenario(wrap(OLD, observers=[recorder]), exact),
        IN_HEADER: Scenario(DeprecationMiddleware(trivial, PLAN), in_header),
        f"{IN_HEADER}, {BY_HAND}": Scenario(MoveSession(trivial, PATH), in_header),
        IN_QUERY: Scenario(DeprecationMiddleware(trivial, PLAN), in_query),
        f"{IN_QUERY}, {BY_HAND}": Scenario(MoveSession(trivial, PATH), in_query),
        PROXY_FIX_UNUSED: Scenario(proxy_fix, other, is_matched=False),
        PROXY_FIX: Scenario(proxy_fix, other | _FORWARDED, is_matched=False),
    }


def check(name: str, scenario: Scenario) -> None:
    """Raise ``WrongResponse`` if a response is not what the scenario is about."""
    response = run(scenario.app, scenario.environ.copy())
    is_right = response.code == (410 if name == CLOSED else 200)
    for header, value in ANNOUNCEMENT.items() if scenario.is_matched else ():
        is_right = is_right and response.all(header) == [value]
    if not is_right:
        message = f"{name}: {response}"
        raise WrongResponse(message)


def measure(effort: Effort) -> Results:
    """Return what each middleware adds to a request: microseconds by round, and
    instructions.
    """
    with tempfile.TemporaryDirectory() as folder:
        recorder = UsageRecorder(f"sqlite:///{folder}/usage.sqlite3")
        scenarios = make_scenarios(recorder)
        repeats = {}
        for name, scenario in scenarios.items():
            check(name, scenario)
            repeats[name] = repeat_request(scenario.app, scenario.environ)
        times = time_requests(repeats, effort)
        recorder.close()
    bare = times.pop(NOTHING)
    results = column(
        ADDED, {name: tuple(map(sub, values, bare)) for name, values in times.items()}
    )
    if shutil.which("valgrind"):
        results |= column(INSTRUCTIONS, count_instructions())
    return results


def count_instructions() -> dict[str, tuple[float, ...]]:
    """Return the instructions that each middleware adds to a request, by callgrind."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/%p"]
        done = subprocess.run(
            [*command, sys.executable, "-m", "benchmarks.middleware", folder],
            check=True,
            capture_output=True,
            env=os.environ | {"PYTHONHASHSEED": "0"},
            text=True,
        )
        counts: dict[str, list[int]] = {}
        for name, process in re.findall(r"^(.*): (\d+)$", done.stdout, re.MULTILINE):
            profile = (Path(folder) / process).read_text(encoding="utf-8")
            total = re.findall(r"^(?:summary|totals): (\d+)", profile, re.MULTILINE)
            counts.setdefault(name, []).append(int(total[0]))
    added: dict[str, tuple[float, ...]] = {}
    few, many = counts.pop(NOTHING)
    bare = (many - few) / (_MANY - _FEW)
    for name, (few, many) in counts.items():
        added[name] = ((many - few) / (_MANY - _FEW) - bare,)
    return added


def main(folder: str) -> None:
    """Make a few and many requests of each scenario, each time in a process of its own,
    which has the warm caches of this one.
    """
    recorder = UsageRecorder(f"sqlite:///{folder}/usage.sqlite3")
    for name, scenario in make_scenarios(recorder).items():
        if name == RECORDER:  # whose thread writes at the same time
            continue
        repeat = repeat_request(scenario.app, scenario.environ)
        for number in (_FEW, _MANY):
            process = os.fork()
            if process == 0:
                repeat(_FEW)
                repeat(number)
                os._exit(0)
            os.waitpid(process, 0)
            print(f"{name}: {process}", flush=True)
    os._exit(0)


PART = Part(
    "middleware",
    "What each middleware adds to a request to a trivial application: microseconds of processor time, and"
    " instructions (callgrind).",
    (ADDED, INSTRUCTIONS),
    ROWS,
    measure,
    (
        Target(INSTRUCTIONS, UNMATCHED, 1.0, PROXY_FIX_UNUSED),
        Target(INSTRUCTIONS, EXACT, 1.7, f"{EXACT}, {BY_HAND}"),
        Target(INSTRUCTIONS, PARAMETER, 2.0, EXACT),
        Target(INSTRUCTIONS, SUBTREE, 2.0, EXACT),
        Target(INSTRUCTIONS, HEAD, 2.0, EXACT),
        Target(INSTRUCTIONS, CASE, 2.0, EXACT),
        Target(INSTRUCTIONS, QUERY, 2.5, EXACT),
        Target(INSTRUCTIONS, HEADER, 2.5, EXACT),
        Target(INSTRUCTIONS, CLOSED, 2.5, EXACT),
        Target(INSTRUCTIONS, OBSERVER, 1.5, EXACT),
        Target(ADDED, RECORDER, 1.5, EXACT),
        Target(INSTRUCTIONS, IN_HEADER, 2.0, f"{IN_HEADER}, {BY_HAND}"),
        Target(INSTRUCTIONS, IN_QUERY, 1.8, f"{IN_QUERY}, {BY_HAND}"),
    ),
)

if __name__ == "__main__":
    main(sys.argv[1])
