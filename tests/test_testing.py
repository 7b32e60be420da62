"""The test kit: the contract of storages, and the assertion about plans."""

import io
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from decimal import Decimal
from itertools import product
from typing import Any, ClassVar
from unittest.mock import Mock
from wsgiref.types import WSGIApplication

import flask
import pytest
import werkzeug
from werkzeug.wrappers import Request, Response

from flask_notifications import (
    AccessDenied,
    AccountNotFound,
    NotificationStorage,
    Operation,
    StorageError,
    StorageUnavailable,
    create_blueprint,
    notification_operations,
)
from flask_notifications.dates import parse_deprecation, parse_sunset
from flask_notifications.testing import (
    MemoryStorage,
    StorageContract,
    assert_plan_reaches,
)
from tests.middleware import DATE_ONLY

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


UNITS = "test_a_unit_of_work_changes_no_response"
FOREIGN = "test_a_plain_caller_is_denied_a_foreign_account"
UNKNOWN = "test_an_administrator_is_told_of_an_unknown_account"
EXISTING = "test_a_plain_caller_does_not_learn_which_accounts_exist"
OWN_SESSION = "of their own session"
# A storage, the test of the contract that fails for it, and the message.
WRONG_STORAGES = [
    (AcceptsEverySession, "test_an_unknown_session_is_none", "must be unknown"),
    (IgnoresTheCaller, "test_callers_see_their_own_notifications", "must have diff"),
    (
        MixesCallersThatTakeTurns,
        "test_threads_that_take_turns_do_not_mix",
        OWN_SESSION,
    ),
    (returning_nothing_for(AccessDenied), FOREIGN, "not []"),
    (RevealsWhichAccountsExist, EXISTING, "not AccountNotFound"),
    (returning_nothing_for(AccountNotFound), UNKNOWN, "not []"),
    (
        DeniesEvenAdministrators,
        "test_an_administrator_sees_a_foreign_account",
        "carol",
    ),
    (CannotBeReadTwice, "test_a_session_leads_to_a_caller", "to the same notif"),
    (BreaksWhenLeftUnread, "test_records_can_be_left_unread", "alice"),
    (SharesRowsFromTheThirdCallOn, "test_threads_do_not_mix", OWN_SESSION),
    (SwallowsExceptions, UNITS, "not None"),
    (YieldsNothing, UNITS, "must yield the storage to use, not None"),
    (IsBoundToOneCaller, UNITS, "must know the session that it is asked for"),
    (BreaksAfterAFailure, UNITS, "must know the session 'a1'"),
    (MemoryStorage, "test_a_storage_out_of_reach_says_so", "Unavailable expected"),
]


@pytest.mark.parametrize(("wrong", "caught_by", "message"), WRONG_STORAGES)
def test_a_wrong_storage_fails_for_the_right_reason(
    wrong: type[MemoryStorage], caught_by: str, message: str
) -> None:
    class Checked(Contract):
        kind = wrong
        make_unreachable_storage = Contract.make_storage

    expected = (AssertionError, StorageError, RuntimeError)
    with pytest.raises(expected, match=re.escape(message)):
        getattr(Checked(), caught_by)()


def test_a_string_of_administrators_does_not_allow_its_letters() -> None:
    with pytest.raises(ValueError, match=r"^administrators must be "):
        MemoryStorage(sessions={}, notifications={}, administrators="carol")


def test_a_contract_without_a_storage_raises_not_implemented() -> None:
    with pytest.raises(NotImplementedError):
        StorageContract().make_storage()


NAMES = "a mapping of names to strings"


@pytest.mark.parametrize(
    ("argument", "value", "expected"),
    [
        ("plan", {}, "a plan with at least one operation"),
        ("parameters", ["id"], NAMES),
        ("parameters", {"id": 7}, NAMES),
        ("mount", None, "a path as a string"),
        ("headers", [("Age", "7")], NAMES),
    ],
)
def test_an_invalid_argument_of_assert_plan_reaches_is_refused_by_name(
    argument: str, value: Any, expected: str
) -> None:
    plan = {Operation("report", "GET", "/report"): DATE_ONLY}
    arguments = {"plan": plan, argument: value}
    with pytest.raises(ValueError, match=f"^{argument} must be {expected}"):
        assert_plan_reaches(_dispatching, **arguments)


@pytest.mark.parametrize(
    ("value", "date"),
    [
        ("@-1", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("  @1688169599 ", datetime(2023, 6, 30, 23, 59, 59, tzinfo=UTC)),
        ("@-62135596800", datetime(1, 1, 1, tzinfo=UTC)),
        ("@253402300799", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_a_structured_date_is_read(value: str, date: datetime) -> None:
    assert parse_deprecation(value) == date


NO_STRUCTURED_DATES = ["@-", "@1.5", "@1234567890123456", "1", '"@1"', "@1, @2"]
NO_FIXDATES = [
    "Sun, 30 Jun 2024 23:59:59 UTC",
    "Sat, 31 Dec 2018 23:59:59 GMT",
    "Wed, 1 Nov 2026 11:11:11 GMT",
    "Wednesday, 11-Nov-26 11:11:11 GMT",
    "Wed, 11 Nov 2026 25:11:11 GMT",
    "wed, 11 nov 2026 11:11:11 gmt",
]


@pytest.mark.parametrize(
    "value", [*NO_STRUCTURED_DATES, "@999999999999999", "@1\n", None]
)
def test_anything_else_is_no_structured_date(value: Any) -> None:
    with pytest.raises(ValueError, match="Deprecation"):
        parse_deprecation(value)


@pytest.mark.parametrize("value", NO_FIXDATES)
def test_anything_else_is_no_imf_fixdate(value: str) -> None:
    with pytest.raises(ValueError, match="Sunset"):
        parse_sunset(value)


@pytest.fixture
def app() -> flask.Flask:
    app = flask.Flask("shop")
    app.add_url_rule("/reports/<int:id>", "report", lambda **_values: "a report")
    app.add_url_rule("/broken", "broken", lambda: str(1 / 0))
    app.add_url_rule("/paged", "paged", lambda: flask.redirect("/paged?page=1"))

    @app.route("/users/<name>/")
    def user(name: str) -> str:
        if name not in {"1", "a b \u20ac"}:
            flask.abort(404)
        return "a user"

    @app.route("/mine")
    def mine() -> str:
        if not flask.request.authorization:
            flask.abort(404)
        return "mine"

    return app


AUTHORIZATION = {"Authorization": "Bearer a"}
WERKZEUG_HEADERS = werkzeug.datastructures.Headers(AUTHORIZATION)


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("/reports/{id}", {}),
        ("/users/{user}/", {"parameters": {"user": "a b \u20ac"}}),
        ("/broken", {}),
        ("/paged", {}),
        ("/mine", {"headers": AUTHORIZATION}),
        ("/mine", {"headers": WERKZEUG_HEADERS}),
        ("/reports/{id}", {"mount": "/v1"}),
    ],
)
def test_an_operation_with_a_view_passes(
    app: flask.Flask, path: str, options: dict[str, Any]
) -> None:
    assert_plan_reaches(app, {Operation("a", "GET", path): None}, **options)


@pytest.mark.parametrize(
    ("method", "path", "reason"),
    [
        ("GET", "/report/{id}", "a (GET /report/1): the status is 404"),
        ("POST", "/reports/{id}", "a (POST /reports/1): the status is 405"),
        ("GET", "/users/{user}", "it redirects to the spelling /users/1/"),
    ],
)
def test_an_operation_without_a_view_is_listed_with_the_reason(
    app: Any, method: str, path: str, reason: str
) -> None:
    with pytest.raises(AssertionError, match=re.escape(reason)):
        assert_plan_reaches(app, {Operation("a", method, path): None})


OLD_LIST = Operation("list", "GET", "/old_list")
OLD_ITEM = Operation("item", "GET", "/items/{id}")
WITH_A_SLASH = Operation("list", "GET", "/old_list/")


def serving(*paths: str, body: str = "a view") -> WSGIApplication:
    @Request.application
    def app(request: Request) -> Response:
        if request.path in paths:
            return Response(body or request.full_path)
        return Response(body or request.full_path, 404)

    return app


LIST_SPELLINGS = [
    "/old_list.json",
    "/old_list.view",
    "/old-list",
    "/old.list",
    "/@@old_list",
]
LIST_SPELLINGS += ["/+old_list", "/old_list/index", "/old_list/+", "/old_list/x"]


@pytest.mark.parametrize(
    ("operation", "spelling"),
    [
        *product([OLD_LIST], LIST_SPELLINGS),
        (OLD_ITEM, "/items/"),
        (OLD_ITEM, "/items/1/x"),
        (WITH_A_SLASH, "/old_list.json"),
    ],
)
def test_another_path_that_reaches_the_view_is_listed_unless_the_plan_has_it(
    operation: Operation, spelling: str
) -> None:
    app = serving(operation.path.format(id="1"), spelling)
    message = f"no deprecated operation matches GET {re.escape(spelling)}"
    with pytest.raises(AssertionError, match=message):
        assert_plan_reaches(app, {operation: DATE_ONLY})
    listed = Operation("listed", "GET", spelling)
    for policy in (None, DATE_ONLY):
        assert_plan_reaches(app, {operation: DATE_ONLY, listed: policy})
    assert_plan_reaches(app, {operation: None})


def test_letters_that_are_not_ascii_are_tried_in_another_case() -> None:
    app = serving("/caf\u00e9", "/CAF\u00c9")
    message = "no deprecated operation matches GET /CAF%C3%89, "
    with pytest.raises(AssertionError, match=message):
        assert_plan_reaches(app, {Operation("a", "GET", "/caf%C3%A9"): DATE_ONLY})


def test_another_path_that_a_live_operation_matches_is_listed() -> None:
    """Unless the view of the live operation may have responded."""
    plan = {
        Operation("me", "GET", "/users/me"): DATE_ONLY,
        Operation("user", "GET", "/users/{id}"): None,
    }
    views = ("/users/me", "/users/me.json", "/users/1")
    message = r"no deprecated operation matches GET /users/me\.json"
    with pytest.raises(AssertionError, match=message):
        assert_plan_reaches(serving(*views), plan)
    assert_plan_reaches(serving(*views, "/users/flask-notifications"), plan)
    assert_plan_reaches(serving(*views, body=""), plan)


CAFE = Operation("item", "GET", "/caf\u00e9/{id}")


@pytest.mark.parametrize(
    ("app", "operation"),
    [
        (serving("/items/1", "/items/", body=""), OLD_ITEM),
        (serving("/items/1", "/items/1/x", body=""), OLD_ITEM),
        (serving("/caf\u00e9/1", "/caf\u00e9/1.json"), CAFE),
        (serving("/", "/x", "/index"), Operation("root", "GET", "/")),
    ],
    ids=["no parameter", "a segment more", "the operation", "any path beside the root"],
)
def test_a_path_that_reaches_another_view_or_the_operation_is_not_listed(
    app: Any, operation: Operation
) -> None:
    assert_plan_reaches(app, {operation: DATE_ONLY})


def test_an_application_that_always_fails_has_no_view() -> None:
    reason = "it raises RuntimeError(), as /flask-notifications/without-a-view does"
    with pytest.raises(AssertionError, match=re.escape(reason)):
        assert_plan_reaches(Mock(side_effect=RuntimeError), {OLD_ITEM: None})


def test_the_blueprint_serves_the_operations_at_its_own_prefix_only() -> None:
    app = flask.Flask("shop")
    storage = MemoryStorage(sessions={}, notifications={})
    app.register_blueprint(create_blueprint(storage, url_prefix="/v1"))
    assert_plan_reaches(app, dict.fromkeys(notification_operations("/v1"), DATE_ONLY))
    plan = dict.fromkeys(notification_operations(), DATE_ONLY)
    with pytest.raises(AssertionError, match=r"current_user .* account "):
        assert_plan_reaches(app, plan)


@pytest.mark.parametrize("status", [200, 301, 401])
def test_a_response_that_every_path_gets_is_no_view(
    app: flask.Flask, status: int
) -> None:
    @app.before_request
    def respond() -> flask.Response:
        headers = {"Location": f"https://localhost{flask.request.path}"}
        return flask.Response("the same", status, headers)

    reason = f"the status is {status}, as for /flask-notifications/without-a-view"
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
    pairs = re.split("[&;]", request.query_string.decode())
    chosen = {
        "/form": request.values.get("cmd") == "x",
        "/query": request.args.get("cmd") == "x",
        "/semicolons": "cmd=x" in pairs,
        "/version": request.headers.get("API-Version", "1") == "1",
        "/delete": method == "DELETE",
        "/v1/reports": True,
    }
    if request.path not in chosen:
        return Response("another", 404)
    return Response(f"chosen: {chosen[request.path]}")


CMD: dict[str, Any] = {"query": {"cmd": "x"}}
ESCAPING: dict[str, Operation] = {
    "POST /form with cmd=x": Operation("a", "GET", "/form", **CMD),
    "GET /semicolons?x=1;cmd=x": Operation("a", "GET", "/semicolons", **CMD),
    "GET /version": Operation("a", "GET", "/version", headers={"API-Version": "1"}),
    "POST /delete with X-HTTP-Method-Override: DELETE": Operation(
        "a", "DELETE", "/delete"
    ),
}


@pytest.mark.parametrize("escape", ESCAPING)
def test_what_escapes_a_condition_is_reported(escape: str) -> None:
    message = f"^no deprecated operation matches {re.escape(escape)}, "
    with pytest.raises(AssertionError, match=message):
        assert_plan_reaches(_dispatching, {ESCAPING[escape]: DATE_ONLY})


def test_conditions_that_nothing_escapes_pass() -> None:
    headers = {"API-Version": ["1", ""]}
    plan = {
        Operation("by query", "GET", "/query", query={"cmd": "x"}): DATE_ONLY,
        Operation("or default", "GET", "/version", headers=headers): DATE_ONLY,
    }
    assert_plan_reaches(_dispatching, plan)


@pytest.mark.parametrize(
    "parameters",
    [{"**": "reports"}, {"/v1/**": "/reports", "**": "/x"}],
)
def test_a_version_is_called_at_a_path_below_it(parameters: dict[str, str]) -> None:
    version = Operation("v1", "*", "/v1/**")
    assert_plan_reaches(_dispatching, {version: None}, parameters=parameters)
    advice = "name a path below it, as in parameters={'/v1/**': '/reports'}"
    with pytest.raises(AssertionError, match=re.escape(advice)):
        assert_plan_reaches(_dispatching, {version: None})
