"""Labels that ``identify`` returns for callers, with both entry points and for observers."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from flask_notifications import (
    AccessDenied,
    AccountNotFound,
    DeprecationMiddleware,
    NotificationApp,
    StorageUnavailable,
    Use,
)
from tests.storages import (
    ACCOUNT,
    BEARER,
    CURRENT_USER,
    POLICY,
    SECRET,
    SESSION_ID,
    OneSession,
    OneUnit,
    flask_app,
    raising,
)
from tests.wsgi import Response, environ_of, run

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

KEY = "flask_notifications.caller"
ENTRY_POINTS: "dict[str, Callable[..., WSGIApplication]]" = {"blueprint": flask_app, "application": NotificationApp}

each_entry_point = pytest.mark.parametrize("entry_point", ENTRY_POINTS.values(), ids=ENTRY_POINTS)


def get(app: "WSGIApplication", **extra: Any) -> Response:
    return run(app, environ_of("GET", CURRENT_USER, **{**BEARER, **extra}))


def post(app: "WSGIApplication") -> Response:
    return run(app, environ_of("POST", ACCOUNT.format("a"), **BEARER))


@each_entry_point
@pytest.mark.parametrize("send", [get, post])
def test_a_caller_is_labelled_once_per_request(
    entry_point: "Callable[..., WSGIApplication]", send: Callable[[Any], Response]
) -> None:
    callers: list[object] = []

    def identify(caller: str) -> str:
        callers.append(caller)
        return f"team of {caller}"

    response = send(entry_point(OneSession(), identify=identify))
    assert (response.code, response.environ[KEY]) == (200, "team of alice")
    assert callers == ["alice"]


@each_entry_point
@pytest.mark.parametrize(
    ("records", "code"),
    [
        pytest.param(raising(AccessDenied()), 403, id="denied"),
        pytest.param(raising(AccountNotFound()), 404, id="not found"),
        pytest.param(raising(StorageUnavailable()), 503, id="unavailable"),
        pytest.param(raising(ValueError()), 500, id="an error"),
        pytest.param(lambda: [None], 500, id="a wrong record"),
    ],
)
@pytest.mark.parametrize("storage", [OneSession, OneUnit])
def test_the_label_is_set_on_error_responses(
    entry_point: "Callable[..., WSGIApplication]", records: Callable[[], Any], code: int, storage: Callable[..., Any]
) -> None:
    response = post(entry_point(storage(records), identify=str.upper))
    assert (response.code, response.environ[KEY]) == (code, "ALICE")


@each_entry_point
def test_without_a_known_caller_there_is_no_label(entry_point: "Callable[..., WSGIApplication]") -> None:
    callers: list[object] = []
    app = entry_point(OneSession(), identify=callers.append)
    for header in ("", "Bearer", "Bearer unknown", "Bearer a b"):
        assert KEY not in get(app, HTTP_AUTHORIZATION=header).environ
    assert callers == []


@each_entry_point
@pytest.mark.parametrize("label", ["a", "x" * 64, "Bob & Söhne", "acme/reports", "0"])
def test_a_label_has_up_to_64_printable_characters(entry_point: "Callable[..., WSGIApplication]", label: str) -> None:
    assert get(entry_point(OneSession(), identify=lambda _caller: label)).environ[KEY] == label


@each_entry_point
@pytest.mark.parametrize(
    "label",
    [None, "", "x" * 65, "a\nb", "a\x00", "\u2028", "\ud800", 7, b"alice", ["alice"], SESSION_ID, f"of {SESSION_ID}"],
    ids=ascii,
)
def test_any_other_label_is_dropped(entry_point: "Callable[..., WSGIApplication]", label: Any) -> None:
    response = get(entry_point(OneSession(), identify=lambda _caller: label))
    assert response.code == 200
    assert KEY not in response.environ


@each_entry_point
def test_a_label_of_the_application_is_kept_unless_identify_returns_one(
    entry_point: "Callable[..., WSGIApplication]",
) -> None:
    for identify, label in ((None, "existing"), (lambda _caller: None, "existing"), (str.upper, "ALICE")):
        assert get(entry_point(OneSession(), identify=identify), **{KEY: "existing"}).environ[KEY] == label


@each_entry_point
def test_an_identify_that_raises_gives_no_label_and_no_error(
    entry_point: "Callable[..., WSGIApplication]", caplog: pytest.LogCaptureFixture
) -> None:
    for error in (ValueError(SECRET), StorageUnavailable(SECRET), AccessDenied(SECRET)):

        def identify(_caller: str, error: Exception = error) -> str:
            raise error

        caplog.clear()
        response = get(entry_point(OneSession(lambda: [{"n": 1}]), identify=identify))
        assert (response.code, response.body) == (200, b'[{"n":1}]')
        assert KEY not in response.environ
        (record,) = caplog.records
        assert f"{type(error).__name__} (" in record.getMessage()
        assert "in identify" in record.getMessage()
        assert SECRET not in caplog.text


async def identify_asynchronously(_caller: str) -> str:
    return "later"


class AsynchronousIdentify:
    async def __call__(self, _caller: str) -> str:
        return "later"

    async def identify(self, _caller: str) -> str:
        return "later"


@each_entry_point
@pytest.mark.parametrize(
    "identify",
    [
        identify_asynchronously,
        functools.partial(identify_asynchronously),
        AsynchronousIdentify(),
        AsynchronousIdentify().identify,
        "alice",
        7,
    ],
    ids=["coroutine function", "partial", "callable object", "method", "string", "number"],
)
def test_an_identify_that_cannot_return_a_label_is_refused(
    entry_point: "Callable[..., WSGIApplication]", identify: Any
) -> None:
    with pytest.raises(ValueError, match="identify"):
        entry_point(OneSession(), identify=identify)


@each_entry_point
@pytest.mark.parametrize("code", [200, 403])
def test_observers_see_the_label(entry_point: "Callable[..., WSGIApplication]", code: int) -> None:
    uses: list[Use] = []
    storage = OneSession(tuple if code == 200 else raising(AccessDenied()))
    app = DeprecationMiddleware(entry_point(storage, identify=str.upper), POLICY, observers=[uses.append])
    assert get(app).code == code
    assert [use.caller for use in uses] == ["ALICE"]
