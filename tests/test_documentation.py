"""Links and diagrams of the documentation are up to date. `make check` builds the pages and checks their links."""

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
SITE = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Documentation"]
# Except links that leave the site, and anchors on the same page.
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")


@pytest.fixture(scope="module")
def diagrams() -> ModuleType:
    """Return docs/diagrams.py, a command that is in no package."""
    spec = importlib.util.spec_from_file_location("diagrams", ROOT / "docs" / "diagrams.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")], ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_link_of_the_readme_is_absolute_and_leads_to_a_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert LINK.findall(readme) == []
    targets = [target.removeprefix(SITE) for target in re.findall(r"\]\((https:[^)#\s]+)", readme)]
    assert len(targets) > 5
    for target in targets:
        source = target.replace("_images/", "").replace(".html", ".md")
        assert (ROOT / "docs" / source).is_file(), target


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_every_page_is_in_the_table_of_contents(page: Path) -> None:
    contents = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").splitlines()
    assert page.stem == "index" or page.stem in contents


@pytest.mark.parametrize("name", ["request", "timeline"])
def test_a_diagram_is_what_its_command_draws(name: str, diagrams: ModuleType) -> None:
    drawn = (ROOT / "docs" / "_diagrams" / f"{name}.svg").read_text(encoding="utf-8")
    assert drawn == getattr(diagrams, f"draw_{name}")(), "run: python docs/diagrams.py"


def test_the_readme_fits_on_a_page() -> None:
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("\n") <= 90
