"""The Django guide works when it is followed word for word in an empty folder."""

import os
import re
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.servers.process import PATIENCE, eventually, free_port, run_program, running

pytestmark = pytest.mark.slow

GUIDE = (Path(__file__).parents[1] / "docs" / "django.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```py\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
(SHOWN,) = re.findall(
    r"^\$ curl -i http://127.0.0.1:8000/reports/7/\n(.*?)^```$",
    GUIDE,
    re.MULTILINE | re.DOTALL,
)
(PLAN,) = re.findall(r"^```toml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
CLIENT_PROGRAM = """
from werkzeug.test import Client
from mysite.wsgi import application
for path in {paths}:
    response = Client(application).get(path)
    print(response.status_code, response.headers.get("Deprecation"), " ".join(response.text.split()))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a new Django project with the files of the guide, up to its section on
    sessions.
    """
    run(tmp_path, "-m", "django", "startproject", "mysite", ".")
    urls, wsgi, log_filter, tests, *_later = BLOCKS
    (tmp_path / "retirement.toml").write_text(PLAN, encoding="utf-8")
    (tmp_path / "mysite/urls.py").write_text(urls, encoding="utf-8")
    (tmp_path / "mysite/wsgi.py").write_text(f"{wsgi}\n{log_filter}", encoding="utf-8")
    (tmp_path / "mysite/tests.py").write_text(tests, encoding="utf-8")
    return tmp_path


def run(folder: Path, *arguments: str) -> Any:
    environ = dict(os.environ)
    environ.pop("DJANGO_SETTINGS_MODULE", None)
    return run_program(sys.executable, *arguments, cwd=folder, env=environ)


def call(project: Path, *paths: str) -> list[str]:
    program = CLIENT_PROGRAM.format(paths=paths)
    lines: list[str] = run(project, "-c", program).stdout.splitlines()
    return lines


def replace_old_view(project: Path, view: str) -> None:
    old = r"@require_safe\ndef old_report.*?\n\n\n"
    urls = re.sub(old, f"{view}\n\n", BLOCKS[0], flags=re.DOTALL)
    (project / "mysite/urls.py").write_text(urls, encoding="utf-8")


def test_a_view_repeats_what_its_response_announces(project: Path) -> None:
    replace_old_view(project, BLOCKS[4])
    announced, unmatched = call(project, "/reports/7/", "/v2/reports/7/")
    assert announced.endswith('{"report": 7, "successor": "/v2/reports/7/"}')
    assert unmatched == '200 None {"report": 7, "version": 2}'


SETTING_PROGRAM = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
import django
django.setup()
from django.core.servers.basehttp import get_internal_wsgi_application
print(type(get_internal_wsgi_application()).__name__)
"""


def test_the_development_server_has_the_middleware_by_a_setting(project: Path) -> None:
    assert run(project, "-c", SETTING_PROGRAM).stdout == "DeprecationMiddleware\n"
    with (project / "mysite/settings.py").open("a", encoding="utf-8") as file:
        file.write("WSGI_APPLICATION = None\n")
    assert run(project, "-c", SETTING_PROGRAM).stdout == "WSGIHandler\n"


def test_the_tests_in_the_guide_pass(project: Path) -> None:
    assert "Ran 2 tests" in run(project, "manage.py", "test", "mysite").stderr


def test_the_development_server_announces_as_the_guide_shows_and_logs_no_session(
    project: Path,
) -> None:
    port = free_port()
    manage = ["env", "-u", "DJANGO_SETTINGS_MODULE", sys.executable]
    manage += [f"{project}/manage.py", "runserver", "--noreload", f"127.0.0.1:{port}"]
    with running(manage, project, port) as server:
        url = f"http://127.0.0.1:{port}/reports/7/?sessionId=s3cret"
        with urlopen(url, timeout=PATIENCE) as response:
            shown = {f"HTTP/1.1 {response.status} OK", "", response.read().decode()}
            shown.update(map(": ".join, response.headers.items()))
        assert shown.issuperset(SHOWN.splitlines())
        eventually(lambda: "/reports/7/?sessionId=REDACTED" in server.written())
        assert "s3cret" not in server.written()


def test_django_rest_framework_reads_the_session(project: Path) -> None:
    *_, installed, authentication, view = BLOCKS
    (line,) = re.findall(r"add `(.*?)` at the end of `retirement.toml`", GUIDE)
    (project / "retirement.toml").write_text(PLAN + line, encoding="utf-8")
    with (project / "mysite/settings.py").open("a", encoding="utf-8") as file:
        file.write(installed)
    (project / "mysite/authentication.py").write_text(authentication, encoding="utf-8")
    replace_old_view(project, view)
    json_page, in_a_browser, unknown, without, ambiguous = call(
        project,
        "/reports/7/?sessionId=s3cret&format=json",
        "/reports/7/?sessionId=s3cret&format=api",
        "/reports/7/?sessionId=0ther",
        "/reports/7/",
        "/reports/7/?sessionId=a&sessionId=b",
    )
    assert json_page == '200 @1767225600 {"report":7,"user":"alice"}'
    assert in_a_browser.startswith("200 @1767225600 <!DOCTYPE html>")
    assert unknown.startswith("401 @1767225600")
    assert without.startswith("401 @1767225600")
    assert ambiguous.startswith("400 @1767225600")
