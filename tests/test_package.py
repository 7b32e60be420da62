"""The wheel and the source distribution without the checkout, and their metadata."""

import configparser
import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from itertools import chain
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
# The dependencies of an installation with all extras, and of the example application.
EXTRAS = chain(*PROJECT["optional-dependencies"].values())
REQUIRED = [*PROJECT["dependencies"], *EXTRAS, *PYPROJECT["dependency-groups"]["example"]]

USED_FROM_THE_WHEEL = """
import json, sys
import flask_notifications
from flask_notifications.testing import MemoryStorage
import flask

storage = MemoryStorage(sessions={"a": "alice"}, notifications={"alice": [{"id": 1}]})
app = flask.Flask("app")
app.register_blueprint(flask_notifications.create_blueprint(storage))
response = app.test_client().get("/API/Notification/?sessionId=a")
print(json.dumps({"from": flask_notifications.__file__, "body": response.get_json()}))
"""


@pytest.fixture(scope="module")
def committed() -> list[Path]:
    """Return the paths of the files that are committed or may be."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [Path(name) for name in listed.splitlines() if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def source(committed: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the committed files, and return their folder."""
    source = tmp_path_factory.mktemp("source")
    for path in committed:
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes((ROOT / path).read_bytes())
    return source


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel as a release would, and return its path."""
    return build("--wheel", source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def unpacked(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source distribution as a release would, and return the folder with its files."""
    built = tmp_path_factory.mktemp("sdist")
    shutil.unpack_archive(build("--sdist", source, built), built, filter="data")
    (unpacked,) = (path for path in built.iterdir() if path.is_dir())
    return unpacked


def build(kind: str, source: Path, folder: Path) -> Path:
    """Build one distribution into an empty folder, and return its path."""
    command = [sys.executable, "-m", "build", kind, "--no-isolation", "--outdir", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


def test_the_wheel_has_one_top_level_name_the_type_marker_and_the_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"flask_notifications"}
    assert "flask_notifications/py.typed" in names
    assert "flask_notifications/pages/templates/guide.html" in names
    assert "flask_notifications/pages/templates/style.css" in names
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


def test_the_source_distribution_has_every_committed_file(committed: list[Path], unpacked: Path) -> None:
    missing = {path for path in committed if not (unpacked / path).is_file()}
    assert missing <= {Path(".gitignore"), Path(".readthedocs.yaml")}


def test_the_fast_tests_pass_in_the_source_distribution(unpacked: Path) -> None:
    fast = [
        "-q",
        "-n",
        "auto",
        "--dist",
        "loadfile",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        "--hypothesis-profile=fast",
    ]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *fast], cwd=unpacked, check=False, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout
    assert re.search(r"^\d{4,} passed", result.stdout, re.MULTILINE), result.stdout


def test_metadata_are_in_one_file_only() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert not {"metadata", "options"} & set(setup.sections())


def test_dependencies_have_lower_bounds_and_no_upper_ones() -> None:
    for requirement in REQUIRED:
        if not requirement.startswith("flask-notifications"):
            version = requirement.partition(";")[0]
            assert ">=" in version, requirement
            assert not set("<=~!") & set(version.replace(">=", "")), requirement


def test_the_changelog_begins_with_the_version() -> None:
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    assert headings[0].split()[1] == PROJECT["version"]


def test_every_dependency_is_listed_with_its_reason() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text().lower()
    listed = chain(REQUIRED, *PYPROJECT["dependency-groups"].values())
    for requirement in (each for each in listed if isinstance(each, str)):  # the others include a group
        name = requirement.partition(">")[0].partition("[")[0]
        assert name == "flask-notifications" or re.search(rf"^\|.*\b{name}\b", contributing, re.MULTILINE), name
