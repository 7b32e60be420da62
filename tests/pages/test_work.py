"""Callers as a list of work: grouped by label, those that still call first."""

from dataclasses import replace

import pytest

from flask_notifications import DeprecationPolicy, Exemption
from flask_notifications.formats.callers import (
    group_callers,
    list_largest,
    summarise,
)
from flask_notifications.usage import CallerUsage, DayUsage
from tests.pages.reports import DAY, NOW, brownout, caller, operation_usage, policy, utc

# The last one lets nobody through any more.
POLICY = replace(
    policy(
        utc(2027, 7, 1),
        brownout(utc(2026, 11, 3, 9)),
        brownout(utc(2026, 11, 10, 9)),
        enforce_sunset=True,
    ),
    exemptions=[
        Exemption("acme", utc(2027, 9, 1), "contract"),
        Exemption("former", utc(2026, 11, 1), "contract"),
    ],
)


def calls(
    name: str | None,
    client: str | None,
    *ago: int,
    number: int = 1,
    ignored: bool = False,
    stopped: bool = False,
) -> CallerUsage:
    stopped_on = NOW.date() - min(ago) * DAY
    return caller(
        name,
        client,
        [DayUsage(NOW.date() - day * DAY, number, 0, 0, 0) for day in ago],
        ignored=ignored,
        stopped_on=stopped_on if stopped else None,
    )


def states(
    *callers: CallerUsage, own: DeprecationPolicy | None = POLICY
) -> list[tuple[str | None, str, int, str]]:
    groups = group_callers(operation_usage("report", callers, {}), own, NOW)
    return [
        (each.caller, each.clients, sum(each.counts), each.state) for each in groups
    ]


def test_what_remains_to_be_done_comes_first() -> None:
    assert states(
        calls("monitor", "m/1", 1, number=90, ignored=True),
        calls("gone", "g/1", 13, 12, stopped=True),
        calls("acme", "a/1", 3, 1, number=50),
        calls(None, "curl/8", 1, number=40),
        calls("small", "s/1", 1),
        calls("small", "check/1", 1, ignored=True),
        calls("large", "l/1", 1, number=9),
    ) == [
        ("large", "l/1", 9, "still calling"),
        ("small", "s/1", 1, "still calling"),
        (None, "curl/8", 40, "still calling"),
        ("acme", "a/1", 100, "exempt until 1 September 2027"),
        (
            "gone",
            "g/1",
            2,
            "stopped since 10 November 2026, after the brownout of 10 November 2026",
        ),
        ("monitor", "m/1", 90, "ignored"),
        ("small", "check/1", 1, "ignored"),
    ]


def test_the_clients_of_a_label_are_together_and_so_are_the_sources_of_a_client() -> (
    None
):
    header = replace(calls(None, "curl/8", 1), source="header")
    many = [calls("many", f"job/{number}", 1, number=9 - number) for number in range(4)]
    assert states(
        *many,
        calls(None, "curl/8", 1),
        header,
        calls(None, None, 1),
        calls("none", None, 1),
    ) == [
        ("many", "job/0, job/1 and 2 more", 30, "still calling"),
        ("none", "", 1, "still calling"),
        (None, "curl/8", 2, "still calling"),
        (None, "", 1, "still calling"),
    ]
    (group,) = group_callers(
        operation_usage("report", [calls(None, "curl/8", 1), header], {}), None, NOW
    )
    assert (group.clients, group.sources) == ("curl/8", "header, query")


STATES = {
    16: "stopped since 6 November 2026, after the brownout of 3 November 2026",
    9: "stopped since 13 November 2026, after the brownout of 10 November 2026",
    3: "stopped since 19 November 2026",  # no brownout in the week before
}


@pytest.mark.parametrize(("ago", "state"), STATES.items())
def test_a_caller_stops_after_a_brownout_of_the_week_before(
    ago: int, state: str
) -> None:
    assert states(calls("team", None, ago, stopped=True))[0][3] == state


def test_an_exemption_counts_while_it_lasts_and_its_caller_calls() -> None:
    assert states(calls("former", None, 1))[0][3] == "still calling"
    stopped = calls("acme", None, 15, 14, stopped=True)
    assert states(stopped)[0][3].startswith("stopped since")
    assert states(stopped, own=None)[0][3] == "stopped since 8 November 2026"
    assert states(calls("acme", None, 1), own=None)[0][3] == "still calling"


def test_the_largest_are_those_with_the_most_calls_that_are_not_ignored() -> None:
    rows = [
        calls("monitor", None, 1, number=90, ignored=True),
        calls("acme", None, 1, number=50),
        calls("small", None, 1),
        calls("large", None, 1, number=9),
    ]
    groups = group_callers(operation_usage("report", rows, {}), POLICY, NOW)
    assert [each.caller for each in list_largest(groups, 2)] == ["large", "acme"]
    assert [each.caller for each in list_largest(groups, 9)] == [
        "large",
        "small",
        "acme",
        "monitor",
    ]


def test_the_work_in_a_few_words() -> None:
    for names, words in (
        ([], ""),
        (["a"], "1 still calling"),
        (["a", "b", "acme"], "2 still calling, 1 exempt"),
    ):
        usage = operation_usage("report", [calls(name, None, 1) for name in names], {})
        assert summarise(group_callers(usage, POLICY, NOW)) == words
