"""The mistakes that `make mutants` makes, and what it complains of; it is tried on the smallest room."""

import ast
import subprocess
import sys

import pytest

from tests.mutation.__main__ import TESTS, explained, judged, parsed
from tests.mutation.mistakes import broken
from tests.mutation.patterns import broken_patterns
from tests.mutation.trial import ROOT


@pytest.mark.parametrize(
    ("line", "mistakes"),
    [
        pytest.param("x = a < b", {"x = a <= b", "x = a >= b"}, id="a boundary, and the opposite"),
        pytest.param("x = a is None", {"x = a is not None"}, id="the opposite"),
        pytest.param("x = a and b and c", {"x = b and c", "x = a and c", "x = a and b"}, id="a condition less"),
        pytest.param("x = not a", {"x = a"}, id="no negation"),
        pytest.param("x = a if b else c", {"x = a if False else c", "x = a if True else c"}, id="the same decision"),
        pytest.param("x = [a for a in b if c]", {"x = [a for a in b]", "x = [a for a in b if False]"}, id="a filter"),
        pytest.param("x = a + 7", {"x = a - 7", "x = a + 8", "x = a + 6"}, id="arithmetic"),
        pytest.param("x = 'GET'", {"x = ''"}, id="a text"),
        pytest.param("x = ' /'", {"x = ' '", "x = '/'"}, id="signs"),
        pytest.param("x = 'latin-1'", {"x = 'utf-8'"}, id="another encoding"),
        pytest.param("x = 'The answer to it all.'", set(), id="not what people read"),
        pytest.param("x = {a, b}", {"x = {b}", "x = {a}"}, id="a table loses rows"),
        pytest.param("x = f(a, key=b)", {"x = f(a)"}, id="a default instead of an argument"),
        pytest.param("x = a.lower()", {"x = a", "x = a.upper()"}, id="a call less"),
        pytest.param("x = a | b", {"x = a", "x = b"}, id="a flag less"),
        pytest.param("x = any(a)", {"x = all(a)"}, id="another function"),
        pytest.param("x.y = a", {"pass"}, id="a statement less"),
        pytest.param("__slots__ = ('a', 'b')", set(), id="not the layout of memory"),
        pytest.param("x: int | None = a", set(), id="no type"),
        pytest.param("x = re.compile('a+', b)", {"x = re.compile('a*', b)", "x = re.compile('a+')"}, id="a pattern"),
    ],
)
def test_a_line_is_broken_in_every_way(line: str, mistakes: set[str]) -> None:
    tree = ast.parse(line)
    assert {ast.unparse(tree) for _name in broken(tree)} == mistakes
    assert ast.unparse(tree) == line


@pytest.mark.parametrize(
    ("pattern", "mistakes"),
    [
        pytest.param("//", {"/"}, id="a character less"),
        pytest.param("ab?:", {"b?:", "ab:", "ab?"}, id="an optional character"),
        pytest.param("=ab", {"ab", "="}, id="a word less"),
        pytest.param(r"\.\x41", {r"\x41", r"\."}, id="an escape is one"),
        pytest.param("a*b?", {"a+b?", "a*b"}, id="another number of times"),
        pytest.param("a{1,4}", {"a"}, id="once"),
        pytest.param("[a-z_]", {"[^a-z_]", "[_]", "[a-z]"}, id="a class"),
        pytest.param("[^a]", {"[a]"}, id="the opposite of a class"),
        pytest.param("(?!a)", {"(?=a)", "(?!)"}, id="what may not follow must"),
    ],
)
def test_a_regular_expression_is_broken_in_every_way(pattern: str, mistakes: set[str]) -> None:
    assert set(broken_patterns(pattern)) == mistakes


@pytest.mark.parametrize("room", TESTS)
def test_every_mistake_has_one_name_and_those_that_survive_can_be_made(room: str) -> None:
    names = list(broken(parsed(room)))
    assert len(names) == len(set(names))
    assert set(explained()[room]) <= set(names)


@pytest.mark.parametrize(
    ("caught", "known", "complaints"),
    [
        pytest.param({"a": True, "b": False}, ["b"], [], id="all is as the list says"),
        pytest.param({"a": True, "b": False}, [], ["no test catches  b"], id="one more survives"),
        pytest.param({"a": True}, ["a"], ["now a test catches  a"], id="one is caught after all"),
        pytest.param({"a": True}, ["b"], ["there is no such mistake  b"], id="the room has changed"),
    ],
)
def test_what_differs_from_the_list_of_survivors(
    caught: dict[str, bool], known: list[str], complaints: list[str]
) -> None:
    assert list(judged(caught, known)) == complaints


def test_the_smallest_room_is_tried() -> None:
    command = [sys.executable, "-m", "tests.mutation", "log"]
    tried = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (tried.returncode, tried.stderr) == (0, "")
    assert tried.stdout.startswith("log: 2 mistakes, 0 not caught, ")
