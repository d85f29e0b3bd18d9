"""What a walk does about invoices: stamps, cancels and downloads documents, lets payers request them, closes months."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit
from zoneinfo import ZoneInfo

from campaigns.chaos import bodies
from campaigns.walker.walk import FISCAL, SANDBOX, Json, Walk, path_of

FURTHER_CANCELLED, SELF_INVOICED = "cancellation of a further invoice", "invoice that its payer requested"
"""What is counted beside the operations."""

GLOBAL: Final = "/api/v1/invoices/global"
MONTH_END: Final = "/api/v1/invoices/month-end"

_ZONE: Final = ZoneInfo("America/Mexico_City")
"""The zone of the sandbox's issuer, in which its documents are dated."""
_PAYER: Final = {
    "taxId": "CACX7605101P8",
    "legalName": "XOCHILT CASAS CHAVEZ",
    "taxSystem": "612",
    "cfdiUse": "G03",
    "zipCode": "36257",
}
_SETTLING: Final = 6


async def choose_settings(walk: Walk) -> None:
    """Sets what a merchant chooses about its invoices, differently for each seed."""
    settings = {
        "timeZone": walk.random.choice(["America/Mexico_City", "America/Tijuana", "America/Cancun"]),
        "pueRefund": walk.random.choice(["CREDIT_NOTE", "CANCEL_IN_MONTH"]),
        "invoiceFolio": walk.random.choice(["ORDER_NUMBER", "COUNTER", "INVOICE_NUMBER"]),
        "invoiceTrigger": walk.random.choice(["FIRST_CAPTURE", "FIRST_CAPTURE", "CREATION"]),
    }
    await walk.ask("PUT", "/api/v1/merchant", {"settings": settings})


async def stamp(walk: Walk) -> None:
    """Stamps an order's documents, or asks for their files. Some orders get their receiver in this way."""
    receives = walk.chance(0.1)
    order = walk.some(lambda each: receives or each["invoiceType"] is not None)
    if order is None:
        return
    if walk.chance(0.3):
        await walk.post(path_of(order, "cfdi-url"), {})
    else:
        await walk.post(path_of(order, "stamp"), {"fiscalConfig": FISCAL} if receives else {})
    await walk.show(order)


async def cancel_documents(walk: Walk) -> None:
    """Cancels documents of an order, those first on which others depend; often stamps the order anew afterwards."""
    order = walk.some(lambda each: each["invoiceStatus"] == "INVOICED")
    if order is None:
        return
    await _set_provider(walk, "OK")
    for body, is_further in list(_cancellations(await walk.show(order))):
        motive = {"motive": walk.random.choice(["02", "03"])}
        cancelled = await walk.twice_or_once(path_of(order, "cfdi-cancel"), motive | body)
        walk.reached[FURTHER_CANCELLED] += is_further and "complements" in cancelled
        if walk.chance(0.2):
            break
    if walk.chance(0.7):
        await walk.post(path_of(order, "stamp"), {})
    await walk.show(order)


def _cancellations(order: Json) -> Iterator[tuple[Json, bool]]:
    """Yields the requests that cancel all of an order's stamped documents, and whether each is about a further invoice."""
    rows = [*reversed(order.get("creditNotes", ())), *reversed(order.get("complements", ()))]
    for row in _emitted(rows):
        yield {"documentId": row["id"]}, False
    for row in _emitted(order.get("additionalInvoices", ())):
        yield {"documentId": row["id"]}, True
    yield {}, False


def _emitted(rows: Any) -> Iterator[Json]:
    return (row for row in rows if row["status"] == "EMITTED" and not _is_cancelled(row))


def _is_cancelled(row: Json) -> bool:
    return row["cancellation"] is not None and row["cancellation"]["status"] == "CANCELLED"


async def provider(walk: Walk) -> None:
    """Lets the stamping provider refuse documents or fail, or work again."""
    mode = walk.random.choice(["OK", "REFUSE", "DOWN"])
    await _set_provider(walk, mode, **({} if mode == "OK" else {"times": walk.random.randint(1, 3)}))


async def _set_provider(walk: Walk, mode: str, **times: int) -> None:
    """Sets the provider's mode. While it is down, 503 is the right answer to a request about documents."""
    await walk.post(f"{SANDBOX}/stamping", {"mode": mode, **times})
    walk.provider_is_down = mode == "DOWN"


async def self_invoice(walk: Walk) -> None:
    """Opens the payer's page of an order without fiscal data, and sends its form, some twice."""
    order = walk.some(lambda each: each["invoiceType"] is None and each["status"] == "COMPLETED")
    if order is None:
        return
    link = await walk.ask("GET", path_of(order, "self-invoice-url"))
    if "url" not in link:
        return
    page = urlsplit(link["url"]).path
    await walk.send("GET", page)
    for _ in range(walk.random.choice([1, 1, 2])):
        answer = await walk.send("POST", page, urlencode(_PAYER))
        walk.reached[SELF_INVOICED] += answer.status == 200
    await walk.show(order)


async def invoice_to_the_public(walk: Walk) -> None:
    """Makes the global invoices of a period that has ended, or has not; reads them."""
    first = local_day(walk).replace(day=1)
    if walk.chance(0.9):
        first = (first - timedelta(days=1)).replace(day=1)
    body: Json = {"month": f"{first:%Y-%m}"}
    match walk.random.choice(["MONTHLY", "MONTHLY", "DAILY", "WEEKLY", "FORTNIGHTLY"]):
        case "FORTNIGHTLY":
            body |= {"periodicity": "FORTNIGHTLY", "firstDay": walk.random.choice([1, 16])}
        case "MONTHLY":
            pass
        case periodicity:
            body |= {"periodicity": periodicity, "firstDay": walk.random.randint(1, 28)}
    made = await walk.post(GLOBAL, body)
    while made.get("hasMore"):
        made = await walk.post(GLOBAL, body)
    listed = await walk.ask("GET", f"{GLOBAL}?limit=5")
    if listed.get("data"):
        await walk.ask("GET", f"{GLOBAL}/{walk.random.choice(listed['data'])['id']}")


async def cancel_global(walk: Walk) -> None:
    """Cancels a global invoice: its orders are invoiced one by one, in another one, or not at all."""
    listed = await walk.ask("GET", f"{GLOBAL}?limit=5")
    found = [each for each in listed.get("data", ()) if each["status"] == "EMITTED"]
    if not found:
        return
    if walk.chance(0.8):
        await _set_provider(walk, "OK")
    made = walk.random.choice(found)
    await walk.post(f"{GLOBAL}/{made['id']}/cancel", {"motive": walk.random.choice(["02", "03", "04"])})
    if walk.chance(0.5):
        await walk.post(GLOBAL, {"month": made["month"]})


async def read(walk: Walk) -> None:
    """Reads a list or a month's report, and an order."""
    month = f"{walk.random.randint(2026, 2030)}-{walk.random.randint(1, 12):02}"
    places = (f"{bodies.ORDERS}?limit=20", f"{MONTH_END}?month={month}", "/api/v1/subscriptions?limit=20")
    await walk.ask("GET", walk.random.choice(places))
    order = walk.some(lambda _: True)
    if order is not None:
        await walk.show(order)


async def settle(walk: Walk) -> None:
    """Ends the provider's troubles, stamps what is not stamped, and lets the pauses of what is under way pass."""
    await _set_provider(walk, "OK")
    for _ in range(_SETTLING):
        await walk.move("PT8H")
    place: str | None = f"{bodies.ORDERS}?limit=100"
    while place:
        page = await walk.ask("GET", place)
        for order in page.get("data", ()):
            if _lacks_documents(order):
                await _stamp_with_receiver(walk, order)
        cursor = page.get("pagination", {}).get("nextCursor")
        place = cursor and f"{bodies.ORDERS}?limit=100&cursor={quote(cursor)}"
    await walk.move("PT8H")


async def _stamp_with_receiver(walk: Walk, order: Json) -> None:
    """Stamps an order's documents. The receiver of a customer who was erased is named again."""
    answered = await walk.post(path_of(order, "stamp"), {})
    if answered.get("code") == "FISCAL_DATA_INCOMPLETE":
        await walk.post(path_of(order, "stamp"), {"fiscalConfig": FISCAL})


def _lacks_documents(order: Json) -> bool:
    """Returns whether a request may be needed for an order's documents: those of a cancelled one come on request alone."""
    if order["invoiceType"] is None:
        return False
    rows = [*order["creditNotes"], *order["complements"], *order.get("additionalInvoices", ())]
    is_stamped = order["invoiceStatus"] == "INVOICED" and (order.get("invoiceSummary") or {}).get(
        "isFullyStamped", True
    )
    return not is_stamped or len(list(_emitted(rows))) < len(rows) or float(order["amountRefunded"]) > 0


async def read_months(walk: Walk, since: date) -> None:
    """Reads the reports of all months from a day to the present one."""
    month = since.replace(day=1)
    while month <= local_day(walk):
        walk.months[f"{month:%Y-%m}"] = await walk.ask("GET", f"{MONTH_END}?month={month:%Y-%m}")
        month = (month + timedelta(days=31)).replace(day=1)


def local_day(walk: Walk) -> date:
    """Returns the day of the merchant's clock at the place of its issuer."""
    return walk.now.astimezone(_ZONE).date()
