"""Reads and cancels Stripe's intents: the objects that stand for a payment, or for the verification of a card."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable, Request
from ledger.processors.stripe.call_keys import key_of
from ledger.processors.stripe.forms import Form
from ledger.processors.stripe.objects import Intent
from ledger.processors.stripe.transport import Refused, ReplayedFailure, Transport

PAYMENTS: Final = "/v1/payment_intents"
SETUPS: Final = "/v1/setup_intents"
_SETUP_PREFIX: Final = "seti_"


def path_of(intent_id: str) -> str:
    """Returns the path of an intent; setup intents have another. Raises ProcessorUnavailable for no id of Stripe's."""
    if not (intent_id.isascii() and intent_id.replace("_", "").isalnum()):
        raise ProcessorUnavailable("this is no id of Stripe's")
    return f"{SETUPS if intent_id.startswith(_SETUP_PREFIX) else PAYMENTS}/{intent_id}"


class Intents:
    """The intents of one account."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    async def read(self, intent_id: str, deadline_at: datetime) -> Intent:
        """Returns an intent with its latest charge. Raises Refused, ProcessorTimedOut, ProcessorUnavailable."""
        path = path_of(intent_id)
        form: Form = {"expand": ["latest_charge"]} if path.startswith(PAYMENTS) else {}
        return await self.transport.get(path, form, Intent, deadline_at=deadline_at)

    async def cancel(self, intent_id: str, request: Request, step: str) -> Intent:
        """Cancels an intent and returns it as it is then: if the payer was quicker, it is not cancelled.

        Raises ProcessorTimedOut, ProcessorUnavailable.
        """
        form: Form = {"cancellation_reason": "abandoned"}
        try:
            return await self.transport.post(
                f"{path_of(intent_id)}/cancel", form, Intent, key=key_of(request, step), deadline_at=request.deadline_at
            )
        except (Refused, ReplayedFailure):
            pass  # it has another state by now, or Stripe repeats a failure: the intent shows what happened
        try:
            return await self.read(intent_id, request.deadline_at)
        except Refused as refusal:
            raise ProcessorTimedOut(f"the intent cannot be read: {refusal}") from None
