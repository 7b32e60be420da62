"""Plans in files and mappings: what they mean, which errors are reported where, and how
they are written again.
"""

import json
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
    assert (
        load_plan(str(json_file))
        == load_plan(MAPPING)
        == PlanSchema().load(MAPPING)
        == PLAN
    )
    assert tomllib.loads(TOML) == MAPPING


@pytest.mark.parametrize(
    ("name", "content", "place", "message"),
    [
        ("plan.toml", "a = 1\nb = = 2", "{}:2:5", "Invalid value"),
        ("plan.toml", "a = [", "{}", "(at end of document)"),
        (
            "plan.json",
            '{\n  "a": 1,\n  b\n}',
            "{}:3:3",
            "Expecting property name enclosed in double quotes",
        ),
        ("plan.json", '{"a": [{"b": 1, "b": 1}]}', "{}", "the key 'b' is there twice"),
        ("plan.json", "[" * 200_000, "{}", "nested too deeply"),
        ("plan.toml", "a = 1\na = 2\n", "{}:2:6", ""),
        ("plan.json", f'{{"a": {"9" * 5000}}}', "{}", "Exceeds the limit"),
        ("plan.toml", f"a = {'9' * 5000}", "{}", "Exceeds the limit"),
        (
            "plan.toml",
            "# \udcff",
            "{}",
            "'utf-8' codec can't decode byte 0xff in position 2: invalid start byte",
        ),
        ("plan.yaml", "{}", "{}", "the name of the file must end with .toml or .json"),
    ],
)
def test_a_syntax_error_has_its_place(
    name: str, content: str, place: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_text(content, encoding="utf-8", errors="surrogateescape")
    ((found, (text,)),) = errors_of(file).items()
    assert found == place.format(file)
    assert message in text


POLICY = DeprecationPolicy(deprecated_at=JANUARY)


@pytest.mark.parametrize(
    "value",
    [
        *(
            "2026-01-01T00:00:00Z",
            "2026-01-01T05:45:00+05:45",
            "2026-01-01T00:00:00.000Z",
        ),
        JANUARY.astimezone(timezone(timedelta(hours=5, minutes=45))),
    ],
)
def test_a_date_is_an_aware_datetime_or_iso_8601_with_an_offset(value: object) -> None:
    assert load_plan({"deprecated_at": value}) == dict.fromkeys(
        notification_operations(), POLICY
    )


def test_a_plan_without_operations_has_the_two_of_this_library_below_its_prefixes() -> (
    None
):
    operations = notification_operations(
        "/v1", successor_prefix="https://new.example/v2"
    )
    prefixes = {"prefix": "/v1", "successor_prefix": "https://new.example/v2"}
    assert load_plan({"deprecated_at": JANUARY, **prefixes}) == dict.fromkeys(
        operations, POLICY
    )


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
    ("own", "policy"),
    [
        ({}, {"sunset_at": JULY}),
        ({"sunset_at": None}, {}),
        ({"enforce_sunset": True}, {"sunset_at": JULY, "enforce_sunset": True}),
        ({"deprecated_at": JULY}, {"sunset_at": JULY, "deprecated_at": JULY}),
    ],
)
def test_the_keys_of_an_operation_replace_the_defaults(
    own: dict[str, Any], policy: dict[str, Any]
) -> None:
    plan = load_plan(plan_of(operation(**own), sunset_at=JULY))
    assert list(plan.values()) == [
        DeprecationPolicy(**{"deprecated_at": JANUARY, **policy})
    ]


def test_a_live_operation_needs_no_date_and_may_differ_in_letter_case_alone() -> None:
    live = operation("live", "/Reports/{id}", live=True)
    assert list(
        load_plan({"operations": [operation(deprecated_at=JANUARY), live]}).values()
    ) == [POLICY, None]


def errors_of(source: Any) -> Any:
    with pytest.raises(ValidationError) as caught:
        load_plan(source)
    return caught.value.messages


def lines(messages: Any) -> list[str]:
    """Return the messages as lines; no place has two."""
    found = flatten_messages(messages)
    assert len({place for place, _message in found}) == len(found), messages
    return [f"{'.'.join(map(str, place))}: {message}" for place, message in found]


NO_DATE = "must be a date and time with an offset, such as 2027-07-01T09:00:00Z"
DATES: list[tuple[Any, str]] = [
    *(
        (value, NO_DATE)
        for value in (
            "soon",
            "",
            "2026-02-30T00:00:00Z",
            "Fri, 01 Jan 2027 00:00:00 GMT",
        )
    ),
    *(
        (value, NO_DATE)
        for value in (1767225600, float("nan"), True, b"", JANUARY.time())
    ),
    ("2026-01-01", "write 2026-01-01T00:00:00Z if 2026-01-01 is meant in UTC"),
    (date(2026, 1, 1), "write 2026-01-01T00:00:00Z if 2026-01-01 is meant in UTC"),
    (
        JANUARY.replace(tzinfo=None),
        "write 2026-01-01T00:00:00Z if 2026-01-01 00:00:00 is meant in UTC",
    ),
    *(
        (value, "must be a time of the years 1970 to 9999 in UTC")
        for value in ("1969-12-31T23:59:59Z", "9999-12-31T23:59:59-05:00")
    ),
]


@pytest.mark.parametrize("name", ["deprecated_at", "sunset_at"])
@pytest.mark.parametrize(("value", "expected"), DATES)
def test_a_value_that_is_not_a_date_is_refused_with_a_right_one(
    name: str, value: object, expected: str
) -> None:
    (line,) = lines(errors_of({"deprecated_at": JANUARY, name: value}))
    assert line.startswith(f"{name}: ")
    assert expected in line


TABLE = "must be a table of keys and values"
STRING = "must be a string in quotation marks"
BOOLEAN = "must be true or false, without quotation marks"
OPERATIONS = "must be a list; in TOML, begin each operation with [[operations]]"


ERRORS: list[tuple[str, Any]] = [
    *((f"_schema: {TABLE}", value) for value in (None, [], 5, [{"prefix": "/"}])),
    (f"deprecated_at: is missing; it {NO_DATE}", {}),
    (f"operations: {OPERATIONS}", {"operations": "GET /"}),
    (f"operations: {OPERATIONS}", {"operations": OTHER}),
    ("prefix: prefix is for plans without operations", plan_of(OTHER, prefix="/v1")),
    *(
        (f"operations.0.{key}: {STRING}", plan_of(operation(**{key: 1})))
        for key in ("name", "method", "path", "successor", "documentation")
    ),
    *(
        (f"operations.0.{key}: {BOOLEAN}", plan_of(operation(**{key: value})))
        for key in ("live", "rewrite_path", "unify_session", "enforce_sunset")
        for value in ("yes", 1, "true")
    ),
    *(
        (
            f"operations.0.{key}: {key} is for deprecated operations",
            plan_of(operation(live=True, **{key: value})),
        )
        for key, value in {
            "successor": "/v2",
            "rewrite_path": True,
            "unify_session": True,
        }.items()
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
        "operations.1.path: path must differ from that of operation 0 in more than parameter names, because one of both is live: '/a/{x}'",
        plan_of(operation(path="/a/{id}"), operation("b", "/a/{x}", live=True)),
    ),
    (
        "operations.1.path: path must differ from that of operation 0 in more than parameter names, because one of both is live: '/a%62'",
        plan_of(operation(path="/ab"), operation("b", "/a%62", live=True)),
    ),
    (
        "operations.0.query: query of a live operation must be free of spaces, which clients write in two ways: ['b c']",
        plan_of(operation(live=True, query={"q": ["a", "b c"]})),
    ),
    (
        "operations.0.exemptions: exemptions must be a list with each caller once, not ['a']",
        plan_of(
            operation(exemptions=[{"caller": "a", "until": JULY, "reason": "r"}] * 2)
        ),
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
        ({"every_hours": "168"}, "every_hours: must be a whole number of hours"),
        ({"every_hours": 0}, "every_hours: must be a whole number of hours"),
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


def test_too_many_windows_and_those_without_an_end_are_errors_of_the_brownouts() -> (
    None
):
    hourly = window(JANUARY, JANUARY + timedelta(hours=1)) | {"every_hours": 1}
    for place, sunset in (("brownouts", {}), ("brownouts", {"sunset_at": JULY})):
        mapping = {"deprecated_at": JANUARY, "brownouts": [hourly], **sunset}
        (line,) = lines(errors_of(mapping))
        assert line.startswith(f"{place}: brownouts must be "), line
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


@pytest.mark.parametrize(
    ("mapping", "place"),
    [
        (plan_of(operation(documentation="/new"), documentation=""), "documentation"),
        (
            plan_of(
                operation(deprecated_at=JULY), deprecated_at="1969-01-01T00:00:00Z"
            ),
            "deprecated_at",
        ),
        pytest.param(
            plan_of(operation(live=True), brownouts=[window(JANUARY, JULY)] * 2),
            "brownouts",
            id="of nothing",
        ),
        (
            {"deprecated_at": JANUARY, "brownouts": [window(JULY, JANUARY)]},
            "brownouts.0.end",
        ),
        pytest.param(
            plan_of(operation(query={"cmd": 1})),
            "operations.0.query",
            id="a number in a condition",
        ),
        pytest.param(
            plan_of(operation("\ud800")),
            "operations.0.name",
            id="half a pair of surrogates",
        ),
        pytest.param(
            plan_of(operation(path="/a/<id>")),
            "operations.0.path",
            id="another syntax of parameters",
        ),
        (plan_of(operation(successor="/b/{x}")), "operations.0.successor"),
        pytest.param(
            {"deprecated_at": JANUARY, "successor_prefix": "a b"},
            "successor_prefix",
            id="in a prefix",
        ),
        ({"deprecated_at": JANUARY, "successor_prefix": "/{x}"}, "successor_prefix"),
        pytest.param(
            plan_of(OTHER, operation(sunset_at="2025-01-01T00:00:00Z")),
            "operations.1.sunset_at",
            id="early",
        ),
        (
            plan_of(operation(sunset_at=JULY), OTHER, enforce_sunset=True),
            "operations.1.enforce_sunset",
        ),
        (
            plan_of(
                OTHER, operation(sunset_at="soon", enforce_sunset=True), sunset_at=JULY
            ),
            "operations.1.sunset_at",
        ),
    ],
)
def test_an_error_is_reported_at_its_place(mapping: object, place: str) -> None:
    assert [line.partition(": ")[0] for line in lines(errors_of(mapping))] == [place]


def test_every_error_is_reported_at_once() -> None:
    broken = operation(
        "", "reports", method="", successor="<", sunset_at="soon", sunset=1, live=2
    )
    windows = [
        window("1969-01-02T00:00:00Z", "1969-01-01T00:00:00Z"),
        window("soon", JULY),
    ]
    windows += [window(JANUARY, JULY), window(JANUARY, JULY)]
    last = operation("last", "/last", documentation="")
    mapping = plan_of(
        OTHER,
        None,
        OTHER,
        broken,
        last,
        prefix="/x",
        documentation="",
        unknown=1,
        brownouts=windows,
    )
    assert [line.partition(": ")[0] for line in lines(errors_of(mapping))] == [
        *(
            "brownouts.0.end",
            "brownouts.0.start",
            "brownouts.1.start",
            "brownouts._schema",
            "documentation",
        ),
        *("operations.1._schema", "operations.2.name", "operations.2.path"),
        *(f"operations.3.{key}" for key in sorted(broken)),
        *("operations.4.documentation", "prefix", "unknown"),
    ]


def test_every_brownout_inside_a_longer_one_is_reported() -> None:
    days = [datetime(2026, 2, day, tzinfo=UTC) for day in range(1, 9)]
    windows = [
        window(days[3], days[4]),
        window(days[0], days[5]),
        window(days[1], days[2]),
        window(days[5], days[7]),
    ]
    longest = "2026-02-01 00:00:00+00:00 to 2026-02-06 00:00:00+00:00 and"
    overlaps = [
        f"{longest} 2026-02-0{day} 00:00:00+00:00 to 2026-02-0{day + 1} 00:00:00+00:00"
        for day in (2, 4)
    ]
    assert errors_of({"deprecated_at": JANUARY, "brownouts": windows}) == {
        "brownouts": [f"brownouts must be windows that do not overlap, not {overlaps}"]
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({}, id="valid"),
        pytest.param(
            {
                "name": "report",
                "method": "",
                "sunset": 1,
                "sunset_at": "2025-01-01T00:00:00Z",
            },
            id="broken",
        ),
    ],
)
def test_the_work_on_a_plan_grows_linearly(keys: dict[str, Any]) -> None:
    def load(mapping: dict[str, object]) -> None:
        try:
            load_plan(mapping)
        except ValidationError as error:
            flatten_messages(error.messages)

    def make_plan(size: int) -> dict[str, object]:
        return plan_of(
            *(
                {**operation(f"o{number}", f"/{number}/{{id}}"), **keys}
                for number in range(size)
            )
        )

    assert grows_linearly(load, make_plan)


TIMES = st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - the bounds
URIS = st.none() | st.sampled_from(["/a", "https://x.example/%C3%A9"])
VALUES = st.none() | st.dictionaries(
    st.sampled_from("aB"), st.sampled_from(["", "*", ("a", "b")])
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    plan: dict[Operation, DeprecationPolicy | None] = {}
    for number in (1, 2):
        first, second, third, last = sorted(
            draw(st.lists(TIMES, min_size=4, max_size=4, unique=True))
        )
        once = Brownout(second, third)
        hours = timedelta(hours=(third - second) // timedelta(hours=1) + 1)
        repeating = Brownout(second, third, every=hours, until=second + 3 * hours)
        names = [f"\u00e9 {number}", "PURGE", f"/{number}/{{id}}"]
        switches = {key: st.booleans() for key in ("rewrite_path", "unify_session")}
        operations = st.builds(
            Operation,
            *map(st.just, names),
            URIS,
            query=VALUES,
            headers=VALUES,
            **switches,
        )
        policies = st.builds(
            DeprecationPolicy,
            deprecated_at=st.just(first),
            brownouts=st.sampled_from([[], [once], [repeating]]),
            sunset_at=st.sampled_from([last, first]),
            enforce_sunset=st.booleans(),
            exemptions=st.sampled_from(
                [(), (Exemption("\u00e9", last, "why"), Exemption("b", first, "?"))]
            ),
            documentation=URIS,
            sunset_documentation=URIS,
        )
        live = st.just((Operation(f"live {number}", "GET", f"/{number}"), None))
        plan |= [draw(live | st.tuples(operations, policies))]
    return plan


@given(plans())
def test_a_plan_that_is_dumped_is_loaded_again(plan: Plan) -> None:
    mapping = json.loads(json.dumps(dump_plan(plan)))
    assert list(load_plan(mapping).items()) == list(plan.items())


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
        names = (spell(each) for each in ("x", "GET", "/x/{id}", "/y/{id}"))
        operation = Operation(
            *names, query={spell("v"): spell("1")}, headers={spell("V"): [spell("1")]}
        )
        policy = DeprecationPolicy(
            deprecated_at=JANUARY,
            documentation=spell("/d"),
            sunset_documentation=spell("/s"),
            exemptions=[Exemption(spell("acme"), JULY, spell("why"))],
        )
        return {operation: policy}

    assert repr(make_plan(spell)) == repr(make_plan(str))
    loaded = load_plan({"deprecated_at": JANUARY, "documentation": spell("/d")})
    assert {
        repr(policy.documentation) for policy in loaded.values() if policy is not None
    } == {"'/d'"}


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
