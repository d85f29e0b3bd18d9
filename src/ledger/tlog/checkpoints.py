"""A signed size and root of a tree (C2SP tlog-checkpoint)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from ledger.tlog.merkle import HASH_BYTES
from ledger.tlog.notes import (
    Malformed,
    Signer,
    Unverified,
    Verifier,
    decode_base64,
    encode_base64,
    open_note,
    sign_note,
)

_WHOLE: Final = re.compile(r"0|[1-9]\d{0,18}", re.ASCII)


class Checkpoint(Struct, frozen=True):
    """The root of the tree of so many entries of the log that has this origin."""

    origin: str
    size: int
    root: bytes


def sign_checkpoint(checkpoint: Checkpoint, signers: Sequence[Signer]) -> str:
    """Returns a checkpoint as a note that these keys have signed."""
    return sign_note(f"{checkpoint.origin}\n{checkpoint.size}\n{encode_base64(checkpoint.root)}\n", signers)


def open_checkpoint(note: bytes, verifiers: Iterable[Verifier]) -> Checkpoint:
    """Returns a checkpoint that one of these keys has signed: one that has the name of the checkpoint's origin.

    Raises Malformed, and Unverified.
    """
    origin = note.partition(b"\n")[0].decode(errors="replace")  # a key of one log must not sign for another
    named = [verifier for verifier in verifiers if verifier.name == origin]
    if not named:
        raise Unverified(f"the checkpoint is of the log {origin!r}, of which no key was given")
    return parse_checkpoint(open_note(note, named))


def parse_checkpoint(text: str) -> Checkpoint:
    """Returns the checkpoint of a note's text. Lines behind the root are ignored. Raises Malformed."""
    lines = text.split("\n")
    if len(lines) < 4 or lines.pop() or not all(lines):
        raise Malformed("a checkpoint has a line each for the origin, the size and the root, and no empty line")
    origin, size, root = lines[:3]
    return Checkpoint(origin, parse_whole(size, "the size of the checkpoint"), parse_hash(root, "the root"))


def parse_whole(text: str, what: str) -> int:
    """Returns a whole number without leading zeros, below 10 ** 19. Raises Malformed, which names it."""
    if _WHOLE.fullmatch(text) is None:
        raise Malformed(f"{what} is not a whole number without leading zeros")
    return int(text)


def parse_hash(text: str, what: str) -> bytes:
    """Returns a hash of 32 bytes from base64. Raises Malformed, which names it."""
    value = decode_base64(text, what)
    if len(value) != HASH_BYTES:
        raise Malformed(f"{what} has {len(value)} bytes, and a hash has {HASH_BYTES}")
    return value
