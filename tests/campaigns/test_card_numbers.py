"""The campaign of card numbers, in short: few ids are taken for cards, and few card numbers are not found."""

from __future__ import annotations

from random import Random

import pytest
from campaigns.card_numbers import IDS, WAYS, count_missed, count_taken, main


def test_no_id_of_a_thousand_is_taken_for_a_card_number() -> None:
    counts = list(count_taken(1_000, Random(1)))
    assert [kind for kind, *_ in counts] == list(IDS)
    assert sum(number for _, number, _ in counts) >= 1_000
    assert [kind for kind, _, taken in counts if taken] == []


def test_nearly_all_card_numbers_are_found_in_each_way_of_writing_them() -> None:
    counts = list(count_missed(2_000, Random(1)))
    assert [way for way, *_ in counts] == list(WAYS)
    assert sum(missed for *_, missed in counts) <= 10


def test_the_same_seed_makes_the_same_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--number", "600", "--seed", "3"]) == 0
    first = capsys.readouterr().out
    assert main(["--number", "600", "--seed", "3"]) == 0
    assert capsys.readouterr().out == first
    assert "ids taken for card numbers" in first
