"""Extensions and frameworks behave as docs/wsgi.md says."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import flask
import pytest
from flask_caching import Cache
from flask_jwt_extended import JWTManager, verify_jwt_in_request
from flask_seasurf import SeaSurf
from flask_wtf.csrf import CSRFProtect
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client, TestResponse

from flask_notifications import (
    DeprecationMiddleware,
    Operation,
    create_blueprint,
    notification_operations,
    session_of,
)
from flask_notifications.testing import MemoryStorage
from tests.frameworks.applications import django_application, library
from tests.middleware import CLOSED, DATE_ONLY

# Flask-SeaSurf 2.0.0 on Python 3.12 and newer.
pytestmark = pytest.mark.filterwarnings(
    "ignore:datetime.datetime.utcnow:DeprecationWarning"
)

KEY = "no secret, but long enough for a signature"
STORAGE = MemoryStorage(
    sessions={"s3cret": "alice"}, notifications={"alice": [{"name": "Weekly sales"}]}
)
PLAN = dict.fromkeys(notification_operations(), DATE_ONLY)
ACCOUNT = "/api/notification/getnotificationsforaccount/alice?sessionid=s3cret"


def build_app(*extend: Callable[[flask.Flask], object]) -> flask.Flask:
    """Return an application with the blueprint, after calling each function with it."""
    app = flask.Flask("shop")
    app.config.update(SECRET_KEY=KEY, JWT_SECRET_KEY=KEY)
    app.register_blueprint(create_blueprint(STORAGE))
    for extension in extend:
        extension(app)
    return app


def call_account(app: flask.Flask) -> TestResponse:
    return Client(DeprecationMiddleware(app, PLAN)).post(ACCOUNT)


def jwt_everywhere(app: flask.Flask) -> None:
    JWTManager(app)
    app.before_request(verify_jwt_in_request)


def jwt_elsewhere(app: flask.Flask) -> None:
    JWTManager(app)

    @app.before_request
    def check_token() -> None:
        if flask.request.blueprint != "notifications":
            verify_jwt_in_request()


@pytest.mark.parametrize(
    ("extension", "status", "exempt"),
    [
        (
            CSRFProtect,
            400,
            lambda app: CSRFProtect(app).exempt(app.blueprints["notifications"]),
        ),
        (
            SeaSurf,
            403,
            lambda app: SeaSurf(app).exempt(
                app.view_functions["notifications.account"]
            ),
        ),
        (jwt_everywhere, 422, jwt_elsewhere),
    ],
    ids=["CSRFProtect", "SeaSurf", "Flask-JWT-Extended"],
)
def test_an_extension_refuses_a_legacy_client_unless_the_blueprint_is_exempt(
    extension: Callable[[flask.Flask], object],
    status: int,
    exempt: Callable[[flask.Flask], object],
) -> None:
    refused = call_account(build_app(extension))
    assert (refused.status_code, refused.headers["Deprecation"]) == (
        status,
        "@1767225600",
    )
    assert call_account(build_app(exempt)).get_json() == [{"name": "Weekly sales"}]


CURRENT_USER = "/API/Notification/?sessionId=s3cret"


def test_a_mount_inside_is_matched_from_where_the_middleware_is() -> None:
    path, site = f"/shop{CURRENT_USER}", flask.Flask("site")
    inside = DispatcherMiddleware(site, {"/shop": build_app()})
    assert "Link" not in Client(DeprecationMiddleware(inside, PLAN)).get(path).headers
    plan = dict.fromkeys(notification_operations("/shop/API/Notification"), DATE_ONLY)
    prefixed = DeprecationMiddleware(inside, plan)
    retired = DeprecationMiddleware(build_app(), PLAN)
    mounted = DispatcherMiddleware(site, {"/shop": retired})
    link = '</shop/API/Notification/CurrentUser>; rel="successor-version"'
    for app in (prefixed, mounted):
        assert Client(app).get(path).headers["Link"] == link


VERSIONED = {
    "DEFAULT_VERSIONING_CLASS": "rest_framework.versioning.AcceptHeaderVersioning",
    "DEFAULT_VERSION": "1.0",
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "UNAUTHENTICATED_USER": None,
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
}
OLD = Operation(
    "old", "*", "/api/**", headers={"Accept": ["application/json; version=1.0", ""]}
)
# Whether a request is for the deprecated version, as the plan sees it.
ACCEPTED = {
    "application/json; version=1.0": True,
    "application/json ; q=0.9; VERSION=1.0": True,
    "": True,
    "*/*": True,
    "application/json; version=2.0, application/json; version=1.0": True,
    "application/json; version=2.0": False,
    "application/json": False,  # the default, which no condition can know
}


def test_a_version_that_accept_chooses_in_django_rest_framework_is_deprecated() -> None:
    django_application()  # configures Django's settings
    routes: Any = ModuleType("routes")
    with library("django.test.utils").override_settings(
        REST_FRAMEWORK=VERSIONED, ROOT_URLCONF=routes
    ):
        respond = library("rest_framework.response").Response
        view = library("rest_framework.decorators").api_view()(
            lambda request: respond({"version": request.version})
        )
        routes.urlpatterns = [library("django.urls").path("api/reports/", view)]
        app = library("django.core.wsgi").get_wsgi_application()
        client = Client(DeprecationMiddleware(app, {OLD: CLOSED}))
        for accept, is_deprecated in ACCEPTED.items():
            response = client.get("/api/reports/", headers={"Accept": accept})
            assert (response.status_code == 410) == is_deprecated, accept
            assert ("Deprecation" in response.headers) == is_deprecated, accept


ROWS = dict.fromkeys(
    [Operation("rows", "GET", "/rows/", unify_session=True)], DATE_ONLY
)


def session_id() -> str:
    session = session_of(flask.request.environ)
    assert session is not None
    return session.value


def test_flask_caching_keeps_two_users_apart() -> None:
    app, computed = flask.Flask("app"), list[str]()

    @app.get("/rows/")
    @Cache(app, config={"CACHE_TYPE": "SimpleCache"}).cached(query_string=True)
    def rows() -> str:
        computed.append(session_id())
        return session_id()

    client = Client(DeprecationMiddleware(app, ROWS))
    for user in ("alice", "bob") * 2:
        assert client.get(f"/rows/?sessionId={user}").text == user
    assert computed == ["alice", "bob"]  # the cache works
