"""The candidates, which are applications that do the same work, and the check that each does it."""

import json
from importlib import import_module
from typing import Protocol

from benchmarks.clients import Client
from benchmarks.work import ANNOUNCEMENT, RECORDS_OF, SESSIONS, session_of
from tests.wsgi import Response

APPLICATION, BYTES, BLUEPRINT = "NotificationApp", "NotificationApp, bytes", "blueprint"
DUMPED, FALCON = "raw WSGI, orjson", "Falcon, orjson"
FLASK, JSONIFY = "usual Flask view, orjson", "Flask jsonify"

# The import name of each candidate, which servers load.
CANDIDATES = {
    name: f"benchmarks.applications.{where}"
    for name, where in {
        APPLICATION: "ours:application",
        BYTES: "ours:application_bytes",
        BLUEPRINT: "ours:blueprint",
        DUMPED: "raw:dumped",
        FALCON: "falcon_view:application",
        FLASK: "flask_view:usual",
        JSONIFY: "flask_view:jsonified",
    }.items()
}


class WrongResponse(Exception):
    """An application does not do the work, so its time means nothing."""


class Responder(Protocol):
    """A client or a server that returns responses."""

    def response(self, session_id: str | None) -> Response:
        """Return the whole response."""


def check(name: str, client: Responder, session_id: str | None, *, announced: bool = True) -> None:
    """Raise ``WrongResponse`` unless a client gets the session's records, or 401 without a session."""
    response = client.response(session_id)
    expected = 401 if session_id is None else 200
    if response.code != expected:
        message = f"{name} responded {response.status}, not {expected}"
        raise WrongResponse(message)
    if session_id is not None and json.loads(response.body) != RECORDS_OF[SESSIONS[session_id]]:
        message = f"{name} responded with other records"
        raise WrongResponse(message)
    for header, value in ANNOUNCEMENT.items() if announced else ():
        if response.all(header) != [value]:
            message = f"{name} sent {header}: {response.all(header)}, not {value!r}"
            raise WrongResponse(message)


def checked_client(name: str, *users: int) -> Client:
    """Return the client of a candidate, after a check of its response to each of these users."""
    module, _, attribute = CANDIDATES[name].partition(":")
    client = Client(getattr(import_module(module), attribute))
    for user in users:
        check(f"{name}, {user} records,", client, session_of(user))
    return client
