"""Chooses the account at which a new payment is made: the first one that takes its method, currency and amount."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from msgspec import Struct

from ledger.domain.money import plain, shortest
from ledger.domain.orders.capabilities import INSTALLMENTS_CURRENCY, Candidate
from ledger.domain.orders.commands import NewPayment
from ledger.domain.orders.decide.guards import require_chargeable
from ledger.domain.orders.terms import MethodType
from ledger.domain.rejections import AmountNotChargeable, MethodNotEnabled


class _Refusal(Struct, frozen=True, kw_only=True):
    """Why an account does not take a payment: `reason` completes "the account …".

    `alone` is the text for a merchant whose only account it is. `bounds` are those that the amount exceeds.
    """

    account: str
    reason: str
    alone: str
    bounds: tuple[Decimal | None, Decimal | None] | None = None
    of_fraction: AmountNotChargeable | None = None

    @property
    def fact(self) -> dict[str, Any]:
        return {"account": self.account, "reason": self.reason, **_bounds([self])}


def choose(payment: NewPayment, currency: str, subtotal: Decimal, amount: Decimal) -> Candidate:
    """Returns the first account that takes `amount`, gross and in minor units, of which `subtotal` is the order's part.

    Raises AmountNotChargeable if an account takes the payment but for a fraction of its unit, otherwise
    MethodNotEnabled with the reason of each account.
    """
    refusals = []
    for candidate in payment.candidates:
        refusal = _refusal(candidate, payment, currency, subtotal, amount)
        if refusal is None:
            return candidate
        refusals.append(refusal)
    raise _refused(payment.method.type, refusals)


def account_in_event(candidate: Candidate) -> str | None:
    """Returns the name of an account as events have it: None for one that is named as its processor."""
    return None if candidate.account == candidate.processor else candidate.account


def _refusal(
    candidate: Candidate, payment: NewPayment, currency: str, subtotal: Decimal, amount: Decimal
) -> _Refusal | None:
    method = payment.method.type
    account, name = candidate.account, method.lower()
    offered = [each for each in candidate.methods if each.type is method]
    if candidate.refusal is not None or not offered:
        reason = candidate.refusal or f"takes no payments by {name}"
        return _Refusal(account=account, reason=reason, alone=f"The account {account} {reason}.")
    if candidate.needs_payer and payment.payer_lacks:
        lacks = " and ".join(payment.payer_lacks)
        reason = f"takes {name} only from a customer with {lacks}"
        alone = f"Payments by {name} are taken only from a customer with {lacks}: add what the customer lacks."
        return _Refusal(account=account, reason=reason, alone=alone)
    in_currency = [each for each in offered if each.takes(currency, None)]
    if not in_currency:
        taken = ", ".join(sorted({code for each in offered for code in each.currencies or ()}))
        reason = f"takes {name} only in {taken}"
        alone = f"Payments by {name} are not accepted in {currency}, only in {taken}."
        return _Refusal(account=account, reason=reason, alone=alone)
    if payment.installments is not None:
        in_currency = [each for each in in_currency if payment.installments in each.installments]
        if currency != INSTALLMENTS_CURRENCY or not in_currency:
            reason = f"takes no {name} in {payment.installments} instalments in {currency}"
            alone = (
                f"Payments by {name} in {payment.installments} instalments in {currency} are not accepted: leave out "
                "paymentMethod.installments."
            )
            return _Refusal(account=account, reason=reason, alone=alone)
    if not any(each.takes(currency, amount) for each in in_currency):
        lowest, highest = in_currency[0].amount_min, in_currency[0].amount_max
        reason = f"takes {name} {_range(lowest, highest)} minor units"
        alone = f"Payments by {name} of {plain(amount)} minor units are not accepted, only {_range(lowest, highest)}."
        return _Refusal(account=account, reason=reason, alone=alone, bounds=(lowest, highest))
    try:
        for each in (subtotal, amount):
            require_chargeable(each, candidate.smallest_amount)
    except AmountNotChargeable as fraction:
        unit = candidate.smallest_amount
        reason = "takes whole minor units only" if unit == 1 else f"takes multiples of {plain(unit)} minor units only"
        return _Refusal(account=account, reason=reason, alone=fraction.message, of_fraction=fraction)
    return None


def _range(lowest: Decimal | None, highest: Decimal | None) -> str:
    if highest is None:
        return f"from {plain(lowest or Decimal(0))}"
    return f"up to {plain(highest)}" if lowest is None else f"from {plain(lowest)} to {plain(highest)}"


def _refused(method: MethodType, refusals: list[_Refusal]) -> MethodNotEnabled | AmountNotChargeable:
    name = method.lower()
    if not refusals:
        return MethodNotEnabled(
            f"No {name} processor is connected: connect an account by PUT /v1/processor-accounts/{{name}} first."
        )
    fraction = next((each.of_fraction for each in refusals if each.of_fraction is not None), None)
    if fraction is not None:
        return fraction
    text = refusals[0].alone
    if len(refusals) > 1:
        reasons = "; ".join(f"{each.account} {each.reason}" for each in refusals)
        text = f"No connected account takes this payment by {name}: {reasons}."
    refused = MethodNotEnabled(text, accounts=[each.fact for each in refusals])
    refused.facts |= _bounds(refusals)
    return refused


def _bounds(refusals: list[_Refusal]) -> dict[str, Decimal]:
    """Returns the widest bounds of the accounts that would take another amount."""
    bounds = [each.bounds for each in refusals if each.bounds is not None]
    lowest = [low for low, _ in bounds if low is not None]
    highest = [high for _, high in bounds if high is not None]
    facts = {"amountMin": shortest(min(lowest))} if lowest and len(lowest) == len(bounds) else {}
    return facts | ({"amountMax": shortest(max(highest))} if highest and len(highest) == len(bounds) else {})
