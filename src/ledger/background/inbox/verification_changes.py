"""Records what a processor's answer about the verification of a card shows: that a payer who never came back has acted.

A call without an outcome is the recovery's: wait for it. A card that a quicker payer has saved at the processor,
although the verification had ended in the log, is forgotten there: no payment method has it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from hmac import compare_digest
from typing import Final

from ledger.background.inbox.consumer import Applied, Disposition, RetryLater
from ledger.domain.payment_methods.state import SavedMethods, Verification, stream_of
from ledger.domain.payment_methods.terms import VerificationEnd
from ledger.domain.rejections import Rejected
from ledger.domain.streams import PAYMENT_METHODS
from ledger.operations.context.ledger import Ledger
from ledger.operations.payment_methods.kept_cards import forget
from ledger.operations.payment_methods.sessions import continue_verification
from ledger.processors.card_references import CardReferences, KeptCard
from ledger.processors.findings import VerificationState

_UNDER_WAY: Final = "a call about its card has no outcome yet"
_NOT_CONTINUED: Final = "the verification of its card could not be continued"
_NOT_FORGOTTEN: Final = "the processor does not forget a card that is not saved"


async def record_verification_state(ledger: Ledger, names: tuple[str, ...], state: VerificationState) -> Disposition:
    """Records the state of a verification at an account with these names, as far as the log differs. Raises a Fault.

    The log keeps no verification of a card that was verified again since: there is nothing to record of it.
    """
    stream_id = stream_of(state.customer_id)
    methods, _ = await ledger.journal.load(state.merchant_id, PAYMENT_METHODS, stream_id)
    verification = None if methods is None else methods.verification(state.verification_id)
    if methods is None or verification is None or verification.account not in names:
        return Applied()
    if verification.ended is not None:
        return await _forget_unsaved(ledger, methods, verification, state)
    if verification.call is not None:
        return RetryLater(_UNDER_WAY)
    if state.is_waiting or verification.session_reference != state.processor_reference:
        return Applied()
    try:
        is_continued = await continue_verification(ledger, state.merchant_id, verification)
    except Rejected as rejection:
        return RetryLater(f"{rejection.code}: {rejection}")
    return Applied() if is_continued else RetryLater(_NOT_CONTINUED)


async def _forget_unsaved(
    ledger: Ledger, methods: SavedMethods, verification: Verification, state: VerificationState
) -> Disposition:
    """Lets the processor forget the card of a verification that has saved none."""
    references, saved = ledger.card_references, state.saved_card
    if verification.ended is VerificationEnd.VERIFIED or saved is None or references is None:
        return Applied()
    if await _is_in_use(references, methods, state):
        return Applied()
    now = datetime.now(UTC)
    kept = KeptCard(
        merchant_id=state.merchant_id,
        customer_id=state.customer_id,
        payment_method_id=verification.payment_method_id,
        account=verification.account,
        reference=saved,
        touched_at=now,
        unsettled_at=now,
    )
    return Applied() if await forget(ledger, kept) else RetryLater(_NOT_FORGOTTEN)


async def _is_in_use(references: CardReferences, methods: SavedMethods, state: VerificationState) -> bool:
    """Returns whether a method of the customer is charged by the same reference."""
    assert state.saved_card is not None, "the caller has checked it"
    for kept in await references.of_customer(state.merchant_id, state.customer_id):
        is_same = compare_digest(kept.reference.token.encode(), state.saved_card.token.encode())
        if is_same and methods.is_kept(kept.payment_method_id):
            return True
    return False
