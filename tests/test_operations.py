"""Which requests match, and how old clients may spell a path."""

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_notifications import (
    NOTIFICATION_OPERATIONS,
    DeprecationMiddleware,
    DeprecationPolicy,
    Operation,
    notification_operations,
)
from flask_notifications.operations import OperationTable
from tests.growth import grows_linearly
from tests.wsgi import environ_of, plain_app, run

LIKE_OLD_SERVER = {"rewrite_path": True, "unify_session": True}
TABLE = OperationTable(NOTIFICATION_OPERATIONS)
POLICY = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))


def find_match(method: str, path: str, table: OperationTable = TABLE) -> tuple[str, ...] | None:
    """Return the operation's name, the path as its template spells it and the parameters, or ``None``."""
    match = table.match(method, path)
    return None if match is None else (match.operation.name, match.path, *match.parameters.values())


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/API/Notification/", id="as it is documented"),
        pytest.param("/API/Notification", id="without the slash"),
        pytest.param("/api/notification/", id="lower case"),
        pytest.param("/Api/NOTIFICATION", id="mixed case"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "get", "Head"])
def test_the_current_user_matches_in_any_spelling(method: str, path: str) -> None:
    assert find_match(method, path) == ("current_user", "/API/Notification/")


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
def test_an_account_matches_in_any_spelling(path: str, account_id: str) -> None:
    own = f"/API/Notification/GetNotificationsForAccount/{account_id}/"
    assert find_match("POST", path) == find_match("post", path) == ("account", own, account_id)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("OPTIONS", "/API/Notification/", id="OPTIONS"),
        pytest.param("POST", "/API/Notification/", id="create a notification"),
        pytest.param("PUT", "/API/Notification/", id="PUT"),
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
        pytest.param("GET", "*", id="an asterisk for the server"),
        pytest.param("GET", "//API/Notification/", id="// at the beginning"),
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
        pytest.param("HEAD", "/API/Notification/GetNotificationsForAccount/acc/", id="HEAD is not POST"),
        pytest.param("POST", "/API/Notification/GetNotificationsForAccount/", id="no parameter"),
        pytest.param("POST", "/API/Notification/GetNotificationsForAccount", id="no parameter, no slash"),
        pytest.param("POST", "/API/Notification/GetNotificationsForAccount//", id="an empty parameter"),
        pytest.param("POST", "/API/Notification/GetNotificationsForAccount/./", id="a dot as the parameter"),
        pytest.param("POST", "/API/Notification/GetNotificationsForAccount/..", id="two dots as the parameter"),
        pytest.param("POST", "/API/Notification/GetNotificationsForAccount/a/b", id="a decoded slash"),
        pytest.param("POST", "/API/Notification/GetNotificationsForAccount/a//", id="// after the parameter"),
    ],
)
def test_every_other_request_does_not_match(method: str, path: str) -> None:
    assert find_match(method, path) is None


@pytest.mark.parametrize("script_name", ["", "/shop", "/API/Notification"])
def test_the_mount_point_does_not_affect_the_match(script_name: str) -> None:
    seen: list[dict[str, Any]] = []

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        seen.append(dict(environ))
        return plain_app()(environ, start_response)

    middleware = DeprecationMiddleware(app, POLICY)
    run(middleware, environ_of(path="/api/notification", SCRIPT_NAME=script_name))
    run(middleware, environ_of(path="/other", SCRIPT_NAME=script_name))
    (matched, other) = seen
    assert (matched["SCRIPT_NAME"], matched["PATH_INFO"]) == (script_name, "/API/Notification/")
    assert matched["flask_notifications.original_path"] == "/api/notification"
    assert other["PATH_INFO"] == "/other"
    assert "flask_notifications.original_path" not in other


@pytest.mark.parametrize(
    ("template", "path", "own"),
    [
        pytest.param("/caf%C3%A9/", "/caf\xc3\xa9", "/caf\xc3\xa9/", id="a literal that is percent-encoded"),
        pytest.param("/caf\xe9/", "/CAF\xc3\xa9/", "/caf\xc3\xa9/", id="a literal that is sent as UTF-8"),
        pytest.param("/caf%C3%A9/", "/caf\xc3\x89/", None, id="only ASCII letters have two cases"),
        pytest.param("/%E9/", "/\xc9/", None, id="letters of latin-1 have one case"),
        pytest.param("/%E9/", "/\xe9/", "/\xe9/", id="a byte that is not UTF-8"),
        pytest.param("/a%20b", "/A b/", "/a b", id="a space that is percent-encoded"),
        pytest.param("/Page", "/page/", "/Page", id="own spelling without a slash"),
        pytest.param("/", "", "/", id="the root, without a path"),
        pytest.param("/", "/", "/", id="the root"),
        pytest.param("/", "//", None, id="two slashes are not the root"),
        pytest.param("/{id}", "/x/", "/x", id="a parameter alone"),
        pytest.param("/{id}", "/", None, id="a parameter is not empty"),
        pytest.param("/{id}", "x", None, id="not a path"),
        pytest.param("/@AZ[", "/@az[", "/@AZ[", id="only letters have two cases"),
        pytest.param("/@AZ[\xe9", "/`AZ[\xc3\xa9", None, id="before the letters"),
        pytest.param("/@AZ[\xe9", "/@az{\xc3\xa9", None, id="after the letters"),
        pytest.param("/@AZ[\xe9", "/@az[\xc3\xa9", "/@AZ[\xc3\xa9", id="the same, beside other letters"),
        pytest.param("/{a}/B/{c}/", "/X/b/Y", "/X/B/Y/", id="parameters around a literal"),
    ],
)
def test_a_path_is_returned_as_its_template_spells_it(template: str, path: str, own: str | None) -> None:
    match = OperationTable([Operation("own", "GET", template)]).match("GET", path)
    assert (match and match.path) == own


@pytest.mark.parametrize("path", ["x", "x/", "x/y", "x/y/z", "xA/y/z", "xA/y/z/"])
def test_no_operation_has_a_path_without_a_leading_slash(path: str) -> None:
    templates = ["/", "/{a}", "/{a}/{b}", "/A/{b}", "/A/{b}/z"]
    table = OperationTable(Operation(template, "GET", template) for template in templates)
    assert find_match("GET", path, table) is None


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
        assert find_match("GET", "/items/new", table) == ("literal", "/items/New")
        assert find_match("GET", "/items/news", table) == ("parameter", "/items/news", "news")
        # A literal that leads nowhere does not hide the parameter beside it.
        assert find_match("GET", "/items/new/parts", table) == ("deep", "/items/new/parts", "new")
        assert find_match("GET", "/items/NEW/price", table) == ("deeper", "/items/new/price", "items")
        # Of two equal ones, the one with the leftmost literal wins.
        assert find_match("GET", "/stock/one", table) == ("left", "/stock/one", "one")
        assert find_match("GET", "/shelf/one", table) == ("right", "/shelf/one", "shelf")


def test_an_operation_of_head_wins_over_one_of_get() -> None:
    table = OperationTable([Operation("get", "GET", "/{id}"), Operation("head", "HEAD", "/x")])
    assert find_match("HEAD", "/x", table) == ("head", "/x")
    assert find_match("HEAD", "/y", table) == ("get", "/y", "y")
    assert find_match("GET", "/x", table) == ("get", "/x", "x")


def test_a_thousand_operations_do_not_affect_each_other() -> None:
    table = OperationTable(Operation(f"op{number}", "GET", f"/v1/Thing{number}/{{id}}/") for number in range(1000))
    for number in range(1000):
        assert find_match("GET", f"/V1/thing{number}/X", table) == (f"op{number}", f"/v1/Thing{number}/X/", "X")
    assert find_match("GET", "/v1/thing1000/X", table) is None


def test_the_methods_of_a_path_are_those_of_its_operations() -> None:
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
def test_the_operations_may_have_another_prefix(
    prefix: str, successor_prefix: str | None, paths: str, successors: str
) -> None:
    assert notification_operations(prefix, successor_prefix=successor_prefix) == (
        Operation("current_user", "GET", f"{paths}/", f"{successors}/CurrentUser", **LIKE_OLD_SERVER),
        Operation(
            "account", "POST", f"{paths}/GetNotificationsForAccount/{{id}}/", f"{successors}/Account", **LIKE_OLD_SERVER
        ),
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
    ("argument", "changed"),
    [
        pytest.param("name", {"name": ""}, id="empty name"),
        pytest.param("name", {"name": None}, id="no name"),
        pytest.param("name", {"name": b"report"}, id="name as bytes"),
        pytest.param("name", {"name": "a\0b"}, id="NUL in a name"),
        pytest.param("name", {"name": "a\nb"}, id="line break in a name"),
        pytest.param("name", {"name": "a\x1b[31m"}, id="escape sequence in a name"),
        pytest.param("name", {"name": "\ud800"}, id="half a pair of surrogates in a name"),
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
        pytest.param("path", {"path": "/\udc80"}, id="half of a surrogate pair"),
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
        pytest.param("path", {"path": "//reports"}, id="an empty segment at the beginning"),
        pytest.param("path", {"path": "/reports//"}, id="an empty segment at the end"),
        pytest.param("path", {"path": "/reports/../x"}, id="a dot segment"),
        pytest.param("path", {"path": "/reports/%2E/x"}, id="an encoded dot segment"),
        pytest.param("path", {"path": "/reports%2Fx"}, id="an encoded slash"),
        pytest.param("path", {"path": "/{a}/{a}"}, id="two parameters with one name"),
        pytest.param("rewrite_path", {"rewrite_path": "yes"}, id="rewrite_path that is not a bool"),
        pytest.param("unify_session", {"unify_session": None}, id="unify_session that is not a bool"),
        pytest.param("successor", {"successor": "/v2/{id}"}, id="successor with a parameter of no path"),
        pytest.param("successor", {"path": "/{a}", "successor": "/{a"}, id="successor with an open brace"),
        pytest.param("successor", {"path": "/{a}", "successor": "/{{a}}"}, id="successor with doubled braces"),
        pytest.param("successor", {"successor": ""}, id="empty successor"),
        pytest.param("successor", {"successor": "/a>; rel=x"}, id="successor that closes its bracket"),
        pytest.param("successor", {"successor": "/a\r\nSet-Cookie: x"}, id="successor with another header"),
        pytest.param("successor", {"successor": "/caf\xe9"}, id="successor that is not ASCII"),
        pytest.param("successor", {"successor": 1}, id="successor that is no string"),
    ],
)
def test_an_invalid_argument_of_an_operation_is_refused_by_name(argument: str, changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"^{argument}\b"):
        Operation(**{"name": "report", "method": "GET", "path": "/reports", **changed})


@pytest.mark.parametrize(
    "segment", ["<id>", "<int:id>", "report-<id>", ":id", "*", "**", "*.json", "(.+)", "(?P<id>x)", r"\d+", "{id:int}"]
)
def test_a_template_in_the_syntax_of_a_router_is_refused_with_the_right_form(segment: str) -> None:
    with pytest.raises(ValueError, match=r"^path must be .*'/items/\{id\}', not '/reports/"):
        Operation("report", "GET", f"/reports/{segment}")


@pytest.mark.parametrize("segment", ["$metadata", "items:batch", "a(b)", "~user", "%2A", "%3Aid", "@me"])
def test_a_literal_that_only_looks_like_a_parameter_matches(segment: str) -> None:
    path = f"/{segment}"
    assert OperationTable([Operation("x", "GET", path)]).match("GET", unquote(path)) is not None


@pytest.mark.parametrize("method", ["*", "ANY", "any"])
def test_an_operation_has_one_method(method: str) -> None:
    with pytest.raises(ValueError, match=r"^method must be one HTTP method, such as 'GET'"):
        Operation("report", method, "/reports")


@pytest.mark.parametrize(
    ("path", "target"),
    [
        pytest.param("/reports/7", "/v2/7?again=7", id="plain"),
        pytest.param("/reports/a b", "/v2/a%20b?again=a%20b", id="a space"),
        pytest.param("/reports/\xc3\xa4;v=1", "/v2/%C3%A4%3Bv%3D1?again=%C3%A4%3Bv%3D1", id="bytes and delimiters"),
        pytest.param("/reports/{id}", "/v2/%7Bid%7D?again=%7Bid%7D", id="braces"),
        pytest.param("/reports/>\r\n<", "/v2/%3E%0D%0A%3C?again=%3E%0D%0A%3C", id="characters that would end a header"),
        pytest.param("/reports/\u20ac", "/v2/%3F?again=%3F", id="no WSGI string"),
    ],
)
def test_a_successor_is_filled_in_from_the_request(path: str, target: str) -> None:
    operation = Operation("report", "GET", "/reports/{id}", "/v2/{id}?again={id}")
    match = OperationTable([operation]).match("GET", path)
    assert match is not None
    assert operation.successor is not None
    assert match.fill_in(operation.successor) == target


LOOKALIKES = [
    pytest.param("//API/Notification/", id="two slashes at the beginning"),
    pytest.param("/API//Notification/", id="two slashes inside"),
    pytest.param("/API/Notification//", id="two slashes at the end"),
    pytest.param("////api////notification////", id="many slashes"),
    pytest.param("API/Notification/", id="no slash at the beginning"),
    pytest.param(" /API/Notification/", id="a space at the beginning"),
    pytest.param("/API/Notification/ ", id="a space at the end"),
    pytest.param("/API/Notification ", id="a space instead of the slash"),
    pytest.param("/API/Notification/\n", id="a line feed at the end"),
    pytest.param("/API/Notification\r\n", id="a line end instead of the slash"),
    pytest.param("/API/Notification/\x00", id="NUL at the end"),
    pytest.param("/API/Notification/\x7f\t ", id="several control characters"),
    pytest.param("/API/Notification/\xc2\x85", id="a control character of two bytes"),
    pytest.param("/API/Notification/\xc2\xa0", id="a space that does not break"),
    pytest.param("/API/Notification/\xe3\x80\x80", id="an ideographic space"),
    pytest.param("/API/Notification\xff/", id="a byte that is not UTF-8 at the end"),
    pytest.param("/API/No\xfftification/", id="a byte that is not UTF-8 inside"),
    pytest.param("/API/Notification/\xe2\x82", id="a truncated character"),
    pytest.param("/API/Not\xc4\xb1fication/", id="a dotless i"),
    pytest.param("/AP\xc4\xb0/Notification/", id="a capital I with a dot"),
    pytest.param("/api/notificat\xc4\xb1on", id="a dotless i, in lower case"),
    pytest.param("//API/Not\xc4\xb1fication\xff/\n", id="all of these"),
]


@pytest.mark.parametrize("path", LOOKALIKES)
def test_a_path_that_a_lenient_router_may_accept_is_a_lookalike(path: str) -> None:
    assert TABLE.match("GET", path) is None
    assert {match.operation.name for match in TABLE.match_lookalikes("get", path)} == {"current_user"}


def test_every_letter_that_folds_to_an_ascii_letter_is_a_lookalike() -> None:
    table = OperationTable([Operation("ask", "GET", "/ask")])
    for path in ("/a\u017fk", "/as\u212a"):
        assert table.match_lookalikes("GET", path.encode().decode("latin-1"))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("GET", "/API/Notification2//", id="another path"),
        pytest.param("GET", "/API/./Notification/", id="a dot segment"),
        pytest.param("GET", "/API/Notification;x/", id="a semicolon"),
        pytest.param("GET", "/API /Notification/", id="a space inside"),
        pytest.param("GET", "/ /API/Notification/", id="a space as a segment"),
        pytest.param("GET", "/API/Noti\xef\xac\x81cation/", id="a ligature"),
        pytest.param("GET", "/API/Not\xc3\xaffication/", id="another letter"),
        pytest.param("OPTIONS", "//API/Notification/", id="another method"),
        pytest.param("POST", "/API/Notification/GetNotificationsForAccount//", id="an empty parameter"),
    ],
)
def test_every_other_path_is_no_lookalike(method: str, path: str) -> None:
    assert TABLE.match_lookalikes(method, path) == []


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["/", "/a", "a", " ", "/ ", "\xff", "\xc4\xb1", ".", "/..", "\n"])
def test_work_on_a_path_grows_linearly_with_its_length(unit: str) -> None:
    def look(path: str) -> None:
        TABLE.match("POST", path)
        TABLE.match_lookalikes("POST", path)

    assert grows_linearly(look, lambda size: f"/API/Notification/GetNotificationsForAccount/{unit * size}x")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("/reports/{id}", "/Reports/{id}", id="letter case"),
        pytest.param("/reports/{id}", "/reports/{key}", id="parameter name"),
        pytest.param("/reports/{id}", "/r%65ports/{id}", id="percent-encoding"),
        pytest.param("/reports/{id}", "/reports/{id}", id="nothing"),
    ],
)
def test_two_operations_that_match_the_same_requests_are_refused(first: str, second: str) -> None:
    twins = [Operation("one", "GET", first), Operation("two", "GET", second)]
    with pytest.raises(ValueError, match="operations"):
        OperationTable(twins)
    with pytest.raises(ValueError, match="operations"):
        DeprecationMiddleware(plain_app(), POLICY, operations=twins)


@pytest.mark.parametrize("template", ["/demo", "/users/{id}"])
def test_two_operations_may_differ_in_the_trailing_slash_alone(template: str) -> None:
    table = OperationTable([Operation("without", "GET", template), Operation("with", "GET", f"{template}/")])
    path = template.format(id="7")
    assert [match and match.operation.name for match in (table.match("GET", path), table.match("GET", f"{path}/"))] == [
        "without",
        "with",
    ]


def test_the_same_path_with_another_method_is_another_operation() -> None:
    table = OperationTable([Operation("one", "GET", "/reports"), Operation("two", "PUT", "/Reports")])
    assert (find_match("GET", "/reports", table), find_match("PUT", "/reports", table)) == (
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
        pytest.param([], id="an empty list"),
        pytest.param(iter(()), id="an empty iterator"),
    ],
)
def test_another_object_than_a_sequence_of_operations_is_refused(operations: Any) -> None:
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
METHODS = st.sampled_from(["GET", "HEAD", "POST", "OPTIONS", "get"]) | st.text(max_size=4)

# The same rules as regular expressions; re.ASCII distinguishes the Turkish i from the ASCII letter.
ORACLE = {
    "GET": re.compile(r"/api/notification/?", re.IGNORECASE | re.ASCII),
    "POST": re.compile(
        r"/api/notification/getnotificationsforaccount/(?!\.\.?/?\Z)([^/]+)/?", re.IGNORECASE | re.ASCII
    ),
}
ORACLE["HEAD"] = ORACLE["GET"]


def swap_cases(path: str, chosen: list[bool]) -> str:
    """Change the letter case of some ASCII characters of a path."""
    swaps = [*chosen, *[False] * len(path)]
    return "".join(
        char.swapcase() if swap and char.isascii() else char for char, swap in zip(path, swaps, strict=False)
    )


@given(METHODS, PATHS, st.lists(st.booleans()))
def test_any_string_matches_as_the_rules_say(method: str, path: str, swaps: list[bool]) -> None:
    path = swap_cases(path, swaps)
    oracle = ORACLE.get(method.upper() if method.isascii() else method)
    expected = None if oracle is None else oracle.fullmatch(path)
    match = TABLE.match(method, path)
    parameters = None if match is None else tuple(match.parameters.values())
    assert parameters == (None if expected is None else expected.groups())


@given(METHODS, PATHS)
def test_a_path_in_the_spelling_of_its_template_is_the_same_match(method: str, path: str) -> None:
    match = TABLE.match(method, path)
    assert match is None or TABLE.match(method, match.path) == match


@given(st.text("abcXYZ%;.-_~ \xe9\xc9", min_size=1), st.lists(st.booleans(), max_size=60), st.booleans())
def test_the_case_of_literals_never_changes_the_outcome(account_id: str, swaps: list[bool], slash: bool) -> None:
    prefix = "/API/Notification/GetNotificationsForAccount/"
    path = swap_cases(prefix, swaps) + account_id + "/" * slash
    assert find_match("POST", path) == find_match("POST", prefix + account_id)


@pytest.mark.parametrize("prefix", [None, b"/x", "x", "x/"])
def test_a_prefix_that_is_no_path_is_refused_by_name(prefix: Any) -> None:
    with pytest.raises(ValueError, match=f"^prefix must be .*, not {re.escape(repr(prefix))}$"):
        notification_operations(prefix)


def test_a_successor_prefix_that_is_no_string_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="successor_prefix"):
        notification_operations(successor_prefix=3)  # type: ignore[arg-type]
