"""From an OpenAPI document of your application to a plan, and from a plan to an OpenAPI
document.
"""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from marshmallow import Schema, fields
from openapi_spec_validator import validate

from flask_notifications import (
    Brownout,
    DeprecationPolicy,
    Operation,
    notification_operations,
)
from flask_notifications.openapi import openapi_document, plan_from_openapi
from tests.servers.process import run_program
from tests.services import npm_program_or_skip

JULY = datetime(2027, 7, 1, tzinfo=UTC)
UNDATED = DeprecationPolicy(deprecated_at=datetime(2026, 1, 1, tzinfo=UTC))
POLICY = replace(UNDATED, sunset_at=JULY, documentation="https://example.com/retire")
PLAN = dict.fromkeys(notification_operations(), POLICY)


def document(**changed: Any) -> dict[str, Any]:
    """Return a document with one deprecated operation and others that are not
    deprecated.
    """
    operation = {"deprecated": True, "responses": {}} | changed.pop("operation", {})
    paths = {
        "/old/{id}": {"get": operation, "post": {"responses": {}}},
        "/new": {"get": {"deprecated": False}},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "t", "version": "1"},
        "paths": paths,
    } | changed


@pytest.mark.parametrize(
    ("servers", "paths"),
    [
        ([{"url": "https://api.example/v1/"}], ["/v1/old/{id}"]),
        ([{"url": "/v1"}], ["/v1/old/{id}"]),
        ([], ["/old/{id}"]),
        (
            [{"url": "https://a.example/v1"}, {"url": "https://b.example/v1"}],
            ["/v1/old/{id}"],
        ),
        ([{"url": "/v1"}, {"url": "/v2"}], ["/v1/old/{id}", "/v2/old/{id}"]),
        (
            [{"url": "/{base}/{base}", "variables": {"base": {"default": "v3"}}}],
            ["/v3/v3/old/{id}"],
        ),
        (
            [
                {
                    "url": "https://a.example:{port}/v1",
                    "variables": {"port": {"default": 8443}},
                }
            ],
            ["/v1/old/{id}"],
        ),
    ],
)
def test_paths_and_successors_begin_with_the_path_of_the_server(
    servers: list[Any], paths: list[str]
) -> None:
    source = document(servers=servers, operation={"x-successor": "/new/{id}"})
    read = [
        (operation.path, operation.successor)
        for operation in plan_from_openapi(source, POLICY)
    ]
    assert read == [(path, path.replace("old", "new")) for path in paths]


OLD = {"deprecated": True}


def named(name: str) -> dict[str, Any]:
    return OLD | {"operationId": name}


TWO = [{"url": "/v1"}, {"url": "/v2"}]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (
            {
                "paths": {
                    "/a": {"query": OLD, "additionalOperations": {"B": OLD, "X": {}}}
                }
            },
            ["QUERY: QUERY /a", "B: B /a"],
        ),
        (
            {"paths": {"/a": {"$ref": "#/x-a", "get": OLD}}, "x-a": {"put": OLD}},
            ["GET: GET /a", "PUT: PUT /a"],
        ),
        (
            {"paths": {"/a": {"get": {"$ref": "#/x-a/0"}}}, "x-a": [OLD]},
            ["GET: GET /a"],
        ),
        (
            {"servers": [{"url": "/all"}], "operation": {"servers": [{"url": "/own"}]}},
            ["GET: GET /own/old/{id}"],
        ),
        (
            {"servers": TWO, "operation": {"operationId": "old"}},
            ["GET: old", "GET: old GET /v2/old/{id}"],
        ),
        (
            {"paths": {"/a": dict.fromkeys(("get", "put"), named("a"))}},
            ["GET: a", "PUT: a PUT /a"],
        ),
        (
            {
                "paths": {
                    "/a": {"get": named("a"), "put": named("a PUT /b")},
                    "/b": {"put": named("a")},
                }
            },
            ["GET: a", "PUT: a PUT /b", "PUT: a PUT /b PUT /b"],
        ),
    ],
    ids=[
        *(
            "methods of OpenAPI 3.2",
            "beside a reference",
            "in a list",
            "its own server",
            "an ID on two servers",
        ),
        *("an ID twice", "an ID like that of an ID twice"),
    ],
)
def test_the_operations_of_a_document_have_different_names(
    source: dict[str, Any], names: list[str]
) -> None:
    read = plan_from_openapi(document(**source), POLICY)
    assert [f"{operation.method}: {operation.name}" for operation in read] == names


@pytest.mark.parametrize(
    ("operation", "changed"),
    [
        ({}, {}),
        (
            {"externalDocs": {"url": "https://example.com/docs"}},
            {"documentation": "https://example.com/docs"},
        ),
        ({"x-sunset-documentation": "/sunsets"}, {"sunset_documentation": "/sunsets"}),
        *(
            ({"x-sunset": written}, {"sunset_at": JULY})
            for written in (
                "2027-07-01",
                "2027-07-01T02:00:00+02:00",
                JULY.date(),
                JULY,
            )
        ),
    ],
)
def test_an_operation_replaces_values_of_the_policy(
    operation: Any, changed: Any
) -> None:
    window = Brownout(
        datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 1, 2, tzinfo=UTC)
    )
    sunset_at = datetime(2028, 1, 1, tzinfo=UTC)
    policy = replace(
        POLICY, sunset_at=sunset_at, brownouts=[window], sunset_documentation="/policy"
    )
    plan = plan_from_openapi(document(operation=operation), policy)
    assert list(plan.values()) == [replace(policy, **changed)]


def old(**operation: Any) -> dict[str, Any]:
    return document(operation=operation)


def on(url: str, variables: Any) -> dict[str, Any]:
    return document(servers=[{"url": url, "variables": variables}])


@pytest.mark.parametrize(
    ("message", "source"),
    [
        ("openapi", document(openapi="4.0.0")),
        ("get: documentation must be a URI", old(externalDocs={"url": 5})),
        ("x-sunset", old(**{"x-sunset": datetime(2027, 7, 1)})),  # noqa: DTZ001 - the mistake
        ("x-sunset", old(**{"x-sunset": "0001-01-01T00:00:00+14:00"})),
        ("get: sunset_at", old(**{"x-sunset": "2025-07-01"})),
        ("servers", document(servers=[{"url": "http://[x"}])),
        ("get: servers must be a list, not 5", document(servers=5)),
        (r"get: the variables of a server must be a mapping, not \[\]", on("/{a}", [])),
        (
            "get: the variable 'a' of a server must be a mapping with a default, .* not 'b'",
            on("/{a}", {"a": "b"}),
        ),
        (
            "the variable 'a' of a server must be .* not {'default': True}",
            on("/{a}", {"a": {"default": True}}),
        ),
        (
            "the variable 'a' of a server",
            on("/{a}", {"a": {"default": "{b}"}, "b": {"default": "c"}}),
        ),
        (
            "the path of a server must be at most 8,000 characters",
            on("/{a}" * 90, {"a": {"default": "x" * 100}}),
        ),
        (r"get\.parameters must be a list, not 7", old(parameters=7)),
        (r"get\.parameters must be a mapping, not 'b'", old(parameters=["b"])),
        (
            r"paths\./a\.parameters must be a list, not 7",
            document(paths={"/a": {"get": OLD, "parameters": 7}}),
        ),
        (r"get\.x-path must be a path as a string, not 5", old(**{"x-path": 5})),
        (
            r"paths must be a mapping .* keys are strings, not \[404, None\]",
            document(paths={404: {}, None: {}}),
        ),
        (
            "paths must be paths that begin with '/', not 'a'",
            document(paths={"a": {}}, servers=[{"url": "/v1"}]),
        ),
        (r"paths\./a must .* \['purge'\]", document(paths={"/a": {"purge": {}}})),
        (
            "paths: operations must be different",
            document(paths={"/a": {"get": OLD}, "/A": {"get": OLD}}),
        ),
        (r"paths\./a\.\$ref", document(paths={"/a": {"$ref": "#/paths/~1a"}})),
        (r"paths\./a\.\$ref", document(paths={"/a": {"$ref": "other.yaml"}})),
        (
            r"paths\./a\.get\.\$ref",
            document(paths={"/a": {"get": {"$ref": "other.yaml"}}}),
        ),
    ],
)
def test_the_error_about_a_wrong_document_has_the_place(
    message: str, source: Any
) -> None:
    with pytest.raises(ValueError, match=message):
        plan_from_openapi(source, POLICY)


@pytest.mark.parametrize(
    ("sunset_at", "written"),
    [
        (JULY, "2027-07-01"),
        (
            datetime(2027, 7, 1, tzinfo=timezone(timedelta(hours=2))),
            "2027-06-30T22:00:00Z",
        ),
        (datetime(2026, 1, 1, 23, 59, 59, tzinfo=UTC), "2026-01-01T23:59:59Z"),
        (datetime(2027, 7, 1, 0, 0, 0, 5, tzinfo=UTC), "2027-07-01T00:00:00.000005Z"),
    ],
)
def test_a_sunset_keeps_its_time(sunset_at: datetime, written: str) -> None:
    policy = replace(
        POLICY, deprecated_at=datetime(2026, 1, 1, 12, tzinfo=UTC), sunset_at=sunset_at
    )
    source = openapi_document(dict.fromkeys(notification_operations(), policy))
    assert source["paths"]["/API/Notification/"]["get"]["x-sunset"] == written
    assert set(plan_from_openapi(source, replace(policy, sunset_at=None)).values()) == {
        policy
    }


def test_a_plan_becomes_a_document_of_its_retired_operations() -> None:
    window = Brownout(
        datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 1, 2, tzinfo=UTC)
    )
    report = Operation("report", "GET", "/reports/{id}/{page}", successor="/v2/reports")
    delete = Operation("delete", "DELETE", "/reports/{id}/{page}")
    dated = replace(POLICY, brownouts=[window], sunset_documentation="/policy")
    plan = {report: dated, delete: UNDATED, Operation("me", "GET", "/me"): None}
    written = openapi_document(plan)
    validate(written)
    assert set(written["paths"]) == {"/reports/{id}/{page}"}
    written_get, written_delete = (
        written["paths"]["/reports/{id}/{page}"][method] for method in ("get", "delete")
    )
    assert (written_get["x-sunset"], written_get["x-successor"]) == (
        "2027-07-01",
        "/v2/reports",
    )
    assert [parameter["name"] for parameter in written_get["parameters"]] == [
        "id",
        "page",
    ]
    assert sorted(written_get["responses"]) == ["2XX", "410", "default"]
    assert sorted(written_delete["responses"]) == ["2XX", "default"]
    assert list(written_get["responses"]["default"]["headers"]) == [
        "Deprecation",
        "Sunset",
        "Link",
    ]
    assert list(written_get["responses"]["410"]["headers"])[3:] == [
        "Cache-Control",
        "Retry-After",
    ]
    assert "security" not in written_get
    assert plan_from_openapi(written, replace(UNDATED, brownouts=[window])) == {
        report: plan[report],
        delete: replace(UNDATED, brownouts=[window]),
    }


def test_the_error_about_a_method_that_openapi_lacks_names_the_operation() -> None:
    with pytest.raises(
        ValueError, match=r"^the method of 'empty the cache' must be .* not 'PURGE'$"
    ):
        openapi_document({Operation("empty the cache", "PURGE", "/cache"): POLICY})


def test_the_two_operations_are_documented_with_their_sessions_and_bodies() -> None:
    written = openapi_document(PLAN)
    validate(written)
    for operation in (
        each for item in written["paths"].values() for each in item.values()
    ):
        assert operation["deprecated"] is True
        assert operation["x-sunset"] == "2027-07-01"
        assert operation["externalDocs"] == {"url": "https://example.com/retire"}
        assert operation["security"] == [{"header": []}, {"query": []}]
        bodies = {
            status: list(each["content"])
            for status, each in operation["responses"].items()
        }
        assert bodies == {
            "2XX": ["application/json"],
            "default": ["application/problem+json"],
        }


@pytest.mark.parametrize(
    "other",
    [
        Operation("account", "GET", "/accounts/{id}"),
        Operation("account", "GET", "/accounts/{id}/{page}", unify_session=True),
        Operation("current_user", "GET", "/{tenant}/me", unify_session=True),
        Operation("report", "POST", "/reports/{id}", unify_session=True),
    ],
)
def test_an_operation_that_only_resembles_one_of_the_two_is_documented_as_any_other(
    other: Operation,
) -> None:
    (item,) = openapi_document({other: POLICY})["paths"].values()
    (operation,) = (item[method] for method in ("get", "post") if method in item)
    assert "security" not in operation
    assert list(operation["responses"]) == ["2XX", "default"]
    assert {
        str(parameter["schema"]) for parameter in operation.get("parameters", ())
    } <= {"{'type': 'string'}"}


def test_the_parts_of_a_record_may_have_the_names_of_our_components() -> None:
    class AlertSchema(Schema):
        notification = fields.Nested(
            Schema.from_dict({"number": fields.Integer()}, name="Notification")
        )
        problem = fields.Nested(
            Schema.from_dict({"hint": fields.String()}, name="ProblemSchema")
        )
        size = fields.Nested(
            Schema.from_dict({"value": fields.Integer()}, name="Gr\u00f6\u00dfe")
        )

    written = openapi_document(PLAN, schema=AlertSchema)
    assert openapi_document(PLAN, schema=AlertSchema()) == written
    validate(written)
    schemas = written["components"]["schemas"]
    record = schemas["Notification"]["properties"]
    assert record == {
        "notification": {"$ref": "#/components/schemas/NotificationSchema"},
        "problem": {"$ref": "#/components/schemas/ProblemSchema"},
        "size": {"$ref": "#/components/schemas/Gr__e"},
    }
    assert schemas["NotificationSchema"]["properties"] == {
        "number": {"type": "integer"}
    }
    assert schemas["ProblemSchema"]["properties"] == {"hint": {"type": "string"}}
    assert schemas["Problem"]["description"] == "RFC 9457"


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            pytest.param({name: value}, id=f"{value!r} as the {name}")
            for name in ("title", "version", "server")
            for value in (None, 5, b"x")
        ),
        pytest.param({"server": ""}, id="an empty server"),
        pytest.param({"server": "https://a b"}, id="a server with a space"),
        *(
            pytest.param({"schema": value}, id=f"{value} as the schema")
            for value in (5, "Record", dict)
        ),
    ],
)
def test_a_wrong_argument_of_a_document_is_named(arguments: dict[str, Any]) -> None:
    (name,) = arguments
    with pytest.raises(ValueError, match=f"^{name} must be "):
        openapi_document(**({"plan": PLAN} | arguments))


def test_versions_and_conditions_are_written_and_read_again() -> None:
    plan = {
        Operation(
            "v1",
            "*",
            "/v1/{tenant}/**",
            "/v2/{tenant}/**",
            headers={"API-Version": ("1", "")},
        ): UNDATED,
        Operation(
            "get a~20 bundle", "POST", "/v1/{tenant}/**", query={"cmd": "getbundle"}
        ): UNDATED,
        Operation("user", "PUT", "/v1/{user}/**", "/v2/{user}/**"): UNDATED,
        Operation("item", "GET", "/items/{\u00e9.id}/"): UNDATED,
        Operation(
            "shop", "GET", "/{\u0433\u043e\u0440}/{\u043b.\u0430\u0442}/{___}"
        ): UNDATED,
        **dict.fromkeys(notification_operations(), UNDATED),
        Operation(
            "live part",
            "*",
            "/v1/{tenant}/\u00e9/{l.ive}",
            headers={"API-Version": "1"},
        ): None,
    }
    written = openapi_document(plan)
    validate(written)
    assert plan_from_openapi(written, UNDATED) == plan
    assert written["paths"]["/v1/{tenant}/**"]["get"]["x-headers"] == {
        "API-Version": ["1", ""]
    }
    assert (
        written["paths"]["/v1/{tenant}/**"]["put"]["parameters"][0]["name"] == "tenant"
    )
    assert written["paths"]["/items/{__id}/"]["get"]["x-path"] == "/items/{\u00e9.id}/"
    assert "/{___}/{____}/{_____}" in written["paths"]


@pytest.mark.slow
def test_linters_find_no_errors(tmp_path: Path) -> None:
    redocly = npm_program_or_skip("@redocly/cli@2.77.0", "redocly")
    spectral = npm_program_or_skip("@stoplight/spectral-cli@6.16.3", "spectral")
    operations = [
        *notification_operations(),
        Operation(
            "version 1", "*", "/v1/**", "/v2/**", headers={"API-Version": ("1", "")}
        ),
        Operation(
            "r\u00e9sum\u00e9 {id}", "PUT", "/cv/{id}", query={"cmd": "getbundle"}
        ),
        Operation("cv", "DELETE", "/cv/{cv.id}"),
        Operation("part", "DELETE", "/cv/{cv.id}/part"),
    ]
    plan = dict.fromkeys(operations, POLICY) | {
        Operation("live part", "GET", "/v1/live"): None
    }
    document, rules = tmp_path / "openapi.json", tmp_path / "rules.yaml"
    document.write_text(json.dumps(openapi_document(plan)), encoding="utf-8")
    rules.write_text("extends: spectral:oas\n", encoding="utf-8")
    # A path ends with a slash if that of the application does.
    lint = [
        *redocly,
        "lint",
        "--extends=recommended",
        "--skip-rule=no-path-trailing-slash",
    ]
    for command in (lint, [*spectral, "lint", "--ruleset", rules]):
        run_program(*command, document)


def test_a_document_has_one_place_for_a_method_and_a_path() -> None:
    twins = [
        Operation("a", "GET", "/{x}", query={"v": "1"}),
        Operation("b", "*", "/{y}"),
    ]
    with pytest.raises(
        ValueError,
        match=r"^plan must be without two operations for GET /{x} in OpenAPI",
    ):
        openapi_document(dict.fromkeys(twins, UNDATED))
    plan = {twins[0]: None, twins[1]: UNDATED}
    assert plan_from_openapi(openapi_document(plan), UNDATED) == {twins[1]: UNDATED}


REST = {"name": "path", "in": "path", "required": True, "schema": {"format": "path"}}
SLASHES = {"parameters": [REST]}
COMPONENTS = {
    "parameters": {"path": REST | {"schema": {"$ref": "#/components/schemas/alias"}}},
    "schemas": {
        "alias": {"$ref": "#/components/schemas/path"},
        "path": {"format": "path"},
    },
}


@pytest.mark.parametrize(
    ("path", "more", "expected"),
    [
        pytest.param(
            "/files/{path+}", {}, "/api/v1/files/**", id="a gateway's parameter"
        ),
        pytest.param("/files/{path}", SLASHES, "/api/v1/files/**", id="a declared one"),
        pytest.param(
            "/files/{path}",
            {
                "parameters": [
                    {"name": "path", "in": "query"},
                    {"$ref": "#/components/parameters/path"},
                ]
            },
            "/api/v1/files/**",
            id="a referenced one",
        ),
        pytest.param(
            "/files/{path}", {}, "/api/v1/files/{path}", id="any other parameter"
        ),
        pytest.param("/{path+}", {}, "/api/v1/**", id="the whole server"),
        pytest.param("/{path+}/x", {}, None, id="not the last segment"),
        pytest.param("/{path+}/{path+}", {}, None, id="two of them"),
        pytest.param("/x{path+}", {}, None, id="a part of a segment"),
        pytest.param("/{path}/x", SLASHES, None, id="a declared one, not at the end"),
    ],
)
def test_a_parameter_with_slashes_is_a_subtree_where_that_is_exact(
    path: str, more: Any, expected: str | None
) -> None:
    operation = {"deprecated": True, "x-successor": path.replace("/x", ""), **more}
    paths = {path: {"get": operation}}
    source = document(
        servers=[{"url": "https://example.com/api/v1"}],
        paths=paths,
        components=COMPONENTS,
    )
    if expected is None:
        with pytest.raises(ValueError, match=r"^paths\."):
            plan_from_openapi(source, UNDATED)
    else:
        (read,) = plan_from_openapi(source, UNDATED)
        assert (read.path, read.successor) == (expected, expected)


@pytest.mark.parametrize(
    ("path", "live", "more", "is_listed"),
    [
        ("/users/{id}", "/users/me", {}, True),
        (
            "/users/{id}",
            "/{page}/me",
            {"parameters": [{"name": "page", "in": "path"}]},
            True,
        ),
        ("/users/{id}", "/users/{id}/name", {}, False),
        ("/users/{id}", "/users/{id}.json/name", {}, False),
        ("/users/me", "/users/{id}", {}, False),
        ("/users/me", "/users/{id}:undelete", {}, False),
        ("/users/me", "/teams//../me", {}, False),
        ("/users/me", "/{path+}", {}, False),
    ],
)
def test_a_live_operation_whose_requests_a_deprecated_one_would_take_is_in_the_plan(
    path: str, live: str, more: Any, is_listed: bool
) -> None:
    paths = {
        path: {"get": named("old")},
        live: {"get": named("new") | {"deprecated": False} | more, "put": {}},
    }
    plan = plan_from_openapi(document(paths=paths, servers=[{"url": "/v1"}]), POLICY)
    assert [
        policy for operation, policy in plan.items() if operation.name == "old"
    ] == [POLICY]
    assert [(each.name, each.path) for each in plan if plan[each] is None] == [
        ("new", f"/v1{live}")
    ] * is_listed


@pytest.mark.parametrize(
    "live",
    [
        "/users/{id}.json",
        "/users/{id}:undelete",
        "/{path+}/x",
        "/users/a b?c",
        "/users//",
    ],
)
@pytest.mark.parametrize("deprecated", ["/users/{id}", "/**"])
def test_a_live_operation_that_no_plan_can_express_is_an_error_if_it_would_be_in_one(
    deprecated: str, live: str
) -> None:
    source = document(
        paths={deprecated: {"get": OLD}, live: {"get": {}}}, servers=[{"url": "/v1"}]
    )
    with pytest.raises(ValueError, match=rf"^paths\.{re.escape(live)}"):
        plan_from_openapi(source, POLICY)
