"""The two operations as a plain WSGI application, a thin entry point to the service."""

from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIEnvironment

import orjson

from flask_notifications.plans.operations import (
    ACCOUNT,
    ANY_METHOD,
    CURRENT_USER,
    REST,
    Operation,
    OperationTable,
    notification_operations,
)
from flask_notifications.problems import Problems, Statuses
from flask_notifications.responses import PlainResponse, send_response
from flask_notifications.sessions.credential import resolve

from .records import ArrayWriter, Encode, Schema
from .service import Identify, NotificationService
from .storage import Caller, NotificationStorage


class NotificationApp:
    """Serve the two operations as a WSGI application of its own.

    It takes the arguments of ``create_blueprint``, and its responses have the same
    bytes. Paths are matched as legacy clients spell them. The response to another path
    is 404, and to another method 405 with ``Allow``, both ``application/problem+json``.

    :param storage: an instance with the methods of ``NotificationStorage``.
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
    :param operations: the operations to serve, named ``current_user`` or ``account``,
        by default both at their original paths.
    :param identify: a function from a caller to a label for observers, or to ``None``.
        It is called once per request. A label that is not 1 to 64 printable characters,
        or contains the session ID, is dropped. By default there are no labels.
    :raises ValueError: an argument does not fit; the message names it.
    """

    __slots__ = ("_problems", "_service", "_table")

    def __init__(
        self,
        storage: NotificationStorage[Caller],
        *,
        schema: Schema | type[Schema] | None = None,
        encode: Encode = orjson.dumps,
        statuses: Statuses = Statuses(),  # noqa: B008 - frozen
        spool_threshold: int = 8_388_608,
        realm: str = "notifications",
        operations: Iterable[Operation] = notification_operations(),
        identify: Identify[Caller] | None = None,
    ) -> None:
        writer = ArrayWriter(
            encode=encode, schema=schema, spool_threshold=spool_threshold
        )
        self._problems = Problems(statuses=statuses, realm=realm)
        self._service = NotificationService(
            storage, writer=writer, problems=self._problems, identify=identify
        )
        self._table = OperationTable(operations)
        for operation in self._table.operations:
            _check_operation(operation)

    def __call__(
        self, environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        """Respond to a request (PEP 3333)."""
        return send_response(self._respond(environ), environ, start_response)

    def _respond(self, environ: WSGIEnvironment) -> PlainResponse:
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
        match = self._table.match(method, path, environ)
        if match is None:
            return self._refuse(method, path)
        session = resolve(environ)
        if match.operation.name == ACCOUNT:
            (account_id,) = match.parameters.values()
            return self._service.account(
                session, account_id.encode("latin-1", "replace"), environ
            )
        return self._service.current_user(session, environ)

    def _refuse(self, method: str, path: str) -> PlainResponse:
        methods = self._table.methods(path)
        # An operation may have this method, but conditions that the request fails.
        is_method_allowed = not {method.upper(), ANY_METHOD}.isdisjoint(methods)
        if not methods or is_method_allowed:
            return self._problems.respond("not_found")
        return self._problems.respond(
            "method_not_allowed", extra=[("Allow", ", ".join(methods))]
        )


def _check_operation(operation: Operation) -> None:
    parameters = {CURRENT_USER: 0, ACCOUNT: 1}
    if (
        operation.path.count("{") != parameters.get(operation.name)
        or REST in operation.path
    ):
        message = (
            f"operations must be named {CURRENT_USER}, or {ACCOUNT} with one path"
            f" parameter, not {operation}"
        )
        raise ValueError(message)
