"""From a mapping to a policy: what configuration may hold, and every fault of it at once."""

import json
import tomllib
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import flask
import pytest
from marshmallow import ValidationError

from flask_notifications import Brownout, DeprecationPolicy, load_policy

JANUARY = datetime(2026, 1, 1, tzinfo=UTC)
JULY = datetime(2027, 7, 1, tzinfo=UTC)
KATHMANDU = timezone(timedelta(hours=5, minutes=45))
WINDOW = Brownout(datetime(2027, 1, 1, 8, tzinfo=UTC), datetime(2027, 1, 1, 9, 30, tzinfo=UTC))
EVERYTHING = DeprecationPolicy(
    deprecated_at=JANUARY,
    sunset_at=JULY,
    documentation="/retire",
    sunset_documentation="https://example.com/policy",
    brownouts=[WINDOW],
    enforce_sunset=True,
)
JSON = """{
    "deprecated_at": "2026-01-01T00:00:00Z",
    "sunset_at": "2027-07-01T02:00:00+02:00",
    "documentation": "/retire",
    "sunset_documentation": "https://example.com/policy",
    "brownouts": [{"start": "2027-01-01T08:00:00Z", "end": "2027-01-01T09:30:00Z"}],
    "enforce_sunset": true
}"""
TOML = """
deprecated_at = 2026-01-01T00:00:00Z
sunset_at = 2027-07-01T02:00:00+02:00
documentation = "/retire"
sunset_documentation = "https://example.com/policy"
enforce_sunset = true
[[brownouts]]
start = 2027-01-01T08:00:00Z
end = 2027-01-01T09:30:00Z
"""


def test_a_policy_comes_from_json() -> None:
    assert load_policy(json.loads(JSON)) == EVERYTHING


def test_a_policy_comes_from_toml() -> None:
    assert load_policy(tomllib.loads(TOML)) == EVERYTHING


def test_a_policy_comes_from_the_configuration_of_flask() -> None:
    app = flask.Flask("shop")
    app.config.update({f"NOTIFICATIONS_{key.upper()}": value for key, value in json.loads(JSON).items()})
    assert load_policy(app.config.get_namespace("NOTIFICATIONS_")) == EVERYTHING


@pytest.mark.parametrize(
    "mapping",
    [
        pytest.param({"deprecated_at": JANUARY}, id="nothing else"),
        pytest.param({"deprecated_at": JANUARY, "sunset_at": None, "documentation": None}, id="null"),
        pytest.param({"deprecated_at": JANUARY, "sunset_documentation": None}, id="null for the last one"),
        pytest.param({"deprecated_at": JANUARY, "brownouts": [], "enforce_sunset": False}, id="empty"),
    ],
)
def test_only_the_deprecation_is_needed(mapping: dict[str, Any]) -> None:
    assert load_policy(mapping) == DeprecationPolicy(deprecated_at=JANUARY)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("2026-01-01T00:00:00Z", id="Z"),
        pytest.param("2026-01-01T00:00:00+00:00", id="an offset of nothing"),
        pytest.param("2026-01-01T05:45:00+05:45", id="an offset"),
        pytest.param("2025-12-31T19:00:00-05:00", id="an offset to the west"),
        pytest.param("2026-01-01T00:00:00.000Z", id="a fraction"),
        pytest.param("2026-01-01T00:00Z", id="without seconds"),
        pytest.param(JANUARY, id="an aware datetime"),
        pytest.param(JANUARY.astimezone(KATHMANDU), id="an aware datetime elsewhere"),
    ],
)
def test_a_date_is_iso_8601_with_an_offset_or_an_aware_datetime(value: object) -> None:
    assert load_policy({"deprecated_at": value}).deprecated_at == JANUARY


def faults(mapping: Any) -> Any:
    with pytest.raises(ValidationError) as caught:
        load_policy(mapping)
    return caught.value.messages


@pytest.mark.parametrize("name", ["deprecated_at", "sunset_at"])
@pytest.mark.parametrize(
    "value",
    [
        pytest.param("2026-01-01T00:00:00", id="naive text"),
        pytest.param("2026-01-01", id="a date as text"),
        pytest.param("soon", id="no date"),
        pytest.param("", id="empty"),
        pytest.param("2026-02-30T00:00:00Z", id="no such day"),
        pytest.param("Fri, 01 Jan 2027 00:00:00 GMT", id="an HTTP date"),
        pytest.param(datetime(2026, 1, 1), id="a naive datetime"),  # noqa: DTZ001 - the mistake that is tested
        pytest.param(date(2026, 1, 1), id="a date"),
        pytest.param(1767225600, id="a number"),
        pytest.param(float("nan"), id="NaN"),
        pytest.param(True, id="bool"),
        pytest.param("1969-12-31T23:59:59Z", id="before 1970"),
        pytest.param("1970-01-01T00:00:00+05:45", id="before 1970 in UTC"),
        pytest.param("9999-12-31T23:59:59-05:00", id="after 9999 in UTC"),
    ],
)
def test_what_is_no_date_is_refused_under_its_name(name: str, value: object) -> None:
    assert set(faults({"deprecated_at": JANUARY, name: value})) == {name}


@pytest.mark.parametrize(
    ("mapping", "keys"),
    [
        pytest.param({}, {"deprecated_at"}, id="no deprecation"),
        pytest.param({"deprecated_at": None}, {"deprecated_at"}, id="null"),
        pytest.param({"deprecated_at": JANUARY, "sunset": JULY}, {"sunset"}, id="an unknown key"),
        pytest.param({"deprecated_at": JANUARY, "documentation": ""}, {"documentation"}, id="an empty URI"),
        pytest.param({"deprecated_at": JANUARY, "documentation": "/a b"}, {"documentation"}, id="a space in a URI"),
        pytest.param({"deprecated_at": JANUARY, "documentation": 1}, {"documentation"}, id="a URI that is no text"),
        pytest.param(
            {"deprecated_at": JANUARY, "sunset_documentation": "/>"}, {"sunset_documentation"}, id="a bracket"
        ),
        pytest.param(
            {"deprecated_at": JULY, "sunset_at": JANUARY}, {"sunset_at"}, id="a sunset before the deprecation"
        ),
        pytest.param({"deprecated_at": JANUARY, "enforce_sunset": True}, {"enforce_sunset"}, id="nothing to enforce"),
        pytest.param(
            {"deprecated_at": JANUARY, "enforce_sunset": "perhaps"}, {"enforce_sunset"}, id="neither on nor off"
        ),
        pytest.param({"deprecated_at": JANUARY, "brownouts": None}, {"brownouts"}, id="null for brownouts"),
        pytest.param({"deprecated_at": JANUARY, "brownouts": "soon"}, {"brownouts"}, id="brownouts as text"),
        pytest.param({"deprecated_at": JANUARY, "brownouts": ["soon"]}, {"brownouts"}, id="a brownout as text"),
        pytest.param({"deprecated_at": JANUARY, "brownouts": {"start": JANUARY}}, {"brownouts"}, id="no list of them"),
    ],
)
def test_a_fault_is_keyed_by_its_field(mapping: dict[str, Any], keys: set[str]) -> None:
    assert set(faults(mapping)) == keys


@pytest.mark.parametrize("mapping", [None, [], "deprecated_at", 5, [{"deprecated_at": "2026-01-01T00:00:00Z"}]])
def test_what_is_no_mapping_is_refused(mapping: object) -> None:
    assert faults(mapping)


def window(start: object, end: object, **more: object) -> dict[str, object]:
    return {"start": start, "end": end, **more}


def test_every_fault_is_told_at_once_those_between_fields_too() -> None:
    messages = faults(
        {
            "deprecated_at": JULY.isoformat(),
            "sunset_at": "2026-01-01T00:00:00Z",
            "documentation": "",
            "sunset_documentation": 5,
            "brownouts": [window(JANUARY, JULY), window(JANUARY, JULY)],
            "enforce_sunset": "perhaps",
            "sunset": JULY,
        }
    )
    assert set(messages) == {
        "sunset_at",
        "documentation",
        "sunset_documentation",
        "brownouts",
        "enforce_sunset",
        "sunset",
    }
    assert ["overlap" in text for text in messages["brownouts"]] == [True]
    assert [text.startswith("sunset_at ") for text in messages["sunset_at"]] == [True]


def test_a_date_that_cannot_be_read_does_not_hide_the_other_faults() -> None:
    messages = faults({"deprecated_at": "soon", "sunset_at": "1969-01-01T00:00:00Z", "documentation": "/a b"})
    assert set(messages) == {"deprecated_at", "sunset_at", "documentation"}
    # Nothing is made up about what could not be read, or was refused already.
    assert faults({"deprecated_at": JANUARY, "enforce_sunset": "perhaps"}) == {
        "enforce_sunset": ["Not a valid boolean."]
    }
    reversed_dates = {"deprecated_at": "1969-01-02T00:00:00Z", "sunset_at": "1969-01-01T00:00:00Z"}
    assert {name: len(texts) for name, texts in faults(reversed_dates).items()} == {"deprecated_at": 1, "sunset_at": 1}
    assert set(faults({"deprecated_at": JANUARY, "sunset_at": "soon", "enforce_sunset": True})) == {"sunset_at"}


@pytest.mark.parametrize(
    ("broken", "keys"),
    [
        pytest.param(window(JULY, JANUARY), {"end"}, id="reversed"),
        pytest.param(window(JULY, JULY), {"end"}, id="empty"),
        pytest.param(
            window("1969-01-02T00:00:00Z", "1969-01-01T00:00:00Z"), {"start", "end"}, id="before 1970, reversed"
        ),
        pytest.param({"start": JANUARY}, {"end"}, id="without an end"),
        pytest.param({}, {"start", "end"}, id="without anything"),
        pytest.param(window("soon", JULY), {"start"}, id="not a date"),
        pytest.param(window(JANUARY, JULY, reason="x"), {"reason"}, id="an unknown key"),
        pytest.param(window("1969-01-01T00:00:00Z", "soon"), {"start", "end"}, id="one fault does not hide the other"),
    ],
)
def test_the_faults_of_a_brownout_are_keyed_by_its_place_and_field(broken: object, keys: set[str]) -> None:
    messages = faults({"deprecated_at": JANUARY, "brownouts": [window(JANUARY, JULY), broken]})
    assert set(messages) == {"brownouts"}
    # Only what the host can mend: no complaint that what did not load is no Brownout.
    assert set(messages["brownouts"]) == {1}
    assert {key: len(texts) for key, texts in messages["brownouts"][1].items()} == dict.fromkeys(keys, 1)


def test_a_broken_brownout_does_not_hide_that_others_overlap() -> None:
    overlapping = [window(JANUARY, JULY), window(JANUARY, JULY)]
    messages = faults({"deprecated_at": JANUARY, "brownouts": [*overlapping, window("soon", JULY)]})
    assert "overlap" in str(messages["brownouts"])
    assert "Not a valid datetime" in str(messages["brownouts"])


def test_the_mapping_is_not_changed() -> None:
    mapping = json.loads(JSON)
    load_policy(mapping)
    assert mapping == json.loads(JSON)
