"""The command line as a whole: its imports, its help and its exit codes."""

import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import run
from tests.cli.servers import Canned, canned_server
from tests.servers.process import free_port

COMMANDS = ["plan", "check", "usage", "guide"]
HEAVY = {"flask", "werkzeug", "sqlalchemy", "marshmallow", "orjson", "apispec", "jinja2"}


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in COMMANDS)], ids=" ".join)
def test_help_imports_no_framework_no_database_and_no_schema(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom flask_notifications.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit as ended:\n    assert ended.code == 0\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("Usage: ")
    assert not HEAVY & set(done.stdout.splitlines()[-1].split())


def test_python_m_runs_the_same_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["flask_notifications", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("flask_notifications", run_name="__main__")
    assert (ended.value.code, capsys.readouterr().out) == (0, run("--version").out)


def test_the_help_lists_every_command_and_every_command_has_help() -> None:
    for command in COMMANDS:
        assert f"\n  {command} " in run("--help").out
        outcome = run(command, "--help")
        assert (outcome.code, outcome.err, "Exit code: 0" in outcome.out) == (0, "", True)


# Scripts and pipelines rely on these codes, so they stay the same in all versions.
EXIT_CODES = {
    "help": (["--help"], 0),
    "the version": (["--version"], 0),
    "a valid plan": (["plan", "valid.json"], 0),
    "a plan with a warning": (["plan", "warning.json"], 0),
    "a plan with errors": (["plan", "errors.json"], 1),
    "a plan that is not JSON": (["plan", "syntax.json"], 1),
    "an invalid date": (["plan", "valid.json", "--at", "soon"], 2),
    "production without findings": (["check", "{url}/good"], 0),
    "production with a warning": (["check", "{url}/warning"], 0),
    "production with an error": (["check", "{url}/error"], 3),
    "production that differs from the plan": (["check", "{url}/good", "--plan", "valid.json"], 3),
    "production that is not reachable": (["check", "http://127.0.0.1:{port}/"], 1),
    "a check with a plan with errors": (["check", "{url}/good", "--plan", "errors.json"], 1),
    "a check of an invalid URL": (["check", "good"], 2),
}
PLANS = {
    "valid.json": '{"deprecated_at": "2026-01-01T00:00:00Z"}',
    "warning.json": '{"operations": [{"name": "a", "method": "GET", "path": "/a", "live": true}]}',
    "errors.json": "{}",
    "syntax.json": "{",
}
GOOD = [("Deprecation", "@1767225600")]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the URL of a server, after a change to a folder with some plans."""
    monkeypatch.chdir(tmp_path)
    for name, content in PLANS.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    with canned_server() as server:
        server.respond("/good", Canned(200, GOOD))
        server.respond("/warning", Canned(200, GOOD), head=Canned(405, GOOD))
        server.respond("/error", Canned(200))
        yield server.url


@pytest.mark.parametrize(("arguments", "code"), EXIT_CODES.values(), ids=EXIT_CODES)
def test_exit_codes_stay_the_same(arguments: list[str], code: int, site: str) -> None:
    filled_in = [argument.format(url=site, port=free_port()) for argument in arguments]
    assert run(*filled_in).code == code


@pytest.mark.parametrize(
    "arguments",
    [
        *(["unknown"], ["plan"], ["plan", "missing.toml"], ["plan", __file__], ["plan", "/"]),
        ["guide", "--format", "xml"],
        *(["check", "http://127.0.0.1:1/", "--timeout", seconds] for seconds in ("0", "soon")),
        ["check", "http://127.0.0.1:1/", "--method", "G T"],
        ["check", "http://127.0.0.1:1/", "--plan", "missing.toml"],
        *(["usage", "sqlite:///a", "--days", days] for days in ("0", "x")),
        ["usage", "sqlite:///a", "--allow-gap", "-1"],
        ["usage", "sqlite:///a", "--until", "soon"],
        ["usage", "sqlite:///a", "--format", "xml"],
    ],
    ids=" ".join,
)
def test_the_exit_code_for_wrong_arguments_is_2(arguments: list[str]) -> None:
    outcome = run(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert "Usage: " in outcome.err
    assert "Error: " in outcome.err
