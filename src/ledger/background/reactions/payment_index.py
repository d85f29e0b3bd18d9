"""The aliases of payments: names by which a processor's message can identify a payment instead of an order.

An alias may be missing because the reaction has not reached its event yet: a message without a match is retried later.
A payment gets aliases only once its processor may have it. The event that starts a payment is sealed, and need not be
opened for this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ledger.background.effects import Effect, NoteAlias
from ledger.domain.orders.events import (
    AuthorizationRequested,
    LateAuthorizationReported,
    LateCaptureReported,
    PayerActionRequired,
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
            "payer-action-required.v1",
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
        names = _NAMES[type(event)](event)
        return [NoteAlias(name, recorded.stream_id, event.payment_id) for name in names]


_Named = PaymentAuthorized | LateAuthorizationReported | LateCaptureReported


def _key(event: AuthorizationRequested | RefundRequested) -> set[str]:
    return {event.idempotency_key}


def _id_and_reference(event: _Named) -> set[str]:
    return {str(event.payment_id), event.processor_reference}


def _reference(event: PaymentCaptured | PayerActionRequired) -> set[str]:
    """Returns the processor's name of the payment. A session that ends without money leaves no other event with it."""
    return {event.processor_reference} if event.processor_reference else set()


def _paper(event: ReferenceIssued) -> set[str]:
    issued = event.reference
    return {name for name in (str(event.payment_id), issued.reference, issued.clabe, event.processor_reference) if name}


_NAMES: Final[Mapping[type, Callable[[Any], set[str]]]] = {
    AuthorizationRequested: _key,
    PayerActionRequired: _reference,
    RefundRequested: _key,
    PaymentAuthorized: _id_and_reference,
    LateAuthorizationReported: _id_and_reference,
    LateCaptureReported: _id_and_reference,
    PaymentCaptured: _reference,
    ReferenceIssued: _paper,
}
"""By the type of an event, which is found faster than matched: every order by card has three of these."""
