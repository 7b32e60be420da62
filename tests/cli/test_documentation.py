"""The commands do what the pages on plans and checks show."""

import json
import re
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
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
    (block,) = re.findall(
        rf"^```\w*\n({re.escape(beginning)}.*?)^```$", page, re.MULTILINE | re.DOTALL
    )
    return str(block)


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
    _command, first, *lines = block.splitlines()
    headers = re.findall(r"^  ([\w-]+): (.*)$", block, re.MULTILINE)
    with canned_server() as server:
        url = server.respond("/reports/7", Canned(200, headers))
        outcome = run("check", url)
    assert (outcome.code, outcome.err) == (3, "")
    assert outcome.out.splitlines() == [
        first.replace("https://api.example.com/reports/7", url),
        *lines,
    ]


def test_a_check_of_production_has_no_findings(tmp_path: Path) -> None:
    """As in the runbook and in continuous integration, with another host."""
    (tmp_path / "retirement.toml").write_text(PROMISE, encoding="utf-8")
    commands = [
        each
        for page in DOCS.glob("*.md")
        for each in COMMAND.findall(page.read_text(encoding="utf-8"))
    ]
    assert len(commands) == 2
    sent = [("Deprecation", "@1767225600"), ("Sunset", "Tue, 01 Dec 2026 00:00:00 GMT")]
    with canned_server() as server, chdir(tmp_path):
        url = server.respond("/reports/7", Canned(200, sent))
        for options in commands:
            assert run("check", url, *options.split()).out.endswith(
                "0 errors, 0 warnings\n"
            )


def test_a_comparison_prints_what_the_page_shows(tmp_path: Path) -> None:
    for name, content in (("old.toml", PROMISE), ("new.toml", BROKEN)):
        (tmp_path / name).write_text(content, encoding="utf-8")
    outcome = run(
        "plan",
        tmp_path / "new.toml",
        "--against",
        tmp_path / "old.toml",
        "--at",
        "2026-02-01",
    )
    assert outcome.out.endswith("\n\n" + shown(CHECK, "error: "))


def test_the_errors_of_a_plan_are_those_of_the_page(tmp_path: Path) -> None:
    *values, syntax = shown(PLAN_FILE, "retirement.toml: ").splitlines(keepends=True)
    file = tmp_path / "retirement.toml"
    wrong = BROKEN.replace(
        '"/reports/{id}"', '"/reports/{id}"\ndeprecatd_at = 2026-01-01T00:00:00Z'
    )
    wrong += "deprecated_at = 2026-06-01T00:00:00Z\nsunset_at = 2026-05-01T00:00:00Z\n"
    for content, message in (
        (wrong, "".join(values)),
        (PROMISE + "live =     yes\n", syntax),
    ):
        file.write_text(content, encoding="utf-8")
        assert run("plan", file).err == message.replace("retirement.toml", str(file))


STORAGE = MemoryStorage(
    sessions={"s3cret": "alice"}, notifications={"alice": [], "bob": []}
)
APPLICATION = DeprecationMiddleware(NotificationApp(STORAGE), PLAN)


def test_the_headers_are_those_of_the_page() -> None:
    response = Client(APPLICATION).get("/API/Notification/?sessionId=s3cret")
    lines = [
        re.sub(" +RFC.*", "", line)
        for line in shown(WIRE, "Deprecation: ").splitlines()
    ]
    sent = [
        ": ".join(header)
        for header in response.headers
        if header[0] in {"Deprecation", "Sunset", "Link"}
    ]
    assert {*lines} == {*sent}


def test_a_problem_is_that_of_the_page() -> None:
    response = Client(APPLICATION).post(
        "/API/Notification/GetNotificationsForAccount/bob/?sessionId=s3cret"
    )
    assert response.json == json.loads(shown(WIRE, '{\n  "type"'))


@pytest.mark.parametrize(
    "page", ["callers", "check", "retire", "troubleshooting", "usage"]
)
def test_every_option_of_a_page_exists(page: str) -> None:
    known = {
        option
        for command in main.commands.values()
        for each in command.params
        for option in each.opts
    }
    content = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    options = re.findall(r"(?<![\w-])--[a-z-]+", content.replace("flask --app", ""))
    assert set(options) <= known


def test_the_page_lists_every_change_with_its_level() -> None:
    listed = dict(
        re.findall(r"^\| `([a-z-]+)` \| (error|warning|info) \|", CHANGES, re.MULTILINE)
    )
    assert listed == LEVELS


def test_the_reference_defines_every_key_of_a_plan() -> None:
    tables = " ".join(re.findall(r"^\|([^|]+)\|", PLAN_FILE, re.MULTILINE))
    keys: Any = PlanSchema().fields
    assert {*keys, *keys["operations"].schema.fields} <= {
        *re.findall(r"`(\w+)`", tables)
    }
