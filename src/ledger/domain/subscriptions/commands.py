"""The commands of a subscription. The caller brings ids and the time `at` of the merchant's clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.customers.terms import AttemptOutcome
from ledger.domain.plans.terms import PlanTerms
from ledger.domain.subscriptions.events import CanceledBecause
from ledger.domain.subscriptions.notice_events import NoticeDroppedBecause, NoticeKind
from ledger.py311_speedups import fast_members


@fast_members
class Proration(StrEnum):
    """What a change of plan means for the current period (contract N67).

    NONE: nothing; the next period is the first at the new price. NEXT_INVOICE: the difference for the rest of the
    period is a line of the next invoice. INVOICE_NOW: it is invoiced and charged at once.
    """

    NONE = "NONE"
    NEXT_INVOICE = "NEXT_INVOICE"
    INVOICE_NOW = "INVOICE_NOW"


class ChosenPlan(Struct, frozen=True, kw_only=True):
    """The plan of a request in its present form; the subscription keeps its name and its terms."""

    plan_id: UUID
    name: str
    terms: PlanTerms


class RequestSubscription(Struct, frozen=True, kw_only=True):
    """Requests a subscription (contract N67). Its first charge is at the trial's end, else at `start`, else now.

    `trial_end` replaces the plan's trial: None is no trial, UNSET is the plan's own. `time_zone` is the merchant's.
    """

    subscription_id: UUID
    customer_id: UUID
    plan: ChosenPlan
    payment_method_id: UUID
    time_zone: str
    at: datetime
    start: datetime | None = None
    trial_end: datetime | None | UnsetType = UNSET
    external_id: str | None = None
    metadata: Raw | None = None


class ChangeSubscription(Struct, frozen=True, kw_only=True):
    """Changes a subscription (contract N67).

    A field that is None or UNSET was absent from the request; its value stays.
    """

    at: datetime
    plan: ChosenPlan | None = None
    payment_method_id: UUID | None = None
    proration: Proration = Proration.NEXT_INVOICE
    metadata: Raw | None | UnsetType = UNSET


class CancelSubscription(Struct, frozen=True, kw_only=True):
    """Cancels a subscription now or at the end of its period."""

    at: datetime
    at_period_end: bool = False
    because: CanceledBecause = CanceledBecause.REQUESTED


class ResumeSubscription(Struct, frozen=True, kw_only=True):
    """Takes back a cancellation at the end of the period."""

    at: datetime


class RetryCharge(Struct, frozen=True, kw_only=True):
    """Charges the oldest open invoice now; with `drafts`, also the drafts of missed periods."""

    at: datetime
    drafts: bool = False


class RunDue(Struct, frozen=True, kw_only=True):
    """Does the earliest of what is due at `at`."""

    at: datetime


class ChargePaid(Struct, frozen=True, kw_only=True, tag="paid"):
    """The order captured the whole amount."""


class ChargeFailed(Struct, frozen=True, kw_only=True, tag="failed"):
    """The order failed with a decline code (contract 5.1), and holds no money."""

    code: str
    hard: bool
    by_risk: bool = False


class ChargeNotSent(Struct, frozen=True, kw_only=True, tag="not-sent"):
    """The processor never received the charge. With `order_ended`, its order takes no further payment of it."""

    order_ended: bool = False


ChargeOutcome = ChargePaid | ChargeFailed | ChargeNotSent


class RecordCharge(Struct, frozen=True, kw_only=True):
    """Records the outcome of a charge by its payment order.

    `payment_id` is the payment that has the outcome: an earlier one of the same order does not end the charge.
    `unpaid_days` is the number of days after which an UNPAID subscription is cancelled.
    """

    order_id: UUID
    payment_id: UUID
    outcome: ChargeOutcome
    at: datetime
    unpaid_days: int


class RecordRefund(Struct, frozen=True, kw_only=True):
    """Records how much of a payment order has gone back to the payer so far, lost disputes included."""

    order_id: UUID
    amount_refunded: Decimal
    at: datetime


class NotifyCustomer(Struct, frozen=True, kw_only=True):
    """Sends the oldest message to the customer whose time has come.

    `withheld` is why the customer gets no message of a kind; a kind without a reason can be sent. `real_at` is real
    time, and so is `deadline_at`, which ends the attempt to hand the message to `notifier`.
    """

    notifier: str
    deadline_at: datetime
    real_at: datetime
    at: datetime
    withheld: Mapping[NoticeKind, NoticeDroppedBecause]


class RecordNotice(Struct, frozen=True, kw_only=True):
    """Records the outcome of an attempt to hand a message to a notifier."""

    notice_id: UUID
    outcome: AttemptOutcome
    at: datetime
