"""One key for all generated certificates of a test run: a new one takes half a second of processor time."""

from functools import lru_cache

import pytest

from ledger.invoicing import certificates

_kept = lru_cache(certificates.generate_csd)


@pytest.fixture(autouse=True)
def kept_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the sandbox's issuers and its stamping provider use keys that were generated before."""
    for module in ("issuers", "providers.sandbox"):
        monkeypatch.setattr(f"ledger.invoicing.{module}.generate_csd", _kept)
