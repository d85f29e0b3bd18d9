"""The file that proves an entry without this service (C2SP tlog-proof), and its verification."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from ledger.tlog.checkpoints import Checkpoint, open_checkpoint, parse_hash, parse_whole
from ledger.tlog.merkle import leaf_hash, verify_inclusion
from ledger.tlog.notes import Malformed, Unverified, Verifier, decode_base64, encode_base64

_FIRST_LINE: Final = "c2sp.org/tlog-proof@v1"
_EXTRA: Final = "extra "
_INDEX: Final = "index "
_HASHES_MAX: Final = 63
"""A proof in the largest tree has no more."""


class Proof(Struct, frozen=True):
    """The index of an entry, its inclusion proof from the leaf to the root, and the checkpoint as it was signed."""

    index: int
    hashes: list[bytes]
    checkpoint: bytes


def encode_proof(proof: Proof) -> bytes:
    """Returns a proof as a file."""
    lines = [_FIRST_LINE, f"{_INDEX}{proof.index}", *map(encode_base64, proof.hashes), "", ""]
    return "\n".join(lines).encode() + proof.checkpoint


def parse_proof(file: bytes) -> Proof:
    """Returns the proof of a file. Nothing is verified, and extra data is ignored. Raises Malformed."""
    head, blank, checkpoint = file.partition(b"\n\n")
    try:
        lines = head.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise Malformed("a proof is ASCII text up to its checkpoint") from None
    if lines.pop(0) != _FIRST_LINE or not blank:
        raise Malformed(f"a proof begins with {_FIRST_LINE}, and has an empty line before its checkpoint")
    if lines and lines[0].startswith(_EXTRA):
        decode_base64(lines.pop(0).removeprefix(_EXTRA), "the extra data")
    if not lines or not lines[0].startswith(_INDEX):
        raise Malformed("a proof has a line with the index of the entry")
    index = parse_whole(lines.pop(0).removeprefix(_INDEX), "the index of the entry")
    if len(lines) > _HASHES_MAX:
        raise Malformed(f"a proof has at most {_HASHES_MAX} hashes")
    return Proof(index, [parse_hash(line, "a hash of the proof") for line in lines], checkpoint)


def verify_proof(file: bytes, entry: bytes, verifiers: Iterable[Verifier]) -> tuple[int, Checkpoint]:
    """Returns the index of an entry and the checkpoint of a file that proves it.

    Raises Malformed, and Unverified: not signed by one of these keys, or about another entry.
    """
    proof = parse_proof(file)
    checkpoint = open_checkpoint(proof.checkpoint, verifiers)
    if not verify_inclusion(leaf_hash(entry), proof.index, checkpoint.size, proof.hashes, checkpoint.root):
        raise Unverified(
            f"the entry is not at index {proof.index} of the {checkpoint.size} entries of the checkpoint: the entry or "
            "the proof was changed"
        )
    return proof.index, checkpoint
