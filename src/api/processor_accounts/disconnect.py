"""DELETE /v1/processor-accounts/{name}: disconnects an account with a processor.

`ledger processors disconnect` does the same.
"""

from __future__ import annotations

from typing import Final

from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, PROCESSORS, UNREADABLE, OperationSpec, codes_of
from api.processor_accounts.documents import shown
from api.processor_accounts.fields import ACCOUNT_NAME, account_name
from api.response import ApiResponse, json_response
from ledger.operations.processor_accounts.disconnect import disconnect_account
from ledger.security.api_keys import Scope
from projections.processor_accounts import ProcessorAccountDocument


async def disconnect(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """DELETE /v1/processor-accounts/{name}: 200 with the account, also if it is disconnected already."""
    await request.optional_body(deps.body_limit)
    account = await disconnect_account(deps.ledger, request.actor, account_name(request))
    return json_response(200, shown(deps, request, account))


DISCONNECT_ACCOUNT: Final = ScopedOperation(
    disconnect,
    Scope.PROCESSORS,
    OperationSpec(
        name="disconnectProcessorAccount",
        summary="Disconnect a processor account",
        description="""
The account takes no new payments from now on, and its status is `DISCONNECTED`. Its keys are kept: what it has is
captured, refunded and looked up there as before. `PUT` connects it again. An account that is disconnected already stays
so.
""",
        tag=PROCESSORS,
        parameters=(ACCOUNT_NAME,),
        answers={200: ("The account, which is disconnected.", ProcessorAccountDocument)},
        codes=codes_of(ANY, UNREADABLE, {404: ("PROCESSOR_ACCOUNT_NOT_FOUND",), 409: ("CONCURRENT_UPDATE",)}),
    ),
)
