"""Answers that are put together from bytes and dicts when a request is answered, as Structs, so that they can be described.

The rule a stranger would break: these are never encoded. A test sends requests and holds the answers to them.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from api.http.errors import FieldError
from ledger.domain.orders.declines import Advice
from ledger.domain.orders.statuses import OrderStatus
from projections.lists.pages import Pagination
from projections.orders.documents import OrderDocument
from projections.orders.payments import PaymentDocument
from projections.orders.refunds import RefundDocument


class Error(Struct, kw_only=True, rename="camel"):
    """What every answer that is not a 2xx has in common. Match on `code`; messages are for people and may change."""

    message: Annotated[str, Meta(description="What is wrong, for people. Never repeats what was sent.")]
    code: Annotated[str, Meta(description="What is wrong, for programs. Permanent.", examples=["VALIDATION_ERROR"])]
    request_id: Annotated[str, Meta(description="The request's id, as in the header x-request-id.")]
    errors: Annotated[list[FieldError] | UnsetType, Meta(description="The fields that are wrong. With a 400 only.")] = (
        UNSET
    )


class Conflict(Error, kw_only=True, rename="camel"):
    """A request that is right in itself and cannot be carried out as things stand."""

    field: Annotated[str | UnsetType, Meta(description="The field that does not agree with what stands.")] = UNSET
    current_status: Annotated[
        str | UnsetType, Meta(description="The order's status, or that of the payment which is in the way.")
    ] = UNSET
    allowed_statuses: Annotated[
        list[OrderStatus] | UnsetType, Meta(description="The statuses in which it could be carried out.")
    ] = UNSET
    amount_pending: Annotated[Decimal | UnsetType, Meta(description="What is still to be paid, in minor units.")] = (
        UNSET
    )
    amount_reserved: Annotated[
        Decimal | UnsetType, Meta(description="How much of that other payments have reserved, in minor units.")
    ] = UNSET
    refundable_amount: Annotated[Decimal | UnsetType, Meta(description="What can be refunded, in minor units.")] = UNSET
    authorized_amount: Annotated[
        Decimal | UnsetType, Meta(description="What is left of the authorisation, in minor units.")
    ] = UNSET
    expected_amount: Annotated[
        Decimal | UnsetType, Meta(description="The only amount that is taken, in minor units.")
    ] = UNSET
    payment_id: Annotated[UUID | UnsetType, Meta(description="The payment that is in the way.")] = UNSET


class Wait(Struct, rename="camel"):
    """How long to wait."""

    code: Annotated[Literal["RATE_LIMIT_EXCEEDED"], Meta(description="The same as outside.")]
    message: Annotated[str, Meta(description="The same as outside.")]
    retry_after: Annotated[int, Meta(description="Seconds, as in the header Retry-After.")]


class TooManyRequests(Error, kw_only=True, rename="camel"):
    """The key has used up its requests."""

    error: Wait


class Declined(Error, kw_only=True, rename="camel"):
    """The payment was declined. Something happened all the same: the order holds the failed payment and can be read."""

    decline_code: Annotated[str, Meta(description="Why, in words that no processor owns.", examples=["CARD_EXPIRED"])]
    retryable: Annotated[bool, Meta(description="Whether the same card, unchanged, may be approved another time.")]
    advice: Annotated[Advice, Meta(description="What helps.")]
    id: Annotated[UUID, Meta(description="The order.")]
    external_id: Annotated[str, Meta(description="The merchant's id of the order.")]
    status: Annotated[OrderStatus, Meta(description="The order's status: FAILED, or unchanged on a split order.")]
    payment_order: Annotated[OrderDocument, Meta(description="The order with the payment that failed.")]


class OrderPage(Struct, rename="camel"):
    """A page of the merchant's orders, newest first unless asked otherwise."""

    data: Annotated[list[OrderDocument], Meta(description="The orders, without their payments.")]
    pagination: Pagination


class OrderWithRefund(OrderDocument, frozen=True, kw_only=True, rename="camel"):
    """A payment order as a refund is answered: with the refund that was asked for."""

    refund: RefundDocument


class PaymentPage(Struct, rename="camel"):
    """The payments of an order."""

    data: Annotated[list[PaymentDocument], Meta(description="The payments, oldest first.")]
    pagination: Pagination


class RefundPage(Struct, rename="camel"):
    """The refunds of an order."""

    data: Annotated[list[RefundDocument], Meta(description="The refunds, oldest first.")]
    pagination: Pagination


class Live(Struct):
    """The process answers."""

    status: Annotated[Literal["live"], Meta(description="Always this.")]


class Checks(Struct):
    """What was looked at."""

    database: Annotated[bool, Meta(description="Whether the database answers.")]
    writer: Annotated[bool, Meta(description="Whether the journal writes.")]
    reactions: Annotated[bool, Meta(description="Whether what follows from events is less than a minute behind.")]


class Readiness(Struct):
    """Whether the service can serve, and what is in the way."""

    status: Annotated[Literal["ready", "not ready"], Meta(description="Ready where all checks are true.")]
    checks: Checks


class ClockReading(Struct, rename="camel"):
    """The merchant's clock."""

    now: Annotated[datetime, Meta(description="The merchant's present moment.")]


class ClockMoved(Struct, rename="camel"):
    """The merchant's clock after a move."""

    now: Annotated[datetime, Meta(description="The merchant's present moment.")]
    jobs_run: Annotated[int, Meta(ge=0, description="How many jobs became due on the way, and have run.")]


class ProcessorMode(Struct, rename="camel"):
    """How the sandbox's processor treats the merchant from now on."""

    mode: Annotated[Literal["OK", "DOWN", "SLOW"], Meta(description="As it was sent.")]
    times: Annotated[int | None, Meta(description="For how many calls; null: until told otherwise.")]


class Reported(Struct, rename="camel"):
    """What became of a message of the sandbox's processor."""

    accepted: Annotated[Literal[True], Meta(description="The message is on disk.")]
    processor_message_id: Annotated[str, Meta(description="The processor's own id of it.")]
    waits_for: Annotated[str | None, Meta(description="Why no order has taken it in, where none has.")]
    payment_order: Annotated[OrderDocument | None, Meta(description="The order that has taken it in.")]


class SettlementLine(Struct, rename="camel"):
    """What a batch says of a payment."""

    payment_order_id: Annotated[UUID, Meta(description="The order.")]
    payment_id: Annotated[UUID, Meta(description="The payment.")]
    stage: Annotated[Literal["LISTED", "MATCHED", "REFUSED"], Meta(description="How far it is.")]
    batch_id: Annotated[str, Meta(description="The batch that it stands in.")]
    processor_message_id: Annotated[str, Meta(description="The processor's own id of the message.")]
    waits_for: Annotated[str | None, Meta(description="Why the order has not taken it in, where it has not.")]


class Settled(Struct, rename="camel"):
    """A settlement batch."""

    accepted: Annotated[Literal[True], Meta(description="Every line is on disk.")]
    batch_id: Annotated[str, Meta(description="The id of the batch.")]
    lines: Annotated[list[SettlementLine], Meta(description="The lines, stage by stage.")]


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
