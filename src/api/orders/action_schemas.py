"""The bodies of what can be done with an order that stands: a further payment, refund, cancellation, capture, authentication.

The rule a stranger would break: an amount of a refund or a capture is gross, with its surcharge; that of a payment is a part
of the subtotal. The descriptions say which.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from api.fields.people import DeviceInformation
from api.fields.types import ALLOCATIONS_MAX, Clabe, Id, LongText, PositiveNumber, Text
from api.orders.order_schemas import ChargePaymentOrder


class AddPayment(ChargePaymentOrder, frozen=True, kw_only=True, rename="camel"):
    """Pay a part of an order that allows partial payments. Other parts may be on their way."""

    description: Annotated[LongText | None, Meta(description="Free text, kept with the payment.")] = None


class Allocation(Struct, frozen=True, kw_only=True, rename="camel"):
    """What one payment gives back of a refund."""

    payment_id: Annotated[UUID, Meta(description="The service's id of the payment.")]
    amount: Annotated[
        PositiveNumber | UnsetType, Meta(description="Required. In minor units, surcharge included.", examples=[4120])
    ] = UNSET


class Destination(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the money of a transfer or a cash payment goes back to."""

    clabe: Annotated[Clabe | None, Meta(description="Required. 18 digits, the last of which checks the others.")] = None
    account_holder: Annotated[Text | None, Meta(description="Whose account it is.")] = None


class RefundPaymentOrder(Struct, frozen=True, kw_only=True, rename="camel"):
    """Give money back: the newest payments first, unless the request names them."""

    amount: Annotated[
        PositiveNumber | UnsetType,
        Meta(description="Required. In minor units, surcharge included; all of it for a full refund.", examples=[4120]),
    ] = UNSET
    reason: Annotated[Id | None, Meta(description="Why, in the merchant's words; `unspecified` where absent.")] = None
    payment_id: Annotated[UUID | None, Meta(description="The one payment to refund.")] = None
    external_id: Annotated[Id | None, Meta(description="The merchant's id of the refund, unique within the order.")] = (
        None
    )
    external_merchant_reference: Annotated[Id | None, Meta(description="Accepted for externalId.")] = None
    allocations: Annotated[
        Annotated[list[Allocation], Meta(max_length=ALLOCATIONS_MAX)] | None,
        Meta(description="How much each payment gives back; together they are the amount."),
    ] = None
    destination: Annotated[
        Destination | None, Meta(description="The account for what cannot go back the way it came.")
    ] = None


class CancelPaymentOrder(Struct, frozen=True, kw_only=True, rename="camel"):
    """Close an order that is not paid, or let one part of a split order go."""

    reason: Annotated[Id | None, Meta(description="Why, in the merchant's words.")] = None
    refund_captured: Annotated[bool | None, Meta(description="True gives back what is held; default false.")] = None
    payment_id: Annotated[
        UUID | None,
        Meta(description="The one part of a split order to let go, which stays open; comes without the other fields."),
    ] = None


class CapturePaymentOrder(Struct, frozen=True, kw_only=True, rename="camel"):
    """Take what was authorised."""

    amount: Annotated[
        PositiveNumber | UnsetType,
        Meta(description="In minor units, surcharge included; absent: all that is left of the authorisation."),
    ] = UNSET
    payment_id: Annotated[UUID | None, Meta(description="Which payment; absent: the newest that can be captured.")] = (
        None
    )


class SubmitDeviceData(Struct, frozen=True, kw_only=True, rename="camel"):
    """The payer's browser was looked at."""

    reference_id: Annotated[Id | None, Meta(description="`payerAuthentication.referenceId`, as a check.")] = None
    device_information: Annotated[DeviceInformation | None, Meta(description="For fraud checks.")] = None


class ValidatePayerAuthentication(Struct, frozen=True, kw_only=True, rename="camel"):
    """The payer came back from the challenge or the redirect."""

    authentication_transaction_id: Annotated[
        Id | None, Meta(description="Required. `payerAuthentication.authenticationTransactionId`.")
    ] = None
