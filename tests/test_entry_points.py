"""Every response is the same through both entry points, with and without the
middleware.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from typing import Any, BinaryIO
from wsgiref.types import WSGIApplication
from wsgiref.util import FileWrapper

import pytest
from marshmallow import Schema, fields

from flask_notifications import (
    AccessDenied,
    AccountNotFound,
    Brownout,
    DeprecationMiddleware,
    DeprecationPolicy,
    NotificationApp,
    Operation,
    Statuses,
    StorageUnavailable,
    notification_operations,
)
from tests.middleware import ANNOUNCED
from tests.storages import (
    ACCOUNT,
    BEARER,
    CURRENT_USER,
    ENTRY_POINTS,
    SECRET,
    SESSION_ID,
    OneSession,
    Source,
    raising,
    rows,
)
from tests.wsgi import Response, call, environ_of, run

COMMON_HEADERS = [
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Vary", "Authorization"),
]
CHALLENGE = 'Bearer realm="notifications"'
BARE_CHALLENGE = ("WWW-Authenticate", CHALLENGE)
INVALID_TOKEN = ("WWW-Authenticate", f'{CHALLENGE}, error="invalid_token"')
INVALID_REQUEST = ("WWW-Authenticate", f'{CHALLENGE}, error="invalid_request"')
DATE, SUNSET_DATE, (LINK, LINKS) = ANNOUNCED
OF_AN_ACCOUNT = [DATE, SUNSET_DATE, (LINK, LINKS.replace("CurrentUser", "Account"))]

A, B = SESSION_ID, "another"
OF_ALICE, LONG = ACCOUNT.format("alice"), "x" * 513
FOR_ALICE: dict[str, Any] = {"method": "POST", "path": OF_ALICE}
FROM_B: dict[str, Any] = FOR_ALICE | {"authorization": f"Bearer {B}"}


@dataclass(eq=False)
class Case:
    """A request, the storage, and the expected response."""

    status: str
    code: str | None = None
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    method: str = "GET"
    path: str = CURRENT_USER
    query: str = ""
    authorization: str | None = f"Bearer {A}"
    records: Callable[[], Any] = tuple
    options: dict[str, Any] = field(default_factory=dict)

    def run(self, entry_point: str, method: str | None = None) -> Response:
        storage = OneSession(self.records)
        return self.call(ENTRY_POINTS[entry_point](storage, **self.options), method)

    def call(self, app: WSGIApplication, method: str | None = None) -> Response:
        header = {}
        if self.authorization is not None:
            header["HTTP_AUTHORIZATION"] = self.authorization
        return call(app, method or self.method, self.path, self.query, **header)


MISSING = ("401 Unauthorized", "session_missing", [BARE_CHALLENGE])
NO_ID: tuple[str, str] = ("400 Bad Request", "invalid_account_id")
SCHEMA = Schema.from_dict({"n": fields.String()})
CASES = {
    "the array": Case("200 OK", body=b'[{"n":0},{"n":1}]', records=rows(count=2)),
    "the array, of an account": Case("200 OK", body=b"[]", **FOR_ALICE),
    "the class of a schema": Case(
        "200 OK", body=b'[{"n":"0"}]', records=rows(count=1), options={"schema": SCHEMA}
    ),
    "session in the query": Case(
        "200 OK", body=b"[]", query=f"a=1&sessionId={A}", authorization=None
    ),
    "both and different": Case(
        "400 Bad Request", "invalid_request", [INVALID_REQUEST], query=f"sessionId={B}"
    ),
    "access denied": Case(
        "403 Forbidden", "access_denied", **FOR_ALICE, records=raising(AccessDenied())
    ),
    "unavailable": Case(
        "503 Service Unavailable",
        "storage_unavailable",
        [("Retry-After", "3")],
        records=rows(StorageUnavailable(SECRET, retry_after=2.5), 200),
    ),
    "a storage that fails while the records are read": Case(
        "500 Internal Server Error",
        "storage_error",
        records=rows(ValueError(SECRET), 200),
    ),
    "a wrong record": Case(
        "500 Internal Server Error", "unserialisable_record", records=lambda: [{}, None]
    ),
    "410 for a missing account": Case(
        "410 Gone",
        "account_not_found",
        **FOR_ALICE,
        records=raising(AccountNotFound()),
        options={"statuses": Statuses(account_not_found=410)},
    ),
    "a realm": Case(
        *MISSING[:2],
        [("WWW-Authenticate", 'Bearer realm="Bob\'s"')],
        authorization=None,
        options={"realm": "Bob's"},
    ),
}

# The order of the checks: session, account ID, storage.
CASES |= {
    "no session before a bad ID": Case(
        *MISSING, method="POST", path=ACCOUNT.format("\x00"), authorization=None
    ),
    "a bad ID before an unknown session": Case(
        *NO_ID, **FROM_B | {"path": ACCOUNT.format(LONG)}
    ),
    "an unknown session before a denied account": Case(
        "401 Unauthorized",
        "session_invalid",
        [INVALID_TOKEN],
        **FROM_B,
        records=raising(AccessDenied()),
    ),
}

every_case = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
every_entry_point = pytest.mark.parametrize("entry_point", ENTRY_POINTS)


@every_case
def test_each_request_gets_the_response_listed(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    expected = case.run("application")
    assert expected.status == case.status
    media_type = "application/json"
    if case.code is None:
        assert expected.body == case.body
    else:
        media_type = "application/problem+json"
        check_document(expected, case.code)
    headers = [*COMMON_HEADERS, *case.headers, ("Content-Type", media_type)]
    headers.append(("Content-Length", str(len(expected.body))))
    assert sorted(expected.headers) == sorted(headers)
    assert case.run("blueprint").wire == expected.wire
    if case.method == "GET":
        without_body = (expected.status, expected.headers, b"")
        assert case.run("blueprint", "HEAD").wire == without_body
        headers += ANNOUNCED
    else:
        headers += OF_AN_ACCOUNT
    if case.query:
        headers.append(("Referrer-Policy", "no-referrer"))
    for entry_point in ("blueprint, middleware", "application, middleware"):
        response = case.run(entry_point)
        assert (response.status, response.body) == (expected.status, expected.body)
        assert sorted(response.headers) == sorted(headers)
    # Without the blueprint's warning that no middleware is there.
    logged = re.sub(".* announces nothing, .*\n", "", caplog.text)
    for string in (SESSION_ID, SECRET, "/API/", "sessionId"):
        assert string not in logged


def check_document(response: Response, code: str) -> None:
    """Check the problem document of a response, which must have nothing of the request."""
    number, _, phrase = response.status.partition(" ")
    body = dict(response.json)
    detail = body.pop("detail")
    assert detail.endswith(".")
    assert detail.isascii()
    assert body == {
        "type": "about:blank",
        "title": phrase,
        "status": int(number),
        "code": code,
    }
    for string in (A, SECRET, "alice", LONG, "API/Notification", "Error"):
        assert string not in detail


# The phase is checked before everything else, and only by the middleware.

JANUARY, JUNE = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 6, 1, tzinfo=UTC)
SUNSET = DeprecationPolicy(
    deprecated_at=JANUARY,
    sunset_at=datetime(2026, 2, 1, tzinfo=UTC),
    enforce_sunset=True,
)
BROWNOUT = DeprecationPolicy(
    deprecated_at=JANUARY, brownouts=[Brownout(JUNE, JUNE.replace(second=30))]
)
NOW = JUNE.replace(microsecond=1)


@pytest.mark.parametrize(
    ("policy", "code"), [(SUNSET, "sunset"), (BROWNOUT, "brownout")]
)
def test_the_phase_is_checked_first(policy: DeprecationPolicy, code: str) -> None:
    refuse = raising(AssertionError("the application must not be called"))
    plan = dict.fromkeys(notification_operations(), policy)
    app = DeprecationMiddleware(refuse, plan, clock=lambda: NOW)
    response = CASES["no session before a bad ID"].call(app)
    assert (response.status, response.json["code"]) == ("410 Gone", code)
    assert response.all("WWW-Authenticate") == []


class Unread(BytesIO):
    """A request body that must not be read."""

    _refuse = raising(AssertionError("the request body must not be read"))
    read = readline = readlines = __iter__ = __next__ = read1 = readinto = _refuse


ADDITIONS: dict[str, dict[str, Any]] = {
    "chunked": {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True},
    "huge": {"CONTENT_LENGTH": "99999999999", "CONTENT_TYPE": "application/json"},
    "nothing acceptable": {"HTTP_ACCEPT": "*/*;q=0"},
    "expect": {"HTTP_EXPECT": "100-continue", "CONTENT_LENGTH": "2"},
    "conditional": {"HTTP_IF_NONE_MATCH": "*"},
    "range": {"HTTP_RANGE": "bytes=0-1"},
    "cookies": {"HTTP_COOKIE": "session=x; sessionId=y"},
    "session in another header": {"HTTP_X_SESSIONID": "y"},
}


@every_entry_point
def test_headers_and_bodies_that_clients_add_make_no_difference(
    entry_point: str,
) -> None:
    app = ENTRY_POINTS[entry_point](OneSession(rows(count=3)), spool_threshold=5)
    plain = call(app, "POST", OF_ALICE, **BEARER)
    assert plain.body == b'[{"n":0},{"n":1},{"n":2}]'
    for name, addition in ADDITIONS.items():
        extra = BEARER | {"wsgi.input": Unread(b"{}")} | addition
        assert call(app, "POST", OF_ALICE, **extra).wire == plain.wire, name


# IDs as UTF-8 in a WSGI string, and the bytes of segments that are no IDs.
IDS = ["A B", "Ünï-東京", "a;b=c", "a%2Fb+", "é" * 512]
NO_IDS = ["\xff", "\xc3\xa9" * 513, "a\n", "\x7f", "\xc2\x85"]


@pytest.mark.parametrize("entry_point", ["blueprint", "application"])
def test_an_account_id_reaches_the_storage_as_it_was_sent_or_is_refused(
    entry_point: str,
) -> None:
    storage = OneSession()
    app = ENTRY_POINTS[entry_point](storage)
    for account_id in IDS:
        segment = account_id.encode().decode("latin-1")
        assert call(app, "POST", ACCOUNT.format(segment), **BEARER).code == 200
        assert storage.calls[-1] == ("account_notifications", "alice", account_id)
    storage.calls.clear()
    for segment in NO_IDS:
        response = call(app, "POST", ACCOUNT.format(segment), **BEARER)
        assert response.code == 400
        assert response.json["code"] == "invalid_account_id"
    assert storage.calls == []


MANY = rows(count=1000)


def make_spooling_app(
    entry_point: str, records: Callable[[], Any] = MANY
) -> WSGIApplication:
    return ENTRY_POINTS[entry_point](OneSession(records), spool_threshold=100)


def start(app: WSGIApplication, **extra: Any) -> tuple[Any, dict[str, str]]:
    """Return the iterable of an application, and its headers."""
    headers: dict[str, str] = {}

    def start_response(_status: str, lines: Any, _exc_info: Any = None) -> Any:
        headers.update(lines)

    environ = environ_of("GET", CURRENT_USER, **BEARER, **extra)
    return app(environ, start_response), headers


@every_entry_point
def test_the_file_wrapper_of_a_server_gets_a_real_file(
    entry_point: str, spooled: list[BinaryIO]
) -> None:
    app = make_spooling_app(entry_point)
    body, headers = start(app, **{"wsgi.file_wrapper": FileWrapper})
    assert type(body) is FileWrapper
    assert body.filelike is spooled[0]
    content = b"".join(body)
    assert headers["Content-Length"] == str(len(content))
    assert len(json.loads(content)) == 1000
    assert not spooled[0].closed
    body.close()
    assert spooled[0].closed


@every_entry_point
def test_the_file_is_closed_when_the_client_disconnects(
    entry_point: str, spooled: list[BinaryIO]
) -> None:
    body, _headers = start(make_spooling_app(entry_point, rows(count=30_000)))
    next(iter(body))
    body.close()
    (file,) = spooled
    assert file.closed


def test_the_file_is_closed_if_a_server_refuses_the_headers(
    spooled: list[BinaryIO],
) -> None:
    app = make_spooling_app("application")
    with pytest.raises(ConnectionResetError):
        app(environ_of("GET", CURRENT_USER, **BEARER), raising(ConnectionResetError()))
    (file,) = spooled
    assert file.closed


@every_entry_point
def test_without_a_directory_for_the_file_the_response_is_a_503(
    entry_point: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    source = Source(MANY())
    small = make_spooling_app(entry_point, tuple)
    assert call(small, path=CURRENT_USER, **BEARER).code == 200
    large = make_spooling_app(entry_point, lambda: source)
    response = call(large, path=CURRENT_USER, **BEARER)
    assert response.status == "503 Service Unavailable"
    assert source.closed == 1
    check_document(response, "spool_unavailable")
    assert "spool_unavailable" in caplog.text
    assert "gone" not in caplog.text


GET, _POST = notification_operations()


@pytest.mark.parametrize(
    "path", ["*", "/API//Notification", "/\xff/\x00", f"{OF_ALICE}b"]
)
def test_any_other_path_is_not_found(path: str) -> None:
    for method in ("GET", "OPTIONS"):
        environ = environ_of(method, path, **BEARER)
        response = run(NotificationApp(OneSession()), environ)
        assert response.status == "404 Not Found"
        assert response.all("Allow") == []
        check_document(response, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", CURRENT_USER, "GET, HEAD"),
        ("OPTIONS", "/api/notification", "GET, HEAD"),
        ("BREW", OF_ALICE.rstrip("/").lower(), "POST"),
    ],
)
def test_any_other_method_is_not_allowed(method: str, path: str, allow: str) -> None:
    storage = OneSession()
    response = run(NotificationApp(storage), environ_of(method, path, **BEARER))
    assert response.status == "405 Method Not Allowed"
    assert response.one("Allow") == allow
    check_document(response, "method_not_allowed")
    assert storage.calls == []


@pytest.mark.parametrize("method", ["GET", "*"])
def test_a_request_that_does_not_fulfil_the_conditions_of_an_operation_is_not_found(
    method: str,
) -> None:
    operation = Operation("current_user", method, CURRENT_USER, query={"v": "1"})
    app = NotificationApp(OneSession(), operations=[operation])
    for query, code in (("v=1", 200), ("v=2", 404)):
        response = call(app, "GET", CURRENT_USER, query, **BEARER)
        assert (response.code, response.all("Allow")) == (code, [])


def test_operations_are_distinguished_by_their_names() -> None:
    storage = OneSession()
    operations = [
        Operation("account", "GET", "/of/{whom}/list"),
        Operation("current_user", "POST", "/mine"),
    ]
    app = NotificationApp(storage, operations=operations)
    assert call(app, "POST", "/MINE/", **BEARER).code == 200
    assert call(app, "HEAD", "/of/Bob/LIST", **BEARER).code == 200
    assert storage.calls[1] == ("current_user_notifications", "alice")
    assert storage.calls[3] == ("account_notifications", "alice", "Bob")


NO_OPERATIONS: dict[str, Any] = {
    "a name that is neither": [GET, Operation("query", "POST", "/q")],
    "account without a parameter": [Operation("account", "POST", "/a")],
    "current user with a parameter": [Operation("current_user", "GET", "/a/{b}")],
    "an operation twice": [GET, GET],
    "an operation alone": GET,
}


@pytest.mark.parametrize("operations", NO_OPERATIONS.values(), ids=NO_OPERATIONS)
def test_operations_that_cannot_be_served_are_refused(operations: Any) -> None:
    with pytest.raises(ValueError, match=r"^operations must"):
        NotificationApp(OneSession(), operations=operations)
