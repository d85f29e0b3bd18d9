"""What a walk does with subscriptions, and how its clock moves."""

from __future__ import annotations

from typing import Final

from campaigns.walker.cards import save_card
from campaigns.walker.walk import Json, Walk

PLANS: Final = "/api/v1/plans"
SUBSCRIPTIONS: Final = "/api/v1/subscriptions"

_LIVE_MAX: Final = 6
"""The most live subscriptions of a walk: a move of the clock renews them all, one after another."""
_STEPS: Final = ("PT1H", "P1D", "P1D", "P3D", "P7D", "P7D", "P1M", "P1M")


async def make_plans(walk: Walk) -> None:
    """Makes the plans of the walk."""
    for interval, amount in (("WEEK", 11_600), ("MONTH", 23_201), ("MONTH", 58_000), ("HALF_MONTH", 9_999)):
        plan = {"name": f"{interval} {amount}", "amount": str(amount), "currency": "MXN", "interval": interval}
        retries = {"maxRetries": 2, "onRetriesExhausted": "CANCEL" if amount == 58_000 else "UNPAID"}
        walk.plans.append((await walk.post(PLANS, plan | retries))["id"])


async def subscribe(walk: Walk) -> None:
    """Subscribes a customer with a saved card; saves a card if there is none, or there are subscriptions enough."""
    live = [each for each in walk.subscriptions.values() if each["status"] != "CANCELED"]
    if not walk.cards or len(live) >= _LIVE_MAX:
        await save_card(walk)
        return
    customer, card = walk.random.choice(walk.cards)
    name = walk.name("sub")
    body = {"customerId": customer, "planId": walk.random.choice(walk.plans), "paymentMethodId": card}
    walk.remember_subscription(await walk.twice_or_once(SUBSCRIPTIONS, body | {"externalId": name}))


async def change_subscription(walk: Walk) -> None:
    """Another plan, another card, an end, a charge on request, or what comes next."""
    if not walk.subscriptions:
        return
    subscription = walk.random.choice(list(walk.subscriptions.values()))
    path = f"{SUBSCRIPTIONS}/{subscription['id']}"
    acts = ["plan", "card", "cancel", "resume", "retry", "preview", "invoices"]
    match act := walk.random.choices(acts, [6, 2, 1, 1, 2, 2, 2])[0]:
        case "plan":
            proration = walk.random.choice(["NONE", "NEXT_INVOICE", "INVOICE_NOW"])
            body: Json = {"planId": walk.random.choice(walk.plans), "prorationBehavior": proration}
            walk.remember_subscription(await walk.ask("PUT", path, body))
        case "card":
            own = [card for customer, card in walk.cards if customer == subscription["customerId"]]
            if own:
                body = {"paymentMethodId": walk.random.choice(own)}
                walk.remember_subscription(await walk.ask("PUT", path, body))
        case "invoices":
            await walk.ask("GET", f"{path}/invoices")
        case "preview":
            await walk.post(f"{path}/preview", {})
        case "cancel":
            body = {"atPeriodEnd": walk.chance(0.5)}
            walk.remember_subscription(await walk.twice_or_once(f"{path}/cancel", body))
        case "retry":
            body = {"all": walk.chance(0.5)}
            walk.remember_subscription(await walk.twice_or_once(f"{path}/retry", body))
        case _:
            walk.remember_subscription(await walk.twice_or_once(f"{path}/{act}", {}))


async def tick(walk: Walk) -> None:
    """Moves the clock, and reads the subscriptions that it has renewed."""
    await walk.move(walk.random.choice(_STEPS))
    for id_ in list(walk.subscriptions)[-_LIVE_MAX:]:
        walk.remember_subscription(await walk.ask("GET", f"{SUBSCRIPTIONS}/{id_}"))
