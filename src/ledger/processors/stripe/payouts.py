"""Payouts to the merchant's bank: the payments that each settles, with Stripe's fee for them.

An automatic payout has lines, the balance transactions that it pays out; those of charges are payments. A refund, a
dispute or a fee of its own is no payment's line. The money of a payout that failed is a line of a later one
(`payout_failure`, `payout_cancel`), which so settles the same payments.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import msgspec

from ledger.processors.contract import LineRequest, ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.messages import (
    OrderMessage,
    SettlementLine,
    SettlementListed,
    SettlementMatched,
    SettlementRefused,
)
from ledger.processors.stripe.call_keys import about_of, merchant_of
from ledger.processors.stripe.forms import Form
from ledger.processors.stripe.intents import Intents
from ledger.processors.stripe.objects import BalanceTransaction, Charge, Event, Payout
from ledger.processors.stripe.records import EVENTS, LIST_S, TRANSACTIONS, seconds, source_of
from ledger.processors.stripe.transport import Refused
from ledger.processors.stripe.units import from_units

NAME: Final = "stripe"
PAYOUTS: Final = "/v1/payouts"
_PAYMENTS: Final = frozenset({"charge", "payment"})
"""The types of balance transactions that are payments of cards, and of transfers and cash."""
_SENT_BACK: Final = frozenset({"payout_failure", "payout_cancel"})
_CHANGES: Final = ("payout.paid", "payout.failed", "payout.canceled", "payout.reconciliation_completed")
_PAYOUT_ID: Final = re.compile(r"po_\w{1,250}", re.ASCII)
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

    async def lines_since(self, since: datetime, until: datetime) -> AsyncIterator[SettlementLine]:
        """Yields the lines of the payouts that were made or changed in this time, each as it is now.

        The list of events, which has the changes, goes back 30 days. Raises ProcessorTimedOut, ProcessorUnavailable.
        """
        try:
            for payout_id in await self._changed(since, until):
                deadline_at = datetime.now(UTC) + timedelta(seconds=LIST_S)
                payout = await self.transport.get(f"{PAYOUTS}/{payout_id}", {}, Payout, deadline_at=deadline_at)
                for line in await self.lines(payout, deadline_at):
                    yield stages(payout, line)[-1]
        except Refused as refusal:
            raise ProcessorTimedOut(f"Stripe refuses the list: {refusal}") from None

    async def _changed(self, since: datetime, until: datetime) -> Sequence[str]:
        """Returns the ids of the payouts that were made or changed in this time, each once."""
        deadline_at = datetime.now(UTC) + timedelta(seconds=LIST_S)
        made: Form = {"created": {"gte": seconds(since), "lt": seconds(until)}}
        listed = self.transport.list(PAYOUTS, made, Payout, deadline_at=deadline_at)
        found = {payout.id: None async for payout in listed}
        for kind in _CHANGES:
            events = self.transport.list(EVENTS, {**made, "type": kind}, Event, deadline_at=deadline_at)
            found |= {_payout_of(event).id: None async for event in events}
        return list(found)

    async def look_up_line(self, request: LineRequest) -> SettlementLine | None:
        """Returns the line of a payout about a payment as it is now. Raises ProcessorTimedOut, ProcessorUnavailable."""
        try:
            path = f"{PAYOUTS}/{_id(request.batch_id)}"
            payout = await self.transport.get(path, {}, Payout, deadline_at=request.deadline_at)
            charge = (await self.read(request.processor_reference, request.deadline_at)).charge
            lines = [] if charge is None else await self.lines(payout, request.deadline_at, charge.id)
        except Refused as refusal:
            if refusal.error.code == "resource_missing":
                return None
            raise ProcessorTimedOut(f"Stripe does not show the payout: {refusal}") from None
        found = [stages(payout, line)[-1] for line in lines]
        return next((line for line in found if line.merchant_id == request.merchant_id), None)

    async def lines(
        self, payout: Payout, deadline_at: datetime, source: str | None = None
    ) -> Sequence[BalanceTransaction]:
        """Returns the lines of a payout that are payments of the ledger's, or those of one charge.

        Raises like `settlement`.
        """
        found, seen, unread = list[BalanceTransaction](), {payout.id}, [payout]
        while unread:
            read = unread.pop()
            if not read.automatic or read.reconciliation_status != "completed":
                continue  # Stripe refuses the list of a manual payout, and reports when a list is complete
            form: Form = {"payout": read.id, "source": source, "expand": ["data.source"]}
            unread += [] if source is None else await self._sent_back(read, seen, deadline_at)
            async for line in self.transport.list(TRANSACTIONS, form, BalanceTransaction, deadline_at=deadline_at):
                if line.type in _PAYMENTS and _is_ours(source_of(line, Charge)):
                    found.append(line)
                elif line.type in _SENT_BACK:
                    unread += _unseen(line, seen)
        return found

    async def _sent_back(self, payout: Payout, seen: set[str], deadline_at: datetime) -> Sequence[Payout]:
        """Returns the payouts whose money, which the bank sent back, a payout pays out again."""
        found = list[Payout]()
        for kind in sorted(_SENT_BACK):
            form: Form = {"payout": payout.id, "type": kind, "expand": ["data.source"]}
            async for line in self.transport.list(TRANSACTIONS, form, BalanceTransaction, deadline_at=deadline_at):
                found += _unseen(line, seen)
        return found


def _unseen(line: BalanceTransaction, seen: set[str]) -> Sequence[Payout]:
    """Returns the payout that a line sends back, nothing if it was read before."""
    payout = source_of(line, Payout)
    is_new = payout.id not in seen
    seen.add(payout.id)
    return [payout] if is_new else []


def stages(payout: Payout, line: BalanceTransaction) -> Sequence[SettlementLine]:
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


def _payout_of(event: Event) -> Payout:
    try:
        return msgspec.json.decode(event.data.object, type=Payout)
    except msgspec.DecodeError as fault:
        raise ProcessorTimedOut(f"the payout of the event {event.id} is unreadable") from fault


def _id(batch_id: str) -> str:
    """Returns a batch's id that can be one of Stripe's payouts. Raises ProcessorUnavailable for another one."""
    if not _PAYOUT_ID.fullmatch(batch_id):
        raise ProcessorUnavailable("this is no id of a payout of Stripe's")
    return batch_id


def _is_ours(charge: Charge) -> bool:
    return charge.payment_intent is not None and merchant_of(charge.metadata) is not None
