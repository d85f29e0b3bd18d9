"""Names of payments, noted as they become known: what a processor's message may say instead of an order.

The rule a stranger would break: a name that is not here yet is not unknown. The reaction follows the log; a message that
finds nobody is put off and asks again. A payment has no name before its processor knows it: what opens one is sealed, and
would have to be opened for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from ledger.background.reactions.reaction import Effect, NoteAlias
from ledger.domain.orders.events import PaymentAuthorized, PaymentCaptured, ReferenceIssued, RefundRequested
from ledger.journal.reader import RecordedEvent


class PaymentIndex:
    """Notes the payment's id, its references, the processor's names for it, and the keys of its refunds."""

    name = "payment-names"
    topics = frozenset(
        {
            "payment-authorized.v1",
            "payment-captured.v1",
            "reference-issued.v1",
            "refund-requested.v1",
        }
    )

    def react(self, recorded: RecordedEvent) -> Iterable[Effect]:
        """The names that an event gives its payment."""
        event = recorded.event
        for name in _names(event):
            yield NoteAlias(name, recorded.stream_id, event.payment_id)


def _names(event: object) -> set[str]:
    match event:
        case PaymentAuthorized(payment_id=payment_id, processor_reference=name):
            return {str(payment_id), name}
        case PaymentCaptured(processor_reference=name):
            return {name}
        case ReferenceIssued(payment_id=payment_id, reference=reference, processor_reference=name):
            return {part for part in (str(payment_id), reference.reference, reference.clabe, name) if part}
        case RefundRequested(idempotency_key=name):
            return {name}
        case _:
            return set()
