"""PEP 3333: whatever an application does, the middleware stands between it and the server as if it were not there.

``wsgiref.validate`` on both sides sees much and misses some; the checks here are for the rest. What they are worth is
shown by middlewares that are broken on purpose.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from wsgiref.util import FileWrapper

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation
from tests.wsgi import Answer, between_validators, environ_of, run

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    Wrap = Callable[[WSGIApplication], WSGIApplication]

OURS = [("Deprecation", "@1767225600"), ("Link", '</new>; rel="successor-version"')]
OPERATIONS = [Operation("page", "GET", "/page", "/new"), Operation("post", "POST", "/page", "/new")]
TEXT = ("Content-Type", "text/plain")
COOKIES = [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]
QUERY = "sessionId=s"


def middleware(app: "WSGIApplication") -> "WSGIApplication":
    policy = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))
    return DeprecationMiddleware(app, policy, operations=OPERATIONS)


def twice(app: "WSGIApplication") -> "WSGIApplication":
    return middleware(middleware(app))


# What applications do.


class Body:
    """An iterable that keeps how far it was read, and how often it was closed."""

    def __init__(self, parts: Iterable[bytes], before: Callable[[], object] = lambda: None) -> None:
        self._parts, self._before = iter(parts), before
        self.produced = self.closed = 0

    def __iter__(self) -> "Body":
        return self

    def __next__(self) -> bytes:
        if not self.produced:
            self._before()
        part = next(self._parts)
        self.produced += 1
        return part

    def close(self) -> None:
        self.closed += 1


Behaviour = Callable[["StartResponse"], Body]


def plain(start_response: "StartResponse") -> Body:
    start_response("200 OK", [TEXT, *COOKIES])
    return Body([b"first", b"second"])


def writing(start_response: "StartResponse") -> Body:
    write = start_response("200 OK", [TEXT, *COOKIES])
    write(b"written")
    return Body([b"first"])


def failing(start_response: "StartResponse") -> Body:
    start_response("200 OK", [TEXT])
    try:
        raise ValueError  # noqa: TRY301 - an exception that is being handled is what PEP 3333 asks for
    except ValueError:
        start_response("500 Internal Server Error", [TEXT, *COOKIES], sys.exc_info())
    return Body([b"sorry"])


def unchanged(start_response: "StartResponse") -> Body:
    start_response("304 Not Modified", [("ETag", '"1"'), *COOKIES])
    return Body([])


def lazy(start_response: "StartResponse") -> Body:
    return Body([b"first", b"second"], lambda: start_response("200 OK", [TEXT, *COOKIES]))


BEHAVIOURS: dict[str, tuple[Behaviour, str, bytes]] = {
    "plain": (plain, "200 OK", b"firstsecond"),
    "write": (writing, "200 OK", b"writtenfirst"),
    "exc_info": (failing, "500 Internal Server Error", b"sorry"),
    "304": (unchanged, "304 Not Modified", b""),
    "lazy": (lazy, "200 OK", b"firstsecond"),
}


class App:
    """An application of one behaviour, that keeps its bodies."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self.bodies: list[Body] = []

    def __call__(self, _environ: "WSGIEnvironment", start_response: "StartResponse") -> Body:
        self.bodies.append(self._behaviour(start_response))
        return self.bodies[-1]


def environ(method: str = "GET") -> "WSGIEnvironment":
    return environ_of(method, "/page", QUERY)


# The checks.


def check_between_validators(wrap: "Wrap") -> None:
    """Both sides of the middleware keep to the letter of PEP 3333."""
    for behaviour, status, body in BEHAVIOURS.values():
        answer = run(between_validators(wrap, App(behaviour)), environ())
        assert (answer.status, answer.body) == (status, body)


def check_every_field_stays(wrap: "Wrap") -> None:
    """No field is lost, not even one that comes twice, and ours are there: after a replaced start as well."""
    for behaviour, _status, _body in BEHAVIOURS.values():
        app = App(behaviour)
        answer, bare = run(wrap(app), environ()), run(app, environ())
        assert [field for field in answer.fields if field[0] == "Set-Cookie"] == COOKIES
        assert all(field in answer.fields for field in (*bare.fields, *OURS))


def check_every_field_can_be_sent(wrap: "Wrap") -> None:
    for behaviour, _status, _body in BEHAVIOURS.values():
        for name, value in run(wrap(App(behaviour)), environ()).fields:
            assert value.encode("latin-1").isascii()
            assert f"{name}{value}".isprintable()


def check_closed_once(wrap: "Wrap") -> None:
    """When it was read to the end, in part, or not at all."""
    for behaviour, _status, _body in BEHAVIOURS.values():
        for parts in (0, 1, 99):
            app = App(behaviour)
            body: Any = wrap(app)(environ(), lambda *_arguments: lambda _data: None)
            for _part, _number in zip(body, range(parts), strict=False):
                pass
            assert app.bodies[0].closed == 0
            if hasattr(body, "close"):
                body.close()
            assert app.bodies[0].closed == 1


def check_nothing_is_read_ahead(wrap: "Wrap") -> None:
    """The first item arrives before the second is produced."""
    for behaviour in (plain, lazy):
        app = App(behaviour)
        body = iter(wrap(app)(environ(), lambda *_arguments: lambda _data: None))
        assert not app.bodies
        assert next(body) == b"first"
        assert app.bodies[0].produced == 1


def check_nothing_is_read_before_it_is_asked_for(wrap: "Wrap") -> None:
    app = App(plain)
    body = wrap(app)(environ(), lambda *_arguments: lambda _data: None)
    assert app.bodies[0].produced == 0
    assert next(iter(body)) == b"first"
    assert app.bodies[0].produced == 1


def check_the_iterable_is_the_same(wrap: "Wrap") -> None:
    """Or a server that could send a file by itself does not see that it is one."""
    body = FileWrapper(sys.stdin.buffer if False else _Nothing())  # type: ignore[arg-type]

    def app(_environ: "WSGIEnvironment", start_response: "StartResponse") -> FileWrapper:
        start_response("200 OK", [TEXT])
        return body

    assert wrap(app)(environ(), lambda *_arguments: lambda _data: None) is body
