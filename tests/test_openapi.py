"""From an OpenAPI document of your application to a plan, and from a plan into your
document.
"""

import copy
import json
import tracemalloc
import warnings
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from openapi_spec_validator import validate

from example_app import create_app
from flask_notifications import (
    Brownout,
    DeprecationPolicy,
    Operation,
    notification_operations,
)
from flask_notifications.openapi import deprecate, plan_from_openapi
from flask_notifications.openapi.files import parse_document
from tests.servers.process import run_program
from tests.services import npm_program_or_skip

JANUARY, JULY = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 7, 1, tzinfo=UTC)
UNDATED = DeprecationPolicy(deprecated_at=JANUARY)
POLICY = replace(UNDATED, sunset_at=JULY, documentation="https://example.com/retire")
OLD = {"deprecated": True}
NUMBER = {"name": "id", "in": "path", "schema": {"type": "integer"}}
INFO = {"title": "Shop", "version": "1"}


def document(paths: Any, **more: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": INFO, "paths": paths} | more


def swagger(paths: Any, **more: Any) -> dict[str, Any]:
    return {"swagger": "2.0", "info": INFO, "paths": paths} | more


def read(source: Any, policy: DeprecationPolicy = UNDATED) -> dict[Operation, Any]:
    """Return the plan of a document, without the warning about slashes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="in a plan, a parameter is one")
        return plan_from_openapi(source, policy)


def names(source: Any) -> list[str]:
    return [f"{operation.method} {operation.path}" for operation in read(source)]


def errors(source: Any) -> list[str]:
    with pytest.raises(ValueError, match=r"\w") as raised:
        read(source)
    return str(raised.value).split("\n")


@pytest.mark.parametrize(
    "version",
    ["3.0.3", "3.1.0", "3.2.0", 3.1],
    ids=lambda version: f"OpenAPI {version}",
)
def test_the_versions_of_openapi_3_are_read(version: Any) -> None:
    assert names(document({"/a": {"get": OLD}}, openapi=version)) == ["GET /a"]


@pytest.mark.parametrize("base", ["/api/v1", "/api/v1/", None, ""])
@pytest.mark.parametrize("version", ["2.0", 2.0])
def test_swagger_2_is_read_below_its_base_path(version: Any, base: Any) -> None:
    operation = OLD | {"x-successor": "/pets"}
    source = swagger({"/a": {"get": operation}}, swagger=version, basePath=base)
    source["servers"] = [{"url": "/of-openapi-3"}]
    below = "/api/v1" if base else ""
    (listed,) = read(source)
    assert (listed.path, listed.successor) == (f"{below}/a", f"{below}/pets")


@pytest.mark.parametrize(
    ("operation", "is_deprecated"),
    [
        (OLD, True),
        ({"x-sunset": "2027-07-01"}, True),
        ({"x-deprecated-at": "2026-01-15"}, True),
        ({"deprecated": False, "x-sunset": "2027-07-01"}, True),
        ({"deprecated": None, "x-sunset": None}, False),
        (None, False),
    ],
    ids=str,
)
def test_an_operation_is_deprecated_by_its_flag_or_a_date(
    operation: Any, is_deprecated: bool
) -> None:
    assert (names(document({"/a": {"get": operation}})) == ["GET /a"]) is is_deprecated


@pytest.mark.parametrize(
    ("servers", "paths"),
    [
        ([{"url": "https://api.example/v1/"}], ["/v1/a/{id}"]),
        ([], ["/a/{id}"]),
        (
            [{"url": "https://a.example/v1"}, {"url": "https://b.example/v1"}],
            ["/v1/a/{id}"],
        ),
        ([{"url": "/v1"}, {"url": "/v2"}], ["/v1/a/{id}", "/v2/a/{id}"]),
        (
            [{"url": "/{base}/{base}", "variables": {"base": {"default": "v3"}}}],
            ["/v3/v3/a/{id}"],
        ),
        ([{"url": "https://{host}:{port}/v1"}], ["/v1/a/{id}"]),
    ],
)
def test_paths_and_successors_begin_with_the_path_of_the_server(
    servers: list[Any], paths: list[str]
) -> None:
    operation = OLD | {"x-successor": "/b/{id}"}
    plan = read(document({"/a/{id}": {"get": operation}}, servers=servers))
    for listed, path in zip(plan, paths, strict=True):
        assert listed.path == path
        assert listed.successor == path.replace("/a/", "/b/")


def test_a_server_of_an_operation_precedes_those_of_the_path_and_the_document() -> None:
    item = {"servers": [{"url": "/path"}], "put": OLD, "get": dict(OLD, servers=[])}
    item["post"] = OLD | {"servers": [{"url": "/operation"}]}
    source = document({"/a": item, "/b": {"get": OLD}}, servers=[{"url": "/all"}])
    assert names(source) == [
        "PUT /path/a",
        "GET /path/a",
        "POST /operation/a",
        "GET /all/b",
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            document(
                {"/a": {"query": OLD, "additionalOperations": {"COPY": OLD, "X": {}}}}
            ),
            ["QUERY /a", "COPY /a"],
        ),
        (
            document({"/a": {"$ref": "#/x-a", "get": OLD}}) | {"x-a": {"put": OLD}},
            ["PUT /a", "GET /a"],
        ),
        (
            document({"/a": {"get": {"$ref": "#/x-a/0"}}}) | {"x-a": [OLD]},
            ["GET /a"],
        ),
        (
            document({"/a": {"$ref": "#/x-0"}})
            | {f"x-{number}": {"$ref": f"#/x-{number + 1}"} for number in range(8)}
            | {"x-8": {"put": OLD}},
            ["PUT /a"],
        ),
        (document({"/a": {"$ref": "#/x~1a%7E0"}}) | {"x/a~": {"put": OLD}}, ["PUT /a"]),
        (document({"x-a": OLD, "/a": None, "/b": {"x-old": OLD, "id": 5}}), []),
        (document(None), []),
    ],
    ids=[
        "fields of OpenAPI 3.2",
        "beside a reference",
        "in a list",
        "after nine references",
        "an escaped reference",
        "extensions",
        "no paths",
    ],
)
def test_operations_are_found_where_openapi_has_them(
    source: Any, expected: list[str]
) -> None:
    assert names(source) == expected


def named(name: str, **more: Any) -> dict[str, Any]:
    return OLD | {"operationId": name} | more


def test_the_operations_of_a_plan_have_different_names() -> None:
    paths = {
        "/a": {"get": named("a"), "put": named("a")},
        "/b": {"put": named("PUT /c"), "get": OLD},
        "/c": {"put": named("a")},
        "/d": {"put": named("d", servers=[{"url": "/v1"}, {"url": "/v2"}])},
    }
    assert [operation.name for operation in read(document(paths))] == [
        "a",
        "PUT /a",
        "PUT /c",
        "GET /b",
        "PUT /c (2)",
        "d",
        "PUT /v2/d",
    ]


@pytest.mark.parametrize(
    ("operation", "changed"),
    [
        ({}, {}),
        ({"externalDocs": {"url": "/docs"}}, {"documentation": "/docs"}),
        ({"externalDocs": {"description": "no URL"}}, {}),
        ({"x-sunset": date(2027, 7, 1)}, {"sunset_at": JULY}),
        (
            {"x-sunset": datetime(2027, 7, 1, 2, tzinfo=timezone(timedelta(hours=2)))},
            {"sunset_at": JULY},
        ),
        ({"x-sunset": "2027-07-01t02:00:00+02:00"}, {"sunset_at": JULY}),
        ({"x-sunset": "2027-07-01t00:00:00z"}, {"sunset_at": JULY}),
        (
            {"x-deprecated-at": "2026-02-01"},
            {"deprecated_at": datetime(2026, 2, 1, tzinfo=UTC)},
        ),
        (
            {"x-sunset": "2022-08-10"},
            dict.fromkeys(
                ("deprecated_at", "sunset_at"), datetime(2022, 8, 10, tzinfo=UTC)
            ),
        ),
        (
            {"x-deprecated-at": "2027-08-01", "x-sunset": "2027-07-01"},
            {"deprecated_at": JULY, "sunset_at": JULY},
        ),
    ],
)
def test_an_operation_replaces_values_of_the_policy(
    operation: Any, changed: Any
) -> None:
    window = Brownout(JANUARY, JANUARY + timedelta(days=1))
    policy = replace(POLICY, sunset_at=JULY + timedelta(days=99), brownouts=[window])
    plan = read(document({"/a": {"get": OLD | operation}}), policy)
    assert list(plan.values()) == [replace(policy, **changed)]


def test_a_sunset_that_has_passed_is_a_warning_if_it_is_enforced() -> None:
    policy = replace(POLICY, enforce_sunset=True)
    paths = {"/a": {"get": OLD | {"x-sunset": "2022-08-10"}}, "/b": {"get": OLD}}
    with pytest.warns(UserWarning, match="so these close at once: GET /a$"):
        plan = plan_from_openapi(document(paths), policy)
    assert all(policy.enforce_sunset for policy in plan.values() if policy)


@pytest.mark.parametrize(
    ("path", "more", "expected"),
    [
        ("/files/{path+}", {}, "/v1/files/**"),
        ("/files/{*path}", {}, "/v1/files/**"),
        ("/files/**", {}, "/v1/files/**"),
        (
            "/files/{path}",
            {
                "parameters": [
                    {"name": "path", "in": "header", "format": "uuid"},
                    {"name": "path", "in": "path", "format": "path"},
                    {"name": "path", "in": "query", "format": "uuid"},
                ]
            },
            "/v1/files/**",
        ),
        (
            "/files/{path}",
            {"parameters": [{"$ref": "#/components/parameters/path"}]},
            "/v1/files/**",
        ),
        (
            "/files/{path}",
            {"parameters": [{"$ref": "other.yaml"}, NUMBER | {"name": "path"}]},
            "/v1/files/{path}",
        ),
        ("/files/{id}.json", {"x-path": "/files/{name}"}, "/v1/files/{name}"),
    ],
    ids=[
        "of a gateway",
        "of Spring",
        "of a plan",
        "declared in Swagger 2.0",
        "declared by references",
        "not declared as such",
        "in another path",
    ],
)
def test_a_last_parameter_with_slashes_is_everything_below(
    path: str, more: Any, expected: str
) -> None:
    schema = {"$ref": "#/components/schemas/path"}
    components = {
        "parameters": {"path": {"name": "path", "in": "path", "schema": schema}},
        "schemas": {"path": {"format": "path"}},
    }
    operation = OLD | {"x-successor": path.replace(".json", "")} | more
    if "x-path" in more:
        operation["x-successor"] = more["x-path"]
    source = document({path: {"get": operation}}, components=components)
    (read_operation,) = read(source | {"servers": [{"url": "/v1"}]})
    assert read_operation.path == read_operation.successor == expected


@pytest.mark.parametrize(
    ("path", "schema", "is_warned"),
    [
        ("/tree/{rest}/", {"type": ["string", "null"]}, True),
        ("/tree/{rest}", None, True),
        ("/tree/{rest}", {"type": "integer"}, False),
        ("/tree/{rest}", {"type": "string", "format": "uuid"}, False),
        ("/{rest}/tree", {"type": "string"}, False),
    ],
)
def test_a_last_parameter_that_may_have_slashes_is_a_warning(
    path: str, schema: Any, is_warned: bool
) -> None:
    parameter = {"name": "rest", "in": "path"} | ({"schema": schema} if schema else {})
    operation = OLD | {"parameters": [parameter]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plan_from_openapi(document({path: {"get": operation}}), UNDATED)
        accepted = operation | {"x-path": path}
        plan_from_openapi(document({path: {"get": accepted}}), UNDATED)
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == is_warned
    assert all(text.endswith(f"a path that ends in /**: {path}") for text in messages)


# What producers write of a report and of files whose route takes slashes, and the names
# and paths in the plan.
PRODUCERS: dict[str, tuple[str, dict[str, str]]] = {
    "FastAPI": (
        """
openapi: 3.1.0
servers: [{url: /api}]
paths:
  /v1/reports/{id}:
    get:
      operationId: report_v1_reports__id__get
      deprecated: true
      parameters:
      - {name: id, in: path, required: true, schema: {type: integer, title: Id}}
  /v1/files/{name}:
    get:
      operationId: file_v1_files__name__get
      deprecated: true
      parameters:
      - {name: name, in: path, required: true, schema: {type: string, title: Name}}
""",
        {
            "report_v1_reports__id__get": "/api/v1/reports/{id}",
            "file_v1_files__name__get": "/api/v1/files/{name}",
        },
    ),
    "drf-spectacular": (
        """
openapi: 3.0.3
paths:
  /v1/reports/{id}/:
    get:
      operationId: v1_reports_retrieve
      parameters:
      - {in: path, name: id, schema: {type: string, pattern: ^\\d+$}, required: true}
      security: [{}]
      deprecated: true
  /v1/files/{name}:
    get:
      operationId: v1_files_retrieve
      parameters:
      - {in: path, name: name, schema: {type: string}, required: true}
      deprecated: true
components: {}
""",
        {
            "v1_reports_retrieve": "/v1/reports/{id}/",
            "v1_files_retrieve": "/v1/files/{name}",
        },
    ),
    "flask-smorest and APIFlask": (
        """
openapi: 3.0.2
paths:
  /v1/reports/{id}:
    get: {summary: Report, tags: [reports], deprecated: true}
    parameters:
    - {in: path, name: id, required: true, schema: {type: integer, minimum: 0}}
  /v1/files/{name}:
    get: {summary: File, deprecated: true}
    parameters:
    - {in: path, name: name, required: true, schema: {type: string}}
""",
        {
            "GET /v1/reports/{id}": "/v1/reports/{id}",
            "GET /v1/files/{name}": "/v1/files/{name}",
        },
    ),
    "connexion": (
        """
openapi: 3.0.0
servers: [{url: /api}]
paths:
  /v1/reports/{id}:
    get:
      operationId: shop.report
      deprecated: true
      parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
  /v1/files/{name}:
    get:
      operationId: shop.file
      deprecated: true
      parameters:
      - {name: name, in: path, required: true, schema: {type: string, format: path}}
""",
        {"shop.report": "/api/v1/reports/{id}", "shop.file": "/api/v1/files/**"},
    ),
    "flask-restx and drf-yasg": (
        """
swagger: "2.0"
host: shop.example
basePath: /v1
schemes: [https]
paths:
  /reports/{id}:
    parameters: [{name: id, in: path, required: true, type: integer}]
    get: {operationId: get_report, deprecated: true, tags: [default]}
  /files/{name}:
    parameters: [{name: name, in: path, required: true, type: string}]
    get: {operationId: get_file, deprecated: true, tags: [default]}
    put: {operationId: put_file, tags: [default]}
""",
        {"get_report": "/v1/reports/{id}", "get_file": "/v1/files/{name}"},
    ),
    "flasgger": (
        """
swagger: "2.0"
definitions: {}
paths:
  /v1/reports/{id}:
    get:
      deprecated: true
      parameters: [{in: path, name: id, required: true, type: integer}]
  /v1/files/{name}:
    get: {deprecated: true, summary: A file}
""",
        {
            "GET /v1/reports/{id}": "/v1/reports/{id}",
            "GET /v1/files/{name}": "/v1/files/{name}",
        },
    ),
    "springdoc": (
        """
openapi: 3.0.1
servers: [{url: "http://localhost:8080/shop", description: Generated server url}]
paths:
  /v1/reports/{id}:
    get:
      tags: [report-controller]
      operationId: getReport
      parameters:
      - {name: id, in: path, required: true, schema: {type: integer, format: int64}}
      deprecated: true
  /v1/files/{*name}:
    get: {tags: [file-controller], operationId: getFile, deprecated: true}
""",
        {"getReport": "/shop/v1/reports/{id}", "getFile": "/shop/v1/files/**"},
    ),
}


@pytest.mark.parametrize("name", PRODUCERS)
def test_the_documents_of_producers_are_read(name: str) -> None:
    text, paths = PRODUCERS[name]
    source = parse_document(text.encode())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plan = plan_from_openapi(source, UNDATED)
    assert {operation.name: operation.path for operation in plan} == paths
    is_warned = not any(path.endswith("/**") for path in paths.values())
    assert len(caught) == is_warned
    assert read(deprecate(source, plan)) == plan


def test_a_warning_shows_five_paths_and_counts_the_others() -> None:
    paths = {f"/{number}/{{id}}": {"get": OLD} for number in range(8)}
    with pytest.warns(UserWarning, match=r": /0/{id}, .*/4/{id}, and 3 more$"):
        plan_from_openapi(document(paths), UNDATED)


# What a deprecated operation has, and what the error begins with and has in it.
MISTAKES: dict[str, tuple[str, Any, str, str]] = {
    "a flag": ("/a", {"deprecated": "yes"}, ".deprecated must be true or false", "yes"),
    "a sunset": ("/a", {"x-sunset": "soon"}, ".x-sunset: 'soon'", "2027-07-01"),
    "a naive date": (
        "/a",
        {"x-deprecated-at": datetime(2026, 1, 1)},  # noqa: DTZ001 - the mistake
        ".x-deprecated-at: '2026-01-01T00:00:00'",
        "T09:00:00Z",
    ),
    "an early date": ("/a", {"x-sunset": "1960-01-01"}, ": deprecated_at", "1970"),
    "no URI": ("/a", {"externalDocs": {"url": "see below"}}, ".externalDocs.url", ""),
    "no string": ("/a", {"externalDocs": {"url": 5}}, ".externalDocs.url must be", "5"),
    "no name": ("/a", {"operationId": "a\nb"}, ".operationId: name must be", ""),
    "no successor": ("/a", {"x-successor": "a b"}, ".x-successor: successor must", ""),
    "no path": ("/a", {"x-path": {}}, ".x-path must be a string", "a mapping"),
    "an extension": ("/a/{id}.json", {}, ": path must be", "set x-path"),
    "a query": ("/a?b=c", {}, ": path must be", "set x-path"),
    "a dot": ("/a/./b", {}, ": path must be", "set x-path"),
    "Flask's rule": ("/a/<path:rest>", {}, ": path must be", "such as /files/**"),
    "slashes inside": (
        "/a/{b+}/c",
        {},
        " must be an operation whose path",
        "/files/**",
    ),
    "a parameter": ("/{id}", {"parameters": ["a"]}, ".parameters.0 must be", "'a'"),
    "no reference": (
        "/{id}",
        {"parameters": [{"$ref": "more.yaml"}]},
        ".parameters.0.$ref must be a reference within the document",
        "bundle",
    ),
    "another file": ("/a", {"$ref": "a.yaml"}, ".$ref must be a reference", "bundle"),
    "a server": ("/a", {"servers": [{"url": 5}]}, ".servers.0.url must be", "5"),
    "no server": ("/a", {"servers": 5}, ".servers must be a list", "5"),
    "an address": ("/a", {"servers": [{"url": "//[x"}]}, ".servers.0.url must be", ""),
    "relative": ("/a", {"servers": [{"url": "v1"}]}, ".servers.0.url must be abs", ""),
    "no default": (
        "/a",
        {"servers": [{"url": "/{b}", "variables": {"b": {}}}]},
        ".servers.0.url must be a URL whose variables have defaults",
        "/{b}",
    ),
    "a boolean": (
        "/a",
        {"servers": [{"url": "/{b}", "variables": {"b": {"default": True}}}]},
        ".servers.0.url: b must be a variable whose default",
        "True",
    ),
    "a long server": (
        "/a",
        {"servers": [{"url": "/{b}" * 99, "variables": {"b": {"default": "x" * 99}}}]},
        ".servers.0.url must be at most 2,000 characters",
        "",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_an_error_has_its_place_and_the_way_out(case: str) -> None:
    path, more, begin, part = MISTAKES[case]
    (error,) = errors(document({path: {"get": OLD | more}, "/z": {"get": OLD}}))
    assert error.startswith(f"paths.{path}.get{begin}")
    assert part in f"{error}\n"


@pytest.mark.parametrize(
    ("source", "begin"),
    [
        (document({"/a": {"$ref": "a.yaml"}}), "paths./a.$ref must be a reference"),
        (document({"/a": {"$ref": "#/paths/~1a"}}), "paths./a.$ref must be a refer"),
        (document({"/a": {"$ref": "#/b"}}), "paths./a.$ref must be a place in"),
        (document({"/a": {"$ref": "#/info/title"}}), "paths./a.$ref must be a map"),
        (document({"/a": {"get": 5}}), "paths./a.get must be a mapping, not 5"),
        (document({"/a": {"GET": OLD}}), "paths./a.GET: methods are in lower case"),
        (
            document({"/a": {"additionalOperations": {"A B": OLD}}}),
            "paths./a.additionalOperations.A B: method must be",
        ),
        (
            document({"/a": {"additionalOperations": {5: OLD}}}),
            "the method 5 of paths./a.additionalOperations must be a string",
        ),
        (document({404: {}}), "the path 404 must be a string"),
        (document([]), "paths must be a mapping, not a list"),
        (document({"/a": {"get": OLD}}, servers=[5]), "servers.0 must be a mapping"),
        (swagger({"/a": {"get": OLD}}, basePath="v1"), "basePath must be a path"),
        (document({}, openapi="4.0.0"), "the version must be openapi: 3.x or swagger"),
        ({}, "the version must be openapi: 3.x or swagger: 2.0, not None"),
        (None, "the document must be a mapping, not None"),
    ],
)
def test_what_may_be_deprecated_and_cannot_be_read_is_an_error(
    source: Any, begin: str
) -> None:
    (error,) = errors(source)
    assert error.startswith(begin)


def test_all_errors_are_reported_at_once() -> None:
    paths = {path: {"get": OLD | more} for path, more, _, _ in MISTAKES.values()}
    several: dict[str, Any] = dict.fromkeys(("x-deprecated-at", "deprecated"), 5)
    several |= {"x-sunset": "soon", "operationId": "\n"}
    paths["/b/{id}.json"] = {"get": OLD | several}
    paths["/c"] = {"$ref": "c.yaml"}
    source = document(paths)
    assert len(errors(source)) >= len(paths) + 3
    assert len(errors(document({"/b/{id}.json": paths["/b/{id}.json"]}))) == 5


@pytest.mark.parametrize(
    ("paths", "count"),
    [
        ({"/a/{b}": {"get": OLD}, "/A/{c}": {"get": OLD}}, 1),
        (
            {
                "/{a}.json": {"get": OLD | {"x-path": "/{a}"}},
                "/{a}.xml": {"get": OLD | {"x-path": "/{a}"}},
            },
            1,
        ),
        ({"/a": {"get": OLD}, "/A": {"get": OLD | {"x-sunset": "2027-07-01"}}}, None),
        ({"/a": {"get": OLD}, "/A": {"get": {}}}, None),
    ],
)
def test_operations_for_the_same_requests_must_say_the_same(
    paths: Any, count: int | None
) -> None:
    if count is None:
        (error,) = errors(document(paths))
        assert error.startswith("paths./A.get: paths./a.get is for the same requests")
    else:
        assert len(read(document(paths))) == count


@pytest.mark.parametrize(
    ("deprecated", "live", "more", "is_listed"),
    [
        ("/users/{id}", "/users/me", {}, True),
        ("/users/{id}", "/{page}/me", {"parameters": [NUMBER]}, True),
        ("/users/{id}", "/users/{id}/name", {}, False),
        ("/users/me", "/users/{id}", {}, False),
        ("/users/me", "/{path+}", {}, False),
    ],
)
def test_a_live_operation_whose_requests_a_deprecated_one_would_take_is_in_the_plan(
    deprecated: str, live: str, more: Any, is_listed: bool
) -> None:
    paths = {live: {"get": {"operationId": "new"} | more, "put": {}}}
    paths[deprecated] = {"get": named("old")}
    plan = read(document(paths, servers=[{"url": "/v1"}]))
    expected: list[tuple[str, str, DeprecationPolicy | None]] = []
    if is_listed:
        expected.append(("new", f"/v1{live}", None))
    expected.append(("old", f"/v1{deprecated}", UNDATED))
    assert [(key.name, key.path, plan[key]) for key in plan] == expected


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/users/{id}.json", {}),
        ("users/a", {}),
        ("/users/a", {"operationId": 5}),
        ("/users/a", {"servers": [{"url": 5}]}),
        ("/users/{a}", {"parameters": [{"$ref": "a.yaml"}]}),
    ],
)
@pytest.mark.parametrize("deprecated", ["/users/{id}", "/orders"])
def test_an_unreadable_live_operation_is_an_error_if_a_deprecated_one_may_take_it(
    deprecated: str, path: str, more: Any
) -> None:
    paths = {deprecated: {"get": OLD}, path: {"get": more}}
    source = document(paths, servers=[{"url": "/v1"}])
    if deprecated == "/orders":
        assert names(source) == ["GET /v1/orders"]
    else:
        (error,) = errors(source)
        assert error.startswith(f"paths.{path}.get")
        assert error.endswith("a deprecated operation may take its requests)")


@pytest.mark.parametrize("end", ["?b=c", "#b"])
def test_a_live_operation_with_a_query_in_its_path_shares_it_with_a_deprecated_one(
    end: str,
) -> None:
    (error,) = errors(document({"/a": {"get": OLD}, f"/a{end}": {"get": {}}}))
    assert error.startswith(f"paths./a{end}.get")
    assert names(document({"/b": {"get": OLD}, f"/a{end}": {"get": {}}})) == ["GET /b"]


def test_what_a_live_operation_says_of_its_deprecation_is_ignored() -> None:
    operation = {"x-successor": 5, "externalDocs": 5, "responses": 5}
    paths = {"/users/{id}": {"get": OLD}, "/users/me": {"get": operation}}
    paths["/odd"] = {"additionalOperations": {"A B": {}}}
    assert names(document(paths)) == ["GET /users/{id}", "GET /users/me"]


def bomb() -> list[Any]:
    """Return a list that aliases of YAML can make: small, but longer than any memory."""
    laughs: list[Any] = ["ha"]
    for _ in range(60):
        laughs = [laughs, laughs]
    return laughs


TEXT = "x" * 100_000
NUMBERS = range(400)
MANY = {"additionalOperations": {f"M{number}": OLD for number in NUMBERS}}
LONG = {"get": named(TEXT)}
WIDE = {"get": OLD | {"parameters": [NUMBER] * 20_000}}
LARGE: dict[str, dict[str, Any]] = {
    "servers": document(
        {f"/{number}": {"get": OLD} for number in NUMBERS},
        servers=[{"url": f"/{number}"} for number in NUMBERS],
    ),
    "references": document({f"/{number}": {"$ref": "#/x-a"} for number in NUMBERS})
    | {"x-a": MANY},
    "aliases": document({f"/{number}": MANY for number in NUMBERS}),
    "a shared name": document({f"/{number}": LONG for number in NUMBERS}),
    "shared parameters": document({f"/{number}/{{a}}": WIDE for number in NUMBERS}),
    "parameters of shared paths": document(
        {f"/{number}/{{a}}": WIDE["get"] | {"get": OLD} for number in NUMBERS}
    ),
}


@pytest.mark.parametrize("case", LARGE)
def test_no_document_takes_memory_out_of_proportion_to_its_size(case: str) -> None:
    tracemalloc.start()
    try:
        assert "too often" in errors(LARGE[case])[0]
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "key",
    ["deprecated", "x-successor", "operationId", "parameters"],
)
def test_an_error_does_not_show_what_aliases_multiply(key: str) -> None:
    (error,) = errors(document({"/{a}": {"get": OLD | {key: bomb()}}}))
    assert len(error) < 200


def test_a_thousand_operations_take_a_second() -> None:
    paths = {}
    for number in range(500):
        operation = named(f"get {number}", parameters=[NUMBER], description="x" * 500)
        paths[f"/things{number}/{{id}}"] = {"get": operation, "put": {}}
    start = process_time()
    assert len(read(document(paths, servers=[{"url": "/v1"}, {"url": "/v2"}]))) == 1000
    assert process_time() - start < 3


# deprecate

RESPONSES = {200: {"description": "Fine."}, "default": {"$ref": "#/x-problem"}}
SHARED = {"x-problem": {"description": "Wrong.", "headers": {"link": {"x-own": True}}}}


def test_operations_of_the_plan_are_deprecated_in_a_copy_of_the_document() -> None:
    paths = {"/reports/{id}": {"get": {"responses": RESPONSES}, "put": {}}}
    source = document(paths) | SHARED
    before = copy.deepcopy(source)
    report = Operation("report", "GET", "/reports/{key}", "/v2/reports/{key}")
    written = deprecate(source, {report: POLICY})
    assert source == before
    item = written["paths"]["/reports/{id}"]
    assert item["put"] == {}
    assert item["get"]["deprecated"] is True
    assert item["get"]["x-sunset"] == "2027-07-01"
    assert item["get"]["x-successor"] == "/v2/reports/{id}"
    responses = item["get"]["responses"]
    assert sorted(responses[200]["headers"]) == ["Deprecation", "Link", "Sunset"]
    assert sorted(responses["default"]["headers"]) == ["Deprecation", "Sunset", "link"]
    assert responses["default"]["description"] == "Wrong."
    assert written["x-problem"] == SHARED["x-problem"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (UNDATED, None),
        (POLICY, "2027-07-01"),
        (
            replace(POLICY, sunset_at=JULY - timedelta(hours=2)),
            "2027-06-30T22:00:00Z",
        ),
    ],
)
def test_dates_and_successors_are_those_of_the_plan(
    policy: DeprecationPolicy, expected: str | None
) -> None:
    operation = {"x-sunset": "2020-01-01", "x-successor": "/other"}
    source = document({"/a": {"get": operation | {"x-deprecated-at": "2019-01-01"}}})
    marked = deprecate(source, {Operation("a", "GET", "/a"): policy})["paths"]["/a"]
    assert marked["get"].get("x-sunset") == expected
    assert marked["get"].keys() <= {"deprecated", "x-sunset"}


def test_a_subtree_deprecates_every_operation_below_that_is_not_live() -> None:
    paths = {
        "/v1": {"get": {}},
        "/v1/reports/{id}": {"get": {}, "head": {}, "options": {}},
        "/v1/files/{path+}": {
            "get": {},
            "additionalOperations": {"COPY": {}},
        },
        "/v1/all": {"get": {"x-path": "/v1/all/**"}},
        "/v1/status": {"get": {}},
        "/v10": {"get": {}},
    }
    plan = {
        Operation("v1", "*", "/v1/**", "/v2/**"): UNDATED,
        Operation("status", "GET", "/v1/status"): None,
    }
    successors = {}
    for path, item in deprecate(document(paths), plan)["paths"].items():
        for method, operation in (item | item.get("additionalOperations", {})).items():
            if operation.get("deprecated"):
                successors[f"{method} {path}"] = operation["x-successor"]
    assert successors == {
        "get /v1": "/v2",
        "get /v1/reports/{id}": "/v2/reports/{id}",
        "head /v1/reports/{id}": "/v2/reports/{id}",
        "get /v1/files/{path+}": "/v2/files/{path+}",
        "COPY /v1/files/{path+}": "/v2/files/{path+}",
        "get /v1/all": "/v2/all/**",
    }


@pytest.mark.parametrize(
    ("base", "successor", "expected"),
    [
        ("/v1", "/v1/b", "/b"),
        ("", "/v1/b", "/v1/b"),
        ("/v1", "/v2/b", "../v2/b"),
        ("/v1", "/v1", "../v1"),
        ("/api/v1", "/b", "../../b"),
        ("/v1", "https://x.example/b", "https://x.example/b"),
    ],
)
def test_the_path_of_the_server_counts_as_in_reading(
    base: str, successor: str, expected: str
) -> None:
    paths: dict[str, Any] = {"/a": {"get": {}}}
    plan = {Operation(f"GET {base}/a", "GET", f"{base}/a", successor): POLICY}
    server = {"url": f"https://x.example{base}"}
    for source in (swagger(paths, basePath=base), document(paths, servers=[server])):
        written = deprecate(source, plan)
        assert written["paths"]["/a"]["get"]["x-successor"] == expected
        assert read(written, replace(POLICY, sunset_at=None)) == plan


def test_what_operations_share_is_copied_before_it_is_changed() -> None:
    shared: dict[str, Any] = {"get": {"responses": {200: {"description": "Fine."}}}}
    paths = {
        "/old": shared,
        "/new": shared,
        "/o": {"$ref": "#/x"},
        "/n": {"$ref": "#/x"},
    }
    plan = {Operation("a", "GET", "/old"): POLICY, Operation("b", "GET", "/o"): POLICY}
    written = deprecate(document(paths) | {"x": shared}, plan)
    assert written["paths"]["/new"] == written["x"] == shared
    assert written["paths"]["/n"] == {"$ref": "#/x"}
    assert written["paths"]["/old"] == written["paths"]["/o"] != shared


SESSION = {"name": "sessionID", "in": "query", "schema": {"type": "string"}}


@pytest.mark.parametrize("is_shared", [True, False], ids=["of the path", "its own"])
def test_the_parameter_of_the_session_is_deprecated(is_shared: bool) -> None:
    parameters = [{"$ref": "#/x-id"}, {"$ref": "#/x-session"}, {"$ref": "other.yaml"}]
    item: dict[str, Any] = {"get": {}, "put": {}}
    (item if is_shared else item["get"])["parameters"] = parameters
    current_user = replace(notification_operations()[0], unify_session=True)
    source = document({"/API/Notification/": item}) | {"x-session": SESSION}
    written = deprecate(source | {"x-id": NUMBER}, {current_user: POLICY})
    marked = written["paths"]["/API/Notification/"]
    assert SESSION | {"deprecated": True} in marked["get"]["parameters"]
    assert {"$ref": "#/x-session"} not in marked["get"]["parameters"]
    assert len(marked["get"]["parameters"]) == (1 if is_shared else 3)
    assert written["x-session"] == SESSION
    assert marked["put"] == {}


def test_an_operation_may_not_declare_its_session() -> None:
    plan = {Operation("a", "GET", "/a", unify_session=True): POLICY}
    marked = deprecate(document({"/a": {"get": {}}}), plan)["paths"]["/a"]["get"]
    assert marked == {"deprecated": True, "x-sunset": "2027-07-01"}


def test_swagger_2_has_its_own_headers_and_parameters() -> None:
    operation = {"responses": RESPONSES, "parameters": [SESSION | {"type": "string"}]}
    source = swagger({"/a": {"get": operation}}) | SHARED
    plan = {Operation("a", "GET", "/a", unify_session=True): POLICY}
    marked = deprecate(source, plan)["paths"]["/a"]["get"]
    assert marked["parameters"][0]["x-deprecated"] is True
    assert marked["responses"][200]["headers"]["Sunset"]["type"] == "string"


@pytest.mark.parametrize(
    ("plan", "more"),
    [
        ({Operation("lost", "GET", "/b"): POLICY}, {}),
        ({Operation("lost", "GET", "/a", query={"v": "1"}): POLICY}, {}),
        (
            {
                Operation("lost", "GET", "/a"): POLICY,
                Operation("new", "GET", "/a", headers={"API-Version": "2"}): None,
            },
            {},
        ),
        (
            {
                Operation("new", "GET", "/a", headers={"API-Version": "2"}): None,
                Operation("lost", "GET", "/a"): POLICY,
            },
            {},
        ),
        (
            {Operation("lost", "GET", "/v1/a"): POLICY},
            {"servers": [{"url": "/v1"}, {"url": "/v2"}]},
        ),
        ({Operation("lost", "GET", "/a"): POLICY}, {"servers": 5}),
        ({Operation("lost", "GET", "/a"): POLICY}, {"paths": {"/a": {"$ref": "a"}}}),
        ({Operation("lost", "GET", "/a"): POLICY}, {"paths": {"/a": {"GET": {}}}}),
        (
            {Operation("lost", "*", "/a"): POLICY},
            {"paths": {"/a": {"additionalOperations": {"A B": {}}}}},
        ),
        ({Operation("lost", "GET", "/a"): POLICY}, {"paths": []}),
    ],
    ids=[
        "another path",
        "conditions",
        "conditions of a live one",
        "conditions of a live one before",
        "live on another server",
        "unreadable servers",
        "another file",
        "no field of OpenAPI",
        "no method",
        "no paths",
    ],
)
def test_what_is_not_in_the_document_as_a_whole_is_left_alone(
    plan: Any, more: Any
) -> None:
    source = document({"/a": {"get": {"responses": RESPONSES}}}) | SHARED | more
    with pytest.warns(UserWarning, match="^left alone, because .*: lost$"):
        assert deprecate(source, plan) == source


def test_responses_that_cannot_be_read_are_left_alone() -> None:
    responses = {
        "x-note": {},
        200: {"$ref": "other.yaml"},
        404: {"description": "", "headers": 5},
    }
    paths = {"/a": {"get": {"responses": responses}, "put": {"responses": 5}}}
    marked = deprecate(document(paths), {Operation("a", "*", "/a"): POLICY})
    assert marked["paths"]["/a"]["get"]["responses"] == responses
    assert marked["paths"]["/a"]["put"]["responses"] == 5


@pytest.fixture
def example_document(tmp_path: Path) -> Any:
    app = create_app(f"sqlite:///{tmp_path}/example.sqlite3")
    served = app.test_client().get("/openapi.json").json
    app.extensions["engine"].dispose()
    return served


def test_the_example_serves_a_valid_document_of_its_own(example_document: Any) -> None:
    validate(example_document)
    deprecated = []
    for path, item in example_document["paths"].items():
        for operation in item.values():
            if operation.get("deprecated"):
                deprecated.append(path)
    assert deprecated == [
        "/API/Notification/",
        "/API/Notification/GetNotificationsForAccount/{id}/",
    ]


@pytest.mark.slow
def test_linters_find_no_errors_in_it(example_document: Any, tmp_path: Path) -> None:
    redocly = npm_program_or_skip("@redocly/cli@2.77.0", "redocly")
    spectral = npm_program_or_skip("@stoplight/spectral-cli@6.16.3", "spectral")
    file, rules = tmp_path / "openapi.json", tmp_path / "rules.yaml"
    file.write_text(json.dumps(example_document), encoding="utf-8")
    rules.write_text("extends: spectral:oas\n", encoding="utf-8")
    # A path ends with a slash if that of the application does.
    lint = [
        *redocly,
        "lint",
        "--extends=recommended",
        "--skip-rule=no-path-trailing-slash",
    ]
    for command in (lint, [*spectral, "lint", "--ruleset", rules]):
        run_program(*command, file)
