"""The two operations as a Flask blueprint: a thin door to the service, and the only room that imports Flask."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

import flask
import orjson
from werkzeug.datastructures import Headers
from werkzeug.exceptions import NotFound

from .fields import expect
from .operations import Operation, notification_operations
from .problems import Statuses
from .records import Encode, Schema
from .replies import Reply, body_of, send
from .service import NotificationService
from .sessions import resolve, resolve_header
from .storage import Caller, NotificationStorage

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

View = Callable[..., flask.Response]


def create_blueprint(
    storage: NotificationStorage[Caller],
    *,
    name: str = "notifications",
    url_prefix: str = "/API/Notification",
    schema: Schema | None = None,
    encode: Encode = orjson.dumps,
    statuses: Statuses = Statuses(),  # noqa: B008 - frozen
    spool_threshold: int = 8_388_608,
    realm: str = "notifications",
    successors: bool = False,
) -> flask.Blueprint:
    """Create a blueprint that serves the two operations from a storage.

    ``encode`` takes a list of records and returns the bytes of a JSON array; ``schema``, a marshmallow schema, dumps
    the records first. ``spool_threshold`` is the size in bytes up to which an answer is kept in memory; a larger one
    goes through a temporary file in ``TMPDIR``, which must be on a disk. ``realm`` is the protection space that
    challenges name (RFC 9110 section 11.5). With ``successors=True`` the operations that take their place are served
    too: ``GET {url_prefix}/CurrentUser`` and ``GET {url_prefix}/Account?accountId=``, the session in the header only.

    Paths are exact, with or without one trailing slash, and never redirect; ``DeprecationMiddleware`` adds the other
    spellings of legacy clients. It needs ``operations=notification_operations(url_prefix)`` when the prefix is another.

    Raises ``ValueError`` naming the argument that does not fit.
    """
    operations = _operations(url_prefix)
    prefix = url_prefix.rstrip("/")
    service = NotificationService(
        storage, schema=schema, encode=encode, statuses=statuses, spool_threshold=spool_threshold, realm=realm
    )
    blueprint = flask.Blueprint(name, __name__, url_prefix=prefix)
    views = _views(service)
    for operation in operations:
        _add(blueprint, operation.path.removeprefix(prefix), operation.method, views[operation.name])
        if successors and operation.successor is not None:
            _add(blueprint, operation.successor.removeprefix(prefix), "GET", views[f"{operation.name}_successor"])
    return blueprint


def _operations(url_prefix: str) -> tuple[Operation, ...]:
    """Return the operations below a prefix, which is to be the same path for Flask's rules as for operations."""
    expect(
        isinstance(url_prefix, str) and url_prefix.strip("/") and set("{}%").isdisjoint(url_prefix),
        "url_prefix",
        "a plain path that begins with '/', as '/API/Notification'",
        url_prefix,
    )
    try:
        return notification_operations(url_prefix)
    except ValueError as fault:
        message = f"url_prefix {url_prefix!r} fits no operation: {fault}"
        raise ValueError(message) from fault


def _add(blueprint: flask.Blueprint, path: str, method: str, view: View) -> None:
    """Register both spellings: a rule that ignores the slash also serves ``//``, and Flask redirects what it merges."""
    exact = path.rstrip("/").replace("{", "<").replace("}", ">")
    for rule in (exact, f"{exact}/"):
        blueprint.add_url_rule(rule, view.__name__, view, methods=[method], merge_slashes=False)


def _views(service: NotificationService[Caller]) -> dict[str, View]:
    """Return the view functions by the names of their endpoints; a host's prefix may have parameters of its own."""

    def current_user(**_parameters: str) -> flask.Response:
        environ = _environ()
        return _Answer(service.current_user(resolve(environ)), environ)

    def account(**_parameters: str) -> flask.Response:
        environ = _environ()
        # Flask has decoded the parameter leniently; the path as the server passes it on tells what came.
        segment = environ["PATH_INFO"].removesuffix("/").rpartition("/")[2]
        if segment in {".", ".."}:
            raise NotFound
        return _Answer(service.account(resolve(environ), segment.encode("latin-1")), environ)

    def current_user_successor(**_parameters: str) -> flask.Response:
        environ = _environ()
        return _Answer(service.current_user(resolve_header(environ)), environ)

    def account_successor(**_parameters: str) -> flask.Response:
        environ = _environ()
        pairs = parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True, encoding="latin-1")
        values = [value for key, value in pairs if key == "accountId"]
        account_id = values[0].encode("latin-1", "replace") if len(values) == 1 else b""
        return _Answer(service.account(resolve_header(environ), account_id), environ)

    views: list[View] = [current_user, account, current_user_successor, account_successor]
    return {view.__name__: view for view in views}


def _environ() -> "WSGIEnvironment":
    """Return the request's environ; a path that begins with no slash, or with two, counts as one to Werkzeug only."""
    request: flask.Request = flask.request._get_current_object()  # type: ignore[attr-defined]
    environ = request.environ
    path = environ["PATH_INFO"]
    if path[:1] != "/" or path[1:2] == "/":
        raise NotFound
    return environ


class _Answer(flask.Response):
    """A reply that becomes a response when somebody looks at it or changes it, as the host's own functions may.

    As long as nobody has, it is sent as it came, and spares Werkzeug both the making of a response and its corrections.
    One with a file is a response from the start: there is one file, and nothing to spare.
    """

    def __init__(self, reply: Reply, environ: "WSGIEnvironment") -> None:
        if isinstance(reply.body, bytes):
            self.__dict__["_reply"] = reply
        else:
            super().__init__(body_of(reply, environ), reply.status, Headers(reply.fields), direct_passthrough=True)

    def __getattr__(self, name: str) -> Any:
        """Return what a response has and a reply has not."""
        self._become_a_response()
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute of the response; ``__class__`` too, where the host has one of its own."""
        self._become_a_response()
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        """Delete an attribute of the response."""
        self._become_a_response()
        super().__delattr__(name)

    def __getstate__(self) -> object:
        """Return what copies and caches keep: that of a response."""
        self._become_a_response()
        return super().__getstate__()

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer a request (PEP 3333)."""
        reply: Reply | None = self.__dict__.get("_reply")
        return super().__call__(environ, start_response) if reply is None else send(reply, environ, start_response)

    def _become_a_response(self) -> None:
        reply: Reply | None = self.__dict__.get("_reply")
        if reply is not None:
            whole = flask.Response((cast("bytes", reply.body),), reply.status, Headers(reply.fields))
            # All at once: two threads may look at an answer that a host keeps.
            self.__dict__.update(vars(whole))
            self.__dict__.pop("_reply", None)
