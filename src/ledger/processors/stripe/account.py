"""What an account of Stripe is and can do: its country, its methods with their bounds, and what is wrong with it."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import uuid4

from msgspec import Struct

from ledger.domain.orders.capabilities import MONTHS, MethodCapability
from ledger.domain.orders.terms import MethodType
from ledger.processors.contract import Capabilities, ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.stripe.forms import Form
from ledger.processors.stripe.intents import SETUPS
from ledger.processors.stripe.objects import Account, OwnedSetup, SeenSetup
from ledger.processors.stripe.references import OXXO_MAX, OXXO_MIN
from ledger.processors.stripe.transport import NotPermitted, Refused, Transport
from ledger.processors.stripe.units import SMALLEST_CHARGE, UNIT, UNITS_MAX

NAME: Final = "stripe"
MEXICO: Final = "MX"
_DAY_S: Final = 86_400
_LATE_ARRIVAL_S: Final = 90.0
"""How long a request may still be carried out: longer than the 80 s that Stripe's own libraries wait."""
_AUTHORIZATION_S: Final = 7 * _DAY_S
"""Source: docs.stripe.com/payments/place-a-hold-on-a-payment-method; a charge's own `capture_before` is exact."""
_REFUND_WINDOW_S: Final = 180 * _DAY_S
"""Source: docs.stripe.com/payments/customer-balance/refunding for transfers; the ledger's own window for cards."""
_REFERENCE_S: Final = 3 * _DAY_S
_CAPABILITIES: Final = {
    MethodType.CARD: "card_payments",
    MethodType.SPEI: "mx_bank_transfer_payments",
    MethodType.PAYCASH: "oxxo_payments",
}
"""The capability of an account for each method. Source: `account_capabilities` in Stripe's OpenAPI description."""


class Facts(Struct, frozen=True, kw_only=True):
    """What a check of an account has found. `problems` are sentences for the merchant."""

    account_id: str
    country: str | None
    methods: tuple[MethodCapability, ...]
    problems: tuple[str, ...]


async def check(transport: Transport, deadline_at: datetime) -> Facts:
    """Asks Stripe for the account. Raises KeyRefused, ProcessorTimedOut, ProcessorUnavailable."""
    try:
        account = await transport.get("/v1/account", {}, Account, deadline_at=deadline_at)
    except Refused as refusal:
        raise ProcessorTimedOut(f"Stripe does not show the account: {refusal}") from None
    active = [method for method, name in _CAPABILITIES.items() if account.capabilities.get(name) == "active"]
    problems = [
        f"Stripe has not activated {name} for the account: payments by {method.lower()} are refused there."
        for method, name in _CAPABILITIES.items()
        if account.capabilities.get(name) in {"inactive", "pending"}
    ]
    if not account.charges_enabled:
        problems.insert(0, "The account cannot charge yet: complete its details on Stripe's pages.")
    methods = tuple(offer for offer in methods_of(account.country) if offer.type in active)
    return Facts(account_id=account.id, country=account.country, methods=methods, problems=tuple(problems))


async def has_publishable_key(own: Transport, public: Transport, deadline_at: datetime) -> bool | None:
    """Asks whether a publishable key is one of the account's whose secret key `own` has. Returns None if Stripe does
    not show it to this secret key.

    Nothing at Stripe names the account of a publishable key. But such a key reads a setup intent of its own account by
    the intent's client secret (docs.stripe.com/api/setup_intents/retrieve), and no other one. The intent has no card
    and is cancelled. Raises KeyRefused if Stripe refuses the publishable key, ProcessorTimedOut, ProcessorUnavailable.
    """
    form: Form = {"payment_method_types": ["card"], "usage": "on_session"}
    try:
        made = await own.post(SETUPS, form, OwnedSetup, key=str(uuid4()), deadline_at=deadline_at)
    except (Refused, NotPermitted):
        return None  # a restricted key, or an account without cards
    path = f"{SETUPS}/{made.id}"
    try:
        await public.get(path, {"client_secret": made.client_secret}, SeenSetup, deadline_at=deadline_at)
    except Refused as refusal:
        return False if refusal.error.code == "resource_missing" else None
    finally:
        with suppress(Refused, ProcessorTimedOut, ProcessorUnavailable):
            await own.post(f"{path}/cancel", {}, SeenSetup, key=str(uuid4()), deadline_at=deadline_at)
    return True


def methods_of(country: str | None) -> tuple[MethodCapability, ...]:
    """Returns what Stripe takes for accounts of a country, with the bounds of each method in minor units."""
    cards = tuple(
        MethodCapability(
            type=MethodType.CARD,
            currencies=(currency,),
            amount_min=Decimal(smallest),
            amount_max=Decimal(UNITS_MAX),
            installments=MONTHS if (currency, country) == ("MXN", MEXICO) else (),
        )
        for currency, smallest in SMALLEST_CHARGE.items()
    )
    spei = MethodCapability(
        type=MethodType.SPEI,
        currencies=("MXN",),
        amount_min=Decimal(SMALLEST_CHARGE["MXN"]),
        amount_max=Decimal(UNITS_MAX),
    )
    oxxo = MethodCapability(
        type=MethodType.PAYCASH,
        currencies=("MXN",),
        amount_min=Decimal(OXXO_MIN),
        amount_max=Decimal(OXXO_MAX),
        refundable=False,
    )
    return (*cards, spei, oxxo)


def capabilities_of(methods: tuple[MethodCapability, ...]) -> Capabilities:
    """Returns the capabilities of an account that takes these methods."""
    return Capabilities(
        name=NAME,
        late_arrival_s=_LATE_ARRIVAL_S,
        authorization_validity_s=_AUTHORIZATION_S,
        refund_window_s=_REFUND_WINDOW_S,
        reference_validity_s=_REFERENCE_S,
        methods=methods,
        takes_card_numbers=False,
        takes_card_tokens=True,
        needs_payer=frozenset({MethodType.PAYCASH}),  # OXXO's vouchers have both
        smallest_amount=UNIT,
        returns_to_payer=True,
        capture_releases_rest=True,
        sends_payers_back=True,
        can_fence=True,
        lists_payouts=True,
    )
