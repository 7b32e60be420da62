"""Check the outcome of each request, the log and the size of the workers against the guarantees."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from tests.resilience.database_app import SPOOL_THRESHOLD
from tests.resilience.service import DOCUMENTATION
from tests.servers.process import response_of
from tests.wsgi import Response

# The situations in which a request may end, besides the code of a problem: the whole array; the application's response
# to an unmatched request; the beginning of a response; nothing; a response of the proxy.
WHOLE, UNMATCHED, CUT, LOST, GATEWAY = "whole", "unmatched", "cut", "lost", "gateway"
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
# The situations in which the storage has been called.
STORED = {WHOLE, "session_invalid", "access_denied", "account_not_found"}

# Patterns that no log may contain.
FORBIDDEN = {
    "a session ID": r"5e55-4000",
    "a statement": r"SELECT|FROM notifications",
    "what is stored": r"tttt",
    "a traceback through the library": r"Traceback \(most recent call last\):\n(?:\s.*\n)*?\s.*flask_notifications/",
}

# How much an idle worker may grow from the first third of the time to the last.
TOLERANCES = {"MiB": 8, "descriptors": 4}


class Broken(Exception):
    """A guarantee is violated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request and its expected situation without a failure; ``body`` is the array, with the rows of ``owner``."""

    name: str
    method: str = "GET"
    target: str = "/API/Notification/"
    headers: tuple[str, ...] = ()
    expected: str = WHOLE
    owner: str = ""
    body: bytes = b""

    @property
    def announces(self) -> dict[str, list[str]]:
        """The headers that every response has."""
        if self.expected == UNMATCHED:
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
        """Return whether the request may end in this situation, during a disturbance that permits some."""
        possible = {CUT, LOST, GATEWAY}
        if self.expected in STORED:
            possible.add(STORAGE)
        if len(self.body) > SPOOL_THRESHOLD:
            possible.add(SPOOL)
        return situation == self.expected or situation in permitted & possible


def situation_of(request: Request, received: bytes) -> str:
    """Return the situation of a request; raise ``Broken`` if no failure would excuse the response."""
    if b"\r\n\r\n" not in received:
        return LOST
    response = response_of(received)
    if response.code in {502, 504}:
        return GATEWAY
    _require(response.code in {200, 404, *STATUSES.values()}, f"an unexpected {response.status}")
    for name, values in request.announces.items():
        _require(response.all(name) == values, f"{name} is {response.all(name)}")
    missing = _missing(request, response)
    if response.code == 200:
        _check_array(request, response, whole=not missing)
        return CUT if missing else WHOLE
    _require(not response.body.startswith(b"["), "a failure with an array")
    return CUT if missing else _problem(request, response)


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise Broken(reason)


def _missing(request: Request, response: Response) -> int:
    """Return how many bytes of the body are missing."""
    lengths = response.all("Content-Length")
    _require(len(lengths) == 1 and lengths[0].isdecimal(), f"Content-Length is {lengths}")
    length = 0 if request.method == "HEAD" else int(lengths[0])
    _require(len(response.body) <= length, "more than its Content-Length")
    return length - len(response.body)


def _check_array(request: Request, response: Response, *, whole: bool) -> None:
    _require(request.expected == WHOLE, "an array for who may have none")
    if request.method == "HEAD":
        _require(response.one("Content-Length") == str(len(request.body)), "another Content-Length than that of GET")
        return
    owners = set(re.findall(rb'"owner": ?"(\w+)"', response.body))
    _require(owners <= {request.owner.encode()}, f"another caller's rows: {owners}")
    stored = request.body if whole else request.body[: len(response.body)]
    _require(response.body == stored, "not what is stored, or not all of it")


def _problem(request: Request, response: Response) -> str:
    """Return the code of the problem in a response."""
    if request.expected == UNMATCHED and response.code == 404:
        return UNMATCHED
    _require(
        response.all("Content-Type") == ["application/problem+json"],
        f"a {response.status} without a problem document",
    )
    if request.method == "HEAD":
        code = STORAGE if response.all("Retry-After") else SPOOL
    else:
        code = json.loads(response.body)["code"]
    _require(STATUSES.get(code) == response.code, f"{response.status} does not go with {code}")
    _require(code != STORAGE or response.all("Retry-After") == ["30"], "it does not say when to come back")
    return str(code)


def find_leaks(log: str) -> Iterator[str]:
    """Yield a message for each forbidden pattern in a log, with its surroundings."""
    for name, pattern in FORBIDDEN.items():
        found = re.search(pattern, log)
        if found is not None:
            yield f"{name} in the log: {log[max(0, found.start() - 500) : found.end() + 500]}"


def thirds(samples: Sequence[float]) -> tuple[float, float] | None:
    """Return the medians of the first and the last third, or ``None`` if there are too few samples."""
    third = len(samples) // 3
    return (median(samples[:third]), median(samples[-third:])) if third > 1 else None


def find_growth(samples: Sequence[float], unit: str) -> Iterator[str]:
    """Yield a message if a worker has grown by more than its tolerance."""
    first, last = thirds(samples) or (0, 0)
    if last - first > TOLERANCES[unit]:
        yield f"a worker grew from {first:.1f} to {last:.1f} {unit}"
