"""The migration guide: its contents for a plan at a time, and values that it escapes or
refuses.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup, Tag

from example_app import create_app
from flask_notifications import (
    Brownout,
    DeprecationMiddleware,
    DeprecationPolicy,
    Exemption,
    Operation,
)
from flask_notifications.pages import render_guide
from tests.cli.servers import serving
from tests.pages.html import parse, rows, words
from tests.pages.reports import (
    DAY,
    NOTIFICATION_PLAN,
    NOW,
    brownout,
    policy,
    strange_plan,
    utc,
)
from tests.servers.process import run_program
from tests.services import program_or_skip

REPORT = Operation("report", "GET", "/reports/{id}", successor="/v2/reports/{id}")
OTHER = Operation(
    "other", "DELETE", "/others/{other-id}", successor="/v2/others/{other-id}"
)
WEST = timezone(timedelta(hours=-5))
ALICE, ACCOUNT = (
    "a11ce000-0000-4000-8000-000000000001",
    "acc00000-0000-4000-8000-00000000000a",
)


def guide(*policies: DeprecationPolicy, **options: Any) -> BeautifulSoup:
    plan = dict(zip([REPORT, OTHER], policies, strict=False))
    return parse(render_guide(plan, at=NOW, **options))


def guide_of(operation: Operation, **options: Any) -> BeautifulSoup:
    return parse(render_guide({operation: JULY}, at=NOW, **options))


def section(page: BeautifulSoup, name: str) -> Tag:
    (tag,) = page.select(f"section[aria-labelledby={name}]")
    return tag


ONE, TWO = "GET /reports/{id} is being retired", "2 operations are being retired"
JULY = policy(utc(2027, 7, 1))
PLANNED = policy(utc(2027, 7, 1), brownout(utc(2027, 4, 6, 9)))
RUNNING = policy(utc(2027, 7, 1), brownout(utc(2026, 11, 22, 16, 45)))
LATE = policy(utc(2026, 11, 1))
OVER = policy(utc(2026, 11, 1), enforce_sunset=True)
FIRST_LINES = {
    "one": (
        [JULY],
        ONE,
        "It still works today. Change your calls before Thursday, 1 July 2027.",
    ),
    "no date": ([policy(None)], ONE, "Change your calls."),
    "a brownout is planned": (
        [PLANNED, PLANNED],
        TWO,
        "before Thursday, 1 July 2027, and expect first failures on Tuesday, 6 April 2027, when a brownout begins.",
    ),
    "in a brownout": (
        [RUNNING],
        ONE,
        "A brownout is running until 22 Nov 2026, 17:15 UTC, so requests get 410 Gone.",
    ),
    "switched off": (
        [OVER],
        "GET /reports/{id} has been switched off",
        "Every request gets 410 Gone.",
    ),
    "one of two is switched off": ([OVER, JULY], TWO, "Some of them still work today."),
    "one of two may stop": (
        [LATE, PLANNED],
        TWO,
        "The sunset of 1 operation has passed, and it may stop at any time.",
    ),
    "all may stop": (
        [LATE, LATE],
        TWO,
        "The sunset has passed, and they may stop at any time. Change your calls now.",
    ),
}


@pytest.mark.parametrize(
    ("policies", "heading", "lede"), FIRST_LINES.values(), ids=FIRST_LINES
)
def test_the_first_lines_say_what_stops_and_when(
    policies: list[DeprecationPolicy], heading: str, lede: str
) -> None:
    page = guide(*policies)
    assert words(page.h1) == heading == words(page.title)
    assert lede in words(page.select_one(".lede"))


def test_without_a_successor_nothing_is_said_to_replace_an_operation() -> None:
    page = parse(render_guide({replace(REPORT, successor=None): OVER}, at=NOW))
    lede = "Every request gets 410 Gone. Remove your calls, or ask for a replacement."
    assert words(page.select_one(".lede")) == lede


def test_a_plan_without_brownouts_has_no_section_on_them() -> None:
    assert "rownout" not in str(guide(JULY).body)


def test_long_paths_break_before_slashes() -> None:
    page = render_guide({Operation("old", "GET", "/a&b/{id}"): policy()}, at=NOW)
    assert "GET <wbr>/a<wbr>&amp;b<wbr>/{id}" in page


STATES = {
    "deprecated": LATE,
    "switched off": OVER,
    "brownout": RUNNING,
    "announced": policy(deprecated_at=utc(2027, 1, 1)),
}


@pytest.mark.parametrize(("badge", "planned"), STATES.items(), ids=STATES)
def test_each_operation_has_its_state(badge: str, planned: DeprecationPolicy) -> None:
    assert words(guide(planned).select_one("article span")) == badge


def test_the_method_of_the_successor_is_to_be_checked_where_it_may_change_data() -> (
    None
):
    caution = "The example keeps the method DELETE. Check that the successor does too."
    get, delete = guide(JULY, JULY).select("article")
    assert "keeps the method" not in words(get)
    assert caution in words(delete)


@pytest.mark.parametrize(
    ("path", "base_url", "hint"),
    [
        (
            "/a/{id}",
            None,
            "put your own values in place of https://api.example.com, ID.",
        ),
        (
            "/{a}/{b}/{c}",
            "https://b.example",
            "In the examples, put your own values in place of A, B, C.",
        ),
        (
            "/a",
            "https://b.example",
            "Keep the other headers and the body that you send today.",
        ),
    ],
)
def test_the_examples_say_what_to_replace(
    path: str, base_url: str | None, hint: str
) -> None:
    page = guide_of(Operation("a", "GET", path), base_url=base_url)
    assert words(page.select_one("#instead + p")).endswith(hint)


def test_the_guide_leaves_out_live_operations_and_exempt_callers() -> None:
    exemption = Exemption("warehouse", utc(2028, 1, 1), "contract")
    live = Operation("live", "GET", "/reports/mine")
    exempt = replace(OVER, exemptions=[exemption])
    page = render_guide({REPORT: exempt, OTHER: OVER, live: None}, at=NOW)
    assert page == render_guide({REPORT: OVER, OTHER: OVER}, at=NOW)


def test_the_dates_and_the_brownouts_are_also_in_tables_with_those_in_the_past() -> (
    None
):
    page = parse(render_guide(NOTIFICATION_PLAN, at=NOW))
    assert rows(section(page, "when"))[1] == [
        "GET /API/Notification/",
        "1 Jan 2026, 00:00 UTC",
        "1 Dec 2026, 00:00 UTC",
        "11 Jan 2027, 00:00 UTC",
        "may stop at any time",
    ]
    planned, past = section(page, "brownouts").select("table")
    window = "1 Dec 2026, 00:00 to 3 Dec 2026, 00:00 UTC"
    assert rows(planned)[1] == [window, "2 days", "in 8 days", "all 2"]
    assert [row[0] for row in rows(past)[1:]] == [
        "8 Sep 2026, 09:00 to 09:15 UTC",
        "6 Oct 2026, 09:00 to 11:00 UTC",
        "3 Nov 2026, 00:00 to 4 Nov 2026, 00:00 UTC",
    ]


def weekly(number: int) -> Brownout:
    """Return a brownout that repeats so many times, and began a week ago."""
    start = NOW - 7 * DAY
    every = 7 * DAY
    return Brownout(start, start + DAY, every=every, until=start + number * every)


def test_brownouts_that_repeat_are_one_row_with_the_next_of_them() -> None:
    page = guide(policy(utc(2030, 1, 1), weekly(12)), JULY)
    _head, row = rows(section(page, "brownouts"))
    repeats = "every 7 days, 12 times, the last on 31 Jan 2027"
    window = f"22 Nov 2026, 17:00 to 23 Nov 2026, 17:00 UTC{repeats}"
    assert row == [window, "24 hours", "now", "GET /reports/{id}"]


@pytest.mark.parametrize(("sunset", "number"), [(2030, 1), (2026, 12)])
def test_brownouts_that_repeat_no_more_are_listed(sunset: int, number: int) -> None:
    ended = policy(utc(sunset, 11, 20), weekly(number), enforce_sunset=True)
    assert "every" not in words(section(guide(ended), "brownouts"))


@pytest.mark.parametrize(("number", "bars"), [(100, 100), (101, 1)])
def test_more_than_a_hundred_brownouts_are_drawn_as_one_bar(
    number: int, bars: int
) -> None:
    page = guide(policy(utc(2300, 1, 1), weekly(number)))
    assert len(page.select("rect.brownout[y]")) == bars


def test_operations_with_different_dates_are_in_different_timelines() -> None:
    assert len(guide(JULY, JULY).select(".lane")) == 1
    assert len(guide(JULY, LATE).select(".lane")) == 2


def test_a_brownout_after_an_enforced_sunset_is_not_shown() -> None:
    window = brownout(utc(2027, 1, 1))
    ended = policy(utc(2026, 10, 1), window, enforce_sunset=True)
    assert "1 Jan 2027" not in words(guide(ended))


def test_the_headers_in_the_guide_are_those_that_are_sent() -> None:
    page = guide(policy(utc(2027, 7, 1), documentation="/docs/retirement"))
    command, headers, *_rest = section(page, "affected").select("pre")
    assert command.get_text().startswith("curl -sS -o /dev/null -D - ")
    assert headers.get_text().splitlines() == [
        "Deprecation: @1767225600",
        "Sunset: Thu, 01 Jul 2027 00:00:00 GMT",
        (
            'Link: </v2/reports/{id}>; rel="successor-version", '
            '</docs/retirement>; rel="deprecation"; type="text/html"'
        ),
    ]
    assert ADDRESS in words(page)


ADDRESS = "possibly with the address of the API before the path of a link"


def test_links_that_are_complete_have_no_address_before_them() -> None:
    operation = Operation("report", "GET", "/reports", "https://v2.example/reports")
    assert ADDRESS not in words(guide_of(operation))


@pytest.mark.parametrize(
    ("contact", "links"),
    [
        ("HTTP://a.example", ["HTTP://a.example"]),
        ("api@a.example", ["mailto:api@a.example"]),
        ("a?b@a.example", ["mailto:a%3Fb@a.example"]),
        ("@team", []),
        ("ask @team", []),
        ("javascript:a", []),
        ("https://a b", []),
        ("<b>", []),
    ],
)
def test_a_contact_is_a_link_only_if_it_is_a_url_or_an_address(
    contact: str, links: list[str]
) -> None:
    questions = section(guide(JULY, contact=contact), "questions")
    assert contact in words(questions)
    assert [link["href"] for link in questions.select("a")] == links


def test_each_link_to_a_sunset_policy_is_relative_to_the_base_url_and_shown_once() -> (
    None
):
    relative = policy(sunset_documentation="/policy")
    absolute = policy(sunset_documentation="https://example.org/policy")
    page = guide(relative)
    assert [link["href"] for link in section(page, "questions").select("a")] == [
        "/policy"
    ]
    page = guide(relative, absolute, base_url="https://example.org")
    assert [link["href"] for link in section(page, "questions").select("a")] == [
        "https://example.org/policy"
    ]


def test_no_value_of_a_plan_becomes_markup_or_an_unsafe_link() -> None:
    page = parse(
        render_guide(
            strange_plan(), at=NOW, title="<script>", contact="<img src=x onload=a>"
        )
    )
    assert words(page.h1) == "<script>"
    assert not page.select("script, img, iframe, object, embed, link, form, [onload]")
    for link in page.select("a"):
        assert str(link["href"]).startswith(("#", "https://", "http://", "/"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("at", datetime(2026, 1, 1)),  # noqa: DTZ001
        ("at", "2026"),
        ("at", datetime.max.replace(tzinfo=WEST)),
        ("title", ""),
        ("contact", 1),
        ("plan", {}),
        ("base_url", "javascript:alert(1)"),
        ("base_url", "/api"),
    ],
)
def test_a_wrong_argument_is_named(name: str, value: Any) -> None:
    arguments = {"plan": {REPORT: JULY}, name: value}
    with pytest.raises(ValueError, match=f"^{name} must be"):
        render_guide(**arguments)


def test_a_plan_of_live_operations_retires_nothing() -> None:
    header = words(parse(render_guide({Operation("a", "GET", "/a"): None})).header)
    assert "Nothing is being retired No operation of this API is deprecated" in header


def test_times_of_other_zones_are_shown_in_utc() -> None:
    at = datetime(2026, 11, 22, 12, tzinfo=WEST)
    assert "22 Nov 2026, 17:00 UTC" in render_guide({REPORT: policy()}, at=at)


def test_the_default_time_is_now() -> None:
    assert f"{datetime.now(UTC).year}, " in words(
        parse(render_guide({REPORT: policy()})).footer
    )


@pytest.mark.parametrize("year", [1970, 9999])
def test_dates_at_both_ends_of_the_calendar_can_be_drawn(year: int) -> None:
    planned = policy(
        utc(9999, 12, 31), deprecated_at=utc(year, 1, 1), enforce_sunset=True
    )
    page = parse(render_guide({REPORT: planned}, at=utc(9999, 12, 31, 23)))
    assert page.select(".lane svg")


@pytest.mark.slow
def test_the_requests_in_the_guide_work_when_they_are_copied(tmp_path: Path) -> None:
    program_or_skip("curl")
    app = create_app(f"sqlite:///{tmp_path}/example.sqlite3")
    with serving(DeprecationMiddleware(app, app.extensions["plan"])) as address:
        page = parse(render_guide(NOTIFICATION_PLAN, at=NOW, base_url=address))
        blocks = page.select(".change pre")
        assert len(blocks) == 4
        for block in blocks:
            command = block.get_text().replace("SESSION_ID", ALICE)
            command = command.replace("ID", ACCOUNT).replace("curl ", "curl -sSf ", 1)
            assert "Weekly sales" in run_program("sh", "-c", command).stdout
    app.extensions["engine"].dispose()
