"""Hooks of an application may read and change responses in memory and in a file, and every file is closed."""

import copy
import gzip
import hashlib
import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO
from wsgiref.util import FileWrapper

import flask
import pytest
from werkzeug.exceptions import HTTPException

from flask_notifications import AccessDenied
from flask_notifications.blueprint import _OPEN_BODY, _close_unsent_file
from tests.storages import (
    ACCOUNT,
    BEARER,
    CURRENT_USER,
    SESSION_ID,
    OneSession,
    deprecated,
    flask_app,
    raising,
)
from tests.wsgi import Response, call, environ_of, run

ALICE = ACCOUNT.format("alice")
RECORDS = [{"n": number} for number in range(1000)]
ARRAY = json.dumps(RECORDS, separators=(",", ":")).encode()
THRESHOLDS = pytest.mark.parametrize("threshold", [1_000_000, 100], ids=["in memory", "in a file"])

Hook = Callable[[flask.Response], flask.Response | None]


def get(app: Any, query: str = "", **extra: Any) -> Response:
    return call(app, "GET", CURRENT_USER, query, **{**BEARER, **extra})


def app_with(hook: Hook, threshold: int = 1_000_000, *later: Hook) -> flask.Flask:
    """Return an application with ``after_request`` functions, which Flask calls in the given order."""
    app = flask_app(OneSession(lambda: RECORDS), spool_threshold=threshold)
    for each in (hook, *later):
        # Flask calls the functions last to first.
        app.after_request_funcs.setdefault(None, []).insert(
            0, lambda response, each=each: response if (changed := each(response)) is None else changed
        )
    return app


class Sendfile(FileWrapper):
    """The file wrapper of a server."""


# Errors and requests.


def test_error_handlers_of_the_application_handle_its_own_pages_only() -> None:
    app = flask_app(OneSession(raising(AccessDenied())))

    @app.errorhandler(403)
    @app.errorhandler(404)
    @app.errorhandler(Exception)
    def handle(_error: Exception) -> tuple[str, int]:
        return "the application's own", 418

    assert call(app, "GET", "/elsewhere").code == 418
    assert call(app, "POST", ALICE, **BEARER).json["code"] == "access_denied"
    assert get(flask_app(OneSession(raising(ValueError())))).json["code"] == "storage_error"


def test_all_hooks_run_and_can_add_headers() -> None:
    app, steps = flask_app(OneSession()), list[str]()

    @app.before_request
    def before() -> None:
        steps.append(f"before {flask.request.endpoint}")

    @app.after_request
    def after(response: flask.Response) -> flask.Response:
        steps.append("after")
        response.headers["X-Own"] = "1"
        return response

    @app.teardown_request
    def teardown(error: BaseException | None) -> None:
        steps.append(f"teardown {error}")

    assert get(app).one("X-Own") == "1"
    assert steps == ["before notifications.current_user", "after", "teardown None"]


def test_a_request_that_a_hook_refuses_never_reaches_the_storage() -> None:
    storage = OneSession()
    app = flask_app(storage)
    app.before_request(lambda: flask.abort(429))
    assert get(app).code == 429
    assert storage.calls == []


# Changes of the status, the headers and the body.


def set_status(response: flask.Response) -> None:
    response.status = "299 Fine"


def set_code(response: flask.Response) -> None:
    response.status_code = 299


def set_header(response: flask.Response) -> None:
    response.headers["X-Own"] = "1"


def set_cookie(response: flask.Response) -> None:
    response.set_cookie("seen", "1")


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        (set_status, lambda response: response.status == "299 Fine"),
        (set_code, lambda response: response.code == 299),
        (set_header, lambda response: response.one("X-Own") == "1"),
        (set_cookie, lambda response: response.one("Set-Cookie") == "seen=1; Path=/"),
    ],
)
@THRESHOLDS
def test_one_change_leaves_everything_else_unchanged(
    change: Callable[[Any], None], changed: Callable[[Response], bool], threshold: int, spooled: list[BinaryIO]
) -> None:
    plain = get(flask_app(OneSession(lambda: RECORDS)))
    response = get(app_with(change, threshold))
    assert changed(response)
    assert set(plain.headers) <= set(response.headers)
    assert response.body == ARRAY
    assert all(file.closed for file in spooled)


@THRESHOLDS
def test_a_header_that_is_deleted_is_not_sent(threshold: int) -> None:
    def delete(response: flask.Response) -> None:
        del response.headers["Cache-Control"]

    response = get(app_with(delete, threshold))
    assert (response.body, response.all("Cache-Control")) == (ARRAY, [])


def replace_body(response: flask.Response) -> None:
    response.set_data(b'["instead"]')


def clear_length(response: flask.Response) -> None:
    response.response = [b'["instead"]']
    del response.headers["Content-Length"]


def remove_content(response: flask.Response) -> None:
    response.status_code = 204


def mark_unmodified(response: flask.Response) -> None:
    response.status_code = 304


def redirect(response: flask.Response) -> None:
    response.headers["Location"] = "/café"


def locate(response: flask.Response) -> None:
    response.headers["Content-Location"] = "/café"


@pytest.mark.parametrize(
    ("change", "body", "headers"),
    [
        (replace_body, b'["instead"]', {"Content-Length": ["11"]}),
        (clear_length, b'["instead"]', {"Content-Length": ["11"]}),
        (remove_content, b"", {"Content-Length": []}),
        (mark_unmodified, b"", {"Content-Length": [], "Content-Type": []}),
        (redirect, ARRAY, {"Location": ["/caf%C3%A9"]}),
        (locate, ARRAY, {"Content-Location": ["/caf%C3%A9"]}),
    ],
)
@THRESHOLDS
def test_flask_corrects_changes_as_in_any_other_response(
    change: Hook, body: bytes, headers: dict[str, list[str]], threshold: int, spooled: list[BinaryIO]
) -> None:
    response = run(app_with(change, threshold), environ_of("GET", CURRENT_USER, **BEARER))
    assert response.body == body
    assert {name: response.all(name) for name in headers} == headers
    assert all(file.closed for file in spooled)


# Hooks that read or replace the body.


def read_data(response: flask.Response) -> None:
    assert response.get_data() == ARRAY


def read_property(response: flask.Response) -> None:
    assert response.data == ARRAY
    assert response.data == ARRAY


def read_json(response: flask.Response) -> None:
    assert response.json == RECORDS


def read_length(response: flask.Response) -> None:
    assert response.calculate_content_length() == len(ARRAY)


def read_blocks(response: flask.Response) -> None:
    assert b"".join(response.iter_encoded()) == ARRAY
    response.set_data(ARRAY)


def read_sequence(response: flask.Response) -> None:
    response.make_sequence()
    assert not response.is_streamed


def add_etag(response: flask.Response) -> None:
    response.add_etag()
    assert response.headers["ETag"] == f'"{hashlib.sha1(ARRAY).hexdigest()}"'  # noqa: S324 - Werkzeug's ETag


def freeze(response: flask.Response) -> None:
    response.freeze()


READERS: list[Hook] = [
    *(read_data, read_property, read_json, read_length, read_blocks, read_sequence),
    *(add_etag, freeze),
]


@pytest.mark.parametrize("hook", READERS, ids=lambda hook: hook.__name__)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("wrapper", [{}, {"wsgi.file_wrapper": Sendfile}], ids=["no file wrapper", "file wrapper"])
@THRESHOLDS
def test_a_hook_may_read_the_body(
    hook: Hook, method: str, wrapper: dict[str, Any], threshold: int, spooled: list[BinaryIO]
) -> None:
    response = call(app_with(hook, threshold), method, CURRENT_USER, **BEARER, **wrapper)
    assert response.code == 200
    assert response.one("Content-Length") == str(len(ARRAY))
    assert response.body == (b"" if method == "HEAD" else ARRAY)
    assert all(file.closed for file in spooled)


@THRESHOLDS
def test_the_file_is_closed_as_soon_as_a_hook_has_read_it(threshold: int, spooled: list[BinaryIO]) -> None:
    def check_files(_response: flask.Response) -> None:
        assert all(file.closed for file in spooled)

    assert get(app_with(read_data, threshold, check_files)).body == ARRAY


def make_conditional(response: flask.Response) -> None:
    response.add_etag()
    response.make_conditional(flask.request)


@THRESHOLDS
def test_a_conditional_request_gets_304_from_a_hook_that_checks_the_condition(
    threshold: int, spooled: list[BinaryIO]
) -> None:
    app = app_with(make_conditional, threshold)
    etag = get(app).one("ETag")
    again = get(app, HTTP_IF_NONE_MATCH=etag)
    assert (again.code, again.body) == (304, b"")
    assert get(app, HTTP_IF_NONE_MATCH='"another"').body == ARRAY
    assert all(file.closed for file in spooled)


@THRESHOLDS
def test_a_hook_may_respond_to_a_range_request(threshold: int, spooled: list[BinaryIO]) -> None:
    def accept_ranges(response: flask.Response) -> None:
        response.make_conditional(flask.request, accept_ranges=True, complete_length=len(ARRAY))

    response = get(app_with(accept_ranges, threshold), HTTP_RANGE="bytes=100-8999")
    assert (response.code, response.body) == (206, ARRAY[100:9000])
    assert response.one("Content-Range") == f"bytes 100-8999/{len(ARRAY)}"
    assert all(file.closed for file in spooled)


def compress(response: flask.Response) -> None:
    response.set_data(gzip.compress(response.get_data(), mtime=0))
    response.headers["Content-Encoding"] = "gzip"


def compress_while_sending(response: flask.Response) -> None:
    """Compress each block when it is sent, as Flask-Compress does for a streamed response."""
    response.direct_passthrough = False

    def compress_blocks(blocks: Iterator[bytes]) -> Iterator[bytes]:
        for block in blocks:
            yield gzip.compress(block, mtime=0)

    response.response = compress_blocks(response.iter_encoded())
    response.headers["Content-Encoding"] = "gzip"
    del response.headers["Content-Length"]


@pytest.mark.parametrize("hook", [compress, compress_while_sending])
@THRESHOLDS
def test_a_hook_may_compress_the_body(hook: Hook, threshold: int, spooled: list[BinaryIO]) -> None:
    assert gzip.decompress(get(app_with(hook, threshold)).body) == ARRAY
    assert all(file.closed for file in spooled)


def copy_response(response: flask.Response) -> flask.Response:
    return copy.copy(response)


def pickle_response(response: flask.Response) -> flask.Response:
    response.freeze()
    pickled = pickle.dumps(response)
    assert SESSION_ID.encode() not in pickled
    loaded: flask.Response = pickle.loads(pickled)  # noqa: S301 - pickled above
    return loaded


def respond_with_the_data(response: flask.Response) -> flask.Response:
    return flask.Response(response.get_data(), headers=response.headers)


def respond_with_a_stream(response: flask.Response) -> flask.Response:
    def read() -> Iterator[bytes]:
        yield from response.iter_encoded()

    return flask.Response(read(), headers=response.headers)


REPLACERS: list[Hook] = [copy_response, pickle_response, respond_with_the_data, respond_with_a_stream]


@pytest.mark.parametrize("hook", REPLACERS, ids=lambda hook: hook.__name__)
@THRESHOLDS
def test_a_hook_may_return_another_response_with_the_same_body(
    hook: Hook, threshold: int, spooled: list[BinaryIO]
) -> None:
    response = get(app_with(hook, threshold))
    assert (response.code, response.body, response.one("Content-Length")) == (200, ARRAY, str(len(ARRAY)))
    assert all(file.closed for file in spooled)


def test_a_response_in_memory_can_be_sent_again() -> None:
    kept: list[flask.Response] = []
    app = app_with(kept.append)
    app.before_request(lambda: kept[0] if kept else None)
    first, again = get(app), get(app)
    assert (again.status, again.headers, again.body) == (first.status, first.headers, first.body)


@THRESHOLDS
def test_the_status_and_headers_can_be_read_after_the_response_was_sent(threshold: int) -> None:
    seen: list[tuple[int, str]] = []
    app = app_with(lambda response: setattr(flask.g, "response", response), threshold)

    @app.teardown_request
    def teardown(_error: BaseException | None) -> None:
        seen.append((flask.g.response.status_code, flask.g.response.headers["Content-Length"]))

    assert get(app).body == ARRAY
    assert seen == [(200, str(len(ARRAY)))]


class CustomResponse(flask.Response):
    """The response class that an application sets for all of its views."""


@pytest.mark.parametrize("hook", [set_header, *READERS, compress_while_sending, respond_with_a_stream])
@THRESHOLDS
def test_hooks_get_the_applications_own_response_class(hook: Hook, threshold: int, spooled: list[BinaryIO]) -> None:
    classes: list[type] = []
    app = app_with(lambda response: classes.append(type(response)), threshold, hook)
    app.response_class = CustomResponse
    plain = app_with(hook)
    assert get(app).wire == get(plain).wire
    assert classes == [CustomResponse]
    assert all(file.closed for file in spooled)


# Closing the file.


def fail(_response: flask.Response) -> None:
    raise ValueError


def abort(_response: flask.Response) -> None:
    flask.abort(418)


def respond_otherwise(_response: flask.Response) -> flask.Response:
    return flask.Response("instead")


@pytest.mark.parametrize("hook", [fail, abort], ids=lambda hook: hook.__name__)
@pytest.mark.parametrize(
    "first", [set_header, read_data, replace_body, compress_while_sending], ids=lambda hook: hook.__name__
)
@pytest.mark.parametrize("response_class", [flask.Response, CustomResponse])
@pytest.mark.parametrize("propagate", [False, True])
def test_the_file_is_closed_when_a_hook_raises(
    hook: Hook, first: Hook, response_class: type[flask.Response], propagate: bool, spooled: list[BinaryIO]
) -> None:
    app = app_with(first, 100, hook)
    app.response_class = response_class
    app.config["PROPAGATE_EXCEPTIONS"] = propagate
    if propagate:
        with pytest.raises((ValueError, HTTPException)) as caught:
            get(app)
        # The traceback is kept, as in a debugger, and its frames refer to the response.
        assert caught.tb is not None
    else:
        assert get(app).code != 200
    assert [file.closed for file in spooled] == [True]


@pytest.mark.parametrize("response_class", [flask.Response, CustomResponse])
def test_the_file_is_closed_when_a_hook_returns_another_response(
    response_class: type[flask.Response], spooled: list[BinaryIO]
) -> None:
    app = app_with(respond_otherwise, 100)
    app.response_class = response_class
    assert get(app).body == b"instead"
    assert [file.closed for file in spooled] == [True]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("hook", [set_header, compress_while_sending, read_data], ids=lambda hook: hook.__name__)
@pytest.mark.parametrize("wrapper", [{}, {"wsgi.file_wrapper": Sendfile}], ids=["no file wrapper", "file wrapper"])
def test_the_file_is_closed_when_the_server_refuses_to_start(
    hook: Hook, method: str, wrapper: dict[str, Any], spooled: list[BinaryIO]
) -> None:
    def refuse(*_arguments: object) -> Any:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError) as caught:
        app_with(hook, 100)(environ_of(method, CURRENT_USER, **BEARER, **wrapper), refuse)
    assert [file.closed for file in spooled] == [True]
    assert caught.tb is not None  # the frames refer to the response


@pytest.mark.parametrize("parts", [0, 1])
@pytest.mark.parametrize("hook", [set_header, compress_while_sending], ids=lambda hook: hook.__name__)
@pytest.mark.parametrize("wrap", [lambda app: app, deprecated], ids=["alone", "middleware"])
def test_the_file_is_closed_when_the_client_disconnects(
    hook: Hook, parts: int, wrap: Callable[[Any], Any], spooled: list[BinaryIO]
) -> None:
    environ = environ_of("GET", CURRENT_USER, **BEARER)
    body: Any = wrap(app_with(hook, 100))(environ, lambda *_arguments: lambda _data: None)
    assert [file.closed for file in spooled] == [False]
    for _number in range(parts):
        next(iter(body))
    body.close()
    assert [file.closed for file in spooled] == [True]


def test_a_large_response_with_added_headers_is_sent_by_the_server() -> None:
    environ = environ_of("GET", CURRENT_USER, **BEARER) | {"wsgi.file_wrapper": Sendfile}
    body: Any = app_with(set_header, 100)(environ, lambda *_arguments: lambda _data: None)
    assert type(body) is Sendfile
    assert body.filelike.fileno() > 2
    assert b"".join(body) == ARRAY
    body.close()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("wrapper", [{}, {"wsgi.file_wrapper": Sendfile}], ids=["no file wrapper", "file wrapper"])
@THRESHOLDS
def test_a_call_on_close_function_is_called_once(method: str, wrapper: dict[str, Any], threshold: int) -> None:
    done: list[str] = []

    def register(response: flask.Response) -> None:
        response.call_on_close(lambda: done.append("done"))

    app = app_with(register, threshold)
    response = call(app, method, CURRENT_USER, **BEARER, **wrapper)
    assert (response.code, len(response.body)) == (200, len(ARRAY) if method == "GET" else 0)
    assert done == ["done"]


def test_a_file_that_is_gone_already_is_not_closed_again() -> None:
    app = flask.Flask("app")
    with app.test_request_context(environ_overrides={_OPEN_BODY: lambda: None}):
        _close_unsent_file(app, exception=ValueError())
