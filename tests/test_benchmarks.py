"""The benchmarks have targets and columns that exist, and time correct responses only; no test here measures time."""

from functools import partial
from pathlib import Path

import pytest

from benchmarks.__main__ import PAGE, PARTS
from benchmarks.candidates import CANDIDATES, READY, WrongResponse, check, checked_client
from benchmarks.clients import WsgiClient
from benchmarks.parts import Results, Target
from benchmarks.report import write
from benchmarks.rounds import in_rounds
from benchmarks.targets import TARGETS
from benchmarks.work import ANNOUNCEMENT, ENCODED_RECORDS, session_of
from tests.wsgi import plain_app

# The other candidates need packages that only `make bench` installs.
INSTALLED = [name for name, each in CANDIDATES.items() if each.where.startswith(("ours:", "raw:", "flask_view:"))]


def test_every_part_has_targets() -> None:
    assert TARGETS.keys() == PARTS.keys()


@pytest.mark.parametrize("part", PARTS)
def test_targets_compare_what_the_part_measures(part: str) -> None:
    for target in TARGETS[part]:
        assert target.column in PARTS[part].columns
        assert {target.row, *target.others} <= set(PARTS[part].rows)
        assert target.row not in target.others


@pytest.mark.parametrize("block", ["machine", *PARTS])
def test_the_page_has_a_block_for_the_results_of_each_part(block: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.count(f"<!-- begin {block} -->\n") == page.count(f"<!-- end {block} -->") == 1


@pytest.mark.parametrize("name", INSTALLED)
def test_candidates_send_correct_responses(name: str) -> None:
    client = checked_client(name, 0, 1, 100)
    if name != READY:  # which has responses to known sessions only
        check(name, client, None)


@pytest.mark.parametrize("name", INSTALLED)
def test_lengths_are_those_of_the_responses(name: str) -> None:
    client = CANDIDATES[name].client()
    assert client.length(session_of(100)) == len(client.response(session_of(100)).body)


RIGHT = b"[%b]" % ENCODED_RECORDS[0]


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        pytest.param("201 Created", ANNOUNCEMENT, RIGHT, id="another status"),
        pytest.param("200 OK", ANNOUNCEMENT, b"[]", id="no records"),
        pytest.param("200 OK", ANNOUNCEMENT, b"[%b]" % ENCODED_RECORDS[1], id="other records"),
        pytest.param("200 OK", {**ANNOUNCEMENT, "Sunset": "soon"}, RIGHT, id="another date"),
        pytest.param("200 OK", {"Sunset": ANNOUNCEMENT["Sunset"]}, RIGHT, id="an incomplete announcement"),
    ],
)
def test_a_wrong_response_is_never_timed(status: str, headers: dict[str, str], body: bytes) -> None:
    check("right", WsgiClient(plain_app("200 OK", ANNOUNCEMENT.items(), RIGHT)), session_of(1))
    with pytest.raises(WrongResponse):
        check("wrong", WsgiClient(plain_app(status, headers.items(), body)), session_of(1))


def test_a_round_runs_every_candidate_once_in_changing_order() -> None:
    calls: list[str] = []
    values = in_rounds({name: partial(calls.append, name) for name in "abc"}, 5)
    rounds = [calls[start : start + 3] for start in range(0, 15, 3)]
    assert [len(each) for each in values.values()] == [5] * 3
    assert [set(each) for each in rounds] == [set("abc")] * 5
    assert any(each != rounds[0] for each in rounds)


def test_a_target_is_measured_inside_rounds_against_the_best_of_each() -> None:
    target = Target("time", "ours", 1.0, ("fast", "slow"))
    results: Results = {("time", "ours"): (1.0, 4.0), ("time", "fast"): (2.0, 8.0), ("time", "slow"): (4.0, 2.0)}
    assert target.measured(results) == (0.5, 2.0)
    del results["time", "slow"]
    assert target.measured(results) is None


def test_writing_replaces_one_block_of_the_page_only(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- begin a -->\nold\n<!-- end a -->\n\n<!-- begin b -->\n<!-- end b -->\n")
    for block in ("first", "second"):
        write(page, "a", block)
    assert page.read_text() == (
        "# Page\n\n<!-- begin a -->\nsecond\n<!-- end a -->\n\n<!-- begin b -->\n<!-- end b -->\n"
    )
    with pytest.raises(LookupError):
        write(page, "c", "lost")
