"""The timers of subscriptions, and the effects of their payment orders on them.

A handler does everything that is due, step by step, on the subscription as it is: a timer that fires twice does nothing
the second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from ledger.background.effects import Effect, EnqueueJob, SetTimer
from ledger.background.scheduler.jobs import Handler
from ledger.domain.orders.events import AuthorizationAbandoned, PaymentCaptured, PaymentDeclined
from ledger.domain.streams import SUBSCRIPTIONS
from ledger.domain.subscriptions.charge_ids import may_be_charge
from ledger.domain.subscriptions.due import DUE, charge_over_at, next_due
from ledger.domain.subscriptions.events import TOPICS
from ledger.domain.subscriptions.notices import NOTICE, notices_at
from ledger.journal.journal import Journal
from ledger.journal.reader import SeenEvent
from ledger.operations.context.ledger import Ledger
from ledger.operations.subscriptions.bill import bill_subscription, settle_order
from ledger.operations.subscriptions.notify import notify_customer

_CHARGE: Final = "subscription-charge"
_ORDER: Final = "subscription-order"

_FAILED_AT_ONCE, _CAPTURED_AT_ONCE = 4, 5
"""The versions of a charge's outcome that came with the answer to its first call: its caller records that itself, or,
after a crash, the timer of the charge.
"""


class ChargeUnderWay(Exception):
    """A subscription is being charged, or its worker has crashed and the outcome of the call is unknown."""


class SubscriptionTimers:
    """Stores when a subscription has to be looked at, when its charge in progress is completed by a worker, and when a
    message to its customer is due.
    """

    name = "subscription-dues"
    topics = frozenset(TOPICS)

    def is_settled(self, seen: Sequence[SeenEvent]) -> bool:  # noqa: ARG002 - the protocol's parameter
        """Returns False: every live subscription has a timer."""
        return False

    async def timers(self, journal: Journal, merchant_id: UUID, stream_id: UUID) -> Sequence[SetTimer]:
        """Returns the timers of a subscription as it is now. Raises a Fault."""
        state, _ = await journal.load(merchant_id, SUBSCRIPTIONS, stream_id)
        if state is None:
            return []
        due = next_due(state)
        moments = {
            DUE: None if due is None else due.at,
            _CHARGE: charge_over_at(state),
            NOTICE: notices_at(state.notices),
        }
        return [SetTimer(kind, stream_id, stream_id, at) for kind, at in moments.items() if at is not None]


class SubscriptionOrders:
    """Brings the later outcome of a subscription's payment order into the subscription, and what of it went back.

    No order is read whose id shows that it charges no subscription.
    """

    name = "subscription-orders"
    topics = frozenset(
        {
            "payment-captured.v1",
            "payment-declined.v1",
            "authorization-abandoned.v1",
            "capture-refused.v1",
            "call-abandoned.v1",
            "payment-cancelled.v1",
            "payment-expired.v1",
            "late-capture-reported.v1",
            "deposit-received.v1",
            "payment-refunded.v1",
            "late-refund-reported.v1",
            "refund-reversed.v1",
            "dispute-lost.v1",
        }
    )

    def react(self, recorded: SeenEvent) -> Iterable[Effect]:
        """Returns the job that looks at the order, unless the event is the answer to its first call."""
        if not may_be_charge(recorded.stream_id):
            return
        event = recorded.event
        if isinstance(event, PaymentCaptured) and recorded.version <= _CAPTURED_AT_ONCE:
            return
        if isinstance(event, PaymentDeclined | AuthorizationAbandoned) and recorded.version <= _FAILED_AT_ONCE:
            return
        yield EnqueueJob(_ORDER, recorded.stream_id, recorded.stream_id, event.at)


async def _bill(ledger: Ledger, merchant_id: UUID, subscription_id: UUID, _: UUID, __: datetime) -> None:
    await bill_subscription(ledger, merchant_id, subscription_id)


async def _complete_charge(ledger: Ledger, merchant_id: UUID, subscription_id: UUID, _: UUID, __: datetime) -> None:
    """Bills like `_bill`. Raises ChargeUnderWay while a charge is in progress: no event may follow its outcome."""
    state = await bill_subscription(ledger, merchant_id, subscription_id)
    if state is not None and state.charge is not None:
        raise ChargeUnderWay


async def _settle(ledger: Ledger, merchant_id: UUID, order_id: UUID, _: UUID, __: datetime) -> None:
    await settle_order(ledger, merchant_id, order_id)


async def _notify(ledger: Ledger, merchant_id: UUID, subscription_id: UUID, _: UUID, __: datetime) -> None:
    await notify_customer(ledger, merchant_id, subscription_id)


HANDLERS: Final[Mapping[str, Handler]] = {DUE: _bill, _CHARGE: _complete_charge, _ORDER: _settle, NOTICE: _notify}
