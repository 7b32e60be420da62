"""The axes, labels, durations and dates of the pages."""

from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from flask_notifications.formats.axis import Axis, pad
from flask_notifications.wording import count, duration, moment, period, relative
from tests.pages.reports import DAY, NOW, utc


@pytest.mark.parametrize(
    ("until", "labels"),
    [
        (utc(2026, 11, 22), ["20 Nov 2026", "21 Nov 2026"]),
        (
            utc(2026, 12, 20),
            ["20 Nov 2026", "27 Nov 2026", "5 Dec 2026", "12 Dec 2026"],
        ),
        (utc(2027, 3, 20), ["1 Dec 2026", "1 Jan 2027", "1 Feb 2027"]),
        (utc(2027, 11, 20), ["1 Dec 2026", "1 Mar 2027", "1 Jun 2027"]),
        (utc(9999, 12, 31), ["1 Dec 2026", "1 Apr 4020", "1 Aug 6013", "1 Dec 8006"]),
    ],
    ids=["two days", "a month", "a quarter", "a year", "all of time"],
)
def test_the_labels_of_an_axis_are_at_the_starts_of_months(
    until: datetime, labels: list[str]
) -> None:
    ticks = Axis(utc(2026, 11, 20), until).ticks()
    assert [label for _place, label in ticks] == labels
    places = [place for place, _label in ticks] + [100]
    assert min(right - left for left, right in pairwise(places)) > 23


def test_a_date_outside_of_an_axis_is_placed_at_its_end() -> None:
    axis = pad(utc(2026, 1, 1), utc(2026, 1, 1))
    for year, place in ((1970, 0), (2026, 50), (2030, 100)):
        assert axis.place(utc(year, 1, 1)) == place


DURATIONS = {
    timedelta(): "1 second",
    timedelta(seconds=90): "90 seconds",
    timedelta(minutes=15): "15 minutes",
    timedelta(minutes=105): "105 minutes",
    timedelta(hours=2): "2 hours",
    timedelta(days=1): "24 hours",
    timedelta(days=2): "2 days",
    timedelta(days=60): "60 days",
    timedelta(days=90): "3 months",
    timedelta(days=1000): "3 years",
}


def test_a_duration_has_one_unit() -> None:
    for length, words in DURATIONS.items():
        assert duration(length) == words


def test_dates_are_in_english_and_utc() -> None:
    assert moment(utc(2027, 7, 1, 9, 5, 7)) == "1 Jul 2027, 09:05:07 UTC"
    days = "1 Jul 2027, 09:00 to 2 Jul 2027, 09:00 UTC"
    assert period(utc(2027, 7, 1, 9), utc(2027, 7, 2, 9)) == days


def test_a_date_is_relative_to_now() -> None:
    assert relative(NOW + DAY, NOW) == "in 24 hours"
    assert relative(NOW - 3 * DAY, NOW) == "3 days ago"
    assert relative(NOW, NOW) == "now"


def test_numbers_have_separators_and_plurals() -> None:
    assert count(1, "call") == "1 call"
    assert count(2000, "call") == "2,000 calls"
