"""The usage report: the verdict first, every plot as a table, and what each brownout
changed.
"""

from dataclasses import replace
from datetime import time, timedelta
from typing import Any

import pytest
from bs4 import BeautifulSoup

from flask_notifications import Brownout, DeprecationPolicy, Operation
from flask_notifications.pages import render_usage
from flask_notifications.usage import CallerUsage, DayUsage, Reason, Verdict
from tests.pages import reports
from tests.pages.html import parse, rows, words
from tests.pages.reports import (
    BROWNOUTS,
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
ENDING = policy(SUNSET)
# A brownout, and a policy that has it.
WINDOW = brownout(utc(2026, 11, 10, 9))
INTERRUPTED = policy(SUNSET, WINDOW)


def day(number: int, answered: int = 0, failed: int = 0, closed: int = 0) -> DayUsage:
    """Return the calls of a day, counted from today."""
    return DayUsage(NOW.date() + number * DAY, answered, 0, failed, closed)


def page_of(
    *callers: CallerUsage,
    own: DeprecationPolicy = ENDING,
    days: int = 30,
    gap: range = range(0),
) -> BeautifulSoup:
    usage = operation_usage("reports", callers, coverage(days, gap=gap))
    return parse(render_usage(report(usage, days=days), plan={OPERATION: own}))


@pytest.mark.parametrize(
    ("verdicts", "heading"),
    [
        ([], "Nothing has been recorded"),
        ([Verdict.SAFE, Verdict.SAFE], "Safe to switch off"),
        ([Verdict.IN_USE, Verdict.SAFE, Verdict.UNKNOWN], "Not safe to switch off"),
        ([Verdict.UNKNOWN, Verdict.SAFE], "Not known to be safe"),
    ],
)
def test_the_heading_is_the_verdict(verdicts: list[Verdict], heading: str) -> None:
    usages = [
        operation_usage(
            f"operation {number}",
            [],
            coverage(30),
            verdict=verdict,
            reasons=(Reason("gap", "because"),),
        )
        for number, verdict in enumerate(verdicts)
    ]
    page = parse(render_usage(report(*usages)))
    assert words(page.h1) == words(page.title) == heading
    assert [words(badge) for badge in page.select(".verdicts .badge")] == [
        verdict.value for verdict in verdicts
    ]
    assert [words(each) for each in page.select(".verdicts .reason")] == [
        "Because."
    ] * len(verdicts)
    unknown = "Unknown. No call is recorded, but the record is not complete."
    who_calls = ["Nobody." if verdict != "unknown" else unknown for verdict in verdicts]
    assert [words(each) for each in page.select("h3 + p")] == who_calls


def test_a_window_that_ends_at_midnight_has_complete_days_only() -> None:
    for until, length in (
        (NOW, "30 complete days and the day so far."),
        (utc(2026, 11, 22), "30 complete days."),
    ):
        page = parse(render_usage(report(until=until)))
        said = words(page.select_one("header .muted"))
        assert f" UTC: {length} Read on " in said


@pytest.mark.parametrize(
    ("is_enforced", "end"),
    [(False, "has passed, but is not enforced"), (True, "has passed")],
)
def test_a_sunset_that_has_passed_stands_out(is_enforced: bool, end: str) -> None:
    page = page_of(own=policy(utc(2026, 11, 1), enforce_sunset=is_enforced))
    assert (
        words(page.select_one(".operation p strong"))
        == f"the sunset of 1 Nov 2026 {end}"
    )


def test_a_safe_operation_says_for_how_long_nobody_called() -> None:
    safe = operation_usage("reports", [], coverage(30))
    ignored = replace(safe, ignored=1)
    said = [
        words(parse(render_usage(report(each))).select_one(".verdicts p"))
        for each in (safe, ignored)
    ]
    assert said == [
        f"{text}, and recording was complete."
        for text in ("No calls in 30 days", "No call counts as use")
    ]


def test_the_table_of_days_has_the_numbers_of_the_plot() -> None:
    page = page_of(
        caller("alice", "curl/8", [day(-2, 5), day(-1, 3, 1)]),
        caller("alice", "curl/8", [day(-2, 2)], source="header"),
        caller("(other)", "(other)", [day(-1, 1, 0, 2)]),
        caller("monitor", None, [day(-1, 100)], ignored=True),
    )
    table = rows(page.select_one("figure + details table"))
    assert table[0] == [
        "From (UTC)",
        "alice with curl/8",
        "(other)",
        "All calls",
        "Got 410",
        "Recorded hours",
    ]
    assert table[-3:] == [
        ["20 Nov 2026", "7", "0", "7", "0", "24"],
        ["21 Nov 2026", "4", "3", "7", "2", "24"],
        ["22 Nov 2026", "0", "0", "0", "0", "24"],
    ]
    assert len(table) == 32
    assert len(page.select("figure path")) == 2


def test_a_page_with_too_many_days_shows_weeks_months_or_years(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    days = [day(-30, 1), day(-23, 2), day(-22, 3), day(-21, 5, 0, 4), day(0, 6)]
    callers = (caller("alice", None, days), caller("bob", None, [day(-21, 7)]))
    monkeypatch.setattr("flask_notifications.formats.usage._LISTED", 30)
    page = page_of(*callers, gap=range(5, 9))
    assert rows(page.select_one("figure + details table")) == [
        ["From (UTC)", "alice", "bob", "All calls", "Got 410", "Recorded hours"],
        ["23 Oct 2026", "1", "0", "1", "0", "72"],
        ["26 Oct 2026", "14", "7", "21", "4", "72"],
        ["2 Nov 2026", "0", "0", "0", "0", "168"],
        ["9 Nov 2026", "0", "0", "0", "0", "168"],
        ["16 Nov 2026", "6", "0", "6", "0", "168"],
    ]
    assert str(page.select("figure path")[1]["d"]) == (
        "M0 1000v-48h28v48h2v-667h68v667h2v0h68v0h2v0h68v0h2v-286h68v286h2z"
    )
    strip = [
        (str(rect["class"][0]), rect["width"])
        for rect in page.select("figure > svg > rect")
    ]
    assert [level for level, _width in strip] == ["full", "part", "full"]
    monkeypatch.setattr("flask_notifications.formats.usage._LISTED", 4)
    page = page_of(*callers)
    assert rows(page.select_one("figure + details table"))[1:] == [
        ["23 Oct 2026", "6", "0", "6", "0", "216"],
        ["1 Nov 2026", "15", "7", "22", "4", "528"],
    ]
    assert words(page.select_one("summary")) == "Calls and coverage of each month"
    page = page_of(*callers, days=3000)
    assert rows(page.select_one("figure + details table"))[-1] == [
        "1 Jan 2026",
        "21",
        "7",
        "28",
        "4",
        "7,824",
    ]
    assert words(page.select_one("summary")) == "Calls and coverage of each year"


def test_a_page_of_many_operations_stays_below_2_mb() -> None:
    busy = reports.busy_operation(
        "reports",
        callers=1000,
        days=30,
        names=lambda number: ("&" * 60 + str(number),) * 2,
    )
    usages = [replace(busy, name=f"operation {number}") for number in range(50)]
    page = render_usage(report(*usages))
    assert 1_000_000 < len(page.encode()) < 2_000_000
    assert page.count("not listed here") == 50


def test_a_page_that_is_too_large_lists_nothing_and_counts_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flask_notifications.formats.usage._BYTES", 0)
    windows = [brownout(utc(2026, 11, number, 9)) for number in range(6, 11)]
    callers = [
        caller(f"caller {number}", None, [day(-12, 0, 0, 1)]) for number in range(3)
    ]
    page = page_of(*callers, own=policy(SUNSET, *windows))
    assert not page.select(".callers tbody tr, .effect tbody tr, svg[role=img] .band")
    said = words(page)
    for sentence in (
        "3 more callers, not listed here.",
        "3 callers got 410.",
        "2 more brownouts, not listed here.",
    ):
        assert sentence in said


def test_the_five_main_callers_have_colours_and_the_others_share_one() -> None:
    page = page_of(
        *(
            caller(f"caller {number}", "c", [day(-number, 20 - number)])
            for number in range(8)
        )
    )
    legend = [words(item) for item in page.select("figure .legend")[0].select("li")]
    assert legend[0] == "caller 0 with c, 20 calls"
    assert legend[-1] == "3 others, 42 calls"
    assert [path["class"] for path in page.select("figure path")] == [
        ["s0"],
        ["s5"],
        ["s4"],
        ["s3"],
        ["s2"],
        ["s1"],
    ]


def test_a_single_call_is_visible_beside_many() -> None:
    page = page_of(
        caller("alice", None, [day(-1, 1_000_000)]), caller("bob", None, [day(-3, 1)])
    )
    paths = [str(path["d"]) for path in page.select("figure path")]
    assert "v-14h" in paths[0]
    assert "v-1000h" in paths[1]


def test_callers_are_in_a_table_and_all_but_the_first_are_folded() -> None:
    many = [
        caller(
            f"caller {each}", None if each else "(other)", [day(-1, 50 - each, 1, 1)]
        )
        for each in range(20)
    ]
    unnamed = caller(None, None, [day(-1, 1)], source=None)
    page = page_of(
        *many, unnamed, caller("monitor", "check/1", [day(-1, 2)], ignored=True)
    )
    shown, folded = (
        rows(table)
        for table in page.select("h3 + .scroll table, details .scroll table")
        if table.caption
    )
    assert shown[1] == [
        "caller 0",
        "still calling",
        "21 Nov 2026",
        "50",
        "0",
        "1",
        "1",
        "(other)",
        "query",
    ]
    assert len(shown) == 16
    dash = "\N{EN DASH}"
    assert folded[-2:] == [
        ["unnamed", "still calling", "21 Nov 2026", "1", "0", "0", "0", dash, dash],
        ["monitor", "ignored", "21 Nov 2026", "2", "0", "0", "0", "check/1", "query"],
    ]


def test_dates_of_the_plan_near_the_window_are_drawn() -> None:
    page = page_of(own=policy(SUNSET, WINDOW, brownout(utc(2026, 11, 25, 9))), days=400)
    labels = {words(text) for text in page.select("figure text[class*=-label]")}
    assert labels == {"today", "B1", "B2", "deprecated 1 Jan 2026", "sunset 1 Dec 2026"}
    assert len(page.select("figure svg .band")) == 3  # with the one of the legend


def test_a_sunset_in_the_future_is_in_the_heading() -> None:
    page = page_of(own=policy(utc(2028, 1, 1)))
    assert (
        words(page.select_one(".operation > p"))
        == "GET /reports · sunset 1 Jan 2028, in 13 months"
    )


def test_coverage_is_drawn_as_a_strip_of_equal_days() -> None:
    covered = coverage(30, gap=range(10, 13)) | {
        NOW.date() - 5 * DAY: 7,
        NOW.date(): 17,
    }
    page = parse(render_usage(report(operation_usage("reports", [], covered))))
    strip = [str(rect["class"][0]) for rect in page.select("figure > svg > rect")]
    assert strip == ["full", "none", "full", "part", "full"]


def test_a_day_that_has_only_just_begun_is_not_shown() -> None:
    usage = operation_usage(
        "reports", [caller("alice", None, [day(-1, 1), day(0, 2)])], coverage(30)
    )
    page = parse(render_usage(report(usage, until=utc(2026, 11, 22))))
    assert rows(page.select_one("figure + details table"))[-1][:2] == [
        "21 Nov 2026",
        "1",
    ]


def test_each_brownout_shows_which_callers_returned() -> None:
    page = page_of(
        caller("gone", "a/1", [day(-15, 10), day(-12, 1, 0, 4)], last=time(9, 20)),
        caller("back", "b/1", [day(-15, 10), day(-12, 1, 0, 2), day(-8, 14)]),
        caller("asleep", "c/1", [day(-15, 7), day(-8, 7)]),
        caller("left before", "c/1", [day(-21, 7)]),
        caller("monitor", "d/1", [day(-12, 0, 0, 9)], ignored=True),
        own=INTERRUPTED,
    )
    effect = page.select_one(".effect")
    for sentence in (
        "2 callers got 410. Called again since: 1.",
        "Not reached: 1 other caller that called before and after, but not during it.",
    ):
        assert sentence in words(effect)
    assert rows(effect)[1:] == [
        ["back with b/1 (query)", "2", "yes", "called again, last on 14 Nov 2026"],
        ["gone with a/1 (query)", "4", "yes", "no call"],
    ]


def closed(name: str, *later: int) -> CallerUsage:
    """Return a caller that got 410 in the brownout, and called on other days."""
    return caller(
        name,
        None,
        [day(-12, 0, 0, 1), *(day(each, 1) for each in later)],
        last=time(9, 5),
    )


SENTENCES = {
    "1 caller got 410. Called again since: nobody.": [closed("a")],
    "3 callers got 410. Called again since: 2.": [
        closed("a"),
        closed("b", -1),
        closed("c", -1),
    ],
    "No call was recorded during this brownout, though 1 caller had called before.": [
        caller("a", None, [day(-20, 1)])
    ],
    "No call was recorded during this brownout.": [],
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_the_effect_of_a_brownout_is_a_sentence(sentence: str) -> None:
    assert sentence in words(
        page_of(*SENTENCES[sentence], own=INTERRUPTED).select_one(".effect")
    )


def test_410_without_a_label_is_compared_with_the_labelled_calls_of_the_client() -> (
    None
):
    page = page_of(
        caller(None, "a/1", [day(-12, 0, 0, 4)], first=time(9, 1), last=time(9, 5)),
        caller("alice", "a/1", [day(-15, 10), day(-2, 3)]),
        caller(None, "b/1", [day(-12, 0, 0, 2)], first=time(9, 1), last=time(9, 5)),
        caller("bob", "b/1", [day(-15, 6)]),
        caller("carol", "b/1", [day(-2, 6)], source="header"),
        caller(None, "c/1", [day(-12, 0, 0, 1)], first=time(9, 1), last=time(9, 5)),
        own=INTERRUPTED,
    )
    effect = page.select_one(".effect")
    assert "3 callers got 410. Called again since: 1." in words(effect)
    assert "Not reached" not in words(effect)
    assert [row[1:] for row in rows(effect)[1:]] == [
        ["4", "yes", "called again, last on 20 Nov 2026"],
        ["2", "yes", "no call"],
        ["1", "no", "no call"],
    ]


def test_410_without_a_label_in_another_brownout_is_not_a_separate_caller() -> None:
    page = page_of(
        caller(
            None,
            "a/1",
            [day(-14, 0, 0, 1), day(-10, 0, 0, 1)],
            first=time(9, 5),
            last=time(9, 5),
        ),
        caller("alice", "a/1", [day(-18, 10), day(-2, 3)]),
        own=policy(
            SUNSET,
            brownout(utc(2026, 11, 8, 9)),
            WINDOW,
            brownout(utc(2026, 11, 12, 9)),
        ),
    )
    said = [words(each) for each in page.select(".effect") if "B2" in words(each)]
    assert "though 1 caller had called before" in said[0]


def test_a_running_brownout_has_no_effect_yet() -> None:
    page = page_of(
        caller("a", None, [day(0, 0, 0, 3)]),
        own=policy(SUNSET, brownout(NOW - timedelta(minutes=5))),
    )
    assert "running 1 caller got 410. It is too early to say who returns." in words(
        page.select_one(".effect")
    )


def test_brownouts_on_one_day_say_that_their_counts_are_shared() -> None:
    own = policy(
        SUNSET, WINDOW, brownout(utc(2026, 11, 10, 15)), brownout(utc(2026, 11, 12, 15))
    )
    effects = [words(each) for each in page_of(own=own).select(".effect")]
    assert ["on the same day" in each for each in effects] == [False, True, True]


def test_many_callers_and_many_brownouts_are_folded() -> None:
    windows = [brownout(utc(2026, 11, number, 9)) for number in range(1, 15)]
    callers = [
        caller(f"caller {number}", None, [day(-12, 0, 0, 1)]) for number in range(17)
    ]
    page = page_of(*callers, own=policy(SUNSET, *windows))
    further = "2 further callers"
    summaries = [words(each) for each in page.select("summary")]
    assert summaries == [
        "Calls and coverage of each day",
        further,
        "11 earlier brownouts",
        further,
    ]
    assert not page.select("figure text.brownout-label")


def test_brownouts_that_repeat_are_folded_and_counted() -> None:
    start = NOW - 400 * DAY
    hourly = Brownout(start, start + DAY / 48, every=DAY / 24, until=NOW - DAY)
    page = page_of(own=policy(SUNSET, hourly), days=400)
    folded = page.select("details")[-1]
    assert words(folded.summary) == "9,573 earlier brownouts"
    assert words(folded).endswith("7,573 more brownouts, not listed here.")


def test_callers_beyond_the_number_that_a_page_lists_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flask_notifications.formats.usage._LISTED", 16)
    page = page_of(
        *(caller(f"caller {number}", None, [day(-12, 0, 0, 1)]) for number in range(18))
    )
    assert len(page.select(".callers tbody tr")) == 16
    assert "2 more callers, not listed here." in words(page.select("details")[-1])


def test_a_plan_without_the_operation_has_no_dates() -> None:
    usage = reports.busy_operation("unplanned", callers=2, days=30)
    page = parse(
        render_usage(
            report(usage), plan={OPERATION: policy(utc(2026, 12, 1), *BROWNOUTS)}
        )
    )
    assert {words(text) for text in page.select("figure text.now-label")} == {"today"}
    assert not page.select(".effect, .band")


def test_no_name_in_a_report_becomes_markup_and_neither_does_a_title() -> None:
    usage = reports.busy_operation(
        "<script>alert(1)</script>", callers=12, days=9, names=reports.strange_names
    )
    page = parse(render_usage(report(usage, days=9), title="Retired <operations>"))
    assert words(page.h1) == words(page.title) == "Retired <operations>"
    assert not page.find_all(["script", "img", "iframe", "link"])
    assert all(str(link["href"]).startswith("#") for link in page.find_all("a"))


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
STEPS: dict[str, tuple[list[CallerUsage], DeprecationPolicy | None, list[str]]] = {
    "nobody calls": (
        [],
        ENDING,
        ["Enforce its sunset: sunset_at and enforce_sunset in the plan."],
    ),
    "nobody calls, without a plan": (
        [],
        None,
        ["Enforce its sunset: sunset_at and enforce_sunset in the plan."],
    ),
    "nobody calls, and the end is enforced": (
        [],
        policy(SUNSET, enforce_sunset=True),
        ["Nothing until its sunset on 1 December 2026."],
    ),
    "closed": (
        [],
        CLOSED,
        ["It is closed: delete the view, and then its entry in the plan."],
    ),
    "two callers and a brownout": (
        CALLING,
        DUE,
        ["Write to team-a, team-b before the brownout on 1 December 2026, in 9 days."],
    ),
    "two callers and a sunset": (
        CALLING,
        ENDING,
        ["Write to team-a, team-b before the sunset on 1 December 2026, in 8 days."],
    ),
    "a sunset that has passed": (
        CALLING,
        OVER,
        ["Write to team-a, team-b now: the sunset was on 1 November 2026."],
    ),
    "no date": (CALLING, policy(None), ["Write to team-a, team-b."]),
    "without a plan": (CALLING, None, ["Write to team-a, team-b."]),
    "many callers": (
        [caller(f"team-{number}", None, [day(-1, 9 - number)]) for number in range(7)],
        None,
        ["Write to team-0, team-1, team-2, team-3, team-4 and 2 others."],
    ),
    "no label": (
        [caller(None, "curl/8", [day(-1, 5)]), caller(None, None, [day(-1, 1)])],
        None,
        [
            (
                "Find out who calls with curl/8, an unknown client: give the middleware a "
                "function that identifies callers."
            )
        ],
    ),
    "all have stopped": (
        [caller("team-a", None, [day(-9, 5)], stopped_on=NOW.date() - 9 * DAY)],
        None,
        [
            (
                "Nobody who is not exempt still calls. If that stays so, the window is "
                "without calls on 14 December 2026."
            )
        ],
    ),
}


@pytest.mark.parametrize(("callers", "own", "steps"), STEPS.values(), ids=STEPS)
def test_the_page_says_what_to_do_next(
    callers: list[CallerUsage], own: DeprecationPolicy | None, steps: list[str]
) -> None:
    usage = operation_usage("reports", callers, coverage(30))
    plan = None if own is None else {OPERATION: own}
    page = parse(render_usage(report(usage), plan=plan))
    said = [words(step).removeprefix("Next: ") for step in page.select(".step")]
    assert said == steps


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
    assert words(page.select_one(".reason")) == "Wait."
