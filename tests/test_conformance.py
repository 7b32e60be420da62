"""PEP 3333: whatever an application does, the middleware stands between it and the server as if it were not there.

``wsgiref.validate`` on both sides sees much and misses some; the checks here are for the rest. What they are worth is
shown by middlewares that are broken on purpose.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any
from wsgiref.util import FileWrapper

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation, Use
from tests.wsgi import between_validators, environ_of, run

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    Wrap = Callable[[WSGIApplication], WSGIApplication]

POLICY = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))
OURS = [("Deprecation", "@1767225600"), ("Link", '</new>; rel="successor-version"')]
OPERATIONS = [Operation("page", "GET", "/page", "/new"), Operation("post", "POST", "/page", "/new")]
TEXT = ("Content-Type", "text/plain")
COOKIES = [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]
QUERY = "sessionId=s"


def middleware(app: "WSGIApplication") -> "WSGIApplication":
    return DeprecationMiddleware(app, POLICY, operations=OPERATIONS)


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
        body = wrap(app)(environ(), lambda *_arguments: lambda _data: None)
        assert sum(each.produced for each in app.bodies) == 0
        assert next(iter(body)) == b"first"
        assert app.bodies[0].produced == 1


def check_the_iterable_is_the_same(wrap: "Wrap") -> None:
    """Or a server that could send a file by itself does not see that it is one."""
    file = FileWrapper(BytesIO(b"text"))

    def app(_environ: "WSGIEnvironment", start_response: "StartResponse") -> FileWrapper:
        start_response("200 OK", [TEXT])
        return file

    assert wrap(app)(environ(), lambda *_arguments: lambda _data: None) is file


CHECKS: "list[Callable[[Wrap], None]]" = [
    check_between_validators,
    check_every_field_stays,
    check_every_field_can_be_sent,
    check_closed_once,
    check_nothing_is_read_ahead,
    check_the_iterable_is_the_same,
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("wrap", [middleware, twice])
def test_the_middleware_conforms(check: "Callable[[Wrap], None]", wrap: "Wrap") -> None:
    check(wrap)


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_nothing_but_the_announcement_is_added(behaviour: str, method: str) -> None:
    """The validators stay silent too: what they only tell on standard error is a warning here, hence a failure."""
    app = App(BEHAVIOURS[behaviour][0])
    wrapped = run(between_validators(middleware, app), {**environ(method), "QUERY_STRING": ""})
    bare = run(app, environ(method))
    assert (wrapped.status, wrapped.body) == (bare.status, bare.body)
    assert wrapped.fields == [*bare.fields, ("Vary", "Authorization"), *OURS]


def test_an_answer_that_is_not_read_passes_the_validators() -> None:
    app = App(plain)
    body: Any = between_validators(middleware, app)(environ(), lambda *_arguments: lambda _data: None)
    body.close()
    assert (app.bodies[0].closed, app.bodies[0].produced) == (1, 0)


# Middlewares that are broken on purpose.


def generator_without_close(app: "WSGIApplication") -> "WSGIApplication":
    def wrapped(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterator[bytes]:
        for part in app(environ, adding(start_response)):  # noqa: UP028 - "yield from" would close it in part
            yield part

    return wrapped


def generator_that_closes_at_its_end(app: "WSGIApplication") -> "WSGIApplication":
    def wrapped(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterator[bytes]:
        body: Any = app(environ, adding(start_response))
        try:
            for part in body:  # noqa: UP028 - "yield from" would close it as well
                yield part
        finally:
            body.close()

    return wrapped


def joined(app: "WSGIApplication") -> "WSGIApplication":
    def wrapped(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        body: Any = app(environ, adding(start_response))
        text = b"".join(body)
        body.close()
        return [text]

    return wrapped


def listed(app: "WSGIApplication") -> "WSGIApplication":
    return lambda environ, start_response: iter(list(app(environ, adding(start_response))))


class Relay:
    """Hand on an iterable, and close it more than once."""

    def __init__(self, body: Any) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        yield from self._body
        self._body.close()

    def close(self) -> None:
        self._body.close()


def closing_twice(app: "WSGIApplication") -> "WSGIApplication":
    return lambda environ, start_response: Relay(app(environ, adding(start_response)))


def adding(start_response: Any, change: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Return a ``start_response`` that adds our fields, and changes the list of them."""

    def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        fields = [*headers, *OURS]
        changed = fields if change is None else change(fields)
        return start_response(status, changed, exc_info) if exc_info else start_response(status, changed)

    return start


def changing(change: Callable[[list[tuple[str, Any]]], Any]) -> "Wrap":
    return lambda app: lambda environ, start_response: app(environ, adding(start_response, change))


def starting(make: Callable[[Any], Any]) -> "Wrap":
    return lambda app: lambda environ, start_response: app(environ, make(start_response))


def without_exc_info(start_response: Any) -> Any:
    return lambda status, headers: start_response(status, [*headers, *OURS])


def dropping_exc_info(start_response: Any) -> Any:
    return lambda status, headers, exc_info=None: start_response(status, [*headers, *OURS])  # noqa: ARG005 - the fault


def without_write(start_response: Any) -> Any:
    def start(*arguments: Any) -> None:
        adding(start_response)(*arguments)

    return start


def first_time_only(start_response: Any) -> Any:
    def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        return start_response(status, headers, exc_info) if exc_info else adding(start_response)(status, headers)

    return start


def with_keywords(start_response: Any) -> Any:
    return lambda status, headers, exc_info=None: start_response(
        status=status, headers=[*headers, *OURS], exc_info=exc_info
    )


BROKEN: "dict[str, tuple[Wrap, list[Callable[[Wrap], None]]]]" = {
    "generator without close": (generator_without_close, [check_closed_once, check_the_iterable_is_the_same]),
    "generator with finally": (generator_that_closes_at_its_end, [check_closed_once, check_the_iterable_is_the_same]),
    "joins the body": (joined, [check_nothing_is_read_ahead, check_the_iterable_is_the_same]),
    "lists the body": (listed, [check_closed_once, check_nothing_is_read_ahead, check_the_iterable_is_the_same]),
    "closes twice": (closing_twice, [check_closed_once, check_the_iterable_is_the_same]),
    "no exc_info": (starting(without_exc_info), [check_between_validators, check_every_field_stays]),
    "exc_info not forwarded": (starting(dropping_exc_info), [check_between_validators]),
    "write not returned": (starting(without_write), [check_between_validators]),
    "fields in a dict": (changing(lambda fields: list(dict(fields).items())), [check_every_field_stays]),
    "fields in a tuple": (changing(tuple), [check_between_validators]),
    "lines in a value": (changing(lambda fields: [*fields, ("X", "a\r\nY: b")]), [check_every_field_can_be_sent]),
    "value not latin-1": (changing(lambda fields: [*fields, ("X", "\u20ac")]), [check_every_field_can_be_sent]),
    "number for a value": (changing(lambda fields: [*fields, ("X", 1)]), [check_between_validators]),
    "fields added once": (starting(first_time_only), [check_every_field_stays]),
    "keyword arguments": (starting(with_keywords), [check_between_validators]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_middleware_is_caught(name: str) -> None:
    wrap, checks = BROKEN[name]
    for check in checks:
        with pytest.raises((AssertionError, TypeError, AttributeError, UnicodeEncodeError)):
            check(wrap)


def test_a_middleware_that_is_not_broken_is_not_caught() -> None:
    for check in CHECKS:
        check(changing(lambda fields: fields))


# Any sequence of calls.


class Failure(Exception):
    """What an application of a test raises."""


Step = tuple[str, Any]


class Server:
    """Serve as PEP 3333 says, and keep what happens."""

    def __init__(self) -> None:
        self.trace: list[tuple[Any, ...]] = []
        self._started = self._sent = False

    def start_response(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        if exc_info and self._sent:
            raise exc_info[1]
        if self._started and not exc_info:
            raise AssertionError(status)
        self._started = True
        self.trace.append(("start", status, headers, bool(exc_info)))
        return self.write

    def write(self, data: bytes) -> None:
        self._sent = True
        self.trace.append(("data", data))

    def serve(self, app: "WSGIApplication") -> list[tuple[Any, ...]]:
        body: Any = None
        try:
            body = app(environ_of("GET", "/page"), self.start_response)
            self.trace.append(("returned",))
            for part in body:
                self.write(part)
        except (Failure, AssertionError) as fault:
            self.trace.append(("raised", type(fault)))
        if body is not None:
            body.close()
        return self.trace


class Scripted:
    """An application that does what it is told: steps when it is called, then steps before each part of its body."""

    def __init__(self, called: list[Step], read: list[list[Step]]) -> None:
        self._called, self._read = called, read
        self.closed = 0

    def __call__(self, _environ: "WSGIEnvironment", start_response: Any) -> Any:
        self._start_response = start_response
        self._write: Any = None
        self._do(self._called)
        return self

    def __iter__(self) -> Iterator[bytes]:
        for number, steps in enumerate(self._read):
            self._do(steps)
            yield b"part %d" % number

    def close(self) -> None:
        self.closed += 1

    def _do(self, steps: list[Step]) -> None:
        for kind, value in steps:
            if kind == "start":
                self._write = self._start_response(*value)
            elif kind == "restart":
                try:
                    raise Failure  # noqa: TRY301 - an exception that is being handled
                except Failure:
                    self._write = self._start_response(*value, sys.exc_info())
            elif kind == "write" and self._write is not None:
                self._write(value)
            elif kind == "raise":
                raise Failure


starts = st.sampled_from(
    [
        ("200 OK", [TEXT]),
        ("404 Not Found", [TEXT, *COOKIES]),
        ("304 Not Modified", []),
        ("500 Oops", [("X-A", "1")] * 2),
    ]
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("start"), starts),
        st.tuples(st.just("restart"), starts),
        st.tuples(st.just("write"), st.sampled_from([b"", b"written"])),
        st.tuples(st.just("raise"), st.none()),
    ),
    max_size=4,
)


@given(steps, st.lists(steps, max_size=3), st.sampled_from([1, 2]))
def test_any_sequence_of_calls_is_as_without_the_middleware(
    called: list[Step], read: list[list[Step]], times: int
) -> None:
    bare, app, uses = Scripted(called, read), Scripted(called, read), list[Use]()
    wrapped: WSGIApplication = app
    for _time in range(times):
        wrapped = DeprecationMiddleware(wrapped, POLICY, operations=OPERATIONS, observers=[uses.append])
    expected, trace = Server().serve(bare), Server().serve(wrapped)
    assert [without_ours(event) for event in trace] == expected
    assert app.closed == bare.closed
    returned, started = ("returned",) in trace, [event[1] for event in trace if event[0] == "start"]
    assert len(uses) == (bool(started) if returned else 1)
    if returned and started and trace.index(("returned",)) > 0:
        known = [event[1] for event in trace[: trace.index(("returned",))] if event[0] == "start"]
        assert uses[0].status == int((known or started[:1])[-1][:3])


def without_ours(event: tuple[Any, ...]) -> tuple[Any, ...]:
    if event[0] != "start":
        return event
    kind, status, headers, replaced = event
    assert headers[-3:] == [("Vary", "Authorization"), *OURS]
    return kind, status, headers[:-3], replaced
