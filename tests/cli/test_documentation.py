"""The commands do what the pages on plans and checks show."""

import json
import re
from contextlib import chdir
from pathlib import Path
from typing import Any

from werkzeug.test import Client

from flask_notifications import DeprecationMiddleware, NotificationApp
from flask_notifications.cli import main
from flask_notifications.plans.changes import LEVELS
from flask_notifications.plans.files import PlanSchema
from flask_notifications.testing import MemoryStorage
from tests.cli.commands import run
from tests.cli.servers import Canned, canned_server
from tests.middleware import PLAN

DOCS = Path(__file__).parents[2] / "docs"
PLAN_FILE = (DOCS / "plan-file.md").read_text(encoding="utf-8")
WIRE = (DOCS / "wire.md").read_text(encoding="utf-8")
CHECK = (DOCS / "check.md").read_text(encoding="utf-8")
CHANGES = CHECK.partition("\n## In continuous integration\n")[2]


def shown(page: str, beginning: str) -> str:
    """Return the code block of a page that begins like this."""
    start = page.index(f"\n{beginning}") + 1
    return page[start : page.index("```", start)]


def test_the_plan_of_the_example_has_no_warnings() -> None:
    outcome = run("plan", DOCS.parent / "example_app" / "retirement.toml")
    assert (outcome.code, outcome.err) == (0, "")


COMMAND = re.compile(
    r"^.*flask-notifications check (?:https:|\"\$URL\")\S* (.+)", re.MULTILINE
)
PROMISE = """\
deprecated_at = 2026-01-01T00:00:00Z
[[operations]]
name = "report"
method = "GET"
path = "/reports/{id}"
sunset_at = 2026-12-01T00:00:00Z
"""
BROKEN = (
    PROMISE.replace("2026-12", "2026-10")
    + '[[operations]]\nname = "export"\nmethod = "POST"\npath = "/exports"\n'
)


def test_a_check_prints_what_the_page_shows() -> None:
    block = shown(CHECK, "$ flask-notifications check ")
    headers = re.findall(r"^  ([\w-]+): (.*)$", block, re.MULTILINE)
    with canned_server() as server:
        url = server.respond("/reports/7", Canned(200, headers))
        outcome = run("check", url)
    assert (outcome.code, outcome.err) == (3, "")
    _command, _newline, result = block.partition("\n")
    assert outcome.out == result.replace("https://api.example.com/reports/7", url)


def test_a_check_of_production_has_no_findings(tmp_path: Path) -> None:
    """As in the runbook and in continuous integration, with another host."""
    (tmp_path / "retirement.toml").write_text(PROMISE, encoding="utf-8")
    commands = []
    for page in DOCS.glob("*.md"):
        commands += COMMAND.findall(page.read_text(encoding="utf-8"))
    assert len(commands) == 2
    headers = [
        ("Deprecation", "@1767225600"),
        ("Sunset", "Tue, 01 Dec 2026 00:00:00 GMT"),
    ]
    with canned_server() as server, chdir(tmp_path):
        url = server.respond("/reports/7", Canned(200, headers))
        for options in commands:
            outcome = run("check", url, *options.split())
            assert outcome.out.endswith("0 errors, 0 warnings\n")


def test_a_comparison_prints_what_the_page_shows(tmp_path: Path) -> None:
    old, new = tmp_path / "old.toml", tmp_path / "new.toml"
    old.write_text(PROMISE, encoding="utf-8")
    new.write_text(BROKEN, encoding="utf-8")
    outcome = run("plan", new, "--against", old, "--at", "2026-02-01")
    assert outcome.out.endswith("\n\n" + shown(CHANGES, "error: "))


def test_the_errors_of_a_plan_are_those_of_the_page(tmp_path: Path) -> None:
    file = tmp_path / "retirement.toml"
    *values, syntax = (
        shown(PLAN_FILE, "retirement.toml: ")
        .replace("retirement.toml", str(file))
        .splitlines(keepends=True)
    )
    wrong = BROKEN.replace(
        '"/reports/{id}"', '"/reports/{id}"\ndeprecatd_at = 2026-01-01T00:00:00Z'
    )
    wrong += "deprecated_at = 2026-06-01T00:00:00Z\nsunset_at = 2026-05-01T00:00:00Z\n"
    file.write_text(wrong, encoding="utf-8")
    assert run("plan", file).err == "".join(values)
    file.write_text(f"{PROMISE}live =     yes\n", encoding="utf-8")
    assert run("plan", file).err == syntax


STORAGE = MemoryStorage(
    sessions={"s3cret": "alice"}, notifications={"alice": [], "bob": []}
)
APPLICATION = DeprecationMiddleware(NotificationApp(STORAGE), PLAN)


def test_the_headers_are_those_of_the_page() -> None:
    response = Client(APPLICATION).get("/API/Notification/?sessionId=s3cret")
    lines = re.sub(" +RFC.*", "", shown(WIRE, "Deprecation: ")).splitlines()
    headers = []
    for name in ("Deprecation", "Sunset", "Link"):
        headers.append(f"{name}: {response.headers[name]}")
    assert lines == headers


def test_a_problem_is_that_of_the_page() -> None:
    response = Client(APPLICATION).post(
        "/API/Notification/GetNotificationsForAccount/bob/?sessionId=s3cret"
    )
    assert response.json == json.loads(shown(WIRE, '{\n  "type"'))


def test_every_option_of_the_pages_exists() -> None:
    options = {"--app"}  # of Flask
    for command in main.commands.values():
        for parameter in command.params:
            options |= {*parameter.opts}
    for page in ("callers", "check", "retire", "troubleshooting", "usage"):
        content = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        assert set(re.findall(r"(?<![\w-])--[a-z-]+", content)) <= options


def test_the_page_lists_every_change_with_its_level() -> None:
    rows = re.findall(
        r"^\| `([a-z-]+)` \| (error|warning|info) \|", CHANGES, re.MULTILINE
    )
    assert dict(rows) == LEVELS


def test_the_reference_defines_every_key_of_a_plan() -> None:
    tables = " ".join(re.findall(r"^\|([^|]+)\|", PLAN_FILE, re.MULTILINE))
    keys: Any = PlanSchema().fields
    for key in [*keys, *keys["operations"].schema.fields]:
        assert f"`{key}`" in tables
