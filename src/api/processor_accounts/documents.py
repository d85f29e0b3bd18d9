"""An account with a processor as it is answered, with the address to which its processor sends messages."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from msgspec import Meta, Struct

from api.http.dependencies import Dependencies
from ledger.domain.processor_accounts.state import ProcessorAccount
from projections.processor_accounts import ProcessorAccountDocument, account_document


class ProcessorAccountList(Struct, frozen=True, kw_only=True, rename="camel"):
    """The merchant's accounts with processors."""

    data: Annotated[list[ProcessorAccountDocument], Meta(description="The accounts, in the order of connection.")]


def document_of(deps: Dependencies, merchant_id: UUID, account: ProcessorAccount) -> ProcessorAccountDocument:
    """Returns a merchant's account as it is answered."""
    has_keys = account.terms.secret_id is not None
    url = f"{deps.public_url}/processor-messages/{merchant_id}/{account.name}" if has_keys else None
    return account_document(account, url)
