"""The requests of a soak, the behaviour of the clients, and what each response must be, whatever happens."""

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from threading import Event
from typing import Any

from tests.resilience.database_app import COUNTS, SPOOL_THRESHOLD, documents_of, session_of
from tests.servers.process import PATIENCE, request_of, response_of

# The situations in which a request may end, besides the code of a problem: the whole array; the application's response
# to an unmatched request; the beginning of a response; nothing; a response of the proxy; a client that disconnects.
WHOLE, UNMATCHED, CUT, LOST, GATEWAY, LEFT = "whole", "unmatched", "cut", "lost", "gateway", "left"
STORAGE, SPOOL = "storage_unavailable", "spool_unavailable"
STATUSES = {
    "invalid_request": 400,
    "session_missing": 401,
    "session_invalid": 401,
    "access_denied": 403,
    "account_not_found": 404,
    STORAGE: 503,
    SPOOL: 503,
}
# Patterns that no log may contain.
FORBIDDEN = {
    "a session ID": r"5e55-4000",
    "a statement": r"SELECT|FROM notifications",
    "what is stored": r"tttt",
    "a traceback through the library": r"Traceback \(most recent call last\):\n(?:\s.*\n)*?\s.*flask_notifications/",
}

LIST = "/API/Notification/"
# A user whose response is larger than all buffers between a server and its client.
ARCHIVE = [f'{{"owner": "archive", "n": {n}, "text": "{"t" * 8_000}"}}' for n in range(1_000)]
FILL_ARCHIVE = """
INSERT INTO sessions SELECT replace(id, 'large', 'archive'), 'archive', false FROM sessions WHERE login = 'large';
INSERT INTO notifications
SELECT 'archive', n, format('{"owner": "archive", "n": %s, "text": "%s"}', n, repeat('t', 8000)), now()
FROM generate_series(0, 999) n
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request, its expected situation without a failure, and the array."""

    name: str
    method: str = "GET"
    target: str = LIST
    headers: tuple[str, ...] = ()
    expected: str = WHOLE
    body: bytes = b""

    @property
    def announces(self) -> dict[str, list[str]]:
        """The headers that every response has."""
        if self.expected == UNMATCHED:
            return {"Deprecation": [], "Sunset": [], "Link": []}
        successor = "Account" if self.method == "POST" else "CurrentUser"
        return {
            "Deprecation": ["@1767225600"],
            "Sunset": ["Fri, 01 Jan 2027 00:00:00 GMT"],
            "Link": [f'<{LIST}{successor}>; rel="successor-version"'],
            "Cache-Control": ["no-store"],
            "Vary": ["Authorization"],
            "Referrer-Policy": ["no-referrer"] if "sessionid=" in self.target.lower() else [],
        }

    def admits(self, situation: str, permitted: frozenset[str]) -> bool:
        """Return whether the request may end in this situation, during a disturbance that permits some."""
        possible = {CUT, LOST, GATEWAY}
        if self.expected in {WHOLE, "session_invalid", "access_denied", "account_not_found"}:
            possible.add(STORAGE)
        if len(self.body) > SPOOL_THRESHOLD:
            possible.add(SPOOL)
        return situation in {self.expected, LEFT} or situation in permitted & possible


def requests() -> Iterator[Request]:
    """Yield every request, in each of the ways that clients send it."""
    bearers = {login: (f"Authorization: Bearer {session_of(login)}",) for login in [*COUNTS, "archive"]}
    queries = {login: f"?sessionId={session_of(login)}" for login in bearers}
    arrays: dict[str, Any] = {login: {"body": f"[{','.join(documents_of(login))}]".encode()} for login in COUNTS}
    arrays["archive"] = {"body": f"[{','.join(ARCHIVE)}]".encode()}
    for login, array in arrays.items():
        yield Request(name=f"{login}, by header", headers=bearers[login], **array)
        yield Request(name=f"{login}, by query", target=LIST + queries[login], **array)
    yield Request(name="session sent twice", target=LIST + queries["bob"], headers=bearers["bob"], **arrays["bob"])
    yield Request(name="odd spelling", target=f"/api/NOTIFICATION?SESSIONID={session_of('bob')}", **arrays["bob"])
    for account, login, expected in (
        ("slow", "admin", WHOLE),
        ("large", "admin", WHOLE),
        ("bob", "alice", "access_denied"),
        ("nobody", "admin", "account_not_found"),
    ):
        target, count = f"{LIST}GetNotificationsForAccount/{account}/", COUNTS.get(account, 0)
        row = '{"owner":"%s","position":%d,"written_at":"2025-03-31T08:15:18+00:00"}'
        body = f"[{','.join(row % (account, number) for number in range(count))}]".encode()
        options: Any = {"headers": bearers[login], "expected": expected, "body": body}
        yield Request(name=f"account {account}", method="POST", target=target, **options)
    yield Request(name="unknown session", target=f"{LIST}?sessionId=nobody", expected="session_invalid")
    yield Request(name="no session", expected="session_missing")
    yield Request(
        name="two sessions", target=LIST + queries["alice"], headers=bearers["bob"], expected="invalid_request"
    )
    yield Request(name="elsewhere", target="/elsewhere", expected=UNMATCHED)


def situation_of(request: Request, received: bytes) -> str:
    """Return the situation of a request; an assertion fails if no failure would excuse the response."""
    if b"\r\n\r\n" not in received:
        return LOST
    response = response_of(received)
    if response.code in {502, 504}:
        return GATEWAY
    for name, values in request.announces.items():
        assert response.all(name) == values, f"{name} is {response.all(name)}"
    missing = int(response.one("Content-Length")) - len(response.body)
    assert missing >= 0, "more than its Content-Length"
    if response.code == 200:
        assert request.expected == WHOLE, "an array for who may have none"
        stored = request.body[: len(response.body)] if missing else request.body
        assert response.body == stored, "not what is stored, or not all of it"
    assert response.code == 200 or not response.body.startswith(b"["), "a failure with an array"
    if missing or response.code == 200:
        return CUT if missing else WHOLE
    if request.expected == UNMATCHED and response.code == 404:
        return UNMATCHED
    code = str(json.loads(response.body)["code"])
    assert STATUSES[code] == response.code, f"{response.status} does not go with {code}"
    assert response.all("Retry-After") == (["30"] if code == STORAGE else []), "the wrong Retry-After"
    return code


@dataclass(frozen=True, slots=True)
class Outcome:
    """The situation of a request between two moments; ``reason`` is the guarantee that it violates."""

    request: Request
    began: float
    ended: float
    situation: str
    reason: str
    received: bytes

    def is_admitted(self, permitted: frozenset[str]) -> bool:
        """Return whether the outcome is allowed, during a disturbance that permits some situations."""
        return not self.reason and self.request.admits(self.situation, permitted)


def ask(request: Request, port: int, pause: float = 0, limit: int = 1 << 30) -> Outcome:
    """Send a request, with a pause after each read; disconnect after ``limit`` bytes in both directions."""
    began, received = time.monotonic(), bytearray()
    sent = request_of(request.method, request.target, *request.headers)
    left = limit - len(sent)
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(sent[:limit])
        while len(received) < left and (chunk := connection.recv(min(1 << 16, left - len(received)))):
            received += chunk
            time.sleep(pause)
    situation = reason = ""
    try:
        situation = situation_of(request, bytes(received))
    except (AssertionError, ValueError, LookupError) as broken:  # or the response cannot be parsed
        reason = repr(broken)
    if limit < 1 << 30 and situation in {LOST, CUT}:
        situation = LEFT
    return Outcome(request, began, time.monotonic(), situation, reason, bytes(received[:2_000]))


def ask_until(done: Event, ports: list[int], chance: Random) -> list[Outcome]:
    """Send random requests until ``done``, with short pauses; some clients read slowly, and some leave."""
    outcomes, choices = [], [*requests()]
    while not done.wait(chance.uniform(0, 0.05)):
        request = chance.choice(choices)
        options: dict[str, Any] = {"pause": chance.choice([0, 0, 0.01])}
        if chance.random() < 0.25:
            options["limit"] = chance.randrange(800 + len(request.body))
        outcomes.append(ask(request, chance.choice(ports), **options))
    return outcomes


def find_leaks(log: str) -> Iterator[str]:
    """Yield a message for each forbidden pattern in a log, with its surroundings."""
    for name, pattern in FORBIDDEN.items():
        found = re.search(pattern, log)
        if found is not None:
            yield f"{name} in the log: {log[max(0, found.start() - 500) : found.end() + 500]}"
