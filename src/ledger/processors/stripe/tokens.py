"""What may be shown of a card that a token names, and how a saved one is forgotten. Its number never leaves Stripe.

Two kinds of tokens can be charged: a payment method (`pm_…`) and a confirmation token (`ctoken_…`). Stripe's script
makes them in the payer's browser.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from ledger.domain.orders.terms import CardSummary
from ledger.processors.bins import UNKNOWN_BRAND
from ledger.processors.contract import ForgetCardRequest, ProcessorTimedOut, TokenCard, TokenRequest
from ledger.processors.stripe.call_keys import key_of
from ledger.processors.stripe.objects import ConfirmationToken, PaymentMethod
from ledger.processors.stripe.transport import Refused, Transport

_PAYMENT_METHOD: Final = re.compile(r"pm_\w+", re.ASCII)
_CONFIRMATION_TOKEN: Final = re.compile(r"ctoken_\w+", re.ASCII)
_BRANDS: Final = {
    "amex": "AMEX",
    "diners": "DINERS",
    "discover": "DISCOVER",
    "jcb": "JCB",
    "mastercard": "MASTERCARD",
    "unionpay": "UNIONPAY",
    "visa": "VISA",
}
"""The brands of the ledger. Source: `brand` of a card in Stripe's OpenAPI description, which has some more."""
_TYPES: Final = {"credit": "CREDIT", "debit": "DEBIT"}


class Tokens:
    """The tokens of one account."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def read_token(self, request: TokenRequest) -> TokenCard | None:
        """Returns the card of a token; None if no card can be charged by it: it is unknown, expired or used up.

        A card that Stripe has saved for a customer is charged for that customer alone, and not once it is forgotten.
        Raises ProcessorTimedOut, ProcessorUnavailable.
        """
        try:
            method = await self._method(request)
        except Refused as refusal:
            if refusal.error.code == "resource_missing":
                return None
            raise ProcessorTimedOut(f"Stripe does not show the token: {refusal}") from None
        if method is None or method.card is None or method.customer != request.token.customer:
            return None
        card, holder = method.card, method.billing_details
        summary = CardSummary(
            bin=None,
            last4=card.last4,
            brand=_BRANDS.get(card.brand, UNKNOWN_BRAND),
            type=_TYPES.get(card.funding),
            country=card.country,
            issuer_bank=None,
            exp_month=card.exp_month,
            exp_year=card.exp_year,
            cardholder_name=None if holder is None else holder.name,
        )
        return TokenCard(summary=summary, fingerprint=card.fingerprint)

    async def forget_card(self, request: ForgetCardRequest) -> None:
        """Detaches a payment method from its customer: it can never be charged again.

        One that Stripe does not know, or that is detached already, is forgotten. Raises ProcessorTimedOut,
        ProcessorUnavailable.
        """
        token = request.token.token
        if not _PAYMENT_METHOD.fullmatch(token):
            return
        path, key = f"/v1/payment_methods/{token}/detach", key_of(request, "detach")
        with suppress(Refused):
            await self._transport.post(path, {}, PaymentMethod, key=key, deadline_at=request.deadline_at)

    async def _method(self, request: TokenRequest) -> PaymentMethod | None:
        """Returns what a token names, None if it is no token that can be charged. Raises Refused."""
        token = request.token.token
        if _PAYMENT_METHOD.fullmatch(token):
            path = f"/v1/payment_methods/{token}"
            return await self._transport.get(path, {}, PaymentMethod, deadline_at=request.deadline_at)
        if not _CONFIRMATION_TOKEN.fullmatch(token):
            return None
        path = f"/v1/confirmation_tokens/{token}"
        found = await self._transport.get(path, {}, ConfirmationToken, deadline_at=request.deadline_at)
        is_used = found.payment_intent is not None or found.setup_intent is not None
        is_over = found.expires_at is not None and found.expires_at <= datetime.now(UTC).timestamp()
        return None if is_used or is_over else found.payment_method_preview
