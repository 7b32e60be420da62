"""A complete response, and how WSGI sends it."""

from io import BytesIO
from typing import Any
from wsgiref.util import FileWrapper

import pytest

from flask_notifications.responses import (
    BLOCK,
    FileBody,
    PlainResponse,
    build_response,
    reason_phrase,
    send_response,
    wrap_file,
)
from tests.wsgi import call, environ_of


def respond_from_memory() -> PlainResponse:
    return build_response(200, "application/json", b"[]", 2)


def respond_from_file(content: bytes = b"[{}]") -> PlainResponse:
    return build_response(200, "application/json", BytesIO(content), len(content))


def make_app(response: PlainResponse) -> Any:
    """Return an application that sends a response."""
    return lambda environ, start_response: send_response(response, environ, start_response)


def test_a_response_has_its_type_its_length_the_common_headers_and_then_the_others() -> None:
    assert build_response(404, "text/plain", b"no", 2, [("Allow", "GET")]) == PlainResponse(
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
    assert reason_phrase(status) == expected
    assert build_response(status, "text/plain", b"", 0).status == f"{status} {expected}"


@pytest.mark.parametrize("make", [respond_from_memory, respond_from_file])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_a_response_is_sent_completely_and_to_head_without_its_body(make: Any, method: str) -> None:
    response = make()
    body = response.body if isinstance(response.body, bytes) else response.body.getvalue()
    sent = call(make_app(response), method)
    assert sent.wire == (response.status, list(response.headers), b"" if method == "HEAD" else body)
    if not isinstance(response.body, bytes):
        assert response.body.closed


def test_a_large_file_is_sent_to_its_end() -> None:
    content = b"[" + b"0123456789" * 100_000 + b"]"
    assert call(make_app(respond_from_file(content))).body == content


def test_the_file_wrapper_of_the_server_gets_the_file_itself() -> None:
    file = BytesIO(b"[{}]")

    class Wrapper(FileWrapper):
        """A file that a server passes to sendfile."""

    body = wrap_file(file, {**environ_of(), "wsgi.file_wrapper": Wrapper})
    assert type(body) is Wrapper
    assert body.filelike is file


@pytest.mark.parametrize("extra", [{}, {"wsgi.file_wrapper": None}], ids=["absent", "None"])
def test_a_server_without_a_file_wrapper_gets_blocks(extra: dict[str, Any]) -> None:
    body = wrap_file(BytesIO(b"[{}]"), {**environ_of(), **extra})
    assert not isinstance(body, FileWrapper)  # fastwsgi mistakes every class of this name for Werkzeug's
    assert b"".join(body) == b"[{}]"


def test_a_response_never_changes() -> None:
    response = respond_from_memory()
    with pytest.raises(AttributeError):
        response.status = "500 Internal Server Error"  # type: ignore[misc] # the mistake that is tested


# A file as the body of a Flask response.


def test_a_file_body_is_read_in_blocks_and_closed_at_its_end() -> None:
    file = BytesIO(b"x" * (BLOCK + 1))
    blocks = iter(FileBody(file))
    assert len(next(blocks)) == BLOCK
    assert not file.closed
    assert [len(block) for block in blocks] == [1]
    assert file.closed


def test_a_file_body_is_closed_when_nothing_refers_to_it() -> None:
    file = BytesIO(b"x")
    body = FileBody(file)
    assert not file.closed
    del body
    assert file.closed


def test_a_file_taken_from_a_body_stays_open_until_the_body_is_closed() -> None:
    body = FileBody(BytesIO(b"x"))
    file = body.take_file()
    assert not file.closed
    body.close()
    assert file.closed


def test_a_file_taken_from_a_body_outlives_the_body() -> None:
    file = FileBody(BytesIO(b"x")).take_file()
    assert file.read() == b"x"


# Closing.


def test_a_body_that_is_never_read_is_closed() -> None:
    file = BytesIO(b"[{}]")
    body: Any = wrap_file(file, environ_of())
    body.close()
    assert file.closed


def test_a_server_that_refuses_the_headers_leaves_no_file_open() -> None:
    response = respond_from_file()

    def refuse(*_args: object) -> Any:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        send_response(response, environ_of(), refuse)
    assert response.body.closed  # type: ignore[union-attr] # it is a file


def test_a_response_that_is_sent_twice_has_two_lists_of_headers() -> None:
    response = respond_from_memory()
    lists: list[list[tuple[str, str]]] = []

    def start_response(_status: str, headers: list[tuple[str, str]], _exc_info: Any = None) -> Any:
        headers.append(("Server", "x"))
        lists.append(headers)

    for _time in range(2):
        send_response(response, environ_of(), start_response)
    assert lists[0] == lists[1] == [*response.headers, ("Server", "x")]


def test_closing_a_response_in_memory_does_nothing() -> None:
    respond_from_memory().close()
    response = respond_from_file()
    response.close()
    assert response.body.closed  # type: ignore[union-attr] # it is a file
