"""POST {base}/sandbox/processor: sets how the sandbox's processor treats a merchant: as usual, down, or slow.

The processor itself stores the mode, so it holds in every process at once.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal
from uuid import UUID

from msgspec import Meta, Struct

from api.decoding.bodies import BodyDecoder
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, BODY, IDEMPOTENT, SANDBOX, OperationSpec, codes_of
from api.response import ApiResponse
from api.sandbox.once import respond_once
from api.sandbox.processor import OWN, AccountName, sandbox_account
from ledger.processors.sandbox.charge_rows import Mode


class SetProcessorMode(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to set the mode of the sandbox's processor for this merchant's next calls."""

    mode: Annotated[
        Literal["OK", "DOWN", "SLOW"],
        Meta(
            description="OK: the answer depends on the card. DOWN: 503 before anything is sent. SLOW: the answer comes "
            "after some seconds."
        ),
    ]
    times: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(description="The number of calls with this mode. Absent: all calls until the mode is changed."),
    ] = None
    account: AccountName = OWN


_decode: Final = BodyDecoder(SetProcessorMode)


class ProcessorMode(Struct, rename="camel"):
    """The mode in which the sandbox's processor answers the merchant's next calls."""

    mode: Annotated[Literal["OK", "DOWN", "SLOW"], Meta(description="The mode that was sent.")]
    times: Annotated[
        int | None, Meta(description="The number of calls with this mode; null: all calls until the mode is changed.")
    ]


async def set_mode(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST {base}/sandbox/processor: the mode of the merchant's next calls."""
    body = await request.body(deps.body_limit)
    sent, errors = _decode.gather(body)
    errors.refuse()

    async def act(_: UUID) -> ProcessorMode:
        processor = await sandbox_account(deps, request.principal.merchant_id, sent.account)
        await processor.set_mode(request.principal.merchant_id, Mode(sent.mode), sent.times)
        return ProcessorMode(mode=sent.mode, times=sent.times)

    return await respond_once(deps, request, body, ProcessorMode, act)


SET_PROCESSOR_MODE: Final = ScopedOperation(
    set_mode,
    WRITE,
    OperationSpec(
        name="setProcessorMode",
        summary="Make the sandbox's processor fail or answer slowly",
        description="""
For this merchant and one account only. With `DOWN` the next payments are answered with 503 `PROCESSOR_UNAVAILABLE` before anything is
sent, and refunds, captures and voids are sent again by the service; with `SLOW` they are answered after some seconds. Sandbox only.
""",
        tag=SANDBOX,
        parameters=(IDEMPOTENCY_KEY,),
        takes=SetProcessorMode,
        examples={
            "down": {"summary": "Down for one call", "value": {"mode": "DOWN", "times": 1}},
            "usual": {"summary": "Normal again", "value": {"mode": "OK"}},
        },
        answers={200: ("The mode.", ProcessorMode)},
        codes=codes_of(ANY, BODY, IDEMPOTENT, {404: ("PROCESSOR_ACCOUNT_NOT_FOUND",), 503: ("PROCESSOR_UNAVAILABLE",)}),
        replays=True,
    ),
)
