"""POST {base}/processor-messages/{processor}: a payment processor's signed report, kept before it is applied to its
order.

Give a caller that is not the processor no information: an unknown processor, a wrong signature, an old one and another
processor's message get the same answer. 202 means that the message is on disk; a worker applies it to its order later.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final, Literal
from uuid import UUID

from msgspec import Meta, Struct
from starlette.types import Receive, Scope, Send

from api.dependencies import DependencyHolder, not_started
from api.http.errors import ApiError, invalid, method_not_allowed
from api.http.middleware import REQUEST_SCOPE_KEY
from api.http.request import ApiRequest
from api.http.response import json_response
from api.openapi.operation import ANY, OperationSpec
from ledger.processors.messages import InvalidSignature, Message, MessageUnreadable, Signed, verify

TIMESTAMP: Final = b"message-timestamp"
SIGNATURE: Final = b"message-signature"

_BODY_MAX: Final = 16 << 10
_UNKNOWN_PROCESSORS_KEY: Final = secrets.token_bytes(32)
"""Used in place of an unknown processor's key, so that the check takes as long. No message is signed with it."""


class ProcessorMessage(Struct, kw_only=True, rename="camel"):
    """What a processor tells. Each type has further fields: a page of the documentation lists them."""

    type: Annotated[
        Literal[
            "deposit-received",
            "refund-confirmed",
            "refund-failed",
            "dispute-opened",
            "dispute-won",
            "dispute-lost",
            "settlement-listed",
            "settlement-matched",
            "settlement-refused",
        ],
        Meta(description="What happened."),
    ]
    processor: Annotated[str, Meta(description="Who tells it: the name in the address.", max_length=255)]
    message_id: Annotated[
        str, Meta(description="The message's id: the same again is the same message.", max_length=255)
    ]
    merchant_id: Annotated[UUID, Meta(description="Whose payment it is about.")]
    occurred_at: Annotated[datetime, Meta(description="When it happened.")]
    order_id: Annotated[UUID | None, Meta(description="The order, as it was said with the call that this follows.")] = (
        None
    )
    payment_id: Annotated[UUID | None, Meta(description="The payment, likewise.")] = None
    processor_reference: Annotated[
        str, Meta(description="What the processor calls the deposit, the refund or the payment.", max_length=255)
    ]


class MessageKept(Struct, rename="camel"):
    """A processor's message is on disk."""

    accepted: Annotated[Literal[True], Meta(description="It need not be sent again.")]
    processor_message_id: Annotated[str, Meta(description="Its id.")]


class ProcessorMessages:
    """The endpoint. `keys` has the processors' own keys, by name: two while one is being replaced by the other."""

    def __init__(self, holder: DependencyHolder, keys: Mapping[str, Sequence[bytes]]) -> None:
        self._holder = holder
        self._keys = keys

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answers 202 to a new message and 200 to a repeated one. Raises ApiError (400, 401, 405, 413, 415), a
        Fault.
        """
        request: ApiRequest = scope[REQUEST_SCOPE_KEY]
        if scope["method"] != "POST":
            raise method_not_allowed("POST")
        message = self._verified(request, await request.body(_BODY_MAX))
        deps = self._holder.deps
        if deps is None:
            raise not_started()
        entry = await deps.delivery.keep(message)
        content = MessageKept(accepted=True, processor_message_id=message.message_id)
        await request.respond(json_response(202 if entry.is_new else 200, content), send)

    def _verified(self, request: ApiRequest, body: bytes) -> Message:
        processor = request.path_id("processor") or ""
        signed = Signed(
            body=body,
            timestamp=request.headers.get(TIMESTAMP, b"").decode("latin-1"),
            signature=request.headers.get(SIGNATURE, b"").decode("latin-1"),
        )
        try:
            message = verify(signed, self._keys.get(processor, (_UNKNOWN_PROCESSORS_KEY,)), datetime.now(UTC))
        except MessageUnreadable:
            raise invalid("body", "must be a message of a kind that is known") from None
        except InvalidSignature:
            raise _wrong() from None
        if message.processor != processor:
            raise _wrong()
        return message


def _wrong() -> ApiError:
    return ApiError(
        401,
        "INVALID_SIGNATURE",
        "The message is not signed with a key of its processor, or its timestamp is too far from the present.",
    )


KEEP_MESSAGE: Final = OperationSpec(
    name="tellProcessorMessage",
    summary="Tell what happened at a processor",
    description="""
For payment processors, not for merchants: deposits, refunds and payouts that ended, disputes, settlement. The message is kept
once for its id and taken to its order as soon as that knows what it follows, however often and in whatever order messages
come. `message-signature` is `v1,` and the base64 of the HMAC-SHA256 over timestamp, a dot and the body, under the
processor's key; several signatures stand apart by spaces.
""",
    parameters=(
        {
            "name": "processor",
            "in": "path",
            "required": True,
            "description": "The processor's name, as its keys are set and its messages say.",
            "schema": {"type": "string"},
        },
        {
            "name": "message-timestamp",
            "in": "header",
            "required": True,
            "description": "When it was signed, in seconds of Unix time: at most five minutes from now.",
            "schema": {"type": "string"},
        },
        {
            "name": "message-signature",
            "in": "header",
            "required": True,
            "description": "One signature, or one for each of two keys.",
            "schema": {"type": "string"},
        },
    ),
    takes=ProcessorMessage,
    examples={
        "deposit": {
            "summary": "A transfer arrived",
            "value": {
                "type": "deposit-received",
                "processor": "stp",
                "messageId": "abono-77120934",
                "merchantId": "019a5d0c-7c00-7000-8000-000000000001",
                "occurredAt": "2026-03-01T16:04:05.120Z",
                "reference": "646180110400000007",
                "amount": "150000",
                "currency": "MXN",
                "processorReference": "2026030140014BET0000477120934",
            },
        },
    },
    answers={
        202: ("The message is new, and on disk.", MessageKept),
        200: ("The message was known.", MessageKept),
    },
    codes={
        400: ("VALIDATION_ERROR",),
        401: ("INVALID_SIGNATURE",),
        408: ("REQUEST_TIMEOUT",),
        413: ("BODY_TOO_LARGE",),
        414: ANY[414],
        415: ("UNSUPPORTED_MEDIA_TYPE",),
        431: ANY[431],
        500: ANY[500],
        503: ANY[503],
    },
)
"""The one operation that needs a signature instead of a key."""
