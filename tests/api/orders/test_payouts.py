"""Refunds of transfers and of cash over HTTP: where they go, and those that the merchant pays out itself."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from tests.api.bodies import ABSENT, order, paid_order
from tests.api.storefront import ORDERS, Merchant

from ledger.domain.orders.capabilities import AccountRules
from ledger.domain.orders.commands import RefundOrder
from ledger.operations.orders import refund

pytestmark = pytest.mark.anyio

CLABE, OTHER = "032180000118359719", "646180110400000007"
MASKED = "**************9719"
DEPOSITS, CLOCK = "/api/sandbox/deposits", "/api/sandbox/clock"


async def transferred(merchant: Merchant, **sent: Any) -> dict[str, Any]:
    found = (await merchant.create(order(pending=ABSENT, paymentMethod={"type": "spei"}))).json()
    to = {"clabe": found["payments"][0]["speiDetails"]["clabe"], "amount": 150_000}
    paid = await merchant.post(DEPOSITS, to | sent)
    assert paid.status_code == 200, paid.text
    return dict(found)


async def refunded(merchant: Merchant, found: dict[str, Any], **body: Any) -> dict[str, Any]:
    answer = await merchant.post(f"{ORDERS}/{found['id']}/refund", {"amount": 1000, "externalId": "dev-1"} | body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["refund"])


def _by_hand(**given: Any) -> RefundOrder:
    return RefundOrder(**(given | {"rules": {"sandbox": AccountRules(simulates_payouts=False)}}))


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the sandbox be a processor that pays nothing out without an account."""
    monkeypatch.setattr(refund, "RefundOrder", _by_hand)


async def test_a_refund_shows_where_its_money_goes(merchant: Merchant, database_url: str):
    found = await transferred(merchant, senderClabe=CLABE, messageId="dep-1")
    back = await refunded(merchant, found)
    to = {"type": "PAYING_ACCOUNT", "clabe": MASKED, "accountHolder": None}
    assert (back["status"], back["destination"], back["allocations"][0]["destination"]) == ("PENDING", to, to)
    await merchant.post(CLOCK, {"advanceBy": "PT5S"})
    read = (await merchant.get(f"{ORDERS}/{found['id']}/refunds/dev-1")).json()
    assert (read["status"], read["destination"], read["paidAt"]) == ("SUCCEEDED", to, None)
    for name, holder in (("dev-2", {"accountHolder": "Ana"}), ("dev-3", {})):
        named = await refunded(merchant, found, externalId=name, destination={"clabe": CLABE} | holder)
        assert named["destination"] == {"type": "ACCOUNT", "clabe": MASKED, "accountHolder": None} | holder
        await merchant.post(CLOCK, {"advanceBy": "PT5S"})
    card = (await merchant.create(paid_order(externalId="card"))).json()
    assert (await refunded(merchant, card))["destination"] is None
    with psycopg.connect(database_url) as connection:
        events = connection.execute(
            "select count(*) from event where convert_from(data, 'utf8') like %s", (f"%{CLABE}%",)
        )
        assert events.fetchone() == (0,), "it is sealed"
        kept = connection.execute("select count(*) from processor_message where body like %s", (f"%{CLABE}%",))
        assert kept.fetchone() == (0,), "an applied message does not keep it"


async def test_the_sandbox_confirms_a_payout_by_hand_at_its_next_tick(merchant: Merchant):
    found = await transferred(merchant)
    back = await refunded(merchant, found)
    assert (back["status"], back["destination"]["type"]) == ("PENDING", "MANUAL")
    changed = await merchant.put(f"{ORDERS}/{found['id']}/refunds/dev-1/destination", {"clabe": CLABE})
    assert (changed.status_code, changed.json()["refund"]["destination"]["clabe"]) == (200, MASKED)
    await merchant.post(CLOCK, {"advanceBy": "PT5S"})
    assert (await merchant.get(f"{ORDERS}/{found['id']}/refunds/dev-1")).json()["status"] == "SUCCEEDED"


@pytest.mark.usefixtures("by_hand")
async def test_a_refund_by_hand_waits_for_its_confirmation(merchant: Merchant):
    found = await transferred(merchant)
    assert (await refunded(merchant, found))["destination"] == {"type": "MANUAL", "clabe": None, "accountHolder": None}
    await merchant.post(CLOCK, {"advanceBy": "PT5S"})
    one = f"{ORDERS}/{found['id']}/refunds/dev-1"
    assert (await merchant.get(one)).json()["status"] == "PENDING"
    assert (await merchant.get(f"{ORDERS}/{found['id']}")).json()["status"] == "REFUND_PROCESSING"
    for at in ("2099-01-01T00:00:00Z", "2001-01-01T00:00:00Z"):
        wrong = await merchant.post(f"{one}/confirm", {"paidAt": at})
        assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (400, "paidAt")
    body = {"paidAt": found["createdAt"], "reference": "MBAN01"}
    first = await merchant.post(f"{one}/confirm", body, **{"Idempotency-Key": "c"})
    again = await merchant.post(f"{one}/confirm", body, **{"Idempotency-Key": "c"})
    assert (first.status_code, again.status_code, again.headers["idempotent-replayed"]) == (200, 200, "true")
    done = first.json()
    assert (done["status"], done["amountRefunded"]) == ("PARTIALLY_REFUNDED", 1000)
    assert done["refund"] == again.json()["refund"] == (await merchant.get(one)).json()
    assert (done["refund"]["status"], done["refund"]["payoutReference"]) == ("SUCCEEDED", "MBAN01")
    assert done["refund"]["paidAt"] == found["createdAt"]
    kept = await merchant.put(f"{one}/destination", {"clabe": CLABE})
    assert (kept.status_code, kept.json()["code"]) == (409, "INVALID_ORDER_STATE")
    unknown = await merchant.post(f"{ORDERS}/{found['id']}/refunds/other/confirm", {})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "REFUND_NOT_FOUND")


@pytest.mark.usefixtures("by_hand")
async def test_an_account_that_is_named_later_is_paid_by_the_processor(merchant: Merchant):
    found = await transferred(merchant)
    await refunded(merchant, found)
    one = f"{ORDERS}/{found['id']}/refunds/dev-1"
    asked: tuple[tuple[Any, str], ...] = (
        ({}, "REQUIRED"),
        ({"destination": {"clabe": CLABE}}, "REQUIRED"),
        ({"clabe": CLABE[:-1] + "0"}, "INVALID_CLABE"),
    )
    for body, code in asked:
        wrong = await merchant.put(f"{one}/destination", body)
        assert (wrong.status_code, wrong.json()["errors"][0]["code"]) == (400, code)
        assert "18 digits" in wrong.json()["message"]
    changed = await merchant.put(f"{one}/destination", {"clabe": CLABE, "accountHolder": "Ana"})
    assert changed.json()["refund"]["destination"] == {"type": "ACCOUNT", "clabe": MASKED, "accountHolder": "Ana"}
    by_hand = await merchant.post(f"{one}/confirm", {})
    assert (by_hand.status_code, by_hand.json()["code"]) == (409, "INVALID_ORDER_STATE")
    await merchant.post(CLOCK, {"advanceBy": "PT5S"})
    assert (await merchant.get(one)).json()["status"] == "SUCCEEDED"


async def test_the_account_of_a_deposit_is_a_clabe(merchant: Merchant):
    found = (await merchant.create(order(pending=ABSENT, paymentMethod={"type": "spei"}))).json()
    to = {"clabe": found["payments"][0]["speiDetails"]["clabe"], "amount": 150_000}
    wrong = await merchant.post(DEPOSITS, to | {"senderClabe": OTHER[:-1] + "0"})
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (400, "senderClabe")
