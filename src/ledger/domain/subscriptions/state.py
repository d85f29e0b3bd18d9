"""The state of a subscription, folded from its events: its status, its period, and all its invoices."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final
from uuid import UUID

from msgspec import Raw, Struct

from ledger.domain.money import ZERO
from ledger.domain.plans.terms import PlanTerms
from ledger.domain.subscriptions.events import CanceledBecause, ChargeTrigger, InvoiceLine, SubscriptionRefused
from ledger.domain.subscriptions.notices import Notice
from ledger.py311_speedups import fast_members


@fast_members
class SubscriptionStatus(StrEnum):
    """The five statuses of a subscription (contract 2.3)."""

    TRIALING = "TRIALING"
    ACTIVE = "ACTIVE"
    PAST_DUE = "PAST_DUE"
    UNPAID = "UNPAID"
    CANCELED = "CANCELED"


@fast_members
class InvoiceStatus(StrEnum):
    """The five statuses of a subscription invoice (contract N68)."""

    DRAFT = "DRAFT"
    OPEN = "OPEN"
    PAID = "PAID"
    UNCOLLECTIBLE = "UNCOLLECTIBLE"
    VOID = "VOID"


SUBSCRIPTION_EDGES: Final = frozenset(
    {
        (None, SubscriptionStatus.TRIALING),
        (None, SubscriptionStatus.ACTIVE),
        (SubscriptionStatus.TRIALING, SubscriptionStatus.ACTIVE),
        (SubscriptionStatus.TRIALING, SubscriptionStatus.PAST_DUE),
        (SubscriptionStatus.TRIALING, SubscriptionStatus.CANCELED),
        (SubscriptionStatus.ACTIVE, SubscriptionStatus.PAST_DUE),
        (SubscriptionStatus.ACTIVE, SubscriptionStatus.CANCELED),
        (SubscriptionStatus.PAST_DUE, SubscriptionStatus.ACTIVE),
        (SubscriptionStatus.PAST_DUE, SubscriptionStatus.UNPAID),
        (SubscriptionStatus.PAST_DUE, SubscriptionStatus.CANCELED),
        (SubscriptionStatus.UNPAID, SubscriptionStatus.ACTIVE),
        (SubscriptionStatus.UNPAID, SubscriptionStatus.CANCELED),
    }
)
"""The moves of a subscription (contract 2.3). CANCELED is final. The program does not read this table; tests do."""

_COLLECTABLE: Final = (InvoiceStatus.DRAFT, InvoiceStatus.OPEN)


class Attempt(Struct, frozen=True):
    """An attempt to charge an invoice: its payment order, and the payment of each time that the attempt began.

    It begins again, with another payment, if the one before was not sent to the processor.
    """

    order_id: UUID
    payment_ids: tuple[UUID, ...]


class Invoice(Struct, frozen=True, kw_only=True):
    """An invoice of a subscription. Amounts are in minor units of `currency`.

    `period` is the period's number since the anchor, None for an invoice of a change of plan. `attempts` are oldest
    first; `attempt_count` counts those that were sent to the processor, `retries` the plan's own retries among them.
    `payment_order_id` is the order that paid, else that of the latest attempt. `last_decline` is the decline code of
    the latest attempt; `last_order_unsent` is True if that attempt never reached the processor, and `last_order_ended`
    if its order takes no further payment of it. `amount_refunded` is what went back of the order that paid, lost
    disputes included. `is_final` marks the invoice of the lines that waited when the subscription ended.
    """

    invoice_id: UUID
    ordinal: int
    number: str
    plan_id: UUID
    plan_name: str
    period_start: datetime
    period_end: datetime
    due_at: datetime
    amount: Decimal
    currency: str
    lines: tuple[InvoiceLine, ...]
    status: InvoiceStatus
    created_at: datetime
    updated_at: datetime
    period: int | None = None
    attempts: tuple[Attempt, ...] = ()
    attempt_count: int = 0
    retries: int = 0
    payment_order_id: UUID | None = None
    next_attempt_at: datetime | None = None
    paid_at: datetime | None = None
    last_decline: str | None = None
    refused_by_risk: bool = False
    last_order_unsent: bool = False
    last_order_ended: bool = False
    amount_refunded: Decimal = ZERO
    is_final: bool = False

    @property
    def is_collectable(self) -> bool:
        """Whether the invoice can still be charged: OPEN or DRAFT."""
        return self.status in _COLLECTABLE

    @property
    def unsent_attempt(self) -> Attempt | None:
        """Returns the latest attempt if it can begin again: nothing of it was sent to the processor."""
        return self.attempts[-1] if self.last_order_unsent and not self.last_order_ended else None

    def has_order(self, order_id: UUID) -> bool:
        """Returns whether this payment order is that of an attempt."""
        return any(attempt.order_id == order_id for attempt in self.attempts)


class Charge(Struct, frozen=True, kw_only=True):
    """A charge of an invoice without a recorded outcome. `attempt` counts from 1 within the invoice."""

    invoice_id: UUID
    attempt: int
    order_id: UUID
    payment_id: UUID
    payment_method_id: UUID
    trigger: ChargeTrigger
    begun_at: datetime


class PricedPlan(Struct, frozen=True):
    """A plan, and how many seconds of the current period its price is for.

    What has gone back of the money that the current period was charged is the sum of three: `refunded` since this plan
    priced the rest of the period, which lowers the credit of the next change; `withheld`, by which credits of changes
    were lowered; and `beyond` those credits, for time that was used.
    """

    plan_name: str
    terms: PlanTerms
    seconds: int
    refunded: Decimal = ZERO
    withheld: Decimal = ZERO
    beyond: Decimal = ZERO


class BilledPlan(Struct, frozen=True):
    """The plan by which the current period was billed: its price is for all the `seconds` of the period.

    `anchor` and `next_period` are the anchor and the number of the period after it.
    """

    terms: PlanTerms
    seconds: int
    anchor: datetime
    next_period: int


class Subscription(Struct, frozen=True, kw_only=True):
    """A subscription. `status` is None before it has started: it is not shown then, nor are its invoices.

    `refusal` is why the first charge failed: the subscription never began. Until the first invoice, the current period
    is the trial. The next period is number `next_period` since `anchor`; `periods_billed` counts the invoices of
    periods. `invoices` are all of them, oldest first. `carried` are the lines that the next invoice takes over.
    `charge` is the one in progress: there is at most one. `billed` is the plan of the current period's invoice, and
    `priced` the plan by whose price the rest of the period is paid or owed. After a change of plan without proration it
    is the earlier plan.
    """

    subscription_id: UUID
    customer_id: UUID
    plan_id: UUID
    plan_name: str
    terms: PlanTerms
    payment_method_id: UUID
    anchor: datetime
    time_zone: str
    current_period_start: datetime
    current_period_end: datetime
    created_at: datetime
    updated_at: datetime
    status: SubscriptionStatus | None = None
    refusal: SubscriptionRefused | None = None
    external_id: str | None = None
    metadata: Raw | None = None
    trial_start: datetime | None = None
    trial_end: datetime | None = None
    trial_end_announced: bool = False
    next_period: int = 0
    periods_billed: int = 0
    last_ordinal: int = 0
    invoices: tuple[Invoice, ...] = ()
    carried: tuple[InvoiceLine, ...] = ()
    charge: Charge | None = None
    billed: BilledPlan | None = None
    priced: PricedPlan | None = None
    cancel_at_period_end: bool = False
    canceled_at: datetime | None = None
    ended_at: datetime | None = None
    canceled_because: CanceledBecause | None = None
    cancels_at: datetime | None = None
    """When an UNPAID subscription is cancelled."""
    notices: tuple[Notice, ...] = ()
    """The messages to the customer that are neither sent nor dropped, oldest first."""

    @property
    def is_shown(self) -> bool:
        """Whether the subscription has started, so that reads show it and its invoices."""
        return self.status is not None

    @property
    def is_live(self) -> bool:
        """Whether the subscription has started and is not cancelled."""
        return self.status is not None and self.status is not SubscriptionStatus.CANCELED

    @property
    def is_expiring(self) -> bool:
        """Whether the plan's `expiryCount` periods are billed: the subscription ends with its current period."""
        return self.terms.expiry_count is not None and self.periods_billed >= self.terms.expiry_count

    @property
    def oldest_open(self) -> Invoice | None:
        """Returns the oldest OPEN invoice: the only one that is charged."""
        return next((invoice for invoice in self.invoices if invoice.status is InvoiceStatus.OPEN), None)

    @property
    def drafts(self) -> tuple[Invoice, ...]:
        """Returns the invoices that were made while the subscription was UNPAID, and are charged on request alone."""
        return tuple(invoice for invoice in self.invoices if invoice.status is InvoiceStatus.DRAFT)

    @property
    def period_invoices(self) -> tuple[Invoice, ...]:
        """Returns the invoice of the current period, and those of changes of plan after it."""
        for n in range(len(self.invoices) - 1, -1, -1):
            if self.invoices[n].period is not None:
                return self.invoices[n:]
        return self.invoices

    @property
    def has_waiting_change(self) -> bool:
        """Whether the lines of a change of plan in the current period wait: its plan is not charged yet."""
        return any(line.period_end == self.current_period_end and not line.charged_before for line in self.carried)

    @property
    def has_lines_to_charge(self) -> bool:
        """Whether the lines that wait would be charged if the subscription ended: they are no credit, and nothing older
        is owed.
        """
        return self.oldest_open is None and sum((line.amount for line in self.carried), ZERO) > 0

    @property
    def is_period_missed(self) -> bool:
        """Whether the invoice of the current period is a draft: the subscription was UNPAID when the period began."""
        return any(invoice.status is InvoiceStatus.DRAFT for invoice in self.period_invoices[:1])

    @property
    def next_billing_at(self) -> datetime | None:
        """Returns when the next charge is due: of a new period, of the lines that wait at the end, or the retry of an
        invoice. None if none will be.
        """
        if not self.is_live:
            return None
        invoice = self.oldest_open
        if invoice is not None and invoice.next_attempt_at is not None:
            return invoice.next_attempt_at
        if self.status is SubscriptionStatus.UNPAID:
            return None
        if (self.cancel_at_period_end or self.is_expiring) and not self.has_lines_to_charge:
            return None
        return self.current_period_end

    @property
    def method_in_use(self) -> UUID | None:
        """Returns the saved card that the subscription is charged to, None once nothing of it is charged any more.

        One that has ended is charged until its last invoice has an outcome.
        """
        is_requested = self.status is None and self.refusal is None
        is_charged = self.is_live or is_requested or (self.is_shown and self.oldest_open is not None)
        return self.payment_method_id if is_charged else None

    def invoice(self, invoice_id: UUID) -> Invoice:
        """Returns the invoice with this id. The caller knows that it belongs to this subscription."""
        for invoice in reversed(self.invoices):
            if invoice.invoice_id == invoice_id:
                return invoice
        raise AssertionError("the invoice is not this subscription's")

    def invoice_of(self, order_id: UUID) -> Invoice | None:
        """Returns the invoice of which this payment order is an attempt, or None."""
        return next((invoice for invoice in reversed(self.invoices) if invoice.has_order(order_id)), None)
