"""What a walk does with saved cards: saves them with a payment, or alone, and deletes them."""

from __future__ import annotations

from typing import Final

from campaigns.chaos import bodies
from campaigns.walker.walk import APPROVED, DECLINED_LATER, NO_FUNDS, Walk

_CARDS: Final = (APPROVED,) * 8 + (NO_FUNDS, DECLINED_LATER)
_CHALLENGED: Final = "4000000000003220"
_ALONE: Final = (APPROVED, "4111111111111111", "5555555555554444", NO_FUNDS, _CHALLENGED, _CHALLENGED)


async def save_card(walk: Walk) -> None:
    """Saves a card with a payment."""
    customer = walk.random.choice(walk.customers)
    body = walk.new_order(walk.name("c"), 1_160) | walk.by_card(walk.random.choice(_CARDS), persist=True)
    body["customer"] = {"externalId": customer}
    made = await walk.post(bodies.ORDERS, body)
    walk.remember(made)
    if method := (made.get("payment") or {}).get("paymentMethodId"):
        walk.cards.append((customer, method))


async def save_card_alone(walk: Walk) -> None:
    """Saves a card without a payment; the payer of some confirms it."""
    customer = walk.random.choice(walk.customers)
    card = walk.by_card(walk.random.choice(_ALONE)) | {"isDefault": walk.chance(0.2)}
    saved = await walk.twice_or_once(f"{bodies.CUSTOMERS}/{customer}/payment-methods", card)
    if saved.get("status") == "REQUIRES_ACTION":
        authentication = {"authenticationTransactionId": saved["payerAuthentication"]["authenticationTransactionId"]}
        saved = await walk.post(f"{bodies.METHODS}/{saved['id']}/payer-authentication/validate", authentication)
    if saved.get("status") == "ACTIVE":
        walk.cards.append((customer, saved["id"]))


async def delete_card(walk: Walk) -> None:
    """Deletes a saved card. Half of those that a subscription is charged to go as well, by force."""
    if not walk.cards:
        return
    customer, card = walk.random.choice(walk.cards)
    force = "?force=true" if walk.chance(0.5) else ""
    deleted = await walk.ask("DELETE", f"{bodies.CUSTOMERS}/{customer}/payment-methods/{card}{force}")
    if deleted.get("deleted"):
        walk.cards[:] = [saved for saved in walk.cards if saved[1] != card]
