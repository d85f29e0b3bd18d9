"""Sends the messages of a subscription to its customer: records the intent, hands the message to the notifier, records
the outcome.

A message is decided on the subscription as it is. Two workers that run the same job make one attempt, because the
version of the subscription decides which intent is recorded. After a crash in the middle of an attempt there is one
more: then the customer may receive the message twice, under one Message-ID.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID

import structlog

from ledger.domain.customers.state import Customer
from ledger.domain.customers.terms import Accepted, AttemptOutcome
from ledger.domain.invoices.self_invoicing import SelfInvoiceState, self_invoice_state
from ledger.domain.payment_methods.state import stream_of
from ledger.domain.streams import CUSTOMERS, PAYMENT_METHODS, SUBSCRIPTIONS, Stream
from ledger.domain.subscriptions.commands import (
    NotifyCustomer,
    RecordNotice,
)
from ledger.domain.subscriptions.decide.messages import decide_notice, decide_notice_outcome
from ledger.domain.subscriptions.events import SubscriptionEvent
from ledger.domain.subscriptions.notice_events import (
    NoticeDropped,
    NoticeDroppedBecause,
    NoticeKind,
    NoticePostponed,
    NoticeRequested,
)
from ledger.domain.subscriptions.notices import Notice
from ledger.domain.subscriptions.state import Subscription
from ledger.journal.append import Change, Conflict
from ledger.notifications.contract import Message, Notification
from ledger.notifications.messages import Addressee, payment_failed, renewal_receipt, trial_will_end
from ledger.notifications.not_sent import in_words
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.message_call import AttemptRunning, MessageCall, message_deadline
from ledger.operations.orders.invoices.self_invoice import link_of
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork, load_order
from ledger.operations.subscriptions.commit import subscription_plan
from ledger.telemetry.metrics import SUBSCRIPTION_NOTICES

_log = structlog.get_logger()


class NoticeCall(MessageCall, frozen=True, kw_only=True):
    """An attempt to send a message that the subscription has as running."""

    subscription: Subscription
    notice: Notice

    stream: ClassVar[Stream[Any]] = SUBSCRIPTIONS

    @property
    def stream_id(self) -> UUID:
        return self.subscription.subscription_id

    @property
    def deadline_at(self) -> datetime:
        assert self.notice.deadline_at is not None, "the attempt was just recorded"
        return self.notice.deadline_at

    @property
    def about(self) -> Mapping[str, str]:
        return _about(self.merchant_id, self.subscription.subscription_id)

    async def prepare(self, uow: UnitOfWork) -> Notification:
        return await _notification(self, uow)

    def record(self, state: Subscription, outcome: AttemptOutcome, now: datetime) -> Sequence[SubscriptionEvent]:
        command = RecordNotice(notice_id=self.notice.notice_id, outcome=outcome, at=now)
        return decide_notice_outcome(state, command)

    def recorded(self, outcome: AttemptOutcome, change: Change) -> bool:
        _report(self.merchant_id, change)
        if isinstance(outcome, Accepted):
            SUBSCRIPTION_NOTICES.labels("sent").inc()
        return True


def notice_call(
    ledger: Ledger, merchant_id: UUID, subscription: Subscription, event: NoticeRequested, _: object = None
) -> NoticeCall | None:
    """Returns the attempt that an event of this subscription announces."""
    notice = next((each for each in subscription.notices if each.notice_id == event.notice_id), None)
    if notice is None:
        return None
    return NoticeCall(ledger=ledger, merchant_id=merchant_id, subscription=subscription, notice=notice)


async def notify_customer(ledger: Ledger, merchant_id: UUID, subscription_id: UUID) -> None:
    """Sends every message of a subscription that is due by its merchant's clock, or records why it is not sent.

    Raises AttemptRunning, ConcurrentUpdate, a Fault: run it again later.
    """
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="due"), cause=subscription_id)

    async def attempt(_: Conflict | None) -> Plan:
        state = await uow.load(SUBSCRIPTIONS, subscription_id)
        assert state is not None, "a subscription with messages was requested"
        withheld = _withheld(await _customer(uow, state)) if state.notices else {}
        real_at = datetime.now(UTC)
        command = NotifyCustomer(
            notifier=ledger.notifier.name,
            deadline_at=message_deadline(ledger, real_at),
            real_at=real_at,
            at=uow.now,
            withheld=withheld,
        )
        return await subscription_plan(uow, subscription_id, decide_notice(state, command))

    while (plan := await execute(uow, attempt)).events:
        _report(merchant_id, plan.changes[0])
    state: Subscription = plan.changes[0].after
    if any(notice.deadline_at is not None for notice in state.notices):
        raise AttemptRunning


async def _customer(uow: UnitOfWork, state: Subscription) -> Customer:
    """Returns the customer with the latest preferences."""
    customer = await uow.load(CUSTOMERS, state.customer_id, fresh=True)
    assert customer is not None, "a subscription's customer is never deleted"
    return customer


def _withheld(customer: Customer) -> Mapping[NoticeKind, NoticeDroppedBecause]:
    """Returns why the customer gets no message of a kind (contract N49)."""
    wanted = customer.preferences
    if customer.erased:
        return dict.fromkeys(NoticeKind, NoticeDroppedBecause.ERASED)
    unwanted = {
        kind: NoticeDroppedBecause.UNWANTED
        for kind in NoticeKind
        if not (wanted.email and (wanted.receipts if kind is NoticeKind.RECEIPT else wanted.payment_reminders))
    }
    return unwanted if customer.email else {**dict.fromkeys(NoticeKind, NoticeDroppedBecause.NO_ADDRESS), **unwanted}


async def _notification(call: NoticeCall, uow: UnitOfWork) -> Notification:
    state, notice = call.subscription, call.notice
    merchant = await call.ledger.merchant(call.merchant_id)
    customer = await uow.load(CUSTOMERS, state.customer_id)  # as the attempt was decided on it
    assert customer is not None, "a subscription's customer is never deleted"
    assert customer.email is not None, "the decider withholds what has no address"
    addressee = Addressee(
        merchant=merchant.name,
        time_zone=state.time_zone,
        customer_name=customer.first_name,
        language=customer.preferences.language,
    )
    message = _message(addressee, state, notice, await _last4(call, uow), await _invoice_url(call))
    return Notification(
        notification_id=notice.notice_id,
        sender_name=merchant.name,
        recipient=customer.email,
        message=message,
        about=call.about,
    )


def _message(
    to: Addressee, state: Subscription, notice: Notice, card_last4: str | None, invoice_url: str | None
) -> Message:
    if notice.kind is NoticeKind.TRIAL_WILL_END:
        assert state.trial_end is not None, "a trial has an end"
        return trial_will_end(
            to,
            plan=state.plan_name,
            amount=state.terms.amount,
            currency=state.terms.currency,
            trial_end=state.trial_end,
        )
    assert notice.invoice_id is not None, "the message is about an invoice"
    invoice = state.invoice(notice.invoice_id)
    if notice.kind is NoticeKind.PAYMENT_FAILED:
        return payment_failed(
            to,
            plan=invoice.plan_name,
            number=invoice.number,
            amount=invoice.amount,
            currency=invoice.currency,
            failed_at=notice.caused_at,
            next_attempt_at=notice.next_attempt_at if state.is_live else None,
            ended=not state.is_live,
            card_last4=card_last4,
        )
    return renewal_receipt(
        to,
        plan=invoice.plan_name,
        number=invoice.number,
        amount=invoice.amount,
        currency=invoice.currency,
        period_start=invoice.period_start,
        period_end=invoice.period_end,
        paid_at=notice.caused_at,
        card_last4=card_last4,
        invoice_url=invoice_url,
    )


async def _invoice_url(call: NoticeCall) -> str | None:
    """Returns the link by which the payer of a paid period requests its invoice; None if the merchant has set no
    issuer, or the order's invoice needs no request.
    """
    ledger, notice, invoicing = call.ledger, call.notice, call.ledger.invoicing
    if notice.kind is not NoticeKind.RECEIPT or notice.invoice_id is None or invoicing is None:
        return None
    order_id = call.subscription.invoice(notice.invoice_id).payment_order_id
    if order_id is None or await invoicing.issuers.known_issuer(call.merchant_id) is None:
        return None
    order = await load_order(ledger, call.merchant_id, order_id)
    if self_invoice_state(order) is not SelfInvoiceState.OPEN:
        return None
    return invoicing.links.sign(await link_of(ledger, call.merchant_id, order))


async def _last4(call: NoticeCall, uow: UnitOfWork) -> str | None:
    """Returns the last four digits of the card that was charged; None if it is not known or was deleted."""
    method_id = call.notice.payment_method_id
    if method_id is None:
        return None
    methods = await uow.shown(PAYMENT_METHODS, stream_of(call.subscription.customer_id))
    method = None if methods is None else methods.method(method_id)
    return None if method is None or method.card is None else method.card.last4


def _report(merchant_id: UUID, change: Change) -> None:
    """Counts and logs what was not sent. Only what a mail server caused is a warning."""
    about = _about(merchant_id, change.stream_id)
    for event in change.events:
        if isinstance(event, NoticePostponed):
            SUBSCRIPTION_NOTICES.labels("postponed").inc()
            _log.info("notice_postponed", code=event.code, **about)
        elif isinstance(event, NoticeDropped):
            SUBSCRIPTION_NOTICES.labels("dropped").inc()
            reason = {"because": event.because, "message": in_words(event.because)}
            if event.code is None:
                _log.info("notice_dropped", kind=event.kind, **reason, **about)
            else:
                _log.warning("notice_dropped", code=event.code, kind=event.kind, **reason, **about)


def _about(merchant_id: UUID, subscription_id: UUID) -> dict[str, str]:
    """Returns what the log lines of a subscription's message name."""
    return {"merchant_id": str(merchant_id), "subscription_id": str(subscription_id)}
