"""GET /v1/processor-accounts and /v1/processor-accounts/{name}: the merchant's accounts with processors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, PROCESSORS, OperationSpec, codes_of
from api.processor_accounts.documents import ProcessorAccountList, shown
from api.processor_accounts.fields import ACCOUNT_NAME, account_name
from api.response import ApiResponse, json_response
from ledger.domain import streams
from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.operations.processor_accounts.account import with_built_in
from ledger.security.api_keys import Scope
from projections.processor_accounts import ProcessorAccountDocument


async def list_accounts(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/processor-accounts: every account, in the order of connection."""
    accounts = await _accounts(deps, request)
    return json_response(200, ProcessorAccountList(data=[shown(deps, request, account) for account in accounts]))


async def show(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/processor-accounts/{name}: one account."""
    name = account_name(request)
    for account in await _accounts(deps, request):
        if account.name == name:
            return json_response(200, shown(deps, request, account))
    raise streams.PROCESSOR_ACCOUNTS.missing()


async def _accounts(deps: Dependencies, request: ApiRequest) -> Sequence[ProcessorAccount]:
    merchant_id = request.principal.merchant_id
    return await with_built_in(deps.ledger, merchant_id, await deps.queries.processor_accounts(merchant_id))


LIST_ACCOUNTS: Final = ScopedOperation(
    list_accounts,
    Scope.PROCESSORS,
    OperationSpec(
        name="listProcessorAccounts",
        summary="List processor accounts",
        description="Every account of the merchant with a payment processor, in the order in which they were first "
        "connected, disconnected ones too. A payment goes to the first connected one that can take it.",
        tag=PROCESSORS,
        answers={200: ("The accounts.", ProcessorAccountList)},
        codes=ANY,
    ),
)
SHOW_ACCOUNT: Final = ScopedOperation(
    show,
    Scope.PROCESSORS,
    OperationSpec(
        name="getProcessorAccount",
        summary="Get a processor account",
        description="The account as the last request left it; never its secret keys.",
        tag=PROCESSORS,
        parameters=(ACCOUNT_NAME,),
        answers={200: ("The account.", ProcessorAccountDocument)},
        codes=codes_of(ANY, {404: ("PROCESSOR_ACCOUNT_NOT_FOUND",)}),
    ),
)
