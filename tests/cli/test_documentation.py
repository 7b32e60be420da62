"""The commands do what the pages on plans and checks show."""

import re
from pathlib import Path

import pytest
import yaml

from flask_notifications.cli import main
from tests.cli.commands import run
from tests.cli.servers import Canned, canned_server
from tests.cli.test_check import CODES

DOCS = Path(__file__).parents[2] / "docs"
PLAN = (DOCS / "plan.md").read_text(encoding="utf-8")
RETIRE = (DOCS / "retire.md").read_text(encoding="utf-8")
CHECK = (DOCS / "check.md").read_text(encoding="utf-8")


def fenced(page: str, language: str) -> list[str]:
    """Return the code blocks of a page in a language."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [block for name, block in blocks if name == language]


@pytest.mark.parametrize("page", [PLAN, RETIRE], ids=["plan", "retire"])
def test_the_plan_of_the_page_gives_the_timeline_of_the_page(page: str, tmp_path: Path) -> None:
    plan, *_ = fenced(page, "toml")
    file = tmp_path / "retirement.toml"
    file.write_text(plan, encoding="utf-8")
    shown = next(block for block in fenced(page, "") if block.startswith("$ flask-notifications plan "))
    command, _, output = shown.partition("\n")
    options = command.split()[4:]
    assert run("plan", file, *options) == (0, output, "")


def test_the_plan_of_the_example_has_no_warnings() -> None:
    outcome = run("plan", DOCS.parent / "example_app" / "retirement.toml")
    assert (outcome.code, outcome.err) == (0, "")


def test_a_check_prints_what_the_page_shows() -> None:
    shown = next(block for block in fenced(CHECK, "") if block.startswith("$ flask-notifications check "))
    _command, first, *lines = shown.splitlines()
    headers = re.findall(r"^  ([\w-]+): (.*)$", shown, re.MULTILINE)
    with canned_server() as server:
        url = server.respond("/reports/7", Canned(200, headers))
        outcome = run("check", url)
    assert outcome.out.splitlines() == [first.replace("https://api.example.com/reports/7", url), *lines]


def test_the_page_lists_every_code_with_its_level() -> None:
    assert dict(re.findall(r"^\| `([a-z-]+)` \| (error|warning|info) \|", CHECK, re.MULTILINE)) == CODES


def test_the_page_lists_every_option() -> None:
    listed = set(re.findall(r"^\| `(--[a-z]+)", CHECK, re.MULTILINE))
    assert listed == {option.opts[0] for option in main.commands["check"].params if option.opts[0].startswith("--")}


@pytest.mark.parametrize("block", fenced(CHECK, "yaml"), ids=["GitHub Actions", "GitLab CI"])
def test_a_pipeline_is_yaml_that_gates_on_both_commands(block: str) -> None:
    assert isinstance(yaml.safe_load(block), dict)
    assert "flask-notifications plan retirement.toml\n" in block
    assert "flask-notifications check " in block
