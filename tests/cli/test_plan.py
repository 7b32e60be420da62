"""The command ``plan``: the timeline of each operation, and every error with its place
in the file.
"""

import errno
import json
import os
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
from tests.servers.process import ROOT, run_program
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


@pytest.mark.parametrize("columns", [80, 30])
def test_all_but_headers_fits_the_terminal_and_paths_are_whole(
    columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    path = "/reports/a-rather-long-path/of-many/segments/that-are-whole/{in}/{one}"
    plan = RETIRED.replace("/reports", path)
    exempt = EXEMPT.replace("holidays", "the holidays of their developers")
    old = write_file(tmp_path, plan + exempt, "old.toml")
    lines = run("plan", old, "--at", "2026-09-01").out.splitlines()
    assert lines[lines.index("report  GET") + 1] == f"  {path}"
    assert "  Sunset: Tue, 01 Dec 2026 00:00:00 GMT" in lines
    new = write_file(tmp_path, plan)
    lines += run("plan", new, "--against", old).out.splitlines()
    assert "broken promise" in lines[-1]
    for line in lines:
        if not line.startswith(("  Deprecation: ", "  Sunset: ", f"  {path}")):
            assert len(line) <= columns


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
    words = " ".join(outcome.out.split()) + " "
    places = []
    for exemption in (  # in the order of their dates
        "1 Oct 2026, 00:00 UTC 31 days ago end of the exemption of acme: holidays ",
        "30 Nov 2026, 00:00 UTC in 29 days end of the exemption of early: by mistake ",
        "1 Mar 2027, 00:00 UTC in 4 months end of the exemption of warehouse: contract\\nuntil \\x1bMarch ",
    ):
        places.append(words.index(exemption))
    assert places == sorted(places)
    (described,) = json.loads(run("plan", file, "--format", "json").out)["operations"]
    assert described["exemptions"][1] == {
        "caller": "acme",
        "until": "2026-10-01T00:00:00Z",
        "reason": "holidays",
    }


def test_the_timeline_as_json(plan_file: Path) -> None:
    options = ("--at", "2026-11-01T02:00:00+02:00", "--format", "json")
    shown = json.loads(run("plan", plan_file, *options).out)
    assert shown["operations"][0]["headers"].pop()[0] == "Link"
    report = {
        "name": "report",
        "method": "GET",
        "path": "/reports/{id}",
        "phase": "deprecated",
        "next": {"phase": "brownout", "at": "2026-11-03T09:00:00Z"},
        "headers": [
            ["Deprecation", "@1767225600"],
            ["Sunset", "Tue, 01 Dec 2026 00:00:00 GMT"],
        ],
    }
    latest: dict[str, Any] = {
        "name": "latest",
        "method": "GET",
        "path": "/reports/latest",
        "phase": None,
        "next": None,
        "headers": [],
    }
    assert shown == {
        "schema": 1,
        "at": "2026-11-01T00:00:00Z",
        "operations": [report, latest],
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
    keys = ["b", "\ud800", "a\nb", "c", "\x1b[31m"]
    plan = json.loads(JSON_PLAN) | dict.fromkeys(keys)
    outcome = run("plan", write_file(tmp_path, json.dumps(plan), "plan.json"))
    assert outcome.code == 1
    shown = [line.split(": ")[1] for line in outcome.err.splitlines()]
    assert shown == [r"\x1b[31m", r"a\nb", "b", "c", r"\ud800"]


def test_a_warning_on_standard_error_changes_no_exit_code(tmp_path: Path) -> None:
    outcome = run("plan", write_file(tmp_path, PLAN.replace("09:15:00Z", "09:04:00Z")))
    assert outcome.code == 0
    warning = "the brownout of 3 Nov 2026, 09:00 UTC lasts 4 minutes; retries survive less than 5 minutes"
    assert outcome.err == f"warning: report: {warning}\n"


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
    for arguments in (["plan", str(plan_file)], ["guide", str(plan_file)], ["--help"]):
        monkeypatch.setattr(sys, "stdout", StringIO())
        monkeypatch.setattr(sys.stdout, "write", Mock(side_effect=error))
        # click replaces both if the pipe is broken
        monkeypatch.setattr(sys, "stderr", sys.stderr)
        with pytest.raises(SystemExit) as ended:
            flask_notifications.cli.main(arguments)
        monkeypatch.undo()
        assert (ended.value.code, capsys.readouterr().err) == (1, message)


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
    file = write_file(tmp_path, PLAN.replace('"report"', '"\u00e9\u5831"'))
    flask_notifications.cli.main(["plan", str(file)], standalone_mode=False)
    output.flush()
    assert written in output.buffer.getvalue()


def set_standard_input(monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    stdin = SimpleNamespace(buffer=BytesIO(content.encode()))
    monkeypatch.setattr(sys, "stdin", stdin)


# As PowerShell writes files: with a byte order mark.
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["unmarked", "marked"])
@pytest.mark.parametrize("content", [PLAN, JSON_PLAN], ids=["TOML", "JSON"])
def test_a_plan_may_come_from_standard_input(
    content: str, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_standard_input(monkeypatch, mark + content)
    outcome = run("plan", "-", "--at", "2026-11-01")
    assert outcome.code == 0
    assert outcome.out.startswith("2 operations")


def test_an_error_in_a_plan_from_standard_input_is_placed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_standard_input(monkeypatch, PLAN.replace("deprecated_at", "deprecate_at"))
    outcome = run("plan", "-")
    assert outcome.code == 1
    message = "deprecate_at: is not a known key; did you mean deprecated_at?"
    assert outcome.err.startswith(f"-: {message}")


def test_standard_input_is_open_and_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    set_standard_input(monkeypatch, PLAN)
    outcome = run("plan", "-", "--against", "-")
    assert outcome.code == 2
    assert "only one argument can read standard input" in outcome.err
    monkeypatch.setattr(sys, "stdin", None)
    outcome = run("plan", "-")
    assert outcome.code == 1
    assert "is closed" in outcome.err


def test_a_plan_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.symlink_to("/proc/self/mem")
    assert run("plan", file) == (1, "", f"Error: {file}: Input/output error\n")
    no_mapping = write_file(tmp_path, "[]", "plan.json")
    assert run("plan", no_mapping).err.startswith(f"{no_mapping}: ")


def test_a_broken_promise_is_exit_code_3(tmp_path: Path) -> None:
    enforced = f"enforce_sunset = true\n{PLAN}"
    old = write_file(tmp_path, enforced)
    new = write_file(tmp_path, enforced.replace("-12-01", "-11-04"), "new.toml")
    options = ("--against", old, "--at", "2026-09-01")
    outcome = run("plan", new, *options, "--min-notice", "90")
    assert outcome.code == 3
    assert outcome.out.endswith("\n2 changes for callers, 2 broken promises\n")
    assert "90 days of notice" in outcome.out
    as_json = json.loads(run("plan", new, *options, "--format", "json").out)
    (change,) = as_json["changes"]
    assert list(change.values())[:3] == ["report", "sunset-earlier", "error"]
    unchanged = run("plan", old, *options)
    assert unchanged.out.endswith("\n\n0 changes for callers, 0 broken promises\n")


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
    page = (ROOT / "docs/check.md").read_text(encoding="utf-8")
    workflow = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])
    gate = workflow["jobs"]["retirement"]["steps"][-1]["run"]
    file = write_file(tmp_path, PLAN, "retirement.toml")
    git = program_or_skip("git")
    for command in (
        "init -b main",
        "config user.name a",
        "config user.email a@example.com",
        "remote add origin .",
        "add retirement.toml",
        "commit -m Promise",
        "checkout -b change",
    ):
        run_program(git, *command.split(), cwd=tmp_path)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = os.environ | {"PATH": path, "GITHUB_BASE_REF": "main"}
    bash = ["bash", "-e", "-c", gate]
    for sunset, code in (("2099-12-01", 0), ("2026-10-01", 3)):
        file.write_text(PLAN.replace("2026-12-01", sunset), encoding="utf-8")
        ended = subprocess.run(
            bash, cwd=tmp_path, env=environ, capture_output=True, check=False
        )
        assert ended.returncode == code, ended.stderr
        assert (b"sunset-earlier" in ended.stdout) == (code == 3)
