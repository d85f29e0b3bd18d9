"""Verifies that an event is in a signed log: `python docs/how-to/verify_proof.py PROOF ENTRY VKEY`.

PROOF is a file of C2SP tlog-proof, ENTRY has the bytes of the entry, VKEY is the log's public key. It needs the package
`cryptography` and nothing of this project. Exits 0 if the proof holds, 1 if not, 2 if it cannot be read.
"""

import base64
import hashlib
import sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def is_signed(note: str, vkey: str) -> bool:
    """Whether the key has signed the note (C2SP signed-note, Ed25519)."""
    name, _, rest = vkey.partition("+")
    key_id, _, encoded = rest.partition("+")
    key = base64.b64decode(encoded, validate=True)
    if key[:1] != b"\x01" or sha256(name.encode(), b"\n", key)[:4].hex() != key_id:
        raise ValueError("the key is no NAME+ID+KEY of Ed25519, or its id is wrong")
    text, _, signatures = note.rpartition("\n\n")
    text += "\n"
    if text.split("\n")[0] != name:  # a key of one log must not sign for another
        return False
    for line in signatures.splitlines():
        _, signer, signature = line.split(" ")
        found = base64.b64decode(signature, validate=True)
        if signer == name and found[:4].hex() == key_id:
            try:
                Ed25519PublicKey.from_public_bytes(key[1:]).verify(found[4:], text.encode())
            except InvalidSignature:
                return False
            return True
    return False


def is_included(entry: bytes, index: int, size: int, proof: list[bytes], root: bytes) -> bool:
    """Whether the entry is at this index of the tree (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    node, last, computed = index, size - 1, sha256(b"\x00", entry)
    for sibling in proof:
        if last == 0:
            return False
        if node & 1 or node == last:
            computed = sha256(b"\x01", sibling, computed)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            computed = sha256(b"\x01", computed, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and computed == root


def verify(file: bytes, entry: bytes, vkey: str) -> tuple[int, str, int] | None:
    """The position of the event, the origin and the size of the log; None if the proof does not hold."""
    head, _, note = file.decode().partition("\n\n")
    first, *lines = head.split("\n")
    if first != "c2sp.org/tlog-proof@v1":
        raise ValueError("the proof is no file of tlog-proof")
    if lines[0].startswith("extra "):
        lines.pop(0)
    word, index = lines.pop(0).split(" ")
    if word != "index":
        raise ValueError("the proof has no index")
    proof = [base64.b64decode(line, validate=True) for line in lines]
    origin, size, root, *_ = note.split("\n")
    if not is_signed(note, vkey):
        return None
    if not is_included(entry, int(index), int(size), proof, base64.b64decode(root, validate=True)):
        return None
    return int(index) + 1, origin, int(size)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(sys.stderr.write("usage: verify_proof.py PROOF ENTRY VKEY\n") and 2)
    try:
        with open(sys.argv[1], "rb") as proof_file, open(sys.argv[2], "rb") as entry_file:  # noqa: PTH123 - one import less
            found = verify(proof_file.read(), entry_file.read(), sys.argv[3])
    except (ValueError, IndexError, OSError) as wrong:
        sys.exit(sys.stderr.write(f"not readable: {wrong}\n") and 2)
    if found is None:
        sys.exit("the proof does not hold")
    sys.stdout.write("the event at position {} is in the log {} of {} events\n".format(*found))
