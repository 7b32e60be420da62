"""The axes, labels, durations and dates of the pages."""

from datetime import datetime, timedelta

import pytest

from flask_notifications.formats.axis import Axis, arrange_labels, pad
from flask_notifications.wording import count, duration, moment, period, relative
from tests.pages.reports import DAY, NOW, utc


@pytest.mark.parametrize(
    ("since", "until", "labels"),
    [
        (utc(2026, 11, 20), utc(2026, 11, 22), ["20 Nov", "21 Nov"]),
        (utc(2026, 10, 23, 9), utc(2026, 11, 23), ["24 Oct", "31 Oct", "7 Nov", "14 Nov"]),
        (utc(2026, 5, 24), utc(2026, 11, 22), ["Jun 2026", "Aug 2026", "Oct 2026"]),
        (utc(2025, 11, 1), utc(2026, 12, 1), ["Nov 2025", "Feb 2026", "May 2026", "Aug 2026"]),
        (utc(2024, 3, 1), utc(2030, 3, 1), ["2025", "2027", "2029"]),
        (utc(1970, 1, 1), utc(9999, 12, 31), ["1970", "3576", "5182", "6788", "8394"]),
    ],
    ids=["two days", "a month", "half a year", "a year", "years", "all of time"],
)
def test_an_axis_has_a_few_labels_at_equal_intervals(since: datetime, until: datetime, labels: list[str]) -> None:
    ticks = Axis(since, until).ticks()
    assert [tick.label for tick in ticks] == labels


def test_every_length_of_time_has_labels() -> None:
    for days in range(1, 4000, 7):
        ticks = Axis(utc(2026, 1, 31), utc(2026, 1, 31) + days * DAY).ticks()
        assert [tick.place for tick in ticks] == sorted({tick.place for tick in ticks})
        assert all(0 <= tick.place <= 86 for tick in ticks)


def test_a_date_outside_of_an_axis_is_placed_at_its_end() -> None:
    axis = pad(utc(2026, 1, 1), utc(2026, 1, 1))
    assert (axis.place(utc(1970, 1, 1)), axis.place(utc(2026, 1, 1)), axis.place(utc(2030, 1, 1))) == (0, 50, 100)


def test_labels_that_would_overlap_are_in_different_rows() -> None:
    labels = arrange_labels([("sunset 1 Jul 2027", "sunset", 97), ("today", "now", 95), ("B1", "brownout", 10)])
    assert [(label.name, label.anchor, label.row) for label in labels] == [
        ("B1", "start", 0),
        ("today", "end", 0),
        ("sunset 1 Jul 2027", "end", 1),
    ]


DURATIONS = {0: "1 second", 90: "90 seconds", 900: "15 minutes", 6300: "105 minutes", 7200: "2 hours"}
DAYS = {1: "24 hours", 2: "2 days", 60: "60 days", 90: "3 months", 1000: "3 years"}


def test_a_duration_has_one_unit() -> None:
    assert {seconds: duration(timedelta(seconds=seconds)) for seconds in DURATIONS} == DURATIONS
    assert {days: duration(days * DAY) for days in DAYS} == DAYS


def test_dates_are_in_english_and_utc() -> None:
    assert moment(utc(2027, 7, 1, 9, 5, 7)) == "1 Jul 2027, 09:05:07 UTC"
    assert period(utc(2027, 7, 1, 9), utc(2027, 7, 2, 9)) == "1 Jul 2027, 09:00 to 2 Jul 2027, 09:00 UTC"
    assert (relative(NOW + DAY, NOW), relative(NOW - 3 * DAY, NOW)) == ("in 24 hours", "3 days ago")
    assert (relative(NOW, NOW), relative(NOW + DAY / 86_400, NOW)) == ("now", "in 1 second")
    assert (count(1, "call"), count(2000, "call")) == ("1 call", "2,000 calls")
