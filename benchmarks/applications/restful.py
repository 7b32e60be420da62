"""Flask with Flask-RESTful, which marshals through fields of its own."""

import flask
import flask_restful
from flask_restful import fields

from benchmarks.work import ANNOUNCEMENT, PATH, RECORDS_OF, SESSIONS, Record

CONDITION = {
    "measure": fields.String,
    "operator": fields.String,
    "value": fields.Integer,
    "currency": fields.String,
}
NOTIFICATION = {
    "id": fields.String,
    "name": fields.String,
    "kind": fields.String,
    "schedule": fields.String,
    "recipients": fields.List(fields.String),
    "condition": fields.Nested(CONDITION),
    "createdOn": fields.String,
    "comment": fields.String,
}


class Notifications(flask_restful.Resource):
    """The records of a session's user."""

    @flask_restful.marshal_with(NOTIFICATION)
    def get(self) -> list[Record]:
        """Return the records."""
        session_id = flask.request.args.get("sessionId")
        if session_id is None:
            session_id = flask.request.headers.get("Authorization", "").removeprefix("Bearer ")
        if session_id not in SESSIONS:
            flask_restful.abort(401)
        return RECORDS_OF[SESSIONS[session_id]]


application = flask.Flask(__name__)
application.secret_key = "not a secret"


@application.after_request
def announce(response: flask.Response) -> flask.Response:
    """Announce the retirement."""
    response.headers.update(ANNOUNCEMENT)
    return response


flask_restful.Api(application).add_resource(Notifications, PATH)
