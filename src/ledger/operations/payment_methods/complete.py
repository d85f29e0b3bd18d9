"""Completes verifications that no request completes: looks up a call without an outcome, ends one without its payer."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import structlog

from ledger.call_failures import TimedOut, Unavailable
from ledger.domain.payment_methods.commands import ExpireVerification
from ledger.domain.payment_methods.verification import decide_verification_expiry
from ledger.domain.rejections import Rejected
from ledger.domain.streams import PAYMENT_METHODS
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.payment_methods.sessions import continue_verification, has_ended_at_processor
from ledger.operations.payment_methods.verification_call import open_verification_call
from ledger.operations.payment_methods.verify import destroy_unused
from ledger.operations.pipeline.calls import LookUp, look_up_from_timer
from ledger.operations.pipeline.execute import execute, record_outcome
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork

_log = structlog.get_logger()


async def look_up_verification(
    ledger: Ledger, merchant_id: UUID, stream_id: UUID, payment_method_id: UUID, how: LookUp | None = None
) -> bool:
    """Finds the outcome of a card's verification and records it. Returns whether no call is open then.

    `how` is the way of a timer if it is None. Raises ConcurrentUpdate, a Fault.
    """
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="recovery"), cause=payment_method_id)
    methods = await uow.load(PAYMENT_METHODS, stream_id)
    call = None if methods is None else open_verification_call(ledger, merchant_id, methods, payment_method_id)
    if methods is None or call is None:
        return True
    try:
        outcome = await call.look_up(how or look_up_from_timer(ledger, fence=True))
    except (TimedOut, Unavailable, TimeoutError):
        outcome = None
    if outcome is None:
        return False
    await record_outcome(uow, call, outcome)
    await destroy_unused(ledger, merchant_id, methods.customer_id, payment_method_id)
    ids = {"payment_method_id": str(payment_method_id), "merchant_id": str(merchant_id)}
    _log.info("verification_recovered", outcome=type(outcome).__name__, **ids)
    return True


async def expire_verification(ledger: Ledger, merchant_id: UUID, stream_id: UUID, payment_method_id: UUID) -> bool:
    """Ends a verification whose payer has not acted in time, and destroys the card's number.

    One that the payer completes at the processor is ended there first; if its payer was quicker, that counts. Does
    nothing for any other. Returns False if the processor does not answer. Raises ConcurrentUpdate, a Fault.
    """
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="due"), cause=payment_method_id)
    methods = await uow.load(PAYMENT_METHODS, stream_id)
    command = ExpireVerification(payment_method_id=payment_method_id, at=uow.now)
    open_one = None if methods is None else methods.open_verification(payment_method_id)
    if methods is None or open_one is None or not decide_verification_expiry(methods, command):
        return True
    has_ended = await has_ended_at_processor(ledger, merchant_id, open_one)
    if has_ended is None:
        return False
    if not has_ended:
        with suppress(Rejected):
            return await continue_verification(ledger, merchant_id, open_one)
        return True  # another caller continues it

    async def attempt(_: Conflict | None) -> Plan:
        methods = await uow.load(PAYMENT_METHODS, stream_id)
        assert methods is not None, "a verification with a timer was requested"
        command = ExpireVerification(payment_method_id=payment_method_id, at=uow.now)
        return Plan(changes=[uow.change(PAYMENT_METHODS, stream_id, decide_verification_expiry(methods, command))])

    await execute(uow, attempt)
    methods = await uow.load(PAYMENT_METHODS, stream_id)
    if methods is not None:
        await destroy_unused(ledger, merchant_id, methods.customer_id, payment_method_id)
    return True
