"""One operation in seven routers, each as lenient as users configure it; ``X-Router`` chooses the router.

``X-Phase: sunset`` switches the operation off.
"""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import bottle
import django
import falcon
import flask
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpResponse
from django.urls import re_path
from pyramid.config import Configurator
from pyramid.response import Response

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, NotificationApp, create_blueprint
from flask_notifications.testing import MemoryStorage

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PATH = "/API/Notification/"
ROWS = [{"name": "Weekly sales"}]
BODY = json.dumps(ROWS).encode()
STORAGE = MemoryStorage(sessions={"s3cret": "alice"}, notifications={"alice": ROWS})

DATE = datetime(2026, 1, 1, tzinfo=UTC)
OPEN = DeprecationPolicy(deprecated_at=DATE)
ENDED = DeprecationPolicy(deprecated_at=DATE, sunset_at=DATE, enforce_sunset=True)

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], DEBUG=False, MIDDLEWARE=[], SECRET_KEY="tests")  # noqa: S106
django.setup()
urlpatterns = [re_path(r"(?i)^API/Notification/?$", lambda _request: HttpResponse(BODY))]


def _make_blueprint() -> "WSGIApplication":
    app = flask.Flask("blueprint")
    app.url_map.strict_slashes = False
    app.register_blueprint(create_blueprint(STORAGE))
    return app


def _make_flask() -> "WSGIApplication":
    app = flask.Flask("views")
    app.add_url_rule(PATH, view_func=lambda: BODY, endpoint="rows", methods=["GET", "POST"], strict_slashes=False)
    return app


def _make_falcon() -> "WSGIApplication":
    class Rows:
        def on_get(self, _request: Any, response: Any) -> None:
            response.data = BODY

    app: Any = falcon.App()
    app.req_options.strip_url_path_trailing_slash = True
    app.add_route(PATH.rstrip("/"), Rows())
    # Imitate routers that merge slashes, because Falcon does not.
    app.add_sink(lambda request, response: Rows().on_get(request, response), prefix=r"/+API/+Notification/*$")
    return app  # type: ignore[no-any-return]


def _make_bottle() -> "WSGIApplication":
    app = bottle.Bottle()
    app.route(PATH, "GET", lambda: BODY)
    return app  # type: ignore[no-any-return]


def _make_pyramid() -> "WSGIApplication":
    with Configurator() as config:
        config.add_route("rows", PATH)
        config.add_view(lambda _request: Response(BODY), route_name="rows")
        app: WSGIApplication = config.make_wsgi_app()
        return app


ROUTERS: dict[str, Callable[[], "WSGIApplication"]] = {
    "blueprint": _make_blueprint,
    "NotificationApp": lambda: NotificationApp(STORAGE),
    "flask": _make_flask,
    "django": WSGIHandler,
    "pyramid": _make_pyramid,
    "falcon": _make_falcon,
    "bottle": _make_bottle,
}
_APPLICATIONS = {name: make() for name, make in ROUTERS.items()}
_STACKS = {
    phase: {name: DeprecationMiddleware(app, policy) for name, app in _APPLICATIONS.items()}
    for phase, policy in (("open", OPEN), ("sunset", ENDED))
}


def application(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    """Serve a request with the router and in the phase that its headers name."""
    stack = _STACKS[environ.get("HTTP_X_PHASE", "open")]
    return stack[environ.get("HTTP_X_ROUTER", "flask")](environ, start_response)
