"""From an OpenAPI document of your application to a plan, and from a plan to an OpenAPI document."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from marshmallow import Schema, fields
from openapi_spec_validator import validate

from flask_notifications import (
    Brownout,
    DeprecationMiddleware,
    DeprecationPolicy,
    Operation,
    Statuses,
    notification_operations,
)
from flask_notifications.openapi import openapi_document, plan_from_openapi
from tests.wsgi import call, plain_app

POLICY = DeprecationPolicy(
    deprecated_at=datetime(2026, 1, 1, tzinfo=UTC),
    sunset_at=datetime(2027, 7, 1, tzinfo=UTC),
    documentation="https://example.com/retire",
)


def document(**changed: Any) -> dict[str, Any]:
    """Return a document with one deprecated operation and others that are not deprecated."""
    operation = {"deprecated": True, "responses": {}} | changed.pop("operation", {})
    paths = {"/old/{id}": {"get": operation, "post": {"responses": {}}}, "/new": {"get": {"deprecated": False}}}
    return {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths} | changed


def plan_of(source: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return the name, the method and the path of each operation in the plan of a document."""
    return [(operation.name, operation.method, operation.path) for operation in plan_from_openapi(source, POLICY)]


def test_a_plan_has_the_deprecated_operations_and_no_others() -> None:
    assert plan_of(document()) == [("GET /old/{id}", "GET", "/old/{id}")]


def test_the_operation_id_names_the_operation() -> None:
    assert plan_of(document(operation={"operationId": "old"})) == [("old", "GET", "/old/{id}")]


@pytest.mark.parametrize(
    ("servers", "paths"),
    [
        ([{"url": "https://api.example/v1/"}], ["/v1/old/{id}"]),
        ([{"url": "/v1"}], ["/v1/old/{id}"]),
        ([{"url": "https://api.example"}], ["/old/{id}"]),
        ([], ["/old/{id}"]),
        ([{"url": "https://a.example/v1"}, {"url": "https://b.example/v1"}], ["/v1/old/{id}"]),
        ([{"url": "/v1"}, {"url": "/v2"}], ["/v1/old/{id}", "/v2/old/{id}"]),
        ([{"url": "/{base}", "variables": {"base": {"default": "v3"}}}], ["/v3/old/{id}"]),
    ],
    ids=["absolute", "a path", "no path", "none", "one path twice", "two paths", "a variable"],
)
def test_paths_begin_with_the_path_of_the_server(servers: list[dict[str, Any]], paths: list[str]) -> None:
    assert [path for _, _, path in plan_of(document(servers=servers))] == paths


def test_the_server_of_an_operation_wins() -> None:
    source = document(servers=[{"url": "/all"}], operation={"servers": [{"url": "/own"}]})
    assert plan_of(source) == [("GET /own/old/{id}", "GET", "/own/old/{id}")]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2027-07-01", datetime(2027, 7, 1, tzinfo=UTC)),
        ("2027-07-01T02:00:00+02:00", datetime(2027, 7, 1, tzinfo=UTC)),
        (date(2027, 7, 1), datetime(2027, 7, 1, tzinfo=UTC)),
        (datetime(2027, 7, 1, tzinfo=UTC), datetime(2027, 7, 1, tzinfo=UTC)),
    ],
    ids=["a date", "with an offset", "a YAML date", "a YAML time"],
)
def test_the_sunset_and_the_documentation_are_read(written: object, read: datetime) -> None:
    docs = {"url": "https://example.com/docs"}
    plan = plan_from_openapi(document(operation={"x-sunset": written, "externalDocs": docs}), POLICY)
    expected = replace(POLICY, sunset_at=read, documentation="https://example.com/docs")
    assert list(plan.values()) == [expected]


def test_values_that_a_document_leaves_out_are_those_of_the_policy() -> None:
    window = Brownout(datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 1, 2, tzinfo=UTC))
    policy = replace(POLICY, brownouts=[window], sunset_documentation="/policy")
    assert list(plan_from_openapi(document(), policy).values()) == [policy]
    (dated,) = plan_from_openapi(document(operation={"x-sunset": "2027-02-01"}), policy).values()
    assert dated == replace(policy, sunset_at=datetime(2027, 2, 1, tzinfo=UTC))


def test_the_successor_is_read() -> None:
    (operation,) = plan_from_openapi(document(operation={"x-successor": "/v2/old"}), POLICY)
    assert operation == Operation("GET /old/{id}", "GET", "/old/{id}", "/v2/old")


def test_an_extension_among_the_paths_is_no_path() -> None:
    assert plan_of(document(paths={"x-owner": "team", "/a": {"get": {"deprecated": True}}})) == [
        ("GET /a", "GET", "/a")
    ]


def test_references_within_the_document_are_followed() -> None:
    source = document(paths={"/a": {"$ref": "#/components/pathItems/a~1b"}})
    source["components"] = {"pathItems": {"a/b": {"delete": {"deprecated": True}}}}
    assert plan_of(source) == [("DELETE /a", "DELETE", "/a")]


def test_a_reference_is_percent_decoded() -> None:
    source = document(paths={"/a": {"$ref": "#/paths/~1users~1%7Bid%7D"}, "/users/{id}": {"get": {"deprecated": True}}})
    assert plan_of(source) == [("GET /a", "GET", "/a"), ("GET /users/{id}", "GET", "/users/{id}")]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        pytest.param(
            document(servers=[{"url": "/v1"}, {"url": "/v2"}], operation={"operationId": "old"}),
            ["old", "old GET /v2/old/{id}"],
            id="two servers",
        ),
        pytest.param(
            document(paths={"/a": {key: {"deprecated": True, "operationId": "a"} for key in ("get", "put")}}),
            ["a", "a PUT /a"],
            id="an operationId twice",
        ),
    ],
)
def test_operations_with_one_operation_id_have_different_names(source: dict[str, Any], names: list[str]) -> None:
    assert [name for name, _, _ in plan_of(source)] == names


@pytest.mark.parametrize(
    ("source", "place"),
    [
        pytest.param([], "document", id="not a mapping"),
        pytest.param({"swagger": "2.0", "paths": {}}, "openapi", id="Swagger"),
        pytest.param(document(openapi="4.0.0"), "openapi", id="another version"),
        pytest.param(document(openapi=3.1), "openapi", id="a number as the version"),
        pytest.param(document(paths=[]), "paths", id="no paths"),
        pytest.param(document(paths={"/a": []}), r"paths\./a", id="no path item"),
        pytest.param(document(paths={"/a": {"get": 1}}), r"paths\./a\.get", id="no operation"),
        pytest.param(document(operation={"deprecated": "true"}), r"get\.deprecated", id="a string instead of true"),
        pytest.param(document(operation={"x-sunset": "soon"}), "x-sunset", id="no date"),
        pytest.param(document(operation={"x-sunset": "2027-07-01T00:00:00"}), "x-sunset", id="no offset"),
        pytest.param(document(operation={"x-sunset": datetime(2027, 7, 1)}), "x-sunset", id="naive"),  # noqa: DTZ001
        pytest.param(document(operation={"x-sunset": 20270701.5}), "x-sunset", id="a number"),
        pytest.param(document(operation={"x-sunset": "0001-01-01T00:00:00+14:00"}), "x-sunset", id="too early"),
        pytest.param(document(operation={"x-sunset": "2025-07-01"}), r"get: sunset_at", id="before the deprecation"),
        pytest.param(document(operation={"x-successor": "a b"}), r"get: successor", id="a successor with a space"),
        pytest.param(document(operation={"externalDocs": "x"}), "externalDocs", id="externalDocs is not a mapping"),
        pytest.param(document(operation={"externalDocs": {"url": "a b"}}), "externalDocs.url", id="no URI"),
        pytest.param(document(operation={"operationId": ""}), r"paths\./old/\{id\}\.get: name", id="an empty name"),
        pytest.param(document(servers=[{}]), "servers", id="a server without a URL"),
        pytest.param(document(servers=[{"url": "http://[x"}]), "servers", id="a server with a broken URL"),
        pytest.param(
            document(servers=[{"url": "/{a}", "variables": []}]),
            r"get: the variables of a server must be a mapping, not \[\]",
            id="variables in a list",
        ),
        pytest.param(
            document(servers=[{"url": "/{a}", "variables": {"a": "b"}}]),
            r"get: the variable 'a' of a server must be a mapping with a default, not 'b'",
            id="no default",
        ),
        pytest.param(document(paths={"/a": {"$ref": "#/paths/~1a"}}), r"paths\./a\.\$ref", id="a reference to itself"),
        pytest.param(document(paths={"/a.{ext}": {"get": {"deprecated": True}}}), r"/a\.\{ext\}", id="half a segment"),
        pytest.param(document(paths={"/a": {"$ref": "other.yaml"}}), r"paths\./a\.\$ref", id="another document"),
        pytest.param(document(paths={"/a": {"$ref": 5}}), r"paths\./a\.\$ref", id="a reference that is a number"),
        pytest.param(document(paths={"/a": {"$ref": "#/nowhere/at"}}), r"paths\./a\.\$ref", id="a dangling reference"),
    ],
)
def test_the_error_about_a_wrong_document_has_the_place(source: Any, place: str) -> None:
    with pytest.raises(ValueError, match=place):
        plan_from_openapi(source, POLICY)


def test_another_object_than_a_policy_is_refused() -> None:
    policy: Any = {"deprecated_at": "2026-01-01"}
    with pytest.raises(ValueError, match="policy"):
        plan_from_openapi(document(), policy)


def test_an_application_retires_the_operations_that_its_document_deprecates() -> None:
    plan = plan_from_openapi(document(servers=[{"url": "/v1"}]), POLICY)
    application = DeprecationMiddleware(plain_app(), plan)
    assert call(application, "GET", "/v1/old/7").one("Deprecation") == "@1767225600"
    assert call(application, "GET", "/v1/new").all("Deprecation") == []


def test_the_document_of_the_two_operations_is_valid_and_deprecates_them() -> None:
    written = openapi_document(POLICY)
    validate(written)
    for path, method in (("/API/Notification/", "get"), ("/API/Notification/GetNotificationsForAccount/{id}/", "post")):
        operation = written["paths"][path][method]
        assert operation["deprecated"] is True
        assert operation["x-sunset"] == "2027-07-01"
        assert operation["externalDocs"] == {"url": "https://example.com/retire"}
        assert operation["security"] == [{"header": []}, {"query": []}]


def test_a_plan_that_is_read_from_a_written_document_is_the_same() -> None:
    written = openapi_document(POLICY, operations=notification_operations("/x"), server="https://api.example/v1")
    default = DeprecationPolicy(deprecated_at=POLICY.deprecated_at)
    read = plan_from_openapi(json.loads(json.dumps(written)), default)
    expected = notification_operations("/v1/x", successor_prefix="/x")
    actual = [(operation.name, operation.path, operation.successor) for operation in read]
    assert actual == [(operation.name, operation.path, operation.successor) for operation in expected]
    assert list(read.values()) == [POLICY, POLICY]


@pytest.mark.parametrize(
    ("sunset_at", "written"),
    [
        (datetime(2027, 7, 1, tzinfo=UTC), "2027-07-01"),
        (datetime(2027, 7, 1, tzinfo=timezone(timedelta(hours=2))), "2027-06-30T22:00:00Z"),
        (datetime(2026, 1, 1, 23, 59, 59, tzinfo=UTC), "2026-01-01T23:59:59Z"),
        (datetime(2027, 7, 1, 0, 0, 0, 5, tzinfo=UTC), "2027-07-01T00:00:00.000005Z"),
    ],
    ids=["midnight UTC", "midnight elsewhere", "on the day of the deprecation", "with microseconds"],
)
def test_a_sunset_keeps_its_time(sunset_at: datetime, written: str) -> None:
    policy = replace(POLICY, deprecated_at=datetime(2026, 1, 1, 12, tzinfo=UTC), sunset_at=sunset_at)
    source = openapi_document(policy)
    assert source["paths"]["/API/Notification/"]["get"]["x-sunset"] == written
    assert set(plan_from_openapi(source, replace(policy, sunset_at=None)).values()) == {policy}


def test_a_plan_becomes_a_document_of_its_retired_operations() -> None:
    window = Brownout(datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 1, 2, tzinfo=UTC))
    report = Operation("report", "GET", "/reports/{id}/{page}", successor="/v2/reports")
    delete = Operation("delete", "DELETE", "/reports/{id}/{page}")
    undated = DeprecationPolicy(deprecated_at=POLICY.deprecated_at)
    plan = {report: replace(POLICY, brownouts=[window]), delete: undated, Operation("me", "GET", "/me"): None}
    written = openapi_document(plan)
    validate(written)
    assert set(written["paths"]) == {"/reports/{id}/{page}"}
    written_get, written_delete = (written["paths"]["/reports/{id}/{page}"][method] for method in ("get", "delete"))
    assert (written_get["x-sunset"], written_get["x-successor"]) == ("2027-07-01", "/v2/reports")
    assert [parameter["name"] for parameter in written_get["parameters"]] == ["id", "page"]
    assert (sorted(written_get["responses"]), sorted(written_delete["responses"])) == (["410", "default"], ["default"])
    assert "security" not in written_get
    assert plan_from_openapi(written, replace(undated, brownouts=[window])) == {
        report: plan[report],
        delete: replace(undated, brownouts=[window]),
    }


def test_operations_beside_a_plan_are_refused() -> None:
    report = Operation("report", "GET", "/report")
    with pytest.raises(ValueError, match="operations"):
        openapi_document({report: POLICY}, operations=[report])


def test_the_error_about_a_method_that_openapi_lacks_names_the_operation() -> None:
    with pytest.raises(ValueError, match=r"^the method of 'empty the cache' must be .* not 'PURGE'$"):
        openapi_document({Operation("empty the cache", "PURGE", "/cache"): POLICY})


def test_two_operations_with_one_name_are_refused() -> None:
    plan = {Operation("old", "GET", "/a"): POLICY, Operation("old", "GET", "/b"): POLICY}
    with pytest.raises(ValueError, match=r"^the names of the operations must be different, .* not \['old', 'old'\]$"):
        openapi_document(plan)


@pytest.mark.parametrize("policy", [None, "2027", [POLICY]])
def test_an_object_that_is_neither_a_policy_nor_a_plan_is_refused(policy: Any) -> None:
    with pytest.raises(ValueError, match="policy"):
        openapi_document(policy)


def test_a_policy_without_a_sunset_writes_none() -> None:
    written = openapi_document(DeprecationPolicy(deprecated_at=POLICY.deprecated_at))
    operation = written["paths"]["/API/Notification/"]["get"]
    assert "x-sunset" not in operation
    assert "externalDocs" not in operation


@pytest.mark.parametrize(
    ("path", "method", "statuses"),
    [
        ("/API/Notification/", "get", ["200", "400", "401", "403", "410", "500", "503"]),
        (
            "/API/Notification/GetNotificationsForAccount/{id}/",
            "post",
            ["200", "400", "401", "403", "404", "410", "500", "503"],
        ),
    ],
)
def test_every_status_of_an_operation_is_documented(path: str, method: str, statuses: list[str]) -> None:
    responses = openapi_document(POLICY)["paths"][path][method]["responses"]
    assert sorted(responses) == statuses
    assert responses["200"]["description"] == f"All notifications of the {'user' if method == 'get' else 'account'}."
    for status in statuses[1:]:
        assert list(responses[status]["content"]) == ["application/problem+json"]
        assert {"Deprecation", "Sunset", "Link"} <= set(responses[status]["headers"])
    assert "WWW-Authenticate" in responses["401"]["headers"]
    assert "Retry-After" in responses["410"]["headers"]


@pytest.mark.parametrize(
    "other",
    [
        Operation("account", "GET", "/accounts/{id}"),
        Operation("account", "GET", "/accounts/{id}/{page}", unify_session=True),
        Operation("current_user", "GET", "/me"),
        Operation("current_user", "GET", "/{tenant}/me", unify_session=True),
        Operation("report", "POST", "/reports/{id}", unify_session=True),
    ],
    ids=["account without a session", "two parameters", "current_user without a session", "a parameter", "a name"],
)
def test_an_operation_that_only_resembles_one_of_the_two_is_documented_as_any_other(other: Operation) -> None:
    (item,) = openapi_document({other: POLICY})["paths"].values()
    (operation,) = (item[method] for method in ("get", "post") if method in item)
    assert "security" not in operation
    assert list(operation["responses"]) == ["default"]
    assert {str(parameter["schema"]) for parameter in operation.get("parameters", ())} <= {"{'type': 'string'}"}


def test_replaced_statuses_are_documented() -> None:
    written = openapi_document(
        POLICY, statuses=Statuses(session_missing=440, session_invalid=440, account_not_found=410)
    )
    responses = written["paths"]["/API/Notification/GetNotificationsForAccount/{id}/"]["post"]["responses"]
    assert "404" not in responses
    assert responses["440"]["description"] == "Login Time-out"


def test_an_operation_without_a_successor_names_none() -> None:
    operations = [Operation("current_user", "GET", "/n/")]
    assert "description" not in openapi_document(POLICY, operations=operations)["paths"]["/n/"]["get"]


def test_a_schema_describes_the_record() -> None:
    class NotificationSchema(Schema):
        name = fields.String(required=True)

    written = openapi_document(POLICY, schema=NotificationSchema)
    validate(written)
    assert written["components"]["schemas"]["Notification"]["properties"] == {"name": {"type": "string"}}


class Notification(Schema):
    """A part of a record, with the name of the component for records."""

    number = fields.Integer()


class ProblemSchema(Schema):
    """A part of a record, with the name of the component for errors."""

    hint = fields.String()


def test_the_parts_of_a_record_may_have_the_names_of_our_components() -> None:
    class AlertSchema(Schema):
        """A record whose fields have schemas of their own."""

        notification = fields.Nested(Notification)
        problem = fields.Nested(ProblemSchema)

    written = openapi_document(POLICY, schema=AlertSchema)
    validate(written)
    schemas = written["components"]["schemas"]
    record = schemas["Notification"]["properties"]
    assert record == {
        "notification": {"$ref": "#/components/schemas/NotificationSchema"},
        "problem": {"$ref": "#/components/schemas/ProblemSchema"},
    }
    assert schemas["NotificationSchema"]["properties"] == {"number": {"type": "integer"}}
    assert schemas["ProblemSchema"]["properties"] == {"hint": {"type": "string"}}
    assert schemas["Problem"]["description"] == "RFC 9457"


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"policy": {"a": 1}}, id="a mapping of anything"),
        pytest.param({"policy": {Operation("a", "GET", "/a"): "soon"}}, id="a mapping to anything"),
        *(pytest.param({"operations": value}, id=f"{value} as operations") for value in (5, "xy", ["x"])),
        *(
            pytest.param({name: value}, id=f"{value!r} as the {name}")
            for name in ("statuses", "title", "version", "server")
            for value in (None, 5, b"x")
        ),
        pytest.param({"server": ""}, id="an empty server"),
        pytest.param({"server": "https://a b"}, id="a server with a space"),
        *(pytest.param({"schema": value}, id=f"{value} as the schema") for value in (5, "Record", dict)),
    ],
)
def test_a_wrong_argument_of_a_document_is_named(arguments: dict[str, Any]) -> None:
    (name,) = arguments
    with pytest.raises(ValueError, match=f"^{name} must be "):
        openapi_document(**({"policy": POLICY} | arguments))
