"""POST {base}/sandbox/processor: how the sandbox's processor treats a merchant: as usual, down, or slow.

The processor itself stores the mode, so it holds in every process at once.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from api.dependencies import Dependencies
from api.http.decoding import BodyDecoder
from api.http.endpoint import WRITE, ScopedOperation
from api.http.request import ApiRequest
from api.http.response import ApiResponse, json_response
from api.openapi.operation import ANY, BODY, SANDBOX, OperationSpec, codes_of
from api.sandbox.processor import sandbox_processor
from ledger.processors.sandbox.charge_rows import Mode


class SetProcessorMode(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the sandbox's processor treats this merchant's next calls."""

    mode: Annotated[
        Literal["OK", "DOWN", "SLOW"],
        Meta(description="OK: as the card says. DOWN: 503 before anything was sent. SLOW: it thinks for some seconds."),
    ]
    times: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(description="For how many calls; absent: until told otherwise."),
    ] = None


_decode: Final = BodyDecoder(SetProcessorMode)


class ProcessorMode(Struct, rename="camel"):
    """How the sandbox's processor treats the merchant from now on."""

    mode: Annotated[Literal["OK", "DOWN", "SLOW"], Meta(description="As it was sent.")]
    times: Annotated[int | None, Meta(description="For how many calls; null: until told otherwise.")]


async def set_mode(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST {base}/sandbox/processor: the mode of the merchant's next calls."""
    sent = _decode(await request.body(deps.body_limit))
    await sandbox_processor(deps).set_mode(request.principal.merchant_id, Mode(sent.mode), sent.times)
    return json_response(200, ProcessorMode(mode=sent.mode, times=sent.times))


SET_PROCESSOR_MODE: Final = ScopedOperation(
    set_mode,
    WRITE,
    OperationSpec(
        name="setProcessorMode",
        summary="Make the sandbox's processor fail or dawdle",
        description="""
For this merchant alone: `DOWN` answers the next payments 503 `PROCESSOR_UNAVAILABLE` before anything was sent, `SLOW` lets
them wait. Sandbox only.
""",
        tag=SANDBOX,
        takes=SetProcessorMode,
        examples={
            "down": {"summary": "Down for one call", "value": {"mode": "DOWN", "times": 1}},
            "usual": {"summary": "As usual again", "value": {"mode": "OK"}},
        },
        answers={200: ("The mode.", ProcessorMode)},
        codes=codes_of(ANY, BODY, {503: ("PROCESSOR_UNAVAILABLE",)}),
    ),
)
