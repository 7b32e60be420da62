"""The schema of a plan file, and plan files that are written from OpenAPI documents."""

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from jsonschema import Draft7Validator
from marshmallow import ValidationError
from packaging.version import Version

from flask_notifications import load_plan
from flask_notifications.formats.toml import format_plan
from flask_notifications.openapi import plan_from_openapi
from flask_notifications.plans import Plan
from flask_notifications.plans.files import PlanSchema, dump_plan
from flask_notifications.plans.policy import DeprecationPolicy
from tests.cli.commands import Outcome, run
from tests.test_config import plans

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "example_app" / "retirement.toml"
SCHEMA = json.loads(run("plan", "--schema").out)
VALIDATOR = Draft7Validator(SCHEMA)
TOO_DEEP = "[" * 100_000


def test_the_schema_accepts_every_plan_of_the_documentation() -> None:
    Draft7Validator.check_schema(SCHEMA)
    files = [EXAMPLE.read_text(encoding="utf-8")]
    for page in (ROOT / "docs").glob("*.md"):
        for block in page.read_text(encoding="utf-8").split("\n```toml\n")[1:]:
            files.append(block.partition("\n```\n")[0])
    assert len(files) > 4
    for content in files:
        # Validators of TOML see dates as strings.
        as_json = json.dumps(tomllib.loads(content), default=datetime.isoformat)
        assert VALIDATOR.is_valid(json.loads(as_json))


@given(plans())
def test_the_schema_accepts_a_plan_that_is_dumped(plan: Plan) -> None:
    assert VALIDATOR.is_valid(dump_plan(plan))


@given(plans())
def test_a_plan_that_is_written_in_toml_is_loaded_again(plan: Plan) -> None:
    assert load_plan(tomllib.loads(format_plan(plan))) == plan


ENTRY = {"name": "a", "method": "GET", "path": "/a"}
EXEMPTION = {"caller": "a", "until": "2026-02-01T00:00:00Z", "reason": "b"}
# Wrong values of keys of a plan, of an operation and of an exemption.
WRONG: dict[str, list[Any]] = {
    "until": [1],
    "operations": [[], [{"name": "a", "method": "GET"}]],
    "brownouts": [[{"start": "2026-02-01T00:00:00Z"}]],
    "documentation": [7, "", "see below", "/%2", "https:///a", "//u@/", "ftp://u:p@h"],
    "prefix": ["v1", "/a b", "//a", "/a/../b", "/{a", "/a/**"],
    "successor_prefix": [7, "/a b", "/%2", "https://u:p@h"],
    "deprecated_at": ["2026-01-01", "2026-01-01T00:00:00", "1969-12-31T00:00Z", None],
}
WRONG_IN_OPERATION: dict[str, list[Any]] = {
    "liv": [True],
    "live": ["yes"],
    "name": ["", "a\tb", "a\x9bb"],
    "method": ["", "Any", "G T"],
    "path": [
        *("a", "/a b", "/a?b=c", "/<a>", "/(a|b)", "/(a)", "/:a", "/{a:int}"),
        *("/{a", "/b{a}", "/*", "/a//b", "/%2E/b", "/a%2fb"),
    ],
    "successor": ["/%2"],
    "query": [{"a": []}],
    "headers": [
        *({"": "a"}, {"a b": "c"}, {"HOST": "a"}, {"cookie": "a"}),
        *({"A": "é"}, {"A": ["a", "\t"]}),
    ],
}
WRONG_IN_EXEMPTION: dict[str, list[Any]] = {
    "c": [1],
    "reason": [" "],
    "caller": ["", "a" * 65],
}


def list_mistakes() -> Iterator[dict[str, Any]]:
    """Yield the keys of a plan with one mistake."""
    for key, values in WRONG.items():
        for value in values:
            yield {key: value}
    for key, values in WRONG_IN_OPERATION.items():
        for value in values:
            yield {"operations": [ENTRY | {key: value}]}
    for key, values in WRONG_IN_EXEMPTION.items():
        for value in values:
            yield {"exemptions": [EXEMPTION | {key: value}]}


@pytest.mark.parametrize("keys", list(list_mistakes()), ids=str)
def test_the_schema_refuses_a_mistake_in_one_key(keys: dict[str, Any]) -> None:
    plan = {"deprecated_at": "2026-01-01T00:00:00Z"} | keys
    assert not VALIDATOR.is_valid(plan)
    with pytest.raises(ValidationError):
        load_plan(plan)


@pytest.mark.parametrize(
    "time",
    [
        "2026-01-01T00:00:00.5-07:30",
        "2026-01-01\n09:00+01",
        "20260101T0000Z",
        "2026-W01-1T00Z",
    ],
)
def test_the_schema_accepts_every_spelling_of_a_date(time: str) -> None:
    assert load_plan({"deprecated_at": time})
    assert VALIDATOR.is_valid({"deprecated_at": time})


POLICY = DeprecationPolicy(deprecated_at=datetime(2026, 10, 1, tzinfo=UTC))
OLD = {"deprecated": True}
DOCUMENT = {
    "openapi": "3.1.0",
    "paths": {
        "/a": {"get": OLD},
        "/b/{id}": {"get": OLD | {"x-sunset": "2027-01-01", "operationId": "b"}},
        "/b/me": {"get": {}},
        "/c\u202e": {"put": OLD},
    },
}


def convert(content: str | bytes, folder: Path) -> Outcome:
    document = folder / "openapi"
    document.write_bytes(content if isinstance(content, bytes) else content.encode())
    return run("plan", "--from-openapi", document, "--at", "2026-10-01")


@pytest.mark.parametrize("dump", [json.dumps, yaml.safe_dump], ids=["JSON", "YAML"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_plan_file_is_written_from_an_openapi_document(
    dump: Any, encoding: str, tmp_path: Path
) -> None:
    outcome = convert(dump(DOCUMENT).encode(encoding), tmp_path)
    assert (outcome.code, outcome.out.count("deprecated_at")) == (0, 1)
    assert outcome.out.replace("\n", "").isprintable()
    assert outcome.err.startswith("warning: in a plan, a parameter is one segment")
    assert outcome.err.endswith(": /b/{id}\n")
    file = tmp_path / "plan.toml"
    file.write_text(outcome.out, encoding="utf-8")
    with pytest.warns(UserWarning, match="one segment"):
        assert load_plan(file) == plan_from_openapi(DOCUMENT, POLICY)
    names = sorted(operation.name for operation in load_plan(file))
    assert names == ["GET /a", "GET /b/me", r"PUT /c\u202e", "b"]


PASSED = "2022-08-10T00:00:00+02:00"


@pytest.mark.parametrize(
    ("operation", "part"),
    [
        ("{<<: {deprecated: false}, deprecated: true}", "/a"),
        ("{<<: *old}", "2027-05-01 00"),
        ("{<<: [*old, *live], <<: *live}", "2027-05-01 00"),
        ("{<<: *live, deprecated: true}", "/a"),
        ("{deprecated: true, responses: {200: {}, 200: {}}}", "/a"),
        ("{deprecated: true, example: {enum: [=, 2027-02-30, !!int x]}}", "/a"),
        ("{deprecated: true, example: !Sub [a, !Ref b, !If {c: d}]}", "/a"),
        (f"{{x-sunset: {PASSED}}}", "sunset_at = 2022-08-09 22:00:00"),
        (f"{{x-sunset: '{PASSED}'}}", "sunset_at = 2022-08-09 22:00:00"),
    ],
)
def test_yaml_is_read_as_people_write_it(
    operation: str, part: str, tmp_path: Path
) -> None:
    anchors = "x-a: &old {x-sunset: 2027-05-01}\nx-b: &live {deprecated: false}\n"
    content = f"swagger: 2.0\n{anchors}paths: {{/a: {{get: {operation}}}}}"
    outcome = convert(content, tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    assert part in outcome.out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"openapi": "3.1.0"}', "no operation has deprecated: true, x-sunset or x-"),
        ("openapi: 2.0", "the version must be openapi: 3.x or swagger: 2.0, not 2.0"),
        ("a: b: c", "mapping values are not allowed"),
        ("{", "Expecting property name"),
        (TOO_DEEP, ""),
        ('{"a":' * 100_000, "while decoding a JSON object"),
        (b"a: \xff", ""),
        ("? [a]\n: b", "found unhashable key"),
        ("<<: 5", "for merging"),
        ('{"openapi": 1, "openapi": 2}', "not one with the key 'openapi' twice"),
        ("openapi: 1\nopenapi: 2", "not one with the key 'openapi' twice"),
    ],
)
def test_a_document_that_is_no_source_of_a_plan_is_an_error(
    content: str | bytes, message: str, tmp_path: Path
) -> None:
    if content == TOO_DEEP and Version(yaml.__version__) < Version("6.0.4"):
        pytest.skip("needs PyYAML 6.0.4, the first that limits the depth")
    outcome = convert(content, tmp_path)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(f"Error: {tmp_path / 'openapi'}: ")
    assert message in outcome.err


@pytest.mark.parametrize(
    "operation",
    [
        "{deprecated: true, deprecated: false}",
        "{deprecated: !!bool x}",
        "{x-sunset: 2027-02-30}",
        "!include get.yaml",
        "!!map [deprecated: true]",
        "!!map deprecated",
        "!!seq {deprecated: 5}",
    ],
)
def test_what_yaml_cannot_express_is_an_error_where_a_plan_needs_it(
    operation: str, tmp_path: Path
) -> None:
    paths = f"{{/a: {{get: {operation}}}, /b: {{get: [], put: {operation}}}}}"
    outcome = convert(f"openapi: 3.1.0\npaths: {paths}", tmp_path)
    assert outcome.code == 1
    assert re.findall(": paths./([ab])", outcome.err) == ["a", "b", "b"]


def test_merge_keys_do_not_multiply(tmp_path: Path) -> None:
    content = "a0: &a0 {" + ", ".join(f"k{key}: 1" for key in range(2_000)) + "}\n"
    for level in range(1, 50):
        content += f"a{level}: &a{level} {{<<: [{f'*a{level - 1}, ' * 20}]}}\n"
    assert "merge keys copy more than the file has" in convert(content, tmp_path).err


@pytest.mark.parametrize("arguments", ["", "--schema x", "--schema --from-openapi x"])
def test_what_is_written_needs_one_argument(arguments: str) -> None:
    assert run("plan", *arguments.replace("x", str(EXAMPLE)).split()).code == 2


def test_a_document_that_cannot_be_read_is_an_error() -> None:
    message = "Error: /proc/self/mem: Input/output error\n"
    assert run("plan", "--from-openapi", "/proc/self/mem") == (1, "", message)


def test_reading_documents_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tomli_w", None)
    monkeypatch.setitem(sys.modules, "yaml", None)
    for name in ("formats.toml", "openapi.files"):
        monkeypatch.delitem(sys.modules, f"flask_notifications.{name}", raising=False)
    message = run("plan", "--from-openapi", EXAMPLE).err
    assert "pip install 'Flask-Notifications[openapi]'" in message


def compare_keys(properties: dict[str, Any], schema: Any) -> None:
    assert properties.keys() == schema.fields.keys()
    for name, field in schema.fields.items():
        table = getattr(field, "schema", None)
        if table is not None:
            (reference,) = properties[name].get("allOf", [properties[name]])
            key = reference.get("$ref", "").rpartition("/")[2]
            items = SCHEMA["definitions"].get(key, reference)["items"]
            assert items["additionalProperties"] is False
            for key, value in table.declared_fields.items():
                assert (key in items["required"]) == value.required
            compare_keys(items["properties"], table)


def test_the_schema_has_the_keys_of_the_marshmallow_schema() -> None:
    compare_keys(SCHEMA["properties"], PlanSchema())
