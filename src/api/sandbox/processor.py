"""The sandbox's own processor, for the operations that only a sandbox has.

The rule a stranger would break: what a helper does, the processor does. Nothing here writes to the ledger: it learns of
deposits and answers as it would from a company outside.
"""

from __future__ import annotations

from api.dependencies import Dependencies
from api.http.errors import ApiError
from ledger.processors.sandbox.processor import SandboxProcessor


def sandbox_processor(rooms: Dependencies) -> SandboxProcessor:
    """The processor that moves no money. Raises Refusal (404) where another one is connected."""
    processor = rooms.ledger.processor
    if not isinstance(processor, SandboxProcessor):
        raise ApiError(404, "NOT_FOUND", "There is nothing at this address.")
    return processor
