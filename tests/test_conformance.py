"""The middleware conforms to PEP 3333, whatever an application does.

The checks find what ``wsgiref.validate`` misses. Middlewares that are broken on purpose show that the checks work.
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
ADDED = [("Deprecation", "@1767225600"), ("Link", '</new>; rel="successor-version"')]
OPERATIONS = [
    Operation("page", "GET", "/page", "/new", rewrite_path=True, unify_session=True),
    Operation("post", "POST", "/page", "/new", rewrite_path=True, unify_session=True),
]
TEXT = ("Content-Type", "text/plain")
COOKIES = [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]
QUERY = "sessionId=s"


def wrap_once(app: "WSGIApplication") -> "WSGIApplication":
    return DeprecationMiddleware(app, POLICY, operations=OPERATIONS)


def wrap_twice(app: "WSGIApplication") -> "WSGIApplication":
    return wrap_once(wrap_once(app))


# Behaviours of applications.


class Body:
    """An iterable that counts the parts that were read, and how often it was closed."""

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


def respond(start_response: "StartResponse") -> Body:
    start_response("200 OK", [TEXT, *COOKIES])
    return Body([b"first", b"second"])


def respond_with_write(start_response: "StartResponse") -> Body:
    write = start_response("200 OK", [TEXT, *COOKIES])
    write(b"written")
    return Body([b"first"])


def replace_the_start(start_response: "StartResponse") -> Body:
    start_response("200 OK", [TEXT])
    try:
        raise ValueError  # noqa: TRY301 - PEP 3333 requires an exception that is being handled
    except ValueError:
        start_response("500 Internal Server Error", [TEXT, *COOKIES], sys.exc_info())
    return Body([b"sorry"])


def respond_not_modified(start_response: "StartResponse") -> Body:
    start_response("304 Not Modified", [("ETag", '"1"'), *COOKIES])
    return Body([])


def respond_lazily(start_response: "StartResponse") -> Body:
    return Body([b"first", b"second"], lambda: start_response("200 OK", [TEXT, *COOKIES]))


BEHAVIOURS: dict[str, tuple[Behaviour, str, bytes]] = {
    "plain": (respond, "200 OK", b"firstsecond"),
    "write": (respond_with_write, "200 OK", b"writtenfirst"),
    "exc_info": (replace_the_start, "500 Internal Server Error", b"sorry"),
    "304": (respond_not_modified, "304 Not Modified", b""),
    "lazy": (respond_lazily, "200 OK", b"firstsecond"),
}


class App:
    """An application with one behaviour that keeps its bodies."""

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
    """Check that both sides of the middleware satisfy the validators."""
    for behaviour, status, body in BEHAVIOURS.values():
        response = run(between_validators(wrap, App(behaviour)), environ())
        assert (response.status, response.body) == (status, body)


def check_every_header_is_kept(wrap: "Wrap") -> None:
    """Check that all headers are kept, repeated ones too, and that any start, even a replaced one, is announced."""
    for behaviour, _status, _body in BEHAVIOURS.values():
        app = App(behaviour)
        response, bare = run(wrap(app), environ()), run(app, environ())
        assert [header for header in response.headers if header[0] == "Set-Cookie"] == COOKIES
        assert all(header in response.headers for header in (*bare.headers, *ADDED))


def check_every_header_can_be_sent(wrap: "Wrap") -> None:
    for behaviour, _status, _body in BEHAVIOURS.values():
        for name, value in run(wrap(App(behaviour)), environ()).headers:
            assert value.encode("latin-1").isascii()
            assert f"{name}{value}".isprintable()


def check_closed_once(wrap: "Wrap") -> None:
    """Check bodies that were read to the end, in part, or not at all."""
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
    """Check that the first part arrives before the second is produced."""
    for behaviour in (respond, respond_lazily):
        app = App(behaviour)
        body = wrap(app)(environ(), lambda *_arguments: lambda _data: None)
        assert sum(each.produced for each in app.bodies) == 0
        assert next(iter(body)) == b"first"
        assert app.bodies[0].produced == 1


def check_the_iterable_is_the_same(wrap: "Wrap") -> None:
    """Check that a server can recognise its own file wrapper."""
    file = FileWrapper(BytesIO(b"data"))

    def app(_environ: "WSGIEnvironment", start_response: "StartResponse") -> FileWrapper:
        start_response("200 OK", [TEXT])
        return file

    assert wrap(app)(environ(), lambda *_arguments: lambda _data: None) is file


CHECKS: "list[Callable[[Wrap], None]]" = [
    check_between_validators,
    check_every_header_is_kept,
    check_every_header_can_be_sent,
    check_closed_once,
    check_nothing_is_read_ahead,
    check_the_iterable_is_the_same,
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("wrap", [wrap_once, wrap_twice])
def test_the_middleware_conforms(check: "Callable[[Wrap], None]", wrap: "Wrap") -> None:
    check(wrap)


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_nothing_but_the_announcement_is_added(behaviour: str, method: str) -> None:
    """The validators report nothing either, because a warning of theirs would fail the test."""
    app = App(BEHAVIOURS[behaviour][0])
    wrapped = run(between_validators(wrap_once, app), {**environ(method), "QUERY_STRING": ""})
    bare = run(app, environ(method))
    assert (wrapped.status, wrapped.body) == (bare.status, bare.body)
    assert wrapped.headers == [*bare.headers, ("Vary", "Authorization"), *ADDED]


def test_a_body_that_is_not_read_passes_the_validators() -> None:
    app = App(respond)
    body: Any = between_validators(wrap_once, app)(environ(), lambda *_arguments: lambda _data: None)
    body.close()
    assert (app.bodies[0].closed, app.bodies[0].produced) == (1, 0)


# Middlewares that are broken on purpose.


def iterate_without_close(app: "WSGIApplication") -> "WSGIApplication":
    def wrapped(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterator[bytes]:
        for part in app(environ, add_headers(start_response)):  # noqa: UP028 - "yield from" would close it in part
            yield part

    return wrapped


def iterate_and_close_at_the_end(app: "WSGIApplication") -> "WSGIApplication":
    def wrapped(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterator[bytes]:
        body: Any = app(environ, add_headers(start_response))
        try:
            for part in body:  # noqa: UP028 - "yield from" would close it as well
                yield part
        finally:
            body.close()

    return wrapped


def join_body(app: "WSGIApplication") -> "WSGIApplication":
    def wrapped(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        body: Any = app(environ, add_headers(start_response))
        data = b"".join(body)
        body.close()
        return [data]

    return wrapped


def list_body(app: "WSGIApplication") -> "WSGIApplication":
    return lambda environ, start_response: iter(list(app(environ, add_headers(start_response))))


class Relay:
    """Iterate over a body, and close it more than once."""

    def __init__(self, body: Any) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        yield from self._body
        self._body.close()

    def close(self) -> None:
        self._body.close()


def close_twice(app: "WSGIApplication") -> "WSGIApplication":
    return lambda environ, start_response: Relay(app(environ, add_headers(start_response)))


def add_headers(start_response: Any, change: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Return a ``start_response`` that adds the announcement, then changes the list."""

    def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        headers = [*headers, *ADDED]
        changed = headers if change is None else change(headers)
        return start_response(status, changed, exc_info) if exc_info else start_response(status, changed)

    return start


def change_headers(change: Callable[[list[tuple[str, Any]]], Any]) -> "Wrap":
    return lambda app: lambda environ, start_response: app(environ, add_headers(start_response, change))


def change_start_response(make: Callable[[Any], Any]) -> "Wrap":
    return lambda app: lambda environ, start_response: app(environ, make(start_response))


def reject_exc_info(start_response: Any) -> Any:
    return lambda status, headers: start_response(status, [*headers, *ADDED])


def drop_exc_info(start_response: Any) -> Any:
    return lambda status, headers, exc_info=None: start_response(status, [*headers, *ADDED])  # noqa: ARG005 - broken on purpose


def drop_write(start_response: Any) -> Any:
    def start(*arguments: Any) -> None:
        add_headers(start_response)(*arguments)

    return start


def add_headers_once(start_response: Any) -> Any:
    def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        return start_response(status, headers, exc_info) if exc_info else add_headers(start_response)(status, headers)

    return start


def pass_keywords(start_response: Any) -> Any:
    return lambda status, headers, exc_info=None: start_response(
        status=status, headers=[*headers, *ADDED], exc_info=exc_info
    )


BROKEN: "dict[str, tuple[Wrap, list[Callable[[Wrap], None]]]]" = {
    "generator without close": (iterate_without_close, [check_closed_once, check_the_iterable_is_the_same]),
    "generator with finally": (iterate_and_close_at_the_end, [check_closed_once, check_the_iterable_is_the_same]),
    "joins the body": (join_body, [check_nothing_is_read_ahead, check_the_iterable_is_the_same]),
    "lists the body": (list_body, [check_closed_once, check_nothing_is_read_ahead, check_the_iterable_is_the_same]),
    "closes twice": (close_twice, [check_closed_once, check_the_iterable_is_the_same]),
    "no exc_info": (change_start_response(reject_exc_info), [check_between_validators, check_every_header_is_kept]),
    "exc_info not forwarded": (change_start_response(drop_exc_info), [check_between_validators]),
    "write not returned": (change_start_response(drop_write), [check_between_validators]),
    "headers in a dict": (change_headers(lambda headers: list(dict(headers).items())), [check_every_header_is_kept]),
    "headers in a tuple": (change_headers(tuple), [check_between_validators]),
    "lines in a value": (
        change_headers(lambda headers: [*headers, ("X", "a\r\nY: b")]),
        [check_every_header_can_be_sent],
    ),
    "value not latin-1": (
        change_headers(lambda headers: [*headers, ("X", "\u20ac")]),
        [check_every_header_can_be_sent],
    ),
    "number for a value": (change_headers(lambda headers: [*headers, ("X", 1)]), [check_between_validators]),
    "headers added once": (change_start_response(add_headers_once), [check_every_header_is_kept]),
    "keyword arguments": (change_start_response(pass_keywords), [check_between_validators]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_middleware_is_caught(name: str) -> None:
    wrap, checks = BROKEN[name]
    for check in checks:
        with pytest.raises((AssertionError, TypeError, AttributeError, UnicodeEncodeError)):
            check(wrap)


def test_a_correct_middleware_passes_every_check() -> None:
    for check in CHECKS:
        check(change_headers(lambda headers: headers))


# Any sequence of calls.


class Failure(Exception):
    """Raised by the applications of these tests."""


Step = tuple[str, Any]


class Server:
    """Serve as PEP 3333 specifies, and record each event."""

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
        except (Failure, AssertionError) as failure:
            self.trace.append(("raised", type(failure)))
        if body is not None:
            body.close()
        return self.trace


class Scripted:
    """An application that takes given steps when it is called, and further steps before each part of its body."""

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


STARTS = st.sampled_from(
    [
        ("200 OK", [TEXT]),
        ("404 Not Found", [TEXT, *COOKIES]),
        ("304 Not Modified", []),
        ("500 Oops", [("X-A", "1")] * 2),
    ]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), STARTS),
        st.tuples(st.just("restart"), STARTS),
        st.tuples(st.just("write"), st.sampled_from([b"", b"written"])),
        st.tuples(st.just("raise"), st.none()),
    ),
    max_size=4,
)


@given(STEPS, st.lists(STEPS, max_size=3), st.sampled_from([1, 2]))
def test_any_sequence_of_calls_is_as_without_the_middleware(
    called: list[Step], read: list[list[Step]], times: int
) -> None:
    bare, app, uses = Scripted(called, read), Scripted(called, read), list[Use]()
    wrapped: WSGIApplication = app
    for _time in range(times):
        wrapped = DeprecationMiddleware(wrapped, POLICY, operations=OPERATIONS, observers=[uses.append])
    expected, trace = Server().serve(bare), Server().serve(wrapped)
    assert [without_added(event) for event in trace] == expected
    assert app.closed == bare.closed
    returned, started = ("returned",) in trace, [event[1] for event in trace if event[0] == "start"]
    assert len(uses) == 1
    if returned and started and trace.index(("returned",)) > 0:
        known = [event[1] for event in trace[: trace.index(("returned",))] if event[0] == "start"]
        assert uses[0].status == int((known or started[:1])[-1][:3])


def without_added(event: tuple[Any, ...]) -> tuple[Any, ...]:
    if event[0] != "start":
        return event
    kind, status, headers, replaced = event
    assert headers[-3:] == [("Vary", "Authorization"), *ADDED]
    return kind, status, headers[:-3], replaced
