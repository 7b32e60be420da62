"""The candidates, which are applications that do the same work, and the check that each does it."""

import json
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from benchmarks.clients import Client, client_of
from benchmarks.work import ANNOUNCEMENT, PATH, RECORDS_OF, SESSIONS, session_of
from tests.wsgi import Response


@dataclass(frozen=True, slots=True)
class Candidate:
    """An application with its name in the tables; ``where`` is its module below ``applications``, and its name there.

    A ``slow`` one is not measured repeatedly with very long responses.
    """

    name: str
    where: str
    path: str = field(default=PATH, kw_only=True)
    slow: bool = field(default=False, kw_only=True)

    @property
    def reference(self) -> str:
        """Return the import name that servers load."""
        return f"benchmarks.applications.{self.where}"

    def application(self) -> Any:
        """Return the application; raises ``ModuleNotFoundError`` where its framework is missing."""
        module, _, name = self.reference.partition(":")
        return getattr(import_module(module), name)

    def client(self) -> Client:
        """Return a client of the application."""
        return client_of(self.application(), self.path)


APPLICATION, ITERATOR = "NotificationApp", "NotificationApp, iterator"
BYTES, BLUEPRINT = "NotificationApp, bytes", "blueprint"
READY, DUMPED, JOINED = "raw WSGI, ready bytes", "raw WSGI, orjson", "raw WSGI, join of bytes"
FALCON, STARLETTE, FASTAPI = "Falcon, orjson", "Starlette, msgspec", "FastAPI, response model"
FLASK, JSONIFY, SMOREST, RESTFUL = "usual Flask view, orjson", "Flask jsonify", "flask-smorest", "Flask-RESTful"
DJANGO, REST = "Django view, orjson", "Django REST framework"

CANDIDATES = {
    each.name: each
    for each in (
        Candidate(APPLICATION, "ours:application"),
        Candidate(ITERATOR, "ours:application_iterator"),
        Candidate(BYTES, "ours:application_bytes"),
        Candidate(BLUEPRINT, "ours:blueprint"),
        Candidate(READY, "raw:ready_bytes"),
        Candidate(JOINED, "raw:joined"),
        Candidate(DUMPED, "raw:dumped"),
        Candidate(FALCON, "falcon_view:application"),
        Candidate(STARLETTE, "starlette_view:application"),
        Candidate(FASTAPI, "fastapi_model:application", slow=True),
        Candidate(DJANGO, "django_view:application"),
        Candidate(FLASK, "flask_view:usual"),
        Candidate(JSONIFY, "flask_view:jsonified", slow=True),
        Candidate(SMOREST, "smorest:application", slow=True),
        Candidate(RESTFUL, "restful:application", slow=True),
        Candidate(REST, "django_view:application", path="/rest" + PATH, slow=True),
    )
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
    client = CANDIDATES[name].client()
    for user in users:
        check(f"{name}, {user} records,", client, session_of(user))
    return client
