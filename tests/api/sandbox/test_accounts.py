"""The account that a helper of the sandbox acts on: `sandbox`, or a further one of the merchant."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tests.api.bodies import by_card, paid_order
from tests.api.storefront import Merchant, Storefront

from ledger.processors.connected_accounts import ConnectedAccounts

pytestmark = pytest.mark.anyio

HELPERS = "/api/sandbox"


@pytest.fixture
async def backup(merchant: Merchant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives the merchant the account `backup`, which is asked before `sandbox`."""
    connected = await merchant.put("/api/v1/processor-accounts/backup", {"processor": "sandbox"})
    assert connected.status_code == 201, connected.text
    in_order = ConnectedAccounts.of_merchant

    async def newest_first(accounts: ConnectedAccounts, merchant_id: UUID) -> list[Any]:
        return list(reversed(await in_order(accounts, merchant_id)))

    monkeypatch.setattr(ConnectedAccounts, "of_merchant", newest_first)


async def paid(merchant: Merchant, payment: Any, **changes: Any) -> dict[str, Any]:
    answer = await merchant.create(paid_order(paymentMethod=payment, **changes))
    assert answer.status_code == 201, answer.text
    await merchant.post(f"{HELPERS}/clock", {"advanceBy": "PT1S"})  # the reactions note the payment's name
    return dict(answer.json())


@pytest.mark.usefixtures("backup")
async def test_a_payment_shows_its_account_and_the_helpers_act_on_the_account_that_they_name(merchant: Merchant):
    made = await paid(merchant, by_card())
    [payment] = made["payments"]
    assert (payment["processor"], payment["processorAccount"]) == ("sandbox", "backup")
    assert payment["processorReference"].startswith("sbx_")
    for helper, body in (
        ("disputes", {"paymentId": payment["id"], "outcome": "OPENED"}),
        ("settlements", {"paymentIds": [payment["id"]]}),
    ):
        refused = await merchant.post(f"{HELPERS}/{helper}", body)
        assert (refused.status_code, refused.json()["code"]) == (404, "PAYMENT_NOT_FOUND")
        done = await merchant.post(f"{HELPERS}/{helper}", body | {"account": "backup"})
        assert done.status_code == 200, done.text
        if helper == "disputes":
            won = body | {"account": "backup", "outcome": "WON"}
            assert (await merchant.post(f"{HELPERS}/disputes", won)).status_code == 200
        else:
            assert [line["waitsFor"] for line in done.json()["lines"]] == [None, None]


@pytest.mark.usefixtures("backup")
async def test_a_deposit_arrives_at_the_account_that_has_issued_the_reference(merchant: Merchant):
    made = await paid(merchant, {"type": "spei"})
    deposit = {"clabe": made["paymentMethod"]["speiDetails"]["clabe"], "amount": 150_000, "messageId": "spei-1"}
    elsewhere = await merchant.post(f"{HELPERS}/deposits", deposit)
    assert (elsewhere.status_code, elsewhere.json()["waitsFor"] is None) == (202, False)
    arrived = await merchant.post(f"{HELPERS}/deposits", deposit | {"account": "backup"})
    assert arrived.status_code == 200, arrived.text
    assert arrived.json()["paymentOrder"]["status"] == "COMPLETED"


@pytest.mark.usefixtures("backup")
async def test_a_mode_is_set_for_one_account_and_an_unknown_one_is_not_found(merchant: Merchant, store: Storefront):
    down = {"mode": "DOWN", "times": 1, "account": "backup"}
    assert (await merchant.post(f"{HELPERS}/processor", down)).status_code == 200
    refused = await merchant.create(paid_order(externalId="1", paymentMethod=by_card()))
    assert (refused.status_code, refused.json()["code"]) == (503, "PROCESSOR_UNAVAILABLE")
    await paid(merchant, by_card(), externalId="2")
    other = await store.register()
    for sender, name in ((merchant, "nowhere"), (other, "backup")):
        for helper, body in (
            ("processor", {"mode": "OK"}),
            ("deposits", {"clabe": "646180110400000007", "amount": 1}),
            ("disputes", {"paymentId": "01a1f8e3-3e4a-7525-a048-fe0093cb03d7", "outcome": "OPENED"}),
            ("settlements", {}),
        ):
            unknown = await sender.post(f"{HELPERS}/{helper}", body | {"account": name})
            assert (unknown.status_code, unknown.json()["code"]) == (404, "PROCESSOR_ACCOUNT_NOT_FOUND"), helper


async def test_a_payment_that_no_account_takes_has_the_reason_of_each(merchant: Merchant):
    refused = await merchant.create(paid_order(currency="USD", paymentMethod={"type": "spei"}))
    assert refused.status_code == 422, refused.text
    said = refused.json()
    assert (said["code"], said["message"]) == (
        "METHOD_NOT_ENABLED",
        "Payments by spei are not accepted in USD, only in MXN.",
    )
    assert said["accounts"] == [{"account": "sandbox", "reason": "takes spei only in MXN"}]
