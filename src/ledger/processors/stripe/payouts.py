"""Payouts to the merchant's bank: the payments that each settles, with Stripe's fee for them.

An automatic payout has lines, the balance transactions that it pays out; those of charges are payments. A refund, a
dispute or a fee of its own is no payment's line. The money of a payout that failed is a line of a later one
(`payout_failure`, `payout_cancel`), which so settles the same payments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from ledger.processors.messages import OrderMessage, SettlementListed, SettlementMatched, SettlementRefused
from ledger.processors.stripe.call_keys import about_of, merchant_of
from ledger.processors.stripe.forms import Form
from ledger.processors.stripe.intents import Intents
from ledger.processors.stripe.objects import BalanceTransaction, Charge, Payout
from ledger.processors.stripe.records import TRANSACTIONS, source_of
from ledger.processors.stripe.units import from_units

NAME: Final = "stripe"
PAYOUTS: Final = "/v1/payouts"
_PAYMENTS: Final = frozenset({"charge", "payment"})
"""The types of balance transactions that are payments of cards, and of transfers and cash."""
_SENT_BACK: Final = frozenset({"payout_failure", "payout_cancel"})
_ENDS: Final[Mapping[str, type[SettlementMatched | SettlementRefused]]] = {
    "paid": SettlementMatched,
    "failed": SettlementRefused,
    "canceled": SettlementRefused,
}
_STAGES: Final = {SettlementMatched: "matched", SettlementRefused: "refused"}


class Payouts(Intents):
    """The payouts of one account."""

    async def settlement(self, payout_id: str, deadline_at: datetime) -> Sequence[OrderMessage]:
        """Returns that a payout lists its payments, and how it has ended if it has. One without lines has no messages.

        Raises Refused, ProcessorTimedOut, ProcessorUnavailable.
        """
        payout = await self.transport.get(f"{PAYOUTS}/{payout_id}", {}, Payout, deadline_at=deadline_at)
        return [message for line in await self.lines(payout, deadline_at) for message in stages(payout, line)]

    async def lines(self, payout: Payout, deadline_at: datetime) -> Sequence[BalanceTransaction]:
        """Returns the lines of a payout that are payments of the ledger's. Raises like `settlement`."""
        found, seen, unread = list[BalanceTransaction](), {payout.id}, [payout]
        while unread:
            read = unread.pop()
            if not read.automatic or read.reconciliation_status != "completed":
                continue  # Stripe refuses the list of a manual payout, and reports when a list is complete
            form: Form = {"payout": read.id, "expand": ["data.source"]}
            async for line in self.transport.list(TRANSACTIONS, form, BalanceTransaction, deadline_at=deadline_at):
                if line.type in _PAYMENTS and _is_ours(source_of(line, Charge)):
                    found.append(line)
                elif line.type in _SENT_BACK:
                    sent_back = source_of(line, Payout)
                    unread += [] if sent_back.id in seen else [sent_back]
                    seen.add(sent_back.id)
        return found


def stages(payout: Payout, line: BalanceTransaction) -> Sequence[OrderMessage]:
    """Returns what a payout reports about the payment of a line: that it lists it, and then how it has ended."""
    charge, at = source_of(line, Charge), datetime.fromtimestamp(payout.created, UTC)
    name = f"{payout.id}:{charge.id}"
    about: dict[str, Any] = {"batch_id": payout.id, "processor_reference": charge.payment_intent, **fee_of(line)}
    listed = SettlementListed(**envelope(charge.metadata, f"{name}:listed", at), **about)
    end = _ENDS.get(payout.status)
    if end is None:
        return [listed]
    return [listed, end(**envelope(charge.metadata, f"{name}:{_STAGES[end]}", at), **about)]


def fee_of(line: BalanceTransaction) -> dict[str, Decimal | str | None]:
    """Returns what Stripe keeps for a payment, the tax in it, and their currency."""
    tax = sum(detail.amount for detail in line.fee_details if detail.type == "tax")
    return {"fee": from_units(line.fee), "fee_tax": from_units(tax), "fee_currency": line.currency.upper() or None}


def envelope(metadata: dict[str, str], message_id: str, at: datetime) -> dict[str, Any]:
    """Returns the fields that every message has. The metadata are those of an object of the ledger's."""
    return {"processor": NAME, "message_id": message_id, "occurred_at": at, **about_of(metadata)}


def _is_ours(charge: Charge) -> bool:
    return charge.payment_intent is not None and merchant_of(charge.metadata) is not None
