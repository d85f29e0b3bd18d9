"""Requests to a payment processor: builds them from committed intents, and looks up calls that have no answer."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from ledger.back_off import back_off_s
from ledger.domain.orders.decide.outcomes import Outcome
from ledger.domain.orders.decide.unanswered_calls import can_be_repeated
from ledger.domain.orders.payment import EntryAction, Intent, Payment
from ledger.domain.orders.processor_outcomes import NotSent
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import Destination, MethodType
from ledger.processors import contract
from ledger.processors.contract import Card, Processor
from ledger.processors.saved_card import SavedCard

_REPEAT_FIRST_S, _REPEAT_MAX_S = 5.0, 600.0
"""The first and the longest pause before a call that never reached the processor is sent again."""


class SecretInputs(Struct, frozen=True, kw_only=True):
    """What a processor call needs and no state keeps. It goes from the request to the call and nowhere else.

    A card is either the payer's, or a saved one, whose number comes from the vault at the last moment.
    """

    card: Card | None = None
    saved_card: SavedCard | None = None
    destination: Destination | None = None
    return_url: str | None = None


NO_SECRETS: Final = SecretInputs()


async def look_up_call(
    processor: Processor, merchant_id: UUID, order: Order, intent: Intent, *, fence: bool = False
) -> Outcome | None:
    """Returns the outcome of an intent's call, or None if the processor knows no such call.

    With `fence`, the processor refuses a call that it does not know from then on. Raises as a processor does.
    """
    key = intent.idempotency_key
    match intent.action:
        case EntryAction.CAPTURE:
            return await processor.look_up_capture(merchant_id, key, fence=fence)
        case EntryAction.CANCELLATION:
            return await processor.look_up_void(merchant_id, key, fence=fence)
        case EntryAction.RELEASE:
            return await processor.look_up_release(merchant_id, key, fence=fence)
        case EntryAction.REFERENCE:
            return await processor.look_up_reference(merchant_id, key, fence=fence)
        case EntryAction.REFUND if _is_payout(order.payment(_payment_id(intent))):
            return await processor.look_up_payout(merchant_id, key, fence=fence)
        case EntryAction.REFUND:
            return await processor.look_up_refund(merchant_id, key, fence=fence)
        case _:
            return await processor.look_up(merchant_id, key, fence=fence)


def not_sent(order: Order, intent: Intent) -> NotSent:
    """Returns the outcome of a call that never reached the processor, with the time of the next one if one follows.

    The recovery's own margin of five seconds comes on top of it.
    """
    if not can_be_repeated(order, intent):
        return NotSent()
    pause_s = back_off_s(intent.tries - 1, _REPEAT_MAX_S, _REPEAT_FIRST_S) - _REPEAT_FIRST_S
    return NotSent(until=datetime.now(UTC) + timedelta(seconds=pause_s))


def send_request(
    processor: Processor, merchant_id: UUID, order: Order, intent: Intent, secrets: SecretInputs
) -> Awaitable[Outcome]:
    """Sends what a committed intent announced; the awaitable resolves to the processor's answer."""
    payment_id = _payment_id(intent)
    payment = order.payment(payment_id)
    about: dict[str, Any] = {
        "merchant_id": merchant_id,
        "idempotency_key": intent.idempotency_key,
        "deadline_at": intent.deadline_at,
        "at": order.updated_at,
        "order_id": order.terms.order_id,
        "payment_id": payment_id,
    }
    match intent.action:
        case EntryAction.AUTHORIZATION:
            assert secrets.card is not None, "a card is authorised"
            return processor.authorize(
                contract.AuthorizationRequest(
                    amount=intent.amount,
                    currency=order.terms.currency,
                    card=secrets.card,
                    capture=intent.capture,
                    virtual_terminal=payment.started.virtual_terminal,
                    authenticate=not payment.started.virtual_terminal,
                    saved_card=secrets.saved_card is not None,
                    return_url=secrets.return_url,
                    **about,
                )
            )
        case EntryAction.DEVICE_DATA | EntryAction.AUTHENTICATION:
            return _authenticate(processor, intent, about)
        case EntryAction.REFERENCE:
            return _issue(processor, order, payment, intent, about)
        case EntryAction.CAPTURE | EntryAction.CANCELLATION | EntryAction.RELEASE | EntryAction.REFUND:
            return _move(processor, order, payment, intent, secrets, about)
        case _:
            raise AssertionError(f"no processor call exists for {intent.action}")


def _authenticate(processor: Processor, intent: Intent, about: dict[str, Any]) -> Awaitable[Outcome]:
    assert intent.transaction_id is not None, "a session has a name"
    request = contract.AuthenticationRequest(
        authentication_transaction_id=intent.transaction_id, capture=intent.capture, **about
    )
    if intent.action is EntryAction.DEVICE_DATA:
        return processor.submit_device_data(request)
    return processor.validate_authentication(request)


def _issue(
    processor: Processor, order: Order, payment: Payment, intent: Intent, about: dict[str, Any]
) -> Awaitable[Outcome]:
    asked = payment.reference_asked
    assert asked is not None, "the intent has the time at which the reference expires"
    return processor.issue_reference(
        contract.ReferenceRequest(
            method=payment.started.method.type,
            amount=intent.amount,
            currency=order.terms.currency,
            expires_at=asked.expires_at,
            **about,
        )
    )


def _move(
    processor: Processor, order: Order, payment: Payment, intent: Intent, secrets: SecretInputs, about: dict[str, Any]
) -> Awaitable[Outcome]:
    """Sends a request about money that the processor has under a reference of its own."""
    assert payment.processor_reference is not None, "what was granted or deposited has a name"
    about["processor_reference"] = payment.processor_reference
    if intent.action is EntryAction.CANCELLATION:
        return processor.void(contract.VoidRequest(**about))
    if intent.action is EntryAction.RELEASE:
        return processor.release(contract.ReleaseRequest(**about))
    about |= {"amount": intent.amount, "currency": order.terms.currency}
    if intent.action is EntryAction.CAPTURE:
        return processor.capture(contract.CaptureRequest(final=intent.final, **about))
    if not _is_payout(payment):
        return processor.refund(contract.RefundRequest(**about))
    to = payout_destination(order, intent) or secrets.destination
    destination = None if to is None else contract.Destination(clabe=to.clabe, account_holder=to.account_holder)
    return processor.pay_out(contract.PayoutRequest(destination=destination, **about))


def payout_destination(order: Order, intent: Intent) -> Destination | None:
    """Returns the account of a refund's payout as the order has it: None if it has none, or its payer was erased."""
    refund = None if intent.refund_id is None else order.refund(intent.refund_id)
    part = None if refund is None else refund.part(_payment_id(intent))
    return None if part is None else part.destination


def _is_payout(payment: Payment) -> bool:
    """Returns whether this payment is refunded by a transfer, because its rail has no reversal (N39)."""
    return payment.started.method.type is not MethodType.CARD


def _payment_id(intent: Intent) -> UUID:
    assert intent.payment_id is not None, "an intent is a payment's"
    return intent.payment_id
