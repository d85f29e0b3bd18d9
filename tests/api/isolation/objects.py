"""The objects of a merchant that other merchants try to reach, and ids under which no merchant has anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from tests.api.bodies import by_card, card, charge, order, paid_order
from tests.api.invoices.test_split_order_documents import FISCAL
from tests.api.payer import CHALLENGED, DEVICE_THEN_CHALLENGE
from tests.api.storefront import ORDERS, Merchant
from uuid_utils.compat import uuid7

from ledger.processors.clabe import check_digit

CUSTOMERS: Final = "/api/customers"
PRODUCTS: Final = "/lps/products"
PLANS: Final = "/api/v1/plans"
SUBSCRIPTIONS: Final = "/api/v1/subscriptions"

Objects = Mapping[str, Sequence[str]]
"""The ids of a merchant's objects by their kind: the service's id first, then the merchant's own."""

KINDS: Final = (
    "order", "payment", "payment id", "refund", "customer", "method", "search", "cursor", "session", "session's order",
    "device session", "device session's order", "api key", "clabe", "cash reference", "deposit", "product",
    "erasable customer", "document", "document's order", "plan", "subscription",
    "subscription invoice", "global invoice", "processor account", "card session", "card session's method", "card device session", "card device session's method",
    "event", "webhook endpoint", "audit",
)  # fmt: skip


async def objects_of(merchant: Merchant, name: str) -> Objects:
    """Makes an object of each kind and returns their ids. `name` begins the external ids of all of them."""
    global_invoice = await _global_invoice(merchant, name)
    account = f"{name}-account"
    made = await merchant.put(f"/api/v1/processor-accounts/{account}", {"processor": "sandbox"})
    assert made.status_code == 201, made.text
    customer = {"externalId": f"{name}-customer", "email": f"{name}@example.com"}
    split = await _made(merchant, ORDERS, order(externalId=f"{name}-order", allowPartials=True, customer=customer))
    one = f"{ORDERS}/{split['id']}"
    paid = await _made(
        merchant,
        f"{one}/payments",
        charge(amount=50_000, externalId=f"{name}-payment", paymentMethod=by_card(persist=True)),
    )
    refunded = await _made(merchant, f"{one}/refund", {"amount": 1_000, "externalId": f"{name}-refund"})
    challenged = await _waiting(merchant, f"{name}-challenged", by_card(cardDetails=card(number=CHALLENGED)))
    collecting = await _waiting(merchant, f"{name}-device", by_card(cardDetails=card(number=DEVICE_THEN_CHALLENGE)))
    cards = f"{CUSTOMERS}/{name}-customer/payment-methods"
    verified, looked_at = [
        await _made(merchant, cards, {"paymentMethod": by_card(cardDetails=card(number=number))})
        for number in (CHALLENGED, DEVICE_THEN_CHALLENGE)
    ]
    spei = await _waiting(merchant, f"{name}-spei", {"type": "spei"})
    cash = await _waiting(merchant, f"{name}-cash", {"type": "cie_cash_net"})
    clabe = spei["payment"]["speiDetails"]["clabe"]
    await _made(merchant, "/api/sandbox/deposits", {"clabe": clabe, "amount": 100, "messageId": f"{name}-deposit"})
    page = (await merchant.get(f"{ORDERS}?limit=1")).json()
    keys = (await merchant.get("/api/v1/api-keys")).json()["data"]
    payment = paid["payment"]["id"]
    product = {"id": f"{name}-product", "name": f"{name} product", "price": 100}
    await _made(merchant, f"{PRODUCTS}/bulk-import", {"products": [product]})
    erasable = await _made(merchant, CUSTOMERS, {"externalId": f"{name}-erasable"})
    invoiced = await _made(
        merchant, ORDERS, order(externalId=f"{name}-invoiced", allowPartials=True, customerFiscalData=FISCAL)
    )
    await _made(merchant, f"{ORDERS}/{invoiced['id']}/payments", charge(amount=50_000))
    stamped = await _made(merchant, f"{ORDERS}/{invoiced['id']}/stamp", {})
    plan = await _made(
        merchant,
        PLANS,
        {"externalId": f"{name}-plan", "name": "Plan", "amount": "100", "currency": "MXN", "interval": "MONTH"},
    )
    subscription = await _made(
        merchant,
        SUBSCRIPTIONS,
        {
            "externalId": f"{name}-subscription",
            "customerId": f"{name}-customer",
            "planId": f"{name}-plan",
            "paymentMethodId": paid["payment"]["paymentMethodId"],
        },
    )
    invoices = (await merchant.get(f"{SUBSCRIPTIONS}/{subscription['id']}/invoices")).json()["data"]
    endpoint = await _made(merchant, "/api/v1/webhook-endpoints", {"url": f"http://127.0.0.1:9/{name}"})
    events = (await merchant.get("/api/v1/events?limit=1")).json()["data"]
    audit = await _made(merchant, "/api/v1/audits", {})
    return {
        "event": (events[0]["id"],),
        "webhook endpoint": (endpoint["id"],),
        "audit": (audit["id"],),
        "card session": (verified["payerAuthentication"]["authenticationTransactionId"],),
        "card session's method": (verified["id"],),
        "card device session": (looked_at["payerAuthentication"]["referenceId"],),
        "card device session's method": (looked_at["id"],),
        "subscription": (subscription["id"], f"{name}-subscription"),
        "subscription invoice": (invoices[0]["id"],),
        "global invoice": (global_invoice,),
        "processor account": (account,),
        "plan": (plan["id"], f"{name}-plan"),
        "document": (stamped["complements"][0]["id"],),
        "document's order": (invoiced["id"],),
        "order": (split["id"], f"{name}-order"),
        "payment": (payment, f"{name}-payment"),
        "payment id": (payment,),
        "refund": (refunded["refund"]["id"], f"{name}-refund"),
        "customer": (split["customer"]["id"], f"{name}-customer"),
        "method": (paid["payment"]["paymentMethodId"],),
        "search": (f"{name}-order", f"{name}@example.com", split["orderNumber"]),
        "cursor": (page["pagination"]["nextCursor"],),
        "session": (challenged["payerAuthentication"]["authenticationTransactionId"],),
        "session's order": (challenged["id"],),
        "device session": (collecting["payerAuthentication"]["referenceId"],),
        "device session's order": (collecting["id"],),
        "api key": (keys[0]["id"],),
        "clabe": (clabe,),
        "cash reference": (cash["payment"]["cieDetails"]["reference"],),
        "deposit": (f"{name}-deposit",),
        "product": (f"{name}-product",),
        "erasable customer": (erasable["id"], f"{name}-erasable"),
    }


async def _global_invoice(merchant: Merchant, name: str) -> str:
    """Returns the id of the global invoice of a day, which the merchant's clock leaves behind."""
    sold = await _made(merchant, ORDERS, paid_order(externalId=f"{name}-stated"))
    day = datetime.fromisoformat(sold["createdAt"]).astimezone(ZoneInfo("America/Mexico_City"))
    await _made(merchant, "/api/sandbox/clock", {"advanceBy": "P1D"})
    period = {"month": f"{day:%Y-%m}", "periodicity": "DAILY", "firstDay": day.day}
    return (await _made(merchant, "/api/v1/invoices/global", period))["globalInvoice"]["id"]


@cache
def absent(existing: str) -> str:
    """Returns an id of the same form, under which no merchant has anything: always the same one."""
    try:
        UUID(existing)
    except ValueError:
        pass
    else:
        return str(uuid7())
    if existing.isdecimal() and len(existing) == 18:
        return "64618099999999999" + check_digit("64618099999999999")
    if existing.isdecimal():
        return "9" * len(existing)
    return existing[::-1] if existing != existing[::-1] else f"{existing[:-1]}~"


async def _waiting(merchant: Merchant, external_id: str, method: Any) -> Any:
    body = order(externalId=external_id, pending=False, paymentMethod=method, billingAddress={"city": "Puebla"})
    return await _made(merchant, ORDERS, body)


async def _made(merchant: Merchant, path: str, body: Any) -> Any:
    answer = await merchant.post(path, body)
    assert answer.status_code in (200, 201, 202), answer.text
    return answer.json()
