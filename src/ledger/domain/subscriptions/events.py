"""The events of a subscription: the storage format of its stream, which has its invoices too.

Topics and fields are permanent (see `ledger.domain.orders.events`). Amounts are in minor units of the plan's currency.
`at` is when the event was recorded by the merchant's clock; every other time is when something was due.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.plans.terms import PlanTerms
from ledger.domain.subscriptions import notice_events
from ledger.domain.subscriptions.notice_events import NoticeEvent
from ledger.py311_speedups import fast_members


@fast_members
class CanceledBecause(StrEnum):
    """Why a subscription was cancelled."""

    REQUESTED = "REQUESTED"
    PERIOD_ENDED = "PERIOD_ENDED"
    """The merchant had cancelled it at the end of its period."""
    EXPIRED = "EXPIRED"
    """The plan's `expiryCount` periods were billed."""
    RETRIES_EXHAUSTED = "RETRIES_EXHAUSTED"
    UNPAID_TOO_LONG = "UNPAID_TOO_LONG"
    CUSTOMER_ERASED = "CUSTOMER_ERASED"


@fast_members
class RefusedBecause(StrEnum):
    """Why a requested subscription never began."""

    DECLINED = "DECLINED"
    NOT_SENT = "NOT_SENT"


@fast_members
class ChargeTrigger(StrEnum):
    """What caused a charge. Only RETRY counts towards the plan's `maxRetries`."""

    DUE = "DUE"
    RETRY = "RETRY"
    REQUEST = "REQUEST"
    ALL_REQUESTED = "ALL_REQUESTED"
    """As REQUEST; the drafts of missed periods follow once it is paid."""
    METHOD_REPLACED = "METHOD_REPLACED"


class InvoiceLine(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One line of a subscription invoice. Credits are negative. `proration` marks the lines of a change of plan.

    `period_start` and `period_end` are the time that such a line settles; None for any other line. `charged_before`
    marks the credit for time that an invoice has charged, and what a refund of that invoice takes back of the credit.
    """

    description: str
    unit_amount: Decimal
    amount: Decimal
    quantity: int = 1
    proration: bool = False
    period_start: datetime | None = None
    period_end: datetime | None = None
    charged_before: bool = False


class SubscriptionRequested(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant requested a subscription. It is shown once it has started.

    `terms` are the plan's on that day, which stay. Periods are counted from `anchor`, the time of the first charge, in
    the merchant's `time_zone`. With a trial, `anchor` is the trial's end.
    """

    subscription_id: UUID
    customer_id: UUID
    plan_id: UUID
    plan_name: str
    terms: PlanTerms
    payment_method_id: UUID
    anchor: datetime
    time_zone: str
    at: datetime
    trial_end: datetime | None = None
    external_id: str | None = None
    metadata: Raw | UnsetType = UNSET


class SubscriptionStarted(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The subscription exists from now on: TRIALING with a trial, else ACTIVE, its first invoice being paid."""

    at: datetime


class SubscriptionRefused(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The first charge failed: the subscription never existed, and nothing was captured.

    `decline_code` is the reason of a decline (contract 5.1).
    """

    because: RefusedBecause
    at: datetime
    decline_code: str | None = None
    refused_by_risk: bool = False


class TrialWillEnd(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The trial ends within three days."""

    trial_end: datetime
    at: datetime


class InvoiceOpened(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An invoice was made. With `period`, its number since the anchor, it is that period's, and the subscription's
    current period is this one from then on. Without, it settles a change of plan in the middle of a period.

    `amount` is the sum of the lines. `draft` marks the invoice of an UNPAID subscription, which is charged on request
    alone. `final` marks the invoice of the lines that wait when the subscription ends.
    """

    invoice_id: UUID
    ordinal: int
    number: str
    period_start: datetime
    period_end: datetime
    due_at: datetime
    amount: Decimal
    lines: tuple[InvoiceLine, ...]
    at: datetime
    period: int | None = None
    draft: bool = False
    final: bool = False


class CreditCarried(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Lines that the next invoice takes over. They replace those that were waiting."""

    lines: tuple[InvoiceLine, ...]
    at: datetime


class DraftsOpened(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant requested the charge of these drafts: each is OPEN, and charged once those before it are paid."""

    invoice_ids: tuple[UUID, ...]
    at: datetime


class BillingCycleReset(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The subscription came back from UNPAID in the middle of a missed period, whose draft is VOID: from now on periods
    are counted from `anchor`, and the first takes the place of the missed one.
    """

    anchor: datetime
    at: datetime


class ProrationDeferred(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A change of plan, or a refund that takes a credit back, added lines to those that wait for the next invoice.

    `lines` are the new ones alone.
    """

    lines: tuple[InvoiceLine, ...]
    at: datetime


class ChargeBegun(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An invoice is being charged to a saved card, by a payment order with this id. Recorded before the order is made.

    The ids follow from the invoice and the attempt, so that two workers make one order. An attempt that was not sent
    begins again with another payment of the same order.
    """

    invoice_id: UUID
    attempt: int
    order_id: UUID
    payment_id: UUID
    payment_method_id: UUID
    trigger: ChargeTrigger
    at: datetime


class ChargeDeclined(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The charge was declined. `hard`: the same card will never be approved. `next_attempt_at` is the next retry."""

    invoice_id: UUID
    order_id: UUID
    decline_code: str
    at: datetime
    hard: bool = False
    refused_by_risk: bool = False
    next_attempt_at: datetime | None = None


class ChargeUnsent(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The charge never reached the processor, so it is no decline. The same attempt begins again later.

    With `order_ended`, the order takes no further payment of this attempt: the next one makes another order.
    """

    invoice_id: UUID
    order_id: UUID
    at: datetime
    next_attempt_at: datetime | None = None
    order_ended: bool = False


class ChargeSurplus(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The charge was approved after another order had paid its invoice. Its order was refunded."""

    invoice_id: UUID
    order_id: UUID
    at: datetime


class InvoicePaid(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An invoice was paid by a payment order; by none where its amount is zero."""

    invoice_id: UUID
    at: datetime
    order_id: UUID | None = None


class InvoiceRefunded(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The payment order that paid an invoice was refunded, or a dispute of it was lost.

    `amount_refunded` is all that went back so far.
    """

    invoice_id: UUID
    order_id: UUID
    amount_refunded: Decimal
    at: datetime


class InvoiceVoided(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An unpaid invoice ended with its subscription, at the merchant's request; or the draft of a missed period ended
    because another period took its place.
    """

    invoice_id: UUID
    at: datetime


class InvoiceUncollectible(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An unpaid invoice ended with its subscription, whose time had passed."""

    invoice_id: UUID
    at: datetime


class SubscriptionActivated(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The subscription became ACTIVE: its first charge after the trial, or an overdue invoice, was paid."""

    at: datetime


class SubscriptionRenewed(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The invoice of a further period was paid, and the subscription stays ACTIVE."""

    invoice_id: UUID
    at: datetime


class SubscriptionPastDue(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A charge failed: the subscription became PAST_DUE."""

    invoice_id: UUID
    at: datetime


class SubscriptionUnpaid(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The last retry failed, or the card was declined for good: the subscription became UNPAID.

    It is cancelled at `cancels_at` unless its oldest open invoice is paid before.
    """

    invoice_id: UUID
    cancels_at: datetime
    at: datetime


class CancellationScheduled(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant cancelled the subscription at the end of its period."""

    at: datetime


class SubscriptionResumed(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant took back the cancellation at the end of the period."""

    at: datetime


class SubscriptionCanceled(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The subscription ended at `ended_at` by the merchant's clock."""

    because: CanceledBecause
    ended_at: datetime
    at: datetime


class PlanChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The subscription moved to another plan. The current period stays as it is.

    If the length of periods changes, they are counted from `anchor`, and the next one is number `next_period`: from the
    end of the current period, or as they were counted before, if the current period was billed by that length. If the
    rest of the current period is settled between the plans, `priced_seconds` is the length of the period that the new
    plan's price is for.
    """

    plan_id: UUID
    plan_name: str
    terms: PlanTerms
    at: datetime
    anchor: datetime | None = None
    priced_seconds: int | None = None
    next_period: int = 0


class MethodReplaced(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant gave the subscription another saved card."""

    payment_method_id: UUID
    at: datetime


class MetadataChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant replaced the metadata of the subscription, or removed it where the field is absent."""

    at: datetime
    metadata: Raw | UnsetType = UNSET


BillingEvent = (
    SubscriptionRequested
    | SubscriptionStarted
    | SubscriptionRefused
    | TrialWillEnd
    | InvoiceOpened
    | DraftsOpened
    | BillingCycleReset
    | CreditCarried
    | ProrationDeferred
    | ChargeBegun
    | ChargeDeclined
    | ChargeUnsent
    | ChargeSurplus
    | InvoicePaid
    | InvoiceRefunded
    | InvoiceVoided
    | InvoiceUncollectible
    | SubscriptionActivated
    | SubscriptionRenewed
    | SubscriptionPastDue
    | SubscriptionUnpaid
    | CancellationScheduled
    | SubscriptionResumed
    | SubscriptionCanceled
    | PlanChanged
    | MethodReplaced
    | MetadataChanged
)
"""What changes a subscription or its invoices."""

SubscriptionEvent = BillingEvent | NoticeEvent

TOPICS: Final[dict[str, type[Struct]]] = {
    "subscription-requested.v1": SubscriptionRequested,
    "subscription-started.v1": SubscriptionStarted,
    "subscription-refused.v1": SubscriptionRefused,
    "subscription-trial-will-end.v1": TrialWillEnd,
    "subscription-invoice-opened.v1": InvoiceOpened,
    "subscription-drafts-opened.v1": DraftsOpened,
    "subscription-billing-cycle-reset.v1": BillingCycleReset,
    "subscription-credit-carried.v1": CreditCarried,
    "subscription-proration-deferred.v1": ProrationDeferred,
    "subscription-charge-begun.v1": ChargeBegun,
    "subscription-charge-declined.v1": ChargeDeclined,
    "subscription-charge-unsent.v1": ChargeUnsent,
    "subscription-charge-surplus.v1": ChargeSurplus,
    "subscription-invoice-paid.v1": InvoicePaid,
    "subscription-invoice-refunded.v1": InvoiceRefunded,
    "subscription-invoice-voided.v1": InvoiceVoided,
    "subscription-invoice-uncollectible.v1": InvoiceUncollectible,
    "subscription-activated.v1": SubscriptionActivated,
    "subscription-renewed.v1": SubscriptionRenewed,
    "subscription-past-due.v1": SubscriptionPastDue,
    "subscription-unpaid.v1": SubscriptionUnpaid,
    "subscription-cancellation-scheduled.v1": CancellationScheduled,
    "subscription-resumed.v1": SubscriptionResumed,
    "subscription-canceled.v1": SubscriptionCanceled,
    "subscription-plan-changed.v1": PlanChanged,
    "subscription-method-replaced.v1": MethodReplaced,
    "subscription-metadata-changed.v1": MetadataChanged,
    **notice_events.TOPICS,
}

PERSONAL: Final[dict[type[Struct], tuple[str, ...]]] = {
    SubscriptionRequested: ("metadata",),
    MetadataChanged: ("metadata",),
}
"""The fields that are stored sealed under the customer's data key, as the metadata of orders is."""
