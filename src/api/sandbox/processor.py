"""The sandbox's own processor, for the operations that only a sandbox has.

Never write to the ledger for a helper. The helper acts on the processor, and the ledger learns of deposits and answers
as it would from an outside company.
"""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta

from api.errors import no_such_operation
from api.http.dependencies import Dependencies
from ledger.domain.rejections import ProcessorAccountNotFound
from ledger.processors.sandbox.books import NAME
from ledger.processors.sandbox.processor import SandboxProcessor

AccountName = Annotated[
    str,
    Meta(
        description="The merchant's account with the sandbox's processor.",
        pattern="^[a-z0-9-]{1,32}$",
    ),
]

OWN: Final = NAME
"""The account that every merchant of a sandbox has."""


def sandbox_processor(deps: Dependencies) -> SandboxProcessor:
    """Returns the processor that moves no money. Raises ApiError (404) in production."""
    processor = deps.ledger.processors.sandbox
    if processor is None:
        raise no_such_operation()
    return processor


async def sandbox_account(deps: Dependencies, merchant_id: UUID, name: str) -> SandboxProcessor:
    """Returns the processor of a merchant's simulated account. Raises ProcessorAccountNotFound, a Fault."""
    account = await deps.ledger.processors.named(merchant_id, name)
    if account is None or not isinstance(account.processor, SandboxProcessor):
        raise ProcessorAccountNotFound(f"The merchant has no simulated account named {name}.")
    return account.processor
