"""The rule of the vault: every saved card has its number there, and no other number is there (V1)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from uuid import UUID

from ledger.audit.invariants.broken import Broken


def broken_vault(saved: Collection[UUID], vault: Mapping[UUID, bool]) -> Iterator[Broken]:
    """Yields what is wrong with a merchant's part of the vault.

    `saved` are the cards that were saved and not deleted. `vault` has the methods whose numbers are there, and whether
    each is settled: the worker destroys the others unless the log has their method.
    """
    for method_id in sorted(set(saved) - vault.keys()):
        yield Broken("V1", f"the saved card {method_id} has no number in the vault")
    for method_id in sorted(method_id for method_id, settled in vault.items() if settled):
        if method_id not in saved:
            yield Broken("V1", f"the vault has the number of {method_id}, which is no saved card")
