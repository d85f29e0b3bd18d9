"""The rules of a merchant's log: positions and versions without a gap (I10), keys (I11), no card number (I13)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from ledger.audit.invariants.broken import Broken
from ledger.domain.streams import ClaimKind
from ledger.processors.bins import is_in_issued_range
from ledger.processors.clabe import is_clabe
from ledger.processors.pan_detection import passes_luhn

Key = tuple[ClaimKind, str]
"""The kind of a claim, and its key."""

_SHOWN_MAX: Final = 5
# A byte is a digit, a part of a word, or neither.
_SHAPE: Final = bytes(
    48 if 48 <= byte <= 57 else 97 if chr(byte).isalnum() and byte < 128 else 32 for byte in range(256)
)
_THIRTEEN: Final = b"0" * 13
# Digits that stand alone: those in a word, behind a dash or a point are a part of an id or of a number.
_DIGITS: Final = re.compile(rb"(?<![0-9A-Za-z.+/=\-])\d{13,19}(?![0-9A-Za-z+/=\-])")


def broken_positions(positions: Sequence[int], head: int) -> Iterator[Broken]:
    """Yields what is wrong with a log whose events have these positions: they are to be 1 to `head`, in order."""
    if list(positions) == list(range(1, head + 1)):
        return
    missing = sorted(set(range(1, head + 1)) - set(positions))[:_SHOWN_MAX]
    yield Broken("I10", f"positions do not run from 1 to {head}: {len(positions)} there, {missing} missing")


def broken_versions(stream_id: UUID, versions: Sequence[int]) -> Iterator[Broken]:
    """Yields what is wrong with a stream whose events have these versions: they are to be 1 to n, in order."""
    for expected, version in enumerate(versions, 1):
        if version != expected:
            yield Broken("I10", f"stream {stream_id} has version {version} where {expected} follows")
            return


def broken_claims(expected: Mapping[Key, Sequence[UUID]], claims: Mapping[Key, UUID]) -> Iterator[Broken]:
    """Yields the keys that two streams have, and the claims that do not name the stream with their key (I11)."""
    for (kind, key), streams in expected.items():
        if len(streams) > 1:
            yield Broken("I11", f"{kind.name} {key!r} is that of {streams[0]} and of {streams[1]}")
        if claims.get((kind, key)) not in streams:
            yield Broken("I11", f"{kind.name} {key!r} is claimed by {claims.get((kind, key))}, not by {streams[0]}")
    for kind, key in claims.keys() - expected.keys():
        yield Broken("I11", f"{kind.name} {key!r} is claimed, and no stream has it")


def has_card_number(text: bytes) -> bool:
    """Returns whether JSON holds the digits of a payer's card, together and alone (I13).

    Requests are searched more closely before they are accepted (see `ledger.processors.pan_detection`).
    """
    if _THIRTEEN not in text.translate(_SHAPE):
        return False
    found = (digits.decode() for digits in _DIGITS.findall(text))
    return any(passes_luhn(number) and is_in_issued_range(number) and not is_clabe(number) for number in found)
