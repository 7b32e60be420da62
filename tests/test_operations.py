"""Which requests match which operation of a plan, and how old clients may spell a path."""

import re
from itertools import product
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

TABLE = OperationTable(notification_operations())


def find_match(
    method: str, path: str, table: OperationTable = TABLE
) -> tuple[str, ...] | None:
    """Return the operation's name, the path as its template spells it and the
    parameters, or ``None``.
    """
    match = table.match(method, path)
    if match is None:
        return None
    return match.operation.name, match.path, *match.parameters.values()


def send(plan: Any, method: str, path: str) -> Response:
    return run(DeprecationMiddleware(Spy(), plan), environ_of(method, path))


BELOW = "/API/Notification/GetNotificationsForAccount/"


@pytest.mark.parametrize(
    "account_id", ["AcC", "..;", "\xc3\x84\xff", pytest.param(" ", id="a space")]
)
def test_an_account_matches_in_any_spelling(account_id: str) -> None:
    expected = ("account", f"{BELOW}{account_id}/", account_id)
    for path in (f"{BELOW}{account_id}/", f"{BELOW.lower()}{account_id}"):
        assert find_match("POST", path) == find_match("post", path) == expected


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("OPTIONS", "/API/Notification/"),
        ("GET", ""),
        ("GET", "/API/Notification;v=1/"),
        ("GET", "/API/Not\u0131fication/"),
        ("GET", f"{BELOW}acc/"),
        ("POST", BELOW),
        ("POST", f"{BELOW}a/b"),
        ("GET", "/API/../Notification/"),
        ("GET", "/ /API/Notification/"),
        ("GET", "x/API/Notification/"),
    ],
)
def test_every_other_request_does_not_match(method: str, path: str) -> None:
    assert TABLE.match(method, path) is None
    assert TABLE.find(method, path) == []


# The template, the path, and its spelling if it matches.
SPELLINGS: dict[str, tuple[str, str, str | None]] = {
    "percent-encoded": ("/caf%C3%A9/", "/caf\xc3\xa9", "/caf\xc3\xa9/"),
    "UTF-8": ("/caf\xe9/", "/CAF\xc3\xa9/", "/caf\xc3\xa9/"),
    "another case of UTF-8": ("/caf%C3%A9/", "/caf\xc3\x89/", None),
    "another case of latin-1": ("/%E9/", "/\xc9/", None),
    "a byte that is not UTF-8": ("/%E9/", "/\xe9/", "/\xe9/"),
    "the root, without a path": ("/", "", "/"),
    "two slashes are not the root": ("/", "//", None),
    "dots as a parameter": ("/{id}", "/..", None),
    "before the letters": ("/@AZ[\xe9", "/`AZ[\xc3\xa9", None),
    "after the letters": ("/@AZ[\xe9", "/@az{\xc3\xa9", None),
    "around a literal": ("/{a}/B/{c}/", "/X/b/Y", "/X/B/Y/"),
}


@pytest.mark.parametrize("case", SPELLINGS)
def test_a_path_is_returned_as_its_template_spells_it(case: str) -> None:
    template, path, spelling = SPELLINGS[case]
    match = OperationTable([Operation("a", "GET", template)]).match("GET", path)
    assert (match and match.path) == spelling


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("/items/New", "/items/New"),
        ("/items/news", "/items/{id}"),
        # A literal that leads nowhere does not hide the parameter beside it.
        ("/items/new/parts", "/items/{id}/parts"),
        ("/items/NEW/price", "/{kind}/new/price"),
        # Of two equal ones, the one with the leftmost literal wins.
        ("/stock/one", "/stock/{id}"),
        ("/shelf/one", "/{kind}/one"),
    ],
)
@pytest.mark.parametrize("step", [1, -1], ids=["in this order", "in reverse order"])
def test_a_literal_wins_over_a_parameter(path: str, template: str, step: int) -> None:
    templates = ["/items/{id}", "/items/New", "/items/{id}/parts", "/{kind}/new/price"]
    templates += ["/stock/{id}", "/{kind}/one"]
    operations = []
    for name in templates[::step]:
        operations.append(Operation(name, "GET", name))
    match = OperationTable(operations).match("GET", path)
    assert match is not None
    assert match.operation.path == template


def test_a_deprecated_operation_wins_over_a_live_one_in_another_reading() -> None:
    live = Operation("live", "GET", "/a/{x}")
    deprecated = Operation("deprecated", "GET", "/a/b/")
    table = OperationTable([live, deprecated], live=[live])
    for path, expected in (("/a/b", deprecated), ("/a/c", live)):
        match = table.match("GET", path)
        assert match is not None
        assert match.operation == expected


def test_the_methods_of_a_path_are_those_of_its_operations() -> None:
    table = OperationTable(
        [*notification_operations(), Operation("replace", "PUT", "/API/Notification")]
    )
    assert table.methods("/api/notification") == ["GET", "HEAD", "PUT"]
    assert table.methods("/API/Notification/GetNotificationsForAccount/x") == ["POST"]
    assert table.methods("/nothing") == table.methods("") == []


@pytest.mark.parametrize(
    ("prefix", "successor_prefix", "path", "successor"),
    [
        ("/v1/notes/", None, "/v1/notes", "/v1/notes"),
        ("/v1", "https://v2.example/n/", "/v1", "https://v2.example/n"),
        ("", "", "", ""),
    ],
)
def test_operations_may_have_another_prefix(
    prefix: str, successor_prefix: Any, path: str, successor: str
) -> None:
    below = f"{path}/GetNotificationsForAccount/{{id}}/"
    old_server: Any = {"rewrite_path": True, "unify_session": True}
    assert notification_operations(prefix, successor_prefix=successor_prefix) == (
        Operation(
            "current_user", "GET", f"{path}/", f"{successor}/CurrentUser", **old_server
        ),
        Operation("account", "POST", below, f"{successor}/Account", **old_server),
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
    arguments: Any = {"name": "report", "method": "GET", "path": "/reports/{a}"}
    for value in values:
        with pytest.raises(ValueError, match=f"^{argument} must{message}"):
            Operation(**arguments | {argument: value})


FOREIGN = ["<int:id>", "report-<id>", ":id", "*", "**/x", "**/", "{id}**", "*.json"]
FOREIGN += ["(.+)", r"\d+", "{id:int}", "v(1|2)"]


@pytest.mark.parametrize("segment", FOREIGN)
def test_a_template_in_the_syntax_of_a_router_is_refused_with_the_right_form(
    segment: str,
) -> None:
    expected = r"^path must be .*'/items/\{id\}', not '/reports/"
    with pytest.raises(ValueError, match=expected):
        Operation("report", "GET", f"/reports/{segment}")


@pytest.mark.parametrize(
    "segment", ["$metadata", "items:batch", "a(b)", "%2A", "%3Aid"]
)
def test_a_literal_that_only_looks_like_a_parameter_matches(segment: str) -> None:
    table = OperationTable([Operation("x", "GET", f"/{segment}")])
    assert table.match("GET", f"/{unquote(segment)}") is not None


LOOKALIKES = {
    "no slash at the beginning": "API/Notification/",
    "control characters at the end": "/API/Notification/\x00\x7f\xc2\x9f",
    "a space that does not break": "/API/Notification/\xc2\xa0",
    "an ideographic space": "/API/Notification/\xe3\x80\x80",
    "a truncated character": "/API/Notification/\xe2\x82",
    "a capital I with a dot": "/AP\xc4\xb0/Notification/",
    "dots that lead nowhere else": "/../API/x/../Notification//.",
    "all of these": "//API/./Not\xc4\xb1fication\xff/\n",
}


@pytest.mark.parametrize("path", LOOKALIKES.values(), ids=LOOKALIKES)
def test_a_path_that_a_lenient_router_may_accept_is_a_lookalike(path: str) -> None:
    assert TABLE.match("GET", path) is None
    (match,) = TABLE.find("get", path)
    assert (match.operation.name, match.path) == ("current_user", "/API/Notification/")
    assert match.is_lookalike
    plan = dict.fromkeys(notification_operations(), CLOSED)
    assert send(plan, "get", path).code == 410


@pytest.mark.parametrize("path", ["/Reports/{id}", "/reports/{key}", "/r%65ports/{id}"])
def test_two_operations_that_match_the_same_requests_are_refused(path: str) -> None:
    report = Operation("a", "GET", "/reports/{id}")
    with pytest.raises(ValueError, match="operations"):
        OperationTable([report, Operation("b", "GET", path)])


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        *product(["prefix"], [None, b"/x", "x/", "/a b"]),
        *product(["successor_prefix"], [0, "/a b", "https://"]),
    ],
)
def test_a_prefix_that_is_no_path_is_refused_by_name(name: str, prefix: Any) -> None:
    expected = f"^{name} must be .*, not {re.escape(repr(prefix))}$"
    with pytest.raises(ValueError, match=expected):
        notification_operations(**{name: prefix})


V1 = Operation("v1", "*", "/api/v1/**", "/api/v2/**")
REST, ID = ("/v1/**", "/v2/**"), ("/reports/{id}", "/v2/{id}?again={id}")
# The template and successor, the path, and the target of the link.
TARGETS: list[tuple[tuple[str, str], str, str | None]] = [
    (ID, "/reports/\xc3\xa4;v=.", "/v2/%C3%A4%3Bv%3D.?again=%C3%A4%3Bv%3D."),
    (ID, "/reports/>\r\n<", "/v2/%3E%0D%0A%3C?again=%3E%0D%0A%3C"),
    (ID, "/reports/\u20ac", "/v2/%3F?again=%3F"),
    (ID, "/reports/.", None),
    (REST, "/v1", "/v2"),
    (REST, "/v1/a b;c/\xc3\xa4\xff?", "/v2/a%20b%3Bc/%C3%A4%FF%3F"),
    (("/v1/**", "x:/**"), "/v1/{x}/**", "x:/%7Bx%7D/%2A%2A"),
    (("/v1/**", "/v2?at=**"), "/v1/a%2Fb", "/v2?at=/a%252Fb"),
    (REST, "/v1/a//b", None),
    (REST, "/v1/..", None),
    (("/old/**", "/**"), "/old//evil.example", None),
    (("/old/**", "/**?from=old"), "/old", "/?from=old"),
    (("/{x}/v1/**", "/v2/{x}"), "/**/v1/x", "/v2/%2A%2A"),
    (("/**", "/v2/**"), "", "/v2/"),
]


@pytest.mark.parametrize(("templates", "path", "target"), TARGETS)
def test_a_successor_is_filled_in_from_the_request(
    templates: tuple[str, str], path: str, target: str | None
) -> None:
    plan = {Operation("old", "*", *templates): POLICY}
    links = send(plan, "GET", path).all("Link")
    if target is None:
        assert links == []
    else:
        assert links == [f'<{target}>; rel="successor-version"']


@pytest.mark.parametrize(
    ("method", "code"), [("GET", 410), ("PROPFIND", 410), ("OPTIONS", 200)]
)
def test_any_method_is_not_the_one_that_a_preflight_has(method: str, code: int) -> None:
    assert send({V1: CLOSED}, method, "/api/v1/x").code == code


def test_a_method_of_its_own_wins_over_any_method() -> None:
    head = Operation("head", "HEAD", "/api/v1/**")
    get = Operation("get", "GET", "/api/v1/**")
    table = OperationTable([V1, head, get])
    for method, expected in (("HEAD", [head]), ("PUT", [V1]), ("get", [V1, get])):
        matches = table.find(method, "/api/v1/x")
        assert [match.operation for match in matches] == expected
    assert table.methods("/api/v1/x") == ["*", "GET", "HEAD"]


UNSHOWABLE = type("Unshowable", (), {"__repr__": raising(RuntimeError())})()


@pytest.mark.parametrize(
    "value",
    # The last one has the name of another type, which reprlib would take it for.
    [
        "a" * 10_000 + "\n",
        ["GET"] * 10_000,
        UNSHOWABLE,
        10**5_000,
        type("array", (), {})(),
    ],
    ids=["long", "many", "broken", "a number of many digits", "array"],
)
def test_an_error_shows_a_value_of_any_size_and_type(value: Any) -> None:
    expected = r"^name must be a string of one or more printable .*, not .{,1050}$"
    with pytest.raises(ValueError, match=expected):
        Operation(value, "GET", "/reports")
