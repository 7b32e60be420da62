"""The middleware with a plan: each operation has its own policy, and nothing reaches a closed operation."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from flask_notifications import (
    NOTIFICATION_OPERATIONS,
    Brownout,
    DeprecationMiddleware,
    DeprecationPolicy,
    Operation,
    Use,
)
from tests.test_operations import LOOKALIKES
from tests.wsgi import Response, call, environ_of, plain_app, run

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

JANUARY, JULY = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC)
DEPRECATED = DeprecationPolicy(deprecated_at=JANUARY)
ENDED = DeprecationPolicy(deprecated_at=JANUARY, sunset_at=JULY, enforce_sunset=True, documentation="/retire")

USER = Operation("user", "GET", "/users/{id}/", "/v2/users/{id}")
ME = Operation("me", "GET", "/users/me/")
REPORT = Operation("report", "GET", "/reports", "/v2/reports")
PLAN = {USER: DEPRECATED, ME: None, REPORT: ENDED}


class Spy:
    """An application that keeps every environ that it receives."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
        self.seen.append(dict(environ))
        start_response("200 OK", [("Content-Type", "text/plain"), ("Deprecation", "the application's own")])
        return [b"rows"]


def send(path: str, at: datetime = JULY, method: str = "GET", app: Any = None, **options: Any) -> Response:
    middleware = DeprecationMiddleware(app or Spy(), PLAN, clock=lambda: at, **options)
    return run(middleware, environ_of(method, path))


def test_each_operation_of_a_plan_has_its_own_policy() -> None:
    assert (send("/users/7").code, send("/reports").code, send("/reports", JANUARY).code) == (200, 410, 200)
    assert send("/users/7").all("Sunset") == []
    assert send("/reports").one("Sunset") == "Wed, 01 Jul 2026 00:00:00 GMT"


def test_the_link_to_a_successor_has_the_parameters_of_the_request() -> None:
    assert send("/users/a;b c/").all("Link") == ['</v2/users/a%3Bb%20c>; rel="successor-version"']


@pytest.mark.parametrize("path", ["/users/me/", "/USERS/Me", "/users//me/", "/users/me/\n"])
def test_a_live_operation_inside_a_retired_one_passes_untouched(path: str) -> None:
    spy, uses, environ = Spy(), list[Use](), environ_of("GET", path)
    before = dict(environ)
    plan = {USER: ENDED, ME: None}
    response = run(DeprecationMiddleware(spy, plan, clock=lambda: JULY, observers=[uses.append]), environ)
    assert (response.code, response.one("Deprecation")) == (200, "the application's own")
    assert spy.seen == [before] == [environ]
    assert not uses


def test_one_policy_for_all_operations_is_a_plan_with_that_policy_for_each() -> None:
    operations = [USER, REPORT]
    alone = DeprecationMiddleware(plain_app(), ENDED, operations=operations, clock=lambda: JANUARY)
    plan = DeprecationMiddleware(plain_app(), dict.fromkeys(operations, ENDED), clock=lambda: JANUARY)
    for path in ("/users/7", "/reports", "/other"):
        assert call(alone, "GET", path).wire == call(plan, "GET", path).wire


def test_operations_beside_a_plan_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^operations must be left out beside a plan"):
        DeprecationMiddleware(plain_app(), PLAN, operations=[USER])
    with pytest.raises(ValueError, match=r"^operations must be left out beside a plan"):
        DeprecationMiddleware(plain_app(), PLAN, operations=NOTIFICATION_OPERATIONS)


# Closed operations.

CURRENT_USER = [
    ("GET", "/API/Notification/"),
    ("get", "/API/Notification/"),
    ("Head", "/api/notification"),
    *(("GET", case.values[0]) for case in LOOKALIKES),
    *(("get", case.values[0]) for case in LOOKALIKES[:3]),
]
ACCOUNT = [
    ("post", "/API/Notification/GetNotificationsForAccount/acc/"),
    ("POST", "//API/Notification/GetNotificationsForAccount/acc/"),
    ("POST", "/API/Notification//GetNotificationsForAccount/acc"),
    ("POST", "/API/Not\xc4\xb1fication/GetNotificationsForAccount/acc"),
]
BROWNOUT = DeprecationPolicy(deprecated_at=JANUARY, brownouts=[Brownout(JULY, datetime(2026, 7, 2, tzinfo=UTC))])


@pytest.mark.parametrize(("method", "path"), [*CURRENT_USER, *ACCOUNT])
@pytest.mark.parametrize(("policy", "code"), [(ENDED, "sunset"), (BROWNOUT, "brownout")])
def test_no_spelling_reaches_a_closed_operation(method: str, path: str, policy: DeprecationPolicy, code: str) -> None:
    spy = Spy()
    response = run(DeprecationMiddleware(spy, policy, clock=lambda: JULY), environ_of(method, path))
    assert (response.code, spy.seen) == (410, [])
    assert response.one("Cache-Control") == "no-store"
    assert response.all("Retry-After") == (["86400"] if code == "brownout" else [])
    if method != "Head":
        assert response.json["code"] == code
        assert response.json["successor"].startswith("/API/Notification/")


@pytest.mark.parametrize("case", LOOKALIKES)
@pytest.mark.parametrize("policy", [DEPRECATED, DeprecationPolicy(deprecated_at=JANUARY, sunset_at=JULY), ENDED])
def test_a_lookalike_of_an_open_operation_passes_untouched(case: str, policy: DeprecationPolicy) -> None:
    spy, environ = Spy(), environ_of("GET", case, "sessionId=a", RAW_URI="/?sessionId=a")
    before, uses = dict(environ), list[Use]()
    now = JANUARY if policy is ENDED else JULY
    response = run(DeprecationMiddleware(spy, policy, clock=lambda: now, observers=[uses.append]), environ)
    assert (response.code, response.one("Deprecation")) == (200, "the application's own")
    assert spy.seen == [before] == [environ]
    assert not uses


@pytest.mark.parametrize("case", LOOKALIKES)
def test_a_lookalike_of_a_closed_operation_is_refused_and_not_announced(case: str) -> None:
    environ, uses = environ_of("GET", case, "sessionId=a", RAW_URI="/?sessionId=a"), list[Use]()
    before = dict(environ)
    response = run(DeprecationMiddleware(Spy(), ENDED, clock=lambda: JULY, observers=[uses.append]), environ)
    assert response.code == 410
    assert not response.all("Deprecation") + response.all("Sunset") + response.all("Link")
    assert environ == before
    assert not uses


# Each with a closed operation and another one that matches the path itself, or when it is read leniently in all ways.
AMBIGUOUS = [
    pytest.param("/reports/", "/reports/{id}", "/reports/\xff", id="a byte that is not UTF-8 as the parameter"),
    pytest.param("/reports/", "/reports/{id}", "/reports/\n", id="a line feed as the parameter"),
    pytest.param("/reports/search", "/reports/{id}", "/reports/\xc5\xbfearch", id="a letter that folds"),
    pytest.param("/users/{id}", "/users/me", "//users/me ", id="two slashes and a space"),
    pytest.param("/users/{id}", "/users/me", "//users/me\xff", id="two slashes and a byte that is not UTF-8"),
    pytest.param("/items/{id}", "/items/me", "//items/ ", id="a space as the parameter"),
    pytest.param("/items/{id}", "/items/me", "//items/\xc2\xa0", id="a space that does not break as the parameter"),
    pytest.param("/items/{id}", "/items/me", "//items/. ", id="a dot segment with a space"),
    pytest.param("/kullan\u0131c\u0131", "/me", "//kullan\xc4\xb1c\xc4\xb1", id="a letter of the template folds"),
]


@pytest.mark.parametrize(("closed", "other", "path"), AMBIGUOUS)
@pytest.mark.parametrize("policy", [None, DEPRECATED], ids=["live", "deprecated"])
def test_a_lookalike_of_a_closed_operation_is_refused_although_another_one_matches(
    closed: str, other: str, path: str, policy: DeprecationPolicy | None
) -> None:
    plan = {Operation("closed", "GET", closed): ENDED, Operation("other", "GET", other): policy}
    assert call(DeprecationMiddleware(plain_app(), plan, clock=lambda: JULY), "GET", path).code == 410


def test_an_operation_is_no_lookalike_of_itself() -> None:
    uses = list[Use]()
    closed, other = Operation("closed", "GET", "/reports/{id}"), Operation("other", "GET", "/reports/{id}/more")
    app = DeprecationMiddleware(plain_app(), {closed: ENDED, other: ENDED}, clock=lambda: JULY, observers=[uses.append])
    assert call(app, "GET", "/reports/7 ").one("Deprecation") == "@1767225600"
    assert [use.operation for use in uses] == ["closed"]


@pytest.mark.parametrize(
    "path", ["/API/Notification2/", "/API/./Notification/", "/API/Notification;v=1/", "/caf\xc3\xa9//", "/\xff", "//"]
)
def test_every_other_path_passes_a_closed_middleware(path: str) -> None:
    spy = Spy()
    assert run(DeprecationMiddleware(spy, ENDED, clock=lambda: JULY), environ_of("GET", path)).code == 200
    assert len(spy.seen) == 1


def test_a_lookalike_is_refused_although_the_clock_fails() -> None:
    def clock() -> datetime:
        raise OSError

    past = DeprecationPolicy(deprecated_at=JANUARY, sunset_at=JANUARY, enforce_sunset=True)
    assert call(DeprecationMiddleware(plain_app(), past, clock=clock), "GET", "//API/Notification/").code == 410


def test_a_thousand_operations_of_a_plan_do_not_affect_each_other() -> None:
    plan = {
        Operation(f"op{number}", "GET", f"/v1/thing{number}/{{id}}"): (DEPRECATED, ENDED)[number % 2]
        for number in range(1000)
    }
    app = DeprecationMiddleware(plain_app(), plan, clock=lambda: JULY)
    statuses = [call(app, "GET", f"/V1/Thing{number}/x/").code for number in (0, 1, 2, 998, 999, 1000)]
    assert statuses == [200, 410, 200, 200, 410, 200]
