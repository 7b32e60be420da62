"""The command ``plan``: the timeline of each operation, and every error with its place
in the file.
"""

import errno
import json
import os
import re
import subprocess
import sys
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

import flask_notifications.cli
from tests.cli.commands import run
from tests.servers.process import run_program
from tests.services import program_or_skip

PLAN = """
deprecated_at = 2026-01-01T00:00:00Z
documentation = "https://example.com/retire"
sunset_at = 2026-12-01T00:00:00Z
brownouts = [{ start = 2026-11-03T09:00:00Z, end = 2026-11-03T09:15:00Z }]
operations = [
  { name = "report", method = "GET", path = "/reports/{id}", successor = "/v2/reports" },
  { name = "latest", method = "GET", path = "/reports/latest", live = true },
]
"""


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    return write_file(tmp_path, PLAN)


def write_file(folder: Path, content: str, name: str = "plan.toml") -> Path:
    file = folder / name
    file.write_text(content, encoding="utf-8")
    return file


def test_the_timeline_shows_brownouts_and_operations_that_stay(plan_file: Path) -> None:
    """The example of the runbook shows the rest."""
    lines = run("plan", plan_file, "--at", "2026-11-01").out.splitlines()
    assert (
        lines[3] == "  deprecated; next: brownout in 2 days, on 3 Nov 2026, 09:00 UTC"
    )
    assert (
        lines[6]
        == "  3 Nov 2026, 09:00 UTC   in 2 days       brownout for 15 minutes: responds 410"
    )
    assert lines[-2:] == [
        "latest  GET /reports/latest",
        "  live: not deprecated, sends no headers",
    ]


def test_brownouts_that_repeat_are_one_line(tmp_path: Path) -> None:
    weekly = PLAN.replace("09:15:00Z }", "09:15:00Z, every_hours = 168 }")
    lines = run("plan", write_file(tmp_path, weekly), "--at", "2026-11-01").out
    assert (
        "  3 Nov 2026, 09:00 UTC   in 2 days       brownout for 15 minutes, every 7 days,\n"
        "    4 times, the last on 24 Nov 2026: responds 410\n"
    ) in lines
    assert lines.count("responds 410") == 1


RETIRED = """
deprecated_at = 2026-01-01T00:00:00Z
[[operations]]
name = "report"
method = "GET"
path = "/reports"
"""
CONDITIONS = """
query = { cmd = "a\\u001b", sessionId = "*" }
headers = { API-Version = ["1", ""] }
"""


def test_the_path_and_the_conditions_of_an_operation_are_shown_escaped(
    tmp_path: Path,
) -> None:
    file = write_file(
        tmp_path, RETIRED.replace('"/reports"', r'"/reports\u009b"') + CONDITIONS
    )
    assert run("plan", file).out.splitlines()[2:6] == [
        r"report  GET /reports\x9b",
        r"  if query cmd is 'a\x1b'",
        "  if query sessionId is there",
        "  if header API-Version is '1' or absent",
    ]
    (described,) = json.loads(run("plan", file, "--format", "json").out)["operations"]
    conditions = {
        "query": {"cmd": "a\x1b", "sessionId": "*"},
        "headers": {"API-Version": ["1", ""]},
    }
    assert described["conditions"] == conditions


def test_all_but_headers_fits_the_terminal_and_paths_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "/a-rather-long-path/of-many/segments/that-are-whole/{in}/{one}"
    plan = RETIRED.replace('"/reports"', f'"/reports{long}"').replace(
        "[[", 'documentation = "/' + "d" * 70 + '"\n[['
    )
    old = write_file(
        tmp_path,
        plan + EXEMPT.replace("holidays", "the holidays of their developers"),
        "old.toml",
    )
    lines = run("plan", old, "--at", "2026-09-01").out.splitlines()
    assert lines[2:4] == ["report  GET", f"  /reports{long}"]
    event = (
        "  1 Oct 2026, 00:00 UTC   in 30 days      end of the exemption of acme: the"
    )
    assert lines[lines.index(event) + 1] == "    holidays of their developers"
    lines = run(
        "plan", write_file(tmp_path, plan), "--against", old, "--at", "2026-09-01"
    ).out.splitlines()
    assert [each for each in lines if len(each) > 80] == [
        f'  Link: </{"d" * 70}>; rel="deprecation"; type="text/html"'
    ]
    assert lines[-1].endswith(" broken promises")
    monkeypatch.setenv("COLUMNS", "30")
    lines = run(
        "plan", write_file(tmp_path, plan), "--against", old, "--at", "2026-09-01"
    ).out.splitlines()
    assert [each for each in lines if len(each) > 30 and "/" not in each] == []


EXEMPT = """
sunset_at = 2026-12-01T00:00:00Z
enforce_sunset = true
exemptions = [
  { caller = "warehouse", until = 2027-03-01T00:00:00Z, reason = "contract\\nuntil \\u001bMarch" },
  { caller = "acme", until = 2026-10-01T00:00:00Z, reason = "holidays" },
  { caller = "early", until = 2026-11-30T00:00:00Z, reason = "by mistake" },
]
"""


def test_every_exemption_is_printed_with_its_end_and_reason(tmp_path: Path) -> None:
    file = write_file(tmp_path, RETIRED + EXEMPT)
    outcome = run("plan", file, "--at", "2026-11-01")
    assert outcome.code == 0
    assert [
        line
        for line in outcome.out.replace("\n    ", " ").splitlines()
        if "exemption" in line
    ] == [
        "  1 Mar 2027, 00:00 UTC   in 4 months     end of the exemption of warehouse: contract\\nuntil \\x1bMarch",
        "  1 Oct 2026, 00:00 UTC   31 days ago     end of the exemption of acme: holidays",
        "  30 Nov 2026, 00:00 UTC  in 29 days      end of the exemption of early: by mistake",
    ]
    assert outcome.err.splitlines() == [
        "warning: report: the exemption of 'acme' ended on 1 Oct 2026, 00:00 UTC",
        (
            "warning: report: the exemption of 'early' has no effect, because the operation works until "
            "30 Nov 2026, 00:00 UTC for everybody"
        ),
    ]
    (described,) = json.loads(run("plan", file, "--format", "json").out)["operations"]
    assert described["exemptions"][1] == {
        "caller": "acme",
        "until": "2026-10-01T00:00:00Z",
        "reason": "holidays",
    }


def test_the_timeline_as_json(plan_file: Path) -> None:
    outcome = run(
        "plan", plan_file, "--at", "2026-11-01T02:00:00+02:00", "--format", "json"
    )
    assert (outcome.code, outcome.err) == (0, "")
    shown = json.loads(outcome.out)
    headers = shown["operations"][0].pop("headers")
    assert headers[:2] == [
        ["Deprecation", "@1767225600"],
        ["Sunset", "Tue, 01 Dec 2026 00:00:00 GMT"],
    ]
    following = {"phase": "brownout", "at": "2026-11-03T09:00:00Z"}
    report = {
        "name": "report",
        "method": "GET",
        "path": "/reports/{id}",
        "phase": "deprecated",
        "next": following,
    }
    latest = {
        "name": "latest",
        "method": "GET",
        "path": "/reports/latest",
        "phase": None,
        "next": None,
    }
    operations = [report, latest | {"headers": []}]
    assert shown == {
        "schema": 1,
        "at": "2026-11-01T00:00:00Z",
        "operations": operations,
        "changes": [],
    }


@pytest.mark.parametrize(
    ("at", "state"),
    [
        (
            "2025-12-31",
            "announced; next: deprecated in 24 hours, on 1 Jan 2026, 00:00 UTC",
        ),
        (
            "2026-11-03T09:05:00Z",
            "brownout; next: deprecated in 10 minutes, on 3 Nov 2026, 09:15 UTC",
        ),
        ("2026-12-01", "sunset; no further change is scheduled"),
    ],
)
def test_each_phase_has_a_line_that_says_what_changes_next(
    at: str, state: str, tmp_path: Path
) -> None:
    file = write_file(
        tmp_path, PLAN.replace("brownouts =", "enforce_sunset = true\nbrownouts =")
    )
    assert f"\n  {state}\n" in run("plan", file, "--at", at).out


def test_the_default_date_is_now(plan_file: Path) -> None:
    assert (
        json.loads(run("plan", plan_file, "--format", "json").out)["at"] > "2020-01-01"
    )


JSON_PLAN = json.dumps({"deprecated_at": "2026-01-01T00:00:00Z", "prefix": "/v1"})


def test_unknown_keys_are_in_the_same_order_in_every_run_and_escaped(
    tmp_path: Path,
) -> None:
    keys = [
        *(f"key {number}" for number in range(10, 30)),
        "\x1b[31m",
        "a\nb",
        "\ud800",
    ]
    outcome = run(
        "plan",
        write_file(
            tmp_path,
            json.dumps(json.loads(JSON_PLAN) | dict.fromkeys(keys)),
            "plan.json",
        ),
    )
    assert outcome.code == 1
    shown = [r"\x1b[31m", r"a\nb", *keys[:20], r"\ud800"]
    assert [line.split(": ")[1] for line in outcome.err.splitlines()] == shown


def test_a_warning_on_standard_error_changes_no_exit_code(tmp_path: Path) -> None:
    content = PLAN.replace("https://example.com/retire", "/reports/1")
    outcome = run("plan", write_file(tmp_path, content), "--format", "json")
    assert outcome.err.startswith(
        "warning: report: documentation /reports/1 is a path of the deprecated operation report\n"
    )
    assert (outcome.code, json.loads(outcome.out)["schema"]) == (0, 1)


@pytest.mark.parametrize(("no_color", "is_coloured"), [("", True), ("1", False)])
def test_colours_are_for_terminals_and_no_color_switches_them_off(
    no_color: str, is_coloured: bool, plan_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(sys, "stdout", terminal)
    flask_notifications.cli.main(["plan", str(plan_file)], standalone_mode=False)
    assert "report" in terminal.getvalue()
    assert ("\x1b[" in terminal.getvalue()) == is_coloured


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            OSError(errno.ENOSPC, "No space left"),
            "Error: the output cannot be written to: No space left\n",
        ),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), ""),
    ],
    ids=["a full disk", "a pipe that nobody reads"],
)
def test_a_result_that_cannot_be_written_is_an_error(
    error: Exception,
    message: str,
    plan_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for arguments in (
        ["plan", str(plan_file)],
        ["guide", str(plan_file)],
        ["--help"],
        ["--version"],
    ):
        monkeypatch.setattr(sys, "stdout", StringIO())
        monkeypatch.setattr(sys.stdout, "write", Mock(side_effect=error))
        monkeypatch.setattr(
            sys, "stderr", sys.stderr
        )  # click replaces both if the pipe is broken
        with pytest.raises(SystemExit) as ended:
            flask_notifications.cli.main(arguments)
        assert ended.value.code == 1
        monkeypatch.undo()
        assert capsys.readouterr().err == message


@pytest.mark.parametrize(
    ("is_terminal", "written"),
    [(False, "\u00e9\u5831".encode()), (True, b"\xe9\\u5831")],
    ids=["a file", "a terminal"],
)
def test_a_file_is_in_utf_8_and_a_terminal_gets_what_it_can_show(
    is_terminal: bool, written: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = TextIOWrapper(BytesIO(), encoding="latin-1")
    monkeypatch.setattr(output, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stdout", output)
    file = write_file(
        tmp_path, PLAN.replace('name = "report"', 'name = "\u00e9\u5831"')
    )
    with pytest.raises(SystemExit):
        flask_notifications.cli.main(["plan", str(file)])
    output.flush()
    assert written in output.buffer.getvalue()


def test_a_plan_may_come_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    # As PowerShell writes files: with a byte order mark.
    marked = [f"\ufeff{content}" for content in (PLAN, JSON_PLAN)]
    for content in (
        PLAN,
        JSON_PLAN,
        *marked,
        PLAN.replace("deprecated_at", "deprecate_at"),
    ):
        monkeypatch.setattr(
            sys, "stdin", SimpleNamespace(buffer=BytesIO(content.encode()))
        )
        outcome = run("plan", "-", "--at", "2026-11-01")
        assert (outcome.code, outcome.out[:12]) == (
            (1, "") if "deprecate_at" in content else (0, "2 operations")
        )
    assert outcome.err.startswith(
        "-: deprecate_at: is not a known key; did you mean deprecated_at?"
    )


def test_standard_input_is_open_and_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=BytesIO(PLAN.encode())))
    outcome = run("plan", "-", "--against", "-")
    assert (
        outcome.code,
        "only one argument can read standard input" in outcome.err,
    ) == (2, True)
    monkeypatch.setattr(sys, "stdin", None)
    outcome = run("plan", "-")
    assert (outcome.code, "is closed" in outcome.err) == (1, True)


def test_a_plan_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.symlink_to("/proc/self/mem")
    assert run("plan", file) == (1, "", f"Error: {file}: Input/output error\n")
    no_mapping = write_file(tmp_path, "[]", "plan.json")
    assert run("plan", no_mapping).err.startswith(f"{no_mapping}: ")


def test_a_broken_promise_is_exit_code_3(tmp_path: Path) -> None:
    enforced = f"enforce_sunset = true\n{PLAN}"
    plan_file = write_file(tmp_path, enforced)
    options = ("--against", plan_file, "--at", "2026-09-01")
    content = enforced.replace("2026-12-01", "2026-11-04")
    earlier = write_file(tmp_path, content, "new.toml")
    outcome = run("plan", earlier, *options, "--min-notice", "90")
    assert (outcome.code, outcome.out.splitlines()[-1]) == (
        3,
        "2 changes for callers, 2 broken promises",
    )
    assert "90 days of notice" in outcome.out
    (change,) = json.loads(run("plan", earlier, *options, "--format", "json").out)[
        "changes"
    ]
    assert list(change.values())[:3] == ["report", "sunset-earlier", "error"]
    assert run("plan", plan_file, *options).out.endswith(
        "\n\n0 changes for callers, 0 broken promises\n"
    )


def test_a_new_name_begins_a_new_record(plan_file: Path, tmp_path: Path) -> None:
    renamed = write_file(tmp_path, PLAN.replace('"report"', '"reports"'), "new.toml")
    outcome = run("plan", renamed, "--against", plan_file, "--at", "2026-09-01")
    assert "0 changes for callers" in outcome.out
    assert "begin a new record of usage: reports\n" in outcome.err


def test_an_error_in_the_old_plan_names_its_file(
    plan_file: Path, tmp_path: Path
) -> None:
    old = write_file(tmp_path, PLAN.replace("live = true", 'live = "yes"'), "old.toml")
    message = (
        "operations.1.live: latest: must be true or false, without quotation marks"
    )
    assert run("plan", plan_file, "--against", old) == (1, "", f"{old}: {message}\n")
    assert run("plan", plan_file, "--min-notice", "30").code == 2


def test_the_documented_line_stops_a_pull_request_that_breaks_a_promise(
    tmp_path: Path,
) -> None:
    page = (Path(__file__).parents[2] / "docs/check.md").read_text(encoding="utf-8")
    (workflow,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    _checkout, _python, _pip, plan, _check, against = yaml.safe_load(workflow)["jobs"][
        "retirement"
    ]["steps"]
    line = f"{plan['run']}\n{against['run']}"
    file = write_file(tmp_path, PLAN, "retirement.toml")
    git = program_or_skip("git")
    made = (
        "init -b main",
        "config user.name a",
        "config user.email a@example.com",
        "remote add origin .",
    )
    for command in (
        *made,
        "add retirement.toml",
        "commit -m Promise",
        "checkout -b change",
    ):
        run_program(git, *command.split(), cwd=tmp_path)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = os.environ | {"PATH": path, "GITHUB_BASE_REF": "main"}
    for content, code in (
        (PLAN.replace("2026-12-01", "2099-12-01"), 0),
        (PLAN.replace("2026-12-01", "2026-10-01"), 3),
    ):
        file.write_text(content, encoding="utf-8")
        run_program(git, "commit", "-am", "Change the date", cwd=tmp_path)
        options: Any = {
            "cwd": tmp_path,
            "env": environ,
            "capture_output": True,
            "text": True,
        }
        ended = subprocess.run(["bash", "-e", "-c", line], check=False, **options)
        assert (ended.returncode, "sunset-earlier" in ended.stdout) == (
            code,
            code == 3,
        ), ended.stderr
