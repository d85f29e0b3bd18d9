"""The deciders of a card's verification: before it is saved, its issuer is asked whether it is good, for no money.

One verification of a card is open at a time. Its number is in the vault from the beginning, under the id that its
method gets; a card that is not saved never uses that id again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from ledger.domain.payment_methods.commands import (
    Challenged,
    ExpireVerification,
    NotCarriedOut,
    RecordVerification,
    Refused,
    ResumeVerification,
    SaveCard,
    Unknown,
    Verified,
    VerifyCard,
)
from ledger.domain.payment_methods.decide import decide_save, not_found, require_room
from ledger.domain.payment_methods.events import (
    CardVerificationAbandoned,
    CardVerificationChallenged,
    CardVerificationDeclined,
    CardVerificationEnded,
    CardVerificationRequested,
    CardVerificationResumed,
    CardVerificationUnanswered,
    CardVerified,
    PaymentMethodEvent,
    PaymentMethodMadeDefault,
)
from ledger.domain.payment_methods.evolve import evolve
from ledger.domain.payment_methods.state import SavedMethods, Verification
from ledger.domain.payment_methods.terms import EndedBecause, PayerStep, VerificationEnd
from ledger.domain.rejections import (
    InvalidField,
    InvalidPaymentMethodState,
    RequestInProgress,
    TooManyCardVerifications,
)

FAILED_MAX: Final = 20
"""The most verifications of a customer within `FAILED_WITHIN` that have saved no card: a client that has more of them
is testing stolen cards, for which an issuer's answer without a charge is worth money.
"""
FAILED_WITHIN: Final = timedelta(hours=24)
UNSENT_MAX: Final = 100
"""The most verifications of a customer within `FAILED_WITHIN` that were never sent. Each stays in the stream, which a
client that repeats its request while the processor is away would make long.
"""


def decide_verification(methods: SavedMethods | None, command: VerifyCard) -> list[PaymentMethodEvent]:
    """Begins a verification of a card. A card that is saved with this expiry is only made the default if asked for.

    Another verification of the card ends if it waits for its payer. Raises RequestInProgress if it waits for the
    processor, PaymentMethodLimitReached, TooManyCardVerifications.
    """
    existing = None if methods is None else methods.method(command.payment_method_id)
    if existing is not None and existing.card is not None and _expiry(existing.card) == _expiry(command.card):
        if not command.is_default or existing.is_default:
            return []
        return [PaymentMethodMadeDefault(payment_method_id=existing.payment_method_id, at=command.at)]
    replaced: list[PaymentMethodEvent] = []
    before = None if methods is None else methods.open_verification(command.payment_method_id)
    if before is not None:
        if before.call is not None:
            raise RequestInProgress(
                "The same card is being verified by another request: read the payment method until it has an outcome."
            )
        replaced.append(_ended(before, EndedBecause.REPLACED, command))
    if methods is not None:
        if existing is None and before is None:
            require_room(methods)
        _require_few_failures(methods, command)
    return [
        *replaced,
        CardVerificationRequested(
            verification_id=command.verification_id,
            payment_method_id=command.payment_method_id,
            customer_id=command.customer_id,
            card=command.card,
            processor=command.processor,
            idempotency_key=str(command.verification_id),
            deadline_at=command.deadline_at,
            at=command.at,
            is_default=command.is_default,
            billing=command.billing,
            account=command.account,
            by_token=command.by_token,
        ),
    ]


def decide_resumption(methods: SavedMethods, command: ResumeVerification) -> list[PaymentMethodEvent]:
    """Continues a verification after its payer acted.

    Raises PaymentMethodNotFound, InvalidField for `referenceId` and `authenticationTransactionId`,
    InvalidPaymentMethodState, RequestInProgress.
    """
    if all(each.payment_method_id != command.payment_method_id for each in methods.verifications):
        if methods.method(command.payment_method_id) is None:
            raise not_found()
        raise _waits_for_nothing()
    verification = methods.open_verification(command.payment_method_id)
    if verification is None or verification.session is None or verification.next_action not in command.steps:
        raise _waits_for_nothing()
    if verification.call is not None:
        raise RequestInProgress(
            "Another request continues the verification: read the payment method until it has an outcome."
        )
    ends_at = verification.action_expires_at
    if ends_at is not None and command.at >= ends_at and verification.session_reference is None:
        raise _waits_for_nothing()  # a session at its processor is asked about until it has ended there
    session = verification.session
    if command.reference_id is not None and session.reference_id not in {None, command.reference_id}:
        raise InvalidField("referenceId", "must be the reference id of the payment method's session")
    if (
        command.transaction_id is not None
        and not command.is_simulated
        and session.transaction_id != command.transaction_id
    ):
        raise InvalidField(
            "authenticationTransactionId", "must be the transaction id of the payment method's challenge"
        )
    return [
        CardVerificationResumed(
            verification_id=verification.verification_id,
            step=verification.next_action,
            idempotency_key=command.idempotency_key,
            transaction_id=command.transaction_id or session.transaction_id,
            deadline_at=command.deadline_at,
            at=command.at,
        )
    ]


def decide_verification_outcome(methods: SavedMethods, command: RecordVerification) -> list[PaymentMethodEvent]:
    """Records the outcome of a verification's call, and saves a card that is verified.

    Returns no events if the call has an outcome already, or its verification has ended otherwise. Never refuses.
    """
    verification = methods.verification(command.verification_id)
    call = None if verification is None else verification.call
    if verification is None or call is None or call.idempotency_key != command.idempotency_key:
        return []
    about: dict[str, Any] = {"verification_id": verification.verification_id, "at": command.at}
    match command.outcome:
        case Verified() as verified:
            return _verified(methods, verification, verified, command)
        case Refused() as refused:
            return [
                CardVerificationDeclined(
                    code=refused.code,
                    message=refused.message,
                    by_risk=refused.by_risk,
                    eci=refused.eci,
                    network_advice=refused.network_advice,
                    **about,
                )
            ]
        case Challenged() as challenged:
            return [
                CardVerificationChallenged(
                    action=_next_step(verification, challenged.action),
                    expires_at=_session_end(verification, challenged, command),
                    session=challenged.session,
                    processor_reference=challenged.processor_reference,
                    **about,
                )
            ]
        case Unknown() as unknown:
            if call.unknown:
                return []
            return [CardVerificationUnanswered(reason=unknown.reason, **about)]
        case NotCarriedOut() as lost:
            return [CardVerificationAbandoned(sent=lost.sent, **about)]


def decide_verification_expiry(methods: SavedMethods, command: ExpireVerification) -> list[PaymentMethodEvent]:
    """Ends a verification whose payer has not acted in time. Returns no events before that, or while a call is open."""
    verification = methods.open_verification(command.payment_method_id)
    if verification is None or verification.call is not None or verification.action_expires_at is None:
        return []
    if command.at < verification.action_expires_at:
        return []
    return [_ended(verification, EndedBecause.EXPIRED, command)]


def _verified(
    methods: SavedMethods, verification: Verification, verified: Verified, command: RecordVerification
) -> list[PaymentMethodEvent]:
    """Returns the events of a verified card: it is saved, or has a new expiry, and may be the default."""
    card_verified = CardVerified(
        verification_id=verification.verification_id,
        processor_reference=verified.processor_reference,
        eci=verified.eci,
        at=command.at,
    )
    save = SaveCard(
        payment_method_id=verification.payment_method_id,
        customer_id=verification.customer_id,
        card=verification.card,
        at=command.at,
        billing=verification.billing,
        account=verification.account if verification.by_token else None,
    )
    after = evolve(methods, card_verified)
    events: list[PaymentMethodEvent] = [card_verified]
    for event in decide_save(after, save):
        after = evolve(after, event)
        events.append(event)
    method = after.method(verification.payment_method_id)
    assert method is not None, "the card is saved"
    if verification.is_default and not method.is_default:
        events.append(PaymentMethodMadeDefault(payment_method_id=method.payment_method_id, at=command.at))
    return events


def _session_end(verification: Verification, challenged: Challenged, command: RecordVerification) -> datetime:
    """Returns when a payer's time ends. A session that goes on at its processor gets no more of it by being asked."""
    known, reference = verification.action_expires_at, verification.session_reference
    if known is not None and reference is not None and reference == challenged.processor_reference:
        return known
    return command.at + timedelta(seconds=challenged.session_s)


def _next_step(verification: Verification, required: PayerStep) -> PayerStep:
    """Returns the payer's next step. Device data leads to a challenge, framed or by redirect, and never back."""
    current = verification.next_action
    if current is None or current is required:
        return required
    return PayerStep.CHALLENGE if current is PayerStep.DEVICE_DATA else current


def _require_few_failures(methods: SavedMethods, command: VerifyCard) -> None:
    since = command.at - FAILED_WITHIN
    recent = [each for each in methods.verifications if each.created_at > since]
    if sum(each.ended is VerificationEnd.NOT_SENT for each in recent) >= UNSENT_MAX:
        raise TooManyCardVerifications(
            f"{UNSENT_MAX} verifications of the customer within 24 hours could not be sent to the payment processor: try "
            "again tomorrow, or let the customer pay an order by the card with persist."
        )
    if sum(each.counts_as_failure for each in recent) >= FAILED_MAX:
        raise TooManyCardVerifications(
            f"{FAILED_MAX} verifications of the customer within 24 hours have saved no card: try again tomorrow, or "
            "let the customer pay an order by the card with persist."
        )


def _expiry(card: Any) -> tuple[int, int]:
    return card.exp_year, card.exp_month


def _ended(verification: Verification, because: EndedBecause, command: VerifyCard | ExpireVerification) -> Any:
    return CardVerificationEnded(verification_id=verification.verification_id, because=because, at=command.at)


def _waits_for_nothing() -> InvalidPaymentMethodState:
    return InvalidPaymentMethodState(
        "The payment method waits for no such step of its payer: read its status and nextAction."
    )
