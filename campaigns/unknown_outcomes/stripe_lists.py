"""Compares Stripe's own lists with the ledger's log: every intent, charge and refund, to the last unit, and each once.

Match the two sides by the key in an intent's metadata alone, and never derive one side's amounts from the other's.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import aiohttp
from msgspec import Struct

from campaigns.chaos.evidence import MerchantEvidence
from campaigns.unknown_outcomes.comparison import (
    Key,
    LedgerPayment,
    Totals,
    Verdict,
    paid_twice,
    payments_by_key,
    still_open,
    was_unknown,
)
from ledger.domain.orders.statuses import PaymentStatus

Object = Mapping[str, Any]

_PAGE: Final = 100
_UNDONE: Final = frozenset({"failed", "canceled"})
_HELD: Final = frozenset({PaymentStatus.AUTHORIZED})
_ENDED: Final = frozenset({PaymentStatus.CANCELLED, PaymentStatus.FAILED})
_NOTHING_HELD: Final = frozenset({"missing", "canceled", "requires_payment_method"})
"""An intent whose confirmation was never sent stays without a card."""


class Lists(Struct, frozen=True, kw_only=True):
    """What Stripe lists of an account: all of it, oldest last."""

    intents: Sequence[Object]
    charges: Sequence[Object]
    refunds: Sequence[Object]


async def listed(session: aiohttp.ClientSession, url: str) -> Lists:
    """Returns everything that the account at this address lists."""
    return Lists(
        intents=await _all(session, f"{url}/v1/payment_intents"),
        charges=await _all(session, f"{url}/v1/charges"),
        refunds=await _all(session, f"{url}/v1/refunds"),
    )


async def _all(session: aiohttp.ClientSession, url: str) -> Sequence[Object]:
    found: list[Object] = []
    while True:
        after = {"starting_after": found[-1]["id"]} if found else {}
        async with session.get(url, params={"limit": str(_PAGE), **after}) as answer:
            page = await answer.json()
        assert answer.status == 200, page
        found += page["data"]
        if not page["has_more"]:
            return found


def compare_lists(lists: Lists, evidence: Sequence[MerchantEvidence]) -> Verdict:
    """Compares the lists with every order of every merchant. The verdict's totals have no faults."""
    payments = payments_by_key(evidence)
    violations = [
        *made_twice(lists),
        *_unannounced(lists, payments),
        *_differing(lists, payments),
        *still_open(payments),
        *paid_twice(evidence),
    ]
    ours = [found.payment for found in payments.values()]
    totals = Totals(
        payments=len(payments),
        captured=sum((payment.captured for payment in ours), Decimal(0)),
        refunded=sum((payment.refunded for payment in ours), Decimal(0)),
        voided=sum(payment.status is PaymentStatus.CANCELLED for payment in ours),
        calls={},
        unknown=sum(map(was_unknown, evidence)),
    )
    return Verdict(violations, totals)


def made_twice(lists: Lists) -> Iterator[str]:
    """Yields each key under which something was made more than once."""
    for kind, objects in (("intents", lists.intents), ("refunds", lists.refunds)):
        for key, n in Counter(map(_key, objects)).items():
            if n > 1:
                yield f"{key} made {n} {kind}"
    charged = Counter(charge["payment_intent"] for charge in lists.charges if charge["status"] == "succeeded")
    yield from (f"{intent} was charged {n} times" for intent, n in charged.items() if n > 1)


def _unannounced(lists: Lists, payments: Mapping[Key, LedgerPayment]) -> Iterator[str]:
    announced = {(merchant_id, key) for (merchant_id, _), ours in payments.items() for key in ours.keys}
    for found in (*lists.intents, *lists.refunds):
        if _key(found) not in announced:
            yield f"{found['id']} is in no order: {_key(found)}"


def _differing(lists: Lists, payments: Mapping[Key, LedgerPayment]) -> Iterator[str]:
    intents = {_key(intent): intent for intent in lists.intents}
    refunded: dict[str, int] = defaultdict(int)
    for refund in lists.refunds:
        if refund["status"] not in _UNDONE:
            refunded[refund["payment_intent"]] += refund["amount"]
    for key, ours in payments.items():
        intent = intents.get(key)
        given_back = 0 if intent is None else refunded[intent["id"]]
        yield from (f"{key[1]}: {wrong}" for wrong in differences(ours, intent, given_back))


def differences(ours: LedgerPayment, intent: Object | None, given_back: int) -> Iterator[str]:
    """Yields in what a payment differs from its intent, None for one that Stripe never had."""
    payment, status = ours.payment, "missing" if intent is None else intent["status"]
    received = 0 if intent is None else intent["amount_received"]
    if payment.captured != received:
        yield f"Stripe captured {received}, the ledger has {payment.captured}"
    if payment.refunded != given_back:
        yield f"Stripe refunded {given_back}, the ledger has {payment.refunded}"
    if (status == "requires_capture") is not (payment.status in _HELD):
        yield f"at Stripe it is {status}, in the ledger {payment.status}"
    if payment.status in _ENDED and status not in _NOTHING_HELD:
        yield f"the ledger has it as {payment.status}, and at Stripe it is {status}"


def _key(found: Object) -> Key:
    """Returns the merchant and the key of the call that has made an object."""
    metadata = found["metadata"]
    return UUID(metadata["ledger_merchant"]), str(metadata["ledger_key"])
