"""Extensions and frameworks behave as docs/integrations.md says."""

import os
import re
import subprocess
import sys
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs
from urllib.request import urlopen

import flask
import pytest
from flask_jwt_extended import JWTManager, verify_jwt_in_request
from flask_seasurf import SeaSurf
from flask_wtf.csrf import CSRFProtect
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.test import Client

from flask_notifications import (
    DeprecationMiddleware,
    DeprecationPolicy,
    Operation,
    Use,
    create_blueprint,
    notification_operations,
)
from flask_notifications.testing import MemoryStorage
from tests.frameworks.applications import application_of, library

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment
    from werkzeug.test import TestResponse

# Flask-SeaSurf 2.0.0 on Python 3.12 and newer.
pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")

KEY = "no secret, but long enough for a signature"
PROJECT = str(Path(__file__).parents[2])
STORAGE = MemoryStorage(sessions={"s3cret": "alice"}, notifications={"alice": [{"name": "Weekly sales"}]})
POLICY = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))
ENDED = DeprecationPolicy(
    deprecated_at=datetime(2026, 1, 1, tzinfo=UTC), sunset_at=datetime(2026, 2, 1, tzinfo=UTC), enforce_sunset=True
)
ACCOUNT = "/api/notification/getnotificationsforaccount/alice?sessionid=s3cret"
REPORT = Operation("report", "GET", "/reports/{id}", "/v2/reports")


def build_app(*extend: Callable[[flask.Flask], object]) -> flask.Flask:
    """Return an application with the blueprint, after calling each function with it."""
    app = flask.Flask("shop")
    app.config.update(SECRET_KEY=KEY, JWT_SECRET_KEY=KEY)
    app.register_blueprint(create_blueprint(STORAGE))
    for each in extend:
        each(app)
    return app


def call_account(app: flask.Flask) -> "TestResponse":
    return Client(DeprecationMiddleware(app, POLICY)).post(ACCOUNT)


# Extensions that refuse legacy clients.


def csrf_protect(app: flask.Flask) -> None:
    csrf = CSRFProtect(app)
    csrf.exempt(app.blueprints["notifications"])


def seasurf(app: flask.Flask) -> None:
    csrf = SeaSurf(app)
    csrf.exempt(app.view_functions["notifications.account"])


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
    ("extension", "status", "mimetype"),
    [
        pytest.param(CSRFProtect, 400, "text/html", id="CSRFProtect"),
        pytest.param(SeaSurf, 403, "text/html", id="SeaSurf"),
        pytest.param(jwt_everywhere, 422, "application/json", id="Flask-JWT-Extended"),
    ],
)
def test_an_extension_refuses_a_legacy_client(
    extension: Callable[[flask.Flask], object], status: int, mimetype: str
) -> None:
    response = call_account(build_app(extension))
    assert (response.status_code, response.mimetype) == (status, mimetype)
    assert response.headers["Deprecation"] == "@1767225600"


@pytest.mark.parametrize(
    "extension",
    [
        pytest.param(csrf_protect, id="CSRFProtect"),
        pytest.param(seasurf, id="SeaSurf"),
        pytest.param(jwt_elsewhere, id="Flask-JWT-Extended"),
    ],
)
def test_an_exempt_blueprint_serves_a_legacy_client(extension: Callable[[flask.Flask], object]) -> None:
    assert call_account(build_app(extension)).get_json() == [{"name": "Weekly sales"}]


@pytest.mark.parametrize(("extension", "status"), [(csrf_protect, 400), (seasurf, 403), (jwt_elsewhere, 401)])
def test_other_views_stay_protected(extension: Callable[[flask.Flask], object], status: int) -> None:
    app = build_app(extension)
    app.add_url_rule("/orders", "orders", view_func=list, methods=["POST"])
    assert Client(DeprecationMiddleware(app, POLICY)).post("/orders").status_code == status


# flask run.

SHOP = """
from datetime import UTC, datetime
import flask
from flask_notifications import DeprecationMiddleware, DeprecationPolicy, create_blueprint
from flask_notifications.testing import MemoryStorage

policy = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))
storage = MemoryStorage(sessions={"s3cret": "alice"}, notifications={"alice": []})
"""
SIDE_BY_SIDE = """
app = flask.Flask("shop")
app.register_blueprint(create_blueprint(storage))
application = DeprecationMiddleware(app, policy)
"""
FACTORY = """
def create_app():
    app = flask.Flask("shop")
    app.register_blueprint(create_blueprint(storage))
    app.wsgi_app = DeprecationMiddleware(app.wsgi_app, policy)
    return app
"""


@contextmanager
def flask_run(folder: Path) -> Iterator[str]:
    """Run ``flask run`` in a folder and yield the URL of the server."""
    environ = {**os.environ, "PYTHONPATH": PROJECT, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "flask", "--app", "shop", "run", "--port", "0"]
    with subprocess.Popen(
        command, cwd=folder, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as server:
        try:
            assert server.stderr is not None
            lines = (line.decode() for line in server.stderr)
            yield next(found[0] for line in lines if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
        finally:
            server.terminate()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "announced"),
    [
        pytest.param(SIDE_BY_SIDE, None, id="app and application side by side"),
        pytest.param(FACTORY, "@1767225600", id="a factory that wraps app.wsgi_app"),
    ],
)
def test_flask_run_serves_the_middleware_only_if_the_factory_adds_it(
    layout: str, announced: str | None, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(SHOP + layout)
    with flask_run(tmp_path) as url, urlopen(f"{url}/API/Notification/?sessionId=s3cret", timeout=10) as response:  # noqa: S310
        assert response.status == 200
        assert response.headers["Deprecation"] == announced


def test_the_application_of_a_factory_may_be_wrapped_again_from_outside() -> None:
    app, uses = build_app(), list[Use]()
    app.wsgi_app = DeprecationMiddleware(app.wsgi_app, POLICY, observers=[uses.append])  # type: ignore[method-assign]
    response = Client(DeprecationMiddleware(app, POLICY, observers=[uses.append])).post(ACCOUNT)
    assert response.headers.getlist("Deprecation") == ["@1767225600"]
    assert len(uses) == 1


# Prefixes that the application sets after the middleware.

FORWARDED = {"X-Forwarded-Prefix": "/shop"}
CURRENT_USER = "/API/Notification/?sessionId=s3cret"


def links(app: "WSGIApplication", path: str = CURRENT_USER, headers: dict[str, str] | None = None) -> list[str]:
    response = Client(app).get(path, headers=headers)
    assert response.status_code == 200
    return response.headers.getlist("Link")


def test_the_prefix_of_a_proxy_is_in_the_links_if_proxyfix_is_outside() -> None:
    inside = build_app()
    inside.wsgi_app = ProxyFix(inside.wsgi_app, x_prefix=1)  # type: ignore[method-assign]
    (link,) = links(DeprecationMiddleware(inside, POLICY), headers=FORWARDED)
    assert link == '</API/Notification/CurrentUser>; rel="successor-version"'
    (link,) = links(ProxyFix(DeprecationMiddleware(build_app(), POLICY), x_prefix=1), headers=FORWARDED)
    assert link == '</shop/API/Notification/CurrentUser>; rel="successor-version"'


def test_a_prefix_of_django_is_in_the_links_if_it_is_in_the_base_url() -> None:
    application_of("django")  # configures Django's settings
    operations = [Operation("cookies", "GET", "/old/cookies", "/new/cookies")]
    with library("django.test.utils").override_settings(FORCE_SCRIPT_NAME="/shop"):
        app = library("django.core.wsgi").get_wsgi_application()
        (link,) = links(DeprecationMiddleware(app, POLICY, operations=operations), "/old/cookies")
        assert link == '</new/cookies>; rel="successor-version"'
        absolute = DeprecationMiddleware(app, POLICY, operations=operations, base_url="https://example.com/shop")
        (link,) = links(absolute, "/old/cookies")
        assert link == '<https://example.com/shop/new/cookies>; rel="successor-version"'


def test_a_mount_inside_is_matched_from_where_the_middleware_is() -> None:
    path, site = f"/shop{CURRENT_USER}", DispatcherMiddleware(flask.Flask("site"), {"/shop": build_app()})
    assert links(DeprecationMiddleware(site, POLICY), path) == []
    prefixed = DeprecationMiddleware(site, POLICY, operations=notification_operations("/shop/API/Notification"))
    mounted = DispatcherMiddleware(flask.Flask("site"), {"/shop": DeprecationMiddleware(build_app(), POLICY)})
    for app in (prefixed, mounted):
        assert links(app, path) == ['</shop/API/Notification/CurrentUser>; rel="successor-version"']


# Requests that match an operation.


def override_method(app: "WSGIApplication") -> "WSGIApplication":
    def rewrite(environ: "WSGIEnvironment", start_response: "StartResponse") -> Any:
        environ["REQUEST_METHOD"] = environ.get("HTTP_X_HTTP_METHOD_OVERRIDE", environ["REQUEST_METHOD"])
        return app(environ, start_response)

    return rewrite


def test_an_overridden_method_matches_if_it_is_rewritten_outside() -> None:
    app = flask.Flask("shop")
    app.add_url_rule("/reports/<id>", "delete", lambda **_: "deleted", methods=["DELETE"])
    operations = [Operation("delete", "DELETE", "/reports/{id}")]
    inside = DeprecationMiddleware(override_method(app), POLICY, operations=operations)
    outside = override_method(DeprecationMiddleware(app, POLICY, operations=operations))
    for wsgi, announced in ((inside, None), (outside, "@1767225600")):
        response = Client(wsgi).post("/reports/1", headers={"X-HTTP-Method-Override": "DELETE"})
        assert (response.text, response.headers.get("Deprecation")) == ("deleted", announced)


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "PUT"])
def test_a_django_view_that_checks_no_method_serves_other_methods_after_the_sunset(method: str) -> None:
    application_of("django")
    django_path, http = library("django.urls").path, library("django.http")
    require_safe = library("django.views.decorators.http").require_safe

    def view(_request: Any, **_parameters: str) -> Any:
        return http.HttpResponse("rows")

    urls = [django_path("reports/<id>", view), django_path("checked/<id>", require_safe(view))]
    routes = type("Routes", (), {"urlpatterns": urls})
    checked = Operation("checked", "GET", "/checked/{id}")
    with library("django.test.utils").override_settings(ROOT_URLCONF=routes, MIDDLEWARE=[]):
        app = library("django.core.wsgi").get_wsgi_application()
        client = Client(DeprecationMiddleware(app, ENDED, operations=[REPORT, checked]))
        assert [client.get(path).status_code for path in ("/reports/1", "/checked/1")] == [410, 410]
        assert client.open("/reports/1", method=method).text == "rows"
        assert client.open("/checked/1", method=method).status_code == 405


def test_an_operation_may_be_chosen_by_a_query_parameter() -> None:
    app = flask.Flask("shop")
    app.add_url_rule("/api", "api", lambda: flask.request.args["action"])
    retired = DeprecationMiddleware(app, POLICY, operations=[Operation("report", "GET", "/api")])

    def application(environ: "WSGIEnvironment", start_response: "StartResponse") -> Any:
        is_report = parse_qs(environ.get("QUERY_STRING", "")).get("action") == ["report"]
        return (retired if is_report else app)(environ, start_response)

    for action, announced in (("report", "@1767225600"), ("order", None)):
        response = Client(application).get(f"/api?action={action}")
        assert (response.text, response.headers.get("Deprecation")) == (action, announced)


def test_a_subrequest_of_a_batch_endpoint_bypasses_the_middleware() -> None:
    uses = list[Use]()
    request, response = library("pyramid.request").Request, library("pyramid.response").Response
    with library("pyramid.config").Configurator() as config:
        config.add_route("report", "/reports/{id}")
        config.add_view(lambda _request: response("rows"), route_name="report")
        config.add_route("batch", "/batch")
        config.add_view(lambda outer: outer.invoke_subrequest(request.blank("/reports/1")), route_name="batch")
        app = config.make_wsgi_app()
    client = Client(DeprecationMiddleware(app, ENDED, operations=[REPORT], observers=[uses.append]))
    assert client.get("/reports/1").status_code == 410
    assert [use.status for use in uses] == [410]
    batch = client.post("/batch")
    assert (batch.text, batch.headers.get("Deprecation")) == ("rows", None)
    assert len(uses) == 1


# Django's own ways to call an application in tests.


@pytest.fixture
def django_project() -> "WSGIApplication":
    """Return the application of a Django project whose ``wsgi.py`` has the middleware."""
    application_of("django")
    operations = [Operation("cookies", "GET", "/old/cookies")]
    return DeprecationMiddleware(library("django.core.wsgi").get_wsgi_application(), POLICY, operations=operations)


def test_djangos_test_client_bypasses_the_middleware(django_project: "WSGIApplication") -> None:
    assert "Deprecation" not in library("django.test").Client().get("/old/cookies").headers
    assert Client(django_project).get("/old/cookies").headers["Deprecation"] == "@1767225600"


@pytest.mark.usefixtures("django_project")
def test_djangos_live_server_bypasses_the_middleware() -> None:
    seen: list[Any] = []

    class Live(library("django.test").LiveServerTestCase):  # type: ignore[misc]
        databases = frozenset[str]()

        def test_it(self) -> None:
            with urlopen(f"{self.live_server_url}/old/cookies", timeout=10) as response:  # noqa: S310
                seen.append(response.headers["Deprecation"])

    result = unittest.TestResult()
    with library("django.test.utils").override_settings(STATIC_URL="/static/", MEDIA_URL="/media/"):
        unittest.TestSuite([Live("test_it")]).run(result)
    assert (result.errors, result.failures, seen) == ([], [], [None])
