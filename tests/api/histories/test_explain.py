"""Why a field of an order is what it is, over HTTP: the terms give the value, and the moves lead to it."""

from __future__ import annotations

from datetime import UTC
from decimal import Decimal
from typing import Any

import pytest
from tests.api.as_of.test_past_reads import now_of
from tests.api.bodies import DECLINED, by_card, card, charge, order, paid_order
from tests.api.storefront import ORDERS, Merchant, Storefront
from tests.api.subscriptions.billing import made, shown

from projections.formats import moment
from projections.histories.explanations import EXPLAINED

pytestmark = pytest.mark.anyio


def number(value: Any) -> Decimal:
    return Decimal(str(value or 0))


def by_formula(field: str, terms: list[dict[str, Any]]) -> Decimal | None:
    """Returns the value that the terms give, None for a status."""
    values = [number(term["value"]) for term in terms] if field != "status" else []
    match field:
        case "status":
            return None
        case "amountPending":
            amount, paid, refunded = values
            return max(Decimal(0), amount - (paid - refunded))
        case _:
            return sum(values, Decimal(0))


async def assert_explained(merchant: Merchant, one: str) -> None:
    """Asks about every field at every version."""
    versions = (await shown(merchant, f"{one}/events"))["pagination"]["total"]
    for version in range(1, versions + 1):
        then = await shown(merchant, f"{one}?version={version}")
        for field in EXPLAINED:
            found = await shown(merchant, f"{one}/explain?field={field}&version={version}")
            assert found["value"] == then[field], (field, version)
            assert (found["field"], found["version"], found["position"]) == (field, version, then["position"])
            expected = by_formula(field, found["terms"])
            if expected is not None and found["value"] is not None:
                assert expected == number(found["value"]), (field, version, found)
            moves = found["moves"]
            assert [move["from"] for move in moves] == [None, *(move["to"] for move in moves[:-1])]
            assert moves[-1]["to"] == found["value"]
            assert all(move["version"] <= version for move in moves)
        if version == versions:
            assert found["formula"]


async def test_every_field_at_every_version_is_given_by_its_terms(merchant: Merchant):
    split = await made(merchant, ORDERS, order(allowPartials=True))
    one = f"{ORDERS}/{split['id']}"
    declined = charge(amount=50_000, paymentMethod=by_card(cardDetails=card(number=DECLINED)))
    assert (await merchant.post(f"{one}/payments", declined)).status_code == 422
    await made(merchant, f"{one}/payments", charge(amount=50_000))
    await made(merchant, f"{one}/payments", charge(amount=70_000))
    await made(merchant, f"{one}/refund", {"amount": 60_000})
    await assert_explained(merchant, one)
    whole = await shown(merchant, f"{one}/explain?field=amountRefunded")
    assert [term["name"] for term in whole["terms"]] == [f"payments[{n}].refundedAmount" for n in range(3)]
    assert [move["sentence"] for move in whole["moves"][1:]] == ["Card payment refunded by 600.00 MXN"]


@pytest.mark.parametrize("is_split", [False, True])
async def test_a_surcharge_is_the_sum_of_its_parts(store: Storefront, is_split: bool):
    merchant = await store.register(surcharge_rate=Decimal("3.5"))
    if is_split:
        one = f"{ORDERS}/{(await made(merchant, ORDERS, order(allowPartials=True)))['id']}"
        await made(merchant, f"{one}/payments", charge(amount=50_000))
        await made(merchant, f"{one}/payments", charge(amount=33_333))
    else:
        one = f"{ORDERS}/{(await made(merchant, ORDERS, paid_order()))['id']}"
    await made(merchant, f"{one}/refund", {"amount": 10_001})
    assert (await shown(merchant, one))["surchargeAmount"] > 0
    await assert_explained(merchant, one)


async def test_an_explanation_is_of_a_time_and_has_a_page(merchant: Merchant):
    one = f"{ORDERS}/{(await made(merchant, ORDERS, paid_order()))['id']}"
    before = (await now_of(merchant)).astimezone(UTC)
    await made(merchant, f"{one}/refund", {"amount": 5000})
    asked = {"field": "amountPending", "asOf": moment(before)}
    then = (await merchant.client.get(f"{one}/explain", params=asked, headers=merchant.key)).json()
    assert (then["value"], (await shown(merchant, f"{one}/explain?field=amountPending"))["value"]) == (0, 5000)
    in_small_letters = await shown(merchant, f"{one}/explain?field=amountpending")
    assert (in_small_letters["field"], in_small_letters["value"]) == ("amountPending", 5000)
    for field in EXPLAINED:
        answer = await merchant.get(f"{one}/explain?field={field}", accept="text/html")
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "<script" not in answer.text
    page = (await merchant.get(f"{one}/explain?field=amountRefunded", accept="text/html")).text
    assert '<p class="value">50.00</p>' in page
    assert "Card payment refunded by 50.00 MXN" in page
    page = (await merchant.get(f"{one}/explain?field=amountPaid&version=5", accept="text/html")).text
    assert '<p class="note">After event No. 5. As of ' in page


async def test_what_is_asked_for_is_checked(store: Storefront, merchant: Merchant):
    one = f"{ORDERS}/{(await made(merchant, ORDERS, paid_order()))['id']}/explain"
    for query, field in (("", "field"), ("field=customer", "field"), ("field=status&version=0", "version"),
                         ("field=status&asOf=x", "asOf"), ("field=status&fields=1", "fields")):  # fmt: skip
        answer = await merchant.get(f"{one}?{query}")
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)
    both = await merchant.get(f"{one}?field=status&version=1&asOf=2020-01-01T00:00:00Z")
    assert both.json()["code"] == "CONFLICTING_FIELDS"
    for query, code in (("version=99", "VERSION_NOT_FOUND"), ("asOf=2020-01-01T00:00:00Z", "ORDER_NOT_FOUND")):
        assert (await merchant.get(f"{one}?field=status&{query}")).json()["code"] == code
    stranger = await store.register()
    assert (await stranger.get(f"{one}?field=status")).json()["code"] == "ORDER_NOT_FOUND"
    reader = await store.another_key(merchant, scopes=("orders:read",))
    assert (await reader.get(f"{one}?field=status")).json()["code"] == "INSUFFICIENT_SCOPE"
