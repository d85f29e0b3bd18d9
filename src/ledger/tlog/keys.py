"""The keys that sign the checkpoints of an installation's logs, under a name for each merchant.

All merchants have the same Ed25519 keys. The name, which is the origin of the log too, is a part of what is signed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from ledger.tlog.notes import Signer, Verifier, signers_of

_SIGNING: Final = 2
"""The newest key and the one before sign, so that a verifier that has either of them accepts the checkpoint."""


class LogKeys:
    """The keys of an installation, newest first, each of 32 bytes, and the beginning of its logs' origins."""

    def __init__(self, origin: str, private_keys: Sequence[bytes]) -> None:
        assert private_keys, "the master key's own is always among them"
        self._origin, self._private_keys = origin, list(private_keys)
        self.signed_by = self._digest([signer.verifier for signer in self._named(origin)[:_SIGNING]])
        """A text that changes with the origin and the keys that sign."""

    def origin(self, merchant_id: UUID) -> str:
        """Returns the origin of a merchant's log, which is the name of its keys."""
        return f"{self._origin}/{merchant_id}"

    def signers(self, merchant_id: UUID) -> list[Signer]:
        """Returns the keys that sign a merchant's checkpoints."""
        return self._named(self.origin(merchant_id))[:_SIGNING]

    def verifiers(self, merchant_id: UUID) -> list[Verifier]:
        """Returns the public keys of a merchant's log, newest first, those that sign no more included."""
        return [signer.verifier for signer in self._named(self.origin(merchant_id))]

    def signers_named_by(self, merchant_id: UUID, note: bytes) -> str | None:
        """Returns what `signed_by` was when a merchant's checkpoint was signed, by the keys that its signatures name.

        None if one of these is not known any more. Raises Malformed.
        """
        signers = signers_of(note, self.verifiers(merchant_id))
        return None if signers is None else self._digest(signers)

    def _digest(self, keys: Sequence[Verifier]) -> str:
        public_keys = [key.public_key for key in keys]
        return hashlib.sha256(b"\n".join([self._origin.encode(), *public_keys])).hexdigest()[:16]

    def _named(self, name: str) -> list[Signer]:
        return [Signer(name, key) for key in self._private_keys]
