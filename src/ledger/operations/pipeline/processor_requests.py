"""Requests to a payment processor: builds them from committed intents, and looks up calls that have no answer."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from ledger.back_off import back_off_s
from ledger.domain.orders.decide.outcomes import Outcome
from ledger.domain.orders.decide.unanswered_calls import can_be_repeated
from ledger.domain.orders.payment import EntryAction, Intent, Payment
from ledger.domain.orders.processor_outcomes import ActionRequired, Approved, NotSent
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import Destination, MethodType
from ledger.operations.pipeline.session_end import end_session, look_up_session_end
from ledger.processors import contract
from ledger.processors.contract import Capabilities, LookUpRequest, Payer, PayingCard, Processor
from ledger.processors.saved_card import SavedCard

A = TypeVar("A")

SILENT: Final = "The processor did not answer in time."
UNREADABLE: Final = "The processor's answer could not be read."
"""The reasons of a call to a processor whose outcome is unknown."""

_REPEAT_FIRST_S, _REPEAT_MAX_S = 5.0, 600.0
"""The first and the longest pause before a call that never reached the processor is sent again."""


class SecretInputs(Struct, frozen=True, kw_only=True):
    """What a processor call needs and no state keeps. It goes from the request to the call and nowhere else.

    A card is either the payer's, or a saved one, whose number comes from the vault at the last moment. Then the payer
    is read from the customer's stream.
    """

    card: PayingCard | None = None
    payer: Payer | None = None
    saved_card: SavedCard | None = None
    destination: Destination | None = None
    return_url: str | None = None


NO_SECRETS: Final = SecretInputs()


class Asking(Struct, frozen=True, kw_only=True):
    """How a call is looked up. With `fence`, the processor refuses a call that it does not know from then on.

    `deadline_at` is the real time until which the processor may answer, `announced_at` the one at which the call was
    first announced, None if the log does not know it.
    """

    deadline_at: datetime
    announced_at: datetime | None = None
    fence: bool = False


async def look_up_call(
    processor: Processor, merchant_id: UUID, order: Order, intent: Intent, asking: Asking
) -> Outcome | None:
    """Returns the outcome of an intent's call, or None if the processor knows no such call.

    Raises as a processor does.
    """
    request = _look_up_request(merchant_id, order, intent, asking)
    if intent.ends is not None:
        return timed(await look_up_session_end(processor, request, intent.ends), processor.capabilities)
    match intent.action:
        case EntryAction.CAPTURE:
            return await processor.look_up_capture(request)
        case EntryAction.CANCELLATION:
            return await processor.look_up_void(request)
        case EntryAction.RELEASE:
            return await processor.look_up_release(request)
        case EntryAction.REFERENCE:
            return await processor.look_up_reference(request)
        case EntryAction.REFUND if _is_payout(order.payment(_payment_id(intent))):
            return await processor.look_up_payout(request)
        case EntryAction.REFUND:
            return await processor.look_up_refund(request)
        case _:
            return timed(await processor.look_up(request), processor.capabilities)


async def ask_about_session(
    processor: Processor, merchant_id: UUID, order: Order, payment: Payment, deadline_at: datetime
) -> Outcome | None:
    """Returns what the processor shows of a payment whose payer authorises it there. Raises as a processor does."""
    question = Intent(
        action=EntryAction.AUTHENTICATION,
        processor=payment.processor,
        idempotency_key=str(payment.payment_id),
        amount=payment.amount,
        capture=False,
        deadline_at=deadline_at,
        payment_id=payment.payment_id,
    )
    return await processor.look_up(_look_up_request(merchant_id, order, question, Asking(deadline_at=deadline_at)))


def _look_up_request(merchant_id: UUID, order: Order, intent: Intent, asking: Asking) -> LookUpRequest:
    payment = order.payment(_payment_id(intent))
    session = payment.session
    return LookUpRequest(
        merchant_id=merchant_id,
        idempotency_key=intent.idempotency_key,
        deadline_at=asking.deadline_at,
        at=order.updated_at,
        order_id=order.terms.order_id,
        payment_id=payment.payment_id,
        step=intent.action,
        fence=asking.fence,
        announced_at=asking.announced_at,
        amount=intent.amount,
        currency=order.terms.currency,
        capture=intent.capture,
        final=intent.final,
        processor_reference=payment.processor_reference or payment.session_reference,
        authentication_transaction_id=intent.transaction_id or (None if session is None else session.transaction_id),
        method=payment.started.method.type,
        save_as=save_as(payment),
    )


def save_as(payment: Payment) -> UUID | None:
    """Returns the id under which the authorisation of a payment saves its card, None if it saves none."""
    return payment.started.method.method_id if payment.started.saves_card else None


def timed(answer: A, capabilities: Capabilities) -> A:
    """Returns an answer with the processor's usual times, if it names none of its own."""
    if isinstance(answer, Approved) and answer.validity_s is None:
        return replace(answer, validity_s=int(capabilities.authorization_validity_s))
    if isinstance(answer, ActionRequired) and answer.session_s is None:
        return replace(answer, session_s=int(capabilities.authentication_session_s))
    return answer


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
    if intent.ends is not None:
        return _end_session(processor, merchant_id, order, intent)
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
                    payer=secrets.payer,
                    description=payment.started.description or order.terms.description,
                    device=payment.started.device_information,
                    installments=payment.started.installments,
                    save_as=save_as(payment),
                    **about,
                )
            )
        case EntryAction.DEVICE_DATA | EntryAction.AUTHENTICATION:
            return _authenticate(processor, payment, intent, about)
        case EntryAction.REFERENCE:
            return _issue(processor, order, payment, intent, secrets, about)
        case EntryAction.CAPTURE | EntryAction.CANCELLATION | EntryAction.RELEASE | EntryAction.REFUND:
            return _move(processor, order, payment, intent, secrets, about)
        case _:
            raise AssertionError(f"no processor call exists for {intent.action}")


async def _end_session(processor: Processor, merchant_id: UUID, order: Order, intent: Intent) -> Outcome:
    payment = order.payment(_payment_id(intent))
    request = _look_up_request(merchant_id, order, intent, Asking(deadline_at=intent.deadline_at))
    assert payment.session_reference is not None, "a session that ends by a call has a name"
    void = contract.VoidRequest(
        merchant_id=merchant_id,
        idempotency_key=intent.idempotency_key,
        deadline_at=intent.deadline_at,
        at=order.updated_at,
        order_id=order.terms.order_id,
        payment_id=payment.payment_id,
        processor_reference=payment.session_reference,
    )
    assert intent.ends is not None, "the caller has checked it"
    return await end_session(processor, void, request, intent.ends)


def _authenticate(processor: Processor, payment: Payment, intent: Intent, about: dict[str, Any]) -> Awaitable[Outcome]:
    assert intent.transaction_id is not None, "a session has a name"
    request = contract.AuthenticationRequest(
        authentication_transaction_id=intent.transaction_id, capture=intent.capture, save_as=save_as(payment), **about
    )
    if intent.action is EntryAction.DEVICE_DATA:
        return processor.submit_device_data(request)
    return processor.validate_authentication(request)


def _issue(
    processor: Processor, order: Order, payment: Payment, intent: Intent, secrets: SecretInputs, about: dict[str, Any]
) -> Awaitable[Outcome]:
    asked = payment.reference_asked
    assert asked is not None, "the intent has the time at which the reference expires"
    return processor.issue_reference(
        contract.ReferenceRequest(
            method=payment.started.method.type,
            amount=intent.amount,
            currency=order.terms.currency,
            expires_at=asked.expires_at,
            payer=secrets.payer,
            description=payment.started.description or order.terms.description,
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
    return processor.pay_out(contract.PayoutRequest(destination=destination, is_last=order.cancel_requested, **about))


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
