"""What clients ask for, in which manner, and what comes of it."""

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

from tests.faults.database_app import COUNTS, documents_of, session_of
from tests.servers.process import PATIENCE, request_of
from tests.soak.judge import CUT, LOST, UNCLAIMED, Broken, Request, situation_of

# A user whose answer is more than all buffers between a server and its client take.
ARCHIVE = [f'{{"owner": "archive", "n": {n}, "text": "{"t" * 8_000}"}}' for n in range(1_000)]
FILL_ARCHIVE = """
INSERT INTO sessions SELECT replace(id, 'large', 'archive'), 'archive', false FROM sessions WHERE login = 'large';
INSERT INTO notifications
SELECT 'archive', n, format('{"owner": "archive", "n": %s, "text": "%s"}', n, repeat('t', 8000)), now()
FROM generate_series(0, 999) n
"""


def whole(login: str) -> dict[str, Any]:
    """Return what belongs to a user."""
    documents = ARCHIVE if login == "archive" else documents_of(login)
    return {"owner": login, "body": f"[{','.join(documents)}]".encode()}


def account(login: str) -> dict[str, Any]:
    """Return what is in the account of a user, and how to ask for it."""
    rows = [{"owner": login, "position": n, "written_at": "2025-03-31T08:15:18+00:00"} for n in range(COUNTS[login])]
    return post(login) | {"owner": login, "body": orjson.dumps(rows)}


def post(account_id: str) -> dict[str, Any]:
    return {"method": "POST", "target": f"/API/Notification/GetNotificationsForAccount/{account_id}/"}


def bearer(login: str) -> tuple[str]:
    return (f"Authorization: Bearer {session_of(login)}",)


def query(login: str) -> str:
    return f"?sessionId={session_of(login)}"


# What becomes of a request when its client does not stay.
LEFT = "left"

LIST = "/API/Notification/"
LOGINS = [*COUNTS, "archive"]

REQUESTS = [
    *(Request(name=f"{login}, by header", fields=bearer(login), **whole(login)) for login in LOGINS),
    *(Request(name=f"{login}, by query", target=LIST + query(login), **whole(login)) for login in LOGINS),
    *(Request(name=f"{login}, HEAD", method="HEAD", fields=bearer(login), **whole(login)) for login in LOGINS),
    Request(name="session sent twice", target=LIST + query("bob"), fields=bearer("bob"), **whole("bob")),
    Request(name="odd path", target="/api/NOTIFICATION", fields=bearer("bob"), **whole("bob")),
    Request(name="odd key", target=f"{LIST}?a=1&SESSIONID={session_of('bob')}&b", **whole("bob")),
    Request(name="own account", fields=bearer("alice"), **account("alice")),
    Request(name="account, by administrator", fields=bearer("admin"), **account("slow")),
    Request(name="large account, by administrator", fields=bearer("admin"), **account("large")),
    Request(name="foreign account", **post("bob"), fields=bearer("alice"), expected="access_denied"),
    Request(name="no account", **post("nobody"), fields=bearer("admin"), expected="account_not_found"),
    Request(name="malformed account", **post("%07"), fields=bearer("admin"), expected="invalid_account_id"),
    Request(name="unknown session", target=LIST + query("nobody"), expected="session_invalid"),
    Request(name="no session", expected="session_missing"),
    Request(name="two sessions", target=LIST + query("alice"), fields=bearer("bob"), expected="invalid_request"),
    Request(name="malformed session", target=f"{LIST}{query('alice')}%00", expected="invalid_token"),
    Request(name="elsewhere", target="/elsewhere", expected=UNCLAIMED),
]
# Asked until they are answered, once the fault is over: they need all that may fail.
PROBES = [request for request in REQUESTS if request.owner == "large"]


class Manner(Enum):
    """How a client takes its answer."""

    PATIENTLY = auto()
    SLOWLY = auto()
    LEAVING = auto()  # after so many bytes of the request, or of the answer


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request, between two moments; ``reason`` is why that must never be."""

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
            f"{request.name}, asked {manner}, {self.way}: {self.reason or self.situation}\n"
            f"  request: {request.method} {request.target} {' '.join(request.fields)}\n"
            f"  answer, after {self.ended - self.began:.2f} s: {self.received!r}"
        )

    def is_admitted(self, permitted: frozenset[str]) -> bool:
        """Tell whether this may be when something is wrong that permits some situations."""
        return not self.reason and (self.situation == LEFT or self.request.admits(self.situation, permitted))


def exchange(port: int, request: bytes, chance: Random, manner: Manner, length: int) -> bytes:
    """Return what came back until its end, or until the client left; ``length`` is about that of the answer."""
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
    """Ask once, and say what came of it."""
    began = time.monotonic()
    sent = request_of(request.method, request.target, *request.fields)
    received = exchange(port, sent, chance, manner, 500 + len(request.body))
    situation = reason = ""
    try:
        situation = situation_of(request, received)
    except (Broken, ValueError, LookupError) as broken:  # or nothing that can be read
        reason = str(broken)
    if manner is Manner.LEAVING and situation in {LOST, CUT}:
        situation = LEFT
    return Outcome(request, way, manner, began, time.monotonic(), situation, received[:2_000], reason)


def ask_until(done: Event, ports: dict[str, int], chance: Random) -> Iterator[Outcome]:
    """Ask for this and that until it is enough, with hardly a pause."""
    manners = [Manner.PATIENTLY, Manner.PATIENTLY, Manner.SLOWLY, Manner.LEAVING]
    while not done.wait(chance.uniform(0, 0.05)):
        way = chance.choice(list(ports))
        yield ask(chance.choice(REQUESTS), way, ports[way], chance, chance.choice(manners))
