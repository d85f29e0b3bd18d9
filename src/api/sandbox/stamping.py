"""POST {base}/sandbox/stamping: how the sandbox's stamping provider treats a merchant: as usual, refusing, or down.

The provider itself stores the mode, so it holds in every process at once.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal
from uuid import UUID

from msgspec import Meta, Struct

from api.decoding.bodies import BodyDecoder
from api.decoding.stored_text import check_card_data
from api.decoding.types import Text
from api.errors import conflicting, no_such_operation, required
from api.fields.values import printable
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, BODY, IDEMPOTENT, SANDBOX, OperationSpec, codes_of
from api.response import ApiResponse
from api.sandbox.once import respond_once
from ledger.invoicing.contract import Refused
from ledger.invoicing.providers.sandbox import REFUSAL, SandboxProvider

_MODE: Final = (
    "OK: every document is stamped whose seal is right and that SAT's schemas, catalogues and sums allow. REFUSE: the provider refuses, with its own code and message. "
    "DOWN: the provider cannot be reached."
)


class SetStampingMode(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to set the mode of the sandbox's stamping provider for this merchant's next calls."""

    mode: Annotated[Literal["OK", "REFUSE", "DOWN"] | None, Meta(description=f"Required. {_MODE}")] = None
    times: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(description="The number of calls with this mode. Absent: all calls until the mode is changed."),
    ] = None
    code: Annotated[
        Text | None, Meta(description="The provider's code of the refusal. Only with REFUSE.", examples=["CFDI40145"])
    ] = None
    message: Annotated[Text | None, Meta(description="The provider's words of the refusal. Only with REFUSE.")] = None


_decode: Final = BodyDecoder(SetStampingMode)


class StampingMode(Struct, rename="camel"):
    """The mode in which the sandbox's stamping provider answers the merchant's next calls."""

    mode: Annotated[Literal["OK", "REFUSE", "DOWN"], Meta(description="The mode that was sent.")]
    times: Annotated[
        int | None, Meta(description="The number of calls with this mode; null: all calls until the mode is changed.")
    ]
    code: Annotated[str | None, Meta(description="The code of the refusal, null without one.")]
    message: Annotated[str | None, Meta(description="The words of the refusal, null without one.")]


async def set_mode(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST {base}/sandbox/stamping: the mode of the merchant's next calls."""
    body = await request.body(deps.body_limit)
    sent, errors = _decode.gather(body)
    if sent.mode is None:
        errors.add(required("mode"))
    for name, text in (("code", sent.code), ("message", sent.message)):
        if text is None:
            continue
        if sent.mode not in {None, "REFUSE"}:
            errors.add(conflicting(name, "mode", "are sent together only with mode REFUSE"))
        errors.check(_stored, text, name)
    errors.refuse()
    mode = sent.mode
    assert mode, "it was checked"
    refusal = Refused(code=sent.code or REFUSAL.code, message=sent.message or REFUSAL.message)

    async def act(_: UUID) -> StampingMode:
        await _provider(deps).set_mode(request.principal.merchant_id, mode, sent.times, refusal)
        shown = refusal if mode == "REFUSE" else None
        return StampingMode(
            mode=mode,
            times=sent.times,
            code=None if shown is None else shown.code,
            message=None if shown is None else shown.message,
        )

    return await respond_once(deps, request, body, StampingMode, act)


def _stored(text: str, name: str) -> None:
    printable(text, name)
    check_card_data(text, name)


def _provider(deps: Dependencies) -> SandboxProvider:
    """Returns the simulated provider. Raises ApiError (404) if another one is connected."""
    provider = deps.ledger.invoicing.provider if deps.ledger.invoicing else None
    if not isinstance(provider, SandboxProvider):
        raise no_such_operation()
    return provider


SET_STAMPING_MODE: Final = ScopedOperation(
    set_mode,
    WRITE,
    OperationSpec(
        name="setStampingMode",
        summary="Make the sandbox's stamping provider refuse or fail",
        description="""
For this merchant only. With `REFUSE` the next documents are refused with the provider's own words, which the order's
`failureCode` and `failureReason` repeat; with `DOWN` the provider cannot be reached. Sandbox only.
""",
        tag=SANDBOX,
        parameters=(IDEMPOTENCY_KEY,),
        takes=SetStampingMode,
        examples={
            "refuse": {
                "summary": "Refuse one document",
                "value": {"mode": "REFUSE", "times": 1, "code": REFUSAL.code, "message": REFUSAL.message},
            },
            "down": {"summary": "Down for two calls", "value": {"mode": "DOWN", "times": 2}},
            "usual": {"summary": "Normal again", "value": {"mode": "OK"}},
        },
        answers={200: ("The mode.", StampingMode)},
        codes=codes_of(ANY, BODY, IDEMPOTENT, {503: ("PROCESSOR_UNAVAILABLE",)}),
        replays=True,
    ),
)
