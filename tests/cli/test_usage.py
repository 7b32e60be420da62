"""The commands ``usage`` and ``guide``: the verdict first, then the callers; every format and exit code."""

import csv
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import create_engine

from flask_notifications.fetching import USER_AGENT
from flask_notifications.usage import CANARY, metadata, read_usage
from tests.cli.commands import run
from tests.usage.databases import EXPORT, NOON, REPORT, Past, use

DAY = timedelta(days=1)
UNTIL = ("--until", "2026-05-31T12:00:00Z")
DAYS = ("--days", "3")
START = datetime(2026, 5, 28, tzinfo=UTC)


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/usage.sqlite3"


def record(database: str, *calls: Any, covered: bool = True) -> None:
    """Record calls of yesterday, and coverage of both operations."""
    past = Past(database, REPORT, EXPORT)
    past.cover(START if covered else NOON - DAY, NOON)
    past.call(NOON - DAY, *(calls or (use(CANARY),)))
    past.write()


EXPECTED = """\
Not safe to switch off. From 28 May to 31 May 2026, in use: report; safe: export.

export  safe

report  in use
  3 calls, the last on 30 May 2026

  caller             client   session in  answered  failed  closed  first call            last call
  team-a             job/1    header      2         0       0       2026-05-30 12:00 UTC  2026-05-30 12:00 UTC
  -                  curl/8   query       0         1       0       2026-05-30 12:00 UTC  2026-05-30 12:00 UTC
"""


@pytest.mark.parametrize("until", ["0001-01-01", "9999-12-31", "0001-01-01T00:00:00+14:00"])
def test_a_window_outside_the_calendar_is_a_wrong_argument(until: str, database: str) -> None:
    record(database)
    outcome = run("usage", database, "--until", until)
    assert (outcome.code, outcome.out) == (2, "")
    assert "9999" in outcome.err or repr(until) in outcome.err


def test_a_report_has_the_verdict_first_and_then_the_callers(database: str) -> None:
    job = use("job/1", "team-a", source="header")
    record(database, job, job, use("curl/8", source="query", status=401))
    outcome = run("usage", database, *UNTIL, *DAYS)
    lines = [" ".join(line.split()) for line in outcome.out.splitlines()]
    assert (outcome.code, outcome.err) == (3, "")
    assert lines == [" ".join(line.split()) for line in EXPECTED.splitlines()]
    columns = [line.index("2026-05-30") for line in outcome.out.splitlines() if "2026-05-30" in line]
    assert len(set(columns)) == 1


CASES: dict[str, tuple[Callable[[str], None], list[str], int, str]] = {
    "no calls, and every hour is covered": (record, [], 0, "Safe to switch off: export, report. No call"),
    "one operation is in use": (lambda url: record(url, use()), [], 3, "Not safe to switch off. From 28 May to 31"),
    "the other operation is not in use": (
        lambda url: record(url, use()),
        ["--operation", "export"],
        0,
        "Safe to switch off: export. No call counted as use from 28 May to 31 May 2026.",
    ),
    "an ignored client": (lambda url: record(url, use()), ["--ignore-client", "job/1"], 0, "Safe to switch off: "),
    "an ignored caller": (
        lambda url: record(url, use(caller="tests")),
        ["--ignore-caller", "tests"],
        0,
        "Safe to switch off: ",
    ),
    "a gap": (lambda url: record(url, covered=False), [], 4, "Not known to be safe. From 28 May to 31 May"),
    "no canary on some days": (record, ["--require-canary"], 4, "Not known to be safe. "),
    "a window in two years": (
        record,
        ["--days", "200"],
        4,
        "Not known to be safe. From 12 November 2025 to 31 May 2026, unknown: ",
    ),
    "one day without a gap": (
        lambda url: record(url, covered=False),
        ["--days", "1", "--allow-gap", "100"],
        4,
        "Not known to be safe. From 30 May to 31 May 2026, unknown: ",
    ),
}


@pytest.mark.parametrize(("fill", "options", "code", "first_line"), CASES.values(), ids=CASES)
def test_the_exit_code_and_the_first_line_give_the_verdict(
    fill: Callable[[str], None], options: list[str], code: int, first_line: str, database: str
) -> None:
    fill(database)
    outcome = run("usage", database, *UNTIL, *DAYS, *options)
    assert outcome.code == code
    assert outcome.out.startswith(first_line)


def test_ignored_callers_are_marked(database: str) -> None:
    record(database, use("job/1", "tests"))
    assert "tests (ignored)" in run("usage", database, *UNTIL, *DAYS, "--ignore-caller", "tests").out


def test_json_is_the_report(database: str) -> None:
    record(database, use())
    outcome = run("usage", database, *UNTIL, *DAYS, "--format", "json")
    assert json.loads(outcome.out) == read_usage(database, days=3, until=NOON).to_dict()
    assert outcome.code == 3


@pytest.mark.parametrize("client", ["job/1", "-1+2", "=1", "\uff1d1", "\uff0b1", "\uff0d1", "\uff20SUM"])
def test_csv_has_a_row_for_each_caller_and_no_formulas(client: str, database: str) -> None:
    record(database, use(client, "a, b", source="query"))
    first, *rows = csv.reader(StringIO(run("usage", database, *UNTIL, *DAYS, "--format", "csv").out))
    shown = client if client[0] == "j" else f"'{client}"
    at = "2026-05-30T12:00:00Z"
    assert first[:5] == ["operation", "verdict", "caller", "client", "source"]
    assert rows == [
        ["export", "safe", "", "", "", "0", "0", "0", "", "", ""],
        ["report", "in use", "a, b", shown, "query", "1", "0", "0", at, at, "false"],
    ]


def test_names_of_clients_are_escaped_in_markdown(database: str) -> None:
    record(database, use("a|b*c", "<script>"))
    outcome = run("usage", database, *UNTIL, *DAYS, "--format", "markdown")
    assert outcome.out.startswith("Not safe to switch off\\. From 28 May to 31 May 2026, in use: ")
    assert "\n## report: in use\n" in outcome.out
    assert "\n| caller | client | session in |" in outcome.out
    assert r"| \<script\> | a\|b\*c | \- | 1 | 0 | 0 | " in outcome.out


def plan_file(folder: Path) -> Path:
    operations = [
        {"name": "report", "method": "GET", "path": "/report"},
        {"name": "new", "method": "GET", "path": "/new"},
        {"name": "live", "method": "GET", "path": "/live", "live": True},
    ]
    file = folder / "plan.json"
    file.write_text(json.dumps({"deprecated_at": "2026-01-01T00:00:00Z", "operations": operations}), encoding="utf-8")
    return file


def test_a_plan_selects_its_retired_operations(database: str, tmp_path: Path) -> None:
    record(database)
    plan = ("--plan", plan_file(tmp_path), "--format", "json")
    outcome = run("usage", database, *UNTIL, *DAYS, *plan)
    verdicts = [(each["name"], each["verdict"]) for each in json.loads(outcome.out)["operations"]]
    assert (verdicts, outcome.code) == ([("report", "safe"), ("new", "unknown")], 4)
    assert run("usage", database, *UNTIL, *DAYS, *plan, "--operation", "report").code == 0
    for other in ("live", "export"):
        assert run("usage", database, *UNTIL, *DAYS, *plan, "--operation", other).code == 2


def test_a_plan_without_retired_operations_is_a_wrong_argument(database: str, tmp_path: Path) -> None:
    live = {"name": "live", "method": "GET", "path": "/live", "live": True}
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"deprecated_at": "2026-01-01T00:00:00Z", "operations": [live]}), encoding="utf-8")
    outcome = run("usage", database, "--plan", file)
    assert (outcome.code, outcome.out) == (2, "")
    assert "Invalid value for '--plan': the plan has no retired operation\n" in outcome.err


def test_the_client_of_a_check_is_the_canary() -> None:
    assert USER_AGENT == CANARY


def test_an_operation_without_a_record_is_unknown(database: str) -> None:
    record(database)
    outcome = run("usage", database, "--until", "2026-05-31", "--operation", "other")
    first_line = "Not known to be safe. From 2 May to 31 May 2026, unknown: other."
    assert (outcome.code, outcome.out.splitlines()[0]) == (4, first_line)


def test_an_empty_record_is_unknown(database: str) -> None:
    metadata.create_all(create_engine(database))
    assert run("usage", database) == (4, "Unknown: nothing has been recorded.\n", "")


def test_the_database_may_be_in_the_environment(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record(database)
    monkeypatch.setenv("FLASK_NOTIFICATIONS_DATABASE", database)
    assert run("usage", *UNTIL, *DAYS).code == 0


def test_a_window_that_ends_with_a_date_includes_that_day(database: str) -> None:
    record(database, use())
    for until, code in (("2026-05-30", 3), ("2026-05-30T00:00:00Z", 0)):
        outcome = run("usage", database, "--until", until, "--days", "1", "--format", "json")
        assert outcome.code == code


@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        ("sqlite:///{folder}/missing.sqlite3", 1, "there is no file"),
        ("sqlite:///{folder}/empty.sqlite3", 1, "has no table"),
        ("postgresql+psycopg://user:s3cret@127.0.0.1:1/shop", 1, "cannot be read"),
        ("s3cret", 2, "database must be an SQLAlchemy URL"),
        ("mysql://user:s3cret@127.0.0.1/shop", 2, "SQLite or PostgreSQL"),
    ],
    ids=["no file", "no tables", "no server", "no URL", "another kind"],
)
def test_a_database_that_cannot_be_read_is_an_error(url: str, code: int, words: str, tmp_path: Path) -> None:
    (tmp_path / "empty.sqlite3").touch()
    outcome = run("usage", url.format(folder=tmp_path))
    assert (outcome.code, outcome.out) == (code, "")
    assert words in outcome.err
    assert "s3cret" not in outcome.err


def test_a_missing_extra_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("flask_notifications.usage")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "sqlalchemy" else name)
    outcome = run("usage", "sqlite:///usage.sqlite3")
    assert (outcome.code, outcome.out) == (1, "")
    assert "pip install 'Flask-Notifications[usage]'" in outcome.err


@pytest.mark.parametrize(
    "options",
    [["--days", "0"], ["--days", "x"], ["--allow-gap", "-1"], ["--until", "soon"], ["--format", "xml"]],
    ids=" ".join,
)
def test_the_exit_code_for_wrong_options_is_2(options: list[str], database: str) -> None:
    assert run("usage", database, *options).code == 2


# Pages.


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Replace the module that renders pages, and return the arguments of its calls."""
    calls = SimpleNamespace(usage=[], guide=[])

    def render_usage(report: Any, **options: Any) -> str:
        calls.usage.append((report, options))
        return "<!doctype html>"

    def render_guide(plan: Any, **options: Any) -> str:
        if options["base_url"] == "wrong":
            message = "base_url must be an absolute http(s) URL, not 'wrong'"
            raise ValueError(message)
        calls.guide.append((plan, options))
        return "<!doctype html>"

    module = SimpleNamespace(render_usage=render_usage, render_guide=render_guide)
    monkeypatch.setitem(sys.modules, "flask_notifications.pages", module)
    return calls


def test_the_html_format_is_the_page_of_the_report_with_the_plan(
    database: str, tmp_path: Path, pages: SimpleNamespace
) -> None:
    record(database)
    file = plan_file(tmp_path)
    outcome = run("usage", database, *UNTIL, *DAYS, "--format", "html", "--plan", file)
    assert (outcome.code, outcome.out) == (4, "<!doctype html>\n")
    [(report, options)] = pages.usage
    assert [each.name for each in report.operations] == ["report", "new"]
    assert [operation.name for operation in options["plan"]] == ["report", "new", "live"]


def test_the_guide_is_the_page_of_the_plan(tmp_path: Path, pages: SimpleNamespace) -> None:
    file = plan_file(tmp_path)
    assert run("guide", file, "--at", "2026-11-01", "--base-url", "https://a.example") == (0, "<!doctype html>\n", "")
    [(plan, options)] = pages.guide
    assert [operation.name for operation in plan] == ["report", "new", "live"]
    assert options == {"at": datetime(2026, 11, 1, tzinfo=UTC), "base_url": "https://a.example"}


def test_a_guide_needs_a_valid_plan_and_a_valid_url(tmp_path: Path, pages: SimpleNamespace) -> None:
    assert run("guide", plan_file(tmp_path), "--base-url", "wrong").code == 2
    (tmp_path / "plan.json").write_text("{}", encoding="utf-8")
    assert run("guide", tmp_path / "plan.json") == (1, "", "deprecated_at: Missing data for required field.\n")
    assert pages.guide == []
