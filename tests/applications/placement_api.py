"""The tests of Placement's API, which its own runner collects, for pytest."""

from pathlib import Path

import pytest
from gabbi import driver
from gabbi.driver import test_pytest as test_pytest  # noqa: PLC0414 - collected here
from placement.tests.functional import test_api
from placement.tests.functional.fixtures import gabbits


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    driver.py_test_generator(
        str(Path(test_api.__file__).with_name(test_api.TESTS_DIR)),
        test_loader_name=__name__,
        intercept=gabbits.setup_app,
        fixture_module=gabbits,
        metafunc=metafunc,
    )
