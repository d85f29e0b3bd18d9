"""One master key for every installation that a test makes: what one process of it seals, any other opens, checkers too."""

from __future__ import annotations

from ledger.journal.encryption.data_keys import DataKeys
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.security.secrets import load_sealing_keys
from ledger.settings import Settings

MASTER_KEY = "5e" * 32


def data_keys(url: str = "") -> DataKeys:
    """The way to the data keys of a test's installation; without a `url` only for reading on somebody's connection."""
    return DataKeys(url, SealingKeys(load_sealing_keys(Settings(master_key=MASTER_KEY))))
