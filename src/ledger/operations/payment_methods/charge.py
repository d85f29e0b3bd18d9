"""The card of a payment: the payer's own, which may be saved, or a saved one.

A payment that saves its card or pays by a saved one is committed together with the customer's saved methods, or with a
check that they are unchanged: a method that is deleted meanwhile makes the request decide again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.ids import parse_uuid
from ledger.domain.orders.commands import NewPayment
from ledger.domain.orders.events import OrderEvent
from ledger.domain.orders.terms import BillingAddress, MethodType, PaymentMethod
from ledger.domain.payment_methods.decide import method_to_charge, not_found
from ledger.domain.payment_methods.events import Billing
from ledger.domain.payment_methods.state import SavedMethod, stream_of
from ledger.domain.rejections import Rejected
from ledger.domain.streams import PAYMENT_METHODS
from ledger.journal.append import Change
from ledger.operations.context.card_vault import VaultMissing
from ledger.operations.context.inputs import PaymentInput
from ledger.operations.payment_methods.kept_cards import method_of_card
from ledger.operations.payment_methods.save import customer_check, save_card
from ledger.operations.pipeline.accounts import candidates
from ledger.operations.pipeline.processor_requests import SecretInputs
from ledger.operations.pipeline.unit_of_work import UnitOfWork
from ledger.processors.contract import CardToken
from ledger.processors.saved_card import SavedCard

Decide = Callable[[NewPayment], Sequence[OrderEvent]]
"""Decides on an order with a payment. Returns no events if the order has that payment already."""


class DecidedPayment(Struct, frozen=True, kw_only=True):
    """A payment with its order's events, what its commit does to the saved methods, and what its call needs."""

    payment: NewPayment
    events: Sequence[OrderEvent]
    changes: Sequence[Change] = ()
    secrets: SecretInputs


async def decide_with_card(
    uow: UnitOfWork,
    customer_id: UUID,
    request: PaymentInput,
    payment: NewPayment,
    decide: Decide,
    billing: BillingAddress | None,
    *,
    customer_is_checked: bool = False,
) -> DecidedPayment:
    """Decides on a payment with the card that the request brings, saves or names. `billing` is the order's address.

    `customer_is_checked` is set if the commit has the customer's stream already. Raises what `decide` raises,
    PaymentMethodNotFound, PaymentMethodExpired, PaymentMethodLimitReached, CustomerNotFound, CardTokenInvalid, a Fault.
    """
    if request.saved_method_id is not None:
        return await _by_saved_card(uow, customer_id, request, payment, decide, billing)
    secrets = SecretInputs(card=request.card, return_url=request.return_url)
    if request.card_refusal is not None and not _is_repeated(decide, payment):
        raise request.card_refusal
    events = decide(payment)
    if not (request.persist and events):
        return DecidedPayment(payment=payment, events=events, secrets=secrets)
    if isinstance(request.card, CardToken):
        return await _saving_token(uow, customer_id, request, payment, decide, secrets, customer_is_checked)
    address = request.billing_address or billing
    saved = await save_card(uow, customer_id, request, address, customer_is_checked=customer_is_checked)
    payment = replace(payment, method=replace(payment.method, method_id=saved.payment_method_id))
    return DecidedPayment(payment=payment, events=decide(payment), changes=saved.changes, secrets=secrets)


async def _saving_token(
    uow: UnitOfWork,
    customer_id: UUID,
    request: PaymentInput,
    payment: NewPayment,
    decide: Decide,
    secrets: SecretInputs,
    customer_is_checked: bool,
) -> DecidedPayment:
    """Returns a payment whose authorisation saves the token's card."""
    assert request.card_account is not None, "a token is one account's"
    checks = () if customer_is_checked else (await customer_check(uow, customer_id),)
    method_id, _ = await method_of_card(uow, customer_id, request.card_account, request.card_fingerprint)
    payment = replace(payment, method=replace(payment.method, method_id=method_id), saves_card=True)
    return DecidedPayment(payment=payment, events=decide(payment), changes=checks, secrets=secrets)


async def _by_saved_card(
    uow: UnitOfWork,
    customer_id: UUID,
    request: PaymentInput,
    payment: NewPayment,
    decide: Decide,
    billing: BillingAddress | None,
) -> DecidedPayment:
    try:
        method = await _method(uow, customer_id, request)
    except Rejected:
        if not _is_repeated(decide, payment):
            raise
        return DecidedPayment(payment=payment, events=(), secrets=SecretInputs())
    payment = replace(
        payment,
        method=PaymentMethod(method_id=method.payment_method_id, type=MethodType.CARD, card=method.card),
        billing_address=payment.billing_address or (None if billing else _address(method.billing)),
    )
    if method.account is not None:
        kept_at = await candidates(uow.ledger, uow.merchant_id, MethodType.CARD, method.account, is_saved=True)
        payment = replace(payment, candidates=kept_at)
    assert method.card is not None, "a live method has a card"
    card = SavedCard(
        payment_method_id=method.payment_method_id,
        exp_month=method.card.exp_month,
        exp_year=method.card.exp_year,
        cvc=None if request.saved_cvc is None else request.saved_cvc.digits,
        cardholder_name=method.card.cardholder_name,
        is_kept=method.account is not None,
    )
    unchanged = uow.change(PAYMENT_METHODS, stream_of(customer_id), ())
    return DecidedPayment(
        payment=payment,
        events=decide(payment),
        changes=(unchanged,),
        secrets=SecretInputs(saved_card=card, return_url=request.return_url),
    )


async def _method(uow: UnitOfWork, customer_id: UUID, request: PaymentInput) -> SavedMethod:
    """Returns the customer's saved card that the request names.

    Raises PaymentMethodNotFound, PaymentMethodExpired, VaultMissing.
    """
    assert request.saved_method_id is not None, "the request names a saved card"
    method_id = parse_uuid(request.saved_method_id)
    if method_id is None:
        raise not_found()
    methods = await uow.load(PAYMENT_METHODS, stream_of(customer_id))
    merchant = await uow.ledger.merchant(uow.merchant_id)
    today = uow.now.astimezone(ZoneInfo(merchant.settings.time_zone)).date()
    method = method_to_charge(methods, method_id, today)
    if method.account is None and uow.ledger.vault is None:
        raise VaultMissing
    return method


def _is_repeated(decide: Decide, payment: NewPayment) -> bool:
    """Returns whether the order has this payment already: it is shown, even if its card was deleted since, or its token
    is used up.
    """
    try:
        return not decide(payment)
    except Rejected:
        return False


def _address(billing: Billing) -> BillingAddress | None:
    """Returns the address of a saved card as a payment has it, None if it is empty."""
    address = BillingAddress(
        address=billing.address_line1,
        city=billing.city,
        state=billing.state,
        postal_code=billing.postal_code,
        country=billing.country,
    )
    return None if address == BillingAddress() else address
