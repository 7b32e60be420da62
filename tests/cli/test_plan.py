"""The command ``plan``: the timeline of each operation, and every error with its place in the file."""

import errno
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import flask_notifications.cli
from tests.cli.commands import run

PLAN = """
deprecated_at = 2026-01-01T00:00:00Z
documentation = "https://example.com/retire"

[[operations]]
name = "report"
method = "GET"
path = "/reports/{id}"
successor = "/v2/reports"
sunset_at = 2026-12-01T00:00:00Z
brownouts = [{ start = 2026-11-03T09:00:00Z, end = 2026-11-03T09:15:00Z }]

[[operations]]
name = "latest"
method = "GET"
path = "/reports/latest"
live = true
"""


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    return write_file(tmp_path, PLAN)


def write_file(folder: Path, content: str, name: str = "plan.toml") -> Path:
    file = folder / name
    file.write_text(content, encoding="utf-8")
    return file


EXPECTED = """\
2 operations at 2026-11-01 00:00 UTC

report  GET /reports/{id}
  deprecated; next: brownout in 2 days, at 2026-11-03 09:00 UTC

  2026-01-01 00:00 UTC     10 months ago   deprecated: keeps working
  2026-11-03 09:00 UTC     in 2 days       brownout for 15 minutes: responds 410
  2026-12-01 00:00 UTC     in 30 days      sunset: announced, not enforced, keeps working

  Deprecation: @1767225600
  Sunset: Tue, 01 Dec 2026 00:00:00 GMT
  Link: </v2/reports>; rel="successor-version"
  Link: <https://example.com/retire>; rel="deprecation"; type="text/html"

latest  GET /reports/latest
  live: not retired, sends no headers
"""


def test_the_timeline_shows_each_date_and_the_headers_that_are_sent(plan_file: Path) -> None:
    assert run("plan", plan_file, "--at", "2026-11-01") == (0, EXPECTED, "")


def test_the_timeline_as_json(plan_file: Path) -> None:
    outcome = run("plan", plan_file, "--at", "2026-11-01T02:00:00+02:00", "--format", "json")
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(outcome.out) == {
        "schema": 1,
        "at": "2026-11-01T00:00:00Z",
        "operations": [
            {
                "name": "report",
                "method": "GET",
                "path": "/reports/{id}",
                "phase": "deprecated",
                "next": {"phase": "brownout", "at": "2026-11-03T09:00:00Z"},
                "headers": [
                    ["Deprecation", "@1767225600"],
                    ["Sunset", "Tue, 01 Dec 2026 00:00:00 GMT"],
                    ["Link", '</v2/reports>; rel="successor-version"'],
                    ["Link", '<https://example.com/retire>; rel="deprecation"; type="text/html"'],
                ],
            },
            {
                "name": "latest",
                "method": "GET",
                "path": "/reports/latest",
                "phase": None,
                "next": None,
                "headers": [],
            },
        ],
    }


ENFORCED = "deprecated_at = 2026-01-01T00:00:00Z\nsunset_at = 2027-01-01T00:00:00Z\nenforce_sunset = true\n"
BROWNOUTS = """brownouts = [
    { start = 2026-02-01T00:00:00Z, end = 2026-02-01T01:00:00Z },
    { start = 2026-02-01T01:00:00Z, end = 2026-02-01T02:00:00Z },
]
"""


@pytest.mark.parametrize(
    ("content", "at", "phase", "following"),
    [
        (ENFORCED, "2025-12-31T23:59:59Z", "announced", ("deprecated", "2026-01-01T00:00:00Z")),
        (ENFORCED, "2026-01-01", "deprecated", ("sunset", "2027-01-01T00:00:00Z")),
        (ENFORCED, "2027-01-01", "sunset", None),
        (ENFORCED + BROWNOUTS, "2026-02-01T00:30:00Z", "brownout", ("deprecated", "2026-02-01T02:00:00Z")),
    ],
    ids=["before the deprecation", "at the deprecation", "at the sunset", "in two brownouts that touch"],
)
def test_the_next_phase_is_the_next_change(
    content: str, at: str, phase: str, following: tuple[str, str] | None, tmp_path: Path
) -> None:
    file = write_file(tmp_path, content)
    outcome = run("plan", file, "--at", at, "--format", "json")
    first = json.loads(outcome.out)["operations"][0]
    assert first["phase"] == phase
    assert first["next"] == (following and dict(zip(("phase", "at"), following, strict=True)))
    assert ("no further change is scheduled" in run("plan", file, "--at", at).out) == (following is None)


def test_the_default_date_is_now(plan_file: Path) -> None:
    before = run("plan", plan_file, "--format", "json", "--at", "2020-01-01")
    now = json.loads(run("plan", plan_file, "--format", "json").out)
    assert now["at"] > json.loads(before.out)["at"]


def test_a_time_with_seconds_is_shown_with_them(plan_file: Path) -> None:
    outcome = run("plan", plan_file, "--at", "2026-11-03T08:59:30Z")
    assert outcome.out.startswith("2 operations at 2026-11-03 08:59:30 UTC\n")
    assert "brownout in 30 seconds" in outcome.out
    assert " now " in run("plan", plan_file, "--at", "2026-11-03T09:00:00Z").out


JSON_PLAN = json.dumps({"deprecated_at": "2026-01-01T00:00:00Z", "prefix": "/v1"})


def test_a_plan_may_be_json(tmp_path: Path) -> None:
    outcome = run("plan", write_file(tmp_path, JSON_PLAN, "plan.json"), "--at", "2026-11-01")
    assert outcome.code == 0
    assert "current_user  GET /v1/\n" in outcome.out


BROKEN = PLAN.replace("/v2/reports", "<v2>").replace("live = true", "live = 2\nuntil = 3").replace("https:", "a b")


def test_every_error_is_a_line_with_its_place(tmp_path: Path) -> None:
    outcome = run("plan", write_file(tmp_path, BROKEN))
    assert (outcome.code, outcome.out) == (1, "")
    places = [line.partition(": ")[0] for line in outcome.err.splitlines()]
    assert places == ["documentation", "operations.0.successor", "operations.1.live", "operations.1.until"]


def test_a_key_that_cannot_be_printed_is_escaped_in_its_line(tmp_path: Path) -> None:
    keys = {"a\nb": 1, "\x1b[31m": 2, "\ud800": 3}
    outcome = run("plan", write_file(tmp_path, json.dumps(json.loads(JSON_PLAN) | keys), "plan.json"))
    assert outcome.code == 1
    assert [line.partition(": ")[0] for line in outcome.err.splitlines()] == [r"\x1b[31m", r"a\nb", r"\ud800"]


def test_unknown_keys_are_in_the_same_order_in_every_run(tmp_path: Path) -> None:
    keys = [f"key {number}" for number in range(10, 30)]
    outcome = run("plan", write_file(tmp_path, json.dumps(json.loads(JSON_PLAN) | dict.fromkeys(keys)), "plan.json"))
    assert [line.partition(": ")[0] for line in outcome.err.splitlines()] == keys


@pytest.mark.parametrize(
    ("name", "content", "begins"),
    [
        pytest.param("plan.toml", "a = 1\nb = = 2", "{}:2:5: ", id="TOML"),
        pytest.param("plan.toml", "a = 1\na = 2\n", "{}:2:6: ", id="a key twice in TOML"),
        pytest.param("plan.toml", "a = [", "{}: ", id="TOML that ends too early"),
        pytest.param("plan.json", '{\n  "a": 1,\n  b\n}', "{}:3:3: ", id="JSON"),
        pytest.param("plan.json", "[]", "{}: ", id="not a mapping"),
        pytest.param(
            "plan.json", '{"a": [{"b": 1, "b": 1}]}', "{}: the key 'b' is there twice", id="a key twice in JSON"
        ),
        pytest.param("plan.json", f'{{"a": {"9" * 5000}}}', "{}: Exceeds the limit", id="a long number in JSON"),
        pytest.param("plan.toml", f"a = {'9' * 5000}", "{}: Exceeds the limit", id="a long number in TOML"),
        pytest.param("plan.json", '{"prefix": "/v1"}', "deprecated_at: ", id="a required key is missing"),
    ],
)
def test_an_error_in_the_syntax_has_line_and_column(name: str, content: str, begins: str, tmp_path: Path) -> None:
    file = write_file(tmp_path, content, name)
    outcome = run("plan", file)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(begins.format(file))
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "begins"),
    [
        pytest.param("[" * 200_000, "{}: nested too deeply", id="many levels"),
        pytest.param(
            JSON_PLAN[:-1] + r', "operations": [{"name": "\ud800", "method": "GET", "path": "/"}]}',
            r"operations.0.name: name must be a string of one or more printable characters, not '\ud800'",
            id="half a pair of surrogates",
        ),
    ],
)
def test_json_that_no_plan_can_hold_is_an_error(content: str, begins: str, tmp_path: Path) -> None:
    file = write_file(tmp_path, content.replace(', "prefix": "/v1"', ""), "plan.json")
    outcome = run("plan", file)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == begins.format(file) + "\n"


def test_a_file_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_bytes(b"# \xff")
    assert run("plan", file) == (1, "", f"{file}: not UTF-8: invalid start byte at byte 2\n")


@pytest.mark.parametrize(
    "at", ["2026-11-01T00:00:00", "soon", "", "01.11.2026", "2026-13-01", "0001-01-01T00:00:00+14:00"]
)
def test_a_date_without_an_offset_is_a_wrong_argument(at: str, plan_file: Path) -> None:
    outcome = run("plan", plan_file, "--at", at)
    assert (outcome.code, outcome.out) == (2, "")
    assert "2027-07-01T09:00:00Z" in outcome.err


def test_a_warning_goes_to_standard_error_and_changes_no_exit_code(tmp_path: Path) -> None:
    file = write_file(tmp_path, PLAN.replace('"GET"', '"GTE"', 1))
    outcome = run("plan", file, "--format", "json")
    assert outcome.code == 0
    assert outcome.err.startswith("warning: report: GTE ")
    assert json.loads(outcome.out)["schema"] == 1


class Terminal:
    """A standard output that is a terminal."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.written = ""

    def write(self, text: str) -> int:
        self.written += text
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("no_color", "is_coloured"), [("", True), ("1", False)])
def test_colours_are_for_terminals_and_no_color_switches_them_off(
    no_color: str, is_coloured: bool, plan_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal: Any = Terminal()
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(sys, "stdout", terminal)
    flask_notifications.cli.main(["plan", str(plan_file)], standalone_mode=False)
    assert "report" in terminal.written
    assert ("\x1b[" in terminal.written) == is_coloured


class BrokenOutput(Terminal):
    """A standard output that cannot be written to."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def write(self, _text: str) -> int:
        raise self.error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(
            UnicodeEncodeError("latin-1", "\u5831", 0, 1, "ordinal not in range(256)"),
            r"Error: standard output has the encoding latin-1, without '\u5831': set PYTHONIOENCODING=utf-8" + "\n",
            id="a character that its encoding lacks",
        ),
        pytest.param(
            OSError(errno.ENOSPC, "No space left on device"),
            "Error: standard output cannot be written to: No space left on device\n",
            id="a full disk",
        ),
        pytest.param(BrokenPipeError(errno.EPIPE, "Broken pipe"), "", id="a pipe that nobody reads"),
    ],
)
def test_a_result_that_cannot_be_written_is_an_error(
    error: Exception,
    message: str,
    plan_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command in ("plan", "guide"):
        monkeypatch.setattr(sys, "stdout", BrokenOutput(error))
        monkeypatch.setattr(sys, "stderr", sys.stderr)  # click replaces both if the pipe is broken
        with pytest.raises(SystemExit) as ended:
            flask_notifications.cli.main([command, str(plan_file)])
        assert ended.value.code == 1
        monkeypatch.undo()
        assert capsys.readouterr().err == message
