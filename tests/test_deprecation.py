"""Policies, their phases, and the responses that announce them."""

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import permutations, product
from time import thread_time
from typing import Any
from unittest.mock import Mock
from zoneinfo import ZoneInfo

import http_sf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_notifications import Brownout, Call, DeprecationPolicy, Operation
from flask_notifications.dates import parse_sunset
from flask_notifications.headers import HeaderList
from flask_notifications.pages import render_guide
from flask_notifications.plans import next_event
from flask_notifications.plans.announcement import DeprecationHeaders
from tests.middleware import (
    ANNOUNCED,
    DEPRECATED_AT,
    LINKS,
    NOW,
    PATH,
    SUNSET_AT,
    Spy,
    response_of,
    wrap,
)
from tests.storages import raising
from tests.wsgi import call, environ_of, plain_app, run

HOUR = timedelta(hours=1)
TICK = timedelta(microseconds=1)
JANUARY = datetime(2026, 1, 1, tzinfo=UTC)
JULY = datetime(2027, 7, 1, tzinfo=UTC)
KATHMANDU = timezone(timedelta(hours=5, minutes=45))
NEW_YORK = timezone(timedelta(hours=-5))


def render(deprecated_at: datetime = JANUARY, **values: Any) -> HeaderList:
    return DeprecationHeaders(
        DeprecationPolicy(deprecated_at=deprecated_at, **values)
    ).render(None, "")


@pytest.mark.parametrize(
    ("at", "deprecation", "sunset"),
    [
        pytest.param(
            "2023-06-30T23:59:59.9Z",
            "@1688169599",
            "Fri, 30 Jun 2023 23:59:59 GMT",
            id="RFC 9745",
        ),
        pytest.param(
            "1970-01-01T05:45:00+05:45",
            "@0",
            "Thu, 01 Jan 1970 00:00:00 GMT",
            id="the first",
        ),
        pytest.param(
            "9999-12-31T23:59:59.999999Z",
            "@253402300799",
            "Fri, 31 Dec 9999 23:59:59 GMT",
            id="the last",
        ),
    ],
)
def test_dates_are_announced_in_whole_seconds(
    at: str, deprecation: str, sunset: str
) -> None:
    date = datetime.fromisoformat(at)
    assert render(date, sunset_at=date) == [
        ("Deprecation", deprecation),
        ("Sunset", sunset),
    ]


class OtherDatetime(datetime):
    """The result of a subtraction cannot be divided, as with pendulum."""

    def __sub__(self, other: Any) -> Any:
        return str(super().__sub__(other))


def test_a_date_of_another_package_becomes_a_plain_one() -> None:
    date = OtherDatetime.combine(JANUARY.date(), JANUARY.time(), UTC)
    assert render(date, brownouts=[Brownout(date, JULY)]) == render(JANUARY)
    plan = {Operation("a", "GET", "/a"): DeprecationPolicy(deprecated_at=JANUARY)}
    assert render_guide(plan, at=date) == render_guide(plan, at=JANUARY)


OFFSETS = st.integers(-1439, 1439).map(
    lambda minutes: timezone(timedelta(minutes=minutes))
)
DATES = st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30), timezones=OFFSETS)  # noqa: DTZ001 - bounds


@given(DATES, DATES)
def test_the_announced_dates_are_read_back(first: datetime, second: datetime) -> None:
    deprecated_at, sunset_at = sorted([first, second])
    (_, deprecation), (_, sunset) = render(deprecated_at, sunset_at=sunset_at)
    item = http_sf.parse(deprecation.encode("ascii"), tltype="item")
    assert item == (deprecated_at.astimezone(UTC).replace(microsecond=0), {})
    assert parse_sunset(sunset) == sunset_at.replace(microsecond=0)


NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - the mistake that is tested
NO_DATES = [
    *(NAIVE, "2026-01-01T00:00:00Z", 1767225600),
    datetime(1970, 1, 1, tzinfo=KATHMANDU),  # before 1970 in UTC
    datetime(9999, 12, 31, 20, 0, tzinfo=NEW_YORK),  # after 9999 in UTC
]


@pytest.mark.parametrize(
    ("deprecated_at", "sunset_at"),
    [
        (JULY, JULY - TICK),
        (JULY.replace(tzinfo=NEW_YORK), JULY.replace(tzinfo=KATHMANDU)),
    ],
    ids=["a microsecond, across seconds", "by their time zones"],
)
def test_a_sunset_before_the_deprecation_is_refused(
    deprecated_at: datetime, sunset_at: datetime
) -> None:
    with pytest.raises(ValueError, match=r"^sunset_at\b"):
        DeprecationPolicy(deprecated_at=deprecated_at, sunset_at=sunset_at)


NO_URIS = [
    *("", "/a b", "/a\r\nX: y", "/<a", "/\\", "/\xe9", 1, b"/a"),
    *("/100%", "/?a=%", "//", "https:///a", "http://:80/", "//user@/a", "https:/a"),
    *(
        "http://[::1",
        "//[x]/",
        "https://me:secret@x.example/",
        "//m@e:secret@x.example",
    ),
    "https://me:se cret@x@x.example",
]
WINDOWS = [
    Brownout(JANUARY + hours * HOUR, JANUARY + (hours + 2) * HOUR)
    for hours in (0, 2, 10)
]
NO_WINDOWS = [None, WINDOWS[0], "soon", [(JANUARY, JULY)], iter(WINDOWS)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *product(["deprecated_at", "sunset_at"], NO_DATES),
        *product(["documentation", "sunset_documentation"], NO_URIS),
        *product(["brownouts"], NO_WINDOWS),
        *product(["enforce_sunset"], [None, "yes"]),
        *product(["exemptions"], ["acme", [("acme", JULY, "why")]]),
    ],
)
def test_a_value_of_another_kind_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{name}\b") as caught:
        DeprecationPolicy(**{"deprecated_at": JANUARY, "sunset_at": JULY, name: value})
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize("value", NO_DATES)
def test_a_date_of_a_brownout_is_refused_by_name(value: Any) -> None:
    for name in ("start", "end"):
        with pytest.raises(ValueError, match=rf"^{name} must"):
            Brownout(**{"start": JANUARY, "end": JULY, name: value})


PAGES = ["/v1.2/a", "/v1.2/", "/a.html", "https://x.example", "/a?b=c.pdf#d.e", "a:b"]
FILES = ["/a.pdf", "https://x.example/a.md", "/v1.2", "mailto:me@x.example"]


@pytest.mark.parametrize(
    ("uri", "is_page"), [*product(PAGES, [True]), *product(FILES, [False])]
)
def test_only_what_may_be_a_page_has_the_type_of_html(uri: str, is_page: bool) -> None:
    media_type = '; type="text/html"' * is_page
    link = f'<{uri}>; rel="deprecation"{media_type}, <{uri}>; rel="sunset"{media_type}'
    links = [("Link", link)]
    assert render(documentation=uri, sunset_documentation=uri)[1:] == links


@pytest.mark.parametrize(
    "intruder",
    [
        Brownout(JANUARY + HOUR, JANUARY + 2 * HOUR),
        Brownout(JANUARY - HOUR, JANUARY + TICK),
        WINDOWS[2],
    ],
    ids=["inside", "by a microsecond", "the same twice"],
)
def test_overlapping_brownouts_are_refused_in_any_order(intruder: Brownout) -> None:
    for order in permutations([*WINDOWS, intruder]):
        with pytest.raises(ValueError, match=r"^brownouts\b"):
            DeprecationPolicy(deprecated_at=JANUARY, brownouts=order)


WEEK = 168 * HOUR
# Each is refused by the argument that its message begins with.
NO_REPETITIONS = {
    "every": [
        {"every": HOUR * 1.5},
        {"every": timedelta(0)},
        {"every": HOUR, "end": JANUARY + 2 * HOUR},
    ],
    "until": [
        {"until": JULY},
        {"every": WEEK, "until": JANUARY - TICK},
        {"every": WEEK, "until": NAIVE},
    ],
}


@pytest.mark.parametrize(
    ("name", "values"),
    [(name, values) for name, cases in NO_REPETITIONS.items() for values in cases],
)
def test_a_brownout_that_cannot_repeat_is_refused_by_name(
    name: str, values: Any
) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must"):
        Brownout(**{"start": JANUARY, "end": JANUARY + HOUR, **values})


YEAR_9999 = datetime(9999, 12, 31, tzinfo=UTC)
# A window an hour after that of the test.
LATER: Any = {"start": JANUARY + 1.5 * HOUR, "end": JANUARY + 2 * HOUR}


@pytest.mark.parametrize(
    ("expected", "brownouts", "sunset_at"),
    [
        ("windows that repeat until a time", [{"every": WEEK}], None),
        ("at most 10,000 windows", [{"every": 2 * HOUR}] * 2, JULY),
        (
            "over before the year 10000",
            [{"start": YEAR_9999, "end": YEAR_9999 + HOUR * 20, "every": 20 * HOUR}],
            YEAR_9999 + 23 * HOUR,
        ),
        (
            "windows that do not overlap",
            [{"every": 7 * HOUR}, LATER | {"every": 24 * HOUR}],
            JULY,
        ),
        ("windows that do not overlap", [{}, {"every": HOUR}], JANUARY + HOUR),
    ],
)
def test_windows_that_a_policy_cannot_have_are_refused(
    expected: str, brownouts: Any, sunset_at: datetime | None
) -> None:
    window = {"start": JANUARY + HOUR / 2, "end": JANUARY + HOUR}
    repeated = [Brownout(**{**window, **values}) for values in brownouts]
    with pytest.raises(ValueError, match=f"^brownouts must be .*{expected}"):
        DeprecationPolicy(
            deprecated_at=JANUARY, sunset_at=sunset_at, brownouts=repeated
        )


def list_naively(policy: DeprecationPolicy) -> list[tuple[datetime, datetime]]:
    windows = []
    for brownout in policy.brownouts:
        start, end = brownout.start, brownout.end
        until = brownout.until or policy.sunset_at or YEAR_9999
        while start < until:
            windows.append((start, end))
            if brownout.every is None:
                break
            start, end = start + brownout.every, end + brownout.every
    return windows


def find_phase_naively(policy: DeprecationPolicy, at: datetime) -> str:
    if policy.enforce_sunset and at >= (policy.sunset_at or at):
        return "sunset"
    for start, end in list_naively(policy):
        if start <= at < end:
            return "brownout"
    return "deprecated" if at >= policy.deprecated_at else "announced"


def find_next_naively(policy: DeprecationPolicy, at: datetime) -> datetime | None:
    times = {policy.deprecated_at, policy.sunset_at or policy.deprecated_at}
    times.update(*list_naively(policy))
    for time in sorted(times):
        if time > at and find_phase_naively(policy, time) != find_phase_naively(
            policy, at
        ):
            return time
    return None


@given(st.data())
def test_windows_that_repeat_are_those_that_are_written_out(
    data: st.DataObject,
) -> None:
    draw = data.draw
    brownouts = []
    # Each has an hour of the day of its own.
    for hour in draw(st.sets(st.integers(0, 23), min_size=1, max_size=4)):
        start = JANUARY + hour * HOUR
        end = start + draw(st.sampled_from([HOUR, HOUR / 4]))
        days = draw(st.integers(1, 3))
        until = start + draw(st.integers(0, 9)) * HOUR * 24
        repeats: Any = {"every": days * 24 * HOUR, "until": until}
        brownouts.append(Brownout(start, end, **draw(st.sampled_from([{}, repeats]))))
    hours = st.integers(0, 300).map(lambda hours: JANUARY + hours * HOUR)
    policy = DeprecationPolicy(
        deprecated_at=JANUARY + draw(st.integers(-1, 30)) * HOUR,
        sunset_at=JANUARY + draw(st.integers(30, 200)) * HOUR,
        brownouts=brownouts,
        enforce_sunset=draw(st.booleans()),
    )
    at = draw(hours) + draw(st.sampled_from([-TICK, timedelta(0), HOUR / 4]))
    event = next_event(policy, at)
    assert policy.phase(at) == find_phase_naively(policy, at)
    assert (event and event.start) == find_next_naively(policy, at)


def test_ten_thousand_windows_are_those_that_are_written_out() -> None:
    start = JANUARY + HOUR / 3
    last = start + 9_999 * HOUR
    hourly = Brownout(start, start + HOUR / 2, every=HOUR, until=last + TICK)
    policy = DeprecationPolicy(deprecated_at=JANUARY, brownouts=[hourly])
    windows = list_naively(policy)
    assert (len(windows), windows[-1]) == (10_000, (last, last + HOUR / 2))
    assert policy.phase(last) == "brownout"
    assert policy.phase(last + HOUR / 2) == "deprecated"
    assert next_event(policy, last + HOUR) is None


def test_a_phase_is_found_as_fast_among_many_windows_as_in_one() -> None:
    """A hundred times as many windows may take five times as long."""

    def find_phases(number: int) -> float:
        until = JANUARY + number * HOUR
        brownout = Brownout(JANUARY, JANUARY + HOUR / 2, every=HOUR, until=until)
        policy = DeprecationPolicy(deprecated_at=JANUARY, brownouts=[brownout])
        times = []
        for _round in range(5):
            started = thread_time()
            for _number in range(1_000):
                policy.phase(until)
            times.append(thread_time() - started)
        return min(times)

    assert find_phases(10_000) < 5 * find_phases(100)


def test_brownouts_in_an_hour_that_occurs_twice_are_compared_in_utc() -> None:
    """The clock says 02:45, and half an hour later 02:15."""
    berlin = ZoneInfo("Europe/Berlin")
    first = datetime(2026, 10, 25, 2, 45, tzinfo=berlin)
    last = datetime(2026, 10, 25, 2, 15, tzinfo=berlin, fold=1)
    earlier = Brownout(first, last)
    later = Brownout(last, last.astimezone(UTC) + HOUR)
    policy = DeprecationPolicy(deprecated_at=JANUARY, brownouts=[later, earlier])
    assert policy.brownouts == (earlier, later)
    assert policy.phase(first.astimezone(UTC)) == "brownout"
    with pytest.raises(ValueError, match=r"^end\b"):
        Brownout(last, first)
    with pytest.raises(ValueError, match=r"^brownouts\b"):
        DeprecationPolicy(
            deprecated_at=JANUARY, brownouts=[Brownout(first - HOUR, last), earlier]
        )


def test_a_policy_cannot_be_changed() -> None:
    windows = list(WINDOWS)
    policy = DeprecationPolicy(deprecated_at=JANUARY, brownouts=windows)
    windows.clear()
    assert policy.brownouts == tuple(WINDOWS)
    for value, name in ((policy, "deprecated_at"), (WINDOWS[0], "start")):
        with pytest.raises(AttributeError):
            setattr(value, name, JULY)


def test_a_brownout_overrides_the_deprecation_and_a_sunset_overrides_both() -> None:
    early = Brownout(JANUARY - HOUR, JANUARY + HOUR)
    late = Brownout(JULY - HOUR, JULY + HOUR)
    kept = DeprecationPolicy(
        deprecated_at=JANUARY, sunset_at=JULY, brownouts=[early, late]
    )
    enforced = replace(kept, enforce_sunset=True)
    assert enforced.phase(JANUARY - TICK) == kept.phase(JANUARY - TICK) == "brownout"
    assert (enforced.phase(JULY), kept.phase(JULY)) == ("sunset", "brownout")


WINDOW = Brownout(datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 6, 1, 1, tzinfo=UTC))
# It starts after the sunset, so it never takes effect.
LATE = Brownout(SUNSET_AT + timedelta(days=1), SUNSET_AT + timedelta(days=2))
POLICY_WITH_PHASES = DeprecationPolicy(
    deprecated_at=DEPRECATED_AT,
    sunset_at=SUNSET_AT,
    brownouts=[WINDOW, LATE],
    enforce_sunset=True,
    documentation="/docs",
)
PHASES = [
    (DEPRECATED_AT - TICK, "announced", None),
    (DEPRECATED_AT, "deprecated", None),
    (WINDOW.start, "brownout", "3600"),
    (WINDOW.start + timedelta(seconds=1), "brownout", "3599"),
    (WINDOW.end - timedelta(seconds=1.5), "brownout", "2"),
    (WINDOW.end, "deprecated", None),
    (SUNSET_AT - TICK, "deprecated", None),
    (SUNSET_AT, "sunset", None),
    (LATE.start, "sunset", None),
]


@pytest.mark.parametrize(("now", "phase", "retry_after"), PHASES)
@pytest.mark.parametrize("zone", [NEW_YORK, None], ids=["west", "naive, in local time"])
def test_the_clock_decides_the_phase(
    now: datetime, phase: str, retry_after: str | None, zone: Any
) -> None:
    calls: list[Call] = []
    spy, shown = Spy(), now.astimezone(zone).replace(tzinfo=zone)
    app = wrap(spy, POLICY_WITH_PHASES, clock=lambda: shown, observers=[calls.append])
    is_closed = phase in {"brownout", "sunset"}
    # A response to a closed operation does not depend on the session.
    response = call(app, "GET", PATH, "sessionId=a&sessionId=b" * is_closed)
    assert (calls[0].phase, calls[0].status) == (phase, response.code)
    assert (calls[0].at, calls[0].at.tzinfo) == (now, UTC)
    if not is_closed:
        assert (response.status, len(spy.calls)) == ("200 OK", 1)
        return
    assert (response.status, spy.calls) == ("410 Gone", [])
    assert response.all("Retry-After") == [retry_after] * (retry_after is not None)
    assert response.one("Cache-Control") == "no-store"
    assert response.one("Content-Length") == str(len(response.body))
    assert response.one("Content-Type") == "application/problem+json"
    assert response.one("Vary") == "Authorization"
    body = response.json
    assert body.pop("detail").endswith(".")
    dates = {
        "brownout": {"brownout_ends": "2026-06-01T01:00:00Z"},
        "sunset": {"sunset": "2027-01-01T00:00:00Z"},
    }
    assert body == dates[phase] | {
        "type": "about:blank",
        "title": "Gone",
        "status": 410,
        "code": phase,
        "successor": "/API/Notification/CurrentUser",
        "documentation": "/docs",
    }


def test_the_clock_is_called_once_per_matched_request() -> None:
    clock = Mock(return_value=NOW)
    app = wrap(clock=clock)
    assert [call(app, "GET", path).code for path in (PATH, "/other", PATH)] == [200] * 3
    assert clock.call_count == 2


@pytest.mark.parametrize(
    "clock",
    [
        raising(OSError("no clock")),
        lambda: 1767225600,
        lambda: datetime.min.replace(tzinfo=KATHMANDU),
    ],
    ids=["raises", "returns seconds", "is out of range in UTC"],
)
def test_a_clock_that_fails_is_logged_and_the_system_time_applies(
    clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[Call] = []
    before = datetime.now(UTC)
    assert call(wrap(clock=clock, observers=[calls.append]), "GET", PATH).code == 200
    assert before <= calls[0].at <= datetime.now(UTC)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith(f"clock {clock!r} failed: Traceback")


@pytest.mark.parametrize(
    "status",
    ["200 OK", "304 Not Modified", "404 Not Found", "599 X"],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_response_of_any_status_announces_the_same_headers(
    status: str, method: str
) -> None:
    headers = [
        ("Set-Cookie", "a=1"),
        ("Link", '</a>; rel="next", </b>; rel="deprecation"'),
        ("Set-Cookie", "b=2"),
    ]
    last_link = ("link", "<c>;rel=sunset")
    app = plain_app(status, [*headers, last_link], b"")
    response = run(wrap(app), environ_of(method, PATH))
    assert response.status == status
    assert response.headers == [
        ("Content-Type", "text/plain"),
        *headers,
        ("link", f"<c>;rel=sunset, {LINKS}"),
        ("Vary", "Authorization"),
        *ANNOUNCED[:-1],
    ]


def test_links_that_are_there_already_are_not_repeated_in_another_case() -> None:
    # ASGI servers between two middlewares send lower case.
    headers = [(name.lower(), value) for name, value in ANNOUNCED]
    response = response_of(headers=headers)
    assert response.headers[-3:] == ANNOUNCED
    assert len(response.all("Link")) == 1


OTHER_TARGET = '<https://example.com/retire>; rel="deprecation"; x=1'


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], [LINKS]),
        (["<a>", "<b>"], ["<a>", f"<b>, {LINKS}"]),
        ([f"<a>, {LINKS}"], [f"<a>, {LINKS}"]),
        ([LINKS, "<a>"], [f"<a>, {LINKS}"]),
        ([OTHER_TARGET], [f"{OTHER_TARGET}, {LINKS}"]),
    ],
    ids=["none", "two", "ours are there", "ours, and another", "one that begins like"],
)
def test_our_links_are_one_value_after_those_of_the_application(
    values: list[str], expected: list[str]
) -> None:
    headers = [("Link", value) for value in values]
    assert response_of(headers=headers).all("Link") == expected


TARGETS = [
    # SCRIPT_NAME, base_url, target, target in the Link
    ("", "https://api.example/", "/new", "https://api.example/new"),
    ("/erp", None, "/new", "/erp/new"),
    ("erp", None, "/new", "/erp/new"),
    ("/", None, "/new", "/new"),
    ("//host", None, "/new", "/host/new"),
    ('/\xc3\xa9 <>"\\\r\n;,', None, "/new", "/%C3%A9%20%3C%3E%22%5C%0D%0A%3B%2C/new"),
    ("/erp", None, "//host/new", "//host/new"),
    ("/erp", None, "https://host/new", "https://host/new"),
    ("/erp", None, "new", "new"),
    (
        "/erp",
        "https://api.example:8443/root",
        "/new",
        "https://api.example:8443/root/erp/new",
    ),
]


@pytest.mark.parametrize(("mount", "base_url", "target", "resolved"), TARGETS)
def test_one_slash_means_below_the_mount_point(
    mount: str, base_url: str | None, target: str, resolved: str
) -> None:
    policy = DeprecationPolicy(
        deprecated_at=DEPRECATED_AT, documentation=target, sunset_documentation=target
    )
    operations = [Operation("x", "GET", PATH, successor=target)]
    app = wrap(None, policy, operations=operations, base_url=base_url)
    response = run(app, environ_of(path=PATH, SCRIPT_NAME=mount))
    assert response.one("Link") == (
        f'<{resolved}>; rel="successor-version", '
        f'<{resolved}>; rel="deprecation"; type="text/html", '
        f'<{resolved}>; rel="sunset"; type="text/html"'
    )


EXPOSE = "Access-Control-Expose-Headers"


@pytest.mark.parametrize(
    ("values", "exposed"),
    [
        ([], ["Deprecation, Sunset, Link"]),
        (["ETag, X-Own", "link"], ["ETag, X-Own, link, Deprecation, Sunset"]),
        (["DEPRECATION,Sunset , Link"], ["DEPRECATION, Sunset, Link"]),
        (["*"], ["*, Deprecation, Sunset, Link"]),
    ],
)
def test_a_page_that_may_read_the_response_may_read_the_announcement(
    values: list[str], exposed: list[str]
) -> None:
    headers = [("access-control-allow-origin", "https://page.example")]
    for value in values:
        headers.append((EXPOSE, value))
    assert response_of(headers=headers).all(EXPOSE) == exposed


def test_no_cors_header_is_added_to_a_response_that_allows_no_origin() -> None:
    assert not response_of().all(EXPOSE)
    assert response_of(headers=[(EXPOSE, "ETag")]).all(EXPOSE) == ["ETag"]
