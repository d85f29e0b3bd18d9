"""What follows an authorisation: captures, voids, releases and refunds of the money of a payment intent.

An intent is captured or cancelled once, so its own state answers the look-up of a capture or void. A refund is found by
the call's key in its metadata. To fence a call, use its idempotency key up for a request that changes nothing: Stripe
then refuses the call, because its parameters differ (docs.stripe.com/api/idempotent_requests).
"""

from __future__ import annotations

from typing import Final

from ledger.domain.orders.processor_outcomes import (
    CaptureAnswer,
    Captured,
    CaptureRefused,
    RefundAnswer,
    Refunded,
    RefundPending,
    RefundRefused,
    ReleaseAnswer,
    Released,
    ReleaseRefused,
    VoidAnswer,
    Voided,
    VoidRefused,
)
from ledger.processors.card_data import masked
from ledger.processors.contract import (
    CaptureRequest,
    LookUpRequest,
    ProcessorTimedOut,
    ProcessorUnavailable,
    RefundRequest,
    ReleaseRequest,
    Request,
    VoidRequest,
)
from ledger.processors.stripe.call_keys import (
    CAPTURE_KEY,
    VOID_KEY,
    is_refund_of,
    key_of,
    metadata_of,
)
from ledger.processors.stripe.declines import without_names
from ledger.processors.stripe.forms import Form
from ledger.processors.stripe.intents import IDEMPOTENCY_ERROR, Intents, path_of
from ledger.processors.stripe.objects import Error, Intent, Refund
from ledger.processors.stripe.transport import Refused, ReplayedFailure
from ledger.processors.stripe.units import from_units, to_units

REFUNDS: Final = "/v1/refunds"
_CAPTURE, _VOID, _REFUND = "capture", "cancel", "refund"
_TEXT_MAX: Final = 255
_RETRYABLE: Final = frozenset({"processing_error"})
"""Codes of a refused capture that can succeed at another time. Source: docs.stripe.com/error-codes."""


class Charges(Intents):
    """The calls of one account about money that an intent holds. All raise ProcessorTimedOut, ProcessorUnavailable."""

    async def capture(self, request: CaptureRequest) -> CaptureAnswer:
        """Captures an amount; Stripe releases the rest in the same call."""
        form: Form = {
            "amount_to_capture": to_units(request.amount, request.currency),
            "metadata": {CAPTURE_KEY: request.idempotency_key},
        }
        path = f"{path_of(request.processor_reference)}/capture"
        try:
            return _captured(await self.send_once(path, form, request, _CAPTURE))
        except Refused as refusal:
            intent = await self._after(request.processor_reference, request, refusal)
            if _is_captured_by(intent, request):
                return _captured(intent)
            code, message = words(refusal.error)
            return masked(CaptureRefused(code=code, message=message, retryable=refusal.error.code in _RETRYABLE))

    async def void(self, request: VoidRequest) -> VoidAnswer:
        """Cancels an intent of which nothing is captured, or whose payer has not been authenticated yet."""
        path = path_of(request.processor_reference)
        marked: Form = {"metadata": {VOID_KEY: request.idempotency_key}}  # a cancellation takes no metadata
        try:
            await self.transport.post(
                path, marked, Intent, key=key_of(request, "mark"), deadline_at=request.deadline_at
            )
        except (Refused, ReplayedFailure):
            pass  # the state of the intent decides, below
        except ProcessorTimedOut as failure:
            raise ProcessorUnavailable(f"nothing was cancelled: {failure}") from None
        try:
            intent = await self.send_once(f"{path}/cancel", {}, request, _VOID)
        except Refused as refusal:
            intent = await self._after(request.processor_reference, request, refusal)
            if intent.status != "canceled":
                code = "ALREADY_CAPTURED" if intent.status == "succeeded" else words(refusal.error)[0]
                return masked(VoidRefused(code=code, message=words(refusal.error)[1]))
        return Voided(processor_reference=intent.id)

    async def release(self, request: ReleaseRequest) -> ReleaseAnswer:
        """Returns what the capture has released: Stripe releases the rest with it, so there is nothing to send."""
        intent = await self._read(request.processor_reference, request)
        if intent.status == "succeeded":
            return _released(intent)
        if intent.status == "canceled":
            return Released(amount=from_units(intent.amount), processor_reference=intent.id)
        return ReleaseRefused(code="NOT_CAPTURED", message="Nothing was captured; it can be voided.")

    async def refund(self, request: RefundRequest) -> RefundAnswer:
        """Gives captured money back to the card."""
        form: Form = {
            "payment_intent": request.processor_reference,
            "amount": to_units(request.amount, request.currency),
            "metadata": metadata_of(request),
        }
        try:
            refund = await self.transport.post(
                REFUNDS, form, Refund, key=key_of(request, _REFUND), deadline_at=request.deadline_at
            )
        except ReplayedFailure:
            found = await self._made_refund(request.processor_reference, request)
            if found is None:
                raise
            return refunded(found)
        except Refused as refusal:
            if refusal.error.type == IDEMPOTENCY_ERROR:
                raise ProcessorUnavailable("the refund was fenced before it arrived") from None
            code, message = words(refusal.error)
            return masked(RefundRefused(code=code, message=message))
        return refunded(refund)

    async def look_up_capture(self, request: LookUpRequest) -> CaptureAnswer | None:
        intent = await self._state(request)
        if not _is_captured_by(intent, request) and request.fence and await self.fence(intent.id, request, _CAPTURE):
            return None
        if request.fence and not _is_captured_by(intent, request):
            intent = await self._state(request)  # the call has arrived: the intent shows what it did
        return _captured(intent) if _is_captured_by(intent, request) else None

    async def look_up_void(self, request: LookUpRequest) -> VoidAnswer | None:
        intent = await self._state(request)
        if intent.status != "canceled" and request.fence and not await self.fence(intent.id, request, _VOID):
            intent = await self._state(request)
        return Voided(processor_reference=intent.id) if intent.status == "canceled" else None

    async def look_up_release(self, request: LookUpRequest) -> ReleaseAnswer | None:
        intent = await self._state(request)
        return _released(intent) if intent.status == "succeeded" else None

    async def look_up_refund(self, request: LookUpRequest) -> RefundAnswer | None:
        reference = _reference(request)
        refund = await self._made_refund(reference, request)
        if refund is None and request.fence and not await self.fence(reference, request, _REFUND):
            refund = await self._made_refund(reference, request)
        return None if refund is None else refunded(refund)

    async def _after(self, intent_id: str, request: Request, refusal: Refused) -> Intent:
        """Returns the intent after Stripe refused a request about it. Raises ProcessorUnavailable for a fenced one."""
        if refusal.error.type == IDEMPOTENCY_ERROR:
            raise ProcessorUnavailable("the call was fenced before it arrived")
        if refusal.error.payment_intent is not None:
            return refusal.error.payment_intent
        try:
            return await self._read(intent_id, request)
        except ProcessorUnavailable as failure:
            raise ProcessorTimedOut(str(failure)) from None

    async def _read(self, intent_id: str, request: Request) -> Intent:
        try:
            return await self.read(intent_id, request.deadline_at)
        except Refused as refusal:
            raise ProcessorTimedOut(f"the intent cannot be read: {refusal}") from None

    async def _state(self, request: LookUpRequest) -> Intent:
        return await self._read(_reference(request), request)

    async def _made_refund(self, intent_id: str, request: Request) -> Refund | None:
        """Returns the refund that a call has made of an intent. Raises ProcessorTimedOut, ProcessorUnavailable."""
        try:
            async for refund in self.transport.list(
                REFUNDS, {"payment_intent": intent_id}, Refund, deadline_at=request.deadline_at
            ):
                if is_refund_of(request, refund):
                    return refund
        except Refused as refusal:
            raise ProcessorTimedOut(f"the refunds cannot be listed: {refusal}") from None
        return None


def refunded(refund: Refund) -> RefundAnswer:
    """Returns the answer of a refund, by its status now."""
    match refund.status:
        case "succeeded":
            return Refunded(amount=from_units(refund.amount), processor_reference=refund.id)
        case "failed" | "canceled":
            code = refund.failure_reason or refund.status
            message = f"Stripe's refund {refund.id} {refund.status}."
            return RefundRefused(code=code.upper()[:_TEXT_MAX], message=message, is_final=True)
        case _:
            return RefundPending(processor_reference=refund.id)


def _is_captured_by(intent: Intent, request: CaptureRequest | LookUpRequest) -> bool:
    """Returns whether the intent was captured by this call. One without a key was captured on Stripe's own pages."""
    if intent.status != "succeeded":
        return False
    key = intent.metadata.get(CAPTURE_KEY)
    if key is not None:
        return key == request.idempotency_key
    return request.amount is None or request.amount == from_units(intent.amount_received)


def _captured(intent: Intent) -> Captured:
    return Captured(
        amount=from_units(intent.amount_received),
        processor_reference=intent.id,
        released=from_units(intent.amount - intent.amount_received),
    )


def _released(intent: Intent) -> Released:
    return Released(amount=from_units(intent.amount - intent.amount_received), processor_reference=intent.id)


def _reference(request: LookUpRequest) -> str:
    if request.processor_reference is None:
        raise ProcessorTimedOut("the log has no intent of this payment")
    return request.processor_reference


def words(error: Error) -> tuple[str, str | None]:
    """Returns the code and the message of a refusal, as the ledger writes them."""
    code = error.decline_code or error.code or error.type or "REFUSED"
    return code.upper()[:_TEXT_MAX], None if error.message is None else without_names(error.message)[:_TEXT_MAX]
