"""The commands ``usage`` and ``guide``: the verdict first, then the callers; every
format and exit code.
"""

import csv
import json
import sys
from datetime import UTC, datetime
from importlib import import_module
from io import StringIO
from pathlib import Path

import pytest
from sqlalchemy import create_engine, update

from flask_notifications import Call, load_plan
from flask_notifications.pages import render_guide, render_usage
from flask_notifications.usage import PROBE, metadata, read_usage
from tests.cli.commands import DAY, record_usage, run, run_usage
from tests.servers.process import ROOT
from tests.usage.databases import NOON, Past, execute, use


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/usage.sqlite3"


def record(database: str, *calls: Call) -> None:
    """Record calls, and a probe of both operations, so that each was matched."""
    probes = (use(PROBE), use(PROBE, operation="export"))
    record_usage(database, *probes, *calls)


# The page shows another record, of a month and of three hosts.
_PAGE = (ROOT / "docs" / "usage.md").read_text(encoding="utf-8")
REPORT = (
    _PAGE.partition("\n$ flask-notifications usage ")[2]
    .partition("\n")[2]
    .partition("```")[0]
    .replace(" 1 May", " 28 May")
    .replace("732 hours by 3 hosts", "84 hours by 1 host")
)


@pytest.mark.parametrize("columns", ["80", "60"])
def test_a_report_fits_a_terminal(
    database: str, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    job = use("job/1", "team-a", source="header")
    record(database, job, job, use("curl/8", source="query", status=401))
    outcome = run_usage(database)
    assert (outcome.code, outcome.err) == (3, "")
    assert outcome.out.split() == REPORT.split()
    assert max(map(len, outcome.out.splitlines())) <= int(columns)


def test_a_wide_caller_with_many_calls_and_without_a_client_is_readable(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = "\u670d\u52a1" * 8
    record(database, *[use(None, wide)] * 1000)
    monkeypatch.setenv("COLUMNS", "82")
    lines = (
        f"\n  {wide}: still calling, last call 30 May 2026, 12:00\n  UTC\n"
        "    1,000 answered, 0 refused, 0 failed, 0 closed; unknown client\n"
    )
    assert lines in run_usage(database).out


def test_callers_beyond_ten_are_counted(database: str) -> None:
    record(database, *(use(f"job/{number}") for number in range(11)))
    out = run_usage(database).out
    assert out.count("still calling, last call") == 10
    assert out.endswith("  2 more callers: --format csv lists all\n")


def test_the_sunset_of_the_plan_is_shown(database: str, tmp_path: Path) -> None:
    record(database)
    file = plan_file(tmp_path, sunset_at="2026-07-01T00:00:00Z")
    out = run_usage(database, "--plan", file).out
    assert "\n  sunset on 1 Jul 2026, 00:00 UTC, in " in out


CASES: dict[str, tuple[list[Call], str, int, str]] = {
    "no calls, and every hour is covered": (
        [],
        "",
        0,
        "Safe to switch off. Calls from 28 May to 31 May 2026, as of ",
    ),
    "no record of it": (
        [],
        "--operation a",
        4,
        "Not known to be safe. Calls from 28 May to 31 May 2026, as of ",
    ),
    "a window to the end of its date": (
        [use()],
        "--until 2026-05-30 --days 1",
        3,
        "Not safe to switch off. ",
    ),
    "a window to the beginning of it": (
        [use()],
        "--until 2026-05-30T00:00:00Z --days 1",
        0,
        "Safe",
    ),
    "a window in two years": (
        [],
        "--days 200",
        4,
        "Not known to be safe. Calls from 12 November 2025 to 31 May 2026",
    ),
}


@pytest.mark.parametrize(
    ("calls", "options", "code", "first_line"), CASES.values(), ids=CASES
)
def test_the_exit_code_and_the_first_line_give_the_verdict(
    calls: list[Call], options: str, code: int, first_line: str, database: str
) -> None:
    record(database, *calls)
    outcome = run_usage(database, *options.split())
    assert outcome.code == code
    assert outcome.out.startswith(first_line)


def test_json_is_the_report(database: str) -> None:
    record(database, use())
    outcome = run_usage(database, "--format", "json")
    assert json.loads(outcome.out) == read_usage(database, days=3, until=NOON).to_dict()
    assert outcome.code == 3


@pytest.mark.parametrize(
    "client", ["job/1", "-1+2", "=1", "\uff1d1", "\uff0b1", "\uff0d1", "\uff20SUM"]
)
def test_csv_has_a_row_for_each_caller_and_no_formulas(
    client: str, database: str
) -> None:
    record(database, use(client, 'a, b; "=1', source="query"))
    first, probe, row, *_rest = csv.reader(
        StringIO(run_usage(database, "--format", "csv").out)
    )
    shown = client if client == "job/1" else f"'{client}"
    at = "2026-05-30T12:00:00Z"
    assert first[:5] == ["operation", "verdict", "caller", "client", "source"]
    assert probe[:9] == ["export", "safe", "", PROBE, "", "1", "0", "0", "0"]
    assert row[:6] == ["report", "in use", "a, b;' \"=1", shown, "query", "1"]
    assert row[6:14] == ["0", "0", "0", at, at, "false", "", "1"]
    assert row[14] == "2026-05-31T12:00:00Z"
    assert row[15].startswith("covered 100 % of 84 hours by 1 host, ")


HOSTILE = "\x1b]0;x\x07\u202e@everyone #7 !8 GH-9 https://evil.example\n=1+1|b*<script>"
SHOWN = r"\x1b]0;x\x07\u202e@everyone #7 !8 GH-9 https://evil.example\n=1+1|b*<script>"


def rewrite(database: str, value: str) -> None:
    """Write a value into the store as another program may do: into every caller, client
    and name of an operation.
    """
    escaped = json.dumps(value)[1:-1]  # as the store does it
    texts = dict.fromkeys(("client", "caller", "operation"), escaped)
    texts["operations"] = json.dumps({value: "any"})
    for table in metadata.tables.values():
        values = {name: texts[name] for name in texts.keys() & table.columns.keys()}
        if values:
            execute(database, update(table).values(values))


@pytest.mark.parametrize("output", ["text", "csv", "json"])
def test_rows_that_others_wrote_do_not_control_a_terminal(
    output: str, database: str
) -> None:
    record_usage(database, use("job/1", "tests"))
    rewrite(database, HOSTILE)
    out = run_usage(database, "--format", output).out
    assert out.replace("\n", "").isprintable()
    assert (SHOWN in out) == (output != "json")


def plan_file(folder: Path, *live: str, **policy: str) -> Path:
    operations = []
    for name in ("report", "new", "live"):
        is_live = name in (live or ("live",))
        operations.append(
            {"name": name, "method": "GET", "path": f"/{name}", "live": is_live}
        )
    policy["deprecated_at"] = "2026-01-01T00:00:00Z"
    file = folder / "plan.json"
    file.write_text(json.dumps({"operations": operations, **policy}), encoding="utf-8")
    return file


def test_a_plan_selects_its_deprecated_operations_and_needs_one(
    database: str, tmp_path: Path
) -> None:
    record(database)
    plan = ("--plan", plan_file(tmp_path), "--format", "json")
    outcome = run_usage(database, *plan)
    assert outcome.code == 4
    report, new = json.loads(outcome.out)["operations"]
    assert (report["name"], report["verdict"]) == ("report", "safe")
    assert (new["name"], new["verdict"]) == ("new", "unknown")
    assert run_usage(database, *plan, "--operation", "report").code == 0
    for name in ("live", "export"):
        assert run_usage(database, *plan, "--operation", name).code == 2
    plan_file(tmp_path, "report", "new", "live")
    outcome = run_usage(database, *plan)
    assert (outcome.code, outcome.out) == (2, "")
    assert "Error: the plan has no deprecated operation\n" in outcome.err


def test_an_empty_record_is_unknown(database: str) -> None:
    metadata.create_all(create_engine(database))
    outcome = run("usage", database)
    assert outcome.code == 4
    assert outcome.out.startswith("Unknown: nothing has been recorded, as of ")


def test_a_mistyped_service_is_unknown(database: str) -> None:
    Past(database, service="shop").cover(NOON - DAY, NOON)
    outcome = run_usage(database, "--service", "shpo")
    assert outcome.code == 4
    assert "service 'shpo' was heard; services in this database: 'shop'" in outcome.err
    assert run_usage(database, "--service", "shop").err == ""


def test_the_database_may_be_in_the_environment(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(database)
    monkeypatch.setenv("FLASK_NOTIFICATIONS_DATABASE", database)
    assert run("usage", "--until", "2026-05-31T12:00:00Z", "--days", "3").code == 0


@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        ("postgresql+psycopg://user:s3cret@127.0.0.1:1/shop", 1, "cannot be read"),
        ("s3cret", 2, "database must be an SQLAlchemy URL"),
    ],
    ids=["no server", "no URL"],
)
def test_a_database_that_cannot_be_read_is_an_error(
    url: str, code: int, words: str
) -> None:
    outcome = run("usage", url)
    assert (outcome.code, outcome.out) == (code, "")
    assert words in outcome.err
    assert "s3cret" not in outcome.err


@pytest.mark.parametrize(
    ("is_terminal", "patience"), [(True, -1), (True, 60), (False, -1)]
)
def test_a_database_that_takes_long_shows_progress_on_a_terminal(
    is_terminal: bool,
    patience: float,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record(database)
    module = import_module("flask_notifications.cli.usage")
    monkeypatch.setattr(module, "is_watched", lambda: is_terminal)
    monkeypatch.setattr(module, "_PATIENCE", patience)
    shown = "Reading the database" in run_usage(database).err
    assert shown == (is_terminal and patience < 0)


def test_a_missing_driver_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pymysql", None)
    outcome = run("usage", "mysql+pymysql://a/x")
    assert (outcome.code, outcome.out) == (1, "")
    assert "pip install 'pymysql'" in outcome.err


def test_a_missing_extra_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in list(sys.modules):
        if name.startswith("flask_notifications.usage"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("importlib.util.find_spec", {"sqlalchemy": None}.get)
    outcome = run("usage", "sqlite:///usage.sqlite3")
    assert (outcome.code, outcome.out) == (1, "")
    assert "pip install 'Flask-Notifications[usage]'" in outcome.err


# Pages.


def test_the_html_format_is_the_page_of_the_report_with_the_plan(
    database: str, tmp_path: Path
) -> None:
    record(database)
    file = plan_file(tmp_path)
    report = read_usage(database, days=3, until=NOON, plan=load_plan(file))
    page = render_usage(report, plan=load_plan(file)) + "\n"
    assert run_usage(database, "--format", "html", "--plan", file) == (4, page, "")


def test_the_guide_is_the_page_of_the_plan(tmp_path: Path) -> None:
    file = plan_file(tmp_path)
    page = render_guide(
        load_plan(file),
        at=datetime(2026, 11, 1, tzinfo=UTC),
        base_url="https://a.example",
        contact="Team \u00e9",
        title="Reports",
    )
    options = ["--at=2026-11-01", "--base-url=https://a.example", "--title=Reports"]
    outcome = run("guide", file, *options, "--contact", "Team \u00e9")
    assert outcome == (0, f"{page}\n", "")
    assert run("guide", file, "--title", " ").code == 2
