"""Records that are dumped through a marshmallow schema."""

import orjson

from benchmarks.applications.ours import Storage
from benchmarks.applications.raw import make_application
from benchmarks.candidates import check
from benchmarks.clients import WsgiClient
from benchmarks.parts import Part, Results, column, of_records
from benchmarks.rounds import Effort, time_requests
from benchmarks.work import POLICY, RECORDS_OF, ROWS_OF, session_of
from flask_notifications import DeprecationMiddleware, NotificationApp

USER = 10_000
COLUMN = of_records(USER)
OURS, DUMP = "NotificationApp, schema=", "schema.dump(many=True), orjson"


def measure(effort: Effort) -> Results:
    """Return the microseconds of a request."""
    from benchmarks.applications.smorest import Notification

    schema = Notification()
    clients = {
        OURS: WsgiClient(DeprecationMiddleware(NotificationApp(Storage(ROWS_OF), schema=schema), POLICY)),
        DUMP: WsgiClient(make_application(lambda user: [orjson.dumps(schema.dump(RECORDS_OF[user], many=True))])),
    }
    for name, client in clients.items():
        check(name, client, session_of(USER))
    return column(
        COLUMN, time_requests({name: client.repeat(session_of(USER)) for name, client in clients.items()}, effort)
    )


PART = Part(
    "schema",
    "Microseconds of processor time for one request, whose records go through a marshmallow schema of eight fields.",
    (COLUMN,),
    (OURS, DUMP),
    measure,
)
