"""What a walk does with orders: creates, pays, captures, changes, refunds and cancels them."""

from __future__ import annotations

from typing import Any, Final

from campaigns.chaos import bodies
from campaigns.walker.walk import FISCAL, SANDBOX, Json, Walk, path_of

FINAL_CAPTURE, TO_ACCOUNT, TO_PAYER = "final capture", "refund to an account", "refund to the paying account"
IN_CASH: Final = "deposit in cash"
"""What is counted beside the operations."""

_PAYERS_CLABE: Final = "032180000118359719"
_ACCOUNT: Final = {"clabe": _PAYERS_CLABE, "accountHolder": "Ana López"}


async def create(walk: Walk) -> None:
    """Creates an order in one payment: by card at once, with a capture by hand, by transfer or in cash; most are
    invoiced.
    """
    name, amount = walk.name("o"), walk.random.randint(1_000, 90_000)
    body = walk.new_order(name, amount)
    kind = walk.random.randrange(5)
    if kind == 0:
        body |= {"paymentMethod": {"type": walk.random.choice(["spei", "spei", "paycash", "cie"])}}
    else:
        body |= walk.by_card() | ({"captureMethod": "MANUAL"} if kind == 1 else {})
    walk.remember(await walk.twice_or_once(bodies.ORDERS, body))


async def create_split(walk: Walk) -> None:
    """Creates an order of several payments."""
    name, amount = walk.name("s"), walk.random.randint(10_000, 200_000)
    body = walk.new_order(name, amount) | {"pending": True, "allowPartials": True}
    walk.remember(await walk.twice_or_once(bodies.ORDERS, body))


async def change(walk: Walk) -> None:
    """Changes an order: its amount while nothing is paid, else what may still be changed, or may not."""
    order = walk.some(lambda each: each["status"] == "PENDING" and not each["payments"]) if walk.chance(0.4) else None
    order = order or walk.some(lambda _: True)
    if order is None:
        return
    amount = int(float(order["subtotalAmount"]))
    act = walk.random.choice(["amount", "lines", "receiver", "words", "due", "metadata"])
    match act:
        case "amount":
            amount = max(1_000, amount + walk.random.randint(-500, 500))
            body: Json = {"amount": amount} | ({"lineItems": walk.lines(amount)} if order.get("lineItems") else {})
        case "lines":
            body = {"lineItems": walk.lines(amount)}
        case "receiver":
            body = {"customerFiscalData": FISCAL | {"cfdiUse": walk.random.choice(["G01", "G03"])}}
        case "words":
            body = {"description": walk.name("Pedido"), "invoiceNumber": walk.name("F")}
        case "due":
            body = {"dueDate": walk.random.choice(["2040-01-31", None])}
        case _:
            body = {"metadata": {"table": walk.random.choice([walk.random.randrange(9), None])}}
    walk.remember(await walk.twice_or_once(path_of(order), body, "PATCH"))


async def pay_part(walk: Walk) -> None:
    """Pays a part of a split order, all that is pending, or a centavo more."""
    order = walk.some(lambda each: each["allowPartials"])
    if order is None:
        return
    pending = int(order["amountPending"])
    part = walk.random.choice([pending, walk.random.randint(1, max(1, pending)), pending + 1])
    method = {"paymentMethod": {"type": "spei"}} if walk.chance(0.3) else walk.by_card()
    body = {"amount": max(1, part), "externalId": walk.name("p"), **method}
    walk.remember(await walk.twice_or_once(path_of(order, "payments"), body))


async def charge(walk: Walk) -> None:
    """Charges what an order lacks."""
    order = walk.some(lambda each: each["status"] in {"PENDING", "FAILED", "PARTIALLY_PAID"})
    if order is not None:
        walk.remember(await walk.twice_or_once(path_of(order, "charge"), walk.by_card()))


async def deposit(walk: Walk) -> None:
    """Sends money to a reference, also to one that has expired or was cancelled: what is due, or more or less; half of
    the transfers name the payer's account. A store takes exactly what is due.
    """
    order = walk.some(lambda each: any(map(_takes_money, each["payments"])))
    if order is None:
        return
    payment = walk.random.choice([p for p in order["payments"] if _takes_money(p)])
    due = int(float(payment["amount"]))
    amount = max(1, walk.random.choice([due, due, due, due - 100, due + 100]))
    body: Json = {"amount": amount, "messageId": walk.name("d")}
    if payment.get("speiDetails"):
        body |= {"clabe": payment["speiDetails"]["clabe"]}
        body |= {"senderClabe": _PAYERS_CLABE} if walk.chance(0.5) else {}
    else:
        body |= {"reference": payment["cieDetails"]["reference"]}
    walk.reached[IN_CASH] += "reference" in body and amount == due
    await walk.post(f"{SANDBOX}/deposits", body)
    await walk.show(order)


def _takes_money(payment: Json) -> bool:
    return bool(payment.get("speiDetails") or payment.get("cieDetails"))


async def capture(walk: Walk) -> None:
    """Captures what is held, or a part of it, finally or not."""
    order = walk.some(lambda each: each["status"] in {"AUTHORIZED", "PARTIALLY_AUTHORIZED"})
    if order is None:
        return
    part: Json = {"amount": walk.random.randint(1, int(order["amount"]))} if walk.chance(0.6) else {}
    if part and walk.chance(0.3):
        part["final"] = True
    captured = await walk.twice_or_once(path_of(order, "capture"), part)
    walk.reached[FINAL_CAPTURE] += "final" in part and "payments" in captured
    walk.remember(captured)


async def release(walk: Walk) -> None:
    """Ends the hold on what a partial capture has left."""
    order = walk.some(lambda each: any(map(_has_rest, each["payments"])))
    if order is not None:
        walk.remember(await walk.twice_or_once(path_of(order, "release"), {}))


def _has_rest(payment: Json) -> bool:
    captured = float(payment["capturedAmount"] or 0)
    held = float(payment["authorizedAmount"] or 0) - captured - float(payment["amountReleased"] or 0)
    return captured > 0 and held > 0


async def refund(walk: Walk) -> None:
    """Refunds what an order holds, a part of it, or a centavo more; half of the payouts go to an account."""
    order = walk.some(lambda each: float(each["amountPaid"]) > float(each["amountRefunded"]))
    if order is None:
        return
    held = int(float(order["amountPaid"]) - float(order["amountRefunded"]))
    amount = walk.random.choice([held, walk.random.randint(1, max(1, held)), held + 1])
    body: Json = {"amount": max(1, amount), "reason": "devolución", "externalId": walk.name("r")}
    if any(p.get("speiDetails") for p in order["payments"]) and walk.chance(0.3):
        body["destination"] = _ACCOUNT
    answered = await walk.twice_or_once(path_of(order, "refund"), body)
    walk.remember(answered)
    await _pay_out(walk, order, answered.get("refund") or {})


async def _pay_out(walk: Walk, order: Json, made: Json) -> None:
    """Confirms a refund that the merchant pays out itself, names an account for it, or leaves it."""
    kind = (made.get("destination") or {}).get("type")
    walk.reached[TO_ACCOUNT] += kind == "ACCOUNT"
    walk.reached[TO_PAYER] += kind == "PAYING_ACCOUNT"
    if kind != "MANUAL" or made["status"] != "PENDING" or walk.chance(0.3):
        return
    path = path_of(order, f"refunds/{made['id']}")
    if walk.chance(0.5):
        await walk.twice_or_once(f"{path}/confirm", {"reference": walk.name("MBAN")})
    else:
        await walk.twice_or_once(f"{path}/destination", _ACCOUNT, "PUT")
    await walk.show(order)


async def cancel(walk: Walk) -> None:
    """Cancels an order, with a refund of its money or without."""
    order = walk.some(lambda _: True)
    if order is not None:
        body = {"refundCaptured": True} if walk.chance(0.3) else {}
        walk.remember(await walk.twice_or_once(path_of(order, "cancel"), body))


async def dispute(walk: Walk) -> None:
    """Disputes a payment, and decides the dispute."""
    order = walk.some(lambda each: float(each["amountPaid"]) > float(each["amountRefunded"]))
    payments = [p for p in order["payments"] if p["status"] == "CAPTURED"] if order is not None else []
    if order is None or not payments:
        return
    payment: Any = walk.random.choice(payments)["id"]
    for outcome in ("OPENED", walk.random.choice(["WON", "LOST"])):
        await walk.post(f"{SANDBOX}/disputes", {"paymentId": payment, "outcome": outcome})
    await walk.show(order)
