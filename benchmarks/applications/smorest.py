"""Flask with flask-smorest, which dumps through a marshmallow schema."""

import flask
import flask_smorest
import marshmallow
from flask_smorest import abort

from benchmarks.work import ANNOUNCEMENT, PATH, RECORDS_OF, SESSIONS, Record


class Condition(marshmallow.Schema):
    """When a notification is sent."""

    measure = marshmallow.fields.String()
    operator = marshmallow.fields.String()
    value = marshmallow.fields.Integer()
    currency = marshmallow.fields.String()


class Notification(marshmallow.Schema):
    """A record."""

    id = marshmallow.fields.String()
    name = marshmallow.fields.String()
    kind = marshmallow.fields.String()
    schedule = marshmallow.fields.String()
    recipients = marshmallow.fields.List(marshmallow.fields.String())
    condition = marshmallow.fields.Nested(Condition)
    createdOn = marshmallow.fields.String()
    comment = marshmallow.fields.String()


application = flask.Flask(__name__)
application.secret_key = "not a secret"
application.config.update(API_TITLE="Notifications", API_VERSION="1", OPENAPI_VERSION="3.0.3")
blueprint = flask_smorest.Blueprint("notifications", __name__)


@blueprint.route(PATH)
@blueprint.response(200, Notification(many=True))
def notifications() -> list[Record]:
    """Return the records of the session's user."""
    session_id = flask.request.args.get("sessionId")
    if session_id is None:
        session_id = flask.request.headers.get("Authorization", "").removeprefix("Bearer ")
    if session_id not in SESSIONS:
        abort(401)
    return RECORDS_OF[SESSIONS[session_id]]


@application.after_request
def announce(response: flask.Response) -> flask.Response:
    """Announce the retirement."""
    response.headers.update(ANNOUNCEMENT)
    return response


flask_smorest.Api(application).register_blueprint(blueprint)
