"""PUT /v1/processor-accounts/{name}: connects an account with a processor, or changes it.

`ledger processors connect` does the same.
"""

from __future__ import annotations

from typing import Final

from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, BODY, PROCESSORS, OperationSpec, codes_of
from api.processor_accounts.documents import shown
from api.processor_accounts.fields import ACCOUNT_NAME, ConnectProcessorAccount, new_account_name, parse_connect
from api.response import ApiResponse, json_response
from ledger.operations.processor_accounts.connect import connect_account
from ledger.processors.merchant_accounts import ACCOUNTS_MAX
from ledger.security.api_keys import Scope
from projections.processor_accounts import ProcessorAccountDocument


async def connect(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """PUT /v1/processor-accounts/{name}: 201 with a new account, 200 with one that was changed or is so already."""
    body = await request.body(deps.body_limit)
    name = new_account_name(request)
    result = await connect_account(deps.ledger, request.actor, name, parse_connect(body, name))
    return json_response(201 if result.is_new else 200, shown(deps, request, result.account))


CONNECT_ACCOUNT: Final = ScopedOperation(
    connect,
    Scope.PROCESSORS,
    OperationSpec(
        name="connectProcessorAccount",
        summary="Connect a processor account",
        description=f"""
Connects an account of the merchant with a payment processor, once the processor has accepted its secret key. Under a
name that an account has already, the request replaces its keys and its methods: send all of them. A disconnected account
is connected again. Payments that an account has stay with it. A merchant has at most {ACCOUNTS_MAX} accounts.

In the sandbox every merchant has the account `sandbox`, and can connect further simulated ones.
""",
        tag=PROCESSORS,
        parameters=(ACCOUNT_NAME,),
        takes=ConnectProcessorAccount,
        examples={
            "simulated": {
                "summary": "A second simulated account, for cards in pesos up to 5,000",
                "value": {
                    "processor": "sandbox",
                    "methods": [{"type": "CARD", "currencies": ["MXN"], "amountMax": 500000}],
                },
            },
        },
        answers={
            201: ("The new account.", ProcessorAccountDocument),
            200: ("The account, which existed before.", ProcessorAccountDocument),
        },
        codes=codes_of(
            ANY,
            BODY,
            {
                409: ("PROCESSOR_ACCOUNT_EXISTS", "PROCESSOR_ACCOUNT_LIMIT_REACHED", "CONCURRENT_UPDATE"),
                422: ("PROCESSOR_KEY_REFUSED",),
                503: ("PROCESSOR_UNAVAILABLE",),
            },
        ),
    ),
)
