"""Who takes part: applications that do the same work, and the proof that each does it."""

import json
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from benchmarks.clients import Client, client_of
from benchmarks.work import ANNOUNCEMENT, PATH, RECORDS_OF, SESSIONS, session_of
from tests.wsgi import Answer


@dataclass(frozen=True, slots=True)
class Candidate:
    """An application by its name in the tables; ``where`` is its module, below ``applications``, and its name there.

    ``slow`` ones are not asked again and again for very long answers.
    """

    name: str
    where: str
    path: str = field(default=PATH, kw_only=True)
    slow: bool = field(default=False, kw_only=True)

    @property
    def reference(self) -> str:
        """Return where servers find the application."""
        return f"benchmarks.applications.{self.where}"

    def application(self) -> Any:
        """Return the application; raises ``ModuleNotFoundError`` where its framework is missing."""
        module, _, name = self.reference.partition(":")
        return getattr(import_module(module), name)

    def client(self) -> Client:
        """Return a client of the application."""
        return client_of(self.application(), self.path)


APPLICATION, BYTES, BLUEPRINT = "NotificationApp", "NotificationApp, bytes", "blueprint"
READY, DUMPED, JOINED = "raw WSGI, ready bytes", "raw WSGI, orjson", "raw WSGI, join of texts"
FALCON, STARLETTE, FASTAPI = "Falcon, orjson", "Starlette, msgspec", "FastAPI, response model"
FLASK, JSONIFY, SMOREST, RESTFUL = "usual Flask view, orjson", "Flask jsonify", "flask-smorest", "Flask-RESTful"
DJANGO, REST = "Django view, orjson", "Django REST framework"

CANDIDATES = {
    each.name: each
    for each in (
        Candidate(APPLICATION, "ours:application"),
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


class WrongAnswer(Exception):
    """An application does not do the work, so its time means nothing."""


class Answering(Protocol):
    """Whoever can be asked."""

    def answer(self, session_id: str | None) -> Answer:
        """Return the whole answer."""


def check(name: str, client: Answering, session_id: str | None, *, announced: bool = True) -> None:
    """Raise ``WrongAnswer`` unless a client gets the session's records, or 401 without a session."""
    answer = client.answer(session_id)
    expected = 401 if session_id is None else 200
    if answer.code != expected:
        message = f"{name} answered {answer.status}, not {expected}"
        raise WrongAnswer(message)
    if session_id is not None and json.loads(answer.body) != RECORDS_OF[SESSIONS[session_id]]:
        message = f"{name} answered with other records"
        raise WrongAnswer(message)
    for field_name, value in ANNOUNCEMENT.items() if announced else ():
        if answer.all(field_name) != [value]:
            message = f"{name} answered {field_name}: {answer.all(field_name)}, not {value!r}"
            raise WrongAnswer(message)


def checked(name: str, *users: int) -> Client:
    """Return the client of a candidate, which has answered each of these users."""
    client = CANDIDATES[name].client()
    for user in users:
        check(f"{name}, {user} records,", client, session_of(user))
    return client
