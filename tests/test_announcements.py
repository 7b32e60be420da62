"""The responses to matched requests announce the retirement in their headers."""

import locale
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.proxy_fix import ProxyFix

from flask_notifications import Brownout, DeprecationPolicy, Operation, Use
from tests.middleware import ANNOUNCED, DATE_ONLY, DEPRECATED_AT, NOW, PATH, POLICY, SUNSET_AT, response_of, wrap
from tests.services import service_or_skip
from tests.storages import ACCOUNT
from tests.wsgi import call, environ_of, plain_app, run


@pytest.mark.parametrize(
    "status",
    [
        "200 OK",
        "204 No Content",
        "206 Partial Content",
        "301 Moved Permanently",
        "304 Not Modified",
        "400 Bad Request",
        "401 Unauthorized",
        "404 Not Found",
        "405 Method Not Allowed",
        "410 Gone",
        "500 Internal Server Error",
        "503 Service Unavailable",
        "599 Own",
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_response_of_any_status_announces_the_same_headers(status: str, method: str) -> None:
    own = [("X-Own", "1"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("ETag", '"x"')]
    response = run(wrap(plain_app(status, own, b"")), environ_of(method, PATH))
    assert response.status == status
    assert response.headers == [("Content-Type", "text/plain"), *own, ("Vary", "Authorization"), *ANNOUNCED]


@pytest.mark.parametrize(
    "options",
    [
        {"require_session": True},
        {
            "policy": DeprecationPolicy(
                deprecated_at=DEPRECATED_AT,
                sunset_at=SUNSET_AT,
                documentation="https://example.com/retire",
                sunset_documentation="https://example.com/policy",
                brownouts=[Brownout(NOW, SUNSET_AT)],
            )
        },
    ],
    ids=["401", "410"],
)
def test_the_middlewares_own_error_responses_announce_too(options: dict[str, Any]) -> None:
    response = response_of(**options)
    assert response.code in {401, 410}
    assert response.headers[-5:] == ANNOUNCED


def test_each_operation_announces_its_own_successor() -> None:
    response = call(wrap(), "POST", "/API/Notification/GetNotificationsForAccount/x")
    assert response.all("Link")[0] == '</API/Notification/Account>; rel="successor-version"'


def test_a_policy_with_nothing_but_a_deprecation_date_announces_only_that() -> None:
    operations = [Operation("x", "GET", PATH)]
    assert response_of(policy=DATE_ONLY, operations=operations).headers[-1] == ("Deprecation", "@1767225600")


def test_the_applications_own_links_are_kept_before_those_of_the_middleware() -> None:
    own = [("Link", '</a>; rel="next", </b>; rel="deprecation"'), ("X-A", "1"), ("link", "<c>;rel=sunset")]
    response = response_of(headers=own)
    assert response.headers == [("Content-Type", "text/plain"), *own, ("Vary", "Authorization"), *ANNOUNCED]


@pytest.mark.parametrize("policy", [POLICY, DATE_ONLY], ids=["with a sunset", "without"])
def test_the_applications_own_deprecation_and_sunset_are_replaced(policy: DeprecationPolicy) -> None:
    own = [("Deprecation", "@1"), ("DEPRECATION", "true"), ("sunset", "never"), ("Sunset", "soon")]
    response = response_of(headers=own, policy=policy)
    assert response.all("Deprecation") == ["@1767225600"]
    assert response.all("Sunset") == (["Fri, 01 Jan 2027 00:00:00 GMT"] if policy is POLICY else [])


@pytest.mark.parametrize("now", [datetime(1970, 1, 1, tzinfo=UTC), NOW, datetime(2030, 1, 1, tzinfo=UTC)], ids=str)
def test_the_announced_headers_do_not_depend_on_the_time(now: datetime) -> None:
    """A future deprecation is announced too, and so is a past sunset that is not enforced."""
    response = response_of(clock=lambda: now)
    assert response.code == 200
    assert response.headers[-5:] == ANNOUNCED


TARGETS = [
    # SCRIPT_NAME, base_url, target, target in the Link
    ("", None, "/new", "/new"),
    ("/erp", None, "/new", "/erp/new"),
    ("/", None, "/new", "/new"),
    ("/erp/", None, "/new", "/erp/new"),
    ("/a/b", None, "/new?x=1#y", "/a/b/new?x=1#y"),
    ("erp", None, "/new", "/erp/new"),
    ("//host", None, "/new", "/host/new"),
    ('/\xc3\xa9 <>"\\\r\n;,', None, "/new", "/%C3%A9%20%3C%3E%22%5C%0D%0A%3B%2C/new"),
    ("/a%2Fb", None, "/new", "/a%252Fb/new"),
    ("/erp", None, "//host/new", "//host/new"),
    ("/erp", None, "https://host/new", "https://host/new"),
    ("/erp", None, "new", "new"),
    ("/erp", None, "?new", "?new"),
    ("", "https://api.example", "/new", "https://api.example/new"),
    ("", "https://api.example/", "/new", "https://api.example/new"),
    ("/erp", "https://api.example:8443/root", "/new", "https://api.example:8443/root/erp/new"),
    ("/erp", "http://[::1]", "/new", "http://[::1]/erp/new"),
    ("/erp", "http://api.example:1", "/new", "http://api.example:1/erp/new"),
    ("/erp", "https://api.example", "//host/new", "//host/new"),
    ("/erp", "https://api.example", "https://host/new", "https://host/new"),
    ("/erp", "https://api.example", "new", "new"),
]


@pytest.mark.parametrize(("mount", "base_url", "target", "resolved"), TARGETS)
def test_a_target_that_starts_with_one_slash_is_below_the_mount_point(
    mount: str, base_url: str | None, target: str, resolved: str
) -> None:
    policy = DeprecationPolicy(deprecated_at=DEPRECATED_AT, documentation=target, sunset_documentation=target)
    operations = [Operation("x", "GET", PATH, successor=target)]
    app = wrap(None, policy, operations=operations, base_url=base_url)
    response = run(app, environ_of(path=PATH, SCRIPT_NAME=mount))
    assert response.all("Link") == [
        f'<{resolved}>; rel="successor-version"',
        f'<{resolved}>; rel="deprecation"; type="text/html"',
        f'<{resolved}>; rel="sunset"; type="text/html"',
    ]


EXPOSE = "Access-Control-Expose-Headers"


@pytest.mark.parametrize(
    ("own", "exposed"),
    [
        ([], ["Deprecation, Sunset, Link"]),
        (["ETag"], ["ETag, Deprecation, Sunset, Link"]),
        (["ETag, link"], ["ETag, link, Deprecation, Sunset"]),
        (["DEPRECATION,Sunset , Link"], ["DEPRECATION, Sunset, Link"]),
        (["*"], ["*, Deprecation, Sunset, Link"]),
        ([""], ["Deprecation, Sunset, Link"]),
        (["ETag", "X-A"], ["ETag, X-A, Deprecation, Sunset, Link"]),
    ],
)
@pytest.mark.parametrize("origin", ["*", "https://page.example"])
def test_a_page_that_may_read_the_response_may_read_the_announcement(
    own: list[str], exposed: list[str], origin: str
) -> None:
    headers = [("access-control-allow-origin", origin), *((EXPOSE, value) for value in own)]
    assert response_of(headers=headers).all(EXPOSE) == exposed


def test_no_cors_header_is_added_to_a_response_that_allows_no_origin() -> None:
    assert not [name for name, _value in response_of().headers if name.startswith("Access-Control")]
    assert response_of(headers=[(EXPOSE, "ETag")]).all(EXPOSE) == ["ETag"]


@pytest.mark.parametrize(
    ("own", "vary"),
    [
        ([], ["Authorization"]),
        (["Accept"], ["Accept, Authorization"]),
        (["authorization"], ["authorization"]),
        (["Accept", "Cookie"], ["Accept, Cookie, Authorization"]),
        (["*"], ["*"]),
    ],
)
def test_vary_lists_the_header_of_the_session(own: list[str], vary: list[str]) -> None:
    assert response_of(headers=[("Vary", value) for value in own]).all("Vary") == vary


@pytest.mark.slow
def test_the_sunset_is_in_english_under_a_german_locale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with german_locale(tmp_path, monkeypatch):
        assert datetime(2026, 12, 1, tzinfo=UTC).strftime("%a, %d %b") == "Di, 01 Dez"
        policy = DeprecationPolicy(deprecated_at=DEPRECATED_AT, sunset_at=datetime(2026, 12, 1, tzinfo=UTC))
        response = response_of(policy=policy)
    assert response.one("Sunset") == "Tue, 01 Dec 2026 00:00:00 GMT"


@contextmanager
def german_locale(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Switch the process to a German locale that is compiled for the test."""
    service_or_skip("localedef", shutil.which("localedef") is not None)
    command = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / "de_DE.UTF-8")]
    done = subprocess.run(command, capture_output=True, check=False, env={**os.environ, "LC_ALL": "C"})
    service_or_skip("the source of a German locale", done.returncode == 0)
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
def test_a_response_to_post_announces_whatever_its_status(status: str) -> None:
    app = wrap(plain_app(status, [("Location", "/elsewhere")]))
    response = call(app, "POST", ACCOUNT.format("x"))
    successor = ("Link", '</API/Notification/Account>; rel="successor-version"')
    assert response.status == status
    assert response.headers[-5:] == [*ANNOUNCED[:2], successor, *ANNOUNCED[3:]]


@pytest.mark.parametrize(
    ("path", "headers", "mount"),
    [
        pytest.param("/erp/api/notification", {}, "/erp", id="below a dispatcher"),
        pytest.param(
            "/erp/api/notification",
            {"HTTP_X_FORWARDED_PREFIX": "/public"},
            "/public/erp",
            id="below a dispatcher, after a proxy that removes a prefix",
        ),
    ],
)
def test_links_include_the_prefixes_of_a_dispatcher_and_a_proxy(path: str, headers: dict[str, str], mount: str) -> None:
    policy = DeprecationPolicy(deprecated_at=DEPRECATED_AT, documentation="/docs")
    for base_url in (None, "https://api.example"):
        dispatcher = DispatcherMiddleware(plain_app("404 Not Found"), {"/erp": wrap(policy=policy, base_url=base_url)})
        response = call(ProxyFix(dispatcher, x_proto=1, x_host=1, x_prefix=1), path=path, **headers)
        assert response.all("Link") == [
            f'<{base_url or ""}{mount}/API/Notification/CurrentUser>; rel="successor-version"',
            f'<{base_url or ""}{mount}/docs>; rel="deprecation"; type="text/html"',
        ]


def test_no_parameter_of_a_request_reaches_the_links_or_the_observers() -> None:
    uses: list[Use] = []
    app = wrap(observers=[uses.append])
    for _time in range(2):  # the second response has none either
        response = call(
            app, "POST", ACCOUNT.format("acc-0f"), "page=7&sessionId=s3cret", HTTP_REFERER="http://x.example/page=7"
        )
        assert response.all("Link")[0] == '</API/Notification/Account>; rel="successor-version"'
        assert not [value for value in ("s3cret", "page=7", "acc-0f") if value in f"{response.headers}{uses}"]
    assert len(uses) == 2
