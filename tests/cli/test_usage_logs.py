"""Access logs in reports: calls prove use, beside a record or alone, and their absence
proves nothing.
"""

import json
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from flask_notifications import load_plan
from flask_notifications.usage import PROBE, OperationUsage, read_usage
from tests.cli.commands import Outcome, record_usage, run
from tests.usage.databases import EXPORT, NOON, REPORT, use

PLAN = {
    "deprecated_at": "2026-01-01T00:00:00Z",
    "operations": [
        {"name": "report", "method": "GET", "path": REPORT.path},
        {"name": "export", "method": "GET", "path": EXPORT.path},
    ],
}
PROBES = (use(PROBE), use(PROBE, operation="export"))


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a record beside which a plan is."""
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_text(json.dumps(PLAN), encoding="utf-8")
    return f"sqlite:///{tmp_path}/usage.sqlite3"


def line(
    path: str = "/report", *, day: int = 30, user: str = "-", status: int = 200
) -> str:
    request = f'"GET {path} HTTP/1.1" {status} 12 "-" "curl/8.5.0"'
    return f"203.0.113.9 - {user} [{day}/May/2026:12:00:00 +0000] {request}\n"


def run_logs(*arguments: str) -> Outcome:
    window = ["--until", NOON.isoformat(), "--days", "3"]
    return run("usage", "--plan", "plan.json", *window, *arguments)


def read(database: str | None, *lines: str, **options: Any) -> list[OperationUsage]:
    logs = [BytesIO("".join(lines).encode())]
    window: dict[str, Any] = {"until": NOON, "days": 3}
    plan = load_plan(PLAN)
    report = read_usage(database, plan=plan, logs=logs, **window | options)
    return list(report.operations)


def codes(usage: OperationUsage) -> list[str]:
    return [reason.code for reason in usage.reasons]


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_caller_of_a_log_alone_gets_a_notice(
    is_recorded: bool, database: str, tmp_path: Path
) -> None:
    (tmp_path / "access.log").write_text(line(user="bob"), encoding="utf-8")
    arguments = ["--log", "access.log", "--caller", "bob"]
    if is_recorded:
        record_usage(database, *PROBES)
        arguments.append(database)
    outcome = run_logs(*arguments)
    assert (outcome.code, outcome.err) == (3, "")
    assert "You called it 1 time from 28 May to 31 May 2026" in " ".join(
        outcome.out.split()
    )


def test_logs_alone_prove_use_and_never_its_absence() -> None:
    report, export = read(None, line(), line("/other", day=29))
    assert (report.verdict, codes(report)) == ("in use", ["calls"])
    assert (report.answered, report.notes, report.callers[0].source) == (1, [], "log")
    assert (export.verdict, codes(export)) == ("unknown", ["never-matched"])
    assert export.reasons[0].message == (
        "no line of 2 from 29 to 30 May matched; a log cannot show that nobody calls"
    )


def test_a_call_in_covered_time_that_no_recorder_has_is_a_reason(
    database: str,
) -> None:
    record_usage(database, *PROBES)
    report, export = read(database, line())
    assert (report.verdict, codes(report)) == ("in use", ["calls", "log-unrecorded"])
    assert (report.answered, report.last_at, report.ignored) == (0, None, 1)
    assert [row.source for row in report.callers if not row.ignored] == ["log"]
    assert export.verdict == "safe"
    report, _export = read(database, line(), ignore_clients=["curl/8.5.0"])
    assert report.verdict == "safe"
    report, _export = read(database, line(day=20))
    assert "calls" not in codes(report)


def test_a_call_in_uncovered_time_is_not_missing_in_the_record(database: str) -> None:
    record_usage(database, *PROBES)
    report, _export = read(database, line(day=26), days=7)
    assert (report.verdict, codes(report)) == ("in use", ["calls"])


@pytest.mark.parametrize("client", ["curl/8.5.0", "(other)"])
def test_calls_that_the_record_has_are_counted_once(database: str, client: str) -> None:
    record_usage(database, *PROBES, use(client, "acme"))
    report, _export = read(database, line(user="anna"))
    assert (codes(report), report.answered) == (["calls", "calls"], 1)
    Path("access.log").write_text(line(user="acme"), encoding="utf-8")
    assert "1 answered, 0 refused" in run_logs(database, "--log", "access.log").out
    html = run_logs(database, "--log", "access.log", "--format", "html").out
    assert "log" in html


def test_a_client_that_a_log_does_not_show_may_be_any(database: str) -> None:
    record_usage(database, *PROBES, use("job/1"))
    report, _export = read(database, line().replace("curl/8.5.0", "-"))
    assert codes(report) == ["calls", "calls"]


def test_every_format_shows_calls_of_logs() -> None:
    Path("access.log").write_text(line(user="acme") + "?\n", encoding="utf-8")
    text = run_logs("--log", "access.log")
    assert text.code == 3
    assert "client curl/8.5.0, in a log" in text.out
    assert text.err == (
        "1 of 2 lines in the logs cannot be read, the first is line 2 of access.log: "
        "no time in brackets in '?'\n"
    )
    result = json.loads(run_logs("--log", "access.log", "--format", "json").out)
    assert result["operations"][0]["callers"][0]["source"] == "log"
    assert ",log," in run_logs("--log", "access.log", "--format", "csv").out
    assert "log" in run_logs("--log", "access.log", "--format", "html").out


@pytest.mark.parametrize(("sort", "first"), [("plan", "report"), ("calls", "export")])
def test_operations_are_sorted_by_calls_when_asked(sort: str, first: str) -> None:
    Path("access.log").write_text(line(), encoding="utf-8")
    outcome = run_logs("--log", "access.log", "--sort", sort, "--format", "json")
    assert json.loads(outcome.out)["operations"][0]["name"] == first


def test_folders_wildcards_and_standard_input_are_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("logs").mkdir()
    Path("logs/a.log").write_text(f"[{line()}", encoding="utf-8")
    stdin = TextIOWrapper(BytesIO(line("/export/7").encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    logs = ["--log", "logs", "--log", "logs/*.log", "--log", "-", "--log", "-"]
    outcome = run_logs(*logs, "--format", "json")
    result = json.loads(outcome.out)
    assert [operation["answered"] for operation in result["operations"]] == [1, 1]


def test_a_missing_log_or_a_wrong_format_is_a_wrong_argument() -> None:
    missing = run_logs("--log", "missing.log")
    assert missing.code == 2
    assert "there is no log 'missing.log'" in missing.err
    Path("access.log").write_text(line(), encoding="utf-8")
    wrong = run_logs("--log", "access.log", "--log-format", "json:time=t")
    assert wrong.code == 2
    assert "log_format must be a regular expression" in wrong.err


@pytest.mark.parametrize("logs", ["access.log", b"access.log", BytesIO(), 5, [5]])
def test_wrong_logs_are_named(logs: Any) -> None:
    with pytest.raises(ValueError, match=r"^logs must be a list of paths or binary"):
        read_usage(None, plan=load_plan(PLAN), logs=logs)


def test_logs_need_a_plan() -> None:
    with pytest.raises(ValueError, match=r"^plan must be the plan to read logs with"):
        read_usage(None, logs=["access.log"])
