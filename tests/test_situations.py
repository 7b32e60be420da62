"""Situations in which others who announce retirements have gone wrong, as far as no other test is about them."""

import locale
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.proxy_fix import ProxyFix

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Use, load_policy
from tests.services import service_or_skip
from tests.wsgi import call, plain_app

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

DATES: dict[str, Any] = {
    "deprecated_at": datetime(2026, 3, 1, tzinfo=UTC),
    "sunset_at": datetime(2026, 12, 1, tzinfo=UTC),
}
POLICY = DeprecationPolicy(**DATES, documentation="/docs")
ANNOUNCED = [
    ("Deprecation", "@1772323200"),
    ("Sunset", "Tue, 01 Dec 2026 00:00:00 GMT"),
    ("Link", '</API/Notification/CurrentUser>; rel="successor-version"'),
    ("Link", '</docs>; rel="deprecation"; type="text/html"'),
]
LIST = "/API/Notification/"
ACCOUNT = "/API/Notification/GetNotificationsForAccount/acc-0f/"


class Greenwich(tzinfo):
    """A time zone without an offset that is not ``datetime.UTC``, as time zone libraries have one."""

    def utcoffset(self, _at: datetime | None) -> timedelta:
        return timedelta(0)

    def dst(self, _at: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, _at: datetime | None) -> str:
        return "UTC"


def test_utc_of_another_library_is_utc() -> None:
    # The standard library writes an HTTP-date of its own UTC only, and refuses any other.
    elsewhere = {name: date.replace(tzinfo=Greenwich()) for name, date in DATES.items()}
    for policy in (DeprecationPolicy(**elsewhere), load_policy(elsewhere)):
        answer = call(DeprecationMiddleware(plain_app(), policy), path=LIST)
        assert answer.fields[-3:] == ANNOUNCED[:3]


def test_a_clock_in_utc_of_another_library_tells_the_phase() -> None:
    policy = DeprecationPolicy(**DATES, enforce_sunset=True)
    now, uses = datetime(2026, 12, 1, tzinfo=Greenwich()), list[Use]()
    app = DeprecationMiddleware(plain_app(), policy, clock=lambda: now, observers=[uses.append])
    assert call(app, path=LIST).code == 410
    assert [(use.phase, use.at.tzinfo) for use in uses] == [("sunset", UTC)]


def test_the_sunset_is_in_english_where_the_process_speaks_german(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with german(tmp_path, monkeypatch):
        assert datetime(2026, 12, 1, tzinfo=UTC).strftime("%a, %d %b") == "Di, 01 Dez"
        answer = call(DeprecationMiddleware(plain_app(), DeprecationPolicy(**DATES)), path=LIST)
    assert answer.one("Sunset") == "Tue, 01 Dec 2026 00:00:00 GMT"


@contextmanager
def german(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the process write dates in German, from a locale that is made for the test."""
    service_or_skip("localedef", shutil.which("localedef") is not None)
    command = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / "de_DE.UTF-8")]
    made = subprocess.run(command, capture_output=True, check=False, env={**os.environ, "LC_ALL": "C"})
    service_or_skip("the source of a German locale", made.returncode == 0)
    monkeypatch.setenv("LOCPATH", str(folder))
    before = locale.setlocale(locale.LC_TIME)
    locale.setlocale(locale.LC_TIME, "de_DE.UTF-8")
    try:
        yield
    finally:
        locale.setlocale(locale.LC_TIME, before)


@pytest.mark.parametrize(
    "status",
    [
        "200 OK",
        "303 See Other",
        "308 Permanent Redirect",
        "400 Bad Request",
        "401 Unauthorized",
        "404 Not Found",
        "405 Method Not Allowed",
        "500 Internal Server Error",
    ],
)
def test_an_answer_to_post_announces_whatever_comes_of_it(status: str) -> None:
    app = DeprecationMiddleware(plain_app(status, [("Location", "/elsewhere")]), POLICY)
    answer = call(app, "POST", ACCOUNT)
    successor = ("Link", '</API/Notification/Account>; rel="successor-version"')
    assert answer.status == status
    assert answer.fields[-4:] == [*ANNOUNCED[:2], successor, ANNOUNCED[3]]


def proxied(app: "WSGIApplication") -> "WSGIApplication":
    return ProxyFix(app, x_proto=1, x_host=1, x_prefix=1)


def dispatched(app: "WSGIApplication") -> "WSGIApplication":
    return DispatcherMiddleware(plain_app("404 Not Found"), {"/erp": app})


@pytest.mark.parametrize(
    ("path", "headers", "placed"),
    [
        pytest.param("/erp/api/notification", {}, "/erp", id="below a dispatcher"),
        pytest.param(
            "/erp/api/notification",
            {"HTTP_X_FORWARDED_PREFIX": "/public"},
            "/public/erp",
            id="below a dispatcher, behind a proxy that has cut a prefix",
        ),
    ],
)
def test_links_lead_to_where_the_server_and_its_proxy_have_put_the_application(
    path: str, headers: dict[str, str], placed: str
) -> None:
    for base_url in (None, "https://api.example"):
        app = proxied(dispatched(DeprecationMiddleware(plain_app(), POLICY, base_url=base_url)))
        answer = call(app, path=path, **headers)
        assert answer.all("Link") == [
            f'<{base_url or ""}{placed}/API/Notification/CurrentUser>; rel="successor-version"',
            f'<{base_url or ""}{placed}/docs>; rel="deprecation"; type="text/html"',
        ]


def test_a_redirect_behind_a_proxy_keeps_the_session_on_the_public_address() -> None:
    back = plain_app("302 Found", [("Location", "https://shop.example/public/API/Notification/")])
    forwarded = {"HTTP_X_FORWARDED_PROTO": "https", "HTTP_X_FORWARDED_HOST": "shop.example"}
    app = proxied(DeprecationMiddleware(back, POLICY))
    answer = call(app, path="/api/notification", query="sessionId=s", HTTP_X_FORWARDED_PREFIX="/public", **forwarded)
    assert answer.one("Location") == "https://shop.example/public/API/Notification/?sessionId=s"


@pytest.mark.parametrize("maximum", ["max-age=31536000", "public, max-age=31536000, immutable", "s-maxage=60"])
def test_how_long_an_answer_is_fresh_stays_the_applications_business(maximum: str) -> None:
    app = DeprecationMiddleware(plain_app(headers=[("Cache-Control", maximum), ("Expires", "0")]), POLICY)
    answer = call(app, path=LIST)
    assert (answer.all("Cache-Control"), answer.all("Expires")) == ([maximum], ["0"])
    assert call(DeprecationMiddleware(plain_app(), POLICY), path=LIST).all("Cache-Control") == []


def test_nothing_of_a_request_comes_into_links_or_what_observers_are_told() -> None:
    uses: list[Use] = []
    app = DeprecationMiddleware(plain_app(), POLICY, observers=[uses.append])
    for _time in range(2):  # nor into the next answer
        answer = call(app, "POST", ACCOUNT, "page=7&sessionId=s3cret", HTTP_REFERER="http://x.example/page=7")
        assert answer.all("Link")[0] == '</API/Notification/Account>; rel="successor-version"'
        assert not [text for text in ("s3cret", "page=7", "acc-0f") if text in f"{answer.fields}{uses}"]
    assert len(uses) == 2
