"""The kinds of public events that a request names: one, several of a body, or several of a query."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from api.decoding.unknown_names import known_name
from api.errors import invalid
from ledger.domain.public_events.kinds import PATTERNS, kinds_of, unknown_patterns

_ALL: Final = "*"
_EXAMPLES: Final = ", such as payment.captured or payment_order.*"


def parse_kinds(given: Mapping[str, str]) -> frozenset[str]:
    """Returns the kinds that the parameter `type` chooses, none if it is absent. Raises ApiError (400)."""
    patterns = [text.strip() for text in given.get("type", "").split(",") if text.strip()]
    if wrong := unknown_patterns(patterns):
        text = patterns[wrong[0]]
        which = f": number {wrong[0] + 1} is none" if len(patterns) > 1 else ""
        hint = "; leave type out to get all kinds" if text == _ALL else hint_at_kind(text)
        raise invalid("type", f"must be one or more kinds of events{_EXAMPLES}{which}{hint}")
    return kinds_of(patterns)


def unknown_kind(text: str) -> str:
    """Returns what is wrong with a text in a body that is no kind of events, nor a pattern of them."""
    hint = "; send null for events to get all kinds" if text == _ALL else hint_at_kind(text)
    return f"must be a kind of events{_EXAMPLES}{hint}"


def hint_at_kind(text: str, known: Collection[str] = PATTERNS) -> str:
    """Returns the end of a sentence, with the kind or the resource type that is meant; empty if none is alike."""
    patterns = [each for each in known if each.endswith(_ALL)]
    meant = known_name(text, known) or known_name(f"{text.partition('.')[0]}.*", patterns)
    return "" if meant is None else f"; did you mean {meant}?"
