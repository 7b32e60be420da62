"""Flask's command ``retirement``: every operation of a plan has a route, or it says so."""

import re
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import flask
import pytest
from click.testing import Result
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.routing import Rule

from flask_notifications import (
    DeprecationMiddleware,
    DeprecationPolicy,
    Operation,
    create_blueprint,
    notification_operations,
)
from flask_notifications.retirement import retirement
from tests.servers.process import ROOT
from tests.storages import OneSession

DATES = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))
CLOSED = DeprecationPolicy(
    deprecated_at=datetime(2026, 1, 1, tzinfo=UTC),
    sunset_at=datetime(2026, 2, 1, tzinfo=UTC),
    enforce_sunset=True,
)
PLAN = """
deprecated_at = 2026-01-01T00:00:00Z
[[operations]]
name = "report"
method = "GET"
path = "/api/reports/{id}"
"""
RULES = (
    "/",
    "/reports/<int:id>",
    "/users/<name>",
    "/archive/",
    "/files/<path:file>",
    "/v1/a",
    "/v1/b/<id>.json",
    "/<any('de', 'fr'):language>/about",
    "/pages/<path:page>/history",
)


def fail() -> str:
    pytest.fail("a view was called")


def make_app(
    path: str, *, policy: Any = DATES, method: str = "GET", rules: Any = RULES
) -> flask.Flask:
    app = flask.Flask("app", static_folder=None)
    for rule in rules:
        app.add_url_rule(rule, f"view {rule}", fail)
    plan = {Operation("report", method, path): policy}
    app.wsgi_app = DeprecationMiddleware(app.wsgi_app, plan)  # type: ignore[method-assign]
    return app


def run(app: flask.Flask, *arguments: str) -> Result:
    runner = app.test_cli_runner()
    vars(runner)["mix_stderr"] = False  # which click before 8.2 would do
    return runner.invoke(retirement, arguments)


def test_an_operation_is_listed_with_its_phase_and_endpoints() -> None:
    result = run(make_app("/reports/{id}"))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "report  GET /reports/{id}  deprecated\n"
        "  view /reports/<int:id>  /reports/<int:id>\n"
    )


@pytest.mark.parametrize(
    ("path", "rules"),
    [
        ("/", ["/"]),
        ("/Reports/{id}/", ["/reports/<int:id>"]),
        ("/users/me", ["/users/<name>"]),
        ("/files/{folder}/{file}", ["/files/<path:file>"]),
        ("/pages/{a}/{b}/history", ["/pages/<path:page>/history"]),
        ("/pages/{page}/history/", ["/pages/<path:page>/history"]),
        ("/files/**", ["/files/<path:file>"]),
        ("/FR/about", ["/<any('de', 'fr'):language>/about"]),
        ("/v1/**", ["/v1/a", "/v1/b/<id>.json"]),
        ("/v1/b/7.json", ["/v1/b/<id>.json"]),
        ("/**", list(RULES)),
    ],
)
def test_a_path_reaches_these_rules(path: str, rules: list[str]) -> None:
    result = run(make_app(path))
    assert (result.exit_code, result.stderr) == (0, "")
    _title, *lines = result.stdout.splitlines()
    assert [line.split("  ")[-1] for line in lines] == rules


NO_ROUTES = ["/report/{id}", "/reports/latest", "/reports", "/v1/{id}", "/v2/**"]
NO_ROUTES += ["/es/about", "/pages/{page}", "/v1/b/7.xml", "/reports/{id}/x"]


@pytest.mark.parametrize("path", NO_ROUTES)
def test_a_path_that_reaches_no_route_is_an_error(path: str) -> None:
    result = run(make_app(path))
    assert result.exit_code == 1
    assert "error: report: reaches no endpoint" in result.stderr


def test_the_nearest_rule_is_suggested() -> None:
    result = run(make_app("/report/{id}"))
    assert "did you mean /reports/<int:id>?" in result.stderr


def test_a_method_without_a_route_is_an_error() -> None:
    result = run(make_app("/reports/{id}", method="PUT"))
    assert result.exit_code == 1
    assert result.stderr == (
        "error: report: reaches no endpoint with PUT; did you mean /reports/<int:id>?\n"
    )
    for method in ("HEAD", "*"):
        assert run(make_app("/reports/{id}", method=method)).exit_code == 0
    app = make_app("/reports/{id}")
    app.add_url_rule("/reports/<int:id>", "post", fail, methods=["POST"])
    assert (run(app).exit_code, run(app).stderr) == (0, "")
    app = make_app("/any", method="PUT")
    app.url_map.add(Rule("/any", endpoint="any"))
    assert run(app).exit_code == 0


def test_a_live_operation_is_listed_as_live_and_needs_a_route_too() -> None:
    assert "live" in run(make_app("/users/me", policy=None)).stdout
    assert run(make_app("/user/me", policy=None)).exit_code == 1


def test_a_deleted_view_after_an_enforced_sunset_is_a_note() -> None:
    result = run(make_app("/report/{id}", policy=CLOSED))
    assert result.exit_code == 0
    assert result.stderr.startswith("note: report: ")


def test_a_catch_all_is_a_warning() -> None:
    result = run(make_app("/reports/{id}", rules=["/<path:rest>"]))
    assert result.exit_code == 0
    assert result.stderr == "warning: report: only a catch-all reaches it\n"
    for rules in (["/<path:rest>", "/reports/<id>"], ["/reports/<id>", "/<path:rest>"]):
        for path in ("/reports/{id}", "/reports/**"):
            assert run(make_app(path, rules=rules)).stderr == ""
    result = run(make_app("/reports/{id}", rules=["/<path:rest>"], method="PUT"))
    assert result.exit_code == 1


def test_the_middleware_is_found_inside_of_others() -> None:
    app = make_app("/reports/{id}")
    mounts: Any = {"/api": ProxyFix(app.wsgi_app)}
    outer = ProxyFix(DispatcherMiddleware(flask.Flask("outer"), mounts))

    def traced(environ: Any, start_response: Any) -> Any:
        return outer(environ, start_response)

    app.wsgi_app = traced  # type: ignore[method-assign]
    assert run(app).stdout.startswith("report  GET /reports/{id}  deprecated\n")


class Timed:
    __slots__ = ("inner", "request")

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.request: Any = None

    def respond(self, environ: Any, start_response: Any) -> Any:
        return self.inner(environ, start_response)


def test_the_middleware_is_found_whatever_another_one_names_it() -> None:
    app = make_app("/reports/{id}")
    timed = Timed(Timed(app.wsgi_app).respond)
    timed.request = flask.request
    app.wsgi_app = partial(timed.respond)  # type: ignore[method-assign]
    assert run(app).stdout.startswith("report  GET /reports/{id}  deprecated\n")


def test_the_middleware_of_another_application_is_left_out() -> None:
    app = make_app("/reports/{id}")
    mounts: dict[str, Any] = {"/other": make_app("/other")}
    app.wsgi_app = DispatcherMiddleware(app.wsgi_app, mounts)  # type: ignore[method-assign]
    result = run(app)
    assert (result.exit_code, "/other" in result.stdout) == (0, False)


def test_two_middlewares_have_a_plan_each() -> None:
    app = make_app("/reports/{id}")
    plan = {Operation("user", "GET", "/users/{id}"): DATES}
    app.wsgi_app = DeprecationMiddleware(app.wsgi_app, plan)  # type: ignore[method-assign]
    assert re.findall(r"^\w+", run(app).stdout, re.MULTILINE) == ["user", "report"]


def nested(blueprint: flask.Blueprint) -> flask.Blueprint:
    parent = flask.Blueprint("erp", "app", url_prefix="/erp")
    parent.register_blueprint(blueprint)
    return parent


@pytest.mark.parametrize(
    ("register", "prefix"),
    [
        (lambda app, old: app.register_blueprint(old), "/API/Notification"),
        (lambda app, old: app.register_blueprint(old, url_prefix="/alerts"), "/alerts"),
        (lambda app, old: app.register_blueprint(nested(old)), "/erp/API/Notification"),
    ],
    ids=["as it is", "another prefix", "below a parent"],
)
def test_a_prefix_that_the_plan_lacks_is_an_error(register: Any, prefix: str) -> None:
    for plan_prefix in ("/API/Notification", "/alerts", "/erp/API/Notification"):
        app = flask.Flask("app")
        register(app, create_blueprint(OneSession()))
        plan = dict.fromkeys(notification_operations(plan_prefix), DATES)
        app.wsgi_app = DeprecationMiddleware(app.wsgi_app, plan)  # type: ignore[method-assign]
        assert run(app).exit_code == (plan_prefix != prefix)


def test_two_hundred_routes_below_a_version_are_listed() -> None:
    rules = [f"/v1/{name}/<int:id>" for name in range(100)]
    rules += [f"/v1/{name}/<int:id>/parts/<part>/" for name in range(100)]
    result = run(make_app("/v1/**", rules=rules))
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 201)
    result = run(make_app("/v1/7/{id}/part/{x}", rules=rules))
    assert "did you mean /v1/7/<int:id>/parts/<part>/?" in result.stderr


def test_without_a_middleware_a_plan_is_asked_for(tmp_path: Path) -> None:
    app = flask.Flask("app")
    result = run(app)
    assert result.exit_code == 1
    assert "no middleware in app.wsgi_app; for an outer one, give --plan FILE" in (
        result.stderr
    )
    app.add_url_rule("/reports/<id>", "report", fail)
    file = tmp_path / "plan.toml"
    file.write_text(PLAN)
    assert run(app, "--plan", str(file)).exit_code == 1
    assert run(app, "--plan", str(file), "--mount", "/other").exit_code == 1
    assert run(app, "--plan", str(file), "--mount", "/api").exit_code == 0
    app.add_url_rule("/report", "reports", fail)
    file.write_text(file.read_text().replace("/reports/{id}", "/raport"))
    result = run(app, "--plan", str(file), "--mount", "api/")
    assert "did you mean /api/report?" in result.stderr
    file.write_text(file.read_text().replace("/api/raport", "/**"))
    assert run(app, "--plan", str(file), "--mount", "/api").exit_code == 0


def test_an_operation_can_be_skipped() -> None:
    app = make_app("/report/{id}")
    assert run(app, "--except", "report").exit_code == 0
    assert run(app, "--except", "unlisted").exit_code == 2


FACTORY = """
import flask
from flask_notifications import DeprecationMiddleware, load_plan

def create_app():
    app = flask.Flask("shop")
    app.add_url_rule("/reports/<int:id>", "report", lambda id: "")
    app.wsgi_app = DeprecationMiddleware(app.wsgi_app, load_plan("plan.toml"))
    return app
"""


@pytest.mark.slow
def test_flask_finds_the_command_and_the_application_of_a_factory(
    tmp_path: Path,
) -> None:
    (tmp_path / "shop.py").write_text(FACTORY)
    (tmp_path / "plan.toml").write_text(PLAN.replace("/api/", "/"))
    command = [sys.executable, "-m", "flask", "--app", "shop:create_app", "retirement"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[1] == "  report  /reports/<int:id>"


@pytest.mark.slow
def test_the_example_reaches_its_operations() -> None:
    command = [sys.executable, "-m", "flask", "--app", "example_app", "retirement"]
    plan = ["--plan", "example_app/retirement.toml"]
    done = subprocess.run(
        [*command, *plan], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.count("  notifications.") == 4


@pytest.mark.slow
def test_the_command_imports_click_and_flask_only() -> None:
    code = (
        "import click, flask, sys; known = {*sys.modules}; "
        "import flask_notifications.retirement; print(*{*sys.modules} - known)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = {name for name in done.stdout.split() if "flask_notifications" in name}
    assert loaded <= {"flask_notifications", "flask_notifications.retirement"}
    assert "marshmallow" not in done.stdout
