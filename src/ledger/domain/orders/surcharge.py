"""The surcharge on top of an order's amount, and the division of captured and refunded money into both (contract 4).

Compute a part from the cumulative sum, never by adding up instalments: then every series of partial captures and
refunds ends at exactly the subtotal and the surcharge.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from msgspec import Struct

from ledger.domain.money import ZERO, rounded, share, share_moved
from ledger.domain.orders.terms import MethodType, SurchargePolicy


class SurchargeSplit(Struct, frozen=True):
    """A gross amount in minor units, divided into the part that counts towards the order and the surcharge on top."""

    subtotal: Decimal
    surcharge: Decimal


NOTHING: Final = SurchargeSplit(ZERO, ZERO)


class FrozenRefund(Struct, frozen=True):
    """A boundary of a refund that a document states: the payment's refunded total at that point, gross, and its split.

    `overpaid` is how much of it was overpayment, which goes back first.
    """

    refunded: Decimal
    parts: SurchargeSplit
    overpaid: Decimal = ZERO

    @property
    def regular(self) -> SurchargeSplit:
        """The parts without the overpayment."""
        return SurchargeSplit(self.parts.subtotal - self.overpaid, self.parts.surcharge)


_BEGINNING: Final = FrozenRefund(ZERO, NOTHING)


def quote(policy: SurchargePolicy | None, method: MethodType, subtotal: Decimal, quantum: Decimal) -> Decimal:
    """Returns the surcharge on `subtotal` by this method: minor units, rounded half up to the order's quantum."""
    if policy is None or method not in policy.methods:
        return ZERO
    return rounded(subtotal * policy.rate / 100, quantum)


def split_capture(captured: Decimal, requested: SurchargeSplit, quantum: Decimal) -> SurchargeSplit:
    """Returns the split of the captured total of a payment that requested these parts (section 8.5).

    Money beyond the requested amount carries no surcharge.
    """
    if not captured:
        return NOTHING
    if captured >= requested.subtotal + requested.surcharge or not requested.surcharge:
        return SurchargeSplit(captured - requested.surcharge, requested.surcharge)
    subtotal = min(captured, share(captured, requested.subtotal, requested.subtotal + requested.surcharge, quantum))
    return SurchargeSplit(subtotal, captured - subtotal)


def split_refund(
    refunded: Decimal, captured: SurchargeSplit, quantum: Decimal, frozen: SurchargeSplit = NOTHING
) -> SurchargeSplit:
    """Returns the split of the refunded total of a payment that captured these parts (section 4.4).

    `frozen` is the split that issued documents state for the first part of the refund. Its difference from the current
    proportion shrinks linearly with the refunded total and is zero when all that was captured is refunded.
    """
    if not refunded:
        return NOTHING
    whole, start = captured.subtotal + captured.surcharge, frozen.subtotal + frozen.surcharge
    if start and start >= whole:
        return SurchargeSplit(frozen.subtotal + refunded - start, frozen.surcharge)
    moved = frozen.subtotal - share(start, captured.subtotal, whole, quantum) if start else ZERO
    if moved:
        subtotal = share_moved(refunded, captured.subtotal, whole, (start, moved), quantum)
    else:
        subtotal = share(refunded, captured.subtotal, whole, quantum)
    return SurchargeSplit(subtotal, refunded - subtotal)


def split_refunds(
    refunded: Decimal,
    captured: Decimal,
    requested: SurchargeSplit,
    frozen: Sequence[FrozenRefund],
    quantum: Decimal,
) -> SurchargeSplit:
    """Returns the split of the refunded total of a payment that requested these parts and captured `captured`.

    An overpayment goes back first, without surcharge (section 4.6). The splits in `frozen` stay as documents state
    them, whatever was captured later.
    """
    last = _BEGINNING
    for each in frozen:
        if refunded <= each.refunded:
            return _split_between(last, each, refunded, quantum)
        last = each
    amount = requested.subtotal + requested.surcharge
    overpaid = overpaid_in(refunded, captured - amount, last)
    regular = split_capture(min(captured, amount), requested, quantum)
    parts = split_refund(refunded - overpaid, regular, quantum, last.regular)
    return SurchargeSplit(parts.subtotal + overpaid, parts.surcharge)


def overpaid_in(refunded: Decimal, excess: Decimal, last: FrozenRefund = _BEGINNING) -> Decimal:
    """Returns how much of a refunded total is overpayment: `excess` is what was captured beyond the requested amount.

    `refunded` is not below the last frozen total.
    """
    return last.overpaid + min(refunded - last.refunded, max(ZERO, excess) - last.overpaid)


def freeze_refund(
    before: Decimal,
    part: SurchargeSplit,
    captured: Decimal,
    requested: SurchargeSplit,
    frozen: tuple[FrozenRefund, ...],
    quantum: Decimal,
) -> tuple[FrozenRefund, ...]:
    """Returns the frozen totals with the two boundaries of a refund whose split `part` is stated by a document.

    `before` is what the payment had given back before it, gross. A refund before the last frozen total is frozen
    already.
    """
    excess, last = captured - requested.subtotal - requested.surcharge, frozen[-1] if frozen else _BEGINNING
    end = before + part.subtotal + part.surcharge
    if end <= last.refunded:
        return frozen
    parts = split_refunds(before, captured, requested, frozen, quantum)
    ends = SurchargeSplit(parts.subtotal + part.subtotal, parts.surcharge + part.surcharge)
    if before > last.refunded:
        frozen = (*frozen, FrozenRefund(before, parts, overpaid_in(before, excess, last)))
    return (*frozen, FrozenRefund(end, ends, overpaid_in(end, excess, last)))


def _split_between(before: FrozenRefund, after: FrozenRefund, refunded: Decimal, quantum: Decimal) -> SurchargeSplit:
    """Returns the split of a refunded total that lies between two frozen ones, or equals the second."""
    passed = refunded - before.refunded
    more = after.parts.subtotal - before.parts.subtotal
    subtotal = share(passed, more, after.refunded - before.refunded, quantum)
    return SurchargeSplit(before.parts.subtotal + subtotal, before.parts.surcharge + passed - subtotal)
