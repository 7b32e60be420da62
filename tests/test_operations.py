"""Which requests match which operation of a plan, and how old clients may spell a path."""

import re
from typing import Any
from urllib.parse import unquote

import pytest

from flask_notifications import (
    DeprecationMiddleware,
    Operation,
    notification_operations,
)
from flask_notifications.plans.operations import OperationTable
from tests.middleware import CLOSED, Spy
from tests.middleware import DATE_ONLY as POLICY
from tests.storages import raising
from tests.wsgi import Response, environ_of, run

LIKE_OLD_SERVER: dict[str, Any] = {"rewrite_path": True, "unify_session": True}
TABLE = OperationTable(notification_operations())


def find_match(
    method: str, path: str, table: OperationTable = TABLE
) -> tuple[str, ...] | None:
    """Return the operation's name, the path as its template spells it and the
    parameters, or ``None``.
    """
    match = table.match(method, path)
    return (
        None
        if match is None
        else (match.operation.name, match.path, *match.parameters.values())
    )


def send(
    plan: Any, method: str = "GET", path: str = "/", query: str = "", **extra: str
) -> Response:
    return run(
        DeprecationMiddleware(Spy(), plan), environ_of(method, path, query, **extra)
    )


@pytest.mark.parametrize(
    ("path", "account_id"),
    [
        pytest.param(
            "/api/notification/getnotificationsforaccount/AcC",
            "AcC",
            id="the parameter keeps its case",
        ),
        pytest.param(
            "/API/Notification/GetNotificationsForAccount/..;",
            "..;",
            id="more than a dot segment",
        ),
        pytest.param(
            "/API/Notification/GetNotificationsForAccount/\xc3\x84\xff",
            "\xc3\x84\xff",
            id="bytes",
        ),
        pytest.param(
            "/API/Notification/GetNotificationsForAccount/ ",
            " ",
            id="a space is a segment",
        ),
    ],
)
def test_an_account_matches_in_any_spelling(path: str, account_id: str) -> None:
    own = f"/API/Notification/GetNotificationsForAccount/{account_id}/"
    assert (
        find_match("POST", path)
        == find_match("post", path)
        == ("account", own, account_id)
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("OPTIONS", "/API/Notification/", id="OPTIONS"),
        pytest.param("GET", "", id="an empty path"),
        pytest.param("GET", "/API/Notification;v=1/", id="; in a literal"),
        pytest.param("GET", "/API/Not\u0131fication/", id="the Turkish i is not ASCII"),
        pytest.param(
            "GET",
            "/API/Notification/GetNotificationsForAccount/acc/",
            id="another method",
        ),
        pytest.param(
            "POST", "/API/Notification/GetNotificationsForAccount/", id="no parameter"
        ),
        pytest.param(
            "POST",
            "/API/Notification/GetNotificationsForAccount/a/b",
            id="a decoded slash",
        ),
        pytest.param("GET", "/API/../Notification/", id="dots that lead elsewhere"),
        pytest.param("GET", "/ /API/Notification/", id="a space as a segment"),
        pytest.param("GET", "x/API/Notification/", id="no slash at the beginning"),
    ],
)
def test_every_other_request_does_not_match(method: str, path: str) -> None:
    assert TABLE.match(method, path) is None
    assert TABLE.find(method, path) == []


@pytest.mark.parametrize(
    ("template", "path", "own"),
    [
        pytest.param(
            "/caf%C3%A9/",
            "/caf\xc3\xa9",
            "/caf\xc3\xa9/",
            id="a literal that is percent-encoded",
        ),
        pytest.param(
            "/caf\xe9/",
            "/CAF\xc3\xa9/",
            "/caf\xc3\xa9/",
            id="a literal that is sent as UTF-8",
        ),
        pytest.param(
            "/caf%C3%A9/", "/caf\xc3\x89/", None, id="only ASCII letters have two cases"
        ),
        pytest.param("/%E9/", "/\xc9/", None, id="letters of latin-1 have one case"),
        pytest.param("/%E9/", "/\xe9/", "/\xe9/", id="a byte that is not UTF-8"),
        pytest.param("/", "", "/", id="the root, without a path"),
        pytest.param("/", "//", None, id="two slashes are not the root"),
        pytest.param("/{id}", "/..", None, id="dots as a parameter"),
        pytest.param("/@AZ[\xe9", "/`AZ[\xc3\xa9", None, id="before the letters"),
        pytest.param("/@AZ[\xe9", "/@az{\xc3\xa9", None, id="after the letters"),
        pytest.param(
            "/{a}/B/{c}/", "/X/b/Y", "/X/B/Y/", id="parameters around a literal"
        ),
    ],
)
def test_a_path_is_returned_as_its_template_spells_it(
    template: str, path: str, own: str | None
) -> None:
    match = OperationTable([Operation("own", "GET", template)]).match("GET", path)
    assert (match and match.path) == own


def test_a_literal_wins_over_a_parameter_in_any_order() -> None:
    operations = [
        *(
            Operation("parameter", "GET", "/items/{id}"),
            Operation("literal", "GET", "/items/New"),
        ),
        *(
            Operation("deep", "GET", "/items/{id}/parts"),
            Operation("deeper", "GET", "/{kind}/new/price"),
        ),
        *(
            Operation("left", "GET", "/stock/{id}"),
            Operation("right", "GET", "/{kind}/one"),
        ),
    ]
    for order in (operations, operations[::-1]):
        table = OperationTable(order)
        assert find_match("GET", "/items/New", table) == ("literal", "/items/New")
        assert find_match("GET", "/items/news", table) == (
            "parameter",
            "/items/news",
            "news",
        )
        # A literal that leads nowhere does not hide the parameter beside it.
        assert find_match("GET", "/items/new/parts", table) == (
            "deep",
            "/items/new/parts",
            "new",
        )
        assert find_match("GET", "/items/NEW/price", table) == (
            "deeper",
            "/items/new/price",
            "items",
        )
        # Of two equal ones, the one with the leftmost literal wins.
        assert find_match("GET", "/stock/one", table) == ("left", "/stock/one", "one")
        assert find_match("GET", "/shelf/one", table) == (
            "right",
            "/shelf/one",
            "shelf",
        )


def test_the_methods_of_a_path_are_those_of_its_operations() -> None:
    table = OperationTable(
        [*notification_operations(), Operation("replace", "PUT", "/API/Notification")]
    )
    assert table.methods("/api/notification") == ["GET", "HEAD", "PUT"]
    assert table.methods("/API/Notification/GetNotificationsForAccount/x") == ["POST"]
    assert table.methods("/nothing") == table.methods("") == []


@pytest.mark.parametrize(
    ("prefix", "successor_prefix", "paths", "successors"),
    [
        pytest.param(
            "/API/Notification",
            None,
            "/API/Notification",
            "/API/Notification",
            id="the default",
        ),
        pytest.param(
            "/v1/notes/", None, "/v1/notes", "/v1/notes", id="a slash at the end"
        ),
        pytest.param(
            "/v1",
            "https://v2.example/n/",
            "/v1",
            "https://v2.example/n",
            id="successors on another host",
        ),
        pytest.param("", "", "", "", id="at the root"),
    ],
)
def test_operations_may_have_another_prefix(
    prefix: str, successor_prefix: Any, paths: str, successors: str
) -> None:
    assert notification_operations(prefix, successor_prefix=successor_prefix) == (
        Operation(
            "current_user",
            "GET",
            f"{paths}/",
            f"{successors}/CurrentUser",
            **LIKE_OLD_SERVER,
        ),
        Operation(
            "account",
            "POST",
            f"{paths}/GetNotificationsForAccount/{{id}}/",
            f"{successors}/Account",
            **LIKE_OLD_SERVER,
        ),
    )


@pytest.mark.parametrize(
    ("argument", "values", "message"),
    [
        ("name", ["", "a\0b", "\ud800"], ""),
        ("method", ["GE T", 1], ""),
        ("method", ["ANY", "any"], r" be one HTTP method, such as 'GET', or '\*'"),
        (
            "path",
            [
                "x",
                1,
                "/\udc80",
                "/reports//",
                "/reports/%2E/x",
                "/reports%2Fx",
                "/{a}/{a}",
            ],
            "",
        ),
        ("path", ["/a//**"], " be free of empty segments"),
        ("path", ["/**/x"], " be a template, which may end in '/"),
        ("rewrite_path", ["yes"], ""),
        ("unify_session", [None], ""),
        ("successor", ["/v2/{id}", "/{a", 1], ""),
        ("successor", ["/b/**"], " be without"),
        ("query", ["cmd=x"], " be a mapping"),
        ("query", [{"": "x"}, {1: "x"}], " be a mapping whose keys"),
        (
            "query",
            [{"a": 1}, {"a": "\ud800"}, {"a": []}, {"a": ["b", 1]}],
            " be a mapping whose values",
        ),
        ("headers", [{"API Version": "1"}], " be a mapping whose keys"),
        ("headers", [{"Accept": "\xe9"}], " be a mapping whose values"),
    ],
)
def test_an_invalid_argument_of_an_operation_is_refused_by_name(
    argument: str, values: list[Any], message: str
) -> None:
    for value in values:
        with pytest.raises(ValueError, match=f"^{argument} must{message}"):
            Operation(
                **{
                    "name": "report",
                    "method": "GET",
                    "path": "/reports/{a}",
                    argument: value,
                }
            )


@pytest.mark.parametrize(
    "segment",
    [
        *(
            "<id>",
            "<int:id>",
            "report-<id>",
            ":id",
            "*",
            "**/x",
            "**/",
            "{id}**",
            "*.json",
            "(.+)",
            "(?P<id>x)",
        ),
        *(r"\d+", "{id:int}", "v(1|2)"),
    ],
)
def test_a_template_in_the_syntax_of_a_router_is_refused_with_the_right_form(
    segment: str,
) -> None:
    with pytest.raises(
        ValueError, match=r"^path must be .*'/items/\{id\}', not '/reports/"
    ):
        Operation("report", "GET", f"/reports/{segment}")


@pytest.mark.parametrize(
    "segment", ["$metadata", "items:batch", "a(b)", "~user", "%2A", "%3Aid", "@me"]
)
def test_a_literal_that_only_looks_like_a_parameter_matches(segment: str) -> None:
    path = f"/{segment}"
    assert (
        OperationTable([Operation("x", "GET", path)]).match("GET", unquote(path))
        is not None
    )


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("API/Notification/", id="no slash at the beginning"),
        pytest.param(
            "/API/Notification/\x00\x7f\xc2\x9f", id="control characters at the end"
        ),
        pytest.param("/API/Notification/\xc2\xa0", id="a space that does not break"),
        pytest.param("/API/Notification/\xe3\x80\x80", id="an ideographic space"),
        pytest.param("/API/Notification/\xe2\x82", id="a truncated character"),
        pytest.param("/AP\xc4\xb0/Notification/", id="a capital I with a dot"),
        pytest.param("/API/./Notification/", id="a dot segment"),
        pytest.param("/../API/x/../Notification//.", id="dots that lead nowhere else"),
        pytest.param("//API/./Not\xc4\xb1fication\xff/\n", id="all of these"),
    ],
)
def test_a_path_that_a_lenient_router_may_accept_is_a_lookalike(path: str) -> None:
    assert TABLE.match("GET", path) is None
    (match,) = TABLE.find("get", path)
    assert (match.operation.name, match.path, match.is_lookalike) == (
        "current_user",
        "/API/Notification/",
        True,
    )
    assert (
        send(dict.fromkeys(notification_operations(), CLOSED), "get", path).code == 410
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("/reports/{id}", "/Reports/{id}", id="letter case"),
        pytest.param("/reports/{id}", "/reports/{key}", id="parameter name"),
        pytest.param("/reports/{id}", "/r%65ports/{id}", id="percent-encoding"),
    ],
)
def test_two_operations_that_match_the_same_requests_are_refused(
    first: str, second: str
) -> None:
    twins = [Operation("one", "GET", first), Operation("two", "GET", second)]
    with pytest.raises(ValueError, match="operations"):
        OperationTable(twins)


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        *(("prefix", each) for each in (None, b"/x", "x", "x/", "/a b")),
        *(("successor_prefix", each) for each in (3, 0, "/a b", "https://")),
    ],
)
def test_a_prefix_that_is_no_path_is_refused_by_name(name: str, prefix: Any) -> None:
    with pytest.raises(
        ValueError, match=f"^{name} must be .*, not {re.escape(repr(prefix))}$"
    ):
        notification_operations(**{name: prefix})


V1 = Operation("v1", "*", "/api/v1/**", "/api/v2/**")
REST, ID = ("/v1/**", "/v2/**"), ("/reports/{id}", "/v2/{id}?again={id}")


@pytest.mark.parametrize(
    ("operation", "path", "target"),
    [
        pytest.param(
            ID,
            "/reports/\xc3\xa4;v=.",
            "/v2/%C3%A4%3Bv%3D.?again=%C3%A4%3Bv%3D.",
            id="bytes and delimiters",
        ),
        pytest.param(
            ID,
            "/reports/>\r\n<",
            "/v2/%3E%0D%0A%3C?again=%3E%0D%0A%3C",
            id="the end of a header",
        ),
        pytest.param(ID, "/reports/\u20ac", "/v2/%3F?again=%3F", id="no WSGI string"),
        pytest.param(ID, "/reports/.", None, id="a dot as a parameter"),
        pytest.param(REST, "/v1", "/v2", id="its own path"),
        pytest.param(
            REST,
            "/v1/a b;c/\xc3\xa4\xff?",
            "/v2/a%20b%3Bc/%C3%A4%FF%3F",
            id="percent-encoded anew",
        ),
        pytest.param(
            ("/v1/**", "x:/**"),
            "/v1/{x}/**",
            "x:/%7Bx%7D/%2A%2A",
            id="braces and asterisks",
        ),
        pytest.param(
            ("/v1/**", "/v2?at=**"),
            "/v1/a%2Fb",
            "/v2?at=/a%252Fb",
            id="encoded twice by the client",
        ),
        pytest.param(REST, "/v1/a//b", None, id="an empty segment inside"),
        pytest.param(REST, "/v1/..", None, id="dots"),
        pytest.param(
            ("/old/**", "/**"), "/old//evil.example", None, id="never another host"
        ),
        pytest.param(
            ("/old/**", "/**?from=old"),
            "/old",
            "/?from=old",
            id="the root with a query",
        ),
        pytest.param(
            ("/{x}/v1/**", "/v2/{x}"),
            "/**/v1/x",
            "/v2/%2A%2A",
            id="a parameter of asterisks",
        ),
        pytest.param(("/**", "/v2/**"), "", "/v2/", id="of everything"),
    ],
)
def test_a_successor_is_filled_in_from_the_request(
    operation: tuple[str, str], path: str, target: str | None
) -> None:
    links = send({Operation("old", "*", *operation): POLICY}, path=path).all("Link")
    assert links == ([] if target is None else [f'<{target}>; rel="successor-version"'])


@pytest.mark.parametrize(
    ("method", "is_closed"), [("GET", 1), ("PATCH", 1), ("PROPFIND", 1), ("OPTIONS", 0)]
)
def test_any_method_is_not_the_one_that_a_preflight_has(
    method: str, is_closed: int
) -> None:
    assert send({V1: CLOSED}, method, "/api/v1/x").code == (410 if is_closed else 200)


def test_a_method_of_its_own_wins_over_any_method() -> None:
    table = OperationTable(
        [
            V1,
            Operation("head", "HEAD", "/api/v1/**"),
            Operation("get", "GET", "/api/v1/**"),
        ]
    )
    for method, *names in (
        ("HEAD", "head"),
        ("GET", "get"),
        ("PUT", "v1"),
        ("get", "v1", "get"),
    ):
        assert [
            match.operation.name for match in table.find(method, "/api/v1/x")
        ] == names
    assert table.methods("/api/v1/x") == ["*", "GET", "HEAD"]


UNSHOWABLE = type("Unshowable", (), {"__repr__": raising(RuntimeError())})()


@pytest.mark.parametrize(
    "value",
    [
        *("a" * 10_000 + "\n", ["GET"] * 10_000, UNSHOWABLE, 10**5_000),
        type(
            "array", (), {}
        )(),  # the name of another type, which reprlib would take it for
    ],
    ids=["long", "many", "broken", "a number of many digits", "array"],
)
def test_an_error_shows_a_value_of_any_size_and_type(value: Any) -> None:
    with pytest.raises(
        ValueError,
        match=r"^name must be a string of one or more printable characters, not .{,1050}$",
    ):
        Operation(value, "GET", "/reports")
