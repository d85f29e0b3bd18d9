"""The list of mutants: each changes a text that occurs once, and its tests exist."""

import pytest
from campaigns.mutants.guards import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_place_and_names_tests_that_exist(mutant):
    assert mutant.problem() is None


def test_no_two_mutants_have_the_same_name_or_the_same_change():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)
