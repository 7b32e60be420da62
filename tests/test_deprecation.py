"""Policies: the headers that they announce, the arguments that they refuse, and their phases."""

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from itertools import permutations
from typing import Any

import http_sf
import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.http import http_date

from flask_notifications import Brownout, DeprecationMiddleware, DeprecationPolicy, Operation, Use, load_policy
from flask_notifications.deprecation import DeprecationHeaders
from flask_notifications.headers import HeaderList
from tests.wsgi import Response, call, plain_app

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
TICK = timedelta(microseconds=1)
JANUARY = datetime(2026, 1, 1, tzinfo=UTC)
JULY = datetime(2027, 7, 1, tzinfo=UTC)
KATHMANDU = timezone(timedelta(hours=5, minutes=45))
NEW_YORK = timezone(timedelta(hours=-5))

# RFC 9110 section 5.6.7: IMF-fixdate, and none of the obsolete forms.
IMF_FIXDATE = re.compile(
    r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-9]{2} (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [0-9]{4} "
    r"[0-9]{2}:[0-9]{2}:[0-9]{2} GMT"
)


def announced_headers(deprecated_at: datetime, sunset_at: datetime | None = None) -> dict[str, str]:
    """Return the headers that a policy with these dates announces."""
    return dict(render(DeprecationPolicy(deprecated_at=deprecated_at, sunset_at=sunset_at)))


def render(policy: DeprecationPolicy, successor: str | None = None, mount: str = "", base_url: str = "") -> HeaderList:
    """Return the headers that a policy announces for an operation."""
    return DeprecationHeaders(policy, base_url=base_url).render(successor, mount)


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        pytest.param(datetime(2023, 6, 30, 23, 59, 59, tzinfo=UTC), "@1688169599", id="the example of RFC 9745"),
        pytest.param(datetime(2026, 7, 1, 0, 0, 0, 900_000, tzinfo=UTC), "@1782864000", id="cut to whole seconds"),
        pytest.param(datetime(2023, 10, 12, 10, 0, tzinfo=UTC), "@1697104800", id="a time of day"),
        pytest.param(datetime(2025, 3, 31, tzinfo=UTC), "@1743379200", id="2025"),
        pytest.param(datetime(2022, 1, 1, tzinfo=UTC), "@1640995200", id="2022"),
        pytest.param(datetime(2020, 1, 1, tzinfo=UTC), "@1577836800", id="2020"),
        pytest.param(JANUARY, "@1767225600", id="the example of the documentation"),
        pytest.param(datetime(1970, 1, 1, tzinfo=UTC), "@0", id="the first second"),
        pytest.param(datetime(1970, 1, 1, 5, 45, 0, 1, tzinfo=KATHMANDU), "@0", id="the first second, elsewhere"),
        pytest.param(datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), "@253402300799", id="the last second"),
        pytest.param(datetime(2026, 1, 1, 5, 45, tzinfo=KATHMANDU), "@1767225600", id="in Kathmandu"),
        pytest.param(datetime(2025, 12, 31, 19, 0, tzinfo=NEW_YORK), "@1767225600", id="in New York"),
    ],
)
def test_the_deprecation_header_is_a_structured_field_date(at: datetime, expected: str) -> None:
    header = announced_headers(at)["Deprecation"]
    assert header == expected
    assert http_sf.parse(header.encode("ascii"), tltype="item") == (at.astimezone(UTC).replace(microsecond=0), {})


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        pytest.param(datetime(2024, 6, 30, 23, 59, 59, tzinfo=UTC), "Sun, 30 Jun 2024 23:59:59 GMT", id="RFC 9745"),
        pytest.param(datetime(2026, 11, 11, 11, 11, 11, tzinfo=UTC), "Wed, 11 Nov 2026 11:11:11 GMT", id="RFC 8594"),
        pytest.param(datetime(2027, 1, 1, 0, 0, 0, 900_000, tzinfo=UTC), "Fri, 01 Jan 2027 00:00:00 GMT", id="cut"),
        pytest.param(datetime(2025, 12, 24, 10, 20, tzinfo=UTC), "Wed, 24 Dec 2025 10:20:00 GMT", id="a time of day"),
        pytest.param(datetime(2023, 10, 12, 10, 0, tzinfo=UTC), "Thu, 12 Oct 2023 10:00:00 GMT", id="2023"),
        pytest.param(datetime(2020, 6, 1, tzinfo=UTC), "Mon, 01 Jun 2020 00:00:00 GMT", id="two digits of a day"),
        pytest.param(
            datetime(9999, 12, 31, 23, 59, 59, 1, tzinfo=UTC), "Fri, 31 Dec 9999 23:59:59 GMT", id="year 9999"
        ),
        pytest.param(datetime(2026, 1, 1, 2, 0, tzinfo=KATHMANDU), "Wed, 31 Dec 2025 20:15:00 GMT", id="in Kathmandu"),
        pytest.param(datetime(2025, 12, 31, 20, 0, tzinfo=NEW_YORK), "Thu, 01 Jan 2026 01:00:00 GMT", id="in New York"),
    ],
)
def test_the_sunset_header_is_an_imf_fixdate(at: datetime, expected: str) -> None:
    header = announced_headers(datetime(1970, 1, 1, tzinfo=UTC), at)["Sunset"]
    assert header == expected == http_date(at)


OFFSETS = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
DATES = st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30), timezones=OFFSETS)  # noqa: DTZ001 - bounds


@given(DATES, DATES)
def test_other_libraries_read_the_announced_dates_back(first: datetime, second: datetime) -> None:
    deprecated_at, sunset_at = sorted([first, second])
    headers = announced_headers(deprecated_at, sunset_at)
    assert list(headers) == ["Deprecation", "Sunset"]
    item = http_sf.parse(headers["Deprecation"].encode("ascii"), tltype="item")
    assert item == (deprecated_at.astimezone(UTC).replace(microsecond=0), {})
    assert IMF_FIXDATE.fullmatch(headers["Sunset"])
    assert headers["Sunset"] == http_date(sunset_at)


def test_without_a_sunset_only_the_deprecation_is_announced() -> None:
    assert render(DeprecationPolicy(deprecated_at=JANUARY)) == [("Deprecation", "@1767225600")]


def test_only_known_links_are_announced_and_in_a_fixed_order() -> None:
    policy = DeprecationPolicy(
        deprecated_at=JANUARY, documentation="/retire", sunset_documentation="https://x.example/"
    )
    successor = ("Link", '</v2>; rel="successor-version"')
    documentation = ("Link", '</retire>; rel="deprecation"; type="text/html"')
    sunset = ("Link", '<https://x.example/>; rel="sunset"; type="text/html"')
    assert render(policy, "/v2")[1:] == [successor, documentation, sunset]
    assert render(policy)[1:] == [documentation, sunset]
    assert render(DeprecationPolicy(deprecated_at=JANUARY), "/v2")[1:] == [successor]


@pytest.mark.parametrize(
    ("target", "mount", "base_url", "resolved"),
    [
        pytest.param("/v2", "", "", "/v2", id="at the root"),
        pytest.param("/v2", "/caf%C3%A9", "", "/caf%C3%A9/v2", id="mounted"),
        pytest.param("/v2", "/x", "https://api.example", "https://api.example/x/v2", id="mounted, with a base URL"),
        pytest.param("/v2", "", "https://api.example/", "https://api.example/v2", id="a base URL with a slash"),
        pytest.param("/v2", "/x", "https://api.example/p", "https://api.example/p/x/v2", id="a base URL with a path"),
        pytest.param("/", "/x", "", "/x/", id="the root of the application"),
        pytest.param("//host/v2", "/x", "https://api.example", "//host/v2", id="two slashes start a host"),
        pytest.param("https://v2.example/", "/x", "https://api.example", "https://v2.example/", id="a URL is complete"),
        pytest.param("v2", "/x", "https://api.example", "v2", id="a relative reference is unchanged"),
    ],
)
def test_a_target_is_resolved_against_the_mount_point_and_the_base_url(
    target: str, mount: str, base_url: str, resolved: str
) -> None:
    policy = DeprecationPolicy(deprecated_at=JANUARY, documentation=target)
    links = [value for _name, value in render(policy, target, mount, base_url)[1:]]
    assert [link.partition(";")[0] for link in links] == [f"<{resolved}>", f"<{resolved}>"]
    assert DeprecationHeaders(policy, base_url=base_url).resolve(target, mount) == resolved


def test_the_same_headers_are_announced_each_time() -> None:
    policy = DeprecationPolicy(deprecated_at=JANUARY, sunset_at=JULY)
    headers = DeprecationHeaders(policy)
    for mount in ("", "/x", "", "/y", "/x"):
        assert headers.render("/v2", mount) == render(policy, "/v2", mount)


# Refused arguments.


class ZoneWithoutOffset(tzinfo):
    """A time zone that does not know its offset, which makes a datetime naive."""

    def utcoffset(self, _at: datetime | None) -> timedelta | None:
        return None

    def dst(self, _at: datetime | None) -> timedelta | None:
        return None

    def tzname(self, _at: datetime | None) -> str:
        return "zone"


NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - the mistake that is tested
NO_DATES = [
    pytest.param(NAIVE, id="naive"),
    pytest.param(datetime(2026, 1, 1, tzinfo=ZoneWithoutOffset()), id="naive without an offset"),
    pytest.param("2026-01-01T00:00:00Z", id="string"),
    pytest.param(date(2026, 1, 1), id="date"),
    pytest.param(1767225600, id="number"),
    pytest.param(float("nan"), id="NaN"),
    pytest.param(True, id="bool"),
    pytest.param(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), id="before 1970"),
    pytest.param(datetime(1970, 1, 1, tzinfo=KATHMANDU), id="before 1970 in UTC"),
    pytest.param(datetime(9999, 12, 31, 20, 0, tzinfo=NEW_YORK), id="after 9999 in UTC"),
]


@pytest.mark.parametrize("name", ["deprecated_at", "sunset_at"])
@pytest.mark.parametrize("value", NO_DATES)
def test_a_value_that_is_not_a_date_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{name}\b"):
        DeprecationPolicy(**{"deprecated_at": JANUARY, name: value})


@pytest.mark.parametrize("name", ["start", "end"])
@pytest.mark.parametrize("value", NO_DATES)
def test_a_brownout_without_two_dates_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{name}\b"):
        Brownout(**{"start": JANUARY, "end": JULY, name: value})


def test_a_policy_needs_a_deprecation() -> None:
    with pytest.raises(ValueError, match="deprecated_at"):
        DeprecationPolicy(deprecated_at=None)  # type: ignore[arg-type] # the mistake that is tested


@pytest.mark.parametrize(
    ("deprecated_at", "sunset_at"),
    [
        pytest.param(JULY, JULY - SECOND, id="a second"),
        pytest.param(datetime(2030, 1, 1, tzinfo=UTC), datetime(2029, 1, 1, tzinfo=UTC), id="a year"),
        pytest.param(JULY, JULY - TICK, id="a microsecond, across seconds"),
        pytest.param(JULY.replace(tzinfo=NEW_YORK), JULY.replace(tzinfo=KATHMANDU), id="by their time zones"),
    ],
)
def test_a_sunset_before_the_deprecation_is_refused(deprecated_at: datetime, sunset_at: datetime) -> None:
    with pytest.raises(ValueError, match=r"^sunset_at\b"):
        DeprecationPolicy(deprecated_at=deprecated_at, sunset_at=sunset_at)


@pytest.mark.parametrize(
    ("deprecated_at", "sunset_at"),
    [
        pytest.param(JULY, JULY, id="equal"),
        pytest.param(JULY + 9 * TICK, JULY, id="within one second, so the headers are equal"),
        pytest.param(JULY.replace(tzinfo=KATHMANDU), JULY.replace(tzinfo=NEW_YORK), id="by their time zones"),
    ],
)
def test_a_sunset_that_is_not_before_the_deprecation_is_accepted(deprecated_at: datetime, sunset_at: datetime) -> None:
    assert len(announced_headers(deprecated_at, sunset_at)) == 2


@pytest.mark.parametrize("name", ["documentation", "sunset_documentation"])
@pytest.mark.parametrize(
    "value", ["", " ", "/a b", "/a\n", "/a\r\nX: y", "/a\x00", "/<a", "/a>", '/"', "/\\", "/\xe9", "/\u20ac", 1, b"/a"]
)
def test_a_uri_that_is_invalid_in_a_header_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{name}\b"):
        DeprecationPolicy(**{"deprecated_at": JANUARY, name: value})


@pytest.mark.parametrize(
    ("start", "end"),
    [
        pytest.param(JULY, JANUARY, id="reversed"),
        pytest.param(JULY, JULY, id="empty"),
        pytest.param(JULY.replace(tzinfo=NEW_YORK), JULY.replace(tzinfo=KATHMANDU), id="reversed by time zones"),
    ],
)
def test_a_brownout_that_does_not_end_after_its_start_is_refused(start: datetime, end: datetime) -> None:
    with pytest.raises(ValueError, match=r"^end\b"):
        Brownout(start, end)


WINDOWS = [Brownout(JANUARY + hours * HOUR, JANUARY + (hours + 2) * HOUR) for hours in (0, 2, 10)]


@pytest.mark.parametrize(
    "intruder",
    [
        pytest.param(Brownout(JANUARY + HOUR, JANUARY + 2 * HOUR), id="inside"),
        pytest.param(Brownout(JANUARY - HOUR, JANUARY + 20 * HOUR), id="around"),
        pytest.param(Brownout(JANUARY - HOUR, JANUARY + TICK), id="by a microsecond"),
        pytest.param(WINDOWS[2], id="the same twice"),
    ],
)
def test_overlapping_brownouts_are_refused_in_any_order(intruder: Brownout) -> None:
    for order in permutations([*WINDOWS, intruder]):
        with pytest.raises(ValueError, match=r"^brownouts\b"):
            DeprecationPolicy(deprecated_at=JANUARY, brownouts=order)


def test_brownouts_may_be_adjacent_and_in_any_order() -> None:
    policies = {DeprecationPolicy(deprecated_at=JANUARY, brownouts=order) for order in permutations(WINDOWS)}
    assert [policy.brownouts for policy in policies] == [tuple(WINDOWS)]


@pytest.mark.parametrize(
    "value", [None, WINDOWS[0], "soon", [(JANUARY, JULY)], [None], 5, iter(WINDOWS), {"start": JANUARY}]
)
def test_anything_but_a_list_of_brownouts_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^brownouts\b"):
        DeprecationPolicy(deprecated_at=JANUARY, brownouts=value)


class ZoneWithRepeatedHour(ZoneWithoutOffset):
    """A time zone in the night when clocks go back. Each time of day occurs twice, the second time with ``fold=1``."""

    def utcoffset(self, at: datetime | None) -> timedelta:
        return HOUR if at is not None and at.fold else 2 * HOUR


def test_brownouts_in_an_hour_that_occurs_twice_are_compared_in_utc() -> None:
    night = ZoneWithRepeatedHour()
    first, last = (datetime(2026, 10, 25, 2, minute, tzinfo=night, fold=minute < 30) for minute in (45, 15))
    assert last.astimezone(UTC) - first.astimezone(UTC) == HOUR / 2  # though the clock says 02:45, then 02:15
    policy = DeprecationPolicy(deprecated_at=JANUARY, brownouts=[Brownout(first, last)])
    assert policy.phase(first.astimezone(UTC)) == "brownout"
    with pytest.raises(ValueError, match=r"^end\b"):
        Brownout(last, first)
    earlier, later = Brownout(first, first + HOUR / 12), Brownout(last, last.astimezone(UTC) + HOUR)
    assert DeprecationPolicy(deprecated_at=JANUARY, brownouts=[later, earlier]).brownouts == (earlier, later)
    with pytest.raises(ValueError, match=r"^brownouts\b"):
        DeprecationPolicy(deprecated_at=JANUARY, brownouts=[Brownout(first - HOUR, last), earlier])


def test_dates_are_kept_in_utc() -> None:
    window = Brownout(JANUARY.astimezone(KATHMANDU), JULY.astimezone(NEW_YORK))
    policy = DeprecationPolicy(deprecated_at=JANUARY.astimezone(KATHMANDU), sunset_at=JULY.astimezone(NEW_YORK))
    for kept in (window.start, window.end, policy.deprecated_at, policy.sunset_at):
        assert kept is not None
        assert kept.tzinfo is UTC


def test_a_policy_has_no_positional_arguments() -> None:
    with pytest.raises(TypeError):
        DeprecationPolicy(JANUARY)  # type: ignore[call-arg] # the mistake that is tested


def test_a_sunset_needs_a_date_to_be_enforced() -> None:
    with pytest.raises(ValueError, match=r"^enforce_sunset\b"):
        DeprecationPolicy(deprecated_at=JANUARY, enforce_sunset=True)


@pytest.mark.parametrize("value", [None, 1, "yes", JULY])
def test_enforce_sunset_must_be_a_bool(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^enforce_sunset\b"):
        DeprecationPolicy(deprecated_at=JANUARY, sunset_at=JULY, enforce_sunset=value)


def test_a_policy_cannot_be_changed() -> None:
    windows = list(WINDOWS)
    policy = DeprecationPolicy(deprecated_at=JANUARY, brownouts=windows)
    windows.clear()
    assert policy.brownouts == tuple(WINDOWS)
    for value, name in ((policy, "deprecated_at"), (WINDOWS[0], "start")):
        with pytest.raises(AttributeError):
            setattr(value, name, JULY)


# Phases.

WINDOW = Brownout(JULY - 10 * HOUR, JULY - 8 * HOUR)


@pytest.mark.parametrize(
    ("at", "phase"),
    [
        pytest.param(JANUARY - TICK, "announced", id="just before the deprecation"),
        pytest.param(datetime(1, 1, 1, tzinfo=UTC), "announced", id="long before"),
        pytest.param(JANUARY, "deprecated", id="at the deprecation"),
        pytest.param(WINDOW.start - TICK, "deprecated", id="just before a brownout"),
        pytest.param(WINDOW.start, "brownout", id="at the start of a brownout"),
        pytest.param(WINDOW.end - TICK, "brownout", id="just before the end of a brownout"),
        pytest.param(WINDOW.end, "deprecated", id="at the end of a brownout"),
        pytest.param(WINDOW.start.astimezone(KATHMANDU), "brownout", id="a clock in another time zone"),
        pytest.param(JULY - TICK, "deprecated", id="just before the sunset"),
        pytest.param(JULY, "sunset", id="at the sunset"),
        pytest.param(datetime.max.replace(tzinfo=UTC), "sunset", id="long after"),
    ],
)
def test_the_phase_depends_on_the_time(at: datetime, phase: str) -> None:
    dates: dict[str, Any] = {"deprecated_at": JANUARY, "sunset_at": JULY, "brownouts": [WINDOW]}
    assert DeprecationPolicy(**dates, enforce_sunset=True).phase(at) == phase
    # A sunset that is not enforced changes nothing: the operation keeps working.
    assert DeprecationPolicy(**dates).phase(at) == ("deprecated" if phase == "sunset" else phase)


def test_a_brownout_overrides_the_deprecation_and_a_sunset_overrides_both() -> None:
    early, late = Brownout(JANUARY - HOUR, JANUARY + HOUR), Brownout(JULY - HOUR, JULY + HOUR)
    dates: dict[str, Any] = {"deprecated_at": JANUARY, "sunset_at": JULY, "brownouts": [early, late]}
    enforced, kept = DeprecationPolicy(**dates, enforce_sunset=True), DeprecationPolicy(**dates)
    assert enforced.phase(JANUARY - TICK) == kept.phase(JANUARY - TICK) == "brownout"
    assert (enforced.phase(JULY), kept.phase(JULY)) == ("sunset", "brownout")


@pytest.mark.parametrize("order", list(permutations(WINDOWS)))
def test_the_brownout_of_a_time_is_found_in_any_order(order: tuple[Brownout, ...]) -> None:
    policy = DeprecationPolicy(deprecated_at=JANUARY, brownouts=order)
    for window in WINDOWS:
        assert policy.brownout(window.start) == policy.brownout(window.end - TICK) == window
    assert policy.brownout(JANUARY - TICK) is policy.brownout(JANUARY + 5 * HOUR) is None


# Responses of the middleware.


def responses(app: Any = None, *, path: str = "/API/Notification/", mount: str = "", **policy: Any) -> list[Response]:
    """Return the responses just before the sunset and at the sunset."""
    complete = DeprecationPolicy(**{"deprecated_at": JANUARY, "sunset_at": JULY, **policy})

    def response(at: datetime) -> Response:
        middleware = DeprecationMiddleware(app or plain_app(), complete, clock=lambda: at)
        return call(middleware, path=path, SCRIPT_NAME=mount)

    return [response(JULY - SECOND), response(JULY)]


@pytest.mark.parametrize(("enforce", "codes"), [(True, [200, 410]), (False, [200, 200])], ids=["enforced", "kept"])
def test_the_sunset_ends_the_operation_only_where_it_is_enforced(enforce: bool, codes: list[int]) -> None:
    before, after = responses(enforce_sunset=enforce)
    assert [before.code, after.code] == codes
    assert before.all("Sunset") == after.all("Sunset") == ["Thu, 01 Jul 2027 00:00:00 GMT"]


def test_the_applications_own_dates_are_replaced() -> None:
    own = [("deprecation", "@1000000000"), ("Sunset", "Sat, 01 Jan 2028 00:00:00 GMT"), ("DEPRECATION", "true")]
    for response in responses(plain_app(headers=own)):
        assert response.all("Deprecation") == ["@1767225600"]
        assert response.all("Sunset") == ["Thu, 01 Jul 2027 00:00:00 GMT"]
    for response in responses(plain_app(headers=own), sunset_at=None):
        assert response.all("Sunset") == []


@pytest.mark.parametrize(
    ("path", "is_announced"),
    [
        pytest.param("/API/Notification/", True, id="the operation"),
        pytest.param("/api/notification/", True, id="in lower case"),
        pytest.param("/API/NotificationX/", False, id="a longer path"),
        pytest.param("/API/Notification2/", False, id="a longer path with a digit"),
    ],
)
def test_only_responses_of_the_operation_are_announced(path: str, is_announced: bool) -> None:
    for response in responses(path=path):
        assert [name in dict(response.headers) for name in ("Deprecation", "Sunset", "Link")] == [is_announced] * 3


def test_links_are_below_the_mount_point() -> None:
    for response in responses(mount="/x", documentation="/retire"):
        assert response.all("Link") == [
            '</x/API/Notification/CurrentUser>; rel="successor-version"',
            '</x/retire>; rel="deprecation"; type="text/html"',
        ]


def test_an_operation_without_a_successor_has_no_link_to_one() -> None:
    app = DeprecationMiddleware(
        plain_app(), DeprecationPolicy(deprecated_at=JANUARY), operations=[Operation("report", "GET", "/report")]
    )
    assert call(app, path="/report").all("Link") == []


class Greenwich(tzinfo):
    """A time zone with an offset of zero that is not ``datetime.UTC``, as in time zone libraries."""

    def utcoffset(self, _at: datetime | None) -> timedelta:
        return timedelta(0)

    def dst(self, _at: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, _at: datetime | None) -> str:
        return "UTC"


def test_dates_in_utc_of_another_library_are_accepted() -> None:
    # The standard library formats an HTTP-date only from its own UTC.
    dates: dict[str, Any] = {
        "deprecated_at": JANUARY.replace(tzinfo=Greenwich()),
        "sunset_at": JULY.replace(tzinfo=Greenwich()),
    }
    for policy in (DeprecationPolicy(**dates), load_policy(dates)):
        response = call(DeprecationMiddleware(plain_app(), policy), path="/API/Notification/")
        assert response.headers[-3:] == [
            ("Deprecation", "@1767225600"),
            ("Sunset", "Thu, 01 Jul 2027 00:00:00 GMT"),
            ("Link", '</API/Notification/CurrentUser>; rel="successor-version"'),
        ]


def test_a_clock_in_utc_of_another_library_decides_the_phase() -> None:
    policy = DeprecationPolicy(deprecated_at=JANUARY, sunset_at=JULY, enforce_sunset=True)
    now, uses = JULY.replace(tzinfo=Greenwich()), list[Use]()
    app = DeprecationMiddleware(plain_app(), policy, clock=lambda: now, observers=[uses.append])
    assert call(app, path="/API/Notification/").code == 410
    assert [(use.phase, use.at.tzinfo) for use in uses] == [("sunset", UTC)]
