"""The usage report: the verdict first, every plot as a table, and what each brownout
changed.
"""

from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import Any

import pytest
from bs4 import BeautifulSoup

from flask_notifications import Brownout, DeprecationPolicy, Operation
from flask_notifications.pages import render_usage
from flask_notifications.usage import CallerUsage, DayUsage, Reason, Verdict
from tests.pages import reports
from tests.pages.html import parse, rows, words
from tests.pages.reports import (
    DAY,
    NOW,
    brownout,
    caller,
    coverage,
    operation_usage,
    policy,
    report,
    utc,
)

OPERATION = Operation("reports", "GET", "/reports")
SUNSET = utc(2026, 12, 1)
TODAY = utc(2026, 11, 22)
ENDING = policy(SUNSET)
# A brownout, and a policy that has it.
WINDOW = brownout(utc(2026, 11, 10, 9))
INTERRUPTED = policy(SUNSET, WINDOW)


def day(number: int, answered: int = 0, failed: int = 0, closed: int = 0) -> DayUsage:
    """Return the calls of a day, counted from today."""
    return DayUsage(NOW.date() + number * DAY, answered, 0, failed, closed)


def page_of(
    *callers: CallerUsage,
    planned: DeprecationPolicy = ENDING,
    days: int = 30,
    gap: range = range(0),
) -> BeautifulSoup:
    usage = operation_usage("reports", callers, coverage(days, gap=gap))
    return parse(render_usage(report(usage, days=days), plan={OPERATION: planned}))


def table_of_days(page: BeautifulSoup) -> list[list[str]]:
    return rows(page.select_one("figure + details table"))


@pytest.mark.parametrize(
    ("verdicts", "heading"),
    [
        ("", "Nothing has been recorded"),
        ("safe, safe", "Safe to switch off"),
        ("in use, safe, unknown", "Not safe to switch off"),
        ("unknown, safe", "Not known to be safe"),
    ],
)
def test_the_heading_is_the_verdict(verdicts: str, heading: str) -> None:
    usages = []
    for verdict in filter(None, verdicts.split(", ")):
        usages.append(operation_usage("a", [], coverage(1), verdict=Verdict(verdict)))
    page = parse(render_usage(report(*usages)))
    assert words(page.h1) == words(page.title) == heading
    badges = [words(badge) for badge in page.select(".verdicts .badge")]
    assert ", ".join(badges) == verdicts


@pytest.mark.parametrize(
    ("until", "length"),
    [(NOW, "30 complete days and the day so far"), (TODAY, "30 complete days")],
)
def test_a_window_that_ends_at_midnight_has_complete_days_only(
    until: datetime, length: str
) -> None:
    page = parse(render_usage(report(until=until)))
    assert f" UTC: {length}. Read on " in words(page.select_one("header .muted"))


@pytest.mark.parametrize(
    ("is_enforced", "end"),
    [(False, "has passed, but is not enforced"), (True, "has passed")],
)
def test_a_sunset_that_has_passed_stands_out(is_enforced: bool, end: str) -> None:
    page = page_of(planned=policy(utc(2026, 11, 1), enforce_sunset=is_enforced))
    passed = f"the sunset of 1 Nov 2026 {end}"
    assert words(page.select_one(".operation p strong")) == passed


@pytest.mark.parametrize(
    ("ignored", "beginning"), [(0, "No calls in 30 days"), (1, "No call counts as use")]
)
def test_a_safe_operation_says_for_how_long_nobody_called(
    ignored: int, beginning: str
) -> None:
    safe = operation_usage("reports", [], coverage(30))
    page = parse(render_usage(report(replace(safe, ignored=ignored))))
    sentence = f"{beginning}, and recording was complete."
    assert words(page.select_one(".verdicts p")) == sentence
    assert words(page.select_one("h3 + p")) == "Nobody."


def test_the_table_of_days_has_the_numbers_of_the_plot() -> None:
    page = page_of(
        caller("alice", "curl/8", [day(-2, 5), day(-1, 3, 1)]),
        caller("alice", "curl/8", [day(-2, 2)], source="header"),
        caller("(other)", "(other)", [day(-1, 1, 0, 2)]),
        caller("monitor", None, [day(-1, 100)], ignored=True),
    )
    table = table_of_days(page)
    columns = "From (UTC)|alice with curl/8|(other)|All calls|Got 410|Recorded hours"
    assert table[0] == columns.split("|")
    assert table[-2:] == [
        ["21 Nov 2026", "4", "3", "7", "2", "24"],
        ["22 Nov 2026", "0", "0", "0", "0", "24"],
    ]
    assert len(table) == 32
    assert len(page.select("figure path")) == 2


def test_a_page_with_too_many_days_shows_several_days_in_one_bar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    days = [day(-30, 1), day(-29, 2), day(-28, 3, 0, 4), day(0, 6)]
    callers = (caller("alice", None, days), caller("bob", None, [day(-28, 7)]))
    monkeypatch.setattr("flask_notifications.formats.usage._LISTED", 16)
    page = page_of(*callers, gap=range(5, 9))
    table = table_of_days(page)
    assert table[1:4] == [
        ["23 Oct 2026", "3", "0", "3", "0", "48"],
        ["25 Oct 2026", "7", "7", "14", "4", "48"],
        ["27 Oct 2026", "0", "0", "0", "0", "24"],
    ]
    assert table[-1] == ["22 Nov 2026", "6", "0", "6", "0", "24"]
    alice, bob = page.select("figure path")
    assert alice["d"] == "M0 786h8v214h-8zM10 500h8v500h-8zM150 571h8v429h-8z"
    assert bob["d"] == "M10 0h8v500h-8z"
    summary = "Calls and recorded hours per 2 days"
    assert words(page.select_one("summary")) == summary


def test_a_page_of_many_operations_stays_below_2_mb() -> None:
    busy = reports.busy_operation(
        "reports",
        callers=1000,
        days=30,
        names=lambda number: ("&" * 60 + str(number), "&"),
    )
    usages = [replace(busy, name=f"operation {number}") for number in range(50)]
    page = render_usage(report(*usages))
    assert 1_000_000 < len(page.encode()) < 2_000_000
    assert page.count("not listed here") == 50


def test_a_page_that_is_too_large_lists_nothing_and_counts_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flask_notifications.formats.usage._BYTES", 0)
    page = page_of(*callers_with_410(3), planned=policy(SUNSET, *daily_brownouts(5)))
    assert not page.select(".callers tbody tr, .effect tbody tr, svg[role=img] .band")
    for sentence in (
        "3 more callers, not listed here.",
        "3 callers got 410 that day.",
        "2 more brownouts, not listed here.",
    ):
        assert sentence in words(page)


def callers_with_410(number: int) -> list[CallerUsage]:
    return [closed(f"caller {index}") for index in range(number)]


def daily_brownouts(number: int) -> list[Brownout]:
    """Return brownouts on as many days, the last on 10 November."""
    return [brownout(WINDOW.start - index * DAY) for index in range(number)]


def test_the_five_main_callers_have_colours_and_the_others_share_one() -> None:
    callers = []
    for number in range(8):
        callers.append(caller(f"caller {number}", "c", [day(-number, 20 - number)]))
    page = page_of(*callers)
    legend = page.select("figure .legend")[0].select("li")
    assert words(legend[0]) == "caller 0 with c, 20 calls"
    assert words(legend[-1]) == "3 others, 42 calls"
    colours = "".join(str(path["class"][0]) for path in page.select("figure path"))
    assert colours == "s1s2s3s4s5s0"


def test_a_single_call_is_visible_beside_many() -> None:
    page = page_of(
        caller("alice", None, [day(-1, 1_000_000)]), caller("bob", None, [day(-3, 1)])
    )
    paths = [str(path["d"]) for path in page.select("figure path")]
    assert "v1000h" in paths[0]
    assert "v14h" in paths[1]


def test_callers_are_in_a_table_and_all_but_the_first_are_folded() -> None:
    callers = [caller("(other)", "(other)", [day(-1, 1_050, 1, 1)])]
    for number in range(15):
        callers.append(caller(f"caller {number}", "c", [day(-1, 50 - number)]))
    page = page_of(
        *callers,
        caller(None, None, [day(-1, 1)], source=None),
        caller("monitor", "check/1", [day(-1, 2)], ignored=True),
    )
    shown, folded = page.select(".callers")
    assert len(rows(shown)) == 16
    first = "(other)|still calling|21 Nov 2026|1,050|0|1|1|(other)|query"
    assert rows(shown)[1] == first.split("|")
    unnamed = "unnamed|still calling|21 Nov 2026|1|0|0|0|\N{EN DASH}|\N{EN DASH}"
    ignored = "monitor|ignored|21 Nov 2026|2|0|0|0|check/1|query"
    assert rows(folded)[-2:] == [unnamed.split("|"), ignored.split("|")]


def test_dates_of_the_plan_near_the_window_are_drawn() -> None:
    planned = policy(SUNSET, WINDOW, brownout(utc(2026, 11, 25, 9)))
    page = page_of(planned=planned, days=400)
    labels = [words(text) for text in page.select("figure text[class*=-label]")]
    assert labels == ["today", "deprecated 1 Jan 2026", "sunset 1 Dec 2026"]
    assert len(page.select("figure svg .band")) == 3  # with the one of the legend


def test_a_sunset_in_the_future_is_in_the_heading() -> None:
    page = page_of(planned=policy(utc(2028, 1, 1)))
    heading = "GET /reports · sunset 1 Jan 2028, in 13 months"
    assert words(page.select_one(".operation > p")) == heading


def test_gaps_of_the_record_are_drawn_below_the_calls() -> None:
    covered = coverage(30, gap=range(10, 12))
    covered[NOW.date() - 5 * DAY] = 6
    covered[NOW.date()] = 17
    page = parse(render_usage(report(operation_usage("reports", [], covered))))
    gaps = page.select("figure > svg > rect.gap")
    assert [gap["fill-opacity"] for gap in gaps] == ["1.0", "1.0", "0.75"]
    assert "not recorded, or only in part" in words(page.figure)
    assert "not recorded" not in words(page_of().figure)


def test_a_day_that_has_only_just_begun_is_not_shown() -> None:
    usage = operation_usage("reports", [caller("a", None, [day(0, 2)])], coverage(30))
    page = parse(render_usage(report(usage, until=TODAY)))
    assert table_of_days(page)[-1][:2] == ["21 Nov 2026", "0"]


def test_each_brownout_shows_which_callers_returned() -> None:
    page = page_of(
        caller("gone", "a/1", [day(-15, 10), day(-12, 1, 0, 4)], last=time(9, 20)),
        caller("back", "b/1", [day(-15, 10), day(-12, 1, 0, 2), day(-8, 14)]),
        caller("asleep", "c/1", [day(-15, 7), day(-8, 7)]),
        caller("left before", "c/1", [day(-21, 7)]),
        caller("monitor", "d/1", [day(-12, 0, 0, 9)], ignored=True),
        planned=INTERRUPTED,
    )
    effect = page.select_one(".effect")
    assert "2 callers got 410 that day. Called again since: 1." in words(effect)
    assert rows(effect)[1:] == [
        ["back with b/1 (query)", "2", "yes", "called again, last on 14 Nov 2026"],
        ["gone with a/1 (query)", "4", "yes", "no call"],
    ]


def closed(name: str | None, client: str | None = None) -> CallerUsage:
    """Return a caller that got 410 in the brownout and did not call again."""
    at = time(9, 5)
    return caller(name, client, [day(-12, 0, 0, 2)], first=at, last=at)


SENTENCES = {
    "3 callers got 410 that day. Called again since: nobody.": [*map(closed, "abc")],
    "Nobody got 410 that day.": [caller("exempt", None, [day(-12, 1)])],
}


@pytest.mark.parametrize(("sentence", "callers"), SENTENCES.items())
def test_the_effect_of_a_brownout_is_a_sentence(
    sentence: str, callers: list[CallerUsage]
) -> None:
    page = page_of(*callers, planned=INTERRUPTED)
    assert sentence in words(page.select_one(".effect"))


def test_410_without_a_label_is_compared_with_the_labelled_calls_of_the_client() -> (
    None
):
    page = page_of(
        closed(None, "a/1"),
        caller("alice", "a/1", [day(-15, 10), day(-2, 3)]),
        closed(None, "b/1"),
        caller("bob", "b/1", [day(-15, 6)]),
        caller("carol", "b/1", [day(-2, 6)], source="header"),
        closed(None, "c/1"),
        planned=INTERRUPTED,
    )
    effect = page.select_one(".effect")
    assert "3 callers got 410 that day. Called again since: 1." in words(effect)
    assert [row[2:] for row in rows(effect)[1:]] == [
        ["yes", "called again, last on 20 Nov 2026"],
        ["yes", "no call"],
        ["no", "no call"],
    ]


def test_a_running_brownout_has_no_effect_yet() -> None:
    running = policy(SUNSET, brownout(NOW - timedelta(minutes=5)))
    page = page_of(caller("a", None, [day(0, 0, 0, 3)]), planned=running)
    sentence = "running 1 caller got 410 that day. It is too early to say who returns."
    assert sentence in words(page.select_one(".effect"))


def test_many_callers_and_many_brownouts_are_folded() -> None:
    planned = policy(SUNSET, *daily_brownouts(13))
    page = page_of(*callers_with_410(17), planned=planned)
    summaries = [words(summary) for summary in page.select("summary")]
    assert summaries == [
        "Calls and recorded hours per day",
        "2 further callers",
        "2 further callers",
        "10 earlier brownouts",
    ]


def test_brownouts_that_repeat_are_folded_and_counted() -> None:
    start = NOW - 400 * DAY
    hourly = Brownout(start, start + DAY / 48, every=DAY / 24, until=NOW - DAY)
    folded = page_of(planned=policy(SUNSET, hourly), days=400).select("details")[-1]
    assert words(folded.summary) == "9,573 earlier brownouts"
    assert words(folded).endswith("7,573 more brownouts, not listed here.")


def test_a_plan_without_the_operation_has_no_dates() -> None:
    usage = operation_usage("unplanned", [closed("a")], coverage(30))
    page = parse(render_usage(report(usage), plan={OPERATION: INTERRUPTED}))
    labels = page.select("figure text[class*=-label]")
    assert [words(label) for label in labels] == ["today"]
    assert not page.select(".effect, .band")


def test_no_name_in_a_report_becomes_markup_and_neither_does_a_title() -> None:
    usage = reports.busy_operation(
        "<script>alert(1)</script>", callers=12, days=9, names=reports.strange_names
    )
    page = parse(render_usage(report(usage, days=9), title="Retired <operations>"))
    assert words(page.h1) == words(page.title) == "Retired <operations>"
    assert not page.select("script, img, iframe, link, a:not([href^='#'])")


def test_no_name_in_a_report_is_a_control_character_or_cannot_be_encoded() -> None:
    page = render_usage(
        report(reports.busy_operation("\x1b[31m", callers=1, days=1)), title="\ud800\r"
    )
    assert r"\x1b[31m" in page
    assert page.encode().decode().replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "arguments", [{"report": {}}, {"title": 1}, {"title": " "}, {"plan": [1]}], ids=str
)
def test_a_wrong_argument_is_named(arguments: Any) -> None:
    (name,) = arguments
    with pytest.raises(ValueError, match=f"^{name} must be"):
        render_usage(**{"report": report(), **arguments})


DUE = policy(utc(2026, 12, 31), brownout(utc(2026, 12, 1, 9)))
OVER = policy(utc(2026, 11, 1))
CLOSED = policy(utc(2026, 11, 1), enforce_sunset=True)
CALLING = [
    caller("team-a", "curl/8", [day(-1, 5)]),
    caller("team-b", "job/1", [day(-1, 3)]),
]
STEPS: dict[str, tuple[list[CallerUsage], DeprecationPolicy | None, str]] = {
    "nobody calls": (
        [],
        ENDING,
        "Enforce its sunset: sunset_at and enforce_sunset in the plan.",
    ),
    "nobody calls, and the end is enforced": (
        [],
        policy(SUNSET, enforce_sunset=True),
        "Nothing until its sunset on 1 December 2026.",
    ),
    "closed": (
        [],
        CLOSED,
        "It is closed: delete the view, and then its entry in the plan.",
    ),
    "two callers and a brownout": (
        CALLING,
        DUE,
        "Write to team-a, team-b before the brownout on 1 December 2026, in 9 days.",
    ),
    "two callers and a sunset": (
        CALLING,
        ENDING,
        "Write to team-a, team-b before the sunset on 1 December 2026, in 8 days.",
    ),
    "a sunset that has passed": (
        CALLING,
        OVER,
        "Write to team-a, team-b now: the sunset was on 1 November 2026.",
    ),
    "no date": (CALLING, policy(None), "Write to team-a, team-b."),
    "many callers and no plan": (
        [caller(name, None, [day(-1, 9)]) for name in "abcdefg"],
        None,
        "Write to a, b, c, d, e and 2 others.",
    ),
    "no label": (
        [caller(None, "curl/8", [day(-1, 5)]), caller(None, None, [day(-1, 1)])],
        None,
        (
            "Find out who calls with curl/8, an unknown client: give the middleware a "
            "function that identifies callers."
        ),
    ),
    "all have stopped": (
        [caller("team-a", None, [day(-9, 5)], stopped_on=NOW.date() - 9 * DAY)],
        None,
        (
            "Nobody who is not exempt still calls. If that stays so, the window is "
            "without calls on 14 December 2026."
        ),
    ),
}


@pytest.mark.parametrize(("callers", "planned", "step"), STEPS.values(), ids=STEPS)
def test_the_page_says_what_to_do_next(
    callers: list[CallerUsage], planned: DeprecationPolicy | None, step: str
) -> None:
    usage = operation_usage("reports", callers, coverage(30))
    plan = None if planned is None else {OPERATION: planned}
    page = parse(render_usage(report(usage), plan=plan))
    assert words(page.select_one(".step")) == f"Next: {step}"


def test_an_unknown_verdict_has_its_reasons_as_next_steps() -> None:
    usage = operation_usage(
        "reports",
        [],
        coverage(30),
        verdict=Verdict.UNKNOWN,
        reasons=(Reason("gap", "wait"),),
    )
    page = parse(render_usage(report(usage)))
    assert not page.select(".step")
    assert words(page.select_one(".verdicts .reason")) == "Wait."
    unknown = "Unknown. No call is recorded, but the record is not complete."
    assert words(page.select_one("h3 + p")) == unknown
