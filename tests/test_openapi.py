"""OpenAPI in and out: operations from a host's document, and the document of the two operations."""

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest
from marshmallow import Schema, fields
from openapi_spec_validator import validate

from flask_notifications import DeprecationMiddleware, DeprecationPolicy, Operation, Statuses, notification_operations
from flask_notifications.openapi import openapi_document, operations_from_openapi
from tests.wsgi import call, plain_app

POLICY = DeprecationPolicy(
    deprecated_at=datetime(2026, 1, 1, tzinfo=UTC),
    sunset_at=datetime(2027, 7, 1, tzinfo=UTC),
    documentation="https://example.com/retire",
)


def document(**changed: Any) -> dict[str, Any]:
    """Return a document with one deprecated operation, and others that are not."""
    operation = {"deprecated": True, "responses": {}} | changed.pop("operation", {})
    paths = {"/old/{id}": {"get": operation, "post": {"responses": {}}}, "/new": {"get": {"deprecated": False}}}
    return {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths} | changed


def described(source: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(operation.name, operation.method, operation.path) for operation in operations_from_openapi(source)]


def test_operations_that_are_deprecated_are_found_and_no_others() -> None:
    assert described(document()) == [("GET /old/{id}", "GET", "/old/{id}")]


def test_the_operation_id_is_the_name() -> None:
    assert described(document(operation={"operationId": "old"})) == [("old", "GET", "/old/{id}")]


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
def test_paths_begin_with_that_of_the_server(servers: list[dict[str, Any]], paths: list[str]) -> None:
    assert [path for _, _, path in described(document(servers=servers))] == paths


def test_the_server_of_an_operation_wins() -> None:
    source = document(servers=[{"url": "/all"}], operation={"servers": [{"url": "/own"}]})
    assert described(source) == [("GET /own/old/{id}", "GET", "/own/old/{id}")]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2027-07-01", datetime(2027, 7, 1, tzinfo=UTC)),
        ("2027-07-01T02:00:00+02:00", datetime(2027, 7, 1, tzinfo=UTC)),
        (date(2027, 7, 1), datetime(2027, 7, 1, tzinfo=UTC)),
        (datetime(2027, 7, 1, tzinfo=UTC), datetime(2027, 7, 1, tzinfo=UTC)),
        (None, None),
    ],
    ids=["a date", "with an offset", "a YAML date", "a YAML time", "none"],
)
def test_the_sunset_and_the_documentation_are_read(written: object, read: datetime | None) -> None:
    docs = {"url": "https://example.com/docs"}
    (operation,) = operations_from_openapi(document(operation={"x-sunset": written, "externalDocs": docs}))
    assert (operation.sunset_at, operation.documentation) == (read, "https://example.com/docs")


def test_extensions_beside_the_paths_are_none() -> None:
    assert described(document(paths={"x-owner": "team", "/a": {"get": {"deprecated": True}}})) == [
        ("GET /a", "GET", "/a")
    ]


def test_references_within_the_document_are_followed() -> None:
    source = document(paths={"/a": {"$ref": "#/components/pathItems/a~1b"}})
    source["components"] = {"pathItems": {"a/b": {"delete": {"deprecated": True}}}}
    assert described(source) == [("DELETE /a", "DELETE", "/a")]


@pytest.mark.parametrize(
    ("source", "place"),
    [
        pytest.param([], "document", id="no mapping"),
        pytest.param({"swagger": "2.0", "paths": {}}, "openapi", id="Swagger"),
        pytest.param(document(openapi="4.0.0"), "openapi", id="another version"),
        pytest.param(document(openapi=3.1), "openapi", id="a number for a version"),
        pytest.param(document(paths=[]), "paths", id="no paths"),
        pytest.param(document(paths={"/a": []}), r"paths\./a", id="no path item"),
        pytest.param(document(paths={"/a": {"get": 1}}), r"paths\./a\.get", id="no operation"),
        pytest.param(document(operation={"deprecated": "true"}), r"get\.deprecated", id="a text for a truth"),
        pytest.param(document(operation={"x-sunset": "soon"}), "x-sunset", id="no date"),
        pytest.param(document(operation={"x-sunset": "2027-07-01T00:00:00"}), "x-sunset", id="no offset"),
        pytest.param(document(operation={"x-sunset": datetime(2027, 7, 1)}), "x-sunset", id="naive"),  # noqa: DTZ001
        pytest.param(document(operation={"x-sunset": 20270701.5}), "x-sunset", id="a number"),
        pytest.param(document(operation={"externalDocs": "x"}), "externalDocs", id="docs are no mapping"),
        pytest.param(document(operation={"externalDocs": {"url": "a b"}}), "externalDocs.url", id="no URI"),
        pytest.param(document(operation={"operationId": ""}), r"paths\./old/\{id\}\.get: name", id="an empty name"),
        pytest.param(document(servers=[{}]), "servers", id="a server without a URL"),
        pytest.param(document(servers=[{"url": "http://[x"}]), "servers", id="a server with a broken URL"),
        pytest.param(document(servers=[{"url": "/{a}", "variables": []}]), "servers", id="variables in a list"),
        pytest.param(document(servers=[{"url": "/{a}", "variables": {"a": "b"}}]), "servers", id="no default"),
        pytest.param(document(paths={"/a": {"$ref": "#/paths/~1a"}}), r"\$ref", id="a reference to itself"),
        pytest.param(document(paths={"/a.{ext}": {"get": {"deprecated": True}}}), r"/a\.\{ext\}", id="half a segment"),
        pytest.param(document(paths={"/a": {"$ref": "other.yaml"}}), r"\$ref", id="another document"),
        pytest.param(document(paths={"/a": {"$ref": "#/nowhere/at"}}), r"\$ref", id="a dangling reference"),
    ],
)
def test_a_document_that_cannot_be_read_says_where(source: Any, place: str) -> None:
    with pytest.raises(ValueError, match=place):
        operations_from_openapi(source)


def test_a_host_deprecates_from_its_own_document() -> None:
    operations = operations_from_openapi(document(servers=[{"url": "/v1"}]))
    application = DeprecationMiddleware(plain_app(), POLICY, operations=operations, extract_session=False)
    assert call(application, "GET", "/v1/old/7").one("Deprecation") == "@1767225600"
    assert call(application, "GET", "/v1/new").all("Deprecation") == []


def test_the_document_of_the_two_operations_is_valid_and_says_they_are_deprecated() -> None:
    made = openapi_document(POLICY)
    validate(made)
    for path, method in (("/API/Notification/", "get"), ("/API/Notification/GetNotificationsForAccount/{id}/", "post")):
        operation = made["paths"][path][method]
        assert operation["deprecated"] is True
        assert operation["x-sunset"] == "2027-07-01"
        assert operation["externalDocs"] == {"url": "https://example.com/retire"}
        assert operation["security"] == [{"header": []}, {"query": []}]


def test_it_says_the_same_as_what_is_read_back() -> None:
    made = openapi_document(POLICY, operations=notification_operations("/x"), server="https://api.example/v1")
    (first, second) = operations_from_openapi(json.loads(json.dumps(made)))
    assert (first.path, second.path) == ("/v1/x/", "/v1/x/GetNotificationsForAccount/{id}/")
    assert (first.sunset_at, first.documentation) == (POLICY.sunset_at, POLICY.documentation)


def test_a_policy_without_a_date_leaves_it_out() -> None:
    made = openapi_document(DeprecationPolicy(deprecated_at=POLICY.deprecated_at))
    operation = made["paths"]["/API/Notification/"]["get"]
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
def test_every_status_is_there_with_its_problem(path: str, method: str, statuses: list[str]) -> None:
    responses = openapi_document(POLICY)["paths"][path][method]["responses"]
    assert sorted(responses) == statuses
    for status in statuses[1:]:
        assert list(responses[status]["content"]) == ["application/problem+json"]
        assert {"Deprecation", "Sunset", "Link"} <= set(responses[status]["headers"])
    assert "WWW-Authenticate" in responses["401"]["headers"]
    assert "Retry-After" in responses["410"]["headers"]


def test_replaced_statuses_are_in_it() -> None:
    made = openapi_document(POLICY, statuses=Statuses(session_missing=440, session_invalid=440, account_not_found=410))
    responses = made["paths"]["/API/Notification/GetNotificationsForAccount/{id}/"]["post"]["responses"]
    assert "404" not in responses
    assert responses["440"]["description"] == "Login Time-out"


def test_an_operation_without_a_successor_names_none() -> None:
    operations = [Operation("current_user", "GET", "/n/")]
    assert "description" not in openapi_document(POLICY, operations=operations)["paths"]["/n/"]["get"]


def test_a_schema_describes_the_record() -> None:
    class NotificationSchema(Schema):
        name = fields.String(required=True)

    made = openapi_document(POLICY, schema=NotificationSchema)
    validate(made)
    assert made["components"]["schemas"]["Notification"]["properties"] == {"name": {"type": "string"}}
