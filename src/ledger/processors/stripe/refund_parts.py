"""The refunds that one call has made: a payout gives back what was applied through the intent, and the rest from the
balance of the reference's customer.

Each has the call's key and whole amount in its metadata. A call that was fenced makes no further one: it is over when
those that it has made are.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final

from ledger.domain.money import ZERO
from ledger.domain.orders.processor_outcomes import RefundAnswer, Refunded, RefundPending, RefundRefused
from ledger.processors.stripe.call_keys import FENCED, WHOLE_AMOUNT, named_key
from ledger.processors.stripe.charges import REFUNDS, refunded
from ledger.processors.stripe.forms import Form
from ledger.processors.stripe.objects import Refund
from ledger.processors.stripe.transport import Transport
from ledger.processors.stripe.units import from_units

_HOUR_S, _DAY_S = 3_600, 86_400
_NOT_MADE: Final = "ONLY_A_PART_MADE"


def whole_of(refund: Refund) -> int:
    """Returns what the call of a refund gives back in all: it may need several refunds, each with the sum."""
    stated = (refund.metadata or {}).get(WHOLE_AMOUNT, "")
    return int(stated) if stated.isascii() and stated.isdecimal() else refund.amount


async def parts_of(transport: Transport, refund: Refund, deadline_at: datetime) -> Sequence[Refund]:
    """Returns the refunds that the call of a refund has made, this one among them, in the order of their ids.

    Raises Refused, ProcessorTimedOut, ProcessorUnavailable.
    """
    key = named_key(refund.metadata)
    if key is None or whole_of(refund) == refund.amount:
        return [refund]
    made: Form = {"created": {"gte": refund.created - _HOUR_S, "lte": refund.created + _DAY_S}}
    listed = transport.list(REFUNDS, made, Refund, deadline_at=deadline_at)
    return sorted([each async for each in listed if named_key(each.metadata) == key], key=lambda each: each.id)


def are_all(parts: Sequence[Refund]) -> bool:
    """Returns whether a call makes no refund beside these."""
    is_whole = sum(part.amount for part in parts) == whole_of(parts[0])
    return is_whole or any(FENCED in (part.metadata or {}) for part in parts)


def answer_of(amount: Decimal, parts: Sequence[Refund]) -> RefundAnswer:
    """Returns the answer of a call that gives back `amount` by these refunds: it is over when all of them are.

    A call of which a part failed, or was never made, has failed; its answer has what went back.
    """
    answers = [refunded(part) for part in parts]
    if any(isinstance(answer, RefundPending) for answer in answers):
        return RefundPending(processor_reference=parts[0].id)
    made = [answer for answer in answers if isinstance(answer, Refunded)]
    returned = sum((answer.amount for answer in made), ZERO)
    if returned == amount:
        return Refunded(amount=amount, processor_reference=parts[0].id)
    for answer in answers:
        if isinstance(answer, RefundRefused):
            code, message = answer.code, answer.message
            break
    else:
        code, message = _NOT_MADE, "Stripe refused the other part of the refund."
    reference = made[0].processor_reference if made else None
    return RefundRefused(code=code, message=message, returned=returned, returned_reference=reference, is_final=True)


def returned_of(parts: Sequence[Refund]) -> Decimal | None:
    """Returns what a call that has failed gave back all the same; None if it has not failed, or is not over."""
    if not are_all(parts):
        return None
    answer = answer_of(from_units(whole_of(parts[0])), parts)
    return answer.returned if isinstance(answer, RefundRefused) and answer.returned else None
