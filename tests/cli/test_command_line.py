"""The command line as a whole: its imports, its help and its wrong arguments."""

import runpy
import subprocess
import sys

import pytest

from tests.cli.commands import run

COMMANDS = ["plan", "check", "usage", "guide"]
BASE_URL = ["--base-url", "http://127.0.0.1:1"]
HEAVY = {
    "flask",
    "werkzeug",
    "sqlalchemy",
    "marshmallow",
    "orjson",
    "jinja2",
}


@pytest.mark.parametrize(
    "arguments", [["--help"], *([name, "--help"] for name in COMMANDS)], ids=" ".join
)
def test_help_imports_no_framework_no_database_and_no_schema(
    arguments: list[str],
) -> None:
    code = (
        "import sys\nfrom flask_notifications.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit as ended:\n    assert ended.code == 0\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.startswith("Usage: ")
    assert all(
        f"\n  {word}" in done.stdout
        for word in (COMMANDS if len(arguments) == 1 else ["Exit code: 0"])
    )
    assert not HEAVY & set(done.stdout.splitlines()[-1].split())


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


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            ["unknown"],
            ["plan"],
            ["plan", "missing.toml"],
            ["plan", __file__],
            ["plan", "/"],
        ),
        *(
            ["check", "http://127.0.0.1:1/", "--timeout", seconds]
            for seconds in ("0", "inf", "nan", "soon")
        ),
        ["check", "--plan", "-", "--base-url", "http://user@127.0.0.1:1/"],
        *(
            [*command, "--base-url", "http://127.0.0.1:1/?a"]
            for command in (["check", "--plan", "-"], ["guide", "-"])
        ),
        *(
            ["check", *arguments]
            for arguments in ([], BASE_URL, ["http://127.0.0.1:1/", *BASE_URL])
        ),
        *(
            ["check", url]
            for url in (
                "",
                "old",
                "/old",
                "ftp://example.com/old",
                "http://",
                "http://[x/",
            )
        ),
        *(
            ["check", f"http://{url}"]
            for url in ("u:s3cret@a/", "a:0/", "a:70000/", "a/a b", "a/\u20ac")
        ),
        ["check", "http://127.0.0.1:1/", "--method", "G T"],
        ["check", "http://127.0.0.1:1/", "--plan", "missing.toml"],
        ["plan", "--schema", "--against", "-"],
        *(
            ["plan", "-", "--at", at]
            for at in ("2026-11-01T00:00", "soon", "", "01.11.2026", "2026-13-01")
        ),
        ["plan", "-", "--at", "0001-01-01T00:00+14:00"],
        ["usage", "sqlite:///a", "--caller", "acme"],
        ["usage", "sqlite:///a", "--log-prefix", "/"],
        ["usage", "sqlite:///a", "--log-format", ""],
        ["usage", "sqlite:///a", "--days", "0"],
        ["usage", "sqlite:///a", "--allow-gap", "-1"],
        ["usage", "sqlite:///a", "--until", "soon"],
    ],
    ids=" ".join,
)
def test_the_exit_code_for_wrong_arguments_is_2(arguments: list[str]) -> None:
    outcome = run(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert "Usage: " in outcome.err
    assert "Error: " in outcome.err
    assert "s3cret" not in outcome.err
