"""Fixtures for the tests of several clients."""

from collections.abc import Iterator
from shutil import which

import pytest

from tests.clients.node import Node, install
from tests.clients.serving import Site, serving
from tests.services import service_or_skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Start a server with the application."""
    with serving(tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest.fixture(scope="session")
def node(pytestconfig: pytest.Config) -> Node:
    """Return Node.js with the clients, which stay in pytest's cache between runs."""
    program = which("node")
    service_or_skip("Node.js", program is not None)
    service_or_skip("npm", which("npm") is not None)
    assert pytestconfig.cache is not None
    folder = pytestconfig.cache.mkdir("clients")
    service_or_skip("a registry of npm packages", install(folder))
    return Node(str(program), folder)
