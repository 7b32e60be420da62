"""The wheel and the source distribution without the checkout, and their metadata."""

import email
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.servers.process import run_program
from tests.services import program_or_skip

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
# The dependencies of an installation with all extras, and of the example application.
EXTRAS = chain(*PROJECT["optional-dependencies"].values())
REQUIRED = [
    *PROJECT["dependencies"],
    *EXTRAS,
    *PYPROJECT["dependency-groups"]["example"],
]


USED_ALONE = """
import json
from datetime import UTC, datetime
from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation
from flask_notifications.openapi import *

def app(environ, start_response):
    start_response("200 OK", [])
    return [b"rows"]

JANUARY, MARCH, MAY = (datetime(2026, month, 1, tzinfo=UTC) for month in (1, 3, 5))
policy = DeprecationPolicy(deprecated_at=JANUARY, sunset_at=MARCH, enforce_sunset=True)
plan = {Operation("report", "GET", "/report"): policy}
sent, calls = [], []
for at in (JANUARY, MAY):
    middleware = DeprecationMiddleware(app, plan, clock=lambda: at, observers=[calls.append])
    environ = {"REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": "/report", "QUERY_STRING": ""}
    middleware(environ, lambda status, headers: sent.append([status, dict(headers)["Deprecation"]]))
print(json.dumps([sent, [[call.operation, call.status, call.phase] for call in calls]]))
"""


@pytest.fixture(scope="module")
def committed() -> set[Path]:
    """Return the paths of the files that are committed or may be."""
    command = [program_or_skip("git"), "ls-files", "--cached", "--others"]
    listed = run_program(*command, "--exclude-standard", cwd=ROOT).stdout
    return {Path(name) for name in listed.splitlines() if (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def built(committed: set[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source distribution and from it the wheel, as a release does, and
    return their folder.
    """
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for path in committed:
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes((ROOT / path).read_bytes())
    build = [sys.executable, "-m", "build", "--no-isolation"]
    run_program(*build, "--outdir", folder, source)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (wheel,) = built.glob("*.whl")
    return wheel


def test_the_wheel_has_one_top_level_name_and_what_is_no_module(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        information = f"flask_notifications-{PROJECT['version']}.dist-info"
        points = opened.read(f"{information}/entry_points.txt").decode()
        metadata = email.message_from_bytes(opened.read(f"{information}/METADATA"))
    folders = {name.partition("/")[0] for name in names}
    assert folders == {"flask_notifications", information}
    assert {
        "flask_notifications/py.typed",
        "flask_notifications/formats/templates/guide.html",
        "flask_notifications/formats/templates/style.css",
        f"{information}/licenses/LICENSE",
    }.issubset(names)
    command = "retirement = flask_notifications.retirement:retirement"
    assert f"[flask.commands]\n{command}" in points
    # The readme's links and pictures are absolute.
    readme = str(metadata.get_payload())
    assert metadata["Description-Content-Type"] == "text/markdown"
    source, version = PROJECT["urls"]["Source"], PROJECT["version"]
    assert f"]({source}/blob/v{version}/docs/django.md)" in readme
    assert f"]({source}/raw/v{version}/docs/usage.png)" in readme
    assert re.findall(r"\]\((?!https:)([^)]+)", readme) == []


def test_the_middleware_and_openapi_need_no_other_package(
    wheel: Path, tmp_path: Path
) -> None:
    venv.create(tmp_path, with_pip=False)
    python = str(tmp_path / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python]
    run_program(*pip, "install", "--no-deps", "--no-index", wheel)
    done = run_program(python, "-I", "-c", USED_ALONE)
    assert done.stderr == ""
    assert json.loads(done.stdout) == [
        [["200 OK", "@1767225600"], ["410 Gone", "@1767225600"]],
        [["report", 200, "deprecated"], ["report", 410, "sunset"]],
    ]


# Applications and libraries that need Flask, Werkzeug, marshmallow, click, Jinja2 or
# SQLAlchemy. Without these versions, an old one that needs nothing would do.
NEIGHBOURS = """
apache-airflow>=3.3 apache-superset>=6.1 azure-ai-ml>=1.35 celery>=5.7 connexion>=3.3 dash>=4.4 dbt-core>=1.12
feast>=0.67 flask-appbuilder>=5.3 flask-restx>=1.3.2 flask-smorest>=0.47 great-expectations>=1.24 mlflow>=3.17
moto>=5.2 mwdb-core>=2.20 octoprint>=1.11.8 prefect>=3.9 streamlit>=1.67
"""


@pytest.mark.world
@pytest.mark.parametrize("package", [*NEIGHBOURS.split(), "apache-airflow==2.11.0"])
def test_the_wheel_can_be_installed_beside(package: str, wheel: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "-"],
        input=f"{wheel}\n{package}\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if package == "apache-airflow==2.11.0":
        assert "depends on flask>=2.2.1,<2.3" in done.stderr
    else:
        assert done.returncode == 0, done.stderr


def test_the_source_distribution_has_every_committed_file(
    committed: set[Path], built: Path
) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        packed = {Path(*Path(name).parts[1:]) for name in opened.getnames()}
    assert all(path.name.startswith(".") for path in committed - packed)


@pytest.mark.metadata
def test_dependencies_have_lower_bounds_and_no_upper_ones() -> None:
    for requirement in map(Requirement, REQUIRED):
        if requirement.name != "flask-notifications":
            operators = {specifier.operator for specifier in requirement.specifier}
            assert operators - {"!="} == {">="}, requirement


@pytest.mark.metadata
def test_the_changelog_begins_with_the_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.search(r"^## (\S+)", changelog, re.MULTILINE)
    assert heading is not None
    assert heading[1] == PROJECT["version"]
