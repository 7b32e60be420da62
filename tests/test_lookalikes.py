"""A request that may reach a retired operation is announced, reported and closed,
whatever router reads its path.
"""

import random
import re
import sys
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flask_notifications import Call, DeprecationMiddleware, Operation
from tests.middleware import ANNOUNCED, CLOSED, DATE_ONLY, PATH, Spy, wrap
from tests.test_conditions import (
    every_reader_of_the_query,
    some_reader_of_the_query,
)
from tests.wsgi import environ_of, run

SERVED = "flask_notifications.served"
STATES = {"closed": CLOSED, "retired": DATE_ONLY, "live": None}


class Outcome(NamedTuple):
    """The operation that a request may reach, its state, and whether the application
    decides that it is a lookalike.
    """

    name: str
    state: str
    is_lookalike: bool


def parse_key(key: str) -> Operation:
    """Return the operation of a key: a method if it is not GET, a path, and a condition
    after ``?``.
    """
    method, path = key.split(" ") if " " in key else ("GET", key)
    template, _mark, condition = path.partition("?")
    name, _equals, value = condition.partition("=")
    return Operation(key, method, template, query={name: value} if condition else None)


def outcome_of(
    plan: dict[str, str], path: str, method: str = "GET", query: str = ""
) -> Outcome | None:
    """Return the outcome of a request; ``plan`` has the state of each operation by its
    key.
    """
    policies = {parse_key(key): STATES[state] for key, state in plan.items()}
    found, wire = look(policies, path, method, "200 OK", query)
    missed, wire_of_missed = look(policies, path, method, "404 Not Found", query)
    assert (found is None) == (
        not any(name in {"Deprecation", "Sunset"} for name, _value in wire)
    )
    assert (missed is None) == (wire_of_missed == [("Content-Type", "text/plain")])
    if found is None:
        return None
    return Outcome(
        found.operation, "closed" if found.status == 410 else "retired", missed is None
    )


def look(
    policies: Any, path: str, method: str, status: str, query: str
) -> tuple[Call | None, list[tuple[str, str]]]:
    """Return the call that observers see and the headers of the response, of an
    application with a status.
    """
    calls: list[Call] = []
    spy = Spy(status)
    environ = environ_of(method, path, query)
    before = dict(environ)
    if all(policy is None for policy in policies.values()):
        policies = {**policies, Operation("other", "GET", "/other"): STATES["retired"]}
    response = run(
        DeprecationMiddleware(spy, policies, observers=[calls.append]), environ
    )
    environ.pop(SERVED, None)
    assert environ == before
    assert len(calls) <= 1
    assert len(spy.calls) == (response.code != 410)
    return (calls[0] if calls else None), response.headers


closed, retired = (
    partial(Outcome, state=state, is_lookalike=False) for state in ("closed", "retired")
)
lookalike = partial(Outcome, state="retired", is_lookalike=True)
USERS = {"/users/{id}": "closed", "/users/me": "live"}
CITIES = {"/city/{name}": "closed", "/city/\u0131zmir": "live", "/city/new": "live"}
VERSION = {"* /v1/**": "closed", "/v1/health": "live"}
SEARCH = {"/search/": "closed", "/search/{word}/": "live"}


@pytest.mark.parametrize(
    ("plan", "path", "expected"),
    [
        pytest.param(USERS, "/users/me", None, id="a live sibling"),
        pytest.param(
            USERS,
            "/users/ME",
            closed("/users/{id}"),
            id="a live sibling in another letter case",
        ),
        pytest.param(
            USERS,
            "/USERS/Me",
            None,
            id="a live sibling, and both in another letter case",
        ),
        pytest.param(
            USERS, "/users/me/\n", None, id="a live sibling with a line feed at the end"
        ),
        pytest.param(
            {"/New": "retired", "/{id}": "retired"},
            "/new",
            retired("/{id}"),
            id="in this letter case",
        ),
        pytest.param(
            {"/\u0131": "live", "/{x}/": "retired", "/i": "closed"},
            "/\xc4\xb1/",
            closed("/i"),
            id="three",
        ),
        pytest.param(
            {"/users/{id}/": "closed", "/users/me": "live"},
            "/users/me/",
            closed("/users/{id}/"),
            id="slash",
        ),
        pytest.param(
            {"/users/{id}": "live", "/users/me": "closed"},
            "/users/me ",
            None,
            id="live, with this space",
        ),
        pytest.param(
            CITIES, "/city/\xc4\xb1zmir/", None, id="a live sibling that folds to ASCII"
        ),
        pytest.param(
            CITIES,
            "/city/new ",
            closed("/city/{name}"),
            id="a live sibling with a space",
        ),
        pytest.param(
            SEARCH, "/search/\xd7\xc9\xce\xcf", None, id="a live word in KOI8-R"
        ),
        pytest.param({"/old": "retired"}, "//old", lookalike("/old"), id="open"),
        pytest.param(
            {"/a/{b}/{c}": "closed"},
            "/a/b/..",
            closed("/a/{b}/{c}"),
            id="dots as a parameter",
        ),
        pytest.param(
            {"/a\u017fk": "retired", "/ask": "closed"},
            "/a\xc5\xbfk",
            closed("/ask"),
            id="a long s",
        ),
        pytest.param(
            {"/ask": "closed"}, "/as\xe2\x84\xaa", closed("/ask"), id="a Kelvin sign"
        ),
        pytest.param(
            {"/new": "retired", "/{id}": "closed"},
            "/new\xff",
            closed("/{id}"),
            id="a retired lookalike",
        ),
        pytest.param(
            {"/{id}": "retired", "/new": "closed"},
            "/new\xff",
            closed("/new"),
            id="a closed lookalike",
        ),
        pytest.param(
            {"/{id}": "retired", "/new": "live"},
            "/new\xff",
            retired("/{id}"),
            id="a live lookalike",
        ),
        pytest.param(
            {"/a/b/": "retired", "/a/b": "closed"},
            "/a//..//b/.",
            lookalike("/a/b/"),
            id="dots first",
        ),
        pytest.param(
            {"/a": "retired", "/a/": "closed"},
            "/b//../a",
            lookalike("/a"),
            id="slashes first",
        ),
        pytest.param(
            {"HEAD /x": "live", "GET /x": "closed"},
            "/x",
            closed("GET /x"),
            id="another method",
        ),
        pytest.param(
            VERSION,
            "//v1/health///",
            closed("* /v1/**"),
            id="slashes that Werkzeug joins at the start only",
        ),
        pytest.param(
            {"/{tenant}/reports/{id}": "closed"},
            "//reports/99",
            closed("/{tenant}/reports/{id}"),
            id="an empty parameter at the start",
        ),
        pytest.param(
            {"/item/{id}/part/{part}/": "closed"},
            "/item//part/2/",
            closed("/item/{id}/part/{part}/"),
            id="an empty parameter inside",
        ),
        pytest.param(
            {"/item/{id}": "closed"},
            "/item//",
            closed("/item/{id}"),
            id="an empty parameter before a slash",
        ),
        pytest.param(
            {"/item/{id}": "closed"}, "/item/", None, id="no parameter at the end"
        ),
        pytest.param(
            {"/v1/**": "closed", "/v1/status/**": "live"},
            "/v1/status//1",
            closed("/v1/**"),
            id="an empty segment first in the rest of a live subtree",
        ),
        pytest.param(
            {"/v1/**": "closed", "/v1/status/**": "live"},
            "/v1/status/1//2",
            None,
            id="an empty segment later in the rest of a live subtree",
        ),
        pytest.param(
            VERSION,
            "/v1/x//y/../z",
            closed("* /v1/**"),
            id="empty and dot segments below a subtree",
        ),
        pytest.param(
            {"/v1/**": "closed", "/v1/h/**": "live"},
            "/v1/h/a/",
            None,
            id="a live subtree",
        ),
        pytest.param(
            {"/v1/**": "closed", "/v1/h/**": "live"},
            "/v1/h/../x",
            closed("/v1/**"),
            id="dots lead out",
        ),
        pytest.param(
            {"/a/{x}": "live", "/a/b/": "closed"},
            "/a/B",
            closed("/a/b/"),
            id="any case, any slash",
        ),
        pytest.param(
            {"/a/B": "live", "/a/b/": "closed"},
            "/a/b",
            closed("/a/b/"),
            id="this case, any slash",
        ),
        pytest.param(
            {"/A/{x}": "closed", "/a/b/": "live"},
            "/a/b",
            closed("/A/{x}"),
            id="any case, this slash",
        ),
        pytest.param(
            {"/{x}/b": "live", "/i/b": "closed"},
            "/\xc4\xb1/B",
            closed("/i/b"),
            id="live, in other letters",
        ),
        pytest.param(
            {"/v1/**": "closed", "/v1": "live"},
            "/v1",
            None,
            id="a path before a subtree's own",
        ),
        pytest.param(
            {"/{x}": "closed", "* /v1/**": "live"},
            "/v1",
            None,
            id="a subtree's own path is a literal",
        ),
        pytest.param(
            {"/v1/{x}": "live", "* /v1/**": "closed"},
            "/v1/x",
            None,
            id="a parameter before a subtree",
        ),
        pytest.param(
            {"/Users": "closed", "/users": "live"},
            "/users",
            None,
            id="a live one in another letter case",
        ),
    ],
)
def test_one_operation_decides(
    plan: dict[str, str], path: str, expected: Outcome | None
) -> None:
    assert outcome_of(plan, path) == expected


def test_the_application_sees_a_lookalike_as_it_was_sent() -> None:
    calls: list[Call] = []
    spy, environ = (
        Spy(),
        environ_of(
            "GET", "//API/Notification", "sessionId=a", RAW_URI="//?sessionId=a"
        ),
    )
    before = dict(environ)
    response = run(wrap(spy, observers=[calls.append]), environ)
    assert environ == before | {SERVED: environ[SERVED]} == spy.seen
    private = [
        ("Vary", "Authorization"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "private"),
    ]
    assert response.headers == [("Content-Type", "text/plain"), *private, *ANNOUNCED]
    assert [(each.operation, each.status, each.source) for each in calls] == [
        ("current_user", 200, None)
    ]


@pytest.mark.parametrize(
    "status", ["404 Not Found", "405 Method Not Allowed", b"404 Not Found"]
)
def test_an_application_that_does_not_know_a_lookalike_was_not_called(
    status: Any,
) -> None:
    calls: list[Call] = []
    headers = [("Deprecation", "its own"), ("Link", "<a>")]
    app = wrap(Spy(status, headers), observers=[calls.append])
    assert run(app, environ_of("GET", "//API/Notification")).headers == [
        ("Content-Type", "text/plain"),
        *headers,
    ]
    assert calls == []
    run(app, environ_of("GET", PATH))
    assert len(calls) == 1


def test_an_error_after_404_is_a_response_of_the_operation() -> None:
    def app(_environ: Any, start_response: Any) -> list[bytes]:
        start_response("404 Not Found", [])
        start_response(
            "500 Internal Server Error", [], (LookupError, LookupError(), None)
        )
        return []

    calls: list[Call] = []
    response = run(
        wrap(app, observers=[calls.append]), environ_of("GET", "//API/Notification")
    )
    assert response.headers == [("Vary", "Authorization"), *ANNOUNCED]
    assert [each.status for each in calls] == [500]


FOLDS = {"\u0131": "i", "\u0130": "i", "\u017f": "s", "\u212a": "k"}


def resolve_dots(path: str) -> str:
    """Return an absolute path without dot segments (RFC 3986 section 5.2.4)."""
    if not path.startswith("/"):
        return path
    output: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == "..":
            output = output[:-1]
        elif segment != ".":
            output.append(segment)
    is_folder = path.endswith(("/.", "/.."))
    return "/" + "/".join([*output, ""] if is_folder else output)


STEPS: list[Any] = [
    lambda path: path.encode("utf-8", "surrogateescape").decode("utf-8", "ignore"),
    lambda path: path.strip("".join(map(chr, (*range(33), *range(127, 161))))),
    lambda path: "".join(FOLDS.get(char, char) for char in path),
    lambda path: "/" + path.lstrip("/"),  # Werkzeug keeps the other slashes
    resolve_dots,
    lambda path: re.sub("//+", "/", path),
    resolve_dots,
]


def read_naively(path: str) -> Iterator[tuple[str, bool, bool]]:
    """Yield each reading of a path, whether it is a lenient one, and whether a rest of
    a path must not begin with an empty segment in it.
    """
    yield path, False, False
    string = path.encode("latin-1").decode("utf-8", "surrogateescape")
    readings: dict[str, None] = {}
    for chosen in product([False, True], repeat=len(STEPS)):
        reading = string
        for step, is_chosen in zip(STEPS, reversed(chosen), strict=True):
            reading = step(reading) if is_chosen else reading
        readings[reading.encode("utf-8", "surrogateescape").decode("latin-1")] = None
    for sent in readings:
        yield sent, True, False
        yield sent, True, True


def fits(
    template: str,
    path: str,
    *,
    is_lenient: bool,
    any_case: bool,
    any_slash: bool,
    refuses_empty_rest: bool = False,
) -> bool:
    # Falcon takes dots, and nothing before another slash, for a value.
    value = "(?:[^/]+|(?=/))" if is_lenient else r"(?!\.\.?(?:/|\Z))[^/]+"
    literal = template.encode().decode("latin-1").removesuffix("/**").rstrip("/")
    parts = re.split(r"({})", re.sub("{.*?}", "{}", literal))
    pattern = "".join(value if part == "{}" else re.escape(part) for part in parts)
    if template.endswith("/**"):
        slash = "(?:/(?!/).*)?" if refuses_empty_rest else "(?:/.*)?"
    elif any_slash:
        slash = "/?"
    else:
        slash = "/" * template.endswith("/")
    flags = re.ASCII | re.DOTALL | re.IGNORECASE * any_case
    return bool(re.fullmatch(pattern + slash, path or "/", flags))


def holds(key: str, state: str, query: str) -> bool:
    name, mark, condition = key.partition("?")[2].partition("=")
    rule = every_reader_of_the_query if state == "live" else some_reader_of_the_query
    return not mark or rule(name, [condition], query)


def list_methods(method: str) -> list[list[str]]:
    """Return the methods of operations for each reading of a method, the best first."""
    readings = []
    for reading in dict.fromkeys([method, method.upper()]):
        others = {"HEAD": ["GET", "*"], "OPTIONS": []}
        readings.append([reading, *others.get(reading, ["*"])])
    return readings


def rank_naively(
    operation: Operation, path: str, methods: list[str]
) -> tuple[Any, ...]:
    template = operation.path
    parts = [part for part in template.removesuffix("/**").split("/") if part]
    is_below = (
        template.endswith("/**")
        and len(parts) < len(path[1:].removesuffix("/").split("/"))
        and path != "/"
    )
    return (
        [part.startswith("{") for part in parts] + [2] * is_below,
        not template.endswith("/**") and template.endswith("/") != path.endswith("/"),
        operation.query is None,
        methods.index(operation.method),
        template.endswith("/**"),
        not fits(template, path, is_lenient=True, any_case=False, any_slash=True),
    )


def decide_naively(
    plan: dict[str, str], path: str, method: str, query: str
) -> Outcome | None:
    winners: list[Outcome] = []
    operations = [
        parse_key(key) for key, state in plan.items() if holds(key, state, query)
    ]
    for reading, is_lenient, refuses_empty_rest in read_naively(path):
        for methods, any_slash, any_case in product(
            list_methods(method), [False, True], [False, True]
        ):
            options = {
                "is_lenient": is_lenient,
                "any_case": any_case,
                "any_slash": any_slash,
                "refuses_empty_rest": refuses_empty_rest,
            }
            fitting = [
                each
                for each in operations
                if each.method in methods and fits(each.path, reading, **options)
            ]
            ranks = [rank_naively(each, reading or "/", methods) for each in fitting]
            winners += [
                Outcome(each.name, plan[each.name], is_lenient)
                for each, rank in zip(fitting, ranks, strict=True)
                if rank == min(ranks)
            ]
        if (
            not is_lenient
            and winners
            and all(winner.state == "live" for winner in winners)
        ):
            for winner in winners:
                template = parse_key(winner.name).path
                below = (
                    reading.split("/")[template.count("/") :]
                    if template.endswith("/**")
                    else []
                )
                is_plain = "" not in below[:-1] and {".", ".."}.isdisjoint(below)
                if is_plain and fits(
                    template, reading, is_lenient=False, any_case=False, any_slash=True
                ):
                    return None
    chosen = min(
        winners,
        key=lambda winner: ["closed", "retired", "live"].index(winner.state),
        default=None,
    )
    if chosen is None or chosen.state == "live":
        return None
    return chosen._replace(
        is_lookalike=chosen.is_lookalike and chosen.state == "retired"
    )


TEMPLATES = [
    "/a",
    "/a/",
    "/A/{x}",
    "/A/{x}/",
    "/a/b",
    "/a/\u0131",
    "/a/i",
    "/{x}",
    "/{x}/b",
    "/a/{x}/b",
    "/",
    "/b/a",
]
TEMPLATES += [
    "/a/**",
    "* /a/**",
    "/{x}/b/**",
    "/a/b/**",
    "/**",
    "* /a",
    "/a?v=1",
    "* /a/**?v=1",
    "/a/**?v=*",
    "/a?v=",
    "HEAD /a/{x}",
    "POST /a/b",
    "* /{x}",
]
METHODS = ["GET", "GET", "HEAD", "POST", "get", "Head", "OPTIONS"]
SEGMENTS = [
    "a",
    "A",
    "b",
    "B",
    "\u0131",
    "i",
    "I",
    "",
    ".",
    "..",
    "a ",
    "\xff",
    "b\xff",
    "K",
]


QUERIES = ["", "v=1", "V=1&v=2", "v=", "v", "w=1", "V=1", "v=%31", "v=1+"]


def list_differences(seed: int, count: int) -> Iterator[Any]:
    """Yield the random requests for which the rules and the middleware differ."""
    source = random.Random(seed)  # noqa: S311 - no secret
    for _number in range(count):
        plan = {}
        for key in source.sample(TEMPLATES, source.randint(1, 5)):
            plan[key] = source.choice([*STATES])
        words = source.choices(SEGMENTS, k=source.randint(0, 5))
        path = source.choice(["/", "//", ""]) + "/".join(words)
        method, query = source.choice(METHODS), source.choice(QUERIES)
        outcomes = compare(plan, path, query, method)
        if outcomes[0] != outcomes[1]:
            yield plan, path, method, query, outcomes


def compare(
    plan: dict[str, str], path: str, query: str, method: str = "GET"
) -> list[Outcome | None]:
    """Return the outcome of a request, and the one that the rules give."""
    sent = ""
    for char in path:
        sent += char if char == "\xff" else char.encode().decode("latin-1")
    return [
        outcome_of(plan, sent, method, query),
        decide_naively(plan, sent, method, query),
    ]


@pytest.mark.parametrize(
    ("plan", "path", "query"),
    [
        ({"/{x}": "retired", "/a": "closed"}, "/ a", ""),
        ({"/a": "closed", "/a/**": "closed"}, "a/../a", ""),
        ({"/a?v=1": "closed"}, "//a", "w=1"),
        ({"/{x}/b": "retired"}, "//I/..//B/", ""),
    ],
)
def test_a_path_that_was_once_wrong_has_the_outcome_that_the_rules_give(
    plan: dict[str, str], path: str, query: str
) -> None:
    outcome, expected = compare(plan, path, query)
    assert outcome == expected


@given(st.integers())
def test_every_path_has_the_outcome_that_the_rules_give(seed: int) -> None:
    assert list(list_differences(seed, 3)) == []


if __name__ == "__main__":
    sys.exit(next(list_differences(0, int(sys.argv[1])), 0))
