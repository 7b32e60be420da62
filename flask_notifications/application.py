"""The two operations as a plain WSGI application: a thin door to the service, without Flask."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import orjson

from .operations import ACCOUNT, CURRENT_USER, NOTIFICATION_OPERATIONS, Operation, OperationTable
from .problems import Problems, Statuses
from .records import Encode, Schema
from .replies import Reply, send
from .service import NotificationService
from .sessions import resolve
from .storage import Caller, NotificationStorage

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


class NotificationApp:
    """Serve the two operations as a WSGI application of its own.

    Takes what ``create_blueprint`` takes and answers the same bytes. ``operations`` are the two to serve, told apart by
    their names ``current_user`` and ``account``; paths are matched as legacy clients spell them. Another path is
    answered 404, another method 405 with ``Allow``, both as ``application/problem+json``.

    Raises ``ValueError`` naming the argument that does not fit.
    """

    __slots__ = ("_problems", "_service", "_table")

    def __init__(
        self,
        storage: NotificationStorage[Caller],
        *,
        schema: Schema | None = None,
        encode: Encode = orjson.dumps,
        statuses: Statuses = Statuses(),  # noqa: B008 - frozen
        spool_threshold: int = 8_388_608,
        realm: str = "notifications",
        operations: Iterable[Operation] = NOTIFICATION_OPERATIONS,
    ) -> None:
        self._service = NotificationService(
            storage, schema=schema, encode=encode, statuses=statuses, spool_threshold=spool_threshold, realm=realm
        )
        self._problems = Problems(statuses=statuses, realm=realm)
        self._table = OperationTable(operations)
        for operation in self._table.operations:
            _check_operation(operation)

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer a request (PEP 3333)."""
        return send(self._reply(environ), environ, start_response)

    def _reply(self, environ: "WSGIEnvironment") -> Reply:
        path = environ.get("PATH_INFO", "")
        claim = self._table.match(environ["REQUEST_METHOD"], path)
        if claim is None:
            return self._unclaimed(path)
        session = resolve(environ)
        if claim.operation.name == ACCOUNT:
            return self._service.account(session, claim.parameters[0].encode("latin-1", "replace"))
        return self._service.current_user(session)

    def _unclaimed(self, path: str) -> Reply:
        methods = self._table.methods(path)
        if not methods:
            return self._problems.reply("not_found")
        return self._problems.reply("method_not_allowed", extra=[("Allow", ", ".join(methods))])


def _check_operation(operation: Operation) -> None:
    if operation.name not in {CURRENT_USER, ACCOUNT} or operation.path.count("{") != (operation.name == ACCOUNT):
        message = f"operations must be named {CURRENT_USER}, or {ACCOUNT} with one path parameter, not {operation}"
        raise ValueError(message)
