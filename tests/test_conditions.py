"""Of a deprecated operation a condition holds if some reader may see it so, of a live
one only if every reader must.
"""

import random
import re
from itertools import product
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation
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


def send(plan: Any, path: str = "/api/x", query: str = "", **extra: str) -> Response:
    environ = environ_of("GET", path, query, **extra)
    return run(DeprecationMiddleware(Spy(), plan), environ)


CMD = {"query": {"cmd": "getbundle"}}
ONE = {"query": {"v": "1"}}
ABSENT = {"query": {"v": ""}}
ANY = {"query": {"v": "*"}}


SPACE = {"query": {"q": "b c"}}
PLUS = {"query": {"q": "b+c"}}
ESCAPE = {"query": {"q": "%41"}}
BYTES = {"query": {"f[\xe4]": "\xe4="}}
# The conditions, the query, and whether they hold of a deprecated and a live operation.
QUERIES: dict[str, tuple[Any, str, bool, bool | None]] = {
    "a value": (CMD, "x=1&cmd=getbundle", True, True),
    "a name in upper case": (CMD, "CMD=getbundle", True, False),
    "needless escapes": (CMD, "c%6Dd=get%62undle", True, False),
    "a value in upper case": (CMD, "cmd=GETBUNDLE", False, False),
    "only & separates": (CMD, "x=1;cmd=getbundle", False, False),
    "the second of two": (ONE, "v=2&v=1", True, False),
    "another spelling beside it": (ONE, "v=1&V=2", True, False),
    "another escape beside it": (ONE, "v=1&%76=2", True, False),
    "absent": (ABSENT, "w=1", True, True),
    "empty": (ABSENT, "v", True, False),
    "absent in this letter case": (ABSENT, "V=1", True, False),
    "there": (ABSENT, "v=1", False, False),
    "any value": (ANY, "v=0", True, True),
    "no value": (ANY, "v=", False, False),
    "a space as a plus sign": (SPACE, "q=b+c", True, None),
    "a plus sign, not decoded": (PLUS, "q=b+c", True, False),
    "a plus sign, encoded": (PLUS, "q=b%2Bc", True, True),
    "an escape, not decoded": (ESCAPE, "q=%41", True, False),
    "what no server sends": (BYTES, "f%5B%c3%a4%5d=\xc3\xa4=&\u20ac", True, True),
}


@pytest.mark.parametrize("case", QUERIES)
def test_a_condition_on_the_query(case: str) -> None:
    conditions, query, deprecated, live = QUERIES[case]
    environ = {"QUERY_STRING": query}
    assert holds(conditions, environ) == deprecated
    if live is not None:
        assert holds(conditions, environ, is_live=True) == live


VERSION = {"headers": {"API-Version": ["1", ""]}}
VENDOR = {"headers": {"Accept": "application/vnd.shop.v1+json"}}
JSON = {"headers": {"Accept": "application/json;version=1"}}
PARAMETERS = {"headers": {"Accept": "a/b;c=1;d=2"}}
NO_MEDIA_TYPE = {"headers": {"Accept": ""}}
PRESENT = {"headers": {"X": "*"}}
ACCEPTS = "text/html, application/json; q=1; version = 1"
# The conditions, the header, and whether they hold of a deprecated and a live operation.
HEADERS: dict[str, tuple[Any, str | None, bool, bool]] = {
    "a value": (VERSION, "1", True, True),
    "none": (VERSION, None, True, True),
    "an empty one": (VERSION, "", True, False),
    "a value and a comma": (VERSION, "1,", True, False),
    "a parameter": (VERSION, "1;v=2", True, False),
    "the second of two": (VERSION, "2, 1", True, False),
    "white space": (VERSION, " 1", True, False),
    "a comma in quotes": (VERSION, '"a,1"', False, False),
    "a comma after a quote": (VERSION, '"a,1', False, False),
    "another value": (VERSION, "2", False, False),
    "letter case": (VENDOR, "Application/VND.shop.v1+JSON;q=0.9", True, False),
    "the default of every client": (VENDOR, "*/*", False, False),
    "white space in parameters": (JSON, ACCEPTS, True, False),
    "the plan's parameter": (JSON, "application/json;version=1", True, False),
    "in quotes": (JSON, r'application/json;version="\1"', True, False),
    "an open quote": (JSON, 'application/json;version="1', False, False),
    "another parameter": (JSON, "application/json;version=2", False, False),
    "parameters of two members": (PARAMETERS, "a/b;c=1, a/b;d=2", False, False),
    "the default is absent": (NO_MEDIA_TYPE, "*/*", True, False),
    "the default is no value": ({"headers": {"Accept": "*"}}, "*/*;q=1", False, True),
    "any value": (PRESENT, "Bearer a b", True, True),
    "any value, twice": (PRESENT, "a, b", True, False),
    "no value with a parameter": (PRESENT, ";q=0", False, False),
    "no value": (PRESENT, None, False, False),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_condition_on_a_header(case: str) -> None:
    conditions, header, deprecated, live = HEADERS[case]
    (name,) = conditions["headers"]
    environ = {}
    if header is not None:
        environ[f"HTTP_{name.upper().replace('-', '_')}"] = header
    assert holds(conditions, environ) == deprecated
    assert holds(conditions, environ, is_live=True) == live


@pytest.mark.parametrize("name", ["Content-Type", "Content-Length"])
def test_a_header_without_a_prefix_is_absent_where_a_server_leaves_it_empty(
    name: str,
) -> None:
    key = name.upper().replace("-", "_")
    for value in ("", "7"):
        for is_live in (False, True):
            assert holds({"headers": {name: value}}, {key: value}, is_live=is_live)


@pytest.mark.parametrize("name", ["HOST", "cookie"])
def test_a_condition_on_a_header_that_proxies_change_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"^headers must be free of Host and Cookie"):
        Operation("x", "GET", "/x", headers={name: "a"})


@pytest.mark.parametrize("kind", ["query", "headers"])
def test_a_space_in_a_value_of_a_live_operation_is_refused(kind: str) -> None:
    conditions: Any = {kind: {"a": ["b", "b c"]}}
    operation = Operation("x", "GET", "/x", **conditions)
    DeprecationMiddleware(Spy(), {operation: POLICY})
    with pytest.raises(ValueError, match=rf"^plan .*{kind} .* free of spaces"):
        DeprecationMiddleware(Spy(), {operation: None})


def test_a_live_operation_that_is_the_same_as_a_deprecated_one_is_refused() -> None:
    operations = [
        Operation("a", "GET", "/x/{id}", query={"v": "1"}),
        Operation("b", "GET", "/x/{key}", query={"v": ["1"]}),
    ]
    with pytest.raises(ValueError, match=r"^operations must differ"):
        OperationTable(operations, live=operations[:1])
    assert OperationTable(operations, live=operations).match("GET", "/x/1") is None
    other_case = [Operation("a", "GET", "/X"), Operation("b", "GET", "/x")]
    assert OperationTable(other_case, live=other_case[:1]).match("GET", "/x")


def test_of_operations_that_differ_in_conditions_a_closed_one_wins() -> None:
    """Among equals the earlier one wins."""
    first = Operation("first", "GET", "/x", "/first", query={"a": "1"})
    second = Operation("second", "GET", "/x", "/second", query={"b": "1"})
    both = {"path": "/x", "query": "a=1&b=1"}
    assert "/first" in send({first: POLICY, second: POLICY}, **both).one("Link")
    assert "/second" in send({first: POLICY, second: CLOSED}, **both).one("Link")


@pytest.mark.parametrize("policy", [POLICY, CLOSED], ids=["open", "closed"])
def test_a_header_that_decides_is_in_vary_even_if_it_decides_against_an_operation(
    policy: DeprecationPolicy,
) -> None:
    conditions = {"Accept": "a/b", "API-Version": "1"}
    old = Operation("old", "*", "/api/**", headers=conditions)
    response = send({old: policy}, HTTP_ACCEPT="a/b", HTTP_API_VERSION="1")
    assert response.one("Vary") == "Accept, API-Version"
    assert send({old: policy}).headers == [("Content-Type", "text/plain")]
    live = Operation("new", "*", "/api/**", headers={"API-Version": "2"})
    version = Operation("all", "*", "/api/**")
    plan = {version: policy, live: None, old: None}
    assert send(plan).one("Vary") == "API-Version, Accept"


def test_a_header_that_decides_is_in_vary_once() -> None:
    headers = {"authorization": "*"}
    operation = Operation("a", "GET", "/api/x", headers=headers, unify_session=True)
    response = send({operation: POLICY}, HTTP_AUTHORIZATION="Bearer a")
    assert response.one("Vary") == "Authorization"


def test_two_deprecated_operations_may_differ_in_their_conditions_alone() -> None:
    conditions: Any = {"query": {"CMD": ["a", "b"]}, "headers": {"Accept": "A/b; c=d"}}
    same: Any = {"query": {"cmd": ("b", "a")}, "headers": {"accept": ["a/B;c=D"]}}
    operation = Operation("a", "*", "/x/**", **conditions)
    OperationTable([operation, Operation("b", "*", "/x/**")])
    with pytest.raises(ValueError, match=r"^operations\b"):
        OperationTable([operation, Operation("b", "*", "/X/**", **same)])


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
        query = {"v": ["", f"{number}"]}
        headers = {"Accept": f"a/b;v={number};c=d"}
        name = f"{number}"
        versions.append(Operation(name, "GET", "/x", query=query, headers=headers))
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

    versions = []
    for number in range(30):
        conditions: Any = {"query": {"v": "1"}, "headers": {"V": f"{number}"}}
        versions.append(Operation(f"{number}", "GET", "/x", **conditions))
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
    forms: list[Any] = [str, decode]
    cases: list[Any] = [str, str.lower]
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


def some_reader_of_a_header(values: list[str], header: str) -> bool:
    members = [read_member(member) for member in split_naively(header, ",")]
    for (value, parameters), wanted in product(members, values):
        wanted_value, wanted_parameters = read_member(wanted)
        is_value = wanted not in {"", "*"} and wanted_value == value != ""
        if is_value and wanted_parameters <= parameters:
            return True
    if {value for value, _parameters in members} == {"*/*"}:
        return "" in values
    return any(("*" if value else "") in values for value, _parameters in members)


def every_reader_of_a_header(values: list[str], header: str) -> bool:
    if "*" in values and "," not in header and read_member(header)[0]:
        return True
    return (
        header in values and header not in {"", "*"} and not set(header) & set(" \t,;")
    )


def random_query(source: random.Random) -> str:
    query = source.choice(NAMES) + "="
    for _piece in range(source.randint(0, 6)):
        query += source.choice(QUERY_PIECES)
        if query.endswith("&"):
            query += source.choice(NAMES) + "="
    return query


def sets_of(values: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True)


@given(st.randoms(use_true_random=True), sets_of(QUERY_VALUES))
def test_a_random_query_fits_where_the_rules_say(
    source: random.Random, values: list[str]
) -> None:
    for _request in range(10):
        query = random_query(source)
        environ, conditions = {"QUERY_STRING": query}, {"query": {"v": values}}
        is_expected = some_reader_of_the_query("v", values, query)
        assert holds(conditions, environ) == is_expected
        if " " not in "".join(values):
            is_expected = every_reader_of_the_query("v", values, query)
            assert holds(conditions, environ, is_live=True) == is_expected


@given(st.randoms(use_true_random=True), sets_of(HEADER_VALUES))
def test_a_random_header_fits_where_the_rules_say(
    source: random.Random, values: list[str]
) -> None:
    conditions = {"headers": {"Accept": values}}
    for _request in range(10):
        header = "".join(source.choices(HEADER_PIECES, k=source.randint(0, 9)))
        environ = {"HTTP_ACCEPT": header}
        is_expected = some_reader_of_a_header(values, header)
        assert holds(conditions, environ) == is_expected
        if " " not in "".join(values):
            is_expected = every_reader_of_a_header(values, header)
            assert holds(conditions, environ, is_live=True) == is_expected


@given(sets_of(HEADER_VALUES))
def test_an_absent_header_fits_where_its_absence_is_listed(values: list[str]) -> None:
    assert holds({"headers": {"Accept": values}}, {}) == ("" in values)
