"""Plans in files and mappings: what they mean, which errors are reported where, and how
they are written again.
"""

import json
import re
import tomllib
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup
from marshmallow import ValidationError

from flask_notifications import (
    Brownout,
    DeprecationPolicy,
    Exemption,
    Operation,
    load_plan,
    notification_operations,
)
from flask_notifications.plans import Plan
from flask_notifications.plans.files import PlanSchema, dump_plan, flatten_messages
from tests.growth import grows_linearly

JANUARY = datetime(2026, 1, 1, tzinfo=UTC)
JULY = datetime(2027, 7, 1, tzinfo=UTC)

TOML = """
deprecated_at = 2026-01-01T00:00:00Z
documentation = "https://example.com/retire"
sunset_documentation = "https://example.com/policy"

[[operations]]
name = "report"
method = "get"
path = "/reports/{id}"
successor = "/v2/reports/{id}"
rewrite_path = true
unify_session = true
documentation = "/retire"
sunset_at = 2027-07-01T02:00:00+02:00
brownouts = [{ start = 2026-11-03T09:00:00Z, end = 2026-11-03T09:15:00Z, every_hours = 168 }]
enforce_sunset = true

[[operations]]
name = "me"
method = "GET"
path = "/reports/me"
live = true
"""
MAPPING = tomllib.loads(TOML)
PLAN: Plan = {
    Operation(
        "report",
        "GET",
        "/reports/{id}",
        "/v2/reports/{id}",
        rewrite_path=True,
        unify_session=True,
    ): DeprecationPolicy(
        deprecated_at=JANUARY,
        documentation="/retire",
        sunset_documentation="https://example.com/policy",
        sunset_at=JULY,
        brownouts=[
            Brownout(
                datetime(2026, 11, 3, 9, tzinfo=UTC),
                datetime(2026, 11, 3, 9, 15, tzinfo=UTC),
                every=timedelta(days=7),
            )
        ],
        enforce_sunset=True,
    ),
    Operation("me", "GET", "/reports/me"): None,
}


def test_a_plan_is_loaded_from_a_file_or_a_mapping(tmp_path: Path) -> None:
    toml, json_file = tmp_path / "plan.toml", tmp_path / "plan.json"
    toml.write_text(TOML, encoding="utf-8")
    json_file.write_text(
        json.dumps(MAPPING, default=datetime.isoformat), encoding="utf-8"
    )
    assert list(load_plan(toml).items()) == list(PLAN.items())
    assert load_plan(str(json_file)) == load_plan(MAPPING) == PLAN
    assert PlanSchema().load(MAPPING) == PLAN
    assert tomllib.loads(TOML) == MAPPING


@pytest.mark.parametrize(
    ("name", "content", "place", "message"),
    [
        ("plan.toml", "a = 1\nb = = 2", "{}:2:5", "Invalid value"),
        ("plan.toml", "a = [", "{}", "(at end of document)"),
        ("plan.json", '{\n  "a": 1,\n  b\n}', "{}:3:3", "Expecting property name"),
        ("plan.json", '{"a": [{"b": 1, "b": 1}]}', "{}", "the key 'b' is there twice"),
        ("plan.json", "[" * 200_000, "{}", "nested too deeply"),
        ("plan.toml", "a = 1\na = 2\n", "{}:2:6", ""),
        ("plan.json", f'{{"a": {"9" * 5000}}}', "{}", "Exceeds the limit"),
        ("plan.toml", f"a = {'9' * 5000}", "{}", "Exceeds the limit"),
        ("plan.toml", "# \udcff", "{}", "can't decode byte 0xff in position 2"),
        ("plan.yaml", "{}", "{}", "the name of the file must end with .toml or .json"),
    ],
)
def test_a_syntax_error_has_its_place(
    name: str, content: str, place: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_text(content, encoding="utf-8", errors="surrogateescape")
    ((key, (error,)),) = errors_of(file).items()
    assert key == place.format(file)
    assert message in error


POLICY = DeprecationPolicy(deprecated_at=JANUARY)


@pytest.mark.parametrize(
    "value",
    [
        "2026-01-01T05:45:00+05:45",
        "2026-01-01T00:00:00.000Z",
        JANUARY.astimezone(timezone(timedelta(hours=5, minutes=45))),
    ],
)
def test_a_date_is_an_aware_datetime_or_iso_8601_with_an_offset(value: object) -> None:
    plan = dict.fromkeys(notification_operations(), POLICY)
    assert load_plan({"deprecated_at": value}) == plan


def test_a_plan_without_operations_has_the_two_of_this_library() -> None:
    successors = "https://new.example/v2"
    mapping = {"prefix": "/v1", "successor_prefix": successors}
    operations = notification_operations("/v1", successor_prefix=successors)
    plan = dict.fromkeys(operations, POLICY)
    assert load_plan(mapping | {"deprecated_at": JANUARY}) == plan


def operation(
    name: Any = "report", path: Any = "/reports/{id}", **keys: Any
) -> dict[str, Any]:
    return {"name": name, "method": "GET", "path": path, **keys}


def window(start: object, end: object) -> dict[str, object]:
    return {"start": start, "end": end}


OTHER = operation("other", "/other")


def plan_of(*operations: object, **defaults: object) -> dict[str, object]:
    return {"deprecated_at": JANUARY, "operations": list(operations), **defaults}


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        ({}, {"sunset_at": JULY}),
        ({"sunset_at": None}, {}),
        ({"enforce_sunset": True}, {"sunset_at": JULY, "enforce_sunset": True}),
    ],
)
def test_the_keys_of_an_operation_replace_the_defaults(keys: Any, values: Any) -> None:
    (policy,) = load_plan(plan_of(operation(**keys), sunset_at=JULY)).values()
    assert policy == DeprecationPolicy(deprecated_at=JANUARY, **values)


def test_a_live_operation_needs_no_date_and_may_differ_in_letter_case_alone() -> None:
    live = operation("live", "/Reports/{id}", live=True)
    plan = load_plan({"operations": [operation(deprecated_at=JANUARY), live]})
    assert list(plan.values()) == [POLICY, None]


def errors_of(source: Any) -> Any:
    with pytest.raises(ValidationError) as caught:
        load_plan(source)
    return caught.value.messages


def lines(messages: Any) -> list[str]:
    """Return the messages as lines; no place has two."""
    messages_by_place = flatten_messages(messages)
    assert len(dict(messages_by_place)) == len(messages_by_place), messages
    return [
        f"{'.'.join(map(str, place))}: {message}"
        for place, message in messages_by_place
    ]


NO_DATE = "must be a date and time with an offset, such as 2027-07-01T09:00:00Z"
IN_UTC = "write 2026-01-01T00:00:00Z if 2026-01-01{} is meant in UTC"
YEARS = "must be a time of the years 1970 to 9999 in UTC"
DATES: list[tuple[Any, str]] = [
    ("", NO_DATE),
    ("2026-02-30T00:00:00Z", NO_DATE),
    ("Fri, 01 Jan 2027 00:00:00 GMT", NO_DATE),
    (1767225600, NO_DATE),
    (True, NO_DATE),
    (JANUARY.time(), NO_DATE),
    ("2026-01-01", IN_UTC.format("")),
    (date(2026, 1, 1), IN_UTC.format("")),
    (JANUARY.replace(tzinfo=None), IN_UTC.format(" 00:00:00")),
    ("1969-12-31T23:59:59Z", YEARS),
    ("9999-12-31T23:59:59-05:00", YEARS),
]


@pytest.mark.parametrize(("value", "expected"), DATES)
def test_a_value_that_is_not_a_date_is_refused_with_a_right_one(
    value: object, expected: str
) -> None:
    (line,) = lines(errors_of({"deprecated_at": value}))
    assert line.startswith("deprecated_at: ")
    assert expected in line


TABLE = "must be a table of keys and values"
STRING = "must be a string in quotation marks"
BOOLEAN = "must be true or false, without quotation marks"
OPERATIONS = "must be a list; in TOML, begin each operation with [[operations]]"


SAME_PATH = (
    "operations.1.path: path must differ from that of operation 0 in more than "
    "parameter names, because only one of them is live: '{}'"
)
LIVE = "is for deprecated operations"
SPACES = (
    "query of a live operation must be free of spaces, which clients write in two ways"
)
CALLERS = "exemptions must be a list with each caller once"
EXEMPTION = {"caller": "a", "until": JULY, "reason": "r"}
ERRORS: list[tuple[str, Any]] = [
    (f"_schema: {TABLE}", None),
    (f"_schema: {TABLE}", [{"prefix": "/"}]),
    (f"deprecated_at: is missing; it {NO_DATE}", {}),
    (f"operations: {OPERATIONS}", {"operations": "GET /"}),
    (f"operations: {OPERATIONS}", {"operations": OTHER}),
    ("prefix: prefix is for plans without operations", plan_of(OTHER, prefix="/v1")),
    (f"operations.0.name: {STRING}", plan_of(operation(1))),
    (f"operations.0.successor: {STRING}", plan_of(operation(successor=1))),
    (f"operations.0.documentation: {STRING}", plan_of(operation(documentation=1))),
    (f"operations.0.live: {BOOLEAN}", plan_of(operation(live="yes"))),
    (f"operations.0.rewrite_path: {BOOLEAN}", plan_of(operation(rewrite_path=1))),
    (f"operations.0.enforce_sunset: {BOOLEAN}", plan_of(operation(enforce_sunset=1))),
    (
        f"operations.0.successor: successor {LIVE}",
        plan_of(operation(live=True, successor="/v2")),
    ),
    (
        f"operations.0.unify_session: unify_session {LIVE}",
        plan_of(operation(live=True, unify_session=True)),
    ),
    (
        "SUNSET_AT: is not a known key; did you mean sunset_at?",
        {"deprecated_at": JANUARY, "SUNSET_AT": JULY},
    ),
    (
        "operations.1.name: name must differ from that of operation 0: 'other'",
        plan_of(OTHER, operation("other", "/b")),
    ),
    (
        SAME_PATH.format("/a/{x}"),
        plan_of(operation(path="/a/{id}"), operation("b", "/a/{x}", live=True)),
    ),
    (
        SAME_PATH.format("/a%62"),
        plan_of(operation(path="/ab"), operation("b", "/a%62", live=True)),
    ),
    (
        f"operations.0.query: {SPACES}: ['b c']",
        plan_of(operation(live=True, query={"q": ["a", "b c"]})),
    ),
    (
        f"operations.0.exemptions: {CALLERS}, not ['a']",
        plan_of(operation(exemptions=[EXEMPTION, EXEMPTION])),
    ),
]


@pytest.mark.parametrize(("expected", "mapping"), ERRORS)
def test_a_message_says_what_to_write(expected: str, mapping: object) -> None:
    assert lines(errors_of(mapping)) == [expected]


REPEATING = {**window(JANUARY, JANUARY + timedelta(hours=2)), "until": JULY}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"every_hours": 1}, "every_hours: every_hours must be no shorter than"),
        ({"every_hours": 1.5}, "every_hours: must be a whole number of hours"),
        ({"every_hours": True}, "every_hours: must be a whole number of hours"),
        ({}, "until: until must be left out without every (every_hours in a file)"),
        (
            {"every_hours": 2, "until": JULY.replace(year=2025)},
            "until: until must be not before start",
        ),
    ],
)
def test_the_error_of_a_brownout_that_repeats_is_at_its_key(
    keys: dict[str, object], expected: str
) -> None:
    windows = [REPEATING | keys]
    (line,) = lines(errors_of({"deprecated_at": JANUARY, "brownouts": windows}))
    assert line.startswith(f"brownouts.0.{expected}")


@pytest.mark.parametrize("sunset", [{}, {"sunset_at": JULY}], ids=["no end", "many"])
def test_windows_that_repeat_too_often_are_an_error_of_the_brownouts(
    sunset: dict[str, datetime],
) -> None:
    hourly = window(JANUARY, JANUARY + timedelta(hours=1)) | {"every_hours": 1}
    mapping = {"deprecated_at": JANUARY, "brownouts": [hourly]}
    (line,) = lines(errors_of(mapping | sunset))
    assert line.startswith("brownouts: brownouts must be ")
    early = operation(sunset_at=JANUARY + timedelta(days=1))
    assert load_plan(plan_of(early, brownouts=[hourly]))


def test_a_file_that_is_not_there_is_looked_for_in_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        FileNotFoundError, match=f"no such file in {tmp_path}.*'a.json'"
    ):
        load_plan("a.json")
    with pytest.raises(FileNotFoundError, match="No such file"):
        load_plan(tmp_path / "a.json")


def test_an_error_is_a_line_with_its_place_and_operation() -> None:
    with pytest.raises(ValidationError) as caught:
        load_plan(plan_of(OTHER, operation(enforce_sunset=True)))
    assert str(caught.value).startswith(
        "operations.1.enforce_sunset: report: enforce_sunset must be False"
    )


def test_the_errors_of_nested_tables_have_their_index() -> None:
    exemptions = [{"caller": "a\n", "until": JULY.date(), "reason": "", "why": 1}, {}]
    exemptions.append(
        {"caller": "a", "until": JULY, "sunset_at": JULY}
    )  # below a table of TOML
    assert lines(errors_of(plan_of({}, OTHER, exemptions=exemptions))) == [
        "exemptions.0.caller: caller must be a label of 1 to 64 printable characters, not 'a\\n'",
        "exemptions.0.reason: reason must be a string that says why, not ''",
        "exemptions.0.until: must have a time and an offset: write 2027-07-01T00:00:00Z if 2027-07-01 is meant in UTC",
        "exemptions.0.why: is not a known key; known are caller, until, reason",
        f"exemptions.1.caller: is missing; it {STRING}",
        f"exemptions.1.reason: is missing; it {STRING}",
        f"exemptions.1.until: is missing; it {NO_DATE}",
        f"exemptions.2.reason: is missing; it {STRING}",
        "exemptions.2.sunset_at: is not a known key; known are caller, until, reason",
        *(
            f"operations.0.{key}: is missing; it {STRING}"
            for key in ("method", "name", "path")
        ),
    ]


WINDOW = window(JANUARY, JULY)
PLACES: list[tuple[str, dict[str, Any]]] = [
    ("documentation", plan_of(operation(documentation="/new"), documentation="")),
    (
        "deprecated_at",
        plan_of(operation(deprecated_at=JULY), deprecated_at="1969-01-01T00:00:00Z"),
    ),
    ("brownouts", plan_of(operation(live=True), brownouts=[WINDOW, WINDOW])),
    ("brownouts.0.end", plan_of(OTHER, brownouts=[window(JULY, JANUARY)])),
    ("operations.0.query", plan_of(operation(query={"cmd": 1}))),
    ("operations.0.name", plan_of(operation("\ud800"))),
    ("operations.0.path", plan_of(operation(path="/a/<id>"))),
    ("operations.0.successor", plan_of(operation(successor="/b/{x}"))),
    ("successor_prefix", {"deprecated_at": JANUARY, "successor_prefix": "/{x}"}),
    (
        "operations.1.sunset_at",
        plan_of(OTHER, operation(sunset_at="2025-01-01T00:00:00Z")),
    ),
    (
        "operations.1.enforce_sunset",
        plan_of(operation(sunset_at=JULY), OTHER, enforce_sunset=True),
    ),
    (
        "operations.1.sunset_at",
        plan_of(
            OTHER, operation(sunset_at="soon", enforce_sunset=True), sunset_at=JULY
        ),
    ),
]


def places_of(mapping: object) -> list[str]:
    return [line.partition(": ")[0] for line in lines(errors_of(mapping))]


@pytest.mark.parametrize(("place", "mapping"), PLACES)
def test_an_error_is_reported_at_its_place(place: str, mapping: object) -> None:
    assert places_of(mapping) == [place]


def test_every_error_is_reported_at_once() -> None:
    broken = operation("", "reports", successor="<", sunset_at="soon", sunset=1, live=2)
    live = operation("live", "/<id>", successor="/v2", live=True)
    early = window("1969-01-02T00:00:00Z", "1969-01-01T00:00:00Z")
    windows = [early, window("soon", JULY), WINDOW, WINDOW]
    operations = [OTHER, None, OTHER, broken, live]
    mapping = plan_of(*operations, prefix="/x", unknown=1, brownouts=windows)
    assert places_of(mapping) == [
        "brownouts.0.end",
        "brownouts.0.start",
        "brownouts.1.start",
        "brownouts._schema",
        "operations.1._schema",
        "operations.2.name",
        "operations.2.path",
        "operations.3.live",
        "operations.3.name",
        "operations.3.path",
        "operations.3.successor",
        "operations.3.sunset",
        "operations.3.sunset_at",
        "operations.4.path",
        "operations.4.successor",
        "prefix",
        "unknown",
    ]


def test_brownouts_that_overlap_are_reported_in_one_message() -> None:
    days = [datetime(2026, 2, day, tzinfo=UTC) for day in range(1, 9)]
    windows = [
        window(days[6], days[7]),
        window(days[0], days[5]),
        window(days[1], days[2]),
        window(days[5], days[7]),
    ]
    (line,) = lines(errors_of({"deprecated_at": JANUARY, "brownouts": windows}))
    assert re.findall(r"2026-02-0(\d) \S+ to 2026-02-0(\d)", line) == [
        ("1", "6"),
        ("2", "3"),
        ("6", "8"),
        ("7", "8"),
    ]


BROKEN = {"name": "report", "method": "", "sunset": 1, "sunset_at": "2025-01-01T00:00Z"}


@pytest.mark.slow
@pytest.mark.parametrize("keys", [{}, BROKEN], ids=["valid", "broken"])
def test_the_work_on_a_plan_grows_linearly(keys: dict[str, Any]) -> None:
    def load(mapping: dict[str, object]) -> None:
        try:
            load_plan(mapping)
        except ValidationError as error:
            flatten_messages(error.messages)

    def make_plan(size: int) -> dict[str, object]:
        operations = []
        for number in range(size):
            operations.append(operation(f"o{number}", f"/{number}/{{id}}") | keys)
        return plan_of(*operations)

    assert grows_linearly(load, make_plan)


TIMES = st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - the bounds
URIS = st.none() | st.sampled_from(["/a", "https://x.example/%C3%A9"])
VALUES = st.none() | st.dictionaries(
    st.sampled_from("aB"), st.sampled_from(["", "*", ("a", "b")])
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    plan: dict[Operation, DeprecationPolicy | None] = {}
    four_times = st.lists(TIMES, min_size=4, max_size=4, unique=True)
    for number in (1, 2):
        first, second, third, last = sorted(draw(four_times))
        once = Brownout(second, third)
        hours = timedelta(hours=(third - second) // timedelta(hours=1) + 1)
        repeating = Brownout(second, third, every=hours, until=second + 3 * hours)
        exemptions = [Exemption("\u00e9", last, "why"), Exemption("b", first, "?")]
        live = Operation(f"live {number}", "GET", f"/{number}")
        deprecated = Operation(
            f"\u00e9 {number}",
            "PURGE",
            f"/{number}/{{id}}",
            draw(URIS),
            query=draw(VALUES),
            headers=draw(VALUES),
            rewrite_path=draw(st.booleans()),
            unify_session=draw(st.booleans()),
        )
        policy = DeprecationPolicy(
            deprecated_at=first,
            brownouts=draw(st.sampled_from([[], [once], [repeating]])),
            sunset_at=draw(st.sampled_from([last, first])),
            enforce_sunset=draw(st.booleans()),
            exemptions=draw(st.sampled_from([[], exemptions])),
            documentation=draw(URIS),
            sunset_documentation=draw(URIS),
        )
        plan |= [draw(st.sampled_from([(live, None), (deprecated, policy)]))]
    return plan


@given(plans())
def test_a_plan_that_is_dumped_is_loaded_again(plan: Plan) -> None:
    mapping = json.loads(json.dumps(dump_plan(plan)))
    assert list(load_plan(mapping).items()) == list(plan.items())


def test_a_brownout_may_repeat_after_any_time() -> None:
    every = timedelta(days=timedelta.max.days)
    brownout = Brownout(JANUARY, JULY, every=every, until=JULY)
    policy = DeprecationPolicy(deprecated_at=JANUARY, brownouts=[brownout])
    plan = {Operation("a", "GET", "/a"): policy}
    assert load_plan(dump_plan(plan)) == plan
    hours = every // timedelta(hours=1) + 24
    windows = [REPEATING | {"every_hours": hours}]
    (line,) = lines(errors_of({"deprecated_at": JANUARY, "brownouts": windows}))
    assert "every_hours: must be a whole number of hours" in line


def make_member(value: str) -> str:
    """Return a string that is a member of an Enum, so that ``str()`` returns another
    one.
    """
    member: str = Enum("Page", {"MEMBER": value}, type=str).MEMBER  # type: ignore[attr-defined]
    return member


@pytest.mark.parametrize(
    "spell", [make_member, Markup], ids=["a member of an Enum", "markup"]
)
def test_a_plan_holds_plain_strings(spell: Callable[[str], str]) -> None:
    def make_plan(spell: Callable[[str], str]) -> Plan:
        operation = Operation(
            spell("x"),
            spell("GET"),
            spell("/x/{id}"),
            spell("/y/{id}"),
            query={spell("v"): spell("1")},
            headers={spell("V"): [spell("1")]},
        )
        policy = DeprecationPolicy(
            deprecated_at=JANUARY,
            documentation=spell("/d"),
            sunset_documentation=spell("/s"),
            exemptions=[Exemption(spell("acme"), JULY, spell("why"))],
        )
        return {operation: policy}

    assert repr(make_plan(spell)) == repr(make_plan(str))
    mapping = {"deprecated_at": JANUARY, "documentation": "/d"}
    loaded = load_plan(mapping | {"documentation": spell("/d")})
    assert repr(loaded) == repr(load_plan(mapping))


def test_a_dump_leaves_out_what_is_not_said() -> None:
    live = Operation("y", "GET", "/y", headers={"V": ("1", "")})
    plan = {
        Operation("x", "GET", "/x"): DeprecationPolicy(deprecated_at=JANUARY),
        live: None,
    }
    assert dump_plan(plan) == {
        "operations": [
            {
                "name": "x",
                "method": "GET",
                "path": "/x",
                "deprecated_at": "2026-01-01T00:00:00Z",
            },
            {
                "name": "y",
                "method": "GET",
                "path": "/y",
                "headers": {"V": ["1", ""]},
                "live": True,
            },
        ]
    }
