"""The schema of a plan file, and plan files that are written from OpenAPI documents."""

import json
import re
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from jsonschema import Draft7Validator
from marshmallow import ValidationError

from flask_notifications import load_plan
from flask_notifications.openapi import openapi_document, plan_from_openapi
from flask_notifications.plans import Plan
from flask_notifications.plans.files import PlanSchema, dump_plan
from flask_notifications.plans.policy import DeprecationPolicy
from tests.cli.commands import run
from tests.test_config import PLAN, plans

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "example_app" / "retirement.toml"
SCHEMA = json.loads(run("plan", "--schema").out)
VALIDATOR = Draft7Validator(SCHEMA)


def test_the_schema_accepts_every_plan_of_the_documentation() -> None:
    Draft7Validator.check_schema(SCHEMA)
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")]
    files = [
        block
        for page in pages
        for block in re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    ]
    for content in [EXAMPLE.read_text(encoding="utf-8"), *files]:
        # Validators of TOML see dates as strings.
        mapping = json.loads(
            json.dumps(tomllib.loads(content), default=datetime.isoformat)
        )
        assert list(VALIDATOR.iter_errors(mapping)) == []
    assert len(files) > 3


@given(plans())
def test_the_schema_accepts_a_plan_that_is_dumped(plan: Plan) -> None:
    assert list(VALIDATOR.iter_errors(dump_plan(plan))) == []


ENTRY = {"name": "a", "method": "GET", "path": "/a"}


@pytest.mark.parametrize(
    "keys",
    [
        {"until": 1},
        {"operations": []},
        {"operations": [ENTRY | {"liv": True}]},
        {"operations": [{"name": "a", "method": "GET"}]},
        *(
            {"operations": [ENTRY | {"path": each}]}
            for each in ("a", "/a b", "/a?b=c", "/<a>", "/(a|b)", "/(a)")
        ),
        *(
            {"operations": [ENTRY | {"path": each}]}
            for each in ("/:a", "/{a:int}", "/{a", "/b{a}", "/*", "/a//b")
        ),
        {"operations": [ENTRY | {"live": "yes"}]},
        *({"operations": [ENTRY | {"name": each}]} for each in ("", "a\tb", "a\x9bb")),
        *({"operations": [ENTRY | {"method": each}]} for each in ("", "Any", "G T")),
        {"operations": [ENTRY | {"successor": "/%2"}]},
        {"operations": [ENTRY | {"query": {"a": []}}]},
        {"operations": [ENTRY | {"headers": {"": "a"}}]},
        {"brownouts": [{"start": "2026-02-01T00:00:00Z"}]},
        *(
            {
                "exemptions": [
                    {"caller": "a", "until": "2026-02-01T00:00:00Z", "reason": "b"}
                    | each
                ]
            }
            for each in (
                {"c": 1},
                {"reason": " "},
                {"caller": ""},
                {"caller": "a" * 65},
            )
        ),
        *({"documentation": each} for each in (7, "", "see below", "/%2")),
        *({"prefix": each} for each in ("v1", "/a b")),
        *({"successor_prefix": each} for each in (7, "/a b", "/%2")),
        *(
            {"deprecated_at": each}
            for each in ("2026-01-01", "2026-01-01T00:00:00", "soon", None)
        ),
    ],
    ids=str,
)
def test_the_schema_refuses_a_mistake_in_one_key(keys: dict[str, Any]) -> None:
    plan = {"deprecated_at": "2026-01-01T00:00:00Z"} | keys
    assert list(VALIDATOR.iter_errors(plan)) != []
    with pytest.raises(ValidationError):
        load_plan(plan)


def test_the_schema_accepts_every_spelling_of_a_date() -> None:
    for time in (
        "2026-01-01T00:00:00.5-07:30",
        "2026-01-01\n09:00+01",
        "20260101T0000Z",
        "2026-W01-1T00Z",
    ):
        assert load_plan({"deprecated_at": time})
        assert list(VALIDATOR.iter_errors({"deprecated_at": time})) == []


DOCUMENT = openapi_document(
    dict.fromkeys(
        PLAN, DeprecationPolicy(deprecated_at=datetime(2020, 1, 1, tzinfo=UTC))
    )
)


@pytest.mark.parametrize("dump", [json.dumps, yaml.safe_dump], ids=["JSON", "YAML"])
def test_a_plan_file_is_written_from_an_openapi_document(
    dump: Any, tmp_path: Path
) -> None:
    paths = {
        "/b/{id}": {
            "get": {
                "deprecated": True,
                "x-sunset": "2027-01-01",
                "x-query": {"a\x9b": ["b\u202e", ""]},
            }
        },
        "/b/me": {"get": {}},
    }
    document, file = tmp_path / "openapi", tmp_path / "plan.toml"
    for source in (DOCUMENT, DOCUMENT | {"paths": DOCUMENT["paths"] | paths}):
        document.write_text(dump(source), encoding="utf-8")
        outcome = run("plan", "--from-openapi", document, "--at", "2026-10-01")
        assert (outcome.code, outcome.err, outcome.out.count("deprecated_at")) == (
            0,
            "",
            1,
        )
        assert outcome.out.replace("\n", "").isprintable()
        file.write_text(outcome.out, encoding="utf-8")
        policy = DeprecationPolicy(deprecated_at=datetime(2026, 10, 1, tzinfo=UTC))
        assert load_plan(file) == plan_from_openapi(source, policy)


def test_a_merged_key_of_yaml_may_be_replaced(tmp_path: Path) -> None:
    document = tmp_path / "openapi"
    paths = "{/a: {get: &a {<<: {deprecated: false}, deprecated: true}}, /b: {get: {<<: *a}}}"
    document.write_text(f"openapi: 3.1.0\npaths: {paths}", encoding="utf-8")
    assert run("plan", "--from-openapi", document).out.count("name =") == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"openapi": "3.1.0"}', "no operation has deprecated: true"),
        ("openapi: 2.0", "openapi must be a version 3, not 2.0"),
        ("a: b: c", "mapping values are not allowed here"),
        ("{", "Expecting property name"),
        ("[" * 100_000, "recursion"),
        ("a: !!timestamp x", "a value does not fit its tag"),
        ("a: !!bool x", "a value does not fit its tag"),
        ("\udcff", "unacceptable character"),
        ('{"paths": {"/a": {}, "/a": {}}}', "the key '/a' is there twice"),
        ("paths:\n  /a: {}\n  /a: {}", "the key '/a' is there twice"),
    ],
)
def test_a_document_that_is_no_source_of_a_plan_is_an_error(
    content: str, message: str, tmp_path: Path
) -> None:
    document = tmp_path / "openapi"
    document.write_text(content, encoding="utf-8", errors="surrogateescape")
    outcome = run("plan", "--from-openapi", document)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(f"Error: {document}: ")
    assert message in outcome.err


def test_what_is_written_needs_one_argument_and_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for arguments in (
        (),
        ("--schema", EXAMPLE),
        ("--schema", "--from-openapi", EXAMPLE),
    ):
        assert run("plan", *arguments).code == 2
    assert run("plan", "--from-openapi", "/proc/self/mem") == (
        1,
        "",
        "Error: /proc/self/mem: Input/output error\n",
    )
    for module in ("tomli_w", "yaml"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "flask_notifications.formats.toml", raising=False)
    message = run("plan", "--from-openapi", EXAMPLE).err
    assert "pip install 'Flask-Notifications[openapi]'" in message


def test_the_schema_has_the_keys_of_the_marshmallow_schema() -> None:
    def compare(properties: dict[str, Any], schema: Any) -> None:
        assert properties.keys() == schema.fields.keys()
        for name, field in schema.fields.items():
            table = getattr(field, "schema", None)
            if table is not None:
                (reference,) = properties[name].get("allOf", [properties[name]])
                key = reference.get("$ref", "").rpartition("/")[2]
                items = SCHEMA["definitions"].get(key, reference)["items"]
                required = [
                    name for name, field in table.fields.items() if field.required
                ]
                assert items["required"] == required
                assert items["additionalProperties"] is False
                compare(items["properties"], table)

    compare(SCHEMA["properties"], PlanSchema())
