"""Sessions in which the payer's own act verifies a card at its processor: continued without the payer, and ended there.

The log ends such a session only once the processor has. What the merchant ends (a deletion, another request for the
card) ends at once: the processor learns of it afterwards, and what a quicker payer has left there is forgotten when its
message comes (`background.inbox.verification_changes`). None of these calls moves money, and each may be repeated.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Final
from uuid import UUID

import structlog
from uuid_utils.compat import uuid7

from ledger.call_failures import TimedOut, Unavailable
from ledger.domain.money import ZERO
from ledger.domain.orders.events import SessionEnd
from ledger.domain.orders.payment import EntryAction
from ledger.domain.orders.processor_outcomes import ActionRequired, VoidAnswer, Voided
from ledger.domain.payment_methods.commands import ResumeVerification
from ledger.domain.payment_methods.events import CardVerificationEnded
from ledger.domain.payment_methods.state import SavedMethods, Verification, stream_of
from ledger.domain.payment_methods.terms import PayerStep
from ledger.domain.payment_methods.verification import decide_resumption
from ledger.domain.streams import PAYMENT_METHODS
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.payment_methods.verification_call import CURRENCY
from ledger.operations.pipeline.accounts import processor_of
from ledger.operations.pipeline.calls import Call, Failure, look_up_from_timer, make_call, read_clocks
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.processor_metrics import LOOK_UP, VERIFICATION, observed
from ledger.operations.pipeline.processor_requests import SecretInputs
from ledger.operations.pipeline.session_end import end_session
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.postgres.faults import Fault
from ledger.processors.contract import LookUpRequest, ProcessorUnavailable, VoidRequest

_log = structlog.get_logger()

_ACTED: Final = (PayerStep.CHALLENGE, PayerStep.REDIRECT)


async def continue_verification(ledger: Ledger, merchant_id: UUID, verification: Verification) -> bool:
    """Continues the verification of a card whose payer has acted and never came back, as his return would.

    Returns whether it waits for its payer no longer. Raises Rejected like `resume_verification`, ConcurrentUpdate, a
    Fault.
    """
    method_id, stream_id = verification.payment_method_id, stream_of(verification.customer_id)
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="message"), cause=method_id)
    key = str(uuid7())

    async def attempt(_: Conflict | None) -> Plan:
        methods = await uow.load(PAYMENT_METHODS, stream_id)
        assert methods is not None, "a verification with a session was requested"
        now = methods.verification(verification.verification_id)
        if now is None or now.session is None:
            return Plan(changes=[uow.change(PAYMENT_METHODS, stream_id, ())])
        command = ResumeVerification(
            payment_method_id=method_id,
            steps=_ACTED,
            idempotency_key=key,
            deadline_at=ledger.call_deadline(),
            at=uow.now,
            transaction_id=now.session.transaction_id,
        )
        return Plan(changes=[uow.change(PAYMENT_METHODS, stream_id, decide_resumption(methods, command))])

    await execute(uow, attempt)
    after = await uow.load(PAYMENT_METHODS, stream_id)
    now = None if after is None else after.verification(verification.verification_id)
    return now is None or now.ended is not None or now.call is not None


async def has_ended_at_processor(ledger: Ledger, merchant_id: UUID, verification: Verification) -> bool | None:
    """Ends a session whose time is over at its processor. Returns False if its payer was quicker, None if that is not
    known yet.

    A session of an account that is gone ends by the clock alone, as one that is not at a processor. Raises a Fault.
    """
    reference = verification.session_reference
    if reference is None:
        return True
    try:
        processor = await processor_of(ledger, merchant_id, verification.account)
    except (TimedOut, Unavailable):
        return None
    if processor is None:
        return True
    how = look_up_from_timer(ledger)
    void = _void(merchant_id, verification, reference, how.deadline_at)
    request = _question(merchant_id, verification, reference, void.idempotency_key, how.deadline_at)
    try:
        with ledger.timeouts.within(how.timeout_s):
            ending = end_session(processor, void, request, SessionEnd.EXPIRED)
            answer = await observed(verification.processor, VERIFICATION, ending)
    except (TimedOut, Unavailable, TimeoutError):
        return None
    return isinstance(answer, Voided)


async def has_acted(ledger: Ledger, merchant_id: UUID, verification: Verification, timeout_s: float) -> bool:
    """Asks the processor whether the payer of a session has acted there.

    Raises TimedOut, Unavailable or TimeoutError if it does not answer, a Fault.
    """
    reference = verification.session_reference
    processor = await processor_of(ledger, merchant_id, verification.account)
    if reference is None or processor is None:
        return False
    deadline_at = datetime.now(UTC) + timedelta(seconds=timeout_s)
    request = _question(merchant_id, verification, reference, str(verification.verification_id), deadline_at)
    with ledger.timeouts.within(timeout_s):
        answer = await observed(verification.processor, LOOK_UP, processor.look_up(request))
    return not isinstance(answer, ActionRequired)


def _question(
    merchant_id: UUID, verification: Verification, reference: str, key: str, deadline_at: datetime
) -> LookUpRequest:
    """Returns the question for what has become of a session."""
    return LookUpRequest(
        merchant_id=merchant_id,
        idempotency_key=key,
        deadline_at=deadline_at,
        customer_id=verification.customer_id,
        step=EntryAction.AUTHENTICATION,
        amount=ZERO,
        currency=CURRENCY,
        processor_reference=reference,
    )


class SessionWithdrawal(Call, frozen=True, kw_only=True):
    """Ends the session of a verification at its processor that the merchant has ended."""

    verification: Verification
    void: VoidRequest
    deadline_at: datetime

    is_recorded: ClassVar[bool] = False

    async def send(self, prepared: None, left_s: float) -> VoidAnswer:  # noqa: ARG002 - the request has it
        processor = await processor_of(self.ledger, self.merchant_id, self.verification.account)
        if processor is None:
            raise ProcessorUnavailable(f"the merchant has no account {self.verification.account}")
        return await observed(self.verification.processor, VERIFICATION, processor.void(self.void))

    def without_answer(self, failure: Failure) -> None:
        about = {"processor": self.verification.processor, "account": self.verification.account}
        _log.warning("card_session_not_withdrawn", reason=type(failure.fault).__name__, **about)


def withdrawal_of(
    ledger: Ledger, merchant_id: UUID, state: object, event: CardVerificationEnded, _: SecretInputs
) -> SessionWithdrawal | None:
    """Returns the call that ends a session at its processor, if the verification has ended in the log alone.

    The erasure of a customer, whose plan begins with another stream, calls `withdraw_sessions`.
    """
    verification = state.verification(event.verification_id) if isinstance(state, SavedMethods) else None
    return None if verification is None else _withdrawal(ledger, merchant_id, verification)


async def withdraw_sessions(ledger: Ledger, merchant_id: UUID, customer_id: UUID) -> None:
    """Ends the sessions that an erased customer has left at the processors, as far as these answer."""
    with suppress(Fault):
        uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id))
        methods = await uow.load(PAYMENT_METHODS, stream_of(customer_id))
        for verification in methods.verifications if methods is not None else ():
            call = _withdrawal(ledger, merchant_id, verification)
            if call is not None:
                await make_call(uow, call, read_clocks())


def _withdrawal(ledger: Ledger, merchant_id: UUID, verification: Verification) -> SessionWithdrawal | None:
    reference = verification.session_reference
    if verification.ended is None or reference is None:
        return None
    deadline_at = ledger.call_deadline()
    void = _void(merchant_id, verification, reference, deadline_at)
    return SessionWithdrawal(
        ledger=ledger, merchant_id=merchant_id, verification=verification, void=void, deadline_at=deadline_at
    )


def _void(merchant_id: UUID, verification: Verification, reference: str, deadline_at: datetime) -> VoidRequest:
    """Returns the request that ends a session, under a new key: a processor repeats its answer to a known one."""
    return VoidRequest(
        merchant_id=merchant_id,
        idempotency_key=str(uuid7()),
        deadline_at=deadline_at,
        at=verification.updated_at,
        customer_id=verification.customer_id,
        processor_reference=reference,
    )
