"""Amounts with a fraction of a centavo: warned of, refused where nothing could be charged or invoiced, and refused on every
operation for a merchant whose `fractionalAmounts` is false.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.api.bodies import charge, order, paid_order
from tests.api.sandbox.test_deposits import clabe, waiting
from tests.api.sandbox.test_reports import paid
from tests.api.storefront import ORDERS, Merchant, Storefront

from ledger.processors.contract import Capabilities
from ledger.processors.sandbox import processor as sandbox

pytestmark = pytest.mark.anyio

HINT = "must have no fraction; amounts are in centavos: did you mean 15075?"


@pytest.fixture
async def careful(store: Storefront) -> Merchant:
    return await store.register(fractional_amounts=False)


async def refused(merchant: Merchant, path: str, body: dict[str, Any], *fields: str) -> list[str]:
    answer = await merchant.post(path, body)
    errors = answer.json()["errors"]
    assert (answer.status_code, [error["field"] for error in errors]) == (400, list(fields or ("amount",))), answer.text
    return [error["message"] for error in errors]


async def test_every_operation_refuses_a_fraction_and_names_what_was_meant(careful: Merchant):
    assert await refused(careful, ORDERS, order(amount=150.75)) == [HINT]
    said = await paid(careful)
    mine = f"{ORDERS}/{said['id']}"
    allocations = [{"paymentId": said["payment"]["id"], "amount": 150.75}]
    body = {"amount": 150.75, "allocations": allocations}
    assert await refused(careful, f"{mine}/refund", body, "amount", "allocations[0].amount") == [HINT, HINT]
    dispute = {"paymentId": said["payment"]["id"], "outcome": "OPENED", "amount": 150.75}
    assert await refused(careful, "/api/sandbox/disputes", dispute) == [HINT]
    split = (await careful.create(order(externalId="split", allowPartials=True))).json()["id"]
    for action in ("charge", "payments"):
        assert await refused(careful, f"{ORDERS}/{split}/{action}", charge(amount=150.75)) == [HINT]
    held = (await careful.create(paid_order(externalId="held", captureMethod="MANUAL"))).json()["id"]
    assert await refused(careful, f"{ORDERS}/{held}/capture", {"amount": 150.75}) == [HINT]
    transfer = await waiting(careful, externalId="transfer")
    deposit = {"clabe": clabe(transfer), "amount": 150.75}
    assert await refused(careful, "/api/sandbox/deposits", deposit) == [HINT]
    finer = await refused(careful, ORDERS, order(externalId="finer", amount=1.2345))
    assert finer == ["must have no fraction; amounts are in centavos"]
    assert (await careful.get(mine)).json()["amountRefunded"] == 0


async def test_whole_amounts_pass_and_fractions_do_by_default(careful: Merchant, merchant: Merchant):
    assert (await careful.create(order(amount=15075))).status_code == 201
    assert (await careful.create(order(externalId="zero", amount=15075.00))).status_code == 201
    assert (await merchant.create(order(amount=150.75))).json()["amount"] == 150.75


def warned(answer: httpx.Response) -> list[tuple[str, str]]:
    assert answer.status_code in (200, 201), answer.text
    warnings = answer.json()["warnings"]
    assert {each["code"] for each in warnings} == {"FRACTION_OF_MINOR_UNIT"}
    return [(each["field"], each["message"]) for each in warnings]


async def test_every_operation_warns_of_a_fraction_with_what_it_means(merchant: Merchant):
    made = await merchant.create(order(amount=2848.70, allowPartials=True))
    message = "amount is in minor units: 2848.70 is MXN 28.487; MXN 2,848.70 is 284870."
    assert warned(made) == [("amount", message)]
    assert (await merchant.create(order(amount=2848.70, allowPartials=True))).json()["warnings"] == made.json()[
        "warnings"
    ]
    finest = await merchant.create(order(externalId="finest", amount=0.0001, currency="USD"))
    assert warned(finest) == [("amount", "amount is in minor units: 0.0001 is USD 0.000001.")]
    own = f"{ORDERS}/{made.json()['id']}"
    message = "amount is in minor units: 100.50 is 1.005 in the major unit; 100.50 in the major unit is 10050."
    paid_part = await merchant.post(f"{own}/charge", charge(amount=100.5))
    assert warned(paid_part) == [("amount", message)]
    payment = paid_part.json()["payment"]["id"]
    refund = {"amount": 0.5, "allocations": [{"paymentId": payment, "amount": 0.5}]}
    assert [field for field, _ in warned(await merchant.post(f"{own}/refund", refund))] == [
        "amount", "allocations[0].amount"
    ]  # fmt: skip
    assert "warnings" not in (await merchant.get(own)).json()
    whole = await merchant.create(order(externalId="whole", amount=284870))
    assert "warnings" not in whole.json()


async def test_a_fraction_that_no_invoice_can_state_is_refused_before_anything_is_recorded(merchant: Merchant):
    body = order(amount=2848.70, customerFiscalData={"taxId": "XAXX010101000"})
    first, again = [await merchant.post(ORDERS, body, **{"idempotency-key": "one"}) for _ in range(2)]
    assert (first.status_code, first.json()["code"]) == (422, "AMOUNT_NOT_CHARGEABLE")
    assert "no invoice can state 2848.7" in first.json()["message"]
    assert again.json() | {"requestId": ""} == first.json() | {"requestId": ""}
    assert (await merchant.get(ORDERS)).json()["pagination"]["total"] == 0
    assert (await merchant.create(body | {"amount": 2849})).status_code == 201


async def test_a_fraction_that_the_processor_cannot_move_is_refused(
    merchant: Merchant, monkeypatch: pytest.MonkeyPatch
):
    split = (await merchant.create(order(amount=1000.5, allowPartials=True))).json()["id"]
    mine = f"{ORDERS}/{split}"
    capabilities = Capabilities(name=sandbox.NAME, late_arrival_s=1)
    assert capabilities.smallest_amount == 1, "unless a processor states another one, it moves whole centavos"
    monkeypatch.setattr(
        sandbox.SandboxProcessor, "capabilities", property(lambda _: capabilities, lambda *_: None), raising=False
    )
    part = (await merchant.post(f"{mine}/charge", charge(amount=1000))).json()
    assert part["status"] == "PARTIALLY_PAID"
    held = (
        await merchant.create(order(externalId="held", amount=1000.5, allowPartials=True, captureMethod="MANUAL"))
    ).json()
    held_at = f"{ORDERS}/{held['id']}"
    assert (await merchant.post(f"{held_at}/charge", charge(amount=1000))).json()["status"] == "AUTHORIZED"
    requests = [
        (ORDERS, paid_order(externalId="new", amount=1000.5)), (f"{mine}/charge", charge()),
        (f"{mine}/payments", charge(amount=0.5)), (f"{mine}/refund", {"amount": 0.5}),
        (f"{held_at}/capture", {"amount": 0.5}),
    ]  # fmt: skip
    for path, body in requests:
        answer = await merchant.post(path, body)
        assert (answer.status_code, answer.json()["code"]) == (422, "AMOUNT_NOT_CHARGEABLE"), (path, answer.text)
    assert len((await merchant.get(mine)).json()["payments"]) == 1
    assert (await merchant.get(ORDERS)).json()["pagination"]["total"] == 2
    assert (await merchant.create(order(amount=1000.5, allowPartials=True))).status_code == 200
