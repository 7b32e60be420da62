"""What importing the library brings in, and what it offers."""

import importlib
import subprocess
import sys

import pytest

import flask_notifications

# The names of the documentation; a name that goes is a breaking change.
NAMES = [
    "create_blueprint",
    "NotificationApp",
    "DeprecationMiddleware",
    "DeprecationPolicy",
    "Brownout",
    "Operation",
    "NOTIFICATION_OPERATIONS",
    "notification_operations",
    "load_policy",
    "Use",
    "NotificationStorage",
    "StorageError",
    "AccessDenied",
    "AccountNotFound",
    "StorageUnavailable",
    "SessionCredential",
    "SessionRefused",
    "session_of",
    "SessionLogFilter",
    "Statuses",
]

# Hides everything that is not part of Python, as on a machine where nothing else is installed.
STANDARD_LIBRARY_ONLY = """
import sys
from importlib.abc import MetaPathFinder

class Hidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        room = name.partition(".")[0]
        if room not in sys.stdlib_module_names and room != "flask_notifications":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
"""


def python(code: str) -> str:
    """Run code in an interpreter of its own and return what it prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded(code: str) -> set[str]:
    """Return the top-level modules that are loaded after running code."""
    return set(python(f"{code}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})").split())


def test_the_package_alone_imports_no_framework() -> None:
    assert not {"flask", "werkzeug", "marshmallow", "orjson", "sqlalchemy"} & loaded("import flask_notifications")


@pytest.mark.parametrize("room", ["middleware", "sessions", "deprecation"])
def test_a_room_that_needs_the_standard_library_only(room: str) -> None:
    python(f"{STANDARD_LIBRARY_ONLY}\nimport flask_notifications.{room}")


@pytest.mark.parametrize("name", ["flask", "orjson"])
def test_the_standard_library_is_all_that_is_left_then(name: str) -> None:
    with pytest.raises(AssertionError, match="ModuleNotFoundError"):
        python(f"{STANDARD_LIBRARY_ONLY}\nimport {name}")


def test_the_application_needs_no_flask() -> None:
    assert not {"flask", "werkzeug", "marshmallow"} & loaded("from flask_notifications import NotificationApp")


def test_only_loading_a_policy_needs_marshmallow() -> None:
    assert "marshmallow" not in loaded("from flask_notifications import create_blueprint")
    assert "marshmallow" in loaded("from flask_notifications import load_policy")


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_resolves(name: str) -> None:
    value = getattr(flask_notifications, name)
    assert value is getattr(flask_notifications, name)
    assert getattr(value, "__name__", name) == name


def test_the_public_names_are_all_there_is() -> None:
    assert sorted(flask_notifications.__all__) == sorted(NAMES)
    assert set(NAMES) <= set(dir(flask_notifications))
    assert python("from flask_notifications import *\nprint(Use.__name__)") == "Use\n"


@pytest.mark.parametrize("name", ["nothing", "use", "", "Claim"])
def test_an_unknown_name_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"flask_notifications.*{name!r}"):
        getattr(flask_notifications, name)


def test_an_unknown_name_cannot_be_imported() -> None:
    with pytest.raises(ImportError, match="Nothing"):
        from flask_notifications import Nothing  # noqa: F401, PLC0415 - the mistake that is tested


@pytest.mark.parametrize(
    ("room", "library", "extra"), [("sql", "sqlalchemy", "sqlalchemy"), ("openapi", "apispec", "openapi")]
)
def test_a_missing_extra_names_the_command_that_installs_it(
    room: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(f"flask_notifications.{room}")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == library else name)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'Flask-Notifications\[{extra}\]'"):
        importlib.reload(module)
