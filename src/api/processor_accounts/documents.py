"""The merchant's accounts with processors as they are answered."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from api.http.dependencies import Dependencies
from api.http.request import ApiRequest
from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.operations.processor_accounts.account import accounts_of
from projections.processor_accounts import ProcessorAccountDocument, account_document


class ProcessorAccountList(Struct, frozen=True, kw_only=True, rename="camel"):
    """The merchant's accounts with processors."""

    data: Annotated[list[ProcessorAccountDocument], Meta(description="The accounts, in the order of connection.")]


def shown(deps: Dependencies, request: ApiRequest, account: ProcessorAccount) -> ProcessorAccountDocument:
    """Returns an account of the request's merchant as it is answered."""
    merchant_id, health = request.principal.merchant_id, deps.ledger.health
    messages_url = accounts_of(deps.ledger).messages_url(merchant_id, account)
    return account_document(account, messages_url, partial(health.state, merchant_id, account.name))
