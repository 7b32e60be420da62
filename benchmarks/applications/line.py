"""A small Flask view: as it is, with the middleware, and with the headers in a hook."""

import flask

from benchmarks.work import ANNOUNCEMENT, POLICY
from flask_notifications import DeprecationMiddleware, Operation

PATH, SUCCESSOR = "/API/Reports", "/API/Notification/CurrentUser"


def _make_app() -> flask.Flask:
    app = flask.Flask(__name__)

    @app.get(PATH)
    def reports() -> dict[str, int]:
        return {"reports": 7}

    return app


def _announce(response: flask.Response) -> flask.Response:
    response.headers.update(ANNOUNCEMENT)
    return response


plain = _make_app()
hook = _make_app()
hook.after_request(_announce)
line = _make_app()
_plan = {Operation("reports", "GET", PATH, SUCCESSOR): POLICY}
line.wsgi_app = DeprecationMiddleware(line.wsgi_app, _plan)  # type: ignore[method-assign]
