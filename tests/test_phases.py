"""The clock decides the phase of a policy, and a closed operation responds with 410."""

import logging
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from flask_notifications import Brownout, DeprecationMiddleware, DeprecationPolicy, Operation, Use
from tests.middleware import DEPRECATED_AT, NOW, PATH, POLICY, SUNSET_AT, Spy, response_of, wrap
from tests.wsgi import call, plain_app

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
TICK = timedelta(microseconds=1)
PHASES = [
    (DEPRECATED_AT - TICK, "announced", None),
    (DEPRECATED_AT, "deprecated", None),
    (WINDOW.start - TICK, "deprecated", None),
    (WINDOW.start, "brownout", "3600"),
    (WINDOW.start + TICK, "brownout", "3600"),
    (WINDOW.start + timedelta(seconds=1), "brownout", "3599"),
    (WINDOW.end - timedelta(seconds=1.5), "brownout", "2"),
    (WINDOW.end - TICK, "brownout", "1"),
    (WINDOW.end, "deprecated", None),
    (SUNSET_AT - TICK, "deprecated", None),
    (SUNSET_AT, "sunset", None),
    (LATE.start, "sunset", None),
    (SUNSET_AT + timedelta(days=9999), "sunset", None),
]


@pytest.mark.parametrize(("now", "phase", "retry_after"), PHASES)
@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=-11)), timezone(timedelta(hours=5, minutes=30))])
def test_the_clock_decides_the_phase(now: datetime, phase: str, retry_after: str | None, zone: timezone) -> None:
    uses: list[Use] = []
    spy = Spy()
    app = wrap(spy, POLICY_WITH_PHASES, clock=lambda: now.astimezone(zone), observers=[uses.append])
    response = call(app, "GET", PATH, "sessionId=a&sessionId=b" if phase in {"brownout", "sunset"} else "")
    open_for_use = phase in {"announced", "deprecated"}
    assert (response.status, len(spy.calls)) == (("200 OK", 1) if open_for_use else ("410 Gone", 0))
    assert (uses[0].phase, uses[0].status, uses[0].at, uses[0].at.tzinfo) == (phase, response.code, now, UTC)
    if not open_for_use:
        assert response.all("Retry-After") == ([retry_after] if retry_after else [])
        assert response.one("Cache-Control") == "no-store"
        assert response.one("Content-Length") == str(len(response.body))
        assert response.one("Vary") == "Authorization"
        body = response.json
        assert body.pop("detail").endswith(".")
        assert body == {
            "type": "about:blank",
            "title": "Gone",
            "status": 410,
            "code": phase,
            "successor": "/API/Notification/CurrentUser",
        }


def test_a_naive_clock_shows_local_time() -> None:
    uses: list[Use] = []
    app = wrap(clock=lambda: NOW.astimezone().replace(tzinfo=None), observers=[uses.append])
    assert call(app, "GET", PATH).code == 200
    assert (uses[0].at, uses[0].at.tzinfo) == (NOW, UTC)


def test_a_sunset_that_is_not_enforced_changes_nothing() -> None:
    assert response_of(clock=lambda: SUNSET_AT + timedelta(days=1)).code == 200


def test_the_clock_is_called_at_each_request() -> None:
    times = iter([WINDOW.start - TICK, WINDOW.start, WINDOW.end])
    app = wrap(None, POLICY_WITH_PHASES, clock=lambda: next(times))
    assert [call(app, "GET", PATH).code for _time in range(3)] == [200, 410, 200]


def test_the_clock_is_called_once_per_matched_request() -> None:
    times: list[datetime] = []

    def clock() -> datetime:
        times.append(NOW)
        return NOW

    app = wrap(clock=clock)
    assert [call(app, "GET", path).code for path in (PATH, "/other", PATH)] == [200] * 3
    assert len(times) == 2


def clock_that_raises(error: Exception) -> Any:
    def clock() -> datetime:
        raise error

    return clock


@pytest.mark.parametrize(
    "clock",
    [
        pytest.param(clock_that_raises(OSError("no clock")), id="raises"),
        pytest.param(lambda: None, id="returns nothing"),
        pytest.param(lambda: 1767225600, id="returns seconds"),
        pytest.param(lambda: datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), id="is out of range in UTC"),
    ],
)
def test_a_clock_that_fails_is_logged_and_the_system_time_applies(clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    uses: list[Use] = []
    before = datetime.now(UTC)
    assert call(wrap(clock=clock, observers=[uses.append]), "GET", PATH).code == 200
    assert before <= uses[0].at <= datetime.now(UTC)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "clock" in record.getMessage()


def test_the_default_clock_is_the_system_time() -> None:
    uses: list[Use] = []
    before = datetime.now(UTC)
    call(DeprecationMiddleware(plain_app(), POLICY, observers=[uses.append]), "GET", PATH)
    assert before <= uses[0].at <= datetime.now(UTC)
    assert uses[0].at.tzinfo is UTC


def test_the_successor_in_the_body_is_the_target_of_the_link() -> None:
    app = wrap(None, POLICY_WITH_PHASES, clock=lambda: SUNSET_AT, base_url="https://api.example/")
    response = call(app, "POST", "/API/Notification/GetNotificationsForAccount/x", SCRIPT_NAME="/\xc3\xa9")
    assert response.json["successor"] == "https://api.example/%C3%A9/API/Notification/Account"
    assert response.all("Link")[0] == f'<{response.json["successor"]}>; rel="successor-version"'


def test_without_a_successor_the_body_has_no_such_member() -> None:
    response = response_of(policy=POLICY_WITH_PHASES, clock=lambda: SUNSET_AT, operations=[Operation("x", "GET", PATH)])
    assert "successor" not in response.json


def test_a_response_to_head_in_a_brownout_has_no_body() -> None:
    app = wrap(None, POLICY_WITH_PHASES, clock=lambda: WINDOW.start)
    whole, head = call(app, "GET", PATH), call(app, "HEAD", PATH)
    assert (head.status, head.headers, head.body) == (whole.status, whole.headers, b"")
