"""``grows_linearly`` accepts linear functions and rejects quadratic ones."""

import re
from collections.abc import Callable

import pytest

from tests.growth import grows_linearly

pytestmark = pytest.mark.slow


def search_a_list(size: int) -> None:
    """Look each value up in a list of all values; the number of lookups is linear."""
    values = list(range(size))
    assert all(value in values for value in reversed(values))


def search_a_set(size: int) -> None:
    values = set(range(size))
    assert all(value in values for value in range(size))


def drop_one_by_one(string: str) -> None:
    while string:
        string = string[1:]


@pytest.mark.parametrize(
    ("function", "make_input"),
    [
        pytest.param(len, "x".__mul__, id="constant"),
        pytest.param(re.compile("a").findall, "x".__mul__, id="a scan"),
        pytest.param(search_a_set, int, id="a set"),
        pytest.param(sorted, lambda size: list(range(size, 0, -1)), id="sorting"),
    ],
)
def test_linear_work_is_linear(function: Callable[[object], object], make_input: Callable[[int], object]) -> None:
    assert grows_linearly(function, make_input)


@pytest.mark.parametrize(
    ("function", "make_input"),
    [
        pytest.param(search_a_list, int, id="a list"),
        pytest.param(drop_one_by_one, "x".__mul__, id="copying the remaining string"),
        pytest.param(re.compile("x*y").search, "x".__mul__, id="a pattern that backtracks"),
    ],
)
def test_quadratic_work_is_not_linear(
    function: Callable[[object], object], make_input: Callable[[int], object]
) -> None:
    assert not grows_linearly(function, make_input)
