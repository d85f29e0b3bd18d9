"""POST /v1/processor-accounts/{name}/check: asks the processor about an account.

`ledger processors check` does the same.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, PROCESSORS, UNREADABLE, OperationSpec, codes_of
from api.processor_accounts.fields import ACCOUNT_NAME, account_name
from api.response import ApiResponse, json_response
from ledger.domain.processor_accounts.terms import AccountMode
from ledger.operations.processor_accounts.check import check_account
from ledger.security.api_keys import Scope
from projections.processor_accounts import AccountMethodDocument, method_documents


class ProcessorAccountCheck(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a processor answers about an account."""

    reachable: Annotated[bool, Meta(description="Whether the processor answered.")]
    mode: Annotated[AccountMode, Meta(description="Whether the account moves money: LIVE.")]
    country: Annotated[str | None, Meta(description="ISO 3166-1 code of the holder's country.", examples=["MX"])]
    methods: Annotated[
        tuple[AccountMethodDocument, ...],
        Meta(
            description="All that the processor takes there now, or what is stored if it did not answer. A method that the "
            "account lacks is taken after the next `PUT`."
        ),
    ]
    problems: Annotated[list[str], Meta(description="What is wrong with the account, for people. Empty if nothing is.")]


async def check(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v1/processor-accounts/{name}/check: 200 with the processor's answer, or with what is wrong."""
    await request.optional_body(deps.body_limit)
    found = await check_account(deps.ledger, request.actor, account_name(request))
    return json_response(
        200,
        ProcessorAccountCheck(
            reachable=found.reachable,
            mode=found.mode,
            country=found.country,
            methods=method_documents(found.methods),
            problems=list(found.problems),
        ),
    )


CHECK_ACCOUNT: Final = ScopedOperation(
    check,
    Scope.PROCESSORS,
    OperationSpec(
        name="checkProcessorAccount",
        summary="Check a processor account",
        description="Asks the processor whether it accepts the account's key, and what the account can take. Changes "
        "nothing. Needs no body.",
        tag=PROCESSORS,
        parameters=(ACCOUNT_NAME,),
        answers={200: ("What the processor answers, or what is wrong.", ProcessorAccountCheck)},
        codes=codes_of(ANY, UNREADABLE, {404: ("PROCESSOR_ACCOUNT_NOT_FOUND",)}),
    ),
)
