"""One scenario through every operation of `ledger serve`, over a socket: two API processes, a worker, a Postgres.

Call every described operation here, and have it succeed: a new operation adds its line.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest
from campaigns.chaos.service import Service
from tests.api.bodies import ABSENT, by_card, card, charge, encoded, order, paid_order
from tests.api.invoices.test_split_order_documents import FISCAL
from tests.api.isolation.objects import CUSTOMERS, PLANS, PRODUCTS, SUBSCRIPTIONS
from tests.api.openapi.description import operations
from tests.api.payer import DEVICE_THEN_CHALLENGE, path_of
from tests.invoicing.documents import LOGO_BASE64, issuer_body

from ledger.tlog.notes import parse_verifier
from ledger.tlog.proofs import verify_proof
from ledger.tlog.tiles import decode_bundle

ORDERS, SANDBOX = "/api/v2/payment-orders", "/api/sandbox"
KEYS, LOGO = "/api/v1/api-keys", "/api/v1/merchant/fiscal-issuer/logo"
GLOBAL, MEXICO = "/api/v1/invoices/global", ZoneInfo("America/Mexico_City")
METHODS = "/api/payment-methods"
ACCOUNTS = "/api/v1/processor-accounts"
EVENTS = "/api/v1/events"
ENDPOINTS = "/api/v1/webhook-endpoints"
LOG = "/api/v1/log"
AUDITS = "/api/v1/audits"
NOT_MERCHANTS = {
    ("post", "/api/processor-messages/{processor}"),
    ("post", "/api/processor-messages/{merchantId}/{account}"),
}
"""The operation for processors' signed messages; it has tests of its own."""


class Shop:
    """A merchant's program that remembers which operations have succeeded."""

    def __init__(self, service: Service) -> None:
        self._headers = {"x-api-key": service.merchant("Story").api_key, "content-type": "application/json"}
        self._service = service
        # One client: each makes a context for TLS, which takes longer than a request, and no pool outlives a restart.
        self._client = httpx.Client(verify=False, timeout=30, headers={"connection": "close"})
        self.done: set[tuple[str, str]] = set()
        self._templates = {
            (method, path): re.compile(re.sub(r"\{\w+\}", "[^/]+", path)) for method, path in operations()
        }

    def ask(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> httpx.Response:
        """Returns the answer, which must have a status below 500."""
        headers = self._headers | ({} if key is None else {"idempotency-key": key})
        content = None if body is None else encoded(body)
        url = f"http://127.0.0.1:{self._service.port}{path}"
        answer = self._client.request(method, url, content=content, headers=headers)
        if answer.is_success:
            self.done |= {
                known
                for known, template in self._templates.items()
                if known[0] == method.lower() and template.fullmatch(path.partition("?")[0])
            }
        return answer

    def get(self, path: str) -> dict[str, Any]:
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def post(self, path: str, body: Any, *, key: str | None = None) -> dict[str, Any]:
        answer = self.ask("POST", path, body, key=key)
        assert answer.is_success, answer.text
        return dict(answer.json())

    def payer(self, address: str, decision: str) -> None:
        """Sends what a payer's browser sends to a page."""
        url = f"http://127.0.0.1:{self._service.port}{path_of(address)}"
        assert self._client.post(url, data={"decision": decision}).status_code == 200


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service(workers=2) as service:
        yield service.start()


def test_a_merchant_goes_through_every_operation_and_a_restart(service: Service):
    shop = Shop(service)
    split_tender(shop)
    held_and_cancelled(shop)
    paid_out(shop)
    authenticated(shop)
    outside(shop)
    to_the_card = {"amount": 1000, "paymentId": shop.get(f"{ORDERS}/split/payments/part")["id"]}
    refunded = shop.ask("POST", f"{ORDERS}/split/refund", to_the_card, key="refund-1")
    webhooks(shop)
    proved(shop)
    audited(shop)
    own_account(shop)
    own_customers(shop)
    saved_cards(shop)
    own_products(shop)
    subscribed(shop)
    invoiced(shop)
    for probe in ("/health/live", "/health/ready", "/metrics"):
        shop.ask("GET", probe)
    before = {name: shop.get(f"{ORDERS}/{name}") for name in ("split", "held", "secure", "contested")}
    events = followed(shop)
    assert service.stop() == 0
    service.start()
    assert followed(shop)[: len(events)] == events
    assert {name: shop.get(f"{ORDERS}/{name}") for name in before} == before
    again = shop.ask("POST", f"{ORDERS}/split/refund", to_the_card, key="refund-1")
    assert (again.content, again.headers["idempotent-replayed"]) == (refunded.content, "true")
    history = shop.get(f"{ORDERS}/split/events")["data"]
    assert history[-1]["state"]["amountRefunded"] == shop.get(f"{ORDERS}/split")["amountRefunded"]
    assert shop.get(f"{ORDERS}/split/explain?field=amountRefunded")["value"] == history[-1]["state"]["amountRefunded"]
    orders = shop.get(f"{ORDERS}?limit=1")["pagination"]["total"]
    assert sum(line["orders"] for line in shop.get("/api/v1/summary")["orders"]) == orders
    assert operations().keys() - shop.done == NOT_MERCHANTS
    assert service.complaints() == [
        f"request: method=POST, route={ORDERS}, status=503, error_code=PROCESSOR_UNAVAILABLE"
    ]  # while the sandbox's processor was down


def followed(shop: Shop) -> list[dict[str, Any]]:
    """Returns the feed from its beginning, whichever process has numbered its events."""
    events, more = list[dict[str, Any]](), True
    while more:
        page = shop.get(f"{EVENTS}?limit=50&afterSequence={len(events)}")
        events, more = [*events, *page["data"]], page["hasMore"]
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert shop.get(f"{EVENTS}/{events[-1]['id']}") == events[-1]
    return events


def proved(shop: Shop) -> None:
    """Waits until the worker has sealed the merchant's first event, and verifies a proof of it."""
    until = time.monotonic() + 60
    while shop.ask("GET", f"{LOG}/checkpoint").status_code == 404 and time.monotonic() < until:
        time.sleep(0.2)
    keys = [parse_verifier(line) for line in shop.ask("GET", f"{LOG}/key").text.splitlines()]
    bundle = shop.ask("GET", f"{LOG}/tile/entries%2F000.p%2F1").content
    file = shop.ask("GET", f"{LOG}/entries/1/proof").content
    assert verify_proof(file, decode_bundle(bundle)[0], keys)[0] == 0
    assert shop.get(f"{LOG}/consistency?from=1")["from"] == 1


def audited(shop: Shop) -> None:
    """Waits until the worker has audited the merchant's log."""
    one, until = f"{AUDITS}/{shop.post(AUDITS, {})['id']}", time.monotonic() + 60
    while shop.get(one)["endedAt"] is None and time.monotonic() < until:
        time.sleep(0.2)
    ended = shop.get(one)
    assert (ended["status"], ended["report"]["violations"]) == ("CLEAN", [])
    assert shop.get(AUDITS)["data"] == [{name: value for name, value in ended.items() if name != "report"}]


def webhooks(shop: Shop) -> None:
    """An endpoint where nothing listens."""
    made = shop.post(ENDPOINTS, {"url": "http://127.0.0.1:9/hooks"})
    one = f"{ENDPOINTS}/{made['id']}"
    assert [each["id"] for each in shop.get(ENDPOINTS)["data"]] == [shop.get(one)["id"]]
    assert not shop.post(f"{one}/test", {})["delivered"]
    assert shop.post(f"{one}/rotate-secret", {})["secret"] != made["secret"]
    event = shop.get(EVENTS)["data"][0]["id"]
    assert shop.ask("POST", f"{one}/replay", {"fromSequence": 1}).status_code == 202
    assert shop.ask("POST", f"{EVENTS}/{event}/redeliver", {"endpointId": made["id"]}).status_code == 202
    assert shop.ask("GET", f"{one}/deliveries?limit=1").status_code == 200
    assert shop.ask("PUT", one, {"status": "DISABLED"}).json()["status"] == "DISABLED"
    assert shop.ask("DELETE", one).json()["deleted"]


def own_account(shop: Shop) -> None:
    """The merchant's own keys and settings; no key is left over."""
    shop.ask("GET", "/api/v1/meta")
    shop.ask("POST", "/api/sandbox/stamping", {"mode": "OK"})
    shop.ask("GET", "/api/v1/merchant")
    shop.ask("PUT", "/api/v1/merchant", {"settings": {"captureDelaySeconds": 5}})
    set_once = shop.ask("PUT", "/api/v1/merchant/fiscal-issuer", issuer_body()).json()
    assert shop.ask("GET", "/api/v1/merchant/fiscal-issuer").json() == set_once
    made = shop.ask("POST", KEYS, {"scopes": ["orders:read"]}).json()["id"]
    shop.ask("GET", f"{KEYS}/{made}")
    rotated = shop.ask("POST", f"{KEYS}/{made}/rotate", {"overlapSeconds": 0}).json()["id"]
    shop.ask("DELETE", f"{KEYS}/{rotated}")
    shop.ask("GET", KEYS)


def own_customers(shop: Shop) -> None:
    """Created, changed, found, erased."""
    eva = shop.post(CUSTOMERS, {"externalId": "eva", "email": "eva@example.com"})
    assert shop.ask("PUT", f"{CUSTOMERS}/eva", {"firstName": "Eva"}).json()["firstName"] == "Eva"
    assert shop.get(f"{CUSTOMERS}/{eva['id']}")["externalId"] == "eva"
    assert [each["id"] for each in shop.get(f"{CUSTOMERS}?search=eva@")["data"]] == [eva["id"]]
    assert shop.ask("DELETE", f"{CUSTOMERS}/eva").json() == {"id": eva["id"], "deleted": True}
    assert shop.ask("GET", f"{CUSTOMERS}/eva").status_code == 404
    assert shop.get(f"{CUSTOMERS}/eva/events")["data"][-1]["sentence"] == "Customer erased"


def saved_cards(shop: Shop) -> None:
    """Saved with a payment, used for another, changed and deleted; saved without a payment."""
    paid = shop.post(ORDERS, paid_order(customer={"externalId": "leo"}, paymentMethod=by_card(persist=True)))
    saved = paid["payment"]["paymentMethodId"]
    of_customer = f"{CUSTOMERS}/leo/payment-methods"
    assert [each["id"] for each in shop.get(of_customer)["data"]] == [saved]
    again = paid_order(
        customer={"externalId": "leo"}, paymentMethod={"type": "payment_method_id", "paymentMethodId": saved}
    )
    assert shop.post(ORDERS, again)["status"] == "COMPLETED"
    assert shop.ask("PUT", f"{METHODS}/{saved}", {"billingCity": "Puebla"}).json()["id"] == saved
    assert shop.get(f"{METHODS}/{saved}")["id"] == saved
    assert shop.ask("DELETE", f"{of_customer}/{saved}").json() == {"id": saved, "deleted": True}
    alone = shop.post(of_customer, {"paymentMethod": by_card()})
    assert (alone["status"], alone["isDefault"]) == ("ACTIVE", True)
    waiting = shop.post(of_customer, {"paymentMethod": by_card(cardDetails=card(number="4000000000003063"))})
    payer = f"{METHODS}/{waiting['id']}/payer-authentication"
    session = shop.post(f"{payer}/device-data", {})["payerAuthentication"]
    body = {"authenticationTransactionId": session["authenticationTransactionId"]}
    assert shop.post(f"{payer}/validate", body)["status"] == "ACTIVE"


def subscribed(shop: Shop) -> None:
    """A plan, and a subscription from its first charge to its end."""
    plan = shop.post(PLANS, {"name": "Box", "amount": "38900", "currency": "MXN", "interval": "MONTH"})["id"]
    assert shop.ask("PUT", f"{PLANS}/{plan}", {"name": "Coffee box"}).json() == shop.get(f"{PLANS}/{plan}")
    body = paid_order(externalId="ida-1", customer={"externalId": "ida"}, paymentMethod=by_card(persist=True))
    card = shop.post(ORDERS, body)["payment"]["paymentMethodId"]
    new = shop.post(SUBSCRIPTIONS, {"customerId": "ida", "planId": plan, "paymentMethodId": card})
    one = f"{SUBSCRIPTIONS}/{new['id']}"
    assert [each["id"] for each in shop.get(SUBSCRIPTIONS)["data"]] == [new["id"]]
    assert shop.ask("PUT", one, {"metadata": {"box": 1}}).json()["metadata"] == {"box": 1}
    (invoice,) = shop.get(f"{one}/invoices")["data"]
    assert shop.get(f"/api/v1/subscription-invoices/{invoice['id']}")["status"] == "PAID"
    assert shop.post(f"{one}/retry", {})["status"] == "ACTIVE", "nothing is open"
    assert shop.post(f"{one}/preview", {})["lines"]
    assert shop.post(f"{one}/cancel", {})["cancelAtPeriodEnd"]
    assert not shop.post(f"{one}/resume", {})["cancelAtPeriodEnd"]
    assert shop.post(f"{one}/cancel", {"atPeriodEnd": False})["status"] == shop.get(one)["status"] == "CANCELED"
    assert shop.get(f"{one}/events")["data"][-1]["state"]["status"] == "CANCELED"
    assert shop.ask("DELETE", f"{PLANS}/{plan}").json() == {"id": plan, "deleted": True}
    assert shop.get(PLANS)["pagination"]["total"] == 1


def own_products(shop: Shop) -> None:
    """Imported, listed and read."""
    imported = shop.post(f"{PRODUCTS}/bulk-import", {"products": [{"id": "cup", "name": "Cup", "price": 100}]})
    assert (imported["created"], imported["failed"]) == (1, 0)
    assert [each["id"] for each in shop.get(PRODUCTS)["data"]] == ["cup"]
    assert shop.get(f"{PRODUCTS}/cup")["name"] == "Cup"


def invoiced(shop: Shop) -> None:
    """An invoice, stamped, read and cancelled."""
    shop.post(ORDERS, paid_order(externalId="invoiced", customerFiscalData=FISCAL))
    until = time.monotonic() + 60
    while shop.post(f"{ORDERS}/invoiced/stamp", {})["invoiceStatus"] != "INVOICED":  # the first call may be too slow
        assert time.monotonic() < until
        time.sleep(0.2)
    links = shop.get(f"{ORDERS}/invoiced/cfdi-url")
    assert shop.post(f"{ORDERS}/invoiced/cfdi-url", {})["invoice"]["fiscalUuid"] == links["invoice"]["fiscalUuid"]
    cancelled = shop.post(f"{ORDERS}/invoiced/cfdi-cancel", {"motive": "02"})
    assert cancelled["invoiceCancellation"]["status"] == "CANCELLED"
    shop.post(ORDERS, paid_order(externalId="self-invoiced"))
    assert shop.get(f"{ORDERS}/self-invoiced/self-invoice-url")["url"]
    day = datetime.fromisoformat(shop.get(f"{ORDERS}/self-invoiced")["createdAt"]).astimezone(MEXICO)
    shop.post(f"{SANDBOX}/clock", {"advanceBy": "P1D"})
    period = {"month": f"{day:%Y-%m}", "periodicity": "DAILY", "firstDay": day.day}
    made = shop.post(GLOBAL, period)["globalInvoice"]
    assert len(shop.get(f"{GLOBAL}/{made['id']}")["orders"]) == made["orderCount"] >= 1
    assert [each["id"] for each in shop.get(GLOBAL)["data"]] == [made["id"]]
    second = f"{ACCOUNTS}/second"
    assert shop.ask("PUT", second, {"processor": "sandbox"}).json() == shop.get(second)
    assert [each["name"] for each in shop.get(ACCOUNTS)["data"]] == ["sandbox", "second"]
    assert shop.post(f"{second}/check", {})["reachable"]
    assert shop.ask("DELETE", second).json()["status"] == "DISCONNECTED"
    assert shop.post(f"{GLOBAL}/{made['id']}/cancel", {"motive": "02"})["status"] == "CANCELLED"
    assert shop.post(GLOBAL, period)["globalInvoice"]["orderCount"] == made["orderCount"], "its orders are free"
    assert shop.ask("PUT", LOGO, {"image": LOGO_BASE64}).json() == shop.get(LOGO)
    assert shop.ask("DELETE", LOGO).is_success
    assert shop.get(f"/api/v1/invoices/month-end?month={datetime.now(UTC):%Y-%m}")


def split_tender(shop: Shop) -> None:
    """Parts by card and transfer, paid, refunded, read."""
    shop.post(ORDERS, order(externalId="split", allowPartials=True, amount=1))
    assert shop.ask("PATCH", f"{ORDERS}/split", {"amount": 150_000}).json()["amountPending"] == 150_000
    part = charge(amount=50_000, externalId="part")
    first = shop.post(f"{ORDERS}/split/payments", part, key="part-1")
    assert shop.post(f"{ORDERS}/split/payments", part, key="part-1") == first
    shop.post(f"{ORDERS}/split/charge", charge(amount=25_000))
    waiting = shop.post(f"{ORDERS}/split/payments", {"paymentMethod": {"type": "spei"}})
    transfer = {"clabe": waiting["payment"]["speiDetails"]["clabe"], "amount": 75_000}
    paid = shop.post(f"{SANDBOX}/deposits", transfer)["paymentOrder"]
    assert (paid["status"], paid["amountPaid"]) == ("COMPLETED", 150_000)
    card_first = {"amount": 1000, "paymentId": first["payment"]["id"], "externalId": "back"}
    back = shop.post(f"{ORDERS}/split/refund", card_first)
    assert (back["refund"]["status"], back["status"]) == ("SUCCEEDED", "PARTIALLY_PAID")
    assert shop.get(f"{ORDERS}/split/refunds/back") == back["refund"]
    assert shop.get(f"{ORDERS}/split/refunds")["data"] == [back["refund"]]
    assert [each["amount"] for each in shop.get(f"{ORDERS}/split/payments")["data"]] == ["50000", "25000", "75000"]
    assert shop.get(f"{ORDERS}/split/payments/part")["status"] == "PARTIALLY_REFUNDED"


def held_and_cancelled(shop: Shop) -> None:
    """Captured by hand in part, the rest released, then closed with its money given back."""
    assert shop.post(ORDERS, paid_order(externalId="held", captureMethod="MANUAL"))["status"] == "AUTHORIZED"
    assert shop.post(f"{ORDERS}/held/capture", {"amount": 50_000})["amountPaid"] == 50_000
    assert shop.post(f"{ORDERS}/held/release", {})["amountReleased"] == 100_000
    assert shop.post(f"{ORDERS}/held/cancel", {"refundCaptured": True})["status"] == "REFUNDED"


def paid_out(shop: Shop) -> None:
    """A transfer, refunded in two parts: one by hand, one to an account. The bank may have confirmed both by then."""
    waiting = shop.post(ORDERS, order(externalId="payout", pending=ABSENT, paymentMethod={"type": "spei"}))
    clabe = waiting["payment"]["speiDetails"]["clabe"]
    shop.post(f"{SANDBOX}/deposits", {"clabe": clabe, "amount": 150_000})
    shop.post(f"{ORDERS}/payout/refund", {"amount": 1000, "externalId": "by-hand"})
    assert shop.post(f"{ORDERS}/payout/refunds/by-hand/confirm", {})["refund"]["status"] == "SUCCEEDED"
    shop.post(f"{ORDERS}/payout/refund", {"amount": 1000, "externalId": "to-account"})
    named = shop.ask("PUT", f"{ORDERS}/payout/refunds/to-account/destination", {"clabe": "032180000118359719"})
    assert named.status_code in (200, 409), named.text


def authenticated(shop: Shop) -> None:
    """Device data, a challenge, the capture that follows by the clock."""
    with_card = by_card(cardDetails=card(number=DEVICE_THEN_CHALLENGE))
    said = shop.post(ORDERS, paid_order(externalId="secure", paymentMethod=with_card))
    shop.payer(said["payerAuthentication"]["deviceDataCollectionUrl"], "go")
    asked = shop.post(f"{ORDERS}/secure/payer-authentication/device-data", {})["payerAuthentication"]
    shop.payer(asked["stepUpUrl"], "accept")
    body = {"authenticationTransactionId": asked["authenticationTransactionId"]}
    assert shop.post(f"{ORDERS}/secure/payer-authentication/validate", body)["status"] == "AUTHORIZED"
    before = shop.get(f"{SANDBOX}/clock")["now"]
    assert shop.post(f"{SANDBOX}/clock", {"advanceBy": "PT10S"})["now"] > before
    assert shop.get(f"{ORDERS}/secure")["status"] == "COMPLETED"


def outside(shop: Shop) -> None:
    """The card company is down for a call; the bank contests a payment, the acquirer settles another."""
    shop.post(f"{SANDBOX}/processor", {"mode": "DOWN", "times": 1})
    down = shop.ask("POST", ORDERS, paid_order(externalId="contested"))
    assert (down.status_code, down.json()["code"]) == (503, "PROCESSOR_UNAVAILABLE")
    payment = shop.post(ORDERS, paid_order(externalId="contested"))["payment"]["id"]
    shop.post(f"{SANDBOX}/clock", {"advanceBy": "PT1S"})
    lost = shop.post(f"{SANDBOX}/disputes", {"paymentId": payment, "outcome": "LOST", "amount": 50_000})
    assert lost["paymentOrder"]["status"] == "PARTIALLY_REFUNDED"
    secure = shop.get(f"{ORDERS}/secure")["payments"][0]["id"]
    lines = shop.post(f"{SANDBOX}/settlements", {"paymentIds": [secure]})["lines"]
    assert [line["stage"] for line in lines] == ["LISTED", "MATCHED"]
    assert shop.get(f"{ORDERS}/secure/payments/{secure}")["status"] == "SETTLED"
    assert shop.get(f"{ORDERS}?status=COMPLETED")["pagination"]["total"] == 1
