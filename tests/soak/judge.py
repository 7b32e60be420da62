"""What became of a request, of the log and of the workers, and whether that keeps the promises."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from tests.faults.database_app import SPOOL_THRESHOLD
from tests.faults.service import DOCUMENTATION
from tests.servers.process import answer_of
from tests.wsgi import Answer

# What may come of a request, besides the code of a problem: the whole array; the application's answer to what is no
# operation; the beginning of an answer; nothing; an answer of the proxy's own.
WHOLE, UNCLAIMED, CUT, LOST, GATEWAY = "whole", "unclaimed", "cut", "lost", "gateway"
STORAGE, SPOOL = "storage_unavailable", "spool_unavailable"

STATUSES = {
    "invalid_request": 400,
    "invalid_account_id": 400,
    "session_missing": 401,
    "session_invalid": 401,
    "invalid_token": 401,
    "access_denied": 403,
    "account_not_found": 404,
    STORAGE: 503,
    SPOOL: 503,
}
# Of what comes to this, the storage has been asked.
STORED = {WHOLE, "session_invalid", "access_denied", "account_not_found"}

# What no log may hold, however it came there.
UNTOLD = {
    "a session ID": r"5e55-4000",
    "a statement": r"SELECT|FROM notifications",
    "what is stored": r"tttt",
    "a traceback through the library": r"Traceback \(most recent call last\):\n(?:\s.*\n)*?\s.*flask_notifications/",
}

# Of a worker at rest: what it may have grown by, from the first third of the time to the last.
TOLERANCES = {"MiB": 8, "descriptors": 4}


class Broken(Exception):
    """A promise is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request, and what comes of it when nothing is wrong: ``body`` is the array, of ``owner`` alone."""

    name: str
    method: str = "GET"
    target: str = "/API/Notification/"
    fields: tuple[str, ...] = ()
    expected: str = WHOLE
    owner: str = ""
    body: bytes = b""

    @property
    def announces(self) -> dict[str, list[str]]:
        """The fields that every answer has, of whatever kind."""
        if self.expected == UNCLAIMED:
            return {"Deprecation": [], "Sunset": [], "Link": []}
        successor = "Account" if self.method == "POST" else "CurrentUser"
        return {
            "Deprecation": ["@1767225600"],
            "Sunset": ["Thu, 01 Jul 2027 00:00:00 GMT"],
            "Link": [f'</API/Notification/{successor}>; rel="successor-version"', DOCUMENTATION],
            "Cache-Control": ["no-store"],
            "Vary": ["Authorization"],
            "X-Content-Type-Options": ["nosniff"],
            "Referrer-Policy": ["no-referrer"] if "sessionid=" in self.target.lower() else [],
        }

    def admits(self, situation: str, permitted: frozenset[str]) -> bool:
        """Tell whether this may become of it, when what is wrong at the time permits some situations."""
        possible = {CUT, LOST, GATEWAY}
        if self.expected in STORED:
            possible.add(STORAGE)
        if len(self.body) > SPOOL_THRESHOLD:
            possible.add(SPOOL)
        return situation == self.expected or situation in permitted & possible


def situation_of(request: Request, received: bytes) -> str:
    """Return what became of a request; raise ``Broken`` when no fault whatever would excuse it."""
    if b"\r\n\r\n" not in received:
        return LOST
    answer = answer_of(received)
    if answer.code in {502, 504}:
        return GATEWAY
    _hold(answer.code in {200, 404, *STATUSES.values()}, f"an unexpected {answer.status}")
    for name, values in request.announces.items():
        _hold(answer.all(name) == values, f"{name} is {answer.all(name)}")
    missing = _missing(request, answer)
    if answer.code == 200:
        _check_array(request, answer, whole=not missing)
        return CUT if missing else WHOLE
    _hold(not answer.body.startswith(b"["), "a failure with an array")
    return CUT if missing else _problem(request, answer)


def _hold(kept: bool, reason: str) -> None:
    if not kept:
        raise Broken(reason)


def _missing(request: Request, answer: Answer) -> int:
    """Return how many bytes of the body did not come."""
    lengths = answer.all("Content-Length")
    _hold(len(lengths) == 1 and lengths[0].isdecimal(), f"Content-Length is {lengths}")
    length = 0 if request.method == "HEAD" else int(lengths[0])
    _hold(len(answer.body) <= length, "more than its Content-Length")
    return length - len(answer.body)


def _check_array(request: Request, answer: Answer, *, whole: bool) -> None:
    _hold(request.expected == WHOLE, "an array for who may have none")
    if request.method == "HEAD":
        _hold(answer.one("Content-Length") == str(len(request.body)), "another Content-Length than that of GET")
        return
    owners = set(re.findall(rb'"owner": ?"(\w+)"', answer.body))
    _hold(owners <= {request.owner.encode()}, f"another caller's rows: {owners}")
    stored = request.body if whole else request.body[: len(answer.body)]
    _hold(answer.body == stored, "not what is stored, or not all of it")


def _problem(request: Request, answer: Answer) -> str:
    """Return the code of the problem with which a request was answered."""
    if request.expected == UNCLAIMED and answer.code == 404:
        return UNCLAIMED
    _hold(answer.all("Content-Type") == ["application/problem+json"], f"a {answer.status} that is no problem of ours")
    if request.method == "HEAD":
        code = STORAGE if answer.all("Retry-After") else SPOOL
    else:
        code = json.loads(answer.body)["code"]
    _hold(STATUSES.get(code) == answer.code, f"{answer.status} does not go with {code}")
    _hold(code != STORAGE or answer.all("Retry-After") == ["30"], "it does not say when to come back")
    return str(code)


def told(log: str) -> Iterator[str]:
    """Yield what a log tells, and must not."""
    for name, pattern in UNTOLD.items():
        found = re.search(pattern, log)
        if found is not None:
            yield f"{name} in the log: {log[max(0, found.start() - 500) : found.end() + 500]}"


def thirds(samples: Sequence[float]) -> tuple[float, float] | None:
    """Return the medians of the first and the last third; nothing when there are too few samples to tell."""
    third = len(samples) // 3
    return (median(samples[:third]), median(samples[-third:])) if third > 1 else None


def grown(samples: Sequence[float], unit: str) -> Iterator[str]:
    """Yield by how much a worker has grown, when that is too much."""
    first, last = thirds(samples) or (0, 0)
    if last - first > TOLERANCES[unit]:
        yield f"a worker grew from {first:.1f} to {last:.1f} {unit}"
