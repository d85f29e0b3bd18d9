"""Reads and cancels Stripe's intents: the objects that stand for a payment, or for the verification of a card."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from ledger.processors.contract import LookUpRequest, ProcessorTimedOut, ProcessorUnavailable, Request
from ledger.processors.stripe.call_keys import FENCED, key_of
from ledger.processors.stripe.forms import Form, Value
from ledger.processors.stripe.objects import Customer, Intent, Refund
from ledger.processors.stripe.transport import Refused, ReplayedFailure, Transport

PAYMENTS: Final = "/v1/payment_intents"
SETUPS: Final = "/v1/setup_intents"
CUSTOMERS: Final = "/v1/customers"
KEYS_MAX: Final = 10
"""Under how many keys an intent is asked to change, one after another, while Stripe repeats failures of its own."""
CONFIRM: Final = "confirm"
"""The step of a call that confirms its intent."""
UNCONFIRMED: Final = frozenset({"requires_payment_method", "requires_confirmation"})
IDEMPOTENCY_ERROR: Final = "idempotency_error"
"""The type of the error of a key that comes with other parameters (docs.stripe.com/api/errors)."""

_SETUP_PREFIX: Final = "seti_"


def path_of(intent_id: str) -> str:
    """Returns the path of an intent; setup intents have another. Raises ProcessorUnavailable for no id of Stripe's."""
    if not (intent_id.isascii() and intent_id.replace("_", "").isalnum()):
        raise ProcessorUnavailable("this is no id of Stripe's")
    return f"{SETUPS if intent_id.startswith(_SETUP_PREFIX) else PAYMENTS}/{intent_id}"


def expanded(path: str) -> list[Value]:
    """Returns what an intent is asked to show whole: its charge, or the card of a setup intent, which has no charge."""
    return ["latest_charge" if path.startswith(PAYMENTS) else "payment_method"]


class Intents:
    """The intents of one account."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    async def read(self, intent_id: str, deadline_at: datetime) -> Intent:
        """Returns an intent with its latest charge, or its card. Raises Refused, ProcessorTimedOut,
        ProcessorUnavailable.
        """
        path = path_of(intent_id)
        return await self.transport.get(path, {"expand": expanded(path)}, Intent, deadline_at=deadline_at)

    async def metadata_behind(self, refund: Refund, deadline_at: datetime) -> Mapping[str, str]:
        """Returns the metadata of where a refund takes its money: a payment, or the balance of a reference's customer.

        Raises Refused, ProcessorTimedOut, ProcessorUnavailable.
        """
        if refund.payment_intent is not None:
            return (await self.read(refund.payment_intent, deadline_at)).metadata
        if refund.customer is None or refund.charge is not None:
            return {}  # a charge without an intent is not the ledger's, though its customer may be
        path = f"{CUSTOMERS}/{refund.customer}"
        return (await self.transport.get(path, {}, Customer, deadline_at=deadline_at)).metadata

    async def cancel(self, intent_id: str, request: Request, step: str) -> Intent:
        """Cancels an intent and returns it as it is then: if the payer was quicker, it is not cancelled.

        Raises ProcessorTimedOut, ProcessorUnavailable.
        """
        try:
            return await self.send_once(
                f"{path_of(intent_id)}/cancel", {"cancellation_reason": "abandoned"}, request, step
            )
        except Refused:
            pass  # it has another state by now
        try:
            return await self.read(intent_id, request.deadline_at)
        except Refused as refusal:
            raise ProcessorTimedOut(f"the intent cannot be read: {refusal}") from None

    async def fence_confirmation(self, intent_id: str, request: LookUpRequest) -> Intent:
        """Refuses the confirmation of an unconfirmed intent from now on, and returns the intent as it is then.

        A confirmation that has arrived meanwhile keeps its effect: cancel an intent only once the key of its
        confirmation is used up, because a cancellation would release what was just authorised. Cancelled, it stays
        refused after Stripe has forgotten the key. Raises ProcessorTimedOut, ProcessorUnavailable.
        """
        if not await self.use_up(intent_id, request, key_of(request, CONFIRM)):
            try:
                intent = await self.read(intent_id, request.deadline_at)
            except Refused as refusal:
                raise ProcessorTimedOut(f"the intent cannot be read: {refusal}") from None
            if intent.status not in UNCONFIRMED or intent.last_error is not None:
                return intent
        return await self.cancel(intent_id, request, "fence")

    async def fenced(self, intent_id: str, request: Request) -> ProcessorTimedOut | ProcessorUnavailable:
        """Returns the failure of a confirmation whose key another request has used: that is a fence.

        Until the intent is cancelled, only a look-up shows that nothing was done.
        """
        try:
            intent = await self.read(intent_id, request.deadline_at)
        except (Refused, ProcessorUnavailable) as failure:
            return ProcessorTimedOut(str(failure))
        if intent.status == "canceled":
            return ProcessorUnavailable("the call was fenced before its confirmation arrived")
        return ProcessorTimedOut("the key of the confirmation was used by another request: look the call up")

    async def use_up(self, intent_id: str, request: LookUpRequest, key: str) -> bool:
        """Uses a key up for a request that changes nothing. Returns False if it was used by another request before.

        Raises ProcessorTimedOut, ProcessorUnavailable.
        """
        form: Form = {"metadata": {FENCED: request.idempotency_key}}
        try:
            await self.transport.post(path_of(intent_id), form, Intent, key=key, deadline_at=request.deadline_at)
        except ReplayedFailure:
            return True  # Stripe failed at this very request before
        except Refused as refusal:
            if refusal.error.type == IDEMPOTENCY_ERROR:
                return False
            raise ProcessorTimedOut(f"Stripe refuses the fence: {refusal}") from None
        return True

    async def send_once(self, path: str, form: Form, request: Request, step: str) -> Intent:
        """Sends what an intent takes once, under the call's key, and returns the intent.

        Stripe repeats a failure of its own under that key for a day. A request that meets it goes out under the next
        key: an intent that was captured or cancelled refuses a second request. Raises Refused, ProcessorTimedOut,
        ProcessorUnavailable.
        """
        for number in range(KEYS_MAX - 1):
            key = numbered(key_of(request, step), number)
            try:
                return await self.transport.post(path, form, Intent, key=key, deadline_at=request.deadline_at)
            except ReplayedFailure:
                continue
        key = numbered(key_of(request, step), KEYS_MAX - 1)
        return await self.transport.post(path, form, Intent, key=key, deadline_at=request.deadline_at)

    async def fence(self, intent_id: str, request: LookUpRequest, step: str) -> bool:
        """Uses the key of a call about an intent up. Returns False if the call has arrived before.

        It may be sent again under the next key then (`send_once`), so that one is used up instead. Raises
        ProcessorTimedOut, ProcessorUnavailable.
        """
        for number in range(KEYS_MAX):
            if await self.use_up(intent_id, request, numbered(key_of(request, step), number)):
                return number == 0
        return False


def numbered(key: str, number: int) -> str:
    """Returns the key of a request that Stripe has failed at so many times."""
    return key if number == 0 else f"{key}-{number}"
