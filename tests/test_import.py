"""Imports of the library: the modules that they load, and the public names."""

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import flask_notifications
from flask_notifications import metrics
from tests.servers.process import run_program

pytestmark = pytest.mark.slow

# The documented names; to remove one is a breaking change.
NAMES = [
    *(
        "create_blueprint",
        "NotificationApp",
        "DeprecationMiddleware",
        "DeprecationPolicy",
        "Brownout",
        "Exemption",
    ),
    *(
        "Operation",
        "notification_operations",
        "load_plan",
        "Call",
        "Notice",
        "notice_of",
        "NotificationStorage",
        "StorageError",
    ),
    *(
        "AccessDenied",
        "AccountNotFound",
        "StorageUnavailable",
        "TransactionalStorage",
        "Phase",
        "Plan",
        "SessionCredential",
    ),
    *("SessionRefused", "session_of", "SessionLogFilter", "Statuses"),
]


MAKE_AN_APPLICATION = """
from flask_notifications import NotificationApp
from flask_notifications.testing import MemoryStorage
NotificationApp(MemoryStorage(sessions={}, notifications={}))
"""


# As on Windows, where Python lacks these.
ON_WINDOWS = """
import os, signal, sys
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in ("fork", "getppid", "geteuid", "getuid", "register_at_fork", "sendfile"):
    delattr(os, name)
for name in ("SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1", "setitimer"):
    delattr(signal, name)
from werkzeug.test import Client
from flask_notifications import DeprecationMiddleware, NotificationApp, load_plan
from flask_notifications.testing import MemoryStorage
from flask_notifications.usage import UsageRecorder, read_usage
plan = load_plan({"deprecated_at": "2026-01-01T00:00:00Z"})
storage = MemoryStorage(sessions={"s3cret": "alice"}, notifications={"alice": []})
recorder = UsageRecorder("sqlite:///usage.sqlite3")
app = DeprecationMiddleware(NotificationApp(storage), plan, observers=[recorder])
assert Client(app).get("/API/Notification/?sessionId=s3cret").json == []
recorder.close()
print(read_usage("sqlite:///usage.sqlite3").operations[1].answered)
"""


def test_nothing_needs_what_windows_lacks(tmp_path: Path) -> None:
    done = run_program(sys.executable, "-c", ON_WINDOWS, cwd=tmp_path)
    assert done.stdout == "1\n"


@pytest.mark.parametrize(
    ("code", "needless"),
    [
        pytest.param(
            "import flask_notifications",
            {"flask", "werkzeug", "orjson", "sqlalchemy"},
            id="the package",
        ),
        pytest.param(
            "from flask_notifications import create_blueprint",
            set(),
            id="the blueprint",
        ),
        pytest.param(MAKE_AN_APPLICATION, {"flask", "werkzeug"}, id="the application"),
        pytest.param(
            "import flask_notifications.pages",
            {"flask", "werkzeug", "sqlalchemy"},
            id="the pages",
        ),
    ],
)
def test_no_needless_library_is_loaded(code: str, needless: set[str]) -> None:
    program = f"{code}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    loaded = {*run_program(sys.executable, "-c", program).stdout.split()}
    assert "flask_notifications" in loaded
    assert not {"marshmallow", *needless} & loaded


def test_the_documented_names_are_all_public_names_and_can_be_imported() -> None:
    assert sorted(flask_notifications.__all__) == sorted(NAMES)
    run_program(sys.executable, "-c", "from flask_notifications import *\nassert Call")


@pytest.mark.parametrize("module", [flask_notifications, metrics])
def test_editors_and_the_reference_find_names_that_are_loaded_on_first_use(
    module: Any,
) -> None:
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize("module", [flask_notifications, metrics])
@pytest.mark.parametrize("name", ["nothing", "use", "", "Matching"])
def test_an_unknown_name_is_an_attribute_error(module: Any, name: str) -> None:
    with pytest.raises(AttributeError, match=f"flask_notifications.*{name!r}"):
        getattr(module, name)


@pytest.mark.parametrize(
    ("module", "missing", "needed"),
    [
        (
            "sql",
            "sqlalchemy",
            "SQLAlchemy 2: pip install 'Flask-Notifications[sqlalchemy]'",
        ),
        (
            "sql",
            "sqlalchemy>=2",
            "SQLAlchemy 2: pip install 'Flask-Notifications[sqlalchemy]'",
        ),
        (
            "usage",
            "sqlalchemy",
            "SQLAlchemy 2: pip install 'Flask-Notifications[usage]'",
        ),
        (
            "usage",
            "sqlalchemy>=2",
            "SQLAlchemy 2: pip install 'Flask-Notifications[usage]'",
        ),
        (
            "metrics.prometheus",
            "prometheus_client",
            "pip install 'Flask-Notifications[prometheus]'",
        ),
        (
            "metrics.opentelemetry",
            "opentelemetry",
            "pip install 'Flask-Notifications[opentelemetry]'",
        ),
    ],
)
def test_the_error_about_a_missing_extra_has_the_command_that_installs_it(
    module: str, missing: str, needed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = importlib.import_module(f"flask_notifications.{module}")
    if missing == "sqlalchemy>=2":
        monkeypatch.setattr("sqlalchemy.__version__", "1.4.54")
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == missing else name
    )
    with pytest.raises(ModuleNotFoundError, match=re.escape(needed)):
        importlib.reload(loaded)
