"""The aliases of payments: names by which a processor's message can identify a payment instead of an order.

An alias may be missing because the reaction has not reached its event yet: a message without a match is retried later.
A payment gets aliases only once its processor may have it. The event that starts a payment is sealed, and need not be
opened for this.
"""

from __future__ import annotations

from collections.abc import Iterable

from ledger.background.reactions.reaction import Effect, NoteAlias
from ledger.domain.orders.events import (
    AuthorizationRequested,
    LateAuthorizationReported,
    LateCaptureReported,
    PaymentAuthorized,
    PaymentCaptured,
    ReferenceIssued,
    RefundRequested,
)
from ledger.journal.reader import SeenEvent


class PaymentIndex:
    """Stores a payment's id, its references, the processor's names for it, and the keys of its refunds."""

    name = "payment-names"
    topics = frozenset(
        {
            "authorization-requested.v1",
            "payment-authorized.v1",
            "payment-captured.v1",
            "late-capture-reported.v1",
            "late-authorization-reported.v1",
            "reference-issued.v1",
            "refund-requested.v1",
        }
    )

    def react(self, recorded: SeenEvent) -> Iterable[Effect]:
        """Returns the aliases that an event gives its payment."""
        event = recorded.event
        for name in _names(event):
            yield NoteAlias(name, recorded.stream_id, event.payment_id)


def _names(event: object) -> set[str]:
    match event:
        case AuthorizationRequested(idempotency_key=name) | RefundRequested(idempotency_key=name):
            return {name}
        case (
            PaymentAuthorized(payment_id=payment_id, processor_reference=name)
            | LateAuthorizationReported(payment_id=payment_id, processor_reference=name)
            | LateCaptureReported(payment_id=payment_id, processor_reference=name)
        ):
            return {str(payment_id), name}
        case PaymentCaptured(processor_reference=name):
            return {name}
        case ReferenceIssued(payment_id=payment_id, reference=reference, processor_reference=name):
            return {part for part in (str(payment_id), reference.reference, reference.clabe, name) if part}
        case _:
            return set()
