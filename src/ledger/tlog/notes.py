"""Signed texts and their keys (C2SP signed-note), with Ed25519.

Read nothing from a note before `open_note` has verified it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

_ED25519: Final = b"\x01"
_KEY_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 64
_KEY_ID_BYTES: Final = 4
_SIGNATURES_MAX: Final = 64
"""More than the sixteen that every verifier must accept."""
_NOTE_BYTES_MAX: Final = 1 << 20
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")
_SIGNATURE_LINE: Final = re.compile(r"\u2014 (\S+) (\S+)")


class Malformed(Exception):
    """A text is not in the form that it must have. The message is the reason."""


class Unverified(Exception):
    """A text is in its form, and a signature or a hash in it is wrong or missing. The message is the reason."""


class Verifier(Struct, frozen=True):
    """A name and an Ed25519 public key of 32 bytes, by which signatures are verified."""

    name: str
    public_key: bytes

    @property
    def key_id(self) -> bytes:
        """The four bytes that begin the key's signatures."""
        named = self.name.encode() + b"\n" + _ED25519 + self.public_key
        return hashlib.sha256(named).digest()[:_KEY_ID_BYTES]

    def __str__(self) -> str:
        """Returns the key as text: a vkey."""
        return f"{self.name}+{self.key_id.hex()}+{encode_base64(_ED25519 + self.public_key)}"

    def is_valid(self, signature: bytes, text: bytes) -> bool:
        """Returns whether the key has signed a text so."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.public_key).verify(signature, text)
        except InvalidSignature:
            return False
        return True


class Signer:
    """A name and an Ed25519 private key of 32 bytes (the seed of RFC 8032). Its text form is that of its public key."""

    def __init__(self, name: str, private_key: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        assert is_key_name(name), "the settings allow no other names"
        self._key = Ed25519PrivateKey.from_private_bytes(private_key)
        self.verifier = Verifier(name, self._key.public_key().public_bytes_raw())

    def __repr__(self) -> str:
        return f"Signer({self.verifier})"

    def line(self, text: str) -> str:
        """Returns the line by which the key signs a text."""
        signature = self._key.sign(text.encode())
        return f"\u2014 {self.verifier.name} {encode_base64(self.verifier.key_id + signature)}\n"


def is_key_name(name: str) -> bool:
    """Returns whether a key may have a name: not empty, without spaces, control characters and `+`."""
    return bool(name) and "+" not in name and re.search(r"\s", name) is None and name.isprintable()


def parse_verifier(text: str) -> Verifier:
    """Returns the key of a vkey. Raises Malformed."""
    parts = text.split("+", 2)
    if len(parts) != 3 or not is_key_name(parts[0]):
        raise Malformed("a verifier key is NAME+ID+KEY, the name without spaces")
    name, key_id, encoded = parts
    key = decode_base64(encoded, "the verifier key")
    if key[:1] != _ED25519 or len(key) != 1 + _KEY_BYTES:
        raise Malformed("the verifier key is not one of Ed25519")
    verifier = Verifier(name, key[1:])
    if key_id != verifier.key_id.hex():
        raise Malformed(
            f"the verifier key has the id {key_id}, and the id of its name and key is {verifier.key_id.hex()}"
        )
    return verifier


def sign_note(text: str, signers: Sequence[Signer]) -> str:
    """Returns a text, which ends in a line feed, with a signature of each of these keys."""
    assert text.endswith("\n"), "a note consists of lines"
    return text + "\n" + "".join(signer.line(text) for signer in signers)


def open_note(note: bytes, verifiers: Iterable[Verifier]) -> str:
    """Returns the text of a note that one of these keys has signed. Signatures of other keys are ignored.

    Raises Malformed, and Unverified if no such signature is there, or a wrong one of these keys.
    """
    text, signatures = _split(note)
    known = {(verifier.name, verifier.key_id): verifier for verifier in verifiers}
    is_signed = False
    for name, key_id, signature in signatures:
        verifier = known.get((name, key_id))
        if verifier is None:
            continue
        if len(signature) != _SIGNATURE_BYTES or not verifier.is_valid(signature, text.encode()):
            raise Unverified(f"the signature of {name} with the id {key_id.hex()} is wrong")
        is_signed = True
    if not is_signed:
        names = ", ".join(f"{name} with the id {key_id.hex()}" for name, key_id in known)
        raise Unverified(f"it is not signed by {names or 'a key that was named'}")
    return text


def signers_of(note: bytes, verifiers: Iterable[Verifier]) -> list[Verifier] | None:
    """Returns the keys whose signatures a note has, in their order; None if one of them is none of these keys.

    The signatures are not verified. Raises Malformed.
    """
    known = {(verifier.name, verifier.key_id): verifier for verifier in verifiers}
    signers = [known.get((name, key_id)) for name, key_id, _ in _split(note)[1]]
    found = [signer for signer in signers if signer is not None]
    return found if len(found) == len(signers) else None


def _split(note: bytes) -> tuple[str, list[tuple[str, bytes, bytes]]]:
    """Returns the text of a note, and of each signature the name, the key's id and the bytes. Nothing is verified."""
    if len(note) > _NOTE_BYTES_MAX:
        raise Malformed(f"a note has at most {_NOTE_BYTES_MAX} bytes")
    try:
        lines = note.decode()
    except UnicodeDecodeError:
        raise Malformed("a note is UTF-8") from None
    if _CONTROL.search(lines):
        raise Malformed("a note has no control characters but line feeds")
    text, blank, signed = lines.rpartition("\n\n")
    if not blank or not signed.endswith("\n"):
        raise Malformed("a note is a text, an empty line, and lines of signatures")
    signatures = []
    for line in signed[:-1].split("\n"):
        found = _SIGNATURE_LINE.fullmatch(line)
        if found is None or not is_key_name(found[1]):
            raise Malformed("a line of a signature is a dash, a name and a signature in base64")
        signature = decode_base64(found[2], "a signature")
        if len(signature) <= _KEY_ID_BYTES:
            raise Malformed("a signature has an id of four bytes, and the signature behind it")
        signatures.append((found[1], signature[:_KEY_ID_BYTES], signature[_KEY_ID_BYTES:]))
    if len(signatures) > _SIGNATURES_MAX:
        raise Malformed(f"a note has at most {_SIGNATURES_MAX} signatures")
    return text + "\n", signatures


def encode_base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def decode_base64(text: str, what: str) -> bytes:
    """Returns the bytes of standard base64 (RFC 4648, section 4) in its one form. Raises Malformed, which names it."""
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Malformed(f"{what} is not base64") from None
    if encode_base64(value) != text:
        raise Malformed(f"{what} is not base64 in its one form")
    return value
