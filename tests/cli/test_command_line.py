"""The command line as a whole: its imports, its help and its wrong arguments."""

import runpy
import shlex
import sys

import pytest

from tests.cli.commands import run
from tests.servers.process import run_program

COMMANDS = ["plan", "check", "usage", "guide"]
HEAVY = {
    "flask",
    "werkzeug",
    "sqlalchemy",
    "marshmallow",
    "orjson",
    "jinja2",
}


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_imports_no_framework_no_database_and_no_schema(command: str) -> None:
    code = (
        "import sys\nfrom flask_notifications.cli import main\n"
        f"try:\n    main({[*command.split(), '--help']!r})\n"
        "except SystemExit as ended:\n    assert ended.code == 0\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    out = run_program(sys.executable, "-c", code).stdout
    assert out.startswith("Usage: ")
    for word in ["Exit code: 0"] if command else COMMANDS:
        assert f"\n  {word}" in out
    assert not HEAVY & set(out.splitlines()[-1].split())


def test_python_m_runs_the_same_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["flask_notifications", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("flask_notifications", run_name="__main__")
    assert (ended.value.code, capsys.readouterr().out) == (0, run("--version").out)


def test_the_help_has_a_whole_sentence_for_each_command() -> None:
    lines = run("--help").out.partition("Commands:\n")[2].splitlines()
    assert len(lines) == len(COMMANDS)
    assert [line for line in lines if line.endswith("...")] == []


# Arguments as on a command line.
WRONG = """
unknown
plan
plan missing.toml
plan /
plan setup.py
plan --schema --against -
plan - --at 2026-11-01T00:00
plan - --at soon
plan - --at ''
plan - --at 01.11.2026
plan - --at 2026-13-01
plan - --at 0001-01-01T00:00+14:00
guide - --base-url http://127.0.0.1:1/?a
check
check --base-url http://127.0.0.1:1
check http://127.0.0.1:1/ --base-url http://127.0.0.1:1
check --plan - --base-url http://user@127.0.0.1:1/
check --plan - --base-url http://127.0.0.1:1/?a
check http://127.0.0.1:1/ --plan missing.toml
check http://127.0.0.1:1/ --method 'G T'
check ''
check old
check /old
check ftp://example.com/old
check http://
check http://[x/
check http://u:s3cret@a/
check http://a:0/
check http://a:70000/
check 'http://a/a b'
check http://a/\u20ac
usage sqlite:///a --caller acme
usage sqlite:///a --log-prefix /
usage sqlite:///a --log-format ''
usage sqlite:///a --days 0
usage sqlite:///a --allow-gap -1
usage sqlite:///a --until soon
"""


@pytest.mark.parametrize("arguments", WRONG.strip().splitlines())
def test_the_exit_code_for_wrong_arguments_is_2(arguments: str) -> None:
    outcome = run(*shlex.split(arguments))
    assert (outcome.code, outcome.out) == (2, "")
    assert "Usage: " in outcome.err
    assert "Error: " in outcome.err
    assert "s3cret" not in outcome.err
