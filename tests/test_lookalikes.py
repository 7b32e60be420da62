"""A request that may reach a deprecated operation is announced, reported and closed,
whatever router reads its path.
"""

import random
import re
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
STATES = {"closed": CLOSED, "deprecated": DATE_ONLY, "live": None}


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
    environ = environ_of(method, path, query)
    report, headers = look(policies, environ, "200 OK")
    is_announced = not {"Deprecation", "Sunset"}.isdisjoint(dict(headers))
    assert is_announced == (report is not None)
    missed, headers = look(policies, environ, "404 Not Found")
    assert (missed is None) == (headers == [("Content-Type", "text/plain")])
    if report is None:
        return None
    state = "closed" if report.status == 410 else "deprecated"
    return Outcome(report.operation, state, missed is None)


def look(
    policies: Any, environ: dict[str, Any], status: str
) -> tuple[Call | None, list[tuple[str, str]]]:
    """Return the call that observers see and the headers of the response, of an
    application with a status.
    """
    calls: list[Call] = []
    spy = Spy(status)
    served = dict(environ)
    # A plan needs a deprecated operation.
    plan = policies | {Operation("other", "GET", "/\u20ac"): DATE_ONLY}
    app = DeprecationMiddleware(spy, plan, observers=[calls.append])
    response = run(app, served)
    served.pop(SERVED, None)
    assert served == environ
    assert len(calls) <= 1
    assert len(spy.calls) == (response.code != 410)
    return next(iter(calls), None), response.headers


closed = partial(Outcome, state="closed", is_lookalike=False)
deprecated = partial(Outcome, state="deprecated", is_lookalike=False)
lookalike = partial(Outcome, state="deprecated", is_lookalike=True)
USERS = {"/users/{id}": "closed", "/users/me": "live"}
CITIES = {"/city/{name}": "closed", "/city/\u0131zmir": "live", "/city/new": "live"}
VERSION = {"* /v1/**": "closed", "/v1/health": "live"}
SEARCH = {"/search/": "closed", "/search/{word}/": "live"}


ITEM = {"/item/{id}": "closed"}
SUBTREE = {"/v1/**": "closed", "/v1/status/**": "live"}
# The plan, the path, and the outcome.
DECISIONS: dict[str, tuple[dict[str, str], str, Outcome | None]] = {
    "a live sibling": (USERS, "/users/me", None),
    "a live sibling in capitals": (USERS, "/users/ME", closed("/users/{id}")),
    "both in another letter case": (USERS, "/USERS/Me", None),
    "a live sibling and a line feed": (USERS, "/users/me/\n", None),
    "in this letter case": (
        {"/New": "deprecated", "/{id}": "deprecated"},
        "/new",
        deprecated("/{id}"),
    ),
    "three": (
        {"/\u0131": "live", "/{x}/": "deprecated", "/i": "closed"},
        "/\xc4\xb1/",
        closed("/i"),
    ),
    "a slash": (
        {"/users/{id}/": "closed", "/users/me": "live"},
        "/users/me/",
        closed("/users/{id}/"),
    ),
    "live, with this space": (
        {"/users/{id}": "live", "/users/me": "closed"},
        "/users/me ",
        None,
    ),
    "a live sibling that folds to ASCII": (CITIES, "/city/\xc4\xb1zmir/", None),
    "a live sibling with a space": (CITIES, "/city/new ", closed("/city/{name}")),
    "a live word in KOI8-R": (SEARCH, "/search/\xd7\xc9\xce\xcf", None),
    "open": ({"/old": "deprecated"}, "//old", lookalike("/old")),
    "dots as a parameter": (
        {"/a/{b}/{c}": "closed"},
        "/a/b/..",
        closed("/a/{b}/{c}"),
    ),
    "a long s": (
        {"/a\u017fk": "deprecated", "/ask": "closed"},
        "/a\xc5\xbfk",
        closed("/ask"),
    ),
    "a Kelvin sign": ({"/ask": "closed"}, "/as\xe2\x84\xaa", closed("/ask")),
    "a closed lookalike": (
        {"/{id}": "deprecated", "/new": "closed"},
        "/new\xff",
        closed("/new"),
    ),
    "a live lookalike": (
        {"/{id}": "deprecated", "/new": "live"},
        "/new\xff",
        deprecated("/{id}"),
    ),
    "dots first": (
        {"/a/b/": "deprecated", "/a/b": "closed"},
        "/a//..//b/.",
        lookalike("/a/b/"),
    ),
    "slashes first": (
        {"/a": "deprecated", "/a/": "closed"},
        "/b//../a",
        lookalike("/a"),
    ),
    "another method": ({"HEAD /x": "live", "GET /x": "closed"}, "/x", closed("GET /x")),
    "slashes that Werkzeug joins": (VERSION, "//v1/health///", closed("* /v1/**")),
    "an empty parameter at the start": (
        {"/{tenant}/reports/{id}": "closed"},
        "//reports/99",
        closed("/{tenant}/reports/{id}"),
    ),
    "an empty parameter before a slash": (ITEM, "/item//", closed("/item/{id}")),
    "no parameter at the end": (ITEM, "/item/", None),
    "an empty segment first in a rest": (SUBTREE, "/v1/status//1", closed("/v1/**")),
    "an empty segment later in a rest": (SUBTREE, "/v1/status/1//2", None),
    "dots below a subtree": (VERSION, "/v1/x//y/../z", closed("* /v1/**")),
    "dots lead out": (SUBTREE, "/v1/status/../x", closed("/v1/**")),
    "any case, any slash": (
        {"/a/{x}": "live", "/a/b/": "closed"},
        "/a/B",
        closed("/a/b/"),
    ),
    "any case, this slash": (
        {"/A/{x}": "closed", "/a/b/": "live"},
        "/a/b",
        closed("/A/{x}"),
    ),
    "a path before a subtree's own": ({"/v1/**": "closed", "/v1": "live"}, "/v1", None),
    "a subtree's own path is a literal": (
        {"/{x}": "closed", "* /v1/**": "live"},
        "/v1",
        None,
    ),
    "a parameter before a subtree": (
        {"/v1/{x}": "live", "* /v1/**": "closed"},
        "/v1/x",
        None,
    ),
    "live in another letter case": (
        {"/Users": "closed", "/users": "live"},
        "/users",
        None,
    ),
}


@pytest.mark.parametrize("case", DECISIONS)
def test_one_operation_decides(case: str) -> None:
    plan, path, expected = DECISIONS[case]
    assert outcome_of(plan, path) == expected


LOOKALIKE = environ_of(
    "GET", "//API/Notification", "sessionId=a", RAW_URI="?sessionId=a"
)


def test_the_application_sees_a_lookalike_as_it_was_sent() -> None:
    calls: list[Call] = []
    spy, environ = Spy(), dict(LOOKALIKE)
    response = run(wrap(spy, observers=[calls.append]), environ)
    assert environ == LOOKALIKE | {SERVED: environ[SERVED]} == spy.seen
    assert response.headers == [
        ("Content-Type", "text/plain"),
        ("Vary", "Authorization"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "private"),
        *ANNOUNCED,
    ]
    (seen,) = calls
    assert (seen.operation, seen.status, seen.source) == ("current_user", 200, None)


@pytest.mark.parametrize(
    "status", ["404 Not Found", "405 Method Not Allowed", b"404 Not Found"]
)
def test_an_application_that_does_not_know_a_lookalike_was_not_called(
    status: Any,
) -> None:
    calls: list[Call] = []
    headers = [("Deprecation", "its own"), ("Link", "<a>")]
    app = wrap(Spy(status, headers), observers=[calls.append])
    response = run(app, dict(LOOKALIKE))
    assert response.headers == [("Content-Type", "text/plain"), *headers]
    assert calls == []
    run(app, environ_of("GET", PATH))
    assert len(calls) == 1


def test_an_error_after_404_is_a_response_of_the_operation() -> None:
    def app(_environ: Any, start_response: Any) -> list[bytes]:
        start_response("404 Not Found", [])
        start_response("500 Error", [], (LookupError, LookupError(), None))
        return []

    calls: list[Call] = []
    environ = environ_of("GET", "//API/Notification")
    response = run(wrap(app, observers=[calls.append]), environ)
    assert response.headers == [("Vary", "Authorization"), *ANNOUNCED]
    (seen,) = calls
    assert seen.status == 500


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
    for lenient in readings:
        yield lenient, True, False
        yield lenient, True, True


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


def list_winners(
    operations: list[Operation], method: str, reading: str, **ways: bool
) -> list[str]:
    """Return the names of the operations that win in a reading, the best first."""
    names = []
    choices = [False, True]
    for methods, any_slash, any_case in product(list_methods(method), choices, choices):
        ways |= {"any_slash": any_slash, "any_case": any_case}
        ranks = {}
        for operation in operations:
            if operation.method in methods and fits(operation.path, reading, **ways):
                rank = rank_naively(operation, reading or "/", methods)
                ranks[operation.name] = rank
        best = min(ranks.values(), default=None)
        names += [name for name, rank in ranks.items() if rank == best]
    return names


def is_exactly(template: str, path: str) -> bool:
    """Return whether the literals of a path are spelled as in the template, and its
    other segments are neither empty nor dots.
    """
    if template.endswith("/**"):
        below = path.split("/")[template.count("/") :]
        if "" in below[:-1] or not {".", ".."}.isdisjoint(below):
            return False
    return fits(template, path, is_lenient=False, any_case=False, any_slash=True)


def decide_naively(
    plan: dict[str, str], path: str, method: str, query: str
) -> Outcome | None:
    winners: list[Outcome] = []
    keys = [key for key, state in plan.items() if holds(key, state, query)]
    operations = [parse_key(key) for key in keys]
    for reading, is_lenient, refuses_empty_rest in read_naively(path):
        names = list_winners(
            operations,
            method,
            reading,
            is_lenient=is_lenient,
            refuses_empty_rest=refuses_empty_rest,
        )
        for name in names:
            winners.append(Outcome(name, plan[name], is_lenient))
        if not is_lenient and {winner.state for winner in winners} == {"live"}:
            for name in names:
                if is_exactly(parse_key(name).path, reading):
                    return None
    for state in ("closed", "deprecated"):
        for winner in winners:
            if winner.state == state:
                is_lookalike = winner.is_lookalike and state == "deprecated"
                return winner._replace(is_lookalike=is_lookalike)
    return None


TEMPLATES = ["/a", "/a/", "/A/{x}", "/A/{x}/", "/a/b", "/a/\u0131", "/a/i", "/{x}", "/"]
TEMPLATES += ["/{x}/b", "/a/{x}/b", "/b/a", "/a/**", "/{x}/b/**", "/a/b/**", "/**"]
TEMPLATES += ["/a?v=1", "/a/**?v=*", "/a?v=", "* /a/**?v=1", "* /a/**", "* /a"]
TEMPLATES += ["HEAD /a/{x}", "POST /a/b", "* /{x}"]
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
]
QUERIES = ["", "v=1", "V=1&v=2", "v=", "v", "w=1", "V=1", "v=%31", "v=1+"]


def compare(
    plan: dict[str, str], path: str, query: str, method: str = "GET"
) -> list[Outcome | None]:
    """Return the outcome of a request, and the one that the rules give."""
    path = path.replace("\u0131", "\xc4\xb1")
    return [
        outcome_of(plan, path, method, query),
        decide_naively(plan, path, method, query),
    ]


@pytest.mark.parametrize(
    ("plan", "path", "query"),
    [
        ({"/{x}": "deprecated", "/a": "closed"}, "/ a", ""),
        ({"/a": "closed", "/a/**": "closed"}, "a/../a", ""),
        ({"/a?v=1": "closed"}, "//a", "w=1"),
        ({"/{x}/b": "deprecated"}, "//I/..//B/", ""),
    ],
)
def test_a_path_that_was_once_wrong_has_the_outcome_that_the_rules_give(
    plan: dict[str, str], path: str, query: str
) -> None:
    outcome, expected = compare(plan, path, query)
    assert outcome == expected


@given(st.randoms(use_true_random=True))
def test_every_path_has_the_outcome_that_the_rules_give(source: random.Random) -> None:
    for _request in range(5):
        plan = {}
        for key in source.sample(TEMPLATES, source.randint(1, 5)):
            plan[key] = source.choice([*STATES])
        words = source.choices(SEGMENTS, k=source.randint(0, 5))
        path = source.choice(["/", "//", ""]) + "/".join(words)
        request = (plan, path, source.choice(QUERIES), source.choice(METHODS))
        outcome, expected = compare(*request)
        assert outcome == expected, request
