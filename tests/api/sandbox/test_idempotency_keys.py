"""Idempotency-Key on the sandbox's helpers (contract N30): one effect, one answer."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from tests.api.bodies import order, paid_order
from tests.api.sandbox.test_deposits import clabe, waiting
from tests.api.sandbox.test_reports import paid
from tests.api.storefront import ORDERS, Merchant

from ledger.operations.pipeline.unit_of_work import UnitOfWork
from ledger.postgres.faults import DatabaseUnavailable

pytestmark = pytest.mark.anyio

KEY = {"Idempotency-Key": "one"}
SANDBOX = "/api/sandbox"


async def help_with(merchant: Merchant, helper: str, body: dict[str, Any], **headers: str) -> httpx.Response:
    return await merchant.post(f"{SANDBOX}/{helper}", body, **headers)


def assert_same(first: httpx.Response, again: httpx.Response) -> None:
    assert (first.status_code, again.status_code) == (200, 200), (first.text, again.text)
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == first.json()


async def test_a_deposit_sent_twice_under_one_key_counts_once(merchant: Merchant):
    said = await waiting(merchant)
    body = {"clabe": clabe(said), "amount": 50_000}
    first = await help_with(merchant, "deposits", body, **KEY)
    between = await help_with(merchant, "deposits", body)
    assert_same(first, await help_with(merchant, "deposits", body, **KEY))
    assert first.json()["paymentOrder"]["amountPaid"] == 50_000
    assert between.json()["paymentOrder"]["amountPaid"] == 100_000
    assert (await merchant.get(f"{ORDERS}/{said['id']}")).json()["amountPaid"] == 100_000
    other = await help_with(merchant, "deposits", body | {"amount": 1}, **KEY)
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")


async def test_deposits_at_once_under_one_key_count_once(merchant: Merchant):
    said = await waiting(merchant)
    body = {"clabe": clabe(said), "amount": 50_000}
    answers = await asyncio.gather(*[help_with(merchant, "deposits", body, **KEY) for _ in range(4)])
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert 200 in {answer.status_code for answer in answers}
    assert (await merchant.get(f"{ORDERS}/{said['id']}")).json()["amountPaid"] == 50_000


async def test_a_deposit_whose_answer_was_not_recorded_counts_once(merchant: Merchant, monkeypatch: pytest.MonkeyPatch):
    said = await waiting(merchant)
    body = {"clabe": clabe(said), "amount": 50_000}

    async def dies(*_: object) -> None:
        raise DatabaseUnavailable("the process is gone")

    with monkeypatch.context() as patch:
        patch.setattr(UnitOfWork, "record_result", dies)
        lost = await help_with(merchant, "deposits", body, **KEY)
        assert lost.status_code == 503
    again = await help_with(merchant, "deposits", body, **KEY)
    assert (again.status_code, again.json()["paymentOrder"]["amountPaid"]) == (200, 50_000)


async def test_every_other_helper_acts_once_under_one_key(merchant: Merchant):
    said = await paid(merchant)
    payment_id = said["payment"]["id"]
    for key, (helper, body) in enumerate(
        (
            ("settlements", {"paymentIds": [payment_id], "stage": "LISTED"}),
            ("disputes", {"paymentId": payment_id, "outcome": "OPENED", "amount": 1000}),
            ("disputes", {"paymentId": payment_id, "outcome": "LOST"}),
            ("clock", {"advanceBy": "PT1H"}),
            ("processor", {"mode": "DOWN", "times": 1}),
        )
    ):
        first = await help_with(merchant, helper, body, **{"Idempotency-Key": f"helper-{key}"})
        assert_same(first, await help_with(merchant, helper, body, **{"Idempotency-Key": f"helper-{key}"}))
    down = await merchant.create(paid_order(externalId="down"))
    assert down.status_code == 503, "the mode holds for one call"
    assert (await merchant.create(paid_order(externalId="up"))).status_code == 201
    order_now = (await merchant.get(f"{ORDERS}/{said['id']}")).json()
    assert order_now["amountRefunded"] == 1000


async def test_a_refused_helper_leaves_its_key_free(merchant: Merchant):
    said = (await merchant.create(order())).json()
    assert said["status"] == "PENDING"
    missing = {"paymentId": said["id"], "outcome": "OPENED"}
    for _ in range(2):
        assert (await help_with(merchant, "disputes", missing, **KEY)).status_code == 404
    moved = await help_with(merchant, "clock", {"advanceBy": "PT1H"}, **KEY)
    assert moved.status_code == 200
