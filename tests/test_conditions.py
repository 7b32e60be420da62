"""Of a deprecated operation a condition holds if some reader may see it so, of a live
one only if every reader must.
"""

import random
import re
import sys
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_notifications import DeprecationMiddleware, Operation
from flask_notifications.plans.operations import OperationTable
from tests.growth import grows_linearly
from tests.middleware import CLOSED, Spy
from tests.middleware import DATE_ONLY as POLICY
from tests.wsgi import Response, environ_of, run

EVERYTHING = Operation("all", "*", "/**")


def holds(conditions: Any, environ: dict[str, str], *, is_live: bool = False) -> bool:
    """Return whether an operation with conditions gets a request."""
    operation = Operation("x", "GET", "/x", **conditions)
    live = [operation] if is_live else []
    table = OperationTable([EVERYTHING, operation], live=live)
    match = table.match("GET", "/x", environ)
    assert match is not None
    return match.operation == operation


def send(
    plan: Any, method: str = "GET", path: str = "/", query: str = "", **extra: str
) -> Response:
    return run(
        DeprecationMiddleware(Spy(), plan), environ_of(method, path, query, **extra)
    )


CMD = {"query": {"cmd": "getbundle"}}
ONE = {"query": {"v": "1"}}
ABSENT = {"query": {"v": ""}}
ANY = {"query": {"v": "*"}}


@pytest.mark.parametrize(
    ("conditions", "query", "deprecated", "live"),
    [
        pytest.param(CMD, "x=1&cmd=getbundle", True, True, id="a value"),
        pytest.param(CMD, "CMD=getbundle", True, False, id="a name in upper case"),
        pytest.param(CMD, "c%6Dd=get%62undle", True, False, id="needless escapes"),
        pytest.param(CMD, "cmd=GETBUNDLE", False, False, id="a value in upper case"),
        pytest.param(CMD, "x=1;cmd=getbundle", False, False, id="only & separates"),
        pytest.param(ONE, "v=2&v=1", True, False, id="the second of two"),
        pytest.param(ONE, "v=1&V=2", True, False, id="another spelling beside it"),
        pytest.param(ONE, "v=1&%76=2", True, False, id="another escape beside it"),
        pytest.param(ABSENT, "w=1", True, True, id="absent"),
        pytest.param(ABSENT, "v", True, False, id="empty"),
        pytest.param(ABSENT, "V=1", True, False, id="absent in this letter case"),
        pytest.param(ABSENT, "%76=1", True, False, id="absent if it is not decoded"),
        pytest.param(ABSENT, "v=1", False, False, id="there"),
        pytest.param(ANY, "v=0", True, True, id="any value"),
        pytest.param(ANY, "v=", False, False, id="no value"),
        pytest.param(ANY, "v=&V=1", True, False, id="any value in upper case"),
        pytest.param(
            {"query": {"q": "b c"}}, "q=b+c", True, None, id="a space as a plus sign"
        ),
        pytest.param(
            {"query": {"q": "b+c"}}, "q=b+c", True, False, id="a plus sign, not decoded"
        ),
        pytest.param(
            {"query": {"q": "b+c"}}, "q=b%2Bc", True, True, id="a plus sign, encoded"
        ),
        pytest.param(
            {"query": {"q": "%41"}}, "q=%41", True, False, id="an escape, not decoded"
        ),
        pytest.param(
            {"query": {"f[\xe4]": "\xe4="}},
            "f%5B%c3%a4%5d=\xc3\xa4=&\u20ac",
            True,
            True,
            id="bytes, and what no server sends",
        ),
    ],
)
def test_a_condition_on_the_query(
    conditions: Any, query: str, deprecated: bool, live: bool | None
) -> None:
    environ = {"QUERY_STRING": query}
    assert holds(conditions, environ) == deprecated
    if live is not None:
        assert holds(conditions, environ, is_live=True) == live


VERSION = {"headers": {"API-Version": ["1", ""]}}
VENDOR = {"headers": {"Accept": "application/vnd.shop.v1+json"}}
VENDOR_IN_CAPITALS = "application/VND.shop.v1+json"
JSON = {"headers": {"Accept": "application/json;version=1"}}
PRESENT = {"headers": {"X": "*"}}


@pytest.mark.parametrize(
    ("conditions", "header", "deprecated", "live"),
    [
        pytest.param(VERSION, "1", True, True, id="a value"),
        pytest.param(VERSION, None, True, True, id="none"),
        pytest.param(VERSION, "", True, False, id="an empty one"),
        pytest.param(VERSION, " ,;", True, False, id="empty members"),
        pytest.param(VERSION, "1,", True, False, id="a value and a comma"),
        pytest.param(VERSION, "1;v=2", True, False, id="a parameter"),
        pytest.param(VERSION, "2, 1", True, False, id="the second of two"),
        pytest.param(VERSION, " 1", True, False, id="white space"),
        pytest.param(VERSION, '"a,1"', False, False, id="a comma in quotes"),
        pytest.param(VERSION, '"a,1', False, False, id="a comma after a quote"),
        pytest.param(VERSION, "2", False, False, id="another value"),
        pytest.param(
            VENDOR, "Application/VND.shop.v1+JSON;q=0.9", True, False, id="letter case"
        ),
        pytest.param(VENDOR, "*/*", False, False, id="the default of every client"),
        pytest.param(
            JSON, "text/html, application/json; q=1; version = 1", True, False, id="all"
        ),
        pytest.param(VENDOR, VENDOR_IN_CAPITALS, True, False, id="only letter case"),
        pytest.param(
            JSON, "application/json;version=1", True, False, id="the plan's parameter"
        ),
        pytest.param(JSON, 'application/json;version="1"', True, False, id="in quotes"),
        pytest.param(JSON, r'application/json;version="\1"', True, False, id="escaped"),
        pytest.param(JSON, 'application/json;version="1', False, False, id="open"),
        pytest.param(
            JSON, "application/json;version=2", False, False, id="another parameter"
        ),
        pytest.param(JSON, "application/json", False, False, id="no parameter"),
        pytest.param(
            {"headers": {"Accept": "a/b;c=1;d=2"}},
            "a/b;c=1, a/b;d=2",
            False,
            False,
            id="parameters of two members",
        ),
        pytest.param(
            {"headers": {"Accept": ""}}, "*/*", True, False, id="the default is absent"
        ),
        pytest.param(
            {"headers": {"Accept": "*"}},
            "*/*;q=0.8",
            False,
            True,
            id="the default is no value",
        ),
        pytest.param(PRESENT, "Bearer a b", True, True, id="any value"),
        pytest.param(PRESENT, "a, b", True, False, id="any value, twice"),
        pytest.param(PRESENT, ";q=0", False, False, id="no value with a parameter"),
        pytest.param(PRESENT, None, False, False, id="no value"),
    ],
)
def test_a_condition_on_a_header(
    conditions: Any, header: str | None, deprecated: bool, live: bool
) -> None:
    (name,) = conditions["headers"]
    key = f"HTTP_{name.upper().replace('-', '_')}"
    environ = {} if header is None else {key: header}
    assert holds(conditions, environ) == deprecated
    assert holds(conditions, environ, is_live=True) == live


def test_headers_without_a_prefix_are_absent_where_a_server_leaves_them_empty() -> None:
    for name, key in (
        ("Content-Type", "CONTENT_TYPE"),
        ("Content-Length", "CONTENT_LENGTH"),
    ):
        conditions = {"headers": {name: ["", "7"]}}
        for value in ("", "7"):
            assert holds(conditions, {key: value})
            assert holds(conditions, {key: value}, is_live=True)


@pytest.mark.parametrize("name", ["Host", "HOST", "cookie"])
def test_a_condition_on_a_header_that_proxies_change_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"^headers must be free of Host and Cookie"):
        Operation("x", "GET", "/x", headers={name: "a"})


@pytest.mark.parametrize("kind", ["query", "headers"])
def test_a_space_in_a_value_of_a_live_operation_is_refused(kind: str) -> None:
    conditions: Any = {kind: {"a": ["b", "b c"]}}
    operation = Operation("x", "GET", "/x", **conditions)
    assert OperationTable([operation]).operations == (operation,)
    with pytest.raises(ValueError, match=r"^operations must be free of spaces"):
        OperationTable([operation], live=[operation])


def test_a_live_operation_that_is_the_same_as_a_deprecated_one_is_refused() -> None:
    operations = [
        Operation("a", "GET", "/x/{id}", query={"v": "1"}),
        Operation("b", "GET", "/x/{key}", query={"v": ["1"]}),
    ]
    with pytest.raises(ValueError, match=r"^operations must be different"):
        OperationTable(operations, live=operations[:1])
    assert OperationTable(operations, live=operations).match("GET", "/x/1") is None
    other_case = [Operation("a", "GET", "/X"), Operation("b", "GET", "/x")]
    assert OperationTable(other_case, live=other_case[:1]).match("GET", "/x")


def test_of_operations_that_differ_in_conditions_alone_a_closed_one_wins_and_then_the_earlier_one() -> (
    None
):
    first = Operation("first", "GET", "/x", "/first", query={"a": "1"})
    second = Operation("second", "GET", "/x", "/second", query={"b": "1"})
    both = {"path": "/x", "query": "a=1&b=1"}
    assert "/first" in send({first: POLICY, second: POLICY}, **both).one("Link")
    assert "/second" in send({first: POLICY, second: CLOSED}, **both).one("Link")
    without_a_query = OperationTable([first, second]).match("GET", "/x")
    assert without_a_query is None


@pytest.mark.parametrize("status", ["200 OK", "410 Gone"])
def test_a_header_that_decides_is_in_vary_also_where_it_decides_against_an_operation(
    status: str,
) -> None:
    old = Operation(
        "old", "*", "/api/**", headers={"Accept": "a/b", "API-Version": "1"}
    )
    plan = {old: CLOSED if status.startswith("410") else POLICY}
    response = send(plan, path="/api/x", HTTP_ACCEPT="a/b", HTTP_API_VERSION="1")
    assert (response.status[:3], response.all("Vary")) == (
        status[:3],
        ["Accept, API-Version"],
    )
    live = Operation("new", "*", "/api/**", headers={"API-Version": "2"})
    every = {Operation("all", "*", "/api/**"): POLICY, live: None, old: None}
    assert send(every, path="/api/x").all("Vary") == ["API-Version, Accept"]
    assert send(plan, path="/api/x").headers == [("Content-Type", "text/plain")]
    own = Operation(
        "own", "GET", "/x", headers={"authorization": "*"}, unify_session=True
    )
    assert send({own: POLICY}, path="/x", HTTP_AUTHORIZATION="Bearer a").all(
        "Vary"
    ) == ["Authorization"]


def test_two_retired_operations_may_differ_in_their_conditions_alone() -> None:
    same: dict[str, Any] = {
        "query": {"CMD": ["a", "b"]},
        "headers": {"Accept": "A/b; c=d"},
    }
    also: dict[str, Any] = {
        "query": {"cmd": ("b", "a")},
        "headers": {"accept": ["a/B;c=D"]},
    }
    OperationTable(
        [Operation("one", "*", "/x/**", **same), Operation("two", "*", "/x/**")]
    )
    twins = [
        Operation("one", "*", "/x/**", **same),
        Operation("two", "*", "/X/**", **also),
    ]
    with pytest.raises(ValueError, match=r"^operations\b"):
        OperationTable(twins)


UNITS = {
    "QUERY_STRING": ["&cmd=x", "%41", "+", "&", "=", "&v=", "&%76=1"],
    "HTTP_ACCEPT": ["a/b;c=d,", '"', '\\"', ";", " ", "a", "= ", ",", "a/b;v=1,"],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "unit"), [(key, unit) for key, units in UNITS.items() for unit in units]
)
def test_work_on_a_condition_grows_linearly(key: str, unit: str) -> None:
    versions: list[Operation] = []
    for number in range(30):
        conditions = {
            "query": {"v": ["", f"{number}"]},
            "headers": {"Accept": f"a/b;v={number};c=d"},
        }
        versions.append(Operation(f"{number}", "GET", "/x", **conditions))  # type: ignore[arg-type]
    table = OperationTable(versions)
    assert grows_linearly(
        lambda value: table.find("GET", "/x", {key: value}), lambda size: unit * size
    )


def test_the_query_and_a_header_are_read_once_for_all_operations() -> None:
    class Counted(dict[str, str]):
        reads: list[str] = []  # noqa: RUF012 - of this one environ

        def get(self, key: str, default: Any = None) -> Any:
            self.reads.append(key)
            return super().get(key, default)

    versions = [
        Operation(
            f"{number}", "GET", "/x", query={"v": "1"}, headers={"V": f"{number}"}
        )
        for number in range(30)
    ]
    environ = Counted({"QUERY_STRING": "v=1", "HTTP_V": "29"})
    (match,) = OperationTable(versions).find("GET", "/x", environ)
    assert match.operation.name == "29"
    assert sorted(environ.reads) == ["HTTP_V", "QUERY_STRING"]


# The rules written out, for random requests.

NAMES = ["v", "V", "%76", "w", "v+", "v%20"]
QUERY_PIECES = ["1", "2", "%31", "+", "%2B", "%20", "=", "&", ""]
QUERY_VALUES = ["1", "2", "", "*", "1 2", "1+", "%31"]
HEADER_PIECES = ["1", "A", "a", ";", ",", " ", "=", "b", '"', "\\", "*/*", "\t"]
HEADER_VALUES = ["1", "a", "", "*", "A;b=1", "a;b=1;1=a", "a,1", "1 a", "*/*", "a;b"]


def decode(string: str) -> str:
    return unquote_to_bytes(string.replace("+", " ")).decode("latin-1")


def some_reader_of_the_query(name: str, values: list[str], query: str) -> bool:
    pairs = [pair.partition("=") for pair in query.split("&")]
    forms: list[Callable[[str], str]] = [str, decode]
    cases: list[Callable[[str], str]] = [str, str.lower]
    readers = product(forms, forms, cases)
    for read_name, read_value, fold in readers:
        seen = []
        for raw_name, _equals, raw_value in pairs:
            if fold(read_name(raw_name)) == fold(name):
                seen.append(read_value(raw_value))
        for value in seen or [""]:
            if value in values and value != "*":
                return True
            if value and "*" in values:
                return True
            if value == "*" and "*" in values:
                return True
    return False


def every_reader_of_the_query(name: str, values: list[str], query: str) -> bool:
    pairs = []
    for pair in query.split("&"):
        raw_name, _equals, raw_value = pair.partition("=")
        if name in {raw_name.lower(), decode(raw_name).lower()}:
            pairs.append((raw_name, raw_value))
    if not pairs:
        return "" in values
    if len(pairs) > 1 or pairs[0][0] != name or not pairs[0][1]:
        return False
    value = pairs[0][1]
    escaped = bytes(int(code, 16) for code in re.findall("%([0-9A-Fa-f]{2})", value))
    if "*" in values:
        return True
    is_plain = "+" not in value and not re.search(rb"[\w.~-]", escaped, re.ASCII)
    return is_plain and decode(value) in values


def split_naively(string: str, separator: str) -> list[str]:
    parts, is_quoted, is_escaped = [""], False, False
    for char in string:
        if char == separator and not is_quoted:
            parts.append("")
            continue
        parts[-1] += char
        if is_escaped:
            is_escaped = False
        elif char == '"':
            is_quoted = not is_quoted
        elif char == "\\" and is_quoted:
            is_escaped = True
    return parts


def read_member(member: str) -> tuple[str, set[str]]:
    value, *pairs = split_naively(member, ";")
    parameters = set()
    for pair in pairs:
        name, _equals, setting = pair.partition("=")
        setting = setting.strip()
        if len(setting) > 1 and setting[0] == setting[-1] == '"':
            setting = re.sub(r"\\(.)", r"\1", setting[1:-1])
        parameters.add(f"{name.strip()}={setting}".lower())
    return value.strip().lower(), parameters


def some_reader_of_a_header(values: list[str], header: str | None) -> bool:
    members = [read_member(member) for member in split_naively(header or "", ",")]
    for (value, parameters), wanted in product(members, values):
        wanted_value, wanted_parameters = read_member(wanted)
        is_value = wanted not in {"", "*"} and wanted_value == value != ""
        if is_value and wanted_parameters <= parameters:
            return True
    if {value for value, _parameters in members} == {"*/*"}:
        return "" in values
    return any(("*" if value else "") in values for value, _parameters in members)


def every_reader_of_a_header(values: list[str], header: str | None) -> bool:
    if header is None:
        return "" in values
    if "*" in values and "," not in header and read_member(header)[0]:
        return True
    return (
        header in values and header not in {"", "*"} and not set(header) & set(" \t,;")
    )


def list_failures(seed: int, count: int) -> Iterator[Any]:
    """Yield the random requests for which the rules and the table differ."""
    source = random.Random(seed)  # noqa: S311 - no secret
    for _number in range(count):
        is_live = source.random() < 0.5
        if source.random() < 0.5:
            values = source.sample(QUERY_VALUES, source.randint(1, 3))
            query = source.choice(NAMES) + "="
            for _piece in range(source.randint(0, 6)):
                query += source.choice(QUERY_PIECES)
                if query.endswith("&"):
                    query += source.choice(NAMES) + "="
            environ, conditions = {"QUERY_STRING": query}, {"query": {"v": values}}
            rule = every_reader_of_the_query if is_live else some_reader_of_the_query
            expected = rule("v", values, query)
        else:
            values = source.sample(HEADER_VALUES, source.randint(1, 3))
            pieces = source.choices(HEADER_PIECES, k=source.randint(0, 9))
            header = "".join(pieces) if source.random() < 0.95 else None
            environ = {} if header is None else {"HTTP_ACCEPT": header}
            conditions = {"headers": {"Accept": values}}
            read = every_reader_of_a_header if is_live else some_reader_of_a_header
            expected = read(values, header)
        if is_live and any(" " in value for value in values):
            continue
        if holds(conditions, environ, is_live=is_live) != expected:
            yield conditions, environ, is_live, expected


@given(st.integers())
def test_random_requests_fit_where_the_rules_say(seed: int) -> None:
    assert list(list_failures(seed, 20)) == []


if __name__ == "__main__":
    sys.exit(next(list_failures(0, int(sys.argv[1])), 0))
