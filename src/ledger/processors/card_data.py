"""Masks card numbers and security codes in a processor's texts for people.

A processor's text is masked and never refused: the fact about money that came with it has to be recorded.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ledger.processors.cvc_detection import contains_cvc
from ledger.processors.pan_detection import contains_pan

_DIGIT: Final = re.compile(r"\d")
_TEXTS: Final = ("code", "message", "reason")
"""The fields of outcomes and messages that are text for people. Ids are compared and sent back, so they stay."""

_S = TypeVar("_S", bound=Struct)


def contains_card_data(text: str) -> bool:
    """Returns whether the text holds a card number or a security code with its name."""
    return contains_pan(text) or contains_cvc(text)


def masked_text(text: str) -> str:
    """Returns a processor's text with stars for all its digits if it holds card data."""
    return _DIGIT.sub("*", text) if contains_card_data(text) else text


def masked(answer: _S) -> _S:
    """Returns a processor's outcome or message with stars for all digits of a text that holds card data."""
    changed = {
        field: _DIGIT.sub("*", text)
        for field in _TEXTS
        if isinstance(text := getattr(answer, field, None), str) and contains_card_data(text)
    }
    return replace(answer, **changed) if changed else answer
