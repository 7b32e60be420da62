"""Flask as it is usually written, with orjson; and the same with ``jsonify``."""

from collections.abc import Callable

import flask
import orjson

from benchmarks.work import ANNOUNCEMENT, PATH, RECORDS_OF, SESSIONS, Record


def _dump(records: list[Record]) -> flask.Response:
    return flask.Response(orjson.dumps(records), mimetype="application/json")


def _application(respond: Callable[[list[Record]], flask.Response]) -> flask.Flask:
    app = flask.Flask(__name__)
    app.secret_key = "not a secret"

    @app.get(PATH)
    def notifications() -> flask.Response:
        session_id = flask.request.args.get("sessionId")
        if session_id is None:
            session_id = flask.request.headers.get("Authorization", "").removeprefix(
                "Bearer "
            )
        if session_id not in SESSIONS:
            flask.abort(401)
        return respond(RECORDS_OF[SESSIONS[session_id]])

    @app.after_request
    def announce(response: flask.Response) -> flask.Response:
        response.headers.update(ANNOUNCEMENT)
        return response

    return app


usual = _application(_dump)
jsonified = _application(flask.jsonify)
