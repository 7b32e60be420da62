"""What is installed: the wheel, without the checkout, and what its metadata says."""

import configparser
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
# What an installation needs, with whatever extra.
REQUIRED = [*PROJECT["dependencies"], *chain(*PROJECT["optional-dependencies"].values())]

USED_FROM_THE_WHEEL = """
import json, sys
import flask_notifications
from flask_notifications.testing import MemoryStorage
import flask

storage = MemoryStorage(sessions={"a": "alice"}, notifications={"alice": [{"id": 1}]})
app = flask.Flask("host")
app.register_blueprint(flask_notifications.create_blueprint(storage))
answer = app.test_client().get("/API/Notification/?sessionId=a")
print(json.dumps({"from": flask_notifications.__file__, "body": answer.get_json()}))
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel as a release would, from a copy of what is committed or about to be."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", built, source],
        check=True,
        capture_output=True,
    )
    (wheel,) = built.glob("*.whl")
    return wheel


def test_the_wheel_holds_one_top_level_name_the_type_marker_and_the_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"flask_notifications"}
    assert "flask_notifications/py.typed" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_wheel_works_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n{USED_FROM_THE_WHEEL}"
    result = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    used = json.loads(result.stdout)
    assert used["from"].startswith(str(tmp_path))
    assert used["body"] == [{"id": 1}]


def test_metadata_stand_in_one_file_only() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert not {"metadata", "options"} & set(setup.sections())


def test_dependencies_have_lower_bounds_and_no_upper_ones() -> None:
    for requirement in REQUIRED:
        if not requirement.startswith("flask-notifications"):
            assert ">=" in requirement, requirement
            assert not set("<=~!") & set(requirement.replace(">=", "")), requirement


def test_the_changelog_begins_with_the_version() -> None:
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    assert headings[0].split()[1] == PROJECT["version"]


def test_every_dependency_is_named_with_its_reason() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text().lower()
    for requirement in [*REQUIRED, *chain(*PYPROJECT["dependency-groups"].values())]:
        name = requirement.partition(">")[0].partition("[")[0]
        assert name == "flask-notifications" or re.search(rf"^\|.*\b{name}\b", contributing, re.MULTILINE), name
