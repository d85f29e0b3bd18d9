"""Saves the card of a payment (`persist`, contract N11): its number in the vault, its method in the payment's commit.

The number is kept first, and the method is saved by the commit that announces the payment. The card therefore stays
saved whatever becomes of the payment: a payer who is sent to a challenge, or whose card is declined today, need not
enter it again. A number without a method, left by a commit that failed, is destroyed by `sweep`.

The attempt itself keeps the number, because its decision needs the id that the vault returns: the id of a number that
the customer has saved, else a new one. Only the attempt finds or creates the customer, and only its decision shows
that the order takes the payment: a number that is kept earlier is also kept for a request that is refused or only
repeats another. A number that is kept later, between decision and commit, costs a look-up of its id before the
decision, or a second decision for every card that is saved already. The attempt may run again: the same number of the
same customer keeps its id. A number that was kept for a customer whom another request created first, or whose method
was refused, stays unsettled until `sweep` destroys it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.orders.terms import BillingAddress
from ledger.domain.payment_methods.commands import SaveCard
from ledger.domain.payment_methods.decide import decide_save
from ledger.domain.payment_methods.events import Billing
from ledger.domain.payment_methods.state import SavedMethods, stream_of
from ledger.domain.rejections import ConcurrentUpdate, CustomerNotFound
from ledger.domain.streams import CUSTOMERS, PAYMENT_METHODS
from ledger.journal.append import Change
from ledger.operations.context.inputs import PaymentInput
from ledger.operations.pipeline.unit_of_work import UnitOfWork
from ledger.processors.contract import Card

_ATTEMPTS: Final = 5


class SavedCardChanges(Struct, frozen=True):
    """The id under which a card is saved, and what its commit appends or checks."""

    payment_method_id: UUID
    changes: Sequence[Change]


async def save_card(
    uow: UnitOfWork,
    customer_id: UUID,
    request: PaymentInput,
    billing: BillingAddress | None,
    *,
    customer_is_checked: bool,
) -> SavedCardChanges:
    """Keeps the number of the request's card and decides how its method is saved for an order's customer.

    The same card of the same customer is the same method, with the new expiry. `customer_is_checked` is set if the
    commit has the customer's stream already. Raises CustomerNotFound if the customer was erased,
    PaymentMethodLimitReached, ConcurrentUpdate, a Fault.
    """
    assert isinstance(request.card, Card), "only a card that came with its number is saved"
    assert request.card_summary is not None, "a card comes with its summary"
    checks = () if customer_is_checked else (await customer_check(uow, customer_id),)
    method_id, methods = await keep_number(uow, customer_id, request.card.number)
    events = decide_save(
        methods,
        SaveCard(
            payment_method_id=method_id,
            customer_id=customer_id,
            card=request.card_summary,
            at=uow.now,
            billing=billing_of(billing),
        ),
    )
    return SavedCardChanges(method_id, (uow.change(PAYMENT_METHODS, stream_of(customer_id), events), *checks))


async def customer_check(uow: UnitOfWork, customer_id: UUID) -> Change:
    """Returns a check that the customer is not erased before the commit."""
    customer = await uow.load(CUSTOMERS, customer_id)
    if customer is None or customer.erased:
        raise CustomerNotFound("The order's customer was removed: send the card without persist.")
    return uow.change(CUSTOMERS, customer_id, ())


async def keep_number(uow: UnitOfWork, customer_id: UUID, number: str) -> tuple[UUID, SavedMethods | None]:
    """Keeps a number. Returns its method's id, which the customer has or never had, and the customer's methods.

    A method that is being deleted, or a card that was not saved, may still have its number: that number is destroyed,
    and kept under a new id.
    """
    vault = uow.ledger.vault
    assert vault is not None, "without a vault no payment saves its card"
    for _ in range(_ATTEMPTS):
        method_id = await vault.keep(uow.merchant_id, customer_id, number)
        methods = await uow.load(PAYMENT_METHODS, stream_of(customer_id))
        if methods is None or not methods.had(method_id):
            return method_id, methods
        await vault.destroy(uow.merchant_id, [method_id])
    raise ConcurrentUpdate("Too many requests change this at once. Send the request again.")


def billing_of(address: BillingAddress | None) -> Billing | None:
    """Returns the billing details of a card that is saved with this address."""
    if address is None:
        return None
    return Billing(
        address_line1=address.address,
        city=address.city,
        state=address.state,
        postal_code=address.postal_code,
        country=address.country,
    )
