"""An ASGI application with a WSGI application in it: the middleware sees only the requests of the mounted one."""

import sys
from pathlib import Path

import pytest
import requests

from flask_notifications.usage import read_usage
from tests.cli.commands import run
from tests.servers.process import Program, eventually, serving

pytestmark = [pytest.mark.slow, pytest.mark.world]

PLAN = """
deprecated_at = 2026-01-01T00:00:00Z
operations = [
    { name = "mounted", method = "GET", path = "/mounted" },
    { name = "native", method = "GET", path = "/native" },
]
"""
CODE = """
import os, flask, uvicorn
from a2wsgi import WSGIMiddleware
from fastapi import FastAPI
from flask_notifications import DeprecationMiddleware, load_plan
from flask_notifications.usage import UsageRecorder

os.chdir({folder!r})
old = flask.Flask("old")
old.add_url_rule("/mounted", view_func=lambda: "rows", endpoint="mounted")
recorder = UsageRecorder("sqlite:///usage.sqlite3", spool=None, flush_interval=1)
app = FastAPI()
app.get("/native")(lambda: "rows")
app.mount("/", WSGIMiddleware(DeprecationMiddleware(old, load_plan("plan.toml"), observers=[recorder])))
uvicorn.run(app, host="127.0.0.1", port=0)
"""


def test_check_and_the_canary_find_a_route_outside_of_the_middleware(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    server = Program(
        name="uvicorn",
        modules=("uvicorn", "a2wsgi", "fastapi"),
        start=lambda folder, _application: [sys.executable, "-c", CODE.format(folder=str(folder))],
    )
    with serving(server, tmp_path) as running:
        for target, code in (("/mounted", 0), ("/native", 3)):
            assert requests.get(running.url(target), timeout=10).status_code == 200
            outcome = run("check", running.url(target), "--plan", "plan.toml")
            assert (outcome.code, "deprecation-missing" in outcome.out) == (code, code == 3)
        eventually(lambda: read_usage("sqlite:///usage.sqlite3").operations[0].ignored > 0)
        mounted, native = read_usage("sqlite:///usage.sqlite3", days=1, require_canary=True).operations
    assert mounted.verdict == "in use"
    assert (native.verdict, native.answered) == ("unknown", 0)
