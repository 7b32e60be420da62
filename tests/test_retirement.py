"""Flask's command ``retirement``: every operation of a plan has a route, or it says so."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import flask
import pytest
from click.testing import Result
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.proxy_fix import ProxyFix

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation
from flask_notifications.retirement import retirement

DATES = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))
CLOSED = DeprecationPolicy(
    deprecated_at=datetime(2026, 1, 1, tzinfo=UTC),
    sunset_at=datetime(2026, 2, 1, tzinfo=UTC),
    enforce_sunset=True,
)
RULES = (
    "/",
    "/reports/<int:id>",
    "/users/<name>",
    "/archive/",
    "/files/<path:file>",
    "/v1/a",
    "/v1/b/<id>.json",
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
        ("/archive", ["/archive/"]),
        ("/Reports/{id}/", ["/reports/<int:id>"]),
        ("/users/me", ["/users/<name>"]),
        ("/files/{file}", ["/files/<path:file>"]),
        ("/v1/**", ["/v1/a", "/v1/b/<id>.json"]),
    ],
)
def test_a_path_reaches_these_rules(path: str, rules: list[str]) -> None:
    result = run(make_app(path))
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split("  ")[-1] for line in result.stdout.splitlines()[1:]] == rules


@pytest.mark.parametrize(
    "path", ["/report/{id}", "/reports/latest", "/reports", "/v1/{id}", "/v2/**"]
)
def test_a_path_that_reaches_no_route_is_an_error(path: str) -> None:
    result = run(make_app(path))
    assert result.exit_code == 1
    assert "error: report: reaches no endpoint" in result.stderr


def test_the_nearest_rule_is_suggested() -> None:
    result = run(make_app("/report/{id}"))
    assert "did you mean /reports/<int:id>?" in result.stderr


def test_a_method_without_a_route_is_an_error() -> None:
    assert run(make_app("/reports/{id}", method="PUT")).exit_code == 1
    assert run(make_app("/reports/{id}", method="*")).exit_code == 0


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


def test_the_middleware_is_found_inside_of_others() -> None:
    app = make_app("/reports/{id}")
    mounted = DispatcherMiddleware(
        flask.Flask("outer"), {"/api": ProxyFix(app.wsgi_app)}
    )
    app.wsgi_app = ProxyFix(mounted)  # type: ignore[method-assign]
    assert run(app).exit_code == 0


def test_without_a_middleware_a_plan_is_asked_for(tmp_path: Path) -> None:
    app = flask.Flask("app")
    result = run(app)
    assert result.exit_code == 1
    assert "give --plan FILE" in result.stderr
    app.add_url_rule("/reports/<id>", "report", fail)
    file = tmp_path / "plan.toml"
    file.write_text(
        'deprecated_at = 2026-01-01T00:00:00Z\n[[operations]]\nname = "report"\n'
        'method = "GET"\npath = "/api/reports/{id}"\n'
    )
    assert run(app, "--plan", str(file)).exit_code == 1
    assert run(app, "--plan", str(file), "--mount", "/other").exit_code == 1
    assert run(app, "--plan", str(file), "--mount", "/api").exit_code == 0


def test_an_operation_can_be_skipped() -> None:
    app = make_app("/report/{id}")
    assert run(app, "--except", "report").exit_code == 0
    assert run(app, "--except", "unlisted").exit_code == 2


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
