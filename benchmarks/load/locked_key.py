"""A fiscal issuer's body whose private key takes as long to open as any that the service tries, and does not open."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Final

from ledger.invoicing.certificates import generate_csd
from ledger.invoicing.issuers import TEST_ISSUER
from ledger.invoicing.locked_keys import ROUNDS_MAX

_SEQUENCE, _INTEGER, _OCTETS, _OBJECT = 0x30, 0x02, 0x04, 0x06
_PBES2, _PBKDF2 = bytes.fromhex("2a864886f70d01050d"), bytes.fromhex("2a864886f70d01050c")
_AES256_CBC: Final = bytes.fromhex("60864801650304012a")
_LENGTH: Final = 1232
"""As long as a key of 2,048 bits."""


def body() -> str:
    """Returns the body of PUT /v1/merchant/fiscal-issuer: it is refused for its key once that is derived."""
    csd = generate_csd(TEST_ISSUER.rfc, TEST_ISSUER.legal_name, "30001000000500003416")
    return json.dumps(
        {
            "rfc": TEST_ISSUER.rfc,
            "taxSystem": TEST_ISSUER.tax_system,
            "zipCode": TEST_ISSUER.zip_code,
            "certificate": b64encode(csd.certificate).decode(),
            "privateKey": b64encode(_locked()).decode(),
            "password": "12345678a",
        }
    )


def _locked() -> bytes:
    """Returns zeros as a PKCS#8 key under PBES2 (RFC 5958, RFC 8018) with the most rounds of PBKDF2, in DER."""
    rounds = _der(_INTEGER, ROUNDS_MAX.to_bytes(4, "big"))
    derivation = _der(_SEQUENCE, _der(_OBJECT, _PBKDF2), _der(_SEQUENCE, _der(_OCTETS, bytes(8)), rounds))
    cipher = _der(_SEQUENCE, _der(_OBJECT, _AES256_CBC), _der(_OCTETS, bytes(16)))
    scheme = _der(_SEQUENCE, _der(_OBJECT, _PBES2), _der(_SEQUENCE, derivation, cipher))
    return _der(_SEQUENCE, scheme, _der(_OCTETS, bytes(_LENGTH)))


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    length = len(content)
    return bytes([tag, length] if length < 128 else [tag, 0x82, *length.to_bytes(2, "big")]) + content
