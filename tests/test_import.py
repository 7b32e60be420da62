"""Imports of the library: the modules that they load, and the public names."""

import importlib
import subprocess
import sys
from typing import Any

import pytest

import flask_notifications
from flask_notifications import metrics

pytestmark = pytest.mark.slow

# The documented names; to remove one is a breaking change.
NAMES = [
    *("create_blueprint", "NotificationApp", "DeprecationMiddleware", "DeprecationPolicy", "Brownout", "Exemption"),
    *("Operation", "notification_operations", "load_plan", "Call", "NotificationStorage", "StorageError"),
    *("AccessDenied", "AccountNotFound", "StorageUnavailable", "TransactionalStorage", "Phase", "SessionCredential"),
    *("SessionRefused", "session_of", "SessionLogFilter", "Statuses"),
]

# Hides everything outside the standard library, as if nothing else were installed.
STANDARD_LIBRARY_ONLY = """
import sys
from importlib.abc import MetaPathFinder

class Hidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        package = name.partition(".")[0]
        if package not in sys.stdlib_module_names and package != "flask_notifications":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
"""


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_modules(code: str) -> set[str]:
    """Return the top-level modules that are loaded after running code."""
    return set(run_python(f"{code}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})").split())


def test_the_package_alone_imports_no_framework() -> None:
    assert not {"flask", "werkzeug", "marshmallow", "orjson", "sqlalchemy"} & loaded_modules(
        "import flask_notifications"
    )


@pytest.mark.parametrize("module", ["middleware", "openapi"])
def test_these_modules_need_only_the_standard_library(module: str) -> None:
    run_python(f"{STANDARD_LIBRARY_ONLY}\nfrom flask_notifications.{module} import *")


def test_the_application_needs_no_flask() -> None:
    program = """
from flask_notifications import NotificationApp
from flask_notifications.testing import MemoryStorage
NotificationApp(MemoryStorage(sessions={}, notifications={}))
"""
    assert not {"flask", "werkzeug", "marshmallow"} & loaded_modules(program)


def test_the_pages_need_no_flask_and_no_database() -> None:
    assert not {"flask", "werkzeug", "marshmallow", "sqlalchemy"} & loaded_modules("import flask_notifications.pages")


def test_only_loading_a_policy_needs_marshmallow() -> None:
    assert "marshmallow" not in loaded_modules("from flask_notifications import create_blueprint")
    assert "marshmallow" in loaded_modules("from flask_notifications import load_plan")


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_resolves(name: str) -> None:
    value = getattr(flask_notifications, name)
    assert value is getattr(flask_notifications, name)
    assert getattr(value, "__name__", name) == name


def test_the_documented_names_are_all_public_names() -> None:
    assert sorted(flask_notifications.__all__) == sorted(NAMES)
    assert set(NAMES) <= set(dir(flask_notifications))
    assert run_python("from flask_notifications import *\nprint(Call.__name__)") == "Call\n"


@pytest.mark.parametrize("module", [flask_notifications, metrics])
@pytest.mark.parametrize("name", ["nothing", "use", "", "Matching"])
def test_an_unknown_name_is_an_attribute_error(module: Any, name: str) -> None:
    with pytest.raises(AttributeError, match=f"flask_notifications.*{name!r}"):
        getattr(module, name)


@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [
        ("sql", "sqlalchemy", "sqlalchemy"),
        ("usage", "sqlalchemy", "usage"),
        ("metrics.prometheus", "prometheus_client", "prometheus"),
        ("metrics.opentelemetry", "opentelemetry", "opentelemetry"),
    ],
)
def test_the_error_about_a_missing_extra_has_the_command_that_installs_it(
    module: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = importlib.import_module(f"flask_notifications.{module}")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == library else name)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'Flask-Notifications\[{extra}\]'"):
        importlib.reload(loaded)


@pytest.mark.parametrize(("module", "extra"), [("sql", "sqlalchemy"), ("usage", "usage")])
def test_an_older_sqlalchemy_is_as_a_missing_one(module: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = importlib.import_module(f"flask_notifications.{module}")
    monkeypatch.setattr("sqlalchemy.__version__", "1.4.54")
    with pytest.raises(ModuleNotFoundError, match=rf"SQLAlchemy 2: pip install 'Flask-Notifications\[{extra}\]'"):
        importlib.reload(loaded)


def test_writing_an_openapi_document_without_its_extra_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("flask_notifications.openapi.writer")
    monkeypatch.setattr(module, "find_spec", lambda _name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'Flask-Notifications\[openapi\]'"):
        module.openapi_document({})
