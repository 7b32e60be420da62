"""Parse a page, and return the words and tables in its elements."""

import re

from bs4 import BeautifulSoup, Tag


def parse(page: str) -> BeautifulSoup:
    return BeautifulSoup(page, "html.parser")


def words(tag: Tag | None) -> str:
    """Return the words of an element with single spaces between them."""
    assert tag is not None
    return re.sub(r"\s+", " ", tag.get_text()).strip()


def rows(tag: Tag | None) -> list[list[str]]:
    """Return the rows of the first table in an element."""
    assert tag is not None
    table = tag if tag.name == "table" else tag.find("table")
    assert isinstance(table, Tag)
    return [
        [words(cell) for cell in row.find_all(["th", "td"])]
        for row in table.find_all("tr")
    ]
