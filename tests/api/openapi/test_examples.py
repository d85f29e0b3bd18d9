"""Every example request is sent for an order in the status that its operation needs, and is answered as described."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from tests.api.bodies import by_card, card, encoded, order, paid_order
from tests.api.invoices.test_split_order_documents import FISCAL
from tests.api.openapi.description import DESCRIBED, assert_described, operations
from tests.api.openapi.test_document import ONE
from tests.api.payer import CHALLENGED, FRICTIONLESS
from tests.api.storefront import JSON, ORDERS, Merchant

from api.customers import change
from api.customers import create as create_customer
from api.http.endpoint import ScopedOperation
from api.openapi.links import LINKS, REFUND_LINKS
from api.orders import add_payment, authenticate, cancel, capture, charge, payout, refund, release
from api.orders import change as change_order
from api.orders.invoices import cancel as cancel_cfdi
from api.orders.invoices import stamp
from api.sandbox import clock, deposits, disputes, processor_mode, settlements

pytestmark = pytest.mark.anyio

SANDBOX = "/api/sandbox"
REFUND = "devolucion-1"
Stands = Callable[[Merchant, str], Awaitable[dict[str, Any]]]


async def split(merchant: Merchant, name: str) -> dict[str, Any]:
    return await _created(merchant, order(externalId=name, allowPartials=True))


async def paid(merchant: Merchant, name: str) -> dict[str, Any]:
    return await _created(merchant, paid_order(externalId=name))


async def held(merchant: Merchant, name: str) -> dict[str, Any]:
    return await _created(merchant, paid_order(externalId=name, captureMethod="MANUAL"))


async def captured_in_part(merchant: Merchant, name: str) -> dict[str, Any]:
    said = await held(merchant, name)
    await merchant.post(f"{ORDERS}/{said['id']}/capture", {"amount": 50_000})
    return said


async def transferred(merchant: Merchant, name: str) -> dict[str, Any]:
    said = await _created(merchant, order(externalId=name, pending=False, paymentMethod={"type": "spei"}))
    body = {"clabe": said["payment"]["speiDetails"]["clabe"], "amount": 150_000}
    await merchant.post(f"{SANDBOX}/deposits", body)
    return said


async def paid_out(merchant: Merchant, name: str) -> dict[str, Any]:
    said = await transferred(merchant, name)
    await merchant.post(f"{ORDERS}/{said['id']}/refund", {"amount": 1000, "externalId": REFUND})
    return said


async def challenged(merchant: Merchant, name: str) -> dict[str, Any]:
    return await _created(merchant, _asked_of(CHALLENGED, name))


async def looked_at(merchant: Merchant, name: str) -> dict[str, Any]:
    return await _created(merchant, _asked_of(FRICTIONLESS, name))


async def fiscal(merchant: Merchant, name: str) -> dict[str, Any]:
    return await _created(merchant, paid_order(externalId=name, customerFiscalData=FISCAL))


async def stamped(merchant: Merchant, name: str) -> dict[str, Any]:
    said = await fiscal(merchant, name)
    await merchant.post(f"{ORDERS}/{said['id']}/stamp", {})
    links = await merchant.get(f"{ORDERS}/{said['id']}/cfdi-url")
    assert_described(links, "get", f"{ONE}/cfdi-url")
    return said


STANDS: Mapping[tuple[str, str], Stands] = {
    ("charge", "card"): split,
    ("charge", "part"): split,
    ("payments", "card"): split,
    ("payments", "transfer"): split,
    ("refund", "part"): paid,
    ("refund", "payout"): transferred,
    ("cancel", "reason"): held,
    ("capture", "all"): held,
    ("capture", "part"): held,
    ("capture", "final"): held,
    ("release", "rest"): captured_in_part,
    ("refunds/{refundId}/confirm", "paid"): paid_out,
    ("stamp", "all"): fiscal,
    ("stamp", "receiver"): paid,
    ("cfdi-cancel", "invoice"): stamped,
    ("payer-authentication/device-data", "browser"): looked_at,
    ("payer-authentication/validate", "returned"): challenged,
}
SENT: Mapping[str, ScopedOperation] = {
    "charge": charge.CHARGE,
    "payments": add_payment.ADD_PAYMENT,
    "refund": refund.REFUND,
    "cancel": cancel.CANCEL,
    "capture": capture.CAPTURE,
    "release": release.RELEASE,
    "refunds/{refundId}/confirm": payout.CONFIRM,
    "stamp": stamp.STAMP,
    "cfdi-cancel": cancel_cfdi.CANCEL_CFDI,
    "payer-authentication/device-data": authenticate.SUBMIT_DEVICE_DATA,
    "payer-authentication/validate": authenticate.VALIDATE,
}


def test_every_example_of_an_action_is_sent_by_a_test():
    shown = {
        (path.removeprefix(f"{ONE}/"), name)
        for (method, path), found in operations().items()
        if method == "post" and path.startswith(f"{ONE}/")
        for name in found["requestBody"]["content"]["application/json"].get("examples", {})
    }
    assert shown == STANDS.keys()


@pytest.mark.parametrize(("action", "name"), STANDS, ids=lambda part: str(part))
async def test_an_example_of_an_action_works(merchant: Merchant, action: str, name: str):
    said = await STANDS[action, name](merchant, "example")
    body = dict(SENT[action].spec.examples[name]["value"])
    if action.endswith("validate"):
        body["authenticationTransactionId"] = said["payerAuthentication"]["authenticationTransactionId"]
    answer = await merchant.post(f"{ORDERS}/{said['id']}/{action.format(refundId=REFUND)}", body)
    assert answer.status_code in (200, 201), answer.text
    assert_described(answer, "post", f"{ONE}/{action}")
    await assert_its_parts_are_described(merchant, answer.json())


async def test_the_examples_of_changes_work(merchant: Merchant):
    said = await split(merchant, "example")
    for shown in change_order.CHANGE.spec.examples.values():
        answer = await merchant.client.patch(
            f"{ORDERS}/{said['id']}", content=encoded(shown["value"]), headers=merchant.key | JSON
        )
        assert_described(answer, "patch", ONE)
        assert answer.status_code == 200


async def assert_its_parts_are_described(merchant: Merchant, said: dict[str, Any]) -> None:
    """Reads the payments and refunds of the order, as lists and one by one."""
    for method, path, full in (
        ("get", f"{ONE}/payments", f"{ORDERS}/{said['id']}/payments"),
        ("get", f"{ONE}/refunds", f"{ORDERS}/{said['id']}/refunds"),
    ):
        assert_described(await merchant.get(full), method, path)
    if payment := said.get("payment"):
        found = await merchant.get(f"{ORDERS}/{said['id']}/payments/{payment['id']}")
        assert_described(found, "get", f"{ONE}/payments/{{paymentId}}")
    if refund := said.get("refund"):
        found = await merchant.get(f"{ORDERS}/{said['id']}/refunds/{refund['id']}")
        assert_described(found, "get", f"{ONE}/refunds/{{refundId}}")


async def test_the_examples_of_the_sandbox_work(merchant: Merchant):
    said = await paid(merchant, "example")
    of_this_payment = {"paymentId": said["payment"]["id"]}
    assert_described(await merchant.get(f"{SANDBOX}/clock"), "get", f"{SANDBOX}/clock")
    for helper, shown, changes in (
        ("clock", clock.MOVE_CLOCK.spec.examples, {}),
        ("deposits", deposits.SEND_DEPOSIT.spec.examples, {}),
        ("settlements", settlements.SETTLE.spec.examples, {}),
        ("disputes", disputes.REPORT_DISPUTE.spec.examples, of_this_payment),
        ("processor", processor_mode.SET_PROCESSOR_MODE.spec.examples, {}),
    ):
        assert (
            operations()["post", f"{SANDBOX}/{helper}"]["requestBody"]["content"]["application/json"]["examples"]
            == shown
        )
        for example in shown.values():
            answer = await merchant.post(f"{SANDBOX}/{helper}", example["value"] | changes)
            assert answer.status_code in (200, 202), answer.text
            assert_described(answer, "post", f"{SANDBOX}/{helper}")


async def test_the_examples_of_customers_work(merchant: Merchant):
    customers = "/api/customers"
    example = create_customer.CREATE.spec.examples["customer"]["value"]
    assert_described(await merchant.post(customers, example), "post", customers)
    one = f"{customers}/{example['externalId']}"
    for shown in change.CHANGE.spec.examples.values():
        assert_described(await merchant.put(one, shown["value"]), "put", f"{customers}/{{id}}")
    for method, path, described in (("get", one, f"{customers}/{{id}}"), ("get", customers, customers)):
        assert_described(await merchant.get(path), method, described)
    assert_described(await merchant.delete(one), "delete", f"{customers}/{{id}}")


def test_a_create_leads_to_everything_that_can_be_done_with_an_order():
    links = DESCRIBED["paths"][ORDERS]["post"]["responses"]["201"]["links"]
    led = {DESCRIBED["components"]["links"][link["$ref"].rpartition("/")[2]]["operationId"] for link in links.values()}
    led |= {link["operationId"] for link in REFUND_LINKS.values()}
    on_orders = {found["operationId"] for (_, path), found in operations().items() if path.startswith(ONE)}
    assert on_orders <= led
    assert links.keys() == LINKS.keys()


def _asked_of(number: str, name: str) -> dict[str, Any]:
    return paid_order(externalId=name, paymentMethod=by_card(cardDetails=card(number=number)))


async def _created(merchant: Merchant, body: dict[str, Any]) -> dict[str, Any]:
    answer = await merchant.create(body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())
