"""What a walk does with customers: makes them, changes them, and erases them."""

from __future__ import annotations

from campaigns.chaos import bodies
from campaigns.walker.walk import FISCAL, Json, Walk


async def make(walk: Walk, name: str, *, fiscal: bool) -> None:
    """Makes a customer of this name, with fiscal data or without."""
    body: Json = {"externalId": name, "email": f"{name}@example.com"}
    await walk.post(bodies.CUSTOMERS, body | ({"fiscalData": FISCAL} if fiscal else {}))


async def change(walk: Walk) -> None:
    """Gives a customer another e-mail."""
    name = walk.random.choice(walk.customers)
    await walk.twice_or_once(f"{bodies.CUSTOMERS}/{name}", {"email": f"{walk.name('mail')}@example.com"}, "PUT")


async def erase(walk: Walk) -> None:
    """Erases a customer, whose orders and documents stay, and makes another one in the same place."""
    at = walk.random.randrange(len(walk.customers))
    name = walk.customers[at]
    erased = await walk.ask("DELETE", f"{bodies.CUSTOMERS}/{name}")
    if not erased.get("deleted"):
        return  # a subscription is being charged
    walk.cards[:] = [saved for saved in walk.cards if saved[0] != name]
    walk.customers[at] = walk.name("who")
    await make(walk, walk.customers[at], fiscal=at < len(walk.customers) - 1)
