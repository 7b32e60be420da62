"""Links and tests in the documentation exist.

make check builds the pages, and checks their links and contents.
"""

import re
from pathlib import Path

import pytest

from tests.examples import ELSEWHERE

ROOT = Path(__file__).parents[1]
# Except links that leave the site, and anchors on the same page.
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")


@pytest.mark.parametrize(
    "page",
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")],
    ids=lambda page: page.name,
)
def test_every_link_leads_to_a_file(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_page_leads_to_no_site(page: str) -> None:
    """The sites of the project exist after its first release only."""
    assert "https://" not in (ROOT / page).read_text(encoding="utf-8")


def test_the_readme_fits_on_a_page_and_its_first_example_ends_by_line_thirty() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.count("\n") <= 120
    before, _, rest = readme.partition("```python")
    assert (before + rest.partition("```")[0]).count("\n") <= 30


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_target_of_make_is_in_the_menu(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    content = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"(?:`|^)make ([a-z-]+)", content, re.MULTILINE):
        assert re.search(rf"^{target}:.*##", makefile, re.MULTILINE), target


# An item of a list, and a test in its comment.
ITEM = re.compile(r"^(?:-|\d+\.) \*\*.+$", re.MULTILINE)
TEST = re.compile(r"\b(tests/[\w/]+\.py)::(test_\w+)")


def items(page: str, heading: str) -> list[str]:
    """Return the items of a section that begin in bold."""
    content = (ROOT / "docs" / page).read_text(encoding="utf-8")
    _, _, section = content.partition(f"\n{heading}\n")
    return ITEM.findall(section.partition("\n## ")[0])


def assert_tests_exist(item: str) -> None:
    listed = TEST.findall(item)
    assert listed, f"no test is listed: {item}"
    for file, name in listed:
        assert f"\ndef {name}(" in (ROOT / file).read_text(encoding="utf-8"), (
            f"{file}::{name}"
        )


@pytest.mark.parametrize("test", [text for text in ELSEWHERE.values() if "::" in text])
def test_an_example_that_is_not_followed_has_a_test(test: str) -> None:
    assert_tests_exist(test)


def test_every_guarantee_and_failure_has_tests_that_exist() -> None:
    guarantees = items("wire.md", "## Guarantees")
    failures = items("deploy.md", "## Failures")
    assert (len(guarantees), len(failures)) == (7, 9)
    for item in guarantees + failures:
        assert_tests_exist(item)
