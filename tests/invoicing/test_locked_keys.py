"""The derivation of a key from its password beside requests."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from ledger.invoicing import locked_keys


def _priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="no other system has a priority for each thread")
def test_the_derivation_alone_has_a_low_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, derive, own = list[int](), hashlib.pbkdf2_hmac, _priority()

    def noted(*how: Any) -> bytes:
        seen.append(_priority())
        return derive(*how)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", noted)
    locked = generate_private_key(SECP256R1()).private_bytes(
        Encoding.DER, PrivateFormat.PKCS8, BestAvailableEncryption(b"12345678a")
    )
    assert locked_keys.unlock(locked, "12345678a")
    assert (seen, _priority()) == ([10], own)
