"""The requests of a soak, the behaviour of the clients, and the outcome of each request."""

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from threading import Event
from typing import Any

import orjson

from tests.resilience.database_app import COUNTS, documents_of, session_of
from tests.servers.process import PATIENCE, request_of
from tests.soak.judge import CUT, LOST, UNMATCHED, Broken, Request, situation_of

# A user whose response is larger than all buffers between a server and its client.
ARCHIVE = [f'{{"owner": "archive", "n": {n}, "text": "{"t" * 8_000}"}}' for n in range(1_000)]
FILL_ARCHIVE = """
INSERT INTO sessions SELECT replace(id, 'large', 'archive'), 'archive', false FROM sessions WHERE login = 'large';
INSERT INTO notifications
SELECT 'archive', n, format('{"owner": "archive", "n": %s, "text": "%s"}', n, repeat('t', 8000)), now()
FROM generate_series(0, 999) n
"""


def whole(login: str) -> dict[str, Any]:
    """Return the owner and the array of a user, as arguments of a request."""
    documents = ARCHIVE if login == "archive" else documents_of(login)
    return {"owner": login, "body": f"[{','.join(documents)}]".encode()}


def account(login: str) -> dict[str, Any]:
    """Return the target, the owner and the array of an account, as arguments of a request."""
    rows = [{"owner": login, "position": n, "written_at": "2025-03-31T08:15:18+00:00"} for n in range(COUNTS[login])]
    return post(login) | {"owner": login, "body": orjson.dumps(rows)}


def post(account_id: str) -> dict[str, Any]:
    return {"method": "POST", "target": f"/API/Notification/GetNotificationsForAccount/{account_id}/"}


def bearer(login: str) -> tuple[str]:
    return (f"Authorization: Bearer {session_of(login)}",)


def query(login: str) -> str:
    return f"?sessionId={session_of(login)}"


# The situation of a request whose client disconnects.
LEFT = "left"

LIST = "/API/Notification/"
LOGINS = [*COUNTS, "archive"]

REQUESTS = [
    *(Request(name=f"{login}, by header", headers=bearer(login), **whole(login)) for login in LOGINS),
    *(Request(name=f"{login}, by query", target=LIST + query(login), **whole(login)) for login in LOGINS),
    *(Request(name=f"{login}, HEAD", method="HEAD", headers=bearer(login), **whole(login)) for login in LOGINS),
    Request(name="session sent twice", target=LIST + query("bob"), headers=bearer("bob"), **whole("bob")),
    Request(name="odd path", target="/api/NOTIFICATION", headers=bearer("bob"), **whole("bob")),
    Request(name="odd key", target=f"{LIST}?a=1&SESSIONID={session_of('bob')}&b", **whole("bob")),
    Request(name="own account", headers=bearer("alice"), **account("alice")),
    Request(name="account, by administrator", headers=bearer("admin"), **account("slow")),
    Request(name="large account, by administrator", headers=bearer("admin"), **account("large")),
    Request(name="foreign account", **post("bob"), headers=bearer("alice"), expected="access_denied"),
    Request(name="no account", **post("nobody"), headers=bearer("admin"), expected="account_not_found"),
    Request(name="malformed account", **post("%07"), headers=bearer("admin"), expected="invalid_account_id"),
    Request(name="unknown session", target=LIST + query("nobody"), expected="session_invalid"),
    Request(name="no session", expected="session_missing"),
    Request(name="two sessions", target=LIST + query("alice"), headers=bearer("bob"), expected="invalid_request"),
    Request(name="malformed session", target=f"{LIST}{query('alice')}%00", expected="invalid_token"),
    Request(name="elsewhere", target="/elsewhere", expected=UNMATCHED),
]
# Repeated after a disturbance until they succeed; they need everything that may fail.
PROBES = [request for request in REQUESTS if request.owner == "large"]


class Manner(Enum):
    """How a client reads its response."""

    PATIENTLY = auto()
    SLOWLY = auto()
    LEAVING = auto()  # after some bytes of the request or of the response


@dataclass(frozen=True, slots=True)
class Outcome:
    """The situation of a request that began and ended at two moments; ``reason`` is the guarantee that it violates."""

    request: Request
    way: str
    manner: Manner
    began: float
    ended: float
    situation: str
    received: bytes
    reason: str = ""

    def __str__(self) -> str:
        request, manner = self.request, self.manner.name.lower()
        return (
            f"{request.name}, {manner}, {self.way}: {self.reason or self.situation}\n"
            f"  request: {request.method} {request.target} {' '.join(request.headers)}\n"
            f"  response, after {self.ended - self.began:.2f} s: {self.received!r}"
        )

    def is_admitted(self, permitted: frozenset[str]) -> bool:
        """Return whether the outcome is allowed, during a disturbance that permits some situations."""
        return not self.reason and (self.situation == LEFT or self.request.admits(self.situation, permitted))


def exchange(port: int, request: bytes, chance: Random, manner: Manner, length: int) -> bytes:
    """Send a request, and return the bytes received until the end or until the client disconnects.

    ``length`` is the approximate length of the response.
    """
    limit = chance.randrange(len(request) + length) if manner is Manner.LEAVING else 1 << 30
    received = bytearray()
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(request[:limit])
        limit -= len(request)
        while len(received) < limit and (chunk := connection.recv(min(1 << 16, limit - len(received)))):
            received += chunk
            time.sleep(0.01 if manner is Manner.SLOWLY else 0)
    return bytes(received)


def ask(request: Request, way: str, port: int, chance: Random, manner: Manner = Manner.PATIENTLY) -> Outcome:
    """Send a request once, and return the outcome."""
    began = time.monotonic()
    sent = request_of(request.method, request.target, *request.headers)
    received = exchange(port, sent, chance, manner, 500 + len(request.body))
    situation = reason = ""
    try:
        situation = situation_of(request, received)
    except (Broken, ValueError, LookupError) as broken:  # or the response cannot be parsed
        reason = str(broken)
    if manner is Manner.LEAVING and situation in {LOST, CUT}:
        situation = LEFT
    return Outcome(request, way, manner, began, time.monotonic(), situation, received[:2_000], reason)


def ask_until(done: Event, ports: dict[str, int], chance: Random) -> Iterator[Outcome]:
    """Send random requests until ``done``, with short pauses, and yield the outcomes."""
    manners = [Manner.PATIENTLY, Manner.PATIENTLY, Manner.SLOWLY, Manner.LEAVING]
    while not done.wait(chance.uniform(0, 0.05)):
        way = chance.choice(list(ports))
        yield ask(chance.choice(REQUESTS), way, ports[way], chance, chance.choice(manners))
