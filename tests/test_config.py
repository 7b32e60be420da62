"""Loading policies and plans from mappings, and the errors that loading reports."""

import json
import tomllib
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import flask
import pytest
from marshmallow import ValidationError

from flask_notifications import (
    NOTIFICATION_OPERATIONS,
    Brownout,
    DeprecationPolicy,
    Operation,
    load_plan,
    load_policy,
    notification_operations,
)

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


def test_a_policy_is_loaded_from_json() -> None:
    assert load_policy(json.loads(JSON)) == EVERYTHING


def test_a_policy_is_loaded_from_toml() -> None:
    assert load_policy(tomllib.loads(TOML)) == EVERYTHING


def test_a_policy_is_loaded_from_the_configuration_of_flask() -> None:
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
def test_only_the_date_of_the_deprecation_is_required(mapping: dict[str, Any]) -> None:
    assert load_policy(mapping) == DeprecationPolicy(deprecated_at=JANUARY)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("2026-01-01T00:00:00Z", id="Z"),
        pytest.param("2026-01-01T00:00:00+00:00", id="an offset of zero"),
        pytest.param("2026-01-01T05:45:00+05:45", id="an offset"),
        pytest.param("2025-12-31T19:00:00-05:00", id="an offset to the west"),
        pytest.param("2026-01-01T00:00:00.000Z", id="a fraction"),
        pytest.param("2026-01-01T00:00Z", id="without seconds"),
        pytest.param(JANUARY, id="an aware datetime"),
        pytest.param(JANUARY.astimezone(KATHMANDU), id="an aware datetime in another time zone"),
    ],
)
def test_a_date_is_an_aware_datetime_or_iso_8601_with_an_offset(value: object) -> None:
    assert load_policy({"deprecated_at": value}).deprecated_at == JANUARY


def policy_errors(mapping: Any) -> Any:
    """Return the messages of the error that loading a policy raises."""
    with pytest.raises(ValidationError) as caught:
        load_policy(mapping)
    return caught.value.messages


@pytest.mark.parametrize("name", ["deprecated_at", "sunset_at"])
@pytest.mark.parametrize(
    "value",
    [
        pytest.param("2026-01-01T00:00:00", id="a naive string"),
        pytest.param("2026-01-01", id="a date as a string"),
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
def test_a_value_that_is_not_a_date_is_refused_under_its_key(name: str, value: object) -> None:
    assert set(policy_errors({"deprecated_at": JANUARY, name: value})) == {name}


@pytest.mark.parametrize(
    ("mapping", "keys"),
    [
        pytest.param({}, {"deprecated_at"}, id="no deprecation"),
        pytest.param({"deprecated_at": None}, {"deprecated_at"}, id="null"),
        pytest.param({"deprecated_at": JANUARY, "sunset": JULY}, {"sunset"}, id="an unknown key"),
        pytest.param({"deprecated_at": JANUARY, "documentation": ""}, {"documentation"}, id="an empty URI"),
        pytest.param({"deprecated_at": JANUARY, "documentation": "/a b"}, {"documentation"}, id="a space in a URI"),
        pytest.param({"deprecated_at": JANUARY, "documentation": 1}, {"documentation"}, id="a URI that is no string"),
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
        pytest.param({"deprecated_at": JANUARY, "brownouts": "soon"}, {"brownouts"}, id="brownouts as a string"),
        pytest.param({"deprecated_at": JANUARY, "brownouts": ["soon"]}, {"brownouts"}, id="a brownout as a string"),
        pytest.param(
            {"deprecated_at": JANUARY, "brownouts": {"start": JANUARY}}, {"brownouts"}, id="no list of brownouts"
        ),
    ],
)
def test_an_error_is_reported_under_its_key(mapping: dict[str, Any], keys: set[str]) -> None:
    assert set(policy_errors(mapping)) == keys


@pytest.mark.parametrize("mapping", [None, [], "deprecated_at", 5, [{"deprecated_at": "2026-01-01T00:00:00Z"}]])
def test_anything_but_a_mapping_is_refused(mapping: object) -> None:
    assert policy_errors(mapping)


def window(start: object, end: object, **more: object) -> dict[str, object]:
    return {"start": start, "end": end, **more}


def test_every_error_is_reported_at_once_even_one_between_two_keys() -> None:
    messages = policy_errors(
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
    assert ["overlap" in message for message in messages["brownouts"]] == [True]
    assert [message.startswith("sunset_at ") for message in messages["sunset_at"]] == [True]


def test_every_brownout_inside_a_longer_one_is_reported() -> None:
    days = [datetime(2026, 2, day, tzinfo=UTC) for day in range(1, 9)]
    windows = [window(days[3], days[4]), window(days[0], days[5]), window(days[1], days[2]), window(days[5], days[7])]
    messages = policy_errors({"deprecated_at": JANUARY, "brownouts": windows})["brownouts"]
    longest = "brownouts must not overlap: 2026-02-01 00:00:00+00:00 to 2026-02-06 00:00:00+00:00 and"
    assert messages == [
        f"{longest} 2026-02-02 00:00:00+00:00 to 2026-02-03 00:00:00+00:00",
        f"{longest} 2026-02-04 00:00:00+00:00 to 2026-02-05 00:00:00+00:00",
    ]


def test_a_date_that_cannot_be_read_does_not_hide_other_errors() -> None:
    messages = policy_errors({"deprecated_at": "soon", "sunset_at": "1969-01-01T00:00:00Z", "documentation": "/a b"})
    assert set(messages) == {"deprecated_at", "sunset_at", "documentation"}
    # There is no second error about a value that could not be read or was already refused.
    assert policy_errors({"deprecated_at": JANUARY, "enforce_sunset": "perhaps"}) == {
        "enforce_sunset": ["Not a valid boolean."]
    }
    reversed_dates = {"deprecated_at": "1969-01-02T00:00:00Z", "sunset_at": "1969-01-01T00:00:00Z"}
    assert {key: len(errors) for key, errors in policy_errors(reversed_dates).items()} == {
        "deprecated_at": 1,
        "sunset_at": 1,
    }
    assert set(policy_errors({"deprecated_at": JANUARY, "sunset_at": "soon", "enforce_sunset": True})) == {"sunset_at"}


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
        pytest.param(window("1969-01-01T00:00:00Z", "soon"), {"start", "end"}, id="one error does not hide the other"),
    ],
)
def test_errors_in_a_brownout_are_reported_under_its_index_and_key(broken: object, keys: set[str]) -> None:
    messages = policy_errors({"deprecated_at": JANUARY, "brownouts": [window(JANUARY, JULY), broken]})
    assert set(messages) == {"brownouts"}
    # There is no further error saying that the value is not a Brownout.
    assert set(messages["brownouts"]) == {1}
    assert {key: len(errors) for key, errors in messages["brownouts"][1].items()} == dict.fromkeys(keys, 1)


def test_a_broken_brownout_does_not_hide_that_others_overlap() -> None:
    overlapping = [window(JANUARY, JULY), window(JANUARY, JULY)]
    messages = policy_errors({"deprecated_at": JANUARY, "brownouts": [*overlapping, window("soon", JULY)]})
    assert "overlap" in str(messages["brownouts"])
    assert "Not a valid datetime" in str(messages["brownouts"])


def test_the_mapping_is_not_changed() -> None:
    mapping = json.loads(JSON)
    load_policy(mapping)
    assert mapping == json.loads(JSON)


# Plans.

PLAN = """
deprecated_at = 2026-01-01T00:00:00Z
documentation = "https://example.com/retire"

[[operations]]
name = "report"
method = "get"
path = "/reports/{id}"
successor = "/v2/reports/{id}"
sunset_at = 2026-12-01T00:00:00Z
brownouts = [{ start = 2026-11-03T09:00:00Z, end = 2026-11-03T09:15:00Z }]

[[operations]]
name = "current_user"
method = "GET"
path = "/API/Notification/"
documentation = "/retire"
rewrite_path = true
unify_session = true

[[operations]]
name = "me"
method = "GET"
path = "/reports/me"
live = true
"""


def test_a_plan_has_the_policy_of_each_operation_merged_with_the_defaults() -> None:
    brownout = Brownout(datetime(2026, 11, 3, 9, tzinfo=UTC), datetime(2026, 11, 3, 9, 15, tzinfo=UTC))
    assert load_plan(tomllib.loads(PLAN)) == {
        Operation("report", "GET", "/reports/{id}", "/v2/reports/{id}"): DeprecationPolicy(
            deprecated_at=JANUARY,
            documentation="https://example.com/retire",
            sunset_at=datetime(2026, 12, 1, tzinfo=UTC),
            brownouts=[brownout],
        ),
        Operation(
            "current_user", "GET", "/API/Notification/", rewrite_path=True, unify_session=True
        ): DeprecationPolicy(deprecated_at=JANUARY, documentation="/retire"),
        Operation("me", "GET", "/reports/me"): None,
    }


@pytest.mark.parametrize(
    ("mapping", "operations"),
    [
        pytest.param({}, NOTIFICATION_OPERATIONS, id="alone"),
        pytest.param({"prefix": "/v1"}, notification_operations("/v1"), id="below another prefix"),
        pytest.param(
            {"prefix": "/v1", "successor_prefix": "https://new.example/v2"},
            notification_operations("/v1", successor_prefix="https://new.example/v2"),
            id="with successors elsewhere",
        ),
    ],
)
def test_a_plan_without_operations_has_the_two_of_this_library(
    mapping: dict[str, str], operations: tuple[Operation, ...]
) -> None:
    policy = DeprecationPolicy(deprecated_at=JANUARY)
    assert load_plan({"deprecated_at": JANUARY, **mapping}) == dict.fromkeys(operations, policy)


def operation(name: str = "report", path: str = "/reports/{id}", **keys: Any) -> dict[str, object]:
    return {"name": name, "method": "GET", "path": path, **keys}


OTHER = operation("other", "/other")


def plan_of(*operations: object, **defaults: object) -> dict[str, object]:
    return {"deprecated_at": JANUARY, "operations": list(operations), **defaults}


def test_operations_after_null_keep_their_indexes() -> None:
    with pytest.raises(ValidationError) as refused:
        load_plan(plan_of(None, OTHER, {**OTHER, "path": "GET"}, None, OTHER))
    messages = refused.value.messages_dict["operations"]
    assert messages.keys() == {0, 2, 3, 4}
    assert messages[0] == messages[3] == ["Field may not be null."]
    assert "that of operation 1," in messages[4]["name"][0]
    assert "that of operation 1 in" in messages[4]["path"][0]


@pytest.mark.parametrize(
    ("own", "policy"),
    [
        pytest.param(
            {}, DeprecationPolicy(deprecated_at=JANUARY, sunset_at=JULY, brownouts=[WINDOW]), id="the defaults"
        ),
        pytest.param(
            {"sunset_at": None, "brownouts": []}, DeprecationPolicy(deprecated_at=JANUARY), id="null and an empty list"
        ),
        pytest.param(
            {"enforce_sunset": True},
            DeprecationPolicy(deprecated_at=JANUARY, sunset_at=JULY, brownouts=[WINDOW], enforce_sunset=True),
            id="a key that needs a default",
        ),
        pytest.param({"live": True, "sunset_at": JULY}, None, id="live with a date for later"),
    ],
)
def test_the_keys_of_an_operation_replace_the_defaults(own: dict[str, Any], policy: object) -> None:
    assert list(
        load_plan(plan_of(operation(**own), sunset_at=JULY, brownouts=[window(WINDOW.start, WINDOW.end)])).values()
    ) == [policy]


def plan_errors(mapping: Any) -> Any:
    """Return the messages of the error that loading a plan raises."""
    with pytest.raises(ValidationError) as caught:
        load_plan(mapping)
    return caught.value.messages


def places(messages: Any, place: tuple[object, ...] = ()) -> set[tuple[object, ...]]:
    """Return the path of keys and indexes to each message; no place has two messages."""
    if isinstance(messages, dict):
        return {found for key, nested in messages.items() for found in places(nested, (*place, key))}
    assert len(messages) == 1, messages
    return {place}


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        pytest.param([], {("_schema",)}, id="no mapping"),
        pytest.param({}, {("deprecated_at",)}, id="nothing at all"),
        pytest.param(plan_of(), {("operations",)}, id="an empty list"),
        pytest.param({"deprecated_at": JANUARY, "operations": None}, {("operations",)}, id="null for operations"),
        pytest.param({"operations": "GET /"}, {("operations",)}, id="operations as a string"),
        pytest.param(plan_of("GET /"), {("operations", 0, "_schema")}, id="an operation as a string"),
        pytest.param(plan_of(OTHER, sunset="soon"), {("sunset",)}, id="an unknown key"),
        pytest.param(plan_of(OTHER, name="x"), {("name",)}, id="a key of operations in the defaults"),
        pytest.param(plan_of(OTHER, prefix="/v1"), {("prefix",)}, id="a prefix together with operations"),
        pytest.param({"deprecated_at": JANUARY, "prefix": "v1"}, {("prefix",)}, id="a prefix without a slash"),
        pytest.param(
            {"deprecated_at": JANUARY, "successor_prefix": "a b"},
            {("successor_prefix",)},
            id="a space in a successor prefix",
        ),
        pytest.param(plan_of(OTHER, operation(until=JULY)), {("operations", 1, "until")}, id="an unknown key inside"),
        pytest.param(
            plan_of({}, OTHER),
            {("operations", 0, "name"), ("operations", 0, "method"), ("operations", 0, "path")},
            id="an empty operation",
        ),
        pytest.param(plan_of(operation("")), {("operations", 0, "name")}, id="an empty name"),
        pytest.param(plan_of(operation("a\nb")), {("operations", 0, "name")}, id="a line break in a name"),
        pytest.param(plan_of(operation(method="G T")), {("operations", 0, "method")}, id="a method with a space"),
        pytest.param(plan_of(operation(path="/a/{b")), {("operations", 0, "path")}, id="an unbalanced brace"),
        pytest.param(plan_of(operation(successor="a b")), {("operations", 0, "successor")}, id="a space in a URI"),
        pytest.param(
            plan_of(operation(successor="/v2/{number}")),
            {("operations", 0, "successor")},
            id="a parameter that the path lacks",
        ),
        *(
            pytest.param(plan_of(operation(path=path)), {("operations", 0, "path")}, id=f"{path} as a path")
            for path in ("/a/<id>", "/a/<int:id>", "/a/:id", "/a/*", "/a/(b|c)", "/a/{id:int}", "a", "/a//b", "/a/./b")
        ),
        *(
            pytest.param(plan_of(operation(method=method)), {("operations", 0, "method")}, id=f"{method} as a method")
            for method in ("*", "any", "")
        ),
        pytest.param(plan_of(operation(live="perhaps")), {("operations", 0, "live")}, id="neither live nor not"),
        pytest.param(plan_of(operation(), operation(path="/b")), {("operations", 1, "name")}, id="a name twice"),
        pytest.param(
            plan_of(operation(), operation("twin", "/REPORTS/{number}")),
            {("operations", 1, "path")},
            id="only the letter case and the parameter differ",
        ),
        pytest.param(
            plan_of(operation(path="/a-b"), operation("twin", "/a%2Db", method="get")),
            {("operations", 1, "path")},
            id="only the percent-encoding differs",
        ),
        pytest.param(
            plan_of(operation(path="/\xe9"), operation("twin", "/%C3%A9")),
            {("operations", 1, "path")},
            id="only one of two equal letters is percent-encoded",
        ),
        pytest.param(
            plan_of(OTHER, operation(sunset_at="soon")), {("operations", 1, "sunset_at")}, id="no date in an operation"
        ),
        pytest.param(plan_of(OTHER, sunset_at="soon"), {("sunset_at",)}, id="no date in the defaults"),
        pytest.param(
            plan_of(OTHER, operation(sunset_at="2025-01-01T00:00:00Z")),
            {("operations", 1, "sunset_at")},
            id="a sunset before the default deprecation",
        ),
        pytest.param(
            plan_of(OTHER, operation(), sunset_at="2025-01-01T00:00:00Z"),
            {("sunset_at",)},
            id="defaults that contradict each other in every operation",
        ),
        pytest.param(
            plan_of(operation(deprecated_at="2024-01-01T00:00:00Z"), OTHER, sunset_at="2025-01-01T00:00:00Z"),
            {("operations", 1, "sunset_at")},
            id="defaults that contradict each other in one operation",
        ),
        pytest.param(
            plan_of(operation(sunset_at=JULY), OTHER, enforce_sunset=True),
            {("operations", 1, "enforce_sunset")},
            id="a default that one operation cannot follow",
        ),
        pytest.param(
            {"operations": [OTHER, operation(deprecated_at=JANUARY)]},
            {("operations", 0, "deprecated_at")},
            id="no deprecation of one operation",
        ),
        pytest.param(
            {"operations": [OTHER, operation(deprecated_at="soon")]},
            {("operations", 0, "deprecated_at"), ("operations", 1, "deprecated_at")},
            id="no deprecation, and one that is no date",
        ),
        pytest.param(
            plan_of(operation(live=True, documentation="")),
            {("operations", 0, "documentation")},
            id="an error in a live operation",
        ),
        pytest.param(
            plan_of(operation(brownouts=[window(JANUARY, JULY), window("soon", JULY), window(JANUARY, JULY)])),
            {("operations", 0, "brownouts", 1, "start"), ("operations", 0, "brownouts", "_schema")},
            id="brownouts that overlap, and one that is no date",
        ),
    ],
)
def test_an_error_in_a_plan_is_reported_at_its_place(mapping: object, expected: set[tuple[object, ...]]) -> None:
    assert places(plan_errors(mapping)) == expected


def test_every_error_in_a_plan_is_reported_at_once() -> None:
    broken = operation("", "reports", method="", successor="<", sunset_at="soon", sunset=1, live=2)
    mapping = plan_of(OTHER, OTHER, broken, prefix="/x", documentation="", unknown=1)
    inside = {("operations", 2, key) for key in broken}
    assert places(plan_errors(mapping)) == {
        ("prefix",),
        ("documentation",),
        ("unknown",),
        ("operations", 1, "name"),
        ("operations", 1, "path"),
        *inside,
    }


@pytest.mark.parametrize("sunset_at", [None, JULY])
def test_live_operations_need_no_dates(sunset_at: datetime | None) -> None:
    live = load_plan({"operations": [operation(live=True, sunset_at=sunset_at)]})
    assert live == {Operation("report", "GET", "/reports/{id}"): None}


def test_operations_may_differ_in_method_or_in_the_trailing_slash_alone() -> None:
    operations = [operation("a"), operation("b", method="POST"), operation("c", "/reports/{id}/")]
    assert [found.name for found in load_plan(plan_of(*operations))] == ["a", "b", "c"]


def test_an_error_message_about_brownouts_shows_their_dates() -> None:
    overlapping = [window(JANUARY, JULY), window(JANUARY, JULY)]
    (message,) = plan_errors(plan_of(OTHER, brownouts=overlapping))["brownouts"]
    assert "2026-01-01 00:00:00+00:00 to 2027-07-01 00:00:00+00:00" in message


def test_the_mapping_of_a_plan_is_not_changed() -> None:
    mapping = tomllib.loads(PLAN)
    load_plan(mapping)
    assert mapping == tomllib.loads(PLAN)
