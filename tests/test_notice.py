"""The application learns what its response announces, and may repeat it in a body."""

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import flask
import pytest

from flask_notifications import (
    Brownout,
    DeprecationMiddleware,
    DeprecationPolicy,
    Exemption,
    Notice,
    Operation,
    Phase,
    notice_of,
)
from tests.middleware import (
    CLOSED,
    DATE_ONLY,
    DEPRECATED_AT,
    NOW,
    PATH,
    SUNSET_AT,
    wrap,
)
from tests.wsgi import call, environ_of, plain_app, run

REPORT = Operation("report", "GET", "/reports/{id}", "/v2/reports/{id}")
POLICY = DeprecationPolicy(
    deprecated_at=DEPRECATED_AT, sunset_at=SUNSET_AT, documentation="/docs"
)
NOTICE = Notice(
    "report", Phase.DEPRECATED, DEPRECATED_AT, SUNSET_AT, "/v2/reports/7", "/docs"
)


class Asking:
    """An application that asks for its notice."""

    def __init__(self) -> None:
        self.notices: list[Notice | None] = []

    def __call__(
        self, environ: WSGIEnvironment, start_response: StartResponse
    ) -> list[bytes]:
        self.notices.append(notice_of(environ))
        return list(plain_app()(environ, start_response))


def ask(
    policy: DeprecationPolicy, environ: WSGIEnvironment, **options: Any
) -> Notice | None:
    """Return the notice of an application inside the middleware."""
    app = Asking()
    options = {"clock": lambda: NOW, **options}
    run(DeprecationMiddleware(app, {REPORT: policy}, **options), environ)
    (notice,) = app.notices
    return notice


def test_an_application_gets_the_notice_of_a_matched_request() -> None:
    assert ask(POLICY, environ_of("GET", "/reports/7")) == NOTICE
    assert ask(POLICY, environ_of("GET", "/other")) is None
    mounted = environ_of("GET", "/reports/7", SCRIPT_NAME="/erp")
    notice = ask(POLICY, mounted, base_url="https://api.example")
    assert notice == NOTICE._replace(
        successor="https://api.example/erp/v2/reports/7",
        documentation="https://api.example/erp/docs",
    )
    dots = ask(POLICY, environ_of("GET", "/reports/.."))
    assert dots == NOTICE._replace(successor=None)
    lookalike = ask(DATE_ONLY, environ_of("GET", "//reports/7"))
    assert lookalike == NOTICE._replace(sunset_at=None, documentation=None)


def test_a_notice_has_the_later_date_of_an_exempt_caller() -> None:
    until = datetime(2028, 1, 1, tzinfo=UTC)
    policy = DeprecationPolicy(
        deprecated_at=DEPRECATED_AT,
        sunset_at=DEPRECATED_AT,
        enforce_sunset=True,
        exemptions=[Exemption("acme", until, "contract")],
    )
    environ = environ_of("GET", "/reports/7")
    notice = ask(policy, environ, identify=lambda _environ: "acme")
    assert notice is not None
    assert (notice.phase, notice.sunset_at) == (Phase.DEPRECATED, until)


def test_a_rewritten_request_has_a_notice() -> None:
    app = Asking()
    call(wrap(app), "GET", "/api/notification", "sessionId=x")
    (notice,) = app.notices
    assert notice is not None
    assert notice.operation == "current_user"


def test_a_layer_outside_of_a_closed_operation_has_the_notice() -> None:
    environ = environ_of("GET", PATH)
    assert run(wrap(policy=CLOSED), environ).code == 410
    notice = notice_of(environ)
    assert notice is not None
    assert notice.phase == "sunset"


def test_of_two_middlewares_the_inner_one_counts() -> None:
    app = Asking()
    inner = DeprecationMiddleware(app, {REPORT: POLICY}, clock=lambda: NOW)
    anything = Operation("all", "*", "/**")
    run(
        DeprecationMiddleware(inner, {anything: POLICY}),
        environ_of("GET", "/reports/7"),
    )
    assert app.notices == [NOTICE]


@pytest.mark.parametrize(
    "change",
    [
        {"REQUEST_METHOD": "POST"},
        {"PATH_INFO": "/reports/8"},
        {"SCRIPT_NAME": "/x"},
    ],
    ids=str,
)
def test_a_copy_for_another_request_has_no_notice(change: dict[str, str]) -> None:
    environ = environ_of("GET", "/reports/7")
    assert ask(POLICY, environ) == NOTICE
    assert notice_of(environ | change) is None
    mounted = environ | {"SCRIPT_NAME": "/reports", "PATH_INFO": "/7"}
    assert notice_of(mounted) == NOTICE


def test_a_notice_survives_a_deep_copy_and_holds_no_environ() -> None:
    environ = environ_of(
        "GET", "/reports/7", HTTP_AUTHORIZATION="Bearer s3cret-session"
    )
    notice = ask(POLICY, environ)
    served = environ["flask_notifications.served"]
    copied = deepcopy({**environ, "wsgi.errors": None, "wsgi.input": None})
    assert notice_of(copied) == deepcopy(notice) == NOTICE
    assert "s3cret" not in repr(served)


def test_what_is_no_environ_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^environ must be a WSGI environ"):
        notice_of(flask.Request(environ_of()))  # type: ignore[arg-type]


# The kill switch.

SUNSET = DeprecationPolicy(
    deprecated_at=DEPRECATED_AT,
    sunset_at=DEPRECATED_AT,
    enforce_sunset=True,
    exemptions=[Exemption("acme", SUNSET_AT, "contract")],
)
BROWNOUT = DeprecationPolicy(
    deprecated_at=DEPRECATED_AT, brownouts=[Brownout(NOW, NOW + timedelta(hours=1))]
)


@pytest.mark.parametrize("policy", [SUNSET, BROWNOUT])
@pytest.mark.parametrize(
    ("answer", "code"), [(False, 200), (True, 410), (None, 410), (0, 410)]
)
def test_a_switch_keeps_operations_open(policy: Any, answer: Any, code: int) -> None:
    asked: list[object] = []
    calls: list[Any] = []
    environ = environ_of("GET", "/reports/7")

    def closing() -> Any:
        asked.append(None)
        return answer

    app = DeprecationMiddleware(
        plain_app(),
        {REPORT: policy},
        clock=lambda: NOW,
        observers=[calls.append],
        identify=lambda environ: environ.get("HTTP_X_CALLER"),
        closing=closing,
    )
    response = run(app, environ)
    assert (response.code, calls[0].status, len(asked)) == (code, code, 1)
    assert (calls[0].phase == "deprecated") == (code == 200)
    assert response.all("Retry-After") == ["3600"] * (
        policy is BROWNOUT and code == 410
    )
    run(app, environ_of("GET", "/other"))
    assert len(asked) == 1


def test_a_switch_is_not_asked_for_an_exempt_caller() -> None:
    def closing() -> bool:
        raise AssertionError

    environ = environ_of("GET", "/reports/7")
    identify = lambda _environ: "acme"  # noqa: E731
    assert ask(SUNSET, environ, identify=identify, closing=closing) is not None


def test_a_switch_that_fails_is_logged_and_the_plan_counts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def closing() -> bool:
        raise LookupError

    app = wrap(policy=CLOSED, closing=closing)
    assert call(app, "GET", PATH).code == 410
    (record,) = caplog.records
    assert record.getMessage().startswith(f"closing {closing!r} failed: Traceback")


async def promise() -> bool:
    return False


@pytest.mark.parametrize("closing", [False, promise])
def test_a_switch_that_cannot_be_asked_is_refused(closing: Any) -> None:
    with pytest.raises(ValueError, match=r"^closing must be an ordinary function"):
        wrap(closing=closing)
