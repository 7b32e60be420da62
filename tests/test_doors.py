"""Every row of the table of answers, through both doors, with the middleware and without: the same bytes each time."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from inspect import signature
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO
from wsgiref.util import FileWrapper

import pytest

from flask_notifications import (
    AccessDenied,
    AccountNotFound,
    Brownout,
    DeprecationMiddleware,
    DeprecationPolicy,
    NotificationApp,
    Statuses,
    StorageUnavailable,
    Use,
    create_blueprint,
)
from tests.storages import (
    ACCOUNT,
    BEARER,
    CURRENT_USER,
    DOORS,
    POLICY,
    SECRET,
    SESSION_ID,
    OneSession,
    Source,
    flask_app,
    keep_temporary_files,
    raising,
)
from tests.wsgi import Answer, call, environ_of, run

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

GUARDS = [("Cache-Control", "no-store"), ("Vary", "Authorization"), ("X-Content-Type-Options", "nosniff")]
BARE_CHALLENGE = ("WWW-Authenticate", 'Bearer realm="notifications"')
INVALID_TOKEN = ("WWW-Authenticate", 'Bearer realm="notifications", error="invalid_token"')
INVALID_REQUEST = ("WWW-Authenticate", 'Bearer realm="notifications", error="invalid_request"')
ANNOUNCED = {
    "GET": [
        ("Deprecation", "@1767225600"),
        ("Sunset", "Fri, 01 Jan 2027 00:00:00 GMT"),
        ("Link", '</API/Notification/CurrentUser>; rel="successor-version"'),
    ],
    "POST": [
        ("Deprecation", "@1767225600"),
        ("Sunset", "Fri, 01 Jan 2027 00:00:00 GMT"),
        ("Link", '</API/Notification/Account>; rel="successor-version"'),
    ],
}

A, B = SESSION_ID, "another"
ALICE, LONG = ACCOUNT.format("alice"), "x" * 513


@dataclass
class Case:
    """A situation, and what is answered to it."""

    status: str
    code: str | None = None
    fields: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    method: str = "GET"
    path: str = CURRENT_USER
    query: str = ""
    authorization: str | None = f"Bearer {A}"
    records: Callable[[], Any] = tuple
    options: dict[str, Any] = field(default_factory=dict)

    def ask(self, door: "Callable[..., WSGIApplication]", method: str | None = None) -> Answer:
        header = {} if self.authorization is None else {"HTTP_AUTHORIZATION": self.authorization}
        app = door(OneSession(self.records), **self.options)
        return call(app, method or self.method, self.path, self.query, **header)

    @property
    def query_borne(self) -> bool:
        """Tell whether the session stands in the query: the middleware has something to add to such an answer."""
        return "sessionid" in self.query.lower()


def rows(fault: BaseException | None = None, count: int = 0) -> Callable[[], Iterator[Any]]:
    def generate() -> Iterator[Any]:
        yield from ({"n": number} for number in range(count))
        if fault is not None:
            raise fault

    return generate


MISSING = ("401 Unauthorized", "session_missing", [BARE_CHALLENGE])
AMBIGUOUS = ("400 Bad Request", "invalid_request", [INVALID_REQUEST])
MALFORMED = ("401 Unauthorized", "invalid_token", [INVALID_TOKEN])
UNKNOWN = ("401 Unauthorized", "session_invalid", [INVALID_TOKEN])
NO_ID: tuple[str, str] = ("400 Bad Request", "invalid_account_id")
STORAGE_ERROR = ("500 Internal Server Error", "storage_error")
WRONG_RECORD = ("500 Internal Server Error", "unserialisable_record")


def unavailable(seconds: str) -> tuple[str, str, list[tuple[str, str]]]:
    return "503 Service Unavailable", "storage_unavailable", [("Retry-After", seconds)]


CASES = {
    "nothing there": Case("200 OK", body=b"[]"),
    "the array": Case("200 OK", body=b'[{"n":0},{"n":1}]', records=rows(count=2)),
    "nothing there, of an account": Case("200 OK", body=b"[]", method="POST", path=ALICE),
    "the array, of an account": Case("200 OK", body=b'[{"n":0}]', method="POST", path=ALICE, records=rows(count=1)),
    "session in the query": Case("200 OK", body=b"[]", query=f"a=1&sessionId={A}", authorization=None),
    "session in the query, of an account": Case(
        "200 OK", body=b"[]", method="POST", path=ALICE, query=f"SessionID={A}", authorization=None
    ),
    "scheme in lower case": Case("200 OK", body=b"[]", authorization=f"bearer  {A}"),
    "both and equal": Case("200 OK", body=b"[]", query=f"sessionId={A}"),
    "Basic and a query": Case("200 OK", body=b"[]", query=f"sessionId={A}", authorization="Basic dTpw"),
    "no session": Case(*MISSING, authorization=None),
    "no session, of an account": Case(*MISSING, method="POST", path=ALICE, authorization=None),
    "another scheme": Case(*MISSING, authorization="Basic dTpw"),
    "an empty header": Case(*MISSING, authorization=""),
    "both and different": Case(*AMBIGUOUS, query=f"sessionId={B}"),
    "key repeated": Case(*AMBIGUOUS, query=f"sessionId={A}&sessionId={A}", authorization=None),
    "key repeated in another case": Case(*AMBIGUOUS, query=f"sessionId={A}&sessionid={A}", authorization=None),
    "empty value": Case(*AMBIGUOUS, query="sessionId=", authorization=None),
    "no token": Case(*AMBIGUOUS, authorization="Bearer"),
    "two credentials": Case(*AMBIGUOUS, method="POST", path=ALICE, authorization=f"Bearer {A},Bearer {A}"),
    "malformed": Case(*MALFORMED, authorization="Bearer a b"),
    "malformed in the query": Case(*MALFORMED, query="sessionId=%22", authorization=None),
    "too long": Case(*MALFORMED, method="POST", path=ALICE, authorization="Bearer " + "x" * 4097),
    "unknown": Case(*UNKNOWN, authorization=f"Bearer {B}"),
    "unknown, of an account": Case(*UNKNOWN, method="POST", path=ALICE, query=f"sessionId={B}", authorization=None),
    "control character": Case(*NO_ID, method="POST", path=ACCOUNT.format("a\x00")),
    "newline at the end": Case(*NO_ID, method="POST", path=ACCOUNT.format("a\n")),
    "control character of two bytes": Case(*NO_ID, method="POST", path=ACCOUNT.format("\xc2\x80")),
    "not UTF-8": Case(*NO_ID, method="POST", path=ACCOUNT.format("\xff")),
    "too long an ID": Case(*NO_ID, method="POST", path=ACCOUNT.format(LONG)),
    "access denied": Case("403 Forbidden", "access_denied", method="POST", path=ALICE, records=raising(AccessDenied())),
    "access denied while read": Case(
        "403 Forbidden", "access_denied", method="POST", path=ALICE, records=rows(AccessDenied(SECRET), 200)
    ),
    "no such account": Case(
        "404 Not Found", "account_not_found", method="POST", path=ALICE, records=raising(AccountNotFound(SECRET))
    ),
    "no such account while read": Case(
        "404 Not Found", "account_not_found", method="POST", path=ALICE, records=rows(AccountNotFound())
    ),
    "out of reach": Case(*unavailable("30"), records=raising(StorageUnavailable(SECRET))),
    "out of reach for a moment": Case(*unavailable("1"), records=rows(StorageUnavailable(retry_after=0.2))),
    "out of reach for longer": Case(*unavailable("3"), records=rows(StorageUnavailable(retry_after=2.5), 200)),
    "a storage that fails": Case(*STORAGE_ERROR, records=raising(ValueError(SECRET))),
    "a storage that fails while read": Case(*STORAGE_ERROR, records=rows(ValueError(SECRET), 200)),
    "a storage that returns nothing": Case(*STORAGE_ERROR, records=lambda: None),
    "a wrong record": Case(*WRONG_RECORD, records=lambda: [{}, SECRET]),
    "a wrong record, spooled": Case(*WRONG_RECORD, records=lambda: [{}] * 500 + [None], options={"spool_threshold": 9}),
    "a status of the host's own": Case(
        "440 Login Time-out",
        "session_missing",
        [BARE_CHALLENGE],
        authorization=None,
        options={"statuses": Statuses(session_missing=440)},
    ),
    "another status of the host's own": Case(
        "440 Login Time-out",
        "session_invalid",
        [INVALID_TOKEN],
        authorization="Bearer x",
        options={"statuses": Statuses(session_invalid=440)},
    ),
    "410 for a missing account": Case(
        "410 Gone",
        "account_not_found",
        method="POST",
        path=ALICE,
        records=raising(AccountNotFound()),
        options={"statuses": Statuses(account_not_found=410)},
    ),
    "404 for a denied account": Case(
        "404 Not Found",
        "access_denied",
        method="POST",
        path=ALICE,
        records=raising(AccessDenied()),
        options={"statuses": Statuses(access_denied=404)},
    ),
    "statuses that touch no refusal": Case(
        *AMBIGUOUS, authorization="Bearer", options={"statuses": Statuses(session_missing=440, session_invalid=440)}
    ),
    "a realm": Case(
        "401 Unauthorized",
        "session_missing",
        [("WWW-Authenticate", 'Bearer realm="Bob\'s"')],
        authorization=None,
        options={"realm": "Bob's"},
    ),
}

# The order of the checks: session, account ID, storage.
CASES |= {
    "no session before a bad ID": Case(*MISSING, method="POST", path=ACCOUNT.format("\x00"), authorization=None),
    "refused before a bad ID": Case(*AMBIGUOUS, method="POST", path=ACCOUNT.format("\x00"), authorization="Bearer"),
    "a bad ID before an unknown session": Case(
        *NO_ID, method="POST", path=ACCOUNT.format(LONG), authorization=f"Bearer {B}"
    ),
    "an unknown session before a denied account": Case(
        *UNKNOWN, method="POST", path=ALICE, authorization=f"Bearer {B}", records=raising(AccessDenied())
    ),
}

every_case = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
every_door = pytest.mark.parametrize("door", DOORS)


@every_case
@every_door
def test_the_table_of_answers(case: Case, door: str) -> None:
    answer = case.ask(DOORS[door])
    assert answer.status == case.status
    extra, announced = list(case.fields), []
    if "middleware" in door:
        announced = ANNOUNCED[case.method]
        extra += [("Referrer-Policy", "no-referrer")] if case.query_borne else []
    media_type = "application/problem+json" if case.code else "application/json"
    described = [("Content-Type", media_type), ("Content-Length", str(len(answer.body)))]
    assert sorted(answer.fields) == sorted([*described, *GUARDS, *extra, *announced])
    assert answer.fields[len(answer.fields) - len(announced) :] == announced
    if case.code is None:
        assert answer.body == case.body
    else:
        check_problem(answer, case.code)


def check_problem(answer: Answer, code: str) -> None:
    number, _, phrase = answer.status.partition(" ")
    body = dict(answer.json)
    detail = body.pop("detail")
    assert detail.endswith(".")
    assert detail.isascii()
    assert body == {"type": "about:blank", "title": phrase, "status": int(number), "code": code}
    for text in (SESSION_ID, SECRET, "API/Notification", "Traceback", "Error"):
        assert text not in detail


@every_case
@pytest.mark.parametrize("suffix", ["", ", middleware"], ids=["without", "with the middleware"])
def test_both_doors_answer_the_same_bytes(case: Case, suffix: str) -> None:
    assert case.ask(DOORS[f"blueprint{suffix}"]).wire == case.ask(DOORS[f"application{suffix}"]).wire


@every_case
@every_door
def test_head_is_get_without_a_body(case: Case, door: str) -> None:
    if case.method == "GET":
        whole, head = case.ask(DOORS[door]), case.ask(DOORS[door], "HEAD")
        assert (head.status, head.fields, head.body) == (whole.status, whole.fields, b"")


@every_door
def test_neither_answer_nor_log_holds_what_the_client_sent(door: str, caplog: pytest.LogCaptureFixture) -> None:
    for name, case in CASES.items():
        answer = case.ask(DOORS[door])
        for text in (SESSION_ID, "another", SECRET, "alice", LONG):
            assert text not in f"{answer.fields}", name
            assert text not in answer.body.decode(), name
    assert caplog.records
    for text in (SESSION_ID, SECRET, "/API/", "sessionId", "GetNotificationsForAccount"):
        assert text not in caplog.text


# The phase comes before everything else, and only the middleware knows it.

SUNSET = DeprecationPolicy(
    deprecated_at=datetime(2026, 1, 1, tzinfo=UTC), sunset_at=datetime(2026, 2, 1, tzinfo=UTC), enforce_sunset=True
)
BROWNOUT = DeprecationPolicy(
    deprecated_at=datetime(2026, 1, 1, tzinfo=UTC),
    brownouts=[Brownout(datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 6, 1, 0, 0, 30, tzinfo=UTC))],
)
NOW = datetime(2026, 6, 1, 0, 0, 0, 1, tzinfo=UTC)


@every_case
@pytest.mark.parametrize("door", [flask_app, NotificationApp], ids=["blueprint", "application"])
@pytest.mark.parametrize(
    ("policy", "code", "wait"), [(SUNSET, "sunset", []), (BROWNOUT, "brownout", ["30"])], ids=["sunset", "brownout"]
)
def test_the_phase_is_looked_at_first(
    case: Case, door: "Callable[..., WSGIApplication]", policy: DeprecationPolicy, code: str, wait: list[str]
) -> None:
    storages: list[OneSession] = []

    def behind(storage: OneSession, **options: Any) -> "WSGIApplication":
        storages.append(storage)
        return DeprecationMiddleware(door(storage, **options), policy, clock=lambda: NOW)

    answer = case.ask(behind)
    assert (answer.status, answer.json["code"]) == ("410 Gone", code)
    assert answer.json["status"] == 410
    assert answer.json["title"] == "Gone"
    assert f'<{answer.json["successor"]}>; rel="successor-version"' in answer.all("Link")
    assert answer.all("Retry-After") == wait
    assert answer.one("Cache-Control") == "no-store"
    assert answer.one("Content-Type") == "application/problem+json"
    assert answer.one("Content-Length") == str(len(answer.body))
    assert answer.all("WWW-Authenticate") == []
    assert storages[0].calls == []


# What clients add to a request makes no difference.


class Unread(BytesIO):
    """A request body that nobody may read."""

    def _refuse(self, *_arguments: object) -> Any:
        message = "the request body is never read"
        raise AssertionError(message)

    read = readline = readlines = __iter__ = __next__ = read1 = readinto = _refuse


HABITS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "no length at all": {"CONTENT_TYPE": "", "CONTENT_LENGTH": ""},
    "length 0": {"CONTENT_LENGTH": "0"},
    "empty object": {"CONTENT_LENGTH": "2", "CONTENT_TYPE": "application/json"},
    "form": {"CONTENT_LENGTH": "21", "CONTENT_TYPE": "application/x-www-form-urlencoded"},
    "form without a length": {"CONTENT_TYPE": "application/x-www-form-urlencoded"},
    "multipart": {"CONTENT_LENGTH": "9", "CONTENT_TYPE": "multipart/form-data"},
    "plain text, as wsgiref has it": {"CONTENT_LENGTH": "", "CONTENT_TYPE": "text/plain"},
    "chunked": {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True},
    "chunked and a length": {"HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_LENGTH": "5"},
    "huge": {"CONTENT_LENGTH": "99999999999", "CONTENT_TYPE": "application/json"},
    "Java": {"HTTP_ACCEPT": "text/html, image/gif, image/jpeg, */*; q=0.2"},
    "XML only": {"HTTP_ACCEPT": "application/xml", "HTTP_ACCEPT_CHARSET": "utf-16", "HTTP_ACCEPT_LANGUAGE": "de"},
    "nothing acceptable": {"HTTP_ACCEPT": "*/*;q=0", "HTTP_ACCEPT_ENCODING": "identity;q=0"},
    "no Accept": {"HTTP_ACCEPT": ""},
    "upgrade": {"HTTP_CONNECTION": "Upgrade, HTTP2-Settings", "HTTP_UPGRADE": "h2c"},
    "expect": {"HTTP_EXPECT": "100-continue", "CONTENT_LENGTH": "2"},
    "conditional": {"HTTP_IF_NONE_MATCH": "*", "HTTP_IF_MODIFIED_SINCE": "Fri, 01 Jan 2027 00:00:00 GMT"},
    "condition that fails": {"HTTP_IF_MATCH": '"x"'},
    "range": {"HTTP_RANGE": "bytes=0-1"},
    "cookies": {"HTTP_COOKIE": "session=x; sessionId=y"},
    "method override": {"HTTP_X_HTTP_METHOD_OVERRIDE": "DELETE"},
    "session in other headers": {"HTTP_SESSIONID": "y", "HTTP_X_SESSIONID": "y"},
}


@pytest.mark.parametrize("habit", HABITS)
@pytest.mark.parametrize("threshold", [1_000_000, 5], ids=["memory", "file"])
@every_door
def test_habits_of_clients_make_no_difference(habit: str, threshold: int, door: str) -> None:
    app = DOORS[door](OneSession(rows(count=3)), spool_threshold=threshold)
    for method, path in (("GET", CURRENT_USER), ("POST", ALICE), ("POST", ALICE.rstrip("/"))):
        plain = call(app, method, path, **BEARER)
        assert plain.code == 200
        assert plain.body == b'[{"n":0},{"n":1},{"n":2}]'
        assert call(app, method, path, **BEARER, **{"wsgi.input": Unread(b"{}"), **HABITS[habit]}).wire == plain.wire


@every_door
def test_other_parameters_of_the_query_are_ignored(door: str) -> None:
    app = DOORS[door](OneSession(rows(count=1)))
    plain = call(app, path=CURRENT_USER, **BEARER)
    for query in ("limit=0", "limit=-1&offset=10&page=2", "accountId=bob", "filter=%ff&&=&;", "session=x&sessionIds=y"):
        assert call(app, path=CURRENT_USER, query=query, **BEARER).wire == plain.wire


# The temporary file.


@pytest.fixture
def spooled(monkeypatch: pytest.MonkeyPatch) -> list[BinaryIO]:
    return keep_temporary_files(monkeypatch)


class Sendfile(FileWrapper):
    """A server's own way to send a file: it works only on this very object."""


def spooling(door: str, records: Callable[[], Any] | None = None) -> "WSGIApplication":
    return DOORS[door](OneSession(rows(count=1000) if records is None else records), spool_threshold=100)


def respond(
    app: "WSGIApplication", method: str = "GET", extra: Mapping[str, Any] = BEARER
) -> tuple[Any, dict[str, str]]:
    """Return the application's own iterable, and its fields."""
    fields: dict[str, str] = {}

    def start_response(_status: str, headers: list[tuple[str, str]], _exc_info: Any = None) -> Callable[..., None]:
        fields.update(headers)
        return lambda _data: None

    return app(environ_of(method, CURRENT_USER, **{**BEARER, **extra}), start_response), fields


@every_door
@pytest.mark.parametrize("extra", [{}, {"wsgi.file_wrapper": Sendfile}], ids=["no file wrapper", "file wrapper"])
def test_a_spooled_answer_is_the_one_from_memory(door: str, extra: dict[str, Any], spooled: list[BinaryIO]) -> None:
    whole = call(DOORS[door](OneSession(rows(count=1000))), path=CURRENT_USER, **BEARER)
    answer = call(spooling(door), path=CURRENT_USER, **BEARER, **extra)
    assert answer.wire == whole.wire
    assert json.loads(answer.body) == [{"n": number} for number in range(1000)]
    assert [file.closed for file in spooled] == [True]


@every_door
def test_the_servers_file_wrapper_reaches_it_with_a_real_file(door: str, spooled: list[BinaryIO]) -> None:
    body, fields = respond(spooling(door), extra={"wsgi.file_wrapper": Sendfile})
    assert type(body) is Sendfile
    assert body.filelike is spooled[0]
    assert body.filelike.fileno() > 2
    assert body.filelike.tell() == 0
    assert b"".join(body) != b""
    assert int(fields["Content-Length"]) == body.filelike.tell()
    assert not spooled[0].closed
    body.close()
    assert spooled[0].closed


@every_door
@pytest.mark.parametrize("parts", [0, 1, 2])
def test_the_file_is_gone_when_the_client_leaves(door: str, parts: int, spooled: list[BinaryIO]) -> None:
    body, _fields = respond(spooling(door, rows(count=30_000)))
    for _part, _number in zip(body, range(parts), strict=False):
        pass
    body.close()
    assert [file.closed for file in spooled] == [True]


@every_door
def test_the_file_is_gone_when_nobody_asked_for_a_body(door: str, spooled: list[BinaryIO]) -> None:
    body, fields = respond(spooling(door), "HEAD")
    assert int(fields["Content-Length"]) > 100
    assert list(body) == []
    if hasattr(body, "close"):
        body.close()
    assert [file.closed for file in spooled] == [True]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_file_is_gone_when_the_server_refuses_to_start(method: str, spooled: list[BinaryIO]) -> None:
    """Of the other door Flask is the one that starts the answer."""

    def start_response(*_arguments: Any) -> Any:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        spooling("application")(environ_of(method, CURRENT_USER, **BEARER), start_response)
    (file,) = spooled
    closed = file.closed
    file.close()  # or a failure of this test would trouble others
    assert closed


@every_door
@pytest.mark.parametrize("count", [0, 1, 256, 999])
def test_the_file_is_gone_after_a_failure(door: str, count: int, spooled: list[BinaryIO]) -> None:
    for fault in (StorageUnavailable(), AccessDenied(), ValueError()):
        assert call(spooling(door, rows(fault, count)), path=CURRENT_USER, **BEARER).code >= 400
    answer = call(spooling(door, lambda: [*rows(count=count)(), None]), path=CURRENT_USER, **BEARER)
    assert answer.code == 500
    assert len(spooled) == (4 if count >= 256 else 0)
    assert all(file.closed for file in spooled)


@every_door
def test_without_room_for_the_file_the_answer_is_503(
    door: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    source = Source(rows(count=1000)())
    answer = call(spooling(door, lambda: source), path=CURRENT_USER, **BEARER)
    assert answer.status == "503 Service Unavailable"
    assert source.closed == 1
    check_problem(answer, "spool_unavailable")
    assert "spool_unavailable" in caplog.text
    assert "gone" not in caplog.text


@pytest.mark.parametrize("door", [create_blueprint, NotificationApp])
def test_eight_mebibytes_are_kept_in_memory(door: Callable[..., object]) -> None:
    assert signature(door).parameters["spool_threshold"].default == 8 * 1024 * 1024


# The storage is closed exactly once, and before the first byte.


@every_door
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("threshold", [1_000_000, 10], ids=["memory", "file"])
def test_the_records_are_closed_before_the_answer_starts(door: str, method: str, threshold: int) -> None:
    source = Source(rows(count=300)())
    closed: list[int] = []

    def start_response(*_arguments: Any) -> Any:
        closed.append(source.closed)
        return lambda _data: None

    app = DOORS[door](OneSession(lambda: source), spool_threshold=threshold)
    body = app(environ_of(method, CURRENT_USER, **BEARER), start_response)
    closed.extend(source.closed for _part in body)
    if hasattr(body, "close"):
        body.close()
    assert set(closed) == {1}
    assert source.closed == 1


@every_door
@pytest.mark.parametrize("fatal", [SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_the_end_of_the_process_passes_the_door(door: str, fatal: BaseException) -> None:
    source = Source(rows(count=3)(), fault=fatal)
    with pytest.raises(type(fatal)):
        run(DOORS[door](OneSession(lambda: source)), environ_of(path=CURRENT_USER, **BEARER))
    assert source.closed == 1


@pytest.mark.parametrize("door", [flask_app, NotificationApp], ids=["blueprint", "application"])
def test_an_observer_is_told_of_the_end_of_the_process(door: "Callable[..., WSGIApplication]") -> None:
    uses: list[Use] = []
    app = DeprecationMiddleware(door(OneSession(raising(SystemExit()))), POLICY, observers=[uses.append])
    with pytest.raises(SystemExit):
        run(app, environ_of(path=CURRENT_USER, **BEARER))
    assert [use.status for use in uses] == [None]
