"""Callers as a list of work: grouped by label, those that still call first."""

from dataclasses import replace

import pytest

from flask_notifications import DeprecationPolicy, Exemption
from flask_notifications.formats.callers import (
    CallerGroup,
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
    *days_ago: int,
    number: int = 1,
    ignored: bool = False,
    stopped: bool = False,
) -> CallerUsage:
    days = []
    for ago in days_ago:
        days.append(DayUsage(NOW.date() - ago * DAY, number, 0, 0, 0))
    stopped_on = days[-1].day if stopped else None
    return caller(name, client, days, ignored=ignored, stopped_on=stopped_on)


def groups_of(
    *callers: CallerUsage, planned: DeprecationPolicy | None = POLICY
) -> list[CallerGroup]:
    return group_callers(operation_usage("report", callers, {}), planned, NOW)


def state_of(row: CallerUsage, planned: DeprecationPolicy | None = POLICY) -> str:
    (group,) = groups_of(row, planned=planned)
    return group.state


def test_what_remains_to_be_done_comes_first() -> None:
    groups = groups_of(
        calls("monitor", "m/1", 1, number=90, ignored=True),
        calls("gone", "g/1", 13, 12, stopped=True),
        calls("acme", "a/1", 3, 1, number=50),
        calls(None, "curl/8", 1, number=40),
        calls("small", "s/1", 1),
        calls("small", "check/1", 1, ignored=True),
        calls("large", "l/1", 1, number=9),
    )
    stopped = "stopped since 10 November 2026, after the brownout of 10 November 2026"
    assert [(group.clients, group.calls, group.state) for group in groups] == [
        ("l/1", 9, "still calling"),
        ("s/1", 1, "still calling"),
        ("curl/8", 40, "still calling"),
        ("a/1", 100, "exempt until 1 September 2027"),
        ("g/1", 2, stopped),
        ("m/1", 90, "ignored"),
        ("check/1", 1, "ignored"),
    ]


def test_the_clients_of_a_label_are_together_and_so_are_the_sources_of_a_client() -> (
    None
):
    labelled = [calls("many", f"job/{number}", 1) for number in range(4)]
    client = calls(None, "curl/8", 1)
    many, curl, unknown = groups_of(
        *labelled, client, replace(client, source="header"), calls(None, None, 1)
    )
    assert (many.clients, many.calls) == ("job/0, job/1 and 2 more", 4)
    assert (curl.clients, curl.sources) == ("curl/8", "header, query")
    assert (unknown.clients, unknown.calls) == ("", 1)


STATES = {
    16: "stopped since 6 November 2026, after the brownout of 3 November 2026",
    9: "stopped since 13 November 2026, after the brownout of 10 November 2026",
    3: "stopped since 19 November 2026",  # no brownout in the week before
}


@pytest.mark.parametrize(("ago", "state"), STATES.items())
def test_a_caller_stops_after_a_brownout_of_the_week_before(
    ago: int, state: str
) -> None:
    assert state_of(calls("team", None, ago, stopped=True)) == state


def test_an_exemption_counts_while_it_lasts_and_its_caller_calls() -> None:
    assert state_of(calls("former", None, 1)) == "still calling"
    stopped = calls("acme", None, 15, 14, stopped=True)
    assert state_of(stopped).startswith("stopped since")
    assert state_of(stopped, None) == "stopped since 8 November 2026"
    assert state_of(calls("acme", None, 1), None) == "still calling"


def test_the_largest_are_those_with_the_most_calls_that_are_not_ignored() -> None:
    groups = groups_of(
        calls("monitor", None, 1, number=90, ignored=True),
        calls("acme", None, 1, number=50),
        calls("small", None, 1),
        calls("large", None, 1, number=9),
    )
    assert [group.caller for group in list_largest(groups, 2)] == ["large", "acme"]
    assert list_largest(groups, 9) == groups


def test_the_work_in_a_few_words() -> None:
    rows = [calls(name, None, 1) for name in ("a", "b", "acme")]
    assert summarise(groups_of(*rows)) == "2 still calling, 1 exempt"
    assert summarise([]) == ""
