"""A finished answer, and how WSGI sends it."""

from io import BytesIO
from typing import Any
from wsgiref.util import FileWrapper

import pytest

from flask_notifications.replies import Reply, body_of, compose, phrase, send
from tests.wsgi import call, environ_of


def in_memory() -> Reply:
    return compose(200, "application/json", b"[]", 2)


def in_a_file(content: bytes = b"[{}]") -> Reply:
    return compose(200, "application/json", BytesIO(content), len(content))


def sender(reply: Reply) -> Any:
    return lambda environ, start_response: send(reply, environ, start_response)


def test_an_answer_carries_its_type_its_length_its_guards_and_then_the_rest() -> None:
    assert compose(404, "text/plain", b"no", 2, [("Allow", "GET")]) == Reply(
        "404 Not Found",
        (
            ("Content-Type", "text/plain"),
            ("Content-Length", "2"),
            ("Cache-Control", "no-store"),
            ("Vary", "Authorization"),
            ("X-Content-Type-Options", "nosniff"),
            ("Allow", "GET"),
        ),
        b"no",
    )


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, "OK"),
        (410, "Gone"),
        (503, "Service Unavailable"),
        (440, "Login Time-out"),
        (499, "Client Error"),
        (599, "Server Error"),
    ],
)
def test_every_status_has_a_phrase(status: int, expected: str) -> None:
    assert phrase(status) == expected
    assert compose(status, "text/plain", b"", 0).status == f"{status} {expected}"


@pytest.mark.parametrize("make", [in_memory, in_a_file])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_an_answer_is_sent_whole_and_to_head_without_its_body(make: Any, method: str) -> None:
    reply = make()
    whole = reply.body if isinstance(reply.body, bytes) else reply.body.getvalue()
    answer = call(sender(reply), method)
    assert answer.wire == (reply.status, list(reply.fields), b"" if method == "HEAD" else whole)
    if not isinstance(reply.body, bytes):
        assert reply.body.closed


def test_a_large_file_is_sent_to_its_end() -> None:
    content = b"[" + b"0123456789" * 100_000 + b"]"
    assert call(sender(in_a_file(content))).body == content


def test_the_servers_own_file_wrapper_gets_the_file_and_nothing_around_it() -> None:
    reply = in_a_file()

    class Wrapper(FileWrapper):
        """What a server would hand to sendfile."""

    body = body_of(reply, {**environ_of(), "wsgi.file_wrapper": Wrapper})
    assert type(body) is Wrapper
    assert body.filelike is reply.body


def test_a_body_that_nobody_reads_is_closed_all_the_same() -> None:
    reply = in_a_file()
    body: Any = body_of(reply, environ_of())
    body.close()
    assert reply.body.closed  # type: ignore[union-attr] # it is a file


def test_a_server_that_refuses_the_fields_leaves_no_file_open() -> None:
    reply = in_a_file()

    def refuse(*_args: object) -> Any:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        send(reply, environ_of(), refuse)
    assert reply.body.closed  # type: ignore[union-attr] # it is a file


def test_each_sending_has_a_list_of_fields_of_its_own() -> None:
    reply = in_memory()
    lists: list[list[tuple[str, str]]] = []

    def start_response(_status: str, headers: list[tuple[str, str]], _exc_info: Any = None) -> Any:
        headers.append(("Server", "x"))
        lists.append(headers)

    for _time in range(2):
        send(reply, environ_of(), start_response)
    assert lists[0] == lists[1] == [*reply.fields, ("Server", "x")]


def test_closing_an_answer_in_memory_is_nothing() -> None:
    in_memory().close()
    reply = in_a_file()
    reply.close()
    assert reply.body.closed  # type: ignore[union-attr] # it is a file
