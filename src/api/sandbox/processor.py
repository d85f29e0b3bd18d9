"""The sandbox's own processor, for the operations that only a sandbox has.

Never write to the ledger for a helper. The helper acts on the processor, and the ledger learns of deposits and answers
as it would from an outside company.
"""

from __future__ import annotations

from api.errors import no_such_operation
from api.http.dependencies import Dependencies
from ledger.processors.sandbox.processor import SandboxProcessor


def sandbox_processor(deps: Dependencies) -> SandboxProcessor:
    """Returns the processor that moves no money. Raises ApiError (404) if another processor is connected."""
    processor = deps.ledger.processor
    if not isinstance(processor, SandboxProcessor):
        raise no_such_operation()
    return processor
