"""The test kit: the contract of storages, and the assertions about responses and plans."""

import io
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar
from unittest.mock import Mock
from wsgiref.types import WSGIApplication

import django.http
import flask
import httpx
import pytest
import requests
import werkzeug
from werkzeug.test import Client
from werkzeug.wrappers import Request, Response

from flask_notifications import (
    AccessDenied,
    AccountNotFound,
    DeprecationMiddleware,
    NotificationStorage,
    Operation,
    StorageError,
    StorageUnavailable,
    create_blueprint,
    load_plan,
)
from flask_notifications.dates import parse_deprecation, parse_sunset
from flask_notifications.plans.announcement import DeprecationHeaders
from flask_notifications.testing import (
    MemoryStorage,
    StorageContract,
    assert_deprecated,
    assert_plan_reaches,
)
from tests.middleware import DATE_ONLY, POLICY

DATA: dict[str, Any] = {
    "sessions": {"a1": "alice", "b2": "bob", "c3": "carol"},
    "notifications": {
        "alice": [{"id": 1}, {"id": Decimal("2.50")}],
        "bob": [b'{"id":3}'],
        "carol": [],
    },
    "administrators": ["carol"],
}


class Contract(StorageContract):
    session_id, other_session_id = "a1", "b2"
    administrator_session_id: ClassVar[str | None] = "c3"
    account_id, other_account_id = "alice", "bob"
    kind: ClassVar[type[MemoryStorage]] = MemoryStorage

    def make_storage(self) -> NotificationStorage[Any]:
        return self.kind(**DATA)


class Unreachable(MemoryStorage):
    def resolve_session(self, session_id: str) -> str | None:
        raise StorageUnavailable(session_id[:0])


class TestMemoryStorage(Contract):
    def make_unreachable_storage(self) -> NotificationStorage[Any]:
        return Unreachable(**DATA)


class TestMemoryStorageWithoutAdministrators(Contract):
    administrator_session_id = None


class AcceptsEverySession(MemoryStorage):
    def resolve_session(self, session_id: str) -> str | None:
        return super().resolve_session(session_id) or "alice"


class IgnoresTheCaller(MemoryStorage):
    def current_user_notifications(self, caller: str) -> Iterable[Any]:
        return super().current_user_notifications("alice" if caller else caller)


class MixesCallersThatTakeTurns(MemoryStorage):
    def current_user_notifications(self, caller: str) -> Iterator[Any]:
        self.last = caller
        for record in super().current_user_notifications(caller):
            if self.last == caller:
                yield record


def returning_nothing_for(refusal: type[StorageError]) -> type[MemoryStorage]:
    class ReturnsNothing(MemoryStorage):
        def account_notifications(self, caller: str, account_id: str) -> Iterable[Any]:
            try:
                return super().account_notifications(caller, account_id)
            except refusal:
                return []

    return ReturnsNothing


class RevealsWhichAccountsExist(MemoryStorage):
    def account_notifications(self, caller: str, account_id: str) -> Iterable[Any]:
        if account_id not in {"alice", "bob", "carol"}:
            raise AccountNotFound
        return super().account_notifications(caller, account_id)


class DeniesEvenAdministrators(MemoryStorage):
    def account_notifications(self, caller: str, account_id: str) -> Iterable[Any]:
        if caller != account_id:
            raise AccessDenied(caller)
        return super().account_notifications(caller, account_id)


class CannotBeReadTwice(MemoryStorage):
    def current_user_notifications(self, caller: str) -> Iterable[Any]:
        records: Iterator[Any] = vars(self).setdefault(
            caller, iter(super().current_user_notifications(caller))
        )
        return records


class BreaksWhenLeftUnread(MemoryStorage):
    broken = False

    def current_user_notifications(self, caller: str) -> Iterator[Any]:
        if self.broken:
            raise RuntimeError(caller)
        self.broken = True
        yield from super().current_user_notifications(caller)
        self.broken = False


class SharesRowsFromTheThirdCallOn(MemoryStorage):
    """Return another caller's rows, as between threads, but independently of their
    timing.
    """

    calls = 0

    def current_user_notifications(self, caller: str) -> Iterable[Any]:
        self.calls += 1
        return super().current_user_notifications("bob" if self.calls > 2 else caller)


class SwallowsExceptions(MemoryStorage):
    @contextmanager
    def unit_of_work(self) -> Iterator[NotificationStorage[str]]:
        with suppress(Exception):
            yield self


class YieldsNothing(MemoryStorage):
    @contextmanager
    def unit_of_work(self) -> Iterator[None]:
        yield


class IsBoundToOneCaller(MemoryStorage):
    @contextmanager
    def unit_of_work(self) -> Iterator[NotificationStorage[str]]:
        yield MemoryStorage(
            sessions={"a1": "alice", "b2": "alice"},
            notifications={"alice": [{"id": 1}]},
        )


class BreaksAfterAFailure(MemoryStorage):
    @contextmanager
    def unit_of_work(self) -> Iterator[NotificationStorage[str]]:
        try:
            yield self
        except AccessDenied:
            self._sessions.clear()
            raise


@pytest.mark.parametrize(
    ("wrong", "caught_by", "message"),
    [
        (AcceptsEverySession, "test_an_unknown_session_is_none", "must be unknown"),
        (
            IgnoresTheCaller,
            "test_callers_see_their_own_notifications",
            "must have different notifications",
        ),
        (
            MixesCallersThatTakeTurns,
            "test_threads_that_take_turns_do_not_mix",
            "of their own session",
        ),
        (
            returning_nothing_for(AccessDenied),
            "test_a_plain_caller_is_denied_a_foreign_account",
            "not []",
        ),
        (
            RevealsWhichAccountsExist,
            "test_a_plain_caller_does_not_learn_which_accounts_exist",
            "not AccountNotFound",
        ),
        (
            returning_nothing_for(AccountNotFound),
            "test_an_administrator_is_told_of_an_unknown_account",
            "not []",
        ),
        (
            DeniesEvenAdministrators,
            "test_an_administrator_sees_a_foreign_account",
            "carol",
        ),
        (
            CannotBeReadTwice,
            "test_a_session_leads_to_a_caller",
            "must lead to the same notifications",
        ),
        (BreaksWhenLeftUnread, "test_records_can_be_left_unread", "alice"),
        (
            SharesRowsFromTheThirdCallOn,
            "test_threads_do_not_mix",
            "of their own session",
        ),
        (SwallowsExceptions, "test_a_unit_of_work_changes_no_response", "not None"),
        (
            YieldsNothing,
            "test_a_unit_of_work_changes_no_response",
            "must yield the storage to use, not None",
        ),
        (
            IsBoundToOneCaller,
            "test_a_unit_of_work_changes_no_response",
            "must know the session that it is asked for",
        ),
        (
            BreaksAfterAFailure,
            "test_a_unit_of_work_changes_no_response",
            "must know the session 'a1'",
        ),
        (
            MemoryStorage,
            "test_a_storage_out_of_reach_says_so",
            "StorageUnavailable expected",
        ),
    ],
)
def test_a_wrong_storage_fails_for_the_right_reason(
    wrong: type[MemoryStorage], caught_by: str, message: str
) -> None:
    class Checked(Contract):
        kind = wrong
        make_unreachable_storage = Contract.make_storage

    with pytest.raises(
        (AssertionError, StorageError, RuntimeError), match=re.escape(message)
    ):
        getattr(Checked(), caught_by)()


def test_a_string_of_administrators_does_not_allow_its_letters() -> None:
    with pytest.raises(ValueError, match=r"^administrators must be "):
        MemoryStorage(sessions={}, notifications={}, administrators="carol")


def test_a_contract_without_a_storage_raises_not_implemented() -> None:
    with pytest.raises(NotImplementedError):
        StorageContract().make_storage()


REPORT = Operation("report", "GET", "/report", successor="/v2/report")
LIVE = Operation("live", "GET", "/report/live")
PLAN = {REPORT: POLICY, LIVE: None}
ANNOUNCED = DeprecationHeaders(POLICY).render(REPORT.successor, "")

Headers = list[tuple[str, str]]


def requests_response(headers: Headers) -> Any:
    response = requests.Response()
    response.headers.update(httpx.Headers(headers))  # one value per name
    return response


def django_response(headers: Headers) -> Any:
    joined = dict(httpx.Headers(headers))
    return django.http.HttpResponseBase(
        headers=joined, content_type="text/plain", charset="utf-8"
    )


RESPONSES = [
    werkzeug.Response,
    requests_response,
    partial(httpx.Response, 200),
    django_response,
]


@pytest.fixture(params=RESPONSES, ids=["werkzeug", "requests", "httpx", "django"])
def response_of(request: pytest.FixtureRequest) -> Any:
    return lambda headers: request.param(headers=headers)


def without(name: str) -> Headers:
    return [header for header in ANNOUNCED if header[0] != name]


def test_the_headers_of_the_middleware_pass(response_of: Any) -> None:
    assert_deprecated(response_of(ANNOUNCED), PLAN, REPORT)


@pytest.mark.parametrize(
    ("path", "successor", "parameters", "called"),
    [
        ("/reports/{id}", "/v2/{id}", {"id": "\u20ac"}, "/reports/\u20ac"),
        ("/v1/**", "/**", {"**": ""}, "/v1"),
        ("/reports", None, None, "/reports"),
    ],
)
def test_a_successor_is_that_of_the_request(
    path: str, successor: str | None, parameters: dict[str, str] | None, called: str
) -> None:
    own = Operation("own", "GET", path, successor)
    response = Client(DeprecationMiddleware(Response(), {own: POLICY})).get(called)
    assert_deprecated(response, {own: POLICY}, own, parameters=parameters)


@pytest.mark.parametrize(
    ("headers", "differs"),
    [
        pytest.param([], "Deprecation", id="nothing"),
        pytest.param(without("Sunset"), "Sunset", id="no sunset"),
        pytest.param(without("Link"), "Link", id="no links"),
        pytest.param(
            [*without("Deprecation"), ("Deprecation", "true")],
            "Deprecation",
            id="an old draft's true",
        ),
        pytest.param(
            [*without("Sunset"), ("Sunset", "Thu, 01 Jan 2027 00:00:00 GMT")],
            "Sunset",
            id="wrong weekday",
        ),
        pytest.param(
            [*ANNOUNCED, *[header for header in ANNOUNCED if header[0] == "Link"]],
            "Link",
            id="links twice",
        ),
    ],
)
def test_the_error_names_the_header_that_differs(
    response_of: Any, headers: Headers, differs: str
) -> None:
    with pytest.raises(AssertionError, match=differs):
        assert_deprecated(response_of(headers), PLAN, REPORT)


def test_a_live_operation_must_not_announce_a_date(response_of: Any) -> None:
    assert_deprecated(response_of([]), PLAN, LIVE)
    with pytest.raises(AssertionError, match="Deprecation"):
        assert_deprecated(response_of(ANNOUNCED), PLAN, LIVE)


@pytest.mark.parametrize(
    ("check", "argument", "values", "expected"),
    [
        (
            assert_deprecated,
            "operation",
            [Operation("own", "GET", "/own"), []],
            "an operation of the plan",
        ),
        (assert_deprecated, "base_url", ["/erp", 1], "a"),
        (
            assert_deprecated,
            "parameters",
            [{"id": 7}, {7: "id"}, "id=7"],
            "a mapping of names to strings",
        ),
        (assert_deprecated, "mount", [None], "a path as a string"),
        (assert_plan_reaches, "plan", [{}], "a plan with at least one operation"),
        (
            assert_plan_reaches,
            "parameters",
            [{"id": 7}, ["id"]],
            "a mapping of names to strings",
        ),
        (
            assert_plan_reaches,
            "headers",
            [{"Age": 7}, [("Age", "7")]],
            "a mapping of names to strings",
        ),
    ],
)
def test_an_invalid_argument_is_refused_by_name(
    check: Any, argument: str, values: list[Any], expected: str
) -> None:
    target = werkzeug.Response() if check is assert_deprecated else _dispatching
    others = {"operation": REPORT} if check is assert_deprecated else {}
    for value in values:
        with pytest.raises(ValueError, match=f"^{argument} must be {expected}"):
            check(target, **{"plan": PLAN, **others, argument: value})


@pytest.mark.parametrize(
    ("parse", "value", "date"),
    [
        (parse_deprecation, "@-1", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (
            parse_deprecation,
            "  @1688169599 ",
            datetime(2023, 6, 30, 23, 59, 59, tzinfo=UTC),
        ),
        (parse_deprecation, "@-62135596800", datetime(1, 1, 1, tzinfo=UTC)),
        (
            parse_deprecation,
            "@253402300799",
            datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
        ),
        (
            parse_sunset,
            "Wed, 11 Nov 2026 11:11:11 GMT",
            datetime(2026, 11, 11, 11, 11, 11, tzinfo=UTC),
        ),
    ],
)
def test_a_date_is_read(
    parse: Callable[[str], datetime], value: str, date: datetime
) -> None:
    assert parse(value) == date


NO_STRUCTURED_DATES = [
    "@-",
    "@1.5",
    "@1234567890123456",
    "@999999999999999",
    "1688169599",
    '"@1"',
    "@1, @2",
    "@1\n",
]
NO_FIXDATES = (
    *(
        "Sun, 30 Jun 2024 23:59:59 UTC",
        "Sat, 31 Dec 2018 23:59:59 GMT",
        "Wed, 1 Nov 2026 11:11:11 GMT",
    ),
    *(
        "Wednesday, 11-Nov-26 11:11:11 GMT",
        "Wed, 11 Nov 2026 25:11:11 GMT",
        "wed, 11 nov 2026 11:11:11 gmt",
    ),
)


@pytest.mark.parametrize(
    ("parse", "header", "value"),
    [
        *(
            (parse_deprecation, "Deprecation", value)
            for value in (*NO_STRUCTURED_DATES, None)
        ),
        *((parse_sunset, "Sunset", value) for value in NO_FIXDATES),
    ],
)
def test_anything_else_is_not_a_date(
    parse: Callable[[Any], datetime], header: str, value: Any
) -> None:
    with pytest.raises(ValueError, match=header):
        parse(value)


USERS = {"1", "a b \u20ac"}


@pytest.fixture
def app() -> flask.Flask:
    app = flask.Flask("shop")
    app.add_url_rule("/reports/<int:id>", "report", lambda **_values: "a report")
    app.add_url_rule(
        "/users/<name>/",
        "user",
        lambda name: "a user" if name in USERS else flask.abort(404),
    )
    app.add_url_rule("/broken", "broken", lambda: str(1 / 0))
    app.add_url_rule("/paged", "paged", lambda: flask.redirect("/paged?page=1"))
    app.add_url_rule(
        "/mine",
        "mine",
        lambda: "mine" if flask.request.authorization else flask.abort(404),
    )
    return app


OWN = werkzeug.datastructures.Headers({"Authorization": "Bearer a"})


@pytest.mark.parametrize(
    ("operation", "options"),
    [
        pytest.param(Operation("a", "GET", "/reports/{id}"), {}, id="a number"),
        pytest.param(
            Operation("a", "GET", "/users/{user}/"),
            {"parameters": {"user": "a b \u20ac"}},
            id="any string",
        ),
        pytest.param(Operation("a", "GET", "/broken"), {}, id="a view that fails"),
        pytest.param(
            Operation("a", "GET", "/paged"), {}, id="a view that redirects to itself"
        ),
        pytest.param(
            Operation("a", "GET", "/mine"),
            {"headers": {"Authorization": "Bearer a"}},
            id="with a header",
        ),
        pytest.param(
            Operation("a", "GET", "/mine"), {"headers": OWN}, id="Headers of Werkzeug"
        ),
        pytest.param(
            Operation("a", "GET", "/reports/{id}"),
            {"mount": "/v1"},
            id="a mounted application",
        ),
    ],
)
def test_an_operation_with_a_view_passes(
    app: flask.Flask, operation: Operation, options: dict[str, Any]
) -> None:
    assert_plan_reaches(app, {operation: None}, **options)


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        pytest.param(
            Operation("a", "GET", "/report/{id}"),
            "a (GET /report/1): the status is 404",
            id="misspelled",
        ),
        pytest.param(
            Operation("a", "POST", "/reports/{id}"),
            "a (POST /reports/1): the status is 405",
            id="method",
        ),
        pytest.param(
            Operation("a", "GET", "/users/{user}"),
            "it redirects to the spelling /users/1/",
            id="no slash",
        ),
        pytest.param(
            Operation("a", "GET", "/mine"),
            "the status is 404",
            id="a view without its header",
        ),
    ],
)
def test_an_operation_without_a_view_is_listed_with_the_reason(
    app: Any, operation: Operation, reason: str
) -> None:
    with pytest.raises(AssertionError, match=re.escape(reason)):
        assert_plan_reaches(app, {operation: None})


OLD_LIST, OLD_ITEM = (
    Operation("list", "GET", "/old_list"),
    Operation("item", "GET", "/items/{id}"),
)


def serving(*paths: str, body: str = "a view") -> WSGIApplication:
    @Request.application
    def app(request: Request) -> Response:
        return Response(
            body or request.full_path, 200 if request.path in paths else 404
        )

    return app


@pytest.mark.parametrize(
    ("operation", "other"),
    [
        *(
            (OLD_LIST, path)
            for path in (
                "/old_list.json",
                "/old-list",
                "/old.list",
                "/@@old_list",
                "/+old_list",
            )
        ),
        *(
            (OLD_LIST, path)
            for path in ("/old_list/index", "/old_list/+", "/old_list/x")
        ),
        (OLD_ITEM, "/items/"),
        (OLD_ITEM, "/items/1/x"),
        (Operation("list", "GET", "/old_list/"), "/old_list.json"),
    ],
)
def test_another_path_that_reaches_the_view_is_listed_unless_the_plan_has_it(
    operation: Operation, other: str
) -> None:
    app = serving(operation.path.format(id="1"), other)
    with pytest.raises(
        AssertionError, match=f"no deprecated operation matches GET {re.escape(other)}"
    ):
        assert_plan_reaches(app, {operation: DATE_ONLY})
    for policy in (None, DATE_ONLY):
        assert_plan_reaches(
            app, {operation: DATE_ONLY, Operation("other", "GET", other): policy}
        )
    assert_plan_reaches(app, {operation: None})


def test_another_path_that_a_live_operation_matches_too_is_listed_unless_its_view_may_have_responded() -> (
    None
):
    plan = {
        Operation("me", "GET", "/users/me"): DATE_ONLY,
        Operation("user", "GET", "/users/{id}"): None,
    }
    views = ("/users/me", "/users/me.json", "/users/1")
    with pytest.raises(
        AssertionError, match=r"no deprecated operation matches GET /users/me\.json"
    ):
        assert_plan_reaches(serving(*views), plan)
    assert_plan_reaches(serving(*views, "/users/flask-notifications"), plan)
    assert_plan_reaches(serving(*views, body=""), plan)


CAFE = Operation("item", "GET", "/caf\u00e9/{id}")
UNLISTED: dict[str, tuple[WSGIApplication, Operation]] = {
    "a view of its own, without the parameter": (
        serving("/items/1", "/items/", body=""),
        OLD_ITEM,
    ),
    "a view of its own, with a segment more": (
        serving("/items/1", "/items/1/x", body=""),
        OLD_ITEM,
    ),
    "a path that the operation matches itself": (
        serving("/caf\u00e9/1", "/caf\u00e9/1.json"),
        CAFE,
    ),
    "any path beside the root": (
        serving("/", "/x", "/index"),
        Operation("root", "GET", "/"),
    ),
}


@pytest.mark.parametrize(("app", "operation"), UNLISTED.values(), ids=UNLISTED)
def test_a_path_that_reaches_another_view_or_the_operation_is_not_listed(
    app: Any, operation: Operation
) -> None:
    assert_plan_reaches(app, {operation: DATE_ONLY})


def test_an_application_that_always_fails_has_no_view() -> None:
    reason = "item (GET /items/1): it raises RuntimeError(), as /flask-notifications/without-a-view does"
    with pytest.raises(AssertionError, match=re.escape(reason)):
        assert_plan_reaches(Mock(side_effect=RuntimeError), {OLD_ITEM: None})


def test_the_blueprint_serves_the_operations_at_its_own_prefix_only() -> None:
    app = flask.Flask("shop")
    app.register_blueprint(
        create_blueprint(MemoryStorage(sessions={}, notifications={}), url_prefix="/v1")
    )
    assert_plan_reaches(
        app, load_plan({"deprecated_at": "2026-01-01T00:00:00Z", "prefix": "/v1"})
    )
    with pytest.raises(AssertionError, match=r"current_user .* account "):
        assert_plan_reaches(app, load_plan({"deprecated_at": "2026-01-01T00:00:00Z"}))


@pytest.mark.parametrize("status", [200, 301, 400, 401])
def test_a_response_that_every_path_gets_is_no_view(
    app: flask.Flask, status: int
) -> None:
    @app.before_request
    def respond() -> flask.Response:
        return flask.Response(
            "the same", status, {"Location": f"https://localhost{flask.request.path}"}
        )

    reason = f"a (GET /reports/1): the status is {status}, as for /flask-notifications/without-a-view"
    with pytest.raises(AssertionError, match=re.escape(reason)):
        assert_plan_reaches(app, {Operation("a", "GET", "/reports/{id}"): None})


def test_a_view_beside_a_route_for_every_path_passes(app: flask.Flask) -> None:
    app.add_url_rule("/<path:path>", "page", lambda path: f"the page {path}")
    assert_plan_reaches(app, {Operation("a", "GET", "/reports/{id}"): None})


def test_the_body_is_read_to_the_end_and_closed() -> None:
    bodies: list[io.BytesIO] = []

    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [])
        bodies.append(io.BytesIO(environ["PATH_INFO"].encode()))
        return bodies[-1]

    assert_plan_reaches(app, {Operation("a", "GET", "/a"): None})
    assert [body.closed for body in bodies] == [True, True]


@Request.application
def _dispatching(request: Request) -> Response:
    """Respond as applications do that choose a view by a parameter or a header, and
    read them from elsewhere too.
    """
    method = request.headers.get("X-HTTP-Method-Override", request.method)
    parameters = request.values.to_dict()
    if request.path == "/semicolons":
        parameters = dict(
            pair.partition("=")[::2]
            for pair in re.split("[&;]", request.query_string.decode())
        )
    if request.path == "/query":
        parameters = request.args.to_dict()
    version = request.headers.get("API-Version", "1")
    found = {
        **dict.fromkeys(
            ("/form", "/query", "/semicolons"), parameters.get("cmd") == "x"
        ),
        "/version": version == "1",
        "/delete": method == "DELETE",
        "/v1/reports": True,
    }
    return Response(
        "the old one" if found.get(request.path) else "another",
        200 if request.path in found else 404,
    )


@pytest.mark.parametrize(
    ("operation", "escape"),
    [
        pytest.param(
            Operation("a", "GET", "/form", query={"cmd": "x"}),
            "POST /form with cmd=x",
            id="a form",
        ),
        pytest.param(
            Operation("a", "GET", "/semicolons", query={"cmd": "x"}),
            "GET /semicolons?x=1;cmd=x",
            id=";",
        ),
        pytest.param(
            Operation("a", "GET", "/version", headers={"API-Version": "1"}),
            "GET /version",
            id="default",
        ),
        (
            Operation("a", "DELETE", "/delete"),
            "POST /delete with X-HTTP-Method-Override: DELETE",
        ),
    ],
)
def test_what_escapes_a_condition_is_reported(
    operation: Operation, escape: str
) -> None:
    with pytest.raises(
        AssertionError, match=f"^no deprecated operation matches {re.escape(escape)}, "
    ):
        assert_plan_reaches(_dispatching, {operation: DATE_ONLY})


def test_conditions_that_nothing_escapes_pass() -> None:
    by_query = Operation("a", "GET", "/query", query={"cmd": "x"})
    by_header_or_default = Operation(
        "b", "GET", "/version", headers={"API-Version": ["1", ""]}
    )
    assert_plan_reaches(
        _dispatching, dict.fromkeys([by_query, by_header_or_default], DATE_ONLY)
    )


@pytest.mark.parametrize(
    "parameters",
    [{"/v1/**": "/reports"}, {"**": "reports"}, {"/v1/**": "reports", "**": "/x"}],
    ids=repr,
)
def test_a_version_is_called_at_a_path_below_it(parameters: dict[str, str]) -> None:
    version = Operation("v1", "*", "/v1/**")
    assert_plan_reaches(_dispatching, {version: None}, parameters=parameters)
    advice = "v1 (GET /v1): the status is 404; name a path below it, as in parameters={'/v1/**': '/reports'}"
    with pytest.raises(AssertionError, match=re.escape(advice)):
        assert_plan_reaches(_dispatching, {version: None})
