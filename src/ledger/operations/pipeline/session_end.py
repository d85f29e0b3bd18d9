"""The call that ends a session whose payer authorises the payment at the processor: it asks, and then voids.

A session whose time is over is asked about first: a payer who was quicker keeps what he paid. One that is no
longer wanted is voided at once, with what its payer may have authorised. What a refused void leaves behind is looked
up.
"""

from __future__ import annotations

from msgspec.structs import replace

from ledger.domain.orders.events import SessionEnd
from ledger.domain.orders.payment import EntryAction
from ledger.domain.orders.processor_outcomes import Approved, Declined, Voided
from ledger.processors.contract import LookUpRequest, Processor, ProcessorTimedOut, ProcessorUnavailable, VoidRequest


async def end_session(
    processor: Processor, void: VoidRequest, request: LookUpRequest, because: SessionEnd
) -> Voided | Approved | Declined:
    """Ends a session. Raises as a processor does; ProcessorTimedOut also if it refuses without an approval."""
    found = await _ask_before(processor, request) if because is SessionEnd.EXPIRED else None
    if isinstance(found, Approved):
        return found
    answer = await processor.void(void)
    if isinstance(answer, Voided):
        return found or answer
    try:
        found = await _authorized(processor, request)
    except ProcessorUnavailable as failure:
        raise ProcessorTimedOut(str(failure)) from None
    if isinstance(found, Approved):
        return found
    raise ProcessorTimedOut(f"the session could not be ended: {answer.code}")


async def look_up_session_end(
    processor: Processor, request: LookUpRequest, because: SessionEnd
) -> Voided | Approved | None:
    """Returns what a session's end has come to, or None if the session is still open. Raises as a processor does.

    An authorisation that is only held and no longer wanted is none: the void that is sent again ends it. After a fence
    nothing is sent again. One that counts is reported once the void can no longer arrive and release it.
    """
    voided = await processor.look_up_void(request)
    if isinstance(voided, Voided):
        return voided
    found = await _authorized(processor, request)
    if not isinstance(found, Approved):
        return None
    if found.captured > 0 or request.fence:
        return found
    if because is not SessionEnd.EXPIRED:
        return None
    late = await processor.look_up_void(replace(request, fence=processor.capabilities.can_fence))
    return late if isinstance(late, Voided) else found


async def _ask_before(processor: Processor, request: LookUpRequest) -> Approved | Declined | None:
    """Returns what a payer has come to before the void. Nothing is sent yet, so a missing answer is no unknown outcome.

    Raises ProcessorUnavailable.
    """
    try:
        return await _authorized(processor, request)
    except ProcessorTimedOut as failure:
        raise ProcessorUnavailable(f"the session was not ended: {failure}") from None


async def _authorized(processor: Processor, request: LookUpRequest) -> Approved | Declined | None:
    """Returns what the processor shows of the payment, None while it waits for its payer. Fences nothing."""
    found = await processor.look_up(replace(request, step=EntryAction.AUTHENTICATION, fence=False))
    return found if isinstance(found, Approved | Declined) else None
