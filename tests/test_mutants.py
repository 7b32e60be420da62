"""The list of mutants keeps up with the library; what catches them is tried by `make mutants`."""

import pytest

from tests.mutants import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_its_room(mutant: Mutant) -> None:
    whole = (ROOT / "flask_notifications" / f"{mutant.room}.py").read_text(encoding="utf-8")
    assert mutant.broken(whole) != whole
    assert all((ROOT / test).is_file() for test in mutant.tests)
