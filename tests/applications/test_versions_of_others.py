"""Versions and parts of real applications are announced and closed, and their own clients see it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from flask_notifications import Call, DeprecationMiddleware, DeprecationPolicy, Operation
from tests.cli.servers import serving
from tests.services import program_or_skip, service_or_skip

JANUARY = datetime(2026, 1, 1, tzinfo=UTC)
OPEN = DeprecationPolicy(deprecated_at=JANUARY)
CLOSED = DeprecationPolicy(deprecated_at=JANUARY, sunset_at=JANUARY, enforce_sunset=True)


class Retired:
    """An application behind the middleware: its URL, the calls that were observed, and whether it is closed."""

    def __init__(self, application: Any, make_plan: Callable[[DeprecationPolicy], Any]) -> None:
        self.calls: list[Call] = []
        self.is_closed = False
        self._layers = [
            DeprecationMiddleware(application, make_plan(policy), observers=[self.calls.append])
            for policy in (OPEN, CLOSED)
        ]

    def __call__(self, environ: Any, start_response: Any) -> Any:
        return self._layers[self.is_closed](environ, start_response)


@pytest.mark.world
def test_one_command_of_mercurial_is_retired_alone(tmp_path: Path) -> None:
    service_or_skip("mercurial", find_spec("mercurial") is not None)
    from mercurial.hgweb import hgweb  # noqa: PLC0415 - an optional package

    program = program_or_skip("hg", str(Path(sys.executable).with_name("hg")))
    environ = os.environ | {"HGRCPATH": "", "HGUSER": "test"}

    def hg(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [program, *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)

    hg("init", "repo")
    (tmp_path / "repo" / "a").write_text("a")
    hg("-R", "repo", "commit", "-A", "-m", "first")
    getbundle = Operation("getbundle", "GET", "/**", query={"cmd": "getbundle"})
    retired = Retired(hgweb(os.fsencode(tmp_path / "repo")), lambda policy: {getbundle: policy})
    with serving(retired) as url:
        assert hg("clone", "--pull", url, "copy").returncode == 0
        assert [(call.operation, call.status) for call in retired.calls] == [("getbundle", 200)]
        retired.is_closed = True
        identified = hg("identify", "--id", url)
        assert (identified.returncode, len(identified.stdout.strip())) == (0, 12)
        refused = hg("clone", "--pull", url, "another")
        assert (refused.returncode, "410" in refused.stderr) == (255, True), refused.stderr
    assert [call.status for call in retired.calls] == [200, 410]


@pytest.mark.world
@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_a_version_of_mlflow_is_retired_with_its_twin_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service_or_skip("mlflow", find_spec("mlflow") is not None)
    monkeypatch.setenv("_MLFLOW_SERVER_FILE_STORE", f"sqlite:///{tmp_path}/mlflow.sqlite3")
    monkeypatch.setenv("_MLFLOW_SERVER_ARTIFACT_ROOT", str(tmp_path / "artifacts"))
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    import mlflow  # noqa: PLC0415 - an optional package
    from mlflow.server import app  # noqa: PLC0415

    names = {"api": "/api/2.0/**", "twin": "/ajax-api/2.0/**"}
    operations = [Operation(name, "*", path, path.replace("2.0", "3.0")) for name, path in names.items()]
    retired = Retired(app, lambda policy: dict.fromkeys(operations, policy))
    with serving(retired) as url:
        client = mlflow.MlflowClient(tracking_uri=url)
        number = client.create_experiment("first")
        assert client.get_experiment(number).name == "first"
        assert {(call.operation, call.status) for call in retired.calls} == {("api", 200)}
        retired.is_closed = True
        with pytest.raises(mlflow.exceptions.MlflowException, match="410"):
            client.create_experiment("second")
    assert retired.calls[-1].status == 410


DRF = """
import json, sys
from datetime import UTC, datetime
import django
from django.conf import settings
settings.configure(
    DEBUG=False, SECRET_KEY="x", ALLOWED_HOSTS=["*"], ROOT_URLCONF="__main__", INSTALLED_APPS=["rest_framework"],
    REST_FRAMEWORK={
        "DEFAULT_VERSIONING_CLASS": "rest_framework.versioning.AcceptHeaderVersioning", "DEFAULT_VERSION": "1.0",
        "DEFAULT_AUTHENTICATION_CLASSES": [], "UNAUTHENTICATED_USER": None,
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    },
)
django.setup()
from django.core.wsgi import get_wsgi_application
from django.urls import path
from rest_framework.decorators import api_view
from rest_framework.response import Response
from werkzeug.test import Client
from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation

@api_view(["GET"])
def reports(request):
    return Response({"version": request.version})

urlpatterns = [path("api/reports/", reports)]
january = datetime(2026, 1, 1, tzinfo=UTC)
policy = DeprecationPolicy(deprecated_at=january, sunset_at=january, enforce_sunset=sys.argv[1] == "closed")
plan = {
    Operation("old", "*", "/api/**"): policy,
    Operation("new", "*", "/api/**", headers={"Accept": "application/json; version=2.0"}): None,
}
client = Client(DeprecationMiddleware(get_wsgi_application(), plan))
for accept in json.loads(sys.argv[2]):
    response = client.get("/api/reports/", headers={} if accept is None else {"Accept": accept})
    found = [response.json.get("version"), "Deprecation" in response.headers, response.headers.get("Vary")]
    print(json.dumps([response.status_code, *found]))
"""
ACCEPTED = {
    "application/json; version=1.0": "1.0",
    "application/json;version=2.0": "2.0",
    "application/json ; q=0.9; version=2.0": "2.0",
    None: "1.0",
    "application/json": "1.0",
    "application/json; version=2.0, application/json; version=1.0": "1.0 or 2.0",  # it chooses from a set
}


@pytest.mark.parametrize("state", ["open", "closed"])
def test_a_version_that_accept_chooses_in_django_rest_framework_is_live_beside_all_others(state: str) -> None:
    command = [sys.executable, "-c", DRF, state, json.dumps([*ACCEPTED])]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for (accept, version), line in zip(ACCEPTED.items(), lines, strict=True):
        status, served, is_announced, vary = json.loads(line)
        is_live = version == "2.0"
        assert is_announced == (not is_live), accept
        is_closed = state == "closed" and not is_live
        assert (status == 410 and served is None) if is_closed else (status == 200 and served in version), accept
        assert is_live or "Accept" in vary
