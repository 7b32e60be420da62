"""The filter for PasteDeploy: a file in its format, loaded as servers load it."""

import base64
import re
from pathlib import Path
from typing import Any
from wsgiref.types import WSGIApplication

import pytest
from marshmallow import ValidationError

from flask_notifications.usage import read_usage
from tests.frameworks.applications import library
from tests.frameworks.routers import pyramid_router, zope_router
from tests.wsgi import environ_of, run

PLAN = """
deprecated_at = 2026-01-01T00:00:00Z
sunset_at = 2026-02-01T00:00:00Z
enforce_sunset = true

[[operations]]
name = "old_task"
method = "GET"
path = "/old_task"
exemptions = [{ caller = "warehouse", until = 2100-01-01T00:00:00Z, reason = "contract" }]

[[operations]]
name = "archive"
method = "GET"
path = "/archive/"
"""
PAGE = (Path(__file__).parents[2] / "docs" / "wsgi.md").read_text(encoding="utf-8")
(INI,) = re.findall(r"^```ini\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BASIC = {"HTTP_AUTHORIZATION": f"Basic {base64.b64encode(b'warehouse:x').decode()}"}


def make_pyramid(_global_conf: Any) -> Any:
    return pyramid_router()


def make_zope(_global_conf: Any) -> WSGIApplication:
    return zope_router()


def load(folder: Path, framework: str = "pyramid", **changes: str) -> Any:
    ini = INI
    for name, value in (
        {"service": "shop", "identify": "flask_notifications.observers:basic_user"}
        | changes
    ).items():
        ini = re.sub(
            rf"^{name} = .*\n|\Z",
            f"{name} = {value}\n",
            ini,
            count=1,
            flags=re.MULTILINE,
        )
    (folder / "retirement.toml").write_text(PLAN)
    (folder / "app.ini").write_text(
        f"{ini}[app:shop]\npaste.app_factory = {__name__}:make_{framework}\n"
    )
    return library("paste.deploy").loadapp(f"config:{folder}/app.ini")


@pytest.mark.parametrize(
    "framework", ["pyramid", pytest.param("zope", marks=pytest.mark.world)]
)
def test_the_filter_announces_records_and_closes(
    framework: str, tmp_path: Path
) -> None:
    app = load(tmp_path, framework)
    assert run(app, environ_of("GET", "/archive/", "")).code == 410
    exempt = run(app, environ_of("GET", "/old_task", "", **BASIC))
    assert (exempt.code, exempt.all("Deprecation")) == (200, ["@1767225600"])
    (recorder,) = app._observers
    recorder.close()
    report = read_usage(f"sqlite:///{tmp_path}/usage.sqlite3", service="shop")
    counts = {(each.name, each.closed, each.answered) for each in report.operations}
    assert counts == {("archive", 1, 0), ("old_task", 0, 1)}


def test_nothing_is_recorded_without_a_database(tmp_path: Path) -> None:
    app = load(tmp_path, usage="")
    assert run(app, environ_of("GET", "/archive/", "")).code == 410
    assert app._observers == ()


@pytest.mark.parametrize(
    ("option", "value", "error", "words"),
    [
        ("pln", "retirement.toml", TypeError, "pln"),
        ("base_url", "shop", ValueError, "base_url"),
        ("plan", "gone.toml", FileNotFoundError, "gone.toml"),
        ("plan", "app.ini", ValidationError, "toml"),
        ("identify", "nothing:label", ImportError, "nothing"),
    ],
)
def test_a_mistake_in_a_file_stops_the_server(
    option: str, value: str, error: Any, words: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=words):
        load(tmp_path, **{option: value})
