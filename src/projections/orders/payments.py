"""The payments of an order with their history: the shapes of the JSON, and how they are rendered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal
from uuid import UUID

import msgspec
import uuid_utils
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from ledger.domain.money import plain
from ledger.domain.orders.declines import payer_message
from ledger.domain.orders.payment import EntryAction, EntryStatus, Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import NextAction, PaymentStatus
from ledger.domain.orders.terms import BillingAddress, MethodType
from projections.formats import (
    AmountText,
    Currency,
    MethodKind,
    Moment,
    encode,
    for_people,
    metadata_or_null,
    method_kind,
    moment,
    render_once,
)
from projections.orders.payer_actions import CieDocument, SpeiDocument, cie_details, spei_details

_HAS_TEXT: Final = b'"payerMessage":"'

_Stage = Literal["LISTED", "MATCHED", "REFUSED"]
_STAGES: Final[Mapping[PaymentStatus, _Stage]] = {
    PaymentStatus.PENDING_SETTLEMENT: "LISTED",
    PaymentStatus.SETTLED: "MATCHED",
    PaymentStatus.CAPTURED: "REFUSED",
}
"""The stage that a batch has reported, by how far it is (`SettlementBatch.status`)."""


class PaymentEventDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One step in the history of a payment."""

    id: Annotated[
        str,
        Meta(
            description="The id of the step: the same each time that it is read.", extra_json_schema={"format": "uuid"}
        ),
    ]
    action: EntryAction
    status: Annotated[
        EntryStatus, Meta(description="UNKNOWN: the answer did not come in time, and the outcome is not known yet.")
    ]
    amount: Annotated[
        AmountText | None,
        Meta(
            description="The amount of the step, as a decimal string in minor units; null for a step without an amount."
        ),
    ]
    currency: Annotated[Currency | None, Meta(description="The currency of the amount.")]
    created_at: Moment
    reason: Annotated[
        str | None, Meta(description="The reason of a failure, or of a dispute as the processor names it.")
    ]
    reported_amount: Annotated[
        AmountText | UnsetType,
        Meta(
            description="What the payer's bank reported to contest or to take, if that is more than the payment held; "
            "absent otherwise. `amount` is the part that the payment held."
        ),
    ] = UNSET


class SettlementDocument(Struct, rename="camel"):
    """The settlement batch that last listed a payment."""

    batch_id: Annotated[str, Meta(description="The batch, as its processor names it: a payout's id at Stripe.")]
    status: Annotated[
        _Stage,
        Meta(
            description="LISTED: it will be paid out. MATCHED: it was paid out to the merchant's account. REFUSED: it "
            "was not paid out, or the bank sent it back."
        ),
    ]
    fee: Annotated[
        str | None,
        Meta(
            description="What the processor keeps for the payment, with its tax, as a decimal string in minor units of "
            "feeCurrency; null if the processor does not show it.",
            examples=["2227"],
        ),
    ]
    fee_tax: Annotated[
        str | None, Meta(description="The tax in the fee, like it; null if it is not shown.", examples=["307"])
    ]
    fee_currency: Annotated[
        str | None, Meta(description="The currency of the fee, in which the account is paid out; null without a fee.")
    ]


class PaymentDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A payment of an order. Amounts include the surcharge, except subtotalAmount."""

    id: Annotated[UUID, Meta(description="The service's id of the payment.")]
    external_id: Annotated[str | None, Meta(description="The merchant's id of the payment.")]
    status: PaymentStatus
    next_action: Annotated[NextAction | None, Meta(description="What a payment in REQUIRES_ACTION waits for.")]
    amount: Annotated[AmountText, Meta(description="The requested amount, as a decimal string in minor units.")]
    amount_formatted: Annotated[
        str, Meta(description="The amount for people, in major units.", examples=["$1,500.00 MXN"])
    ]
    subtotal_amount: AmountText
    surcharge_amount: AmountText
    authorized_amount: AmountText
    captured_amount: AmountText
    refunded_amount: AmountText
    amount_released: Annotated[
        AmountText,
        Meta(
            description="What a partial capture has left and the authorisation holds no more, as a decimal string in "
            "minor units."
        ),
    ]
    currency: Currency
    payment_method_type: MethodKind
    payment_method_id: Annotated[
        str,
        Meta(
            description="The CLABE or cash reference; for a card the id of the saved or one-time method, never "
            "its number."
        ),
    ]
    spei_details: Annotated[SpeiDocument | None, Meta(description="The account for a bank transfer.")]
    cie_details: Annotated[CieDocument | None, Meta(description="The reference for a payment in cash.")]
    late: Annotated[
        bool, Meta(description="Whether the money came after the payment's reference or its order had ended.")
    ]
    late_deposit: Annotated[bool, Meta(description="Whether money arrived after the payment had ended.")]
    virtual_terminal: Annotated[bool, Meta(description="Whether 3-D Secure was skipped.")]
    last_failed_event_reason: Annotated[str | None, Meta(description="Why the payment failed; null where it has not.")]
    last_failed_event_at: Annotated[Moment | None, Meta(description="When the payment failed; null where it has not.")]
    decline_code: Annotated[
        str | None, Meta(description="Why the payment was declined, as a code that is the same for all processors.")
    ]
    payer_message: Annotated[
        str | None,
        Meta(
            description="What the payer may read about the failure: in the language of Accept-Language, else of the "
            "customer's notification preferences, else in Spanish."
        ),
    ]
    billing_first_name: Annotated[str | None, Meta(description="Given name of the cardholder.")]
    billing_last_name: Annotated[str | None, Meta(description="Family name of the cardholder.")]
    billing_phone_number: Annotated[str | None, Meta(description="Phone of the cardholder.")]
    billing_email: Annotated[str | None, Meta(description="E-mail address of the cardholder.")]
    billing_address_line1: Annotated[str | None, Meta(description="Street and number.")]
    billing_address_line2: Annotated[str | None, Meta(description="Further line of the address.")]
    billing_city: Annotated[str | None, Meta(description="City.")]
    billing_state: Annotated[str | None, Meta(description="State.")]
    billing_postal_code: Annotated[str | None, Meta(description="Postal code.")]
    billing_country: Annotated[str | None, Meta(description="ISO 3166 country.")]
    processor: Annotated[str | None, Meta(description="The processor that is asked for the payment.")]
    processor_account: Annotated[str | None, Meta(description="The merchant's account with the processor.")]
    processor_reference: Annotated[
        str | None, Meta(description="The processor's own id of the payment; null until it has one.")
    ]
    installments: Annotated[
        int | None, Meta(description="In how many months the payer pays without interest; null for one payment.")
    ]
    settlement: Annotated[
        SettlementDocument | None,
        Meta(description="The settlement batch that last listed the payment; null before one has."),
    ]
    description: Annotated[str | None, Meta(description="Free text that came with the payment.")]
    metadata: Annotated[Raw | None, Meta(description="JSON, exactly as the merchant sent it with the payment.")]
    created_at: Moment
    updated_at: Moment
    payment_events: Annotated[list[PaymentEventDocument], Meta(description="The steps of the payment, oldest first.")]


def render_payments(order: Order) -> bytes:
    """Returns the JSON array of the order's payments, oldest first, with billing details and history."""
    return b"[" + b",".join(_each_payment(order)) + b"]"


def render_payment(order: Order, payment: Payment) -> bytes:
    """Returns the JSON object of one payment of the order: the same bytes as in `render_payments`."""
    return _each_payment(order)[order.payments.index(payment)]


def has_text_for_payers(payments: bytes) -> bool:
    """Returns whether rendered payments contain a text for payers; true even if a merchant's metadata look like one."""
    return _HAS_TEXT in payments


def in_language(payments: bytes, language: str) -> bytes:
    """Returns rendered payments with their texts for payers in a language: stored ones are in Spanish."""
    if language == "es" or not has_text_for_payers(payments):
        return payments
    translated = msgspec.json.decode(payments, type=list[dict[str, Raw]])
    for payment in translated:
        code = msgspec.json.decode(payment["declineCode"], type=str | None)
        if code is not None:
            payment["payerMessage"] = Raw(msgspec.json.encode(payer_message(code, language)))
    return msgspec.json.encode(translated)


@render_once
def _each_payment(order: Order) -> list[bytes]:
    return [encode(_payment(order, payment)) for payment in order.payments]


def _payment(order: Order, payment: Payment) -> PaymentDocument:
    started, failure = payment.started, payment.failure
    currency, amount = order.terms.currency, plain(payment.amount)
    billing = started.billing_address or order.terms.billing_address or BillingAddress()
    return PaymentDocument(
        id=started.payment_id,
        external_id=started.external_id,
        status=payment.status,
        next_action=payment.next_action,
        amount=amount,
        amount_formatted=for_people(amount, currency),
        subtotal_amount=plain(started.subtotal),
        surcharge_amount=plain(started.surcharge),
        authorized_amount=plain(payment.authorized),
        captured_amount=plain(payment.captured),
        refunded_amount=plain(payment.refunded),
        amount_released=plain(payment.released),
        currency=currency,
        payment_method_type=method_kind(started.method),
        payment_method_id=_paid_by(payment),
        spei_details=spei_details(payment),
        cie_details=cie_details(payment),
        late=payment.late,
        late_deposit=payment.late,
        virtual_terminal=started.virtual_terminal,
        last_failed_event_reason=None if failure is None else failure.message or failure.code,
        last_failed_event_at=None if failure is None else moment(failure.at),
        decline_code=None if failure is None else failure.code,
        payer_message=None if failure is None else payer_message(failure.code, "es"),
        billing_first_name=None,
        billing_last_name=None,
        billing_phone_number=None,
        billing_email=None,
        billing_address_line1=billing.address,
        billing_address_line2=None,
        billing_city=billing.city,
        billing_state=billing.state,
        billing_postal_code=billing.postal_code,
        billing_country=billing.country,
        processor=payment.processor or None,
        processor_account=payment.account or None,
        processor_reference=payment.processor_reference or payment.session_reference,
        installments=started.installments,
        settlement=_settlement(payment, currency),
        description=started.description,
        metadata=metadata_or_null(started.metadata),
        created_at=moment(started.at),
        updated_at=moment(payment.updated_at),
        payment_events=_events(payment, currency),
    )


def _settlement(payment: Payment, currency: str) -> SettlementDocument | None:
    batch = payment.batch
    if batch is None:
        return None
    return SettlementDocument(
        batch_id=batch.batch_id,
        status=_STAGES[batch.status],
        fee=None if batch.fee is None else plain(batch.fee),
        fee_tax=None if batch.fee_tax is None else plain(batch.fee_tax),
        fee_currency=None if batch.fee is None else batch.fee_currency or currency,
    )


def _events(payment: Payment, currency: str) -> list[PaymentEventDocument]:
    # The ids equal those of `ledger.domain.ids.entry_id`; this takes a quarter of the time.
    namespace = uuid_utils.UUID(int=payment.started.payment_id.int)
    return [
        PaymentEventDocument(
            id=str(uuid_utils.uuid5(namespace, str(ordinal))),
            action=entry.action,
            status=entry.status,
            amount=None if entry.amount is None else plain(entry.amount),
            currency=None if entry.amount is None else currency,
            created_at=moment(entry.at),
            reason=entry.reason,
            reported_amount=UNSET if entry.reported_amount is None else plain(entry.reported_amount),
        )
        for ordinal, entry in enumerate(payment.entries, 1)
    ]


def _paid_by(payment: Payment) -> str:
    """Returns the CLABE or reference that the payer pays to, else the id of the method (section 8.10)."""
    reference = payment.reference
    if reference is None:
        return str(payment.started.method.method_id)
    spei = payment.started.method.type is MethodType.SPEI
    return (reference.clabe if spei else reference.reference) or str(payment.started.method.method_id)
