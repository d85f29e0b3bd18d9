"""Cards that came as tokens and that their processors keep: how they are saved, and how they are forgotten.

A processor keeps a card once it has approved it. Its reference is stored first, and the method is saved by the commit
of the approval: with the payment's outcome, or with that of its verification. A reference without a method, left by a
commit that failed, is forgotten by `sweep`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from uuid_utils.compat import uuid7

from ledger.domain.orders.payment import Payment
from ledger.domain.orders.processor_outcomes import Approved
from ledger.domain.orders.state import Order
from ledger.domain.payment_methods.commands import SaveCard
from ledger.domain.payment_methods.decide import decide_save, require_room
from ledger.domain.payment_methods.state import SavedMethods, stream_of
from ledger.domain.rejections import MethodNotEnabled, PaymentMethodLimitReached
from ledger.domain.streams import CUSTOMERS, PAYMENT_METHODS
from ledger.journal.append import Change
from ledger.operations.context.ledger import Ledger
from ledger.operations.payment_methods.save import billing_of
from ledger.operations.pipeline.accounts import processor_of
from ledger.operations.pipeline.unit_of_work import UnitOfWork
from ledger.postgres.faults import Fault
from ledger.processors.card_references import CardReferences, KeptCard
from ledger.processors.contract import CardToken, ForgetCardRequest

_log = structlog.get_logger()

_FORGET_S: Final = 10.0
_GIVE_UP: Final = timedelta(days=7)
"""For how long a processor is asked to forget a card. Then its reference is destroyed here alone."""


def references_of(ledger: Ledger) -> CardReferences:
    """Returns the references of kept cards. Raises MethodNotEnabled in a process that has none."""
    if ledger.card_references is None:
        raise MethodNotEnabled("Saving cards by token is not enabled for this merchant: leave out persist.")
    return ledger.card_references


async def method_of_card(
    uow: UnitOfWork, customer_id: UUID, account: str, fingerprint: str | None
) -> tuple[UUID, SavedMethods | None]:
    """Returns the id under which a token's card is saved, and the customer's methods.

    The same card at the same account is the same method. A new one gets a new id. Raises PaymentMethodLimitReached, a
    Fault.
    """
    methods = await uow.load(PAYMENT_METHODS, stream_of(customer_id))
    if methods is None:
        return uuid7(), None
    if fingerprint is not None:
        references = references_of(uow.ledger)
        for method_id in await references.same_card(uow.merchant_id, customer_id, account, fingerprint):
            method = methods.method(method_id)
            if (method is not None and method.account == account) or methods.open_verification(method_id) is not None:
                return method_id, methods
    require_room(methods)
    return uuid7(), methods


async def keep_card(
    ledger: Ledger, merchant_id: UUID, customer_id: UUID, payment_method_id: UUID | None, account: str, answer: object
) -> None:
    """Stores the reference of a card that an approval has saved as `payment_method_id`. Raises a Fault."""
    if payment_method_id is None or not isinstance(answer, Approved) or answer.saved_card is None:
        return
    references = references_of(ledger)
    await references.keep(merchant_id, customer_id, payment_method_id, account, answer.saved_card)


async def saved_with(uow: UnitOfWork, order: Order, payment: Payment) -> Sequence[Change]:
    """Returns the changes that save the card of a payment in the commit of its authorisation.

    There are none if the processor has not kept the card, if the customer is erased, or has no room for another one:
    the payment counts in any case. Raises a Fault.
    """
    started, customer_id = payment.started, order.terms.customer_id
    method_id, account = started.method.method_id, payment.account
    kept = await references_of(uow.ledger).find(uow.merchant_id, method_id, account)
    customer = await uow.load(CUSTOMERS, customer_id)
    if kept is None or started.method.card is None or customer is None or customer.erased or order.payer_forgotten:
        return ()
    methods = await uow.load(PAYMENT_METHODS, stream_of(customer_id))
    if methods is not None and methods.had(method_id):
        return ()  # it was deleted while the same card was paid by
    command = SaveCard(
        payment_method_id=method_id,
        customer_id=customer_id,
        card=started.method.card,
        at=uow.now,
        billing=billing_of(started.billing_address or order.terms.billing_address),
        account=account,
    )
    try:
        events = decide_save(methods, command)
    except PaymentMethodLimitReached:
        return ()
    return uow.change(PAYMENT_METHODS, stream_of(customer_id), events), uow.change(CUSTOMERS, customer_id, ())


async def forget_method(ledger: Ledger, merchant_id: UUID, payment_method_id: UUID) -> None:
    """Lets the processor of a deleted method forget its card. What fails is left to the sweep."""
    if ledger.card_references is not None:
        with suppress(Fault):
            await _forget_all(ledger, await ledger.card_references.of_method(merchant_id, payment_method_id))


async def forget_customer(ledger: Ledger, merchant_id: UUID, customer_id: UUID) -> None:
    """Lets the processors forget all cards of an erased customer. What fails is left to the sweep."""
    if ledger.card_references is not None:
        with suppress(Fault):
            await _forget_all(ledger, await ledger.card_references.of_customer(merchant_id, customer_id))


async def _forget_all(ledger: Ledger, cards: Sequence[KeptCard]) -> None:
    for kept in cards:
        await forget(ledger, kept)


async def forget(ledger: Ledger, kept: KeptCard) -> bool:
    """Lets a processor forget a card, and destroys its reference. Returns False if the processor cannot be asked now.

    A card of an account that cannot be opened any more is forgotten here alone. Raises a Fault.
    """
    references = references_of(ledger)
    about = {"account": kept.account, "payment_method_id": str(kept.payment_method_id)}
    try:
        processor = await processor_of(ledger, kept.merchant_id, kept.account)
        if processor is not None:
            request = ForgetCardRequest(
                merchant_id=kept.merchant_id,
                idempotency_key=str(uuid7()),
                deadline_at=ledger.call_deadline(),
                token=CardToken(token=kept.reference.token, customer=kept.reference.customer),
            )
            with ledger.timeouts.within(_FORGET_S):
                await processor.forget_card(request)
    except Fault:
        raise
    except Exception as failure:  # noqa: BLE001 - whatever it was, it can be asked again
        _log.warning("card_not_forgotten", reason=type(failure).__name__, **about)
        if datetime.now(UTC) - kept.unsettled_at < _GIVE_UP:
            await references.touch(kept)
            return False
    await references.destroy(kept)
    _log.info("card_forgotten", **about)
    return True
