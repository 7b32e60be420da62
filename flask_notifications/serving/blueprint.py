"""The two operations as a Flask blueprint, a thin entry point to the service."""

import re
from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import parse_qsl
from wsgiref.types import WSGIEnvironment

import flask
import orjson
from werkzeug.exceptions import NotFound

from flask_notifications.log import log_warning
from flask_notifications.notice import SERVED
from flask_notifications.plans.operations import Operation, notification_operations
from flask_notifications.problems import Problems, Statuses
from flask_notifications.responses import PlainResponse, wrap_file
from flask_notifications.sessions.credential import resolve, resolve_header
from flask_notifications.validation import require

from .records import ArrayWriter, Encode, Schema
from .service import Identify, NotificationService
from .storage import Caller, NotificationStorage

View = Callable[..., flask.Response]

# A segment with a parameter in a URL rule of Flask.
_VARIABLE = re.compile(r"[^/]*<(?:[^<>]*:)?(\w+)>[^/]*")


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
    :raises ValueError: an argument does not fit; the message names it. Registering the
        blueprint raises it if the application is not Flask's, or has ``host_matching``.
    """
    operations = _list_operations(url_prefix)
    prefix = url_prefix.rstrip("/")
    writer = ArrayWriter(encode=encode, schema=schema, spool_threshold=spool_threshold)
    problems = Problems(statuses=statuses, realm=realm)
    service = NotificationService(
        storage,
        writer=writer,
        problems=problems,
        identify=identify,
        is_debugging=_is_debugging,
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
    """Return the operations below a prefix, which must be a plain path to Flask too."""
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
    app = state.app
    require(isinstance(app, flask.Flask), "app", "a Flask application", app)
    require(
        not app.url_map.host_matching,
        "app",
        "an application without host_matching; mount a NotificationApp instead",
        app,
    )
    # ``register_blueprint`` may set another prefix. If that kept a slash at its end, no
    # rule would be without one, and Flask would redirect to it.
    state.url_prefix = str(state.url_prefix).rstrip("/") or "/"


def _add(blueprint: flask.Blueprint, path: str, method: str, view: View) -> None:
    """Add two exact rules for a path, without and with a slash at its end.

    One rule with ``strict_slashes=False`` would serve ``//`` too. If the blueprint is
    registered with ``url_defaults``, Werkzeug redirects between rules with the same
    defaults, so one of the two has an additional default.
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
        _warn_unless_matched(environ)
        return service.current_user(resolve(environ), environ)

    def account(environ: WSGIEnvironment) -> PlainResponse:
        # Flask decodes the parameter leniently, so the bytes are read from the path as
        # the server received it.
        segment = environ["PATH_INFO"].removesuffix("/").rpartition("/")[2]
        if segment in {".", ".."}:
            raise NotFound
        _warn_unless_matched(environ)
        return service.account(resolve(environ), segment.encode("latin-1"), environ)

    def current_user_successor(environ: WSGIEnvironment) -> PlainResponse:
        return service.current_user(resolve_header(environ), environ)

    def account_successor(environ: WSGIEnvironment) -> PlainResponse:
        pairs = parse_qsl(
            environ.get("QUERY_STRING", ""), keep_blank_values=True, encoding="latin-1"
        )
        values = [value for key, value in pairs if key == "accountId"]
        account_id = b""  # invalid
        if len(values) == 1:
            account_id = values[0].encode("latin-1", "replace")
        return service.account(resolve_header(environ), account_id, environ)

    views = (current_user, account, current_user_successor, account_successor)
    return {view.__name__: _make_view(view) for view in views}


def _make_view(respond: Callable[[WSGIEnvironment], PlainResponse]) -> View:
    @wraps(respond)
    def view(**_parameters: Any) -> flask.Response:
        # The parameters are unused; those of your own prefix are among them.
        environ = flask.request.environ
        path = environ["PATH_INFO"]
        # Werkzeug serves "p" and "//p" as "/p", but the blueprint's paths are exact.
        if not path.startswith("/") or path.startswith("//"):
            raise NotFound
        plain = respond(environ)
        if isinstance(plain.body, bytes):
            return flask.Response([plain.body], plain.status, plain.headers)
        body = wrap_file(plain.body, environ)
        # Passed through as ``flask.send_file`` does, because a server can use
        # ``sendfile`` only for a body that nothing wraps.
        return flask.Response(
            body, plain.status, plain.headers, direct_passthrough=True
        )

    return view


def _warn_unless_matched(environ: WSGIEnvironment) -> None:
    """Log once per endpoint that no middleware matched its request, and the remedy."""
    app, endpoint = flask.current_app, flask.request.endpoint
    if SERVED in environ or app.testing:
        return
    warned = app.extensions.setdefault("flask_notifications", {})
    warning = object()
    # ``setdefault`` is atomic, so only one of several concurrent requests logs.
    if warned.setdefault(endpoint, warning) is not warning:
        return
    rule = str(flask.request.url_rule).rstrip("/")
    path = _VARIABLE.sub(r"{\1}", rule)
    prefix = path.removesuffix("/GetNotificationsForAccount/{id}") or "/"
    log_warning(
        "%s announces nothing, because no DeprecationMiddleware has matched a request"
        " for it. Wrap the application in one, with a plan of the operations at this"
        ' path: notification_operations("%s")',
        endpoint,
        prefix,
    )


def _is_debugging() -> bool:
    """Return whether Flask lets the exceptions of views propagate."""
    app = flask.current_app
    return app.testing or app.debug
