"""The server that the clients call."""

from collections.abc import Iterator

import pytest

from tests.clients.serving import Site, serving


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Start a server with the application."""
    with serving(tmp_path_factory.mktemp("site")) as site:
        yield site
