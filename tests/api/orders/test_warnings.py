"""Warnings of a new order: what is carried out, and probably not meant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.api.bodies import line, order, paid_order
from tests.api.openapi.description import assert_described
from tests.api.storefront import ORDERS, Merchant

from api.openapi.error_descriptions import WARNING_WORDS

pytestmark = pytest.mark.anyio


async def warned(merchant: Merchant, **terms: Any) -> list[tuple[str, str, str]]:
    """Returns the warnings of a new order."""
    created = await merchant.create(order(**terms))
    assert created.status_code == 201, created.text
    assert_described(created, "post", ORDERS)
    found = [(each["field"], each["code"], each["message"]) for each in created.json().get("warnings", ())]
    assert {code for _, code, _ in found} <= WARNING_WORDS.keys()
    return found


async def test_a_due_date_in_the_past_is_accepted_and_warned_of_by_every_repetition(merchant: Merchant):
    past = {"externalId": "past", "dueDate": "2020-01-01"}
    found = await warned(merchant, **past)
    message = "dueDate had passed when it was set: the order is overdue at once."
    assert found == [("dueDate", "DUE_DATE_IN_PAST", message)]
    again = (await merchant.create(order(**past))).json()
    assert (again["isOverdue"], len(again["warnings"])) == (True, 1)


async def test_an_order_that_became_overdue_after_its_creation_is_not_warned_of(merchant: Merchant):
    soon = {"externalId": "soon", "dueDate": (datetime.now(UTC) + timedelta(days=1)).isoformat()}
    assert await warned(merchant, **soon) == []
    assert (await merchant.post("/api/sandbox/clock", {"advanceBy": "P3D"})).status_code == 200
    again = (await merchant.create(order(**soon))).json()
    assert (again["isOverdue"], "warnings" in again) == (True, False)


async def test_lines_that_could_not_be_invoiced_are_warned_of_without_fiscal_data(merchant: Merchant):
    wrong = line(productKey="1", unitKey="pieza", taxes=[{"type": "IVA", "rate": 16}])
    found = await warned(merchant, externalId="lines", lineItems=[wrong])
    assert [(field, code) for field, code, _ in found] == [
        ("lineItems[0].productKey", "NOT_IN_SAT_CATALOG"),
        ("lineItems[0].unitKey", "NOT_IN_SAT_CATALOG"),
        ("lineItems[0].taxes[0].rate", "NOT_IN_SAT_CATALOG"),
    ]
    assert found[2][2].endswith("did you mean 0.16?")
    fiscal = order(externalId="fiscal", lineItems=[wrong], customerFiscalData={"taxId": "XAXX010101000"})
    assert (await merchant.create(fiscal)).status_code == 400
    right = line(productKey="50201706", unitKey="H87", taxes=[{"type": "IVA", "rate": 0.16}])
    assert await warned(merchant, externalId="right", lineItems=[right]) == []


async def test_at_most_twenty_fields_are_warned_of_for_one_reason(merchant: Merchant):
    lines = [line(unitPrice=5000, quantity=1, unitKey=f"x{n}") for n in range(30)]
    found = await warned(merchant, externalId="many", lineItems=lines, amount=150000, colour="red")
    assert [code for _, code, _ in found] == ["UNKNOWN_FIELD", *["NOT_IN_SAT_CATALOG"] * 20]


@pytest.mark.parametrize(
    ("tax_id", "fits"),
    [("EKU9003173C9", True), ("EKU9003173C8", False), ("XAXX010101000", True), ("xexx010101000", True), ("GODE561231GR9", False)],
)  # fmt: skip
async def test_an_rfc_whose_check_digit_does_not_fit_is_accepted_with_a_warning(
    merchant: Merchant, tax_id: str, fits: bool
):
    found = await warned(merchant, externalId=tax_id, customerFiscalData={"taxId": tax_id})
    assert [(field, code) for field, code, _ in found] == (
        [] if fits else [("customerFiscalData.taxId", "RFC_CHECK_DIGIT")]
    )


async def test_an_account_to_which_no_money_of_a_refund_goes_is_warned_of(merchant: Merchant):
    await merchant.create(paid_order(externalId="card"))
    account = {"clabe": "032180000118359719", "accountHolder": "Ana"}
    refunded = (await merchant.post(f"{ORDERS}/card/refund", {"amount": 100, "destination": account})).json()
    assert refunded["refund"]["destination"] is None
    assert [(each["field"], each["code"]) for each in refunded["warnings"]] == [("destination", "DESTINATION_NOT_USED")]
    transfer = paid_order(externalId="transfer", paymentMethod={"type": "spei"})
    created = (await merchant.create(transfer)).json()
    deposit = {"clabe": created["payment"]["speiDetails"]["clabe"], "amount": created["amount"]}
    assert (await merchant.post("/api/sandbox/deposits", deposit)).status_code == 200
    body = {"amount": 100, "externalId": "back", "destination": account}
    assert "warnings" not in (await merchant.post(f"{ORDERS}/transfer/refund", body)).json()
    again = (
        await merchant.post(f"{ORDERS}/transfer/refund", body | {"destination": account | {"accountHolder": "Eva"}})
    ).json()
    assert [each["code"] for each in again["warnings"]] == ["DESTINATION_NOT_USED"]
