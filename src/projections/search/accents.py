"""A search without regard to accents, as regular expressions of Postgres: `hernandez ana` finds Ana Hernández.

The names of Spanish are typed with and without their accents. Texts keep theirs, so a search allows every form of a
letter. Never put a character of a search into the pattern unescaped.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Final

_LATIN: Final = (range(0xC0, 0x250), range(0x1E00, 0x1F00))
"""Where Unicode has Latin letters with marks: Latin-1, Latin Extended-A and -B, Latin Extended Additional."""

_MARKS: Final = "[\u0300-\u036f]*"
"""The combining marks that may follow a letter, in a text that has them apart."""


WORDS_MAX: Final = 8
"""How many words of a search are found apart. Postgres keeps 32 compiled patterns, and compiles more for each row."""


def patterns_of(folded: str) -> list[str]:
    """Returns the patterns of the words of a folded search: a text is found that has all of them, in any order. What
    comes after so many words is one more, and a search of spaces alone is one.
    """
    return [pattern_of(word) for word in dict.fromkeys(folded.split(maxsplit=WORDS_MAX)) or (folded,)]


def pattern_of(folded: str) -> str:
    """Returns the pattern that finds a folded search in folded texts. What is no Latin letter is matched literally."""
    return "".join(_parts(folded))


def _parts(folded: str) -> Iterator[str]:
    is_behind_letter = False
    for character in folded:
        if is_behind_letter and "\u0300" <= character <= "\u036f":
            continue  # a mark of the letter before, which is any or none
        base = _BASES.get(character)
        is_behind_letter = base is not None
        if base is not None:
            yield _FORMS[base]
        elif character.isascii() and not character.isalnum():
            yield f"\\{character}"
        else:
            yield character


def _bases() -> Iterator[tuple[str, str]]:
    """Yields each letter that a folded text can have with marks, and the letter of ASCII that it is without them."""
    for block in _LATIN:
        for letter in dict.fromkeys(chr(code).casefold() for code in block):
            base, *marks = list(unicodedata.normalize("NFD", letter))
            if len(letter) == 1 and marks and base.isascii() and all(map(unicodedata.combining, marks)):
                yield letter, base


def _forms(bases: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for base in dict.fromkeys(bases.values()):
        yield base, f"[{base}{''.join(sorted(each for each, of in bases.items() if of == base))}]{_MARKS}"


_MARKED: Final[Mapping[str, str]] = dict(_bases())
_BASES: Final[Mapping[str, str]] = {**_MARKED, **{base: base for base in _MARKED.values()}}
_FORMS: Final[Mapping[str, str]] = dict(_forms(_MARKED))
"""The pattern of each letter, by the letter without marks."""
