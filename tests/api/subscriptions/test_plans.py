"""Plans over HTTP: creation, changes, the list, and the archive."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest
from tests.api.storefront import Merchant, Storefront
from tests.api.subscriptions.billing import PLANS, monthly, planned, shown

from ledger.domain import streams
from ledger.domain.rejections import PlanNotFound
from ledger.operations.context.inputs import Actor
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.operations.plans.use import use_plan

pytestmark = pytest.mark.anyio


async def use(store: Storefront, merchant: Merchant, reference: str) -> None:
    """Uses a plan as a subscription's commit does."""
    uow = UnitOfWork(store.ledger, Actor(merchant_id=merchant.merchant_id))

    async def attempt(_: Any) -> Plan:
        plan = await uow.find(streams.PLANS, reference)
        return Plan(changes=[use_plan(uow, plan, plan.plan_id)])

    await execute(uow, attempt)


async def test_a_new_plan_has_the_defaults_of_the_contract(merchant: Merchant):
    plan = await planned(merchant, externalId="cafe", metadata={"a": 1})
    assert plan == {
        "id": plan["id"], "externalId": "cafe", "name": "Café del mes", "description": None, "amount": "38900",
        "currency": "MXN", "interval": "MONTH", "intervalCount": 1, "trialPeriodDays": 0, "expiryCount": None,
        "maxRetries": 4, "retryDelayHours": 48, "onRetriesExhausted": "UNPAID",
        "productKey": None, "unitKey": None, "taxes": None, "status": "ACTIVE",
        "metadata": {"a": 1}, "createdAt": plan["createdAt"], "updatedAt": plan["createdAt"],
    }  # fmt: skip
    assert await shown(merchant, f"{PLANS}/cafe") == await shown(merchant, f"{PLANS}/{plan['id']}") == plan


@pytest.mark.parametrize(
    ("amount", "answered"), [(19900, "19900"), ("0.5", "0.5"), (150.75, "150.75"), ("1.50", "1.5")]
)
async def test_an_amount_may_be_a_number_or_a_string(merchant: Merchant, amount: Any, answered: str):
    assert (await planned(merchant, amount=amount))["amount"] == answered


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        (
            {"name": None, "amount": None, "currency": None, "interval": None},
            ["name", "amount", "currency", "interval"],
        ),
        ({"amount": "0", "intervalCount": 0, "name": ""}, ["name", "amount", "intervalCount"]),
        ({"amount": -1, "currency": "EUR", "interval": "monthly"}, ["amount", "currency", "interval"]),
        ({"amount": "1e3", "trialPeriodDays": 731}, ["amount", "trialPeriodDays"]),
        ({"amount": True, "maxRetries": 21, "retryDelayHours": 0}, ["amount", "maxRetries", "retryDelayHours"]),
        ({"amount": '"', "expiryCount": 0, "onRetriesExhausted": "?"}, ["amount", "expiryCount", "onRetriesExhausted"]),
        ({"interval": "YEAR", "intervalCount": 4, "metadata": 1}, ["intervalCount", "metadata"]),
        (
            {"productKey": "99999999", "unitKey": "XXXX", "taxes": [{"type": "IVA", "rate": 16}]},
            ["productKey", "unitKey", "taxes[0].rate"],
        ),
        ({"externalId": "a\nb", "description": "x" * 1001}, ["externalId", "description"]),
        ({"description": "4242 4242 4242 4242", "metadata": {"cvc": "123"}}, ["description", "metadata"]),
    ],
)
async def test_every_wrong_field_of_a_plan_is_named(merchant: Merchant, changes: dict[str, Any], fields: list[str]):
    answer = await merchant.post(PLANS, monthly(**changes))
    assert answer.status_code == 400
    assert sorted(each["field"] for each in answer.json()["errors"]) == sorted(fields)
    assert (await shown(merchant, PLANS))["pagination"]["total"] == 0


async def test_a_merchant_without_fractions_has_none_in_its_plans(store: Storefront):
    merchant = await store.register(fractional_amounts=False)
    answer = await merchant.post(PLANS, monthly(amount="389.50"))
    assert answer.json()["errors"][0] == {
        "field": "amount",
        "code": "FRACTION_NOT_ALLOWED",
        "message": "must have no fraction; amounts are in centavos: did you mean 38950?",
    }
    assert answer.json()["message"].endswith("did you mean 38950?"), "a question has no stop behind it"
    lenient = await store.register()
    (warning,) = (await lenient.post(PLANS, monthly(amount="389.50"))).json()["warnings"]
    assert warning["message"] == "amount is in minor units: 389.50 is MXN 3.895; MXN 389.50 is 38950."


async def test_two_creations_with_an_external_id_make_one_plan(merchant: Merchant):
    answers = await asyncio.gather(*[merchant.post(PLANS, monthly(externalId="cafe")) for _ in range(5)])
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409, 409]
    refused = next(answer for answer in answers if answer.status_code == 409).json()
    assert (refused["code"], refused["field"]) == ("DUPLICATE_EXTERNAL_ID", "externalId")
    assert (await shown(merchant, PLANS))["pagination"]["total"] == 1


async def test_a_repeated_creation_under_its_key_gets_the_first_answer(merchant: Merchant):
    first, again = [await merchant.post(PLANS, monthly(), **{"idempotency-key": "k"}) for _ in range(2)]
    assert again.content == first.content
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    other = await merchant.post(PLANS, monthly(amount="1"), **{"idempotency-key": "k"})
    assert other.json()["code"] == "IDEMPOTENCY_KEY_REUSED"


async def test_a_change_keeps_what_it_leaves_out(merchant: Merchant):
    plan = await planned(merchant, description="Un kilo", expiryCount=6, metadata={"a": 1})
    changed = await merchant.put(f"{PLANS}/{plan['id']}", {"amount": "100", "maxRetries": 0, "name": None})
    assert changed.json() == plan | {"amount": "100", "maxRetries": 0, "updatedAt": changed.json()["updatedAt"]}
    cleared = await merchant.put(f"{PLANS}/{plan['id']}", {"description": None, "expiryCount": None, "metadata": None})
    assert [cleared.json()[name] for name in ("description", "expiryCount", "metadata")] == [None, None, None]
    same = await merchant.put(f"{PLANS}/{plan['id']}", {"amount": 100})
    assert same.headers["idempotent-replayed"] == "true"
    for body, field in (({"externalId": "x"}, "externalId"), ({"intervalCount": 37}, "intervalCount")):
        refused = await merchant.put(f"{PLANS}/{plan['id']}", body)
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, field)


async def test_a_used_plan_keeps_what_it_charges(store: Storefront, merchant: Merchant):
    plan = await planned(merchant)
    await use(store, merchant, plan["id"])
    assert await shown(merchant, f"{PLANS}/{plan['id']}") == plan
    refused = await merchant.put(f"{PLANS}/{plan['id']}", {"amount": "1", "name": "Té"})
    assert (refused.status_code, refused.json()["code"], refused.json()["field"]) == (409, "PLAN_IN_USE", "amount")
    allowed = await merchant.put(f"{PLANS}/{plan['id']}", {"amount": "38900", "name": "Té"})
    assert allowed.json()["name"] == "Té"


async def test_an_archived_plan_stays_readable_and_takes_no_subscription(store: Storefront, merchant: Merchant):
    plan = await planned(merchant, externalId="cafe")
    first, again = [await merchant.delete(f"{PLANS}/cafe") for _ in range(2)]
    assert first.json() == again.json() == {"id": plan["id"], "deleted": True}
    assert ("idempotent-replayed" in first.headers, "idempotent-replayed" in again.headers) == (False, True)
    assert (await shown(merchant, f"{PLANS}/cafe"))["status"] == "ARCHIVED"
    with pytest.raises(PlanNotFound):
        await use(store, merchant, "cafe")
    assert (await merchant.post(PLANS, monthly(externalId="cafe"))).json()["code"] == "DUPLICATE_EXTERNAL_ID"


async def test_a_plan_is_used_and_archived_at_once_in_one_order_or_the_other(store: Storefront, merchant: Merchant):
    """The use checks the plan's version: it never follows the archive."""
    for _ in range(5):
        plan = await planned(merchant)
        used, archived = await asyncio.gather(
            use(store, merchant, plan["id"]), merchant.delete(f"{PLANS}/{plan['id']}"), return_exceptions=True
        )
        assert not isinstance(archived, BaseException)
        assert archived.status_code == 200
        assert used is None or isinstance(used, PlanNotFound)
        events = [type(event).__name__ for event in await stream_of(store, merchant, plan["id"])]
        assert events.index("PlanArchived") == len(events) - 1


async def stream_of(store: Storefront, merchant: Merchant, plan_id: str) -> list[Any]:
    uow = UnitOfWork(store.ledger, Actor(merchant_id=merchant.merchant_id))
    plan = await uow.find(streams.PLANS, plan_id)
    return list(await store.ledger.journal.reader.stream(merchant.merchant_id, plan.plan_id))


async def test_the_list_is_filtered_and_paginated(merchant: Merchant):
    ids = [(await planned(merchant, name=f"Plan {n}"))["id"] for n in range(5)][::-1]
    await merchant.delete(f"{PLANS}/{ids[1]}")
    everything = await shown(merchant, PLANS)
    assert [each["id"] for each in everything["data"]] == ids
    assert everything["pagination"] == {
        "page": 1, "limit": 20, "offset": 0, "total": 5, "count": 5, "totalPages": 1, "hasMore": False,
        "nextCursor": None,
    }  # fmt: skip
    second = await shown(merchant, f"{PLANS}?page=2&limit=2")
    assert second["data"] == (await shown(merchant, f"{PLANS}?limit=2&offset=2"))["data"]
    cursor = (await shown(merchant, f"{PLANS}?limit=2"))["pagination"]["nextCursor"]
    await planned(merchant)  # a plan that arrives in between moves no page
    after = await shown(merchant, f"{PLANS}?limit=2&cursor={cursor}")
    assert after["data"] == second["data"]
    assert (after["pagination"]["offset"], after["pagination"]["page"]) == (2, 2)
    for query, found in (("ARCHIVED", 1), ("ACTIVE", 5), ("ACTIVE,ARCHIVED", 6), ("", 6)):
        assert (await shown(merchant, f"{PLANS}?status={query}"))["pagination"]["total"] == found
    wrong = await merchant.get(f"{PLANS}?status=x&limit=0&cursor=x")
    assert [each["field"] for each in wrong.json()["errors"]] == ["status", "limit", "cursor"]


@pytest.mark.parametrize("external_id", ["a/b", "ñ %", "01a2044d-eefe-716d-95ab-36e1f44611dc"])
async def test_a_plan_is_read_by_any_id_of_the_merchants(merchant: Merchant, external_id: str):
    plan = await planned(merchant, externalId=external_id)
    address = f"{PLANS}/{quote(external_id, safe='')}"
    assert await shown(merchant, address) == plan
    assert (await merchant.put(address, {"name": "Té"})).json()["id"] == plan["id"]
    for wrong in ("nothing", "%ff", "x" * 256, "%00"):
        assert (await merchant.get(f"{PLANS}/{wrong}")).json()["code"] == "PLAN_NOT_FOUND"
        assert (await merchant.delete(f"{PLANS}/{wrong}")).json()["code"] == "PLAN_NOT_FOUND"
