"""The pattern of a search finds every form of a letter, and everything else literally."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.search.accents import WORDS_MAX, pattern_of, patterns_of
from projections.search.lines import fold


@pytest.mark.parametrize(
    ("search", "text"),
    [
        ("hernandez", "María Hernández"),
        ("HERNÁNDEZ", "maria hernandez"),
        ("munoz", "Muñoz"),
        ("Muñoz", "munoz"),
        ("jose", unicodedata.normalize("NFD", "José")),
        (unicodedata.normalize("NFD", "José"), "josé"),
        ("nguyen", "Nguyễn"),
        ("łódź", "łodz"),
        ("ά", "ά"),
        ("a.b|c(d)[e]\\f", "x a.b|c(d)[e]\\f"),
    ],
)
def test_a_letter_is_found_in_all_its_forms(search: str, text: str):
    assert re.search(pattern_of(fold(search)), fold(text))


@pytest.mark.parametrize(
    ("search", "text"), [("a.b", "axb"), ("a*", "a"), ("(?i)a", "a"), ("o", "ø"), ("n", "m"), ("\u0301", "a")]
)
def test_no_other_letter_is_found_and_no_character_has_a_meaning(search: str, text: str):
    assert re.search(pattern_of(fold(search)), fold(text)) is None


_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=30)


@given(_TEXTS, _TEXTS, _TEXTS)
def test_what_a_text_contains_is_found(before: str, search: str, after: str):
    assert re.search(pattern_of(fold(search)), fold(before + search + after))


@pytest.mark.parametrize(
    ("search", "words"),
    [("López  ana lópez", ["lópez", "ana"]), (" ", [" "]), ("", [""]), ("a b c d e f g h i j", [*"abcdefgh", "i j"])],
)
def test_each_word_of_a_search_is_a_pattern(search: str, words: list[str]):
    assert patterns_of(fold(search)) == [pattern_of(word) for word in words]
    assert len(words) <= WORDS_MAX + 1
