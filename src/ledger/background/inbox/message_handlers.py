"""The handlers of the inbox: each records a processor's message on its order.

A message is applied once the order has recorded what it reports. A message that the order cannot record yet is retried
later, with the reason in words. A message that contradicts what never changes about the order, such as its currency, is
a dead letter: it is not retried by itself, and an operator decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Final, assert_never, get_args
from uuid import UUID
from weakref import WeakValueDictionary

import msgspec
import structlog

from ledger.background.inbox.consumer import Applied, DeadLetter, Disposition, Handles, RetryLater
from ledger.background.inbox.overpayment import NotApplicableYet, refund_overpayment
from ledger.domain.money import GROSS_MAX, ZERO
from ledger.domain.orders.commands import (
    DisputeStage,
    RecordDeposit,
    RecordDispute,
    RecordRefundOutcome,
    RecordSettlement,
    ReverseRefund,
    SettlementStage,
)
from ledger.domain.orders.decide.disputes_and_settlement import decide_dispute, decide_settlement
from ledger.domain.orders.decide.guards import require_multiple
from ledger.domain.orders.decide.references import decide_deposit, takes_exactly
from ledger.domain.orders.decide.refunds import decide_refund_outcome, decide_refund_reversal
from ledger.domain.orders.events import OrderEvent
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.processor_outcomes import Refunded, RefundRefused
from ledger.domain.orders.refund import RefundPart, RefundStatus, returned_refund_id
from ledger.domain.orders.state import LIVE, Order
from ledger.domain.orders.terms import MethodType
from ledger.domain.rejections import InvalidField, Rejected
from ledger.domain.streams import ORDERS
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.message_delivery import UNKNOWN_NAME, UNKNOWN_ORDER
from ledger.operations.orders.payment_lookup import PaymentLookup
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork, load_order
from ledger.processors.clabe import is_clabe
from ledger.processors.messages import (
    DepositReceived,
    DisputeLost,
    DisputeOpened,
    DisputeWon,
    OrderMessage,
    RefundConfirmed,
    RefundFailed,
    SettlementListed,
    SettlementMatched,
    SettlementRefused,
)

_log = structlog.get_logger()

KINDS: Final = get_args(OrderMessage)

_Refund = RefundConfirmed | RefundFailed
_Dispute = DisputeOpened | DisputeWon | DisputeLost
_Settlement = SettlementListed | SettlementMatched | SettlementRefused

_REASON_MAX: Final = 255


class _Contradicts(Exception):
    """The message can never be applied as it is, for the reason in its text."""


class MessageApplier:
    """Records processors' messages on their orders. `names` finds the order of a message that names none."""

    def __init__(self, ledger: Ledger, names: PaymentLookup) -> None:
        self._ledger = ledger
        self._names = names
        self._locks: WeakValueDictionary[UUID, asyncio.Lock] = WeakValueDictionary()  # by order

    def handles(self) -> Handles:
        """Returns the handler of every kind of message that is about an order."""
        return dict.fromkeys(KINDS, self.take)

    async def take(self, message: OrderMessage) -> Disposition:
        """Records a message on its order; a second time changes nothing. Raises a Fault."""
        try:
            order_id, message = await self._addressed(message)
            async with self._locks.setdefault(order_id, asyncio.Lock()):  # the inbox sees no order in some messages
                order = await self._record(order_id, message)
                if isinstance(message, DepositReceived):
                    _log_another_amount(message, order)
                    await refund_overpayment(self._ledger, message, order)
        except NotApplicableYet as reason:
            return RetryLater(str(reason))
        except _Contradicts as reason:
            return DeadLetter(str(reason))
        except Rejected as rejection:
            return RetryLater(f"{rejection.code}: {rejection}")
        return Applied()

    async def _record(self, order_id: UUID, message: OrderMessage) -> Order:
        """Records a message on its order, makes the calls that follow, returns the order. Raises like `_decide`."""
        actor = Actor(merchant_id=message.merchant_id, request_id="message")
        uow = UnitOfWork(self._ledger, actor, cause=message.payment_id)

        async def attempt(_: Conflict | None) -> Plan:
            order = await uow.order(order_id)
            return Plan(changes=[uow.change_order(order_id, _decide(order, message, uow.now))])

        await execute(uow, attempt)
        return await uow.order(order_id)

    async def _addressed(self, message: OrderMessage) -> tuple[UUID, OrderMessage]:
        """Returns the order that a message is about, and the message with the id of the payment that it names.

        Raises NotApplicableYet if no such order exists yet.
        """
        merchant_id = message.merchant_id
        if message.order_id is not None:
            if not await self._ledger.journal.reader.stream_from(merchant_id, message.order_id, ORDERS.first):
                raise NotApplicableYet(UNKNOWN_ORDER)
            return message.order_id, message
        name = _name(message) if message.payment_id is None else str(message.payment_id)
        for order_id, payment_id in await self._names.find(merchant_id, name):
            order = await load_order(self._ledger, merchant_id, order_id)
            if _is_from(message, order.payment(payment_id)):
                return order_id, msgspec.structs.replace(message, payment_id=payment_id)
        raise NotApplicableYet(UNKNOWN_NAME)


def _log_another_amount(message: DepositReceived, order: Order) -> None:
    """Logs a deposit in a store that takes exactly one amount, if the deposit has another one."""
    payment = _payment_of(order, message)
    if takes_exactly(payment, message.reference) not in {None, message.amount}:
        ids = {"order_id": str(order.terms.order_id), "payment_id": str(payment.payment_id)}
        _log.warning("deposit_amount_differs", processor=message.processor, message_id=message.message_id, **ids)


def _decide(order: Order, message: OrderMessage, at: datetime) -> list[OrderEvent]:
    match message:
        case DepositReceived():
            return _deposit(order, message, at)
        case RefundConfirmed() | RefundFailed():
            return _refund(order, message, at)
        case DisputeOpened() | DisputeWon() | DisputeLost():
            return _dispute(order, message, at)
        case SettlementListed() | SettlementMatched() | SettlementRefused():
            return _settlement(order, message, at)
        case _:
            assert_never(message)


def _deposit(order: Order, message: DepositReceived, at: datetime) -> list[OrderEvent]:
    payment = _payment_of(order, message)
    if message.currency != order.terms.currency:
        raise _Contradicts("it is in another currency than its order")
    if payment.started.method.type is MethodType.CARD:
        raise _Contradicts("its payment is by card, which takes no deposits")
    reference = payment.reference
    if reference is not None and message.reference not in (reference.clabe, reference.reference):
        raise _Contradicts("it came to another reference than its payment's")
    _require_step(order, message.amount)
    if payment.deposited(message.processor_reference) not in {None, message.amount}:
        raise _Contradicts("the same deposit was reported with another amount")
    command = RecordDeposit(
        payment_id=payment.payment_id,
        deposit_id=message.processor_reference,
        amount=message.amount,
        processor_reference=message.processor_reference,
        at=at,
        sent_to=message.reference,
        sender_clabe=_account(message),
    )
    return decide_deposit(order, command)


def _account(message: DepositReceived) -> str | None:
    """Returns the account that a deposit came from, None for a number that is no CLABE: nothing is paid out to it."""
    named = message.sender_clabe
    return named if named is not None and is_clabe(named) else None


def _refund(order: Order, message: _Refund, at: datetime) -> list[OrderEvent]:
    refund_id, part = _part_of(order, message)
    outcome: Refunded | RefundRefused
    if isinstance(message, RefundFailed) and message.is_final:
        latest_id, latest = _latest(order, refund_id, part)
        if latest.status is RefundStatus.SUCCEEDED and message.returned < latest.amount:
            return _came_back(order, latest_id, latest, message, at)
    if part.is_final:
        return []  # whatever this message reports is older
    if isinstance(message, RefundConfirmed):
        if message.amount != part.amount:
            raise _Contradicts("its amount is not the refund's")
        outcome = Refunded(amount=message.amount, processor_reference=message.processor_reference)
        reported = RefundStatus.SUCCEEDED
    else:
        outcome = _refusal(order, part, message)
        reported = RefundStatus.FAILED
    command = RecordRefundOutcome(refund_id=refund_id, payment_id=part.payment_id, outcome=outcome, at=at)
    events = decide_refund_outcome(order, command)
    if not events and part.status is not reported:
        # A failed refund can still be confirmed once no other refund of the payment is under way; one that succeeded
        # stays so.
        reason = f"the refund is {part.status}, and the message reports {reported}"
        raise NotApplicableYet(reason) if reported is RefundStatus.SUCCEEDED else _Contradicts(reason)
    if not events and isinstance(message, RefundFailed) and message.returned:
        returned_id = returned_refund_id(refund_id, part.payment_id)
        if order.refund(returned_id) is None:
            raise NotApplicableYet("a part of the failed refund went back, and another refund or a dispute is open")
    return events


def _part_of(order: Order, message: _Refund) -> tuple[UUID, RefundPart]:
    """Returns the part that a message is about, and its refund. Raises NotApplicableYet, _Contradicts."""
    for refund_id, part in _parts(order):
        if _key(refund_id, part) == message.idempotency_key:
            if not _is_from(message, order.payment(part.payment_id)):
                raise _Contradicts("the refund is another account's")
            return refund_id, part
    raise NotApplicableYet("its order has no such refund")


def _latest(order: Order, refund_id: UUID, part: RefundPart) -> tuple[UUID, RefundPart]:
    """Returns the part that has what the payer still has of a refund, and its refund: the part itself, or that of the
    refund which has what went back although it failed.
    """
    while True:
        returned = order.refund(returned_refund_id(refund_id, part.payment_id))
        found = None if returned is None else returned.part(part.payment_id)
        if returned is None or found is None:
            return refund_id, part
        refund_id, part = returned.refund_id, found


def _came_back(
    order: Order, refund_id: UUID, part: RefundPart, message: RefundFailed, at: datetime
) -> list[OrderEvent]:
    """Returns the events of a refund that fails after it had succeeded, with the part that stays with the payer."""
    outcome = _refusal(order, part, message)
    command = ReverseRefund(
        refund_id=refund_id,
        payment_id=part.payment_id,
        code=outcome.code,
        at=at,
        message=outcome.message,
        returned=outcome.returned,
        returned_reference=outcome.returned_reference,
    )
    return decide_refund_reversal(order, command)


def _refusal(order: Order, part: RefundPart, message: RefundFailed) -> RefundRefused:
    """Returns the outcome of a refund that failed. Raises _Contradicts if no less than all of it went back."""
    if message.returned:
        _require_step(order, message.returned)
    if message.returned >= part.amount:
        raise _Contradicts("the refund failed, and all of it went back")
    return RefundRefused(
        code=message.code,
        message=message.message,
        returned=message.returned,
        returned_reference=message.returned_reference,
        is_final=message.is_final,
    )


def _dispute(order: Order, message: _Dispute, at: datetime) -> list[OrderEvent]:
    if not isinstance(message, DisputeWon):
        _require_step(order, message.amount)
    payment = _payment_of(order, message)
    decided = payment.decided(message.dispute_id)
    if decided is None and not isinstance(message, DisputeWon) and not _has_arrived(payment, message.amount):
        raise NotApplicableYet("the bank takes more back than has arrived: a deposit is not recorded yet")
    is_held = payment.authorized > 0 and payment.capture_due_at is None
    if not payment.captured and payment.intent is None and (is_held or payment.status not in LIVE):
        raise _Contradicts(f"its payment is {payment.status} and has no captured money")
    if decided is not None and decided.lost != _reported_as_lost(message, decided.lost):
        raise _Contradicts("the dispute was decided otherwise")
    stages = {DisputeOpened: DisputeStage.OPENED, DisputeWon: DisputeStage.WON, DisputeLost: DisputeStage.LOST}
    command = RecordDispute(
        payment_id=payment.payment_id,
        dispute_id=message.dispute_id,
        stage=stages[type(message)],
        amount=None if isinstance(message, DisputeWon) else message.amount,
        at=at,
        reason=message.reason[:_REASON_MAX] if isinstance(message, DisputeOpened) and message.reason else None,
    )
    return decide_dispute(order, command)


def _has_arrived(payment: Payment, amount: Decimal) -> bool:
    """Returns whether the money that a bank takes back has arrived: a transfer may be taken back before its deposit is
    recorded, and another deposit of the payment is not what the bank has taken.
    """
    return payment.started.method.type is MethodType.CARD or amount <= payment.contestable


def _reported_as_lost(message: _Dispute, otherwise: Decimal) -> Decimal:
    """Returns the amount that the bank took by this message, `otherwise` for a dispute that has no end yet."""
    match message:
        case DisputeOpened():
            return otherwise
        case DisputeWon():
            return ZERO
        case DisputeLost(amount=amount):
            return amount


def _settlement(order: Order, message: _Settlement, at: datetime) -> list[OrderEvent]:
    stages = {
        SettlementListed: SettlementStage.LISTED,
        SettlementMatched: SettlementStage.MATCHED,
        SettlementRefused: SettlementStage.REFUSED,
    }
    command = RecordSettlement(
        payment_id=_payment_of(order, message).payment_id,
        batch_id=message.batch_id,
        stage=stages[type(message)],
        at=at,
        fee=message.fee,
        fee_tax=message.fee_tax,
        fee_currency=message.fee_currency,
    )
    return decide_settlement(order, command)


def _require_step(order: Order, amount: Decimal) -> None:
    """Raises _Contradicts for an amount that is not a multiple of the order's step: it fits no sum (section 8.6)."""
    try:
        require_multiple(order, amount, most=GROSS_MAX)
    except InvalidField as error:
        raise _Contradicts(str(error)) from None


def _payment_of(order: Order, message: OrderMessage) -> Payment:
    """Returns the payment that a message is about, of those that its processor has. Raises NotApplicableYet."""
    for payment in order.payments:
        if _is_about(message, payment):
            return payment
    raise NotApplicableYet("its order has no such payment")


def _is_from(message: OrderMessage, payment: Payment) -> bool:
    """Returns whether a message comes from the account at which the payment was made."""
    return (payment.processor, payment.account) == (message.processor, message.account_name)


def _is_about(message: OrderMessage, payment: Payment) -> bool:
    """Returns whether a message is about this payment: by the id that it echoes, else by the processor's name."""
    if not _is_from(message, payment):
        return False
    if message.payment_id is not None:
        return payment.payment_id == message.payment_id
    reference = payment.reference
    if isinstance(message, DepositReceived):
        return reference is not None and message.reference in (reference.clabe, reference.reference)
    return payment.processor_reference == message.processor_reference


def _name(message: OrderMessage) -> str:
    """Returns the name of the payment in a message that echoes no id."""
    match message:
        case DepositReceived(reference=name):
            return name
        case RefundConfirmed(idempotency_key=name) | RefundFailed(idempotency_key=name):
            return name
        case _:
            return message.processor_reference


def _parts(order: Order) -> Iterator[tuple[UUID, RefundPart]]:
    for refund in order.refunds:
        for part in refund.parts:
            yield refund.refund_id, part


def _key(refund_id: UUID, part: RefundPart) -> str:
    """Returns the idempotency key under which a part of a refund was requested."""
    return f"{refund_id}:{part.payment_id}"
