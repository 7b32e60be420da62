"""The two operations as a Flask blueprint: a thin entry point to the service, and the
only module that needs Flask.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any
from urllib.parse import parse_qsl
from weakref import ref
from wsgiref.types import StartResponse, WSGIEnvironment

import flask
import orjson
from werkzeug.exceptions import NotFound

from flask_notifications.plans.operations import Operation, notification_operations
from flask_notifications.problems import Problems, Statuses
from flask_notifications.responses import FileBody, PlainResponse, wrap_file
from flask_notifications.sessions.credential import resolve, resolve_header
from flask_notifications.validation import require

from .records import ArrayWriter, Encode, Schema
from .service import Identify, NotificationService
from .storage import Caller, NotificationStorage

View = Callable[..., flask.Response]

# The environ key of a weak reference to the file of a response.
_OPEN_BODY = "flask_notifications.file"


def create_blueprint(
    storage: NotificationStorage[Caller],
    *,
    name: str = "notifications",
    url_prefix: str = "/API/Notification",
    schema: Schema | type[Schema] | None = None,
    encode: Encode = orjson.dumps,
    statuses: Statuses = Statuses(),  # noqa: B008 - frozen
    spool_threshold: int = 8_388_608,
    realm: str = "notifications",
    successors: bool = False,
    identify: Identify[Caller] | None = None,
) -> flask.Blueprint:
    """Create a blueprint that serves the two operations from a storage.

    Paths are exact, with or without one slash at their end, and never redirect,
    whatever your application sets for its own routes. ``DeprecationMiddleware`` adds
    the other spellings of legacy clients. With another ``url_prefix`` it needs a plan
    of ``notification_operations(url_prefix)``.

    :param storage: an instance with the methods of ``NotificationStorage``.
    :param name: the name of the blueprint in your application, by default
        ``"notifications"``.
    :param url_prefix: a plain path that begins with a slash, by default
        ``"/API/Notification"``.
    :param schema: a marshmallow schema, as a class or an instance, that dumps the
        records first, by default none.
    :param encode: a function that takes a list of records and returns the bytes of a
        JSON array, by default ``orjson.dumps``.
    :param statuses: other status codes for four errors, by default none.
    :param spool_threshold: the size in bytes, 0 or more, up to which an array is kept
        in memory, by default 8 MiB. A larger one is written to a temporary file in
        ``TMPDIR``, which must be on a disk.
    :param realm: the protection space in challenges (RFC 9110 section 11.5), by default
        ``"notifications"``.
    :param successors: whether to serve the operations that replace the two as well, by
        default not. They are ``GET {url_prefix}/CurrentUser`` and
        ``GET {url_prefix}/Account?accountId=``, with the session in the header.
    :param identify: a function from a caller to a label for observers, or to ``None``.
        It is called once per request. A label that is not 1 to 64 printable characters,
        or contains the session ID, is dropped. By default there are no labels.
    :raises ValueError: an argument does not fit; the message names it.
    """
    require(isinstance(name, str), "name", "the name of a blueprint as a string", name)
    require(isinstance(successors, bool), "successors", "True or False", successors)
    operations = _list_operations(url_prefix)
    prefix = url_prefix.rstrip("/")
    writer = ArrayWriter(encode=encode, schema=schema, spool_threshold=spool_threshold)
    problems = Problems(statuses=statuses, realm=realm)
    service = NotificationService(
        storage, writer=writer, problems=problems, identify=identify
    )
    blueprint = flask.Blueprint(name, __name__, url_prefix=prefix)
    blueprint.record(_set_up)
    views = _make_views(service)
    for operation in operations:
        _add(
            blueprint,
            operation.path.removeprefix(prefix),
            operation.method,
            views[operation.name],
        )
        if successors and operation.successor is not None:
            _add(
                blueprint,
                operation.successor.removeprefix(prefix),
                "GET",
                views[f"{operation.name}_successor"],
            )
    return blueprint


def _list_operations(url_prefix: str) -> tuple[Operation, ...]:
    """Return the operations below a prefix, which must be the same path to Flask's
    rules as to operations.
    """
    is_plain = (
        isinstance(url_prefix, str)
        and url_prefix.strip("/")
        and set("{}%").isdisjoint(url_prefix)
    )
    require(
        is_plain,
        "url_prefix",
        "a plain path that begins with '/', as '/API/Notification'",
        url_prefix,
    )
    try:
        return notification_operations(url_prefix)
    except ValueError as error:
        message = f"url_prefix {url_prefix!r} fits no operation: {error}"
        raise ValueError(message) from error


def _set_up(state: flask.blueprints.BlueprintSetupState) -> None:
    flask.got_request_exception.connect(_close_unsent_file, state.app)
    # Another prefix, given to ``register_blueprint``: Flask would redirect to the
    # slashes at its end.
    state.url_prefix = str(state.url_prefix).rstrip("/") or "/"


def _add(blueprint: flask.Blueprint, path: str, method: str, view: View) -> None:
    """Add both spellings of a path, each of them exact whatever your application sets
    for its own rules.

    A single rule that ignores the slash would serve ``//`` too. A default that only one
    of the two has keeps Werkzeug from redirecting one spelling to the other where the
    blueprint is registered with ``url_defaults``.
    """
    exact = path.rstrip("/").replace("{", "<string:").replace("}", ">")
    spellings: dict[str, dict[str, Any]] = {exact: {"slash": False}, f"{exact}/": {}}
    for rule, defaults in spellings.items():
        blueprint.add_url_rule(
            rule,
            view_func=view,
            methods=[method],
            defaults=defaults,
            strict_slashes=True,
            merge_slashes=False,
        )


def _make_views(service: NotificationService[Caller]) -> dict[str, View]:
    """Return the view functions by their names."""

    def current_user(environ: WSGIEnvironment) -> PlainResponse:
        return service.current_user(resolve(environ), environ)

    def account(environ: WSGIEnvironment) -> PlainResponse:
        # Flask decodes the parameter leniently, so the bytes are read from the path as
        # the server received it.
        segment = environ["PATH_INFO"].removesuffix("/").rpartition("/")[2]
        if segment in {".", ".."}:
            raise NotFound
        return service.account(resolve(environ), segment.encode("latin-1"), environ)

    def current_user_successor(environ: WSGIEnvironment) -> PlainResponse:
        return service.current_user(resolve_header(environ), environ)

    def account_successor(environ: WSGIEnvironment) -> PlainResponse:
        pairs = parse_qsl(
            environ.get("QUERY_STRING", ""), keep_blank_values=True, encoding="latin-1"
        )
        values = [value for key, value in pairs if key == "accountId"]
        account_id = values[0].encode("latin-1", "replace") if len(values) == 1 else b""
        return service.account(resolve_header(environ), account_id, environ)

    views = (current_user, account, current_user_successor, account_successor)
    return {view.__name__: _make_view(view) for view in views}


def _make_view(respond: Callable[[WSGIEnvironment], PlainResponse]) -> View:
    @wraps(respond)
    def view(
        **_parameters: Any,
    ) -> (
        flask.Response
    ):  # the prefix of your application may have parameters of its own
        environ = flask.request.environ
        # Werkzeug serves "p" and "//p" as "/p". The middleware does not match them, so
        # they are refused here.
        if not environ["PATH_INFO"].startswith("/") or environ["PATH_INFO"].startswith(
            "//"
        ):
            raise NotFound
        plain = respond(environ)
        if isinstance(plain.body, bytes):
            return flask.Response([plain.body], plain.status, plain.headers)
        body = FileBody(plain.body)
        environ[_OPEN_BODY] = ref(
            body
        )  # weak, so that the file is closed if a hook returns another response
        return FileResponse(body, plain)

    return view


def _close_unsent_file(_app: flask.Flask, **_exception: Exception) -> None:
    """Close the file of a response that is not sent, because a hook of your application
    raised an exception.

    The frames of the exception refer to the response, and keep the file open for as
    long as the exception exists. After an exit, such as ``SystemExit``, of which Flask
    sends no signal, the garbage collector closes the file.
    """
    if _OPEN_BODY in flask.request.environ:
        body = flask.request.environ[_OPEN_BODY]()
        if body is not None:
            body.close()


class FileResponse(flask.Response):
    """Send a file through the server's own file wrapper, as long as no hook has
    replaced the body.
    """

    _has_callbacks = False
    _file: FileBody | None = None

    def __init__(self, body: FileBody, plain: PlainResponse) -> None:
        super().__init__(body, plain.status, plain.headers)
        self._file = body

    def close(self) -> None:
        """Close the response and its file, even if a hook has wrapped the file in a
        generator that never started.
        """
        try:
            super().close()
        finally:
            if self._file is not None:
                self._file.close()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the file, so that caches can pickle a response after ``freeze()``."""
        return {name: value for name, value in vars(self).items() if name != "_file"}

    def call_on_close(self, func: Callable[[], Any]) -> Callable[[], Any]:
        """Register a function to call after the body has been sent, which a server's
        file wrapper does not.
        """
        self._has_callbacks = True
        return super().call_on_close(func)

    def get_app_iter(self, environ: WSGIEnvironment) -> Iterable[bytes]:
        """Return the iterable for the server; Werkzeug knows which responses have no
        body.
        """
        has_body = environ["REQUEST_METHOD"] != "HEAD" and self.status_code not in {
            204,
            304,
        }
        if has_body and isinstance(self.response, FileBody) and not self._has_callbacks:
            return wrap_file(self.response.take_file(), environ)
        return super().get_app_iter(environ)

    def __call__(
        self, environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        """Send the response (PEP 3333), and close its file if the server refuses to
        start it.
        """
        try:
            return super().__call__(environ, start_response)
        except BaseException:
            self.close()
            raise
