"""Which requests are claimed, and how legacy clients may spell a path."""

import re
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flask_notifications import (
    NOTIFICATION_OPERATIONS,
    DeprecationMiddleware,
    DeprecationPolicy,
    Operation,
    notification_operations,
)
from flask_notifications.operations import OperationTable
from tests.wsgi import environ_of, plain_app, run

TABLE = OperationTable(NOTIFICATION_OPERATIONS)
POLICY = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))


def claimed(method: str, path: str, table: OperationTable = TABLE) -> tuple[str, ...] | None:
    """Return the operation's name, the path in its own spelling and the parameters, or ``None``."""
    claim = table.match(method, path)
    return None if claim is None else (claim.operation.name, claim.path, *claim.parameters)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/API/Notification/", id="as it is documented"),
        pytest.param("/API/Notification", id="without the slash"),
        pytest.param("/api/notification/", id="lower case"),
        pytest.param("/Api/NOTIFICATION", id="mixed case"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_current_user_in_any_spelling(method: str, path: str) -> None:
    assert claimed(method, path) == ("current_user", "/API/Notification/")


@pytest.mark.parametrize(
    ("path", "account_id"),
    [
        pytest.param("/API/Notification/GetNotificationsForAccount/acc/", "acc", id="as it is documented"),
        pytest.param("/API/Notification/GetNotificationsForAccount/acc", "acc", id="without the slash"),
        pytest.param("/api/notification/getnotificationsforaccount/AcC", "AcC", id="the parameter keeps its case"),
        pytest.param("/API/Notification/GetNotificationsForAccount/a;v=1", "a;v=1", id="the parameter keeps ;"),
        pytest.param("/API/Notification/GetNotificationsForAccount/..;", "..;", id="more than a dot segment"),
        pytest.param("/API/Notification/GetNotificationsForAccount/...", "...", id="three dots"),
        pytest.param("/API/Notification/GetNotificationsForAccount/a b%\n", "a b%\n", id="already decoded"),
        pytest.param(
            "/API/Notification/GetNotificationsForAccount/\xc3\x84\xff", "\xc3\x84\xff", id="bytes stay bytes"
        ),
        pytest.param("/API/Notification/GetNotificationsForAccount/ ", " ", id="a space is a segment"),
    ],
)
def test_an_account_in_any_spelling(path: str, account_id: str) -> None:
    own = f"/API/Notification/GetNotificationsForAccount/{account_id}/"
    assert claimed("POST", path) == ("account", own, account_id)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("OPTIONS", "/API/Notification/", id="OPTIONS"),
        pytest.param("POST", "/API/Notification/", id="create a notification"),
        pytest.param("PUT", "/API/Notification/", id="PUT"),
        pytest.param("get", "/API/Notification/", id="methods have a case"),
        pytest.param("", "/API/Notification/", id="no method"),
        pytest.param("GET", "/API/Notification/CurrentUser", id="the successor"),
        pytest.param("GET", "/API/Notification/acc0", id="one notification"),
        pytest.param("POST", "/API/Notification/query", id="query"),
        pytest.param("GET", "/API/NotificationX/", id="a longer segment"),
        pytest.param("GET", "/API/Notificatio", id="a shorter segment"),
        pytest.param("GET", "/API/Notification/x", id="as a prefix"),
        pytest.param("GET", "/x/API/Notification", id="as a suffix"),
        pytest.param("GET", "API/Notification/", id="no leading slash"),
        pytest.param("GET", "", id="an empty path"),
        pytest.param("GET", "/", id="the root"),
        pytest.param("GET", "*", id="the server as such"),
        pytest.param("GET", "//API/Notification/", id="// in front"),
        pytest.param("GET", "/API//Notification/", id="// inside"),
        pytest.param("GET", "/API/Notification//", id="// at the end"),
        pytest.param("GET", "/API/./Notification/", id="a dot segment"),
        pytest.param("GET", "/API/x/../Notification/", id="two dots"),
        pytest.param("GET", "/API/Notification/.", id="a dot at the end"),
        pytest.param("GET", "/API/Notification;v=1/", id="; in a literal"),
        pytest.param("GET", "/API/Notification;/", id="; alone"),
        pytest.param("GET", "/API/Notification /", id="a space in a literal"),
        pytest.param("GET", "/API/Notification\x00", id="NUL in a literal"),
        pytest.param("GET", "/API/Not\u0131fication/", id="the Turkish i is not ASCII"),
        pytest.param("GET", "/API/Notification/GetNotificationsForAccount/acc/", id="another method"),
        pytest.param("HEAD", "/API/Notification/GetNotificationsForAccount/acc/", id="HEAD goes with GET only"),
        pytest.param("POST", "/API/Notification/GetNotificationsForAccount/", id="no parameter"),
        pytest.param("POST", "/API/Notification/GetNotificationsForAccount", id="no parameter, no slash"),
        pytest.param("POST", "/API/Notification/GetNotificationsForAccount//", id="an empty parameter"),
        pytest.param("POST", "/API/Notification/GetNotificationsForAccount/./", id="a dot as the parameter"),
        pytest.param("POST", "/API/Notification/GetNotificationsForAccount/..", id="two dots as the parameter"),
        pytest.param("POST", "/API/Notification/GetNotificationsForAccount/a/b", id="a decoded slash"),
        pytest.param("POST", "/API/Notification/GetNotificationsForAccount/a//", id="// after the parameter"),
    ],
)
def test_everything_else_is_somebody_elses(method: str, path: str) -> None:
    assert claimed(method, path) is None


@pytest.mark.parametrize("script_name", ["", "/shop", "/API/Notification"])
def test_the_mount_point_does_not_count(script_name: str) -> None:
    seen: list[dict[str, Any]] = []

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        seen.append(dict(environ))
        return plain_app()(environ, start_response)

    middleware = DeprecationMiddleware(app, POLICY)
    run(middleware, environ_of(path="/api/notification", SCRIPT_NAME=script_name))
    run(middleware, environ_of(path="/other", SCRIPT_NAME=script_name))
    (ours, other) = seen
    assert (ours["SCRIPT_NAME"], ours["PATH_INFO"]) == (script_name, "/API/Notification/")
    assert ours["flask_notifications.original_path"] == "/api/notification"
    assert other["PATH_INFO"] == "/other"
    assert "flask_notifications.original_path" not in other


@pytest.mark.parametrize(
    ("template", "path", "own"),
    [
        pytest.param("/caf%C3%A9/", "/caf\xc3\xa9", "/caf\xc3\xa9/", id="a literal that is percent-encoded"),
        pytest.param("/caf\xe9/", "/CAF\xc3\xa9/", "/caf\xc3\xa9/", id="a literal as text: UTF-8 on the wire"),
        pytest.param("/caf%C3%A9/", "/caf\xc3\x89/", None, id="only ASCII letters have two cases"),
        pytest.param("/%E9/", "/\xc9/", None, id="nor do the letters that latin-1 sees in bytes"),
        pytest.param("/%E9/", "/\xe9/", "/\xe9/", id="a byte that is not UTF-8"),
        pytest.param("/a%20b", "/A b/", "/a b", id="a space that is percent-encoded"),
        pytest.param("/Page", "/page/", "/Page", id="own spelling without a slash"),
        pytest.param("/", "", "/", id="the root, without a path"),
        pytest.param("/", "/", "/", id="the root"),
        pytest.param("/", "//", None, id="two slashes are not the root"),
        pytest.param("/{id}", "/x/", "/x", id="a parameter alone"),
        pytest.param("/{id}", "/", None, id="a parameter is not empty"),
        pytest.param("/{id}", "x", None, id="not a path"),
        pytest.param("/@AZ[", "/@az[", "/@AZ[", id="all letters have two cases, what is around them one"),
        pytest.param("/@AZ[\xe9", "/`AZ[\xc3\xa9", None, id="before the letters"),
        pytest.param("/@AZ[\xe9", "/@az{\xc3\xa9", None, id="behind the letters"),
        pytest.param("/@AZ[\xe9", "/@az[\xc3\xa9", "/@AZ[\xc3\xa9", id="the same, beside other letters"),
        pytest.param("/{a}/B/{c}/", "/X/b/Y", "/X/B/Y/", id="parameters around a literal"),
    ],
)
def test_a_template_of_its_own(template: str, path: str, own: str | None) -> None:
    claim = OperationTable([Operation("own", "GET", template)]).match("GET", path)
    assert (claim and claim.path) == own


@pytest.mark.parametrize("path", ["x", "x/", "x/y", "x/y/z", "xA/y/z", "xA/y/z/"])
def test_no_operation_has_a_path_without_a_leading_slash(path: str) -> None:
    templates = ["/", "/{a}", "/{a}/{b}", "/A/{b}", "/A/{b}/z"]
    table = OperationTable(Operation(template, "GET", template) for template in templates)
    assert claimed("GET", path, table) is None


@pytest.mark.parametrize(
    ("templates", "beginning"),
    [
        ([], ""),
        (["/"], ""),
        (["/{id}"], ""),
        (["/", "/A"], ""),
        (["/A", "/B"], ""),
        (["/A"], "/a"),
        (["/A/B/"], "/a/b"),
        (["/A/{id}/B"], "/a"),
        (["/A/B/{id}", "/A/b/C"], "/a/b"),
        (["/A/Bc", "/A/B"], "/a"),
        (["/caf%C3%89"], "/caf\xe3\x89"),
    ],
)
def test_every_path_of_a_table_begins_alike(templates: list[str], beginning: str) -> None:
    table = OperationTable(Operation(template, method, template) for template in templates for method in ("GET", "PUT"))
    assert table.beginning == beginning
    for template in templates:
        path = unquote(template, "latin-1").format(id="X")
        for spelled in (path, path.rstrip("/"), path.upper() if path.isascii() else path):
            assert claimed("GET", spelled, table) is not None
            assert spelled.lower().startswith(beginning)


def test_nobody_changes_a_claim_that_another_request_gets_too() -> None:
    claim = TABLE.match("GET", "/API/Notification/")
    assert claim is not None
    assert claim is TABLE.match("GET", "/api/notification")
    with pytest.raises(FrozenInstanceError):
        claim.path = "/elsewhere"  # type: ignore[misc] # the mistake that is tested
    with pytest.raises(FrozenInstanceError):
        claim.operation.path = "/elsewhere"  # type: ignore[misc] # the same


def test_a_literal_wins_over_a_parameter_in_any_order() -> None:
    operations = [
        Operation("parameter", "GET", "/items/{id}"),
        Operation("literal", "GET", "/items/New"),
        Operation("deep", "GET", "/items/{id}/parts"),
        Operation("deeper", "GET", "/{kind}/new/price"),
        Operation("left", "GET", "/stock/{id}"),
        Operation("right", "GET", "/{kind}/one"),
    ]
    for order in (operations, operations[::-1]):
        table = OperationTable(order)
        assert claimed("GET", "/items/new", table) == ("literal", "/items/New")
        assert claimed("GET", "/items/news", table) == ("parameter", "/items/news", "news")
        # A literal that leads nowhere does not hide the parameter beside it.
        assert claimed("GET", "/items/new/parts", table) == ("deep", "/items/new/parts", "new")
        assert claimed("GET", "/items/NEW/price", table) == ("deeper", "/items/new/price", "items")
        # Of two that stand for as much, that with the leftmost literal goes first.
        assert claimed("GET", "/stock/one", table) == ("left", "/stock/one", "one")
        assert claimed("GET", "/shelf/one", table) == ("right", "/shelf/one", "shelf")


def test_an_operation_of_head_goes_before_that_of_get() -> None:
    table = OperationTable([Operation("get", "GET", "/{id}"), Operation("head", "HEAD", "/x")])
    assert claimed("HEAD", "/x", table) == ("head", "/x")
    assert claimed("HEAD", "/y", table) == ("get", "/y", "y")
    assert claimed("GET", "/x", table) == ("get", "/x", "x")


def test_a_thousand_operations_do_not_get_in_each_others_way() -> None:
    table = OperationTable(Operation(f"op{number}", "GET", f"/v1/Thing{number}/{{id}}/") for number in range(1000))
    for number in range(1000):
        assert claimed("GET", f"/V1/thing{number}/X", table) == (f"op{number}", f"/v1/Thing{number}/X/", "X")
    assert claimed("GET", "/v1/thing1000/X", table) is None


def test_the_methods_of_a_path_are_what_allow_says() -> None:
    table = OperationTable([*NOTIFICATION_OPERATIONS, Operation("replace", "PUT", "/API/Notification")])
    assert table.methods("/api/notification") == ["GET", "HEAD", "PUT"]
    assert table.methods("/API/Notification/GetNotificationsForAccount/x") == ["POST"]
    assert table.methods("/nothing") == []


@pytest.mark.parametrize(
    ("prefix", "successor_prefix", "paths", "successors"),
    [
        pytest.param("/API/Notification", None, "/API/Notification", "/API/Notification", id="the default"),
        pytest.param("/v1/notes", None, "/v1/notes", "/v1/notes", id="another prefix"),
        pytest.param("/v1/notes/", None, "/v1/notes", "/v1/notes", id="a slash at the end"),
        pytest.param("/v1", "/v2", "/v1", "/v2", id="successors elsewhere"),
        pytest.param("/v1", "https://v2.example/n/", "/v1", "https://v2.example/n", id="successors on another host"),
        pytest.param("", None, "", "", id="at the root"),
        pytest.param("/", None, "", "", id="at the root, with a slash"),
    ],
)
def test_the_operations_below_another_prefix(
    prefix: str, successor_prefix: str | None, paths: str, successors: str
) -> None:
    assert notification_operations(prefix, successor_prefix=successor_prefix) == (
        Operation("current_user", "GET", f"{paths}/", f"{successors}/CurrentUser"),
        Operation("account", "POST", f"{paths}/GetNotificationsForAccount/{{id}}/", f"{successors}/Account"),
    )


def test_the_default_operations_are_those_of_the_original_server() -> None:
    assert notification_operations() == NOTIFICATION_OPERATIONS
    assert [(operation.method, operation.path, operation.successor) for operation in NOTIFICATION_OPERATIONS] == [
        ("GET", "/API/Notification/", "/API/Notification/CurrentUser"),
        ("POST", "/API/Notification/GetNotificationsForAccount/{id}/", "/API/Notification/Account"),
    ]


def test_a_method_is_kept_in_upper_case() -> None:
    assert Operation("report", "patch", "/").method == "PATCH"


@pytest.mark.parametrize(
    ("named", "changed"),
    [
        pytest.param("name", {"name": ""}, id="empty name"),
        pytest.param("name", {"name": None}, id="no name"),
        pytest.param("name", {"name": b"report"}, id="name as bytes"),
        pytest.param("method", {"method": ""}, id="empty method"),
        pytest.param("method", {"method": "GE T"}, id="space in the method"),
        pytest.param("method", {"method": "GET\n"}, id="newline after the method"),
        pytest.param("method", {"method": b"GET"}, id="method as bytes"),
        pytest.param("path", {"path": ""}, id="empty path"),
        pytest.param("path", {"path": "reports"}, id="no leading slash"),
        pytest.param("path", {"path": "https://api.example/reports"}, id="a URL"),
        pytest.param("path", {"path": b"/reports"}, id="path as bytes"),
        pytest.param("path", {"path": "/re ports"}, id="space"),
        pytest.param("path", {"path": "/reports "}, id="space at the end"),
        pytest.param("path", {"path": "/reports\n"}, id="newline"),
        pytest.param("path", {"path": "/reports\x7f"}, id="DEL"),
        pytest.param("path", {"path": "/reports?a=b"}, id="a query"),
        pytest.param("path", {"path": "/reports#a"}, id="a fragment"),
        pytest.param("path", {"path": "/reports/{id"}, id="brace that is not closed"),
        pytest.param("path", {"path": "/reports/id}"}, id="brace that is not opened"),
        pytest.param("path", {"path": "/reports/}id{"}, id="braces the wrong way round"),
        pytest.param("path", {"path": "/reports/{{id}}"}, id="doubled braces"),
        pytest.param("path", {"path": "/reports/{{id}"}, id="a doubled brace that opens"),
        pytest.param("path", {"path": "/reports/{id}}"}, id="a doubled brace that closes"),
        pytest.param("path", {"path": "/reports/{}"}, id="no parameter name"),
        pytest.param("path", {"path": "/reports/{a/b}"}, id="slash in a parameter name"),
        pytest.param("path", {"path": "/reports/v{id}"}, id="part of a segment"),
        pytest.param("path", {"path": "/reports/{a}{b}"}, id="two in a segment"),
        pytest.param("path", {"path": "//reports"}, id="an empty segment in front"),
        pytest.param("path", {"path": "/reports//"}, id="an empty segment at the end"),
        pytest.param("path", {"path": "/reports/../x"}, id="a dot segment"),
        pytest.param("path", {"path": "/reports/%2E/x"}, id="an encoded dot segment"),
        pytest.param("path", {"path": "/reports%2Fx"}, id="an encoded slash"),
        pytest.param("successor", {"successor": ""}, id="empty successor"),
        pytest.param("successor", {"successor": "/a>; rel=x"}, id="successor that closes its bracket"),
        pytest.param("successor", {"successor": "/a\r\nSet-Cookie: x"}, id="successor with another header"),
        pytest.param("successor", {"successor": "/caf\xe9"}, id="successor that is not ASCII"),
        pytest.param("successor", {"successor": 1}, id="successor that is no text"),
    ],
)
def test_what_cannot_be_an_operation_is_refused_by_name(named: str, changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"^{named}\b"):
        Operation(**{"name": "report", "method": "GET", "path": "/reports", **changed})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("/reports/{id}", "/Reports/{id}", id="letter case"),
        pytest.param("/reports/{id}", "/reports/{key}", id="parameter name"),
        pytest.param("/reports/{id}", "/reports/{id}/", id="trailing slash"),
        pytest.param("/reports/{id}", "/r%65ports/{id}", id="percent-encoding"),
        pytest.param("/reports/{id}", "/reports/{id}", id="nothing"),
    ],
)
def test_two_operations_that_no_request_tells_apart_are_refused(first: str, second: str) -> None:
    twins = [Operation("one", "GET", first), Operation("two", "GET", second)]
    with pytest.raises(ValueError, match="operations"):
        OperationTable(twins)
    with pytest.raises(ValueError, match="operations"):
        DeprecationMiddleware(plain_app(), POLICY, operations=twins)


def test_the_same_path_with_another_method_is_another_operation() -> None:
    table = OperationTable([Operation("one", "GET", "/reports"), Operation("two", "PUT", "/Reports")])
    assert (claimed("GET", "/reports", table), claimed("PUT", "/reports", table)) == (
        ("one", "/reports"),
        ("two", "/Reports"),
    )


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([("GET", "/reports")], id="a pair"),
        pytest.param([*NOTIFICATION_OPERATIONS, None], id="None beside operations"),
        pytest.param(NOTIFICATION_OPERATIONS[0], id="an operation alone"),
        pytest.param(None, id="None"),
    ],
)
def test_what_is_no_sequence_of_operations_is_refused(operations: Any) -> None:
    with pytest.raises(ValueError, match=r"^operations\b"):
        OperationTable(operations)


WORDS = ["API", "Notification", "GetNotificationsForAccount", "a1", ".", "..", "", "x;y", "\xe9", "\u0130"]
PATHS = st.one_of(
    st.text(),
    st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=6).map("/".join),
    st.lists(st.sampled_from(WORDS[3:]) | st.text(max_size=3), max_size=3).map(
        lambda words: "/API/Notification/GetNotificationsForAccount/" + "/".join(words)
    ),
)
METHODS = st.sampled_from(["GET", "HEAD", "POST", "OPTIONS"]) | st.text(max_size=4)

# The rules once more, as regular expressions; re.ASCII keeps letters such as the Turkish i apart from the ASCII ones.
ORACLE = {
    "GET": re.compile(r"/api/notification/?", re.IGNORECASE | re.ASCII),
    "POST": re.compile(
        r"/api/notification/getnotificationsforaccount/(?!\.\.?/?\Z)([^/]+)/?", re.IGNORECASE | re.ASCII
    ),
}
ORACLE["HEAD"] = ORACLE["GET"]


def cased(path: str, lower: list[bool]) -> str:
    """Return a path with the letter case of some of its ASCII characters changed."""
    swaps = [*lower, *[False] * len(path)]
    return "".join(
        char.swapcase() if swap and char.isascii() else char for char, swap in zip(path, swaps, strict=False)
    )


@settings(deadline=None, max_examples=500)
@given(METHODS, PATHS, st.lists(st.booleans()))
def test_any_text_is_matched_as_the_rules_say(method: str, path: str, swaps: list[bool]) -> None:
    path = cased(path, swaps)
    expected = ORACLE[method].fullmatch(path) if method in ORACLE else None
    claim = TABLE.match(method, path)
    assert (None if claim is None else claim.parameters) == (None if expected is None else expected.groups())


@settings(deadline=None, max_examples=300)
@given(METHODS, PATHS)
def test_a_claimed_path_in_its_own_spelling_is_the_same_claim(method: str, path: str) -> None:
    claim = TABLE.match(method, path)
    assert claim is None or TABLE.match(method, claim.path) == claim


@settings(deadline=None, max_examples=300)
@given(st.text("abcXYZ%;.-_~ \xe9\xc9", min_size=1), st.lists(st.booleans(), max_size=60), st.booleans())
def test_the_case_of_literals_never_changes_the_outcome(account_id: str, swaps: list[bool], slash: bool) -> None:
    prefix = "/API/Notification/GetNotificationsForAccount/"
    path = cased(prefix, swaps) + account_id + "/" * slash
    assert claimed("POST", path) == claimed("POST", prefix + account_id)


@pytest.mark.parametrize(("arguments", "named"), [((None,), "prefix"), ((b"/x",), "prefix")])
def test_a_prefix_that_is_no_text_is_named(arguments: tuple[Any, ...], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        notification_operations(*arguments)


def test_a_successor_prefix_that_is_no_text_is_named() -> None:
    with pytest.raises(ValueError, match="successor_prefix"):
        notification_operations(successor_prefix=3)  # type: ignore[arg-type]
