"""``usage --caller``: a notice for one caller, in which no other caller is named, and
the verdict for it alone.
"""

from datetime import datetime
from pathlib import Path

import pytest

from flask_notifications import Call
from flask_notifications.plans.policy import Phase
from flask_notifications.usage import PROBE
from tests.cli.commands import DAY, YESTERDAY, Outcome, record_usage, run, run_usage
from tests.pages.html import parse, words
from tests.usage.databases import use

PLAN = """
deprecated_at = 2026-01-01T00:00:00Z
sunset_at = 2026-07-01T00:00:00Z
enforce_sunset = true
documentation = "https://example.com/retire"
brownouts = [
  { start = 2026-05-31T11:00:00Z, end = 2026-05-31T13:00:00Z },
  { start = 2026-06-09T09:00:00Z, end = 2026-06-09T10:00:00Z },
]
exemptions = [{ caller = "acme", until = 2026-09-01T00:00:00Z, reason = "a secret of the board" }]
operations = [
  { name = "report", method = "GET", path = "/report", successor = "/v2/report" },
  { name = "export", method = "GET", path = "/export/{id}" },
]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    return tmp_path


def record(folder: Path, *calls: Call, at: datetime = YESTERDAY) -> None:
    record_usage(f"sqlite:///{folder}/usage.sqlite3", *calls, at=at)


def notify(folder: Path, caller: str, *options: str) -> Outcome:
    database = f"sqlite:///{folder}/usage.sqlite3"
    plan = folder / "plan.toml"
    return run_usage(database, "--plan", plan, "--caller", caller, *options)


CALLS = (
    *[use("job/1", "warehouse"), use("curl/8", "warehouse", status=500)],
    use("job/1", "warehouse", status=410, phase=Phase.BROWNOUT),
    *[use("zebra-job/7", "acme")] * 3,
    use("zebra-job/7", "zebra", operation="export"),
    use(PROBE, "zebra"),
)
# Without the line breaks in sentences.
TEXT = """\
warehouse: an operation that you call is being retired
In the examples, put your own values in place of https://api.example.com.
GET /report
-----------
You called it 3 times from 28 May to 31 May 2026, the last time on 30 May 2026, with job/1, curl/8.
1 call failed, and 1 call got 410 Gone.
It ends on Wednesday, 1 July 2026, in 30 days. From then on, every request gets 410 Gone.
A brownout is running until 31 May 2026, 13:00 UTC. Requests get 410 Gone until then.
The next brownout is 9 Jun 2026, 09:00 to 10:00 UTC, in 9 days.
Requests get 410 Gone during that time, so that forgotten calls are noticed.
More about it: https://example.com/retire
Before: curl https://api.example.com/report
After: curl https://api.example.com/v2/report
"""


def test_a_notice_says_what_a_caller_calls_when_that_ends_and_what_to_call_instead(
    folder: Path,
) -> None:
    record(folder, *CALLS)
    outcome = notify(folder, "warehouse")
    assert (outcome.code, outcome.out.split(), outcome.err) == (3, TEXT.split(), "")
    assert max(map(len, outcome.out.splitlines())) <= 80


@pytest.mark.parametrize("output", ["text", "html"])
def test_a_notice_names_no_other_caller(folder: Path, output: str) -> None:
    record(folder, *CALLS)
    outcome = notify(folder, "warehouse", "--format", output)
    assert (outcome.code, outcome.err) == (3, "")
    for name in ("acme", "zebra"):
        assert name not in outcome.out
    exempt = notify(folder, "acme", "--format", output)
    assert "secret of the board" not in exempt.out


def test_a_notice_leaves_out_probes_and_ignored_calls(folder: Path) -> None:
    record(folder, *CALLS)
    out = notify(folder, "zebra").out
    assert "GET /export/{id}" in out
    assert "GET /report" not in out
    words = notify(folder, "warehouse", "--ignore-client", "job/1").out.split()
    assert "You called it 1 time from 28 May to 31 May 2026" in " ".join(words)


@pytest.mark.parametrize("output", ["json", "csv"])
def test_a_notice_is_for_people(folder: Path, output: str) -> None:
    outcome = notify(folder, "warehouse", "--format", output)
    assert (outcome.code, outcome.out) == (2, "")
    assert "--caller needs --format text or html" in outcome.err


def test_a_notice_has_your_address_and_whom_to_ask(folder: Path) -> None:
    record(folder, *CALLS)
    options = ("--base-url", "https://shop.example/api/", "--contact", "Team API")
    out = notify(folder, "warehouse", *options).out
    assert "curl https://shop.example/api/v2/report" in out
    assert "In the examples" not in out
    assert "If you have questions, ask Team API." in out
    outcome = run_usage(f"sqlite:///{folder}/usage.sqlite3", *options)
    assert outcome.code == 2
    assert "need --caller" in outcome.err


def test_a_notice_without_a_page_and_a_successor_has_neither(folder: Path) -> None:
    plan = PLAN.replace('documentation = "https://example.com/retire"', "")
    (folder / "plan.toml").write_text(plan, encoding="utf-8")
    record(folder, use(caller="warehouse", operation="export"))
    out = notify(folder, "warehouse").out
    assert "It has no successor." in out
    assert "Before:" in out
    assert "After:" not in out
    assert "More about it" not in out


def test_the_formats_say_the_same(folder: Path) -> None:
    record(folder, *CALLS)
    page = parse(notify(folder, "warehouse", "--format", "html").out)
    shown = words(page.body)
    for line in TEXT.splitlines():
        if "example" not in line and "---" not in line:
            assert line in shown
    assert page.select("a[href='https://example.com/retire']")


def test_a_caller_without_a_call_is_told_when_the_last_one_was(folder: Path) -> None:
    earlier = [use(caller="warehouse"), use(caller="zebra", operation="export")]
    record(folder, *earlier, at=YESTERDAY - 9 * DAY)
    assert " ".join(notify(folder, "warehouse").out.split()) == (
        "warehouse: no calls No call of yours was recorded from 28 May to 31 May 2026 "
        "(covered 100 % of 84 hours by 1 host, without a gap). "
        "Your last call was on 21 May 2026."
    )
    notice = notify(folder, "warehouse", "--operation", "export").out
    assert "No call of yours to export was recorded from " in " ".join(notice.split())


LINE = '1.1.1.1 - {} [30/May/2026:12:00:00 +0000] "GET /report HTTP/1.1" 200 2\n'


@pytest.mark.parametrize("recorded", [[], [use("job/1", "zebra")]])
def test_a_caller_that_only_a_log_has_seen_gets_a_notice(
    folder: Path, recorded: list[Call]
) -> None:
    log = folder / "access.log"
    log.write_text(LINE.format("warehouse"), encoding="utf-8")
    sources = ["--log", log]
    if recorded:
        record(folder, *recorded)
        sources.append(f"sqlite:///{folder}/usage.sqlite3")
    options = ("--until", "2026-05-31T12:00:00Z", "--days", "3")
    plan = ("--plan", folder / "plan.toml", "--caller", "warehouse")
    outcome = run("usage", *sources, *plan, *options)
    assert (outcome.code, outcome.err) == (3, "")
    assert "You called it 1 time from" in outcome.out


# A call in the window, options, and the exit code.
EXIT_CODES: dict[str, tuple[Call, str, int]] = {
    "the calls of others do not count": (use(caller="zebra"), "", 0),
    "a call without a label may be its own": (use("curl/8"), "", 4),
    "unless its client is ignored": (use("curl/8"), "--ignore-client curl/8", 0),
    "so may one beyond the limit": (use("(other)", "(other)"), "", 4),
    "no probe on some days": (use(PROBE), "--require-probe", 4),
    "its own call": (use(caller="warehouse"), "", 3),
    "its own call, ignored": (
        use(caller="warehouse"),
        "--ignore-caller warehouse",
        0,
    ),
    "its own call of another operation": (
        use(caller="warehouse"),
        "--operation export",
        0,
    ),
}


@pytest.mark.parametrize(
    ("call", "options", "code"), EXIT_CODES.values(), ids=EXIT_CODES
)
def test_the_exit_code_is_for_that_caller_alone(
    folder: Path, call: Call, options: str, code: int
) -> None:
    earlier = [use(caller="warehouse"), use(caller="zebra", operation="export")]
    record(folder, *earlier, at=YESTERDAY - 9 * DAY)
    record(folder, call)
    assert notify(folder, "warehouse", *options.split()).code == code


def test_a_caller_that_was_never_seen_with_the_plan_is_an_error(folder: Path) -> None:
    record(folder, *CALLS, use(caller="stranger", operation="of another plan"))
    message = "Error: no call of 'stranger' has been recorded\n"
    assert notify(folder, "stranger") == (1, "", message)


def test_names_from_the_store_are_no_markup(folder: Path) -> None:
    record(folder, use("<b>|*x", "a|b*<script>"))
    page = parse(notify(folder, "a|b*<script>", "--format", "html").out)
    assert not page.select("script, b")
    assert words(page.h1).startswith("a|b*<script>: ")
