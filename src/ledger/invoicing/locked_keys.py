"""Private keys under a password, as SAT issues them: PKCS#8 in DER, encrypted by PBES2 (RFC 5958, RFC 8018).

A key states how often its derivation repeats a hash. Read that number by the structure of the DER, and derive by
`hashlib`, which lets other threads run meanwhile; the library that reads keys does not.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, NamedTuple

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

ROUNDS_MAX: Final = 100_000
"""SAT's keys state 2,048 rounds. So many take a tenth of a second."""

_PRIORITY: Final = 10
"""A tenth of a usual share where every processor is busy: requests go first."""

_SEQUENCE, _INTEGER, _OCTETS, _OBJECT = 0x30, 0x02, 0x04, 0x06

_PBES2: Final = bytes.fromhex("2a864886f70d01050d")
_PBKDF2: Final = bytes.fromhex("2a864886f70d01050c")

# RFC 8018, B.1.2. Without one, a derivation uses SHA-1.
_HASHES: Final = {
    bytes.fromhex("2a864886f70d0207"): "sha1",
    bytes.fromhex("2a864886f70d0208"): "sha224",
    bytes.fromhex("2a864886f70d0209"): "sha256",
    bytes.fromhex("2a864886f70d020a"): "sha384",
    bytes.fromhex("2a864886f70d020b"): "sha512",
}

# RFC 8018, B.2.2, and RFC 3565: each with the length of its key in bytes.
_CIPHERS: Final[dict[bytes, tuple[type[AES | TripleDES], int]]] = {
    bytes.fromhex("2a864886f70d0307"): (TripleDES, 24),
    bytes.fromhex("608648016503040102"): (AES, 16),
    bytes.fromhex("608648016503040116"): (AES, 24),
    bytes.fromhex("60864801650304012a"): (AES, 32),
}


_RSA: Final = bytes.fromhex("2a864886f70d010101")


class RsaNumbers(NamedTuple):
    """The numbers of an RSA key, in the order of PKCS#1 (RFC 8017, A.1.2)."""

    n: int
    e: int
    d: int
    p: int
    q: int
    dmp1: int
    dmq1: int
    iqmp: int

    @property
    def fit(self) -> bool:
        """Whether the numbers belong to one key. Nothing is known of whether `p` and `q` are primes."""
        n, e, d, p, q, dmp1, dmq1, iqmp = self
        return (
            min(p, q) > 2
            and p * q == n
            and (dmp1, dmq1) == (d % (p - 1), d % (q - 1))
            and e * d % (p - 1) == e * d % (q - 1) == 1
            and iqmp * q % p == 1
        )


class TooManyRounds(ValueError):
    """The key states more rounds than `ROUNDS_MAX`. The message completes the name of its field."""

    def __init__(self) -> None:
        super().__init__(f"asks for more than {ROUNDS_MAX:,} rounds of PBKDF2")


def unlock(key: bytes, password: str) -> bytes:
    """Returns the PKCS#8 key, in DER, that a key under a password contains. Call it in a thread.

    Raises TooManyRounds; ValueError if it is no such key, or if the password is another.
    """
    [content] = _members(key, _SEQUENCE)
    algorithm, encrypted = _members(content, _SEQUENCE, _OCTETS)
    derivation, encryption = _members(_parameters(algorithm, _PBES2), _SEQUENCE, _SEQUENCE)
    name, iv = _members(encryption, _OBJECT, _OCTETS)
    if name not in _CIPHERS:
        raise ValueError("another cipher")
    cipher, size = _CIPHERS[name]
    derived = _derive(_parameters(derivation, _PBKDF2), password, size)
    decryptor, unpadder = Cipher(cipher(derived), CBC(iv)).decryptor(), PKCS7(cipher.block_size).unpadder()
    return unpadder.update(decryptor.update(encrypted) + decryptor.finalize()) + unpadder.finalize()


def rsa_numbers(key: bytes) -> RsaNumbers:
    """Returns the numbers of an open PKCS#8 key in DER. Raises ValueError if it is no RSA key.

    A library that loads a key of another kind computes with its numbers at once, however long they are.
    """
    [content] = _members(key, _SEQUENCE)
    _, algorithm, inner, *_ = _elements(content)
    name, *_ = _elements(_as(algorithm, _SEQUENCE))
    if _as(name, _OBJECT) != _RSA:
        raise ValueError("another kind of key")
    [numbers] = _members(_as(inner, _OCTETS), _SEQUENCE)
    _, *parts = [int.from_bytes(_as(element, _INTEGER), "big", signed=True) for element in _elements(numbers)]
    if len(parts) != len(RsaNumbers._fields):
        raise ValueError("another number of numbers")
    return RsaNumbers(*parts)


def _derive(parameters: bytes, password: str, size: int) -> bytes:
    """Returns the key of `size` bytes that these parameters of PBKDF2 derive from a password.

    They are the salt, the rounds, the length of the key, and the hash; the last two are optional.
    """
    salt, stated, *optional = _elements(parameters)
    rounds = int.from_bytes(_as(stated, _INTEGER), "big", signed=True)
    if rounds > ROUNDS_MAX:
        raise TooManyRounds
    if rounds < 1:
        raise ValueError("no rounds")
    if optional and optional[0][0] == _INTEGER and int.from_bytes(optional.pop(0)[1], "big") != size:
        raise ValueError("another length of the key")
    hash_ = "sha1"
    if optional:
        [function] = optional
        named, *_ = _elements(_as(function, _SEQUENCE))
        name = _as(named, _OBJECT)
        if name not in _HASHES:
            raise ValueError("another hash")
        hash_ = _HASHES[name]
    # A derivation takes a core for a tenth of a second. Only the hashing has the low priority, in a thread of its own:
    # one that held the interpreter's lock would keep the requests waiting that go before it.
    with ThreadPoolExecutor(1, initializer=_lower_priority) as thread:
        return thread.submit(hashlib.pbkdf2_hmac, hash_, password.encode(), _as(salt, _OCTETS), rounds, size).result()


def _lower_priority() -> None:
    """Lowers the priority of this thread, where the system has one for each."""
    if sys.platform == "linux":
        with suppress(PermissionError):  # a container may refuse it
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _PRIORITY)


def _parameters(algorithm: bytes, expected: bytes) -> bytes:
    """Returns the parameters of an algorithm identifier. Raises ValueError if it names another algorithm."""
    name, parameters = _members(algorithm, _OBJECT, _SEQUENCE)
    if name != expected:
        raise ValueError("another algorithm")
    return parameters


def _members(content: bytes, *tags: int) -> list[bytes]:
    """Returns the contents of the elements that are all of `content`. Raises ValueError if their tags are others."""
    return [_as(element, tag) for element, tag in zip(_elements(content), tags, strict=True)]


def _as(element: tuple[int, bytes], tag: int) -> bytes:
    if element[0] != tag:
        raise ValueError("another element")
    return element[1]


def _elements(data: bytes) -> list[tuple[int, bytes]]:
    """Returns the tag and the content of each DER element in `data`. Raises ValueError if it is no DER."""
    elements, at = [], 0
    while at < len(data):
        tag, length = data[at], data[at + 1] if at + 1 < len(data) else 0x80
        begins = at + 2
        if length & 0x80:
            digits = length & 0x7F
            if not 1 <= digits <= 4:
                raise ValueError("no DER")
            length = int.from_bytes(data[begins : begins + digits], "big")
            begins += digits
        at = begins + length
        if at > len(data):
            raise ValueError("cut off")
        elements.append((tag, data[begins:at]))
    return elements
