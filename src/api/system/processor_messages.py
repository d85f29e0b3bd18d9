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

from api.errors import ApiError, invalid, method_not_allowed
from api.http.dependencies import DependencyHolder, not_started
from api.http.request import REQUEST_SCOPE_KEY, ApiRequest
from api.operation import ANY, OperationSpec
from api.response import json_response
from ledger.processors.messages import InvalidSignature, Message, MessageUnreadable, Signed, verify

TIMESTAMP: Final = b"message-timestamp"
SIGNATURE: Final = b"message-signature"

_BODY_MAX: Final = 16 << 10
_UNKNOWN_PROCESSORS_KEY: Final = secrets.token_bytes(32)
"""Used in place of an unknown processor's key, so that the check takes the same time. No message is signed with it."""


class ProcessorMessage(Struct, kw_only=True, rename="camel"):
    """A report of a processor. Each type has further fields: a page of the documentation lists them."""

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
        Meta(description="The type of the report."),
    ]
    processor: Annotated[str, Meta(description="The processor that reports: the name in the address.", max_length=255)]
    message_id: Annotated[
        str, Meta(description="The message's id. A message with the same id is a repetition.", max_length=255)
    ]
    merchant_id: Annotated[UUID, Meta(description="The merchant whose payment the message is about.")]
    occurred_at: Annotated[datetime, Meta(description="When the reported event happened.")]
    order_id: Annotated[
        UUID | None, Meta(description="The order's id, as the ledger sent it with the call that the message follows.")
    ] = None
    payment_id: Annotated[
        UUID | None, Meta(description="The payment's id, as the ledger sent it with the same call.")
    ] = None
    processor_reference: Annotated[
        str, Meta(description="The processor's own id of the deposit, the refund or the payment.", max_length=255)
    ]


class MessageKept(Struct, rename="camel"):
    """The confirmation that a processor's message is stored on disk."""

    accepted: Annotated[Literal[True], Meta(description="Always true: the processor need not send the message again.")]
    processor_message_id: Annotated[str, Meta(description="The message's id.")]


class ProcessorMessages:
    """The endpoint. `keys` has the processors' own keys, by name: two while one is being replaced by the other."""

    def __init__(self, holder: DependencyHolder, keys: Mapping[str, Sequence[bytes]]) -> None:
        self._holder = holder
        self._keys = keys

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answers 202 to a new message and 200 to a repeated one. Raises ApiError (400, 401, 405, 413, 415), a
        Fault, and TooManyRequests.
        """
        request: ApiRequest = scope[REQUEST_SCOPE_KEY]
        if scope["method"] != "POST":
            raise method_not_allowed("POST")
        message = self._verified(request, await request.body(_BODY_MAX))
        deps = self._holder.deps
        if deps is None:
            raise not_started()
        deps.limiter.admit_processor_message(message.processor)
        request.needs_database = True
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
            raise invalid("body", "must be a message of a known type") from None
        except InvalidSignature:
            raise _wrong() from None
        if message.processor != processor:
            raise _wrong()
        return message


def _wrong() -> ApiError:
    return ApiError(
        401,
        "INVALID_SIGNATURE",
        "The message is not signed with a key of its processor, or its timestamp is more than five minutes "
        "from the present.",
    )


KEEP_MESSAGE: Final = OperationSpec(
    name="tellProcessorMessage",
    summary="Report an event at a processor",
    description="""
For payment processors, not for merchants: reports of deposits, of refunds and payouts that have ended, of disputes and
of settlement. The service stores a message once for each id, and records it on its order as soon as the order has what
the message follows. Messages may come repeatedly and in any order. `message-signature` is `v1,` and the base64 of the
HMAC-SHA256 over the timestamp, a dot and the body, under the processor's key; several signatures are separated by
spaces.
""",
    parameters=(
        {
            "name": "processor",
            "in": "path",
            "required": True,
            "description": "The processor's name, as in the setting of its keys and in its messages.",
            "schema": {"type": "string"},
        },
        {
            "name": "message-timestamp",
            "in": "header",
            "required": True,
            "description": "When the message was signed, in seconds of Unix time: at most five minutes from the "
            "present.",
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
        202: ("The message is new and stored on disk.", MessageKept),
        200: ("The message had been stored before.", MessageKept),
    },
    codes={
        400: ("VALIDATION_ERROR",),
        401: ("INVALID_SIGNATURE",),
        408: ("REQUEST_TIMEOUT",),
        413: ("BODY_TOO_LARGE",),
        414: ANY[414],
        415: ("UNSUPPORTED_MEDIA_TYPE",),
        429: ANY[429],
        431: ANY[431],
        500: ANY[500],
        503: ANY[503],
    },
)
"""The one operation that needs a signature instead of a key."""
