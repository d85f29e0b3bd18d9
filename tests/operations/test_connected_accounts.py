"""The accounts that a merchant has connected, as payments use them: their order, their keys, and what is left out."""

from __future__ import annotations

from copy import copy
from decimal import Decimal
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.operations.conftest import Open, an_order, by_card, register
from tests.operations.test_action_recovery import order_named
from tests.processors.acme import FOREIGN, GOOD, OTHER, Acme

from ledger.domain.rejections import MethodNotEnabled
from ledger.operations.context.inputs import Actor, RefundInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.operations.orders.refund import refund_order
from ledger.operations.processor_accounts.connect import ConnectInput, connect_account
from ledger.operations.processor_accounts.disconnect import disconnect_account
from ledger.processors.connected_accounts import ConnectedAccounts
from ledger.processors.contract import ProcessorUnavailable
from ledger.processors.registry import AccountKeys
from ledger.ttl_cache import TtlCache

pytestmark = pytest.mark.anyio


@pytest.fixture
async def actor(ledger: Ledger) -> Actor:
    """A merchant of an installation that has a real processor, which the sandbox stands in for."""
    assert ledger.accounts is not None
    accounts: Any = ledger.processors
    ledger.accounts = accounts._accounts = copy(ledger.accounts)
    ledger.accounts.kinds = {**ledger.accounts.kinds, "acme": Acme()}
    accounts.opened = []

    def open_acme(account: Any, keys: AccountKeys) -> Any:
        accounts.opened.append((account.name, keys.secret_key))
        return accounts.simulated._open_processor(book_id=account.account_id)

    accounts._adapters = {"acme": open_acme}
    return await register(ledger)


async def connected(ledger: Ledger, actor: Actor, name: str, processor: str, key: str | None = None) -> None:
    request = ConnectInput(processor=processor, keys=AccountKeys(secret_key=key))
    await connect_account(ledger, actor, name, request)


async def test_accounts_come_in_the_order_of_connection_each_with_its_own_keys(ledger: Ledger, actor: Actor) -> None:
    accounts: Any = ledger.processors
    await connected(ledger, actor, "acme-mx", "acme", GOOD)
    await connected(ledger, actor, "backup", "sandbox")
    found = await accounts.of_merchant(actor.merchant_id)
    assert [each.name for each in found] == ["sandbox", "acme-mx", "backup"]
    assert (await accounts.named(actor.merchant_id, "acme-mx")).processor is found[1].processor
    assert accounts.opened == [("acme-mx", GOOD)], "opened once"
    executor, accounts.simulated._executor = accounts.simulated._executor, None
    assert len(await accounts.of_merchant(actor.merchant_id)) == 3, "no statement for an account that is open"
    accounts.simulated._executor = executor
    await connected(ledger, actor, "acme-mx", "acme", OTHER)
    changed = await accounts.named(actor.merchant_id, "acme-mx")
    assert changed.processor is not found[1].processor
    assert accounts.opened == [("acme-mx", GOOD), ("acme-mx", OTHER)]
    every = [
        (each.name, each.merchant_id)
        async for each in accounts.every()
        if each.merchant_id in {None, actor.merchant_id}
    ]
    assert every == [("sandbox", None), ("acme-mx", actor.merchant_id), ("backup", actor.merchant_id)]


async def test_an_account_has_the_other_names_of_the_same_account_of_the_company(ledger: Ledger, actor: Actor) -> None:
    accounts: Any = ledger.processors
    for name, key in (("first", GOOD), ("again", OTHER), ("another", FOREIGN)):
        await connected(ledger, actor, name, "acme", key)
    await connected(ledger, actor, "backup", "sandbox")
    found = {each.name: each.names for each in await accounts.of_merchant(actor.merchant_id)}
    assert found == {
        "sandbox": ("sandbox",),
        "first": ("first", "again"),
        "again": ("again", "first"),
        "another": ("another",),
        "backup": ("backup",),
    }


async def test_another_process_finds_an_account_that_was_connected_after_it_had_read(
    ledger: Ledger, actor: Actor, open_another: Open
) -> None:
    other = await open_another()
    assert await other.processors.named(actor.merchant_id, "backup") is None
    await connected(ledger, actor, "backup", "sandbox")
    found = await other.processors.named(actor.merchant_id, "backup")
    assert found is not None, "a payment at an account can be captured by every process at once"
    assert found.merchant_id == actor.merchant_id


async def test_a_disconnected_account_takes_no_new_payment(ledger: Ledger, actor: Actor) -> None:
    await connected(ledger, actor, "backup", "sandbox")
    await disconnect_account(ledger, actor, "sandbox")
    assert (await create_order(ledger, actor, an_order("1", by_card()))).order.payments[0].account == "backup"
    await disconnect_account(ledger, actor, "backup")
    with pytest.raises(MethodNotEnabled) as raised:
        await create_order(ledger, actor, an_order("2", by_card()))
    assert [each["reason"] for each in raised.value.facts["accounts"]] == ["is disconnected"] * 2


async def test_an_account_that_cannot_be_opened_leaves_the_others(ledger: Ledger, actor: Actor) -> None:
    accounts: Any = ledger.processors
    await connected(ledger, actor, "acme-mx", "acme", GOOD)
    adapters, accounts._adapters = accounts._adapters, {}

    async def only_acme(merchant_id: Any) -> Any:
        return [await accounts.named(merchant_id, "acme-mx")]

    with capture_logs() as logs:
        found = await accounts.of_merchant(actor.merchant_id)
        assert await accounts.named(actor.merchant_id, "acme-mx") is None
    assert [each.name for each in found] == ["sandbox"]
    assert {line["event"] for line in logs} == {"processor_account_not_opened"}
    assert GOOD not in str(logs)
    accounts._adapters = adapters
    accounts.of_merchant = only_acme
    await create_order(ledger, actor, an_order("acme", by_card()))
    accounts._adapters, accounts._opened = {}, TtlCache(1, 1.0)
    with pytest.raises(ProcessorUnavailable):
        await refund_order(ledger, actor, "acme", RefundInput(amount=Decimal(1)))
    assert (await order_named(ledger, actor, "acme")).refunds == ()
    del accounts.of_merchant
    assert (await create_order(ledger, actor, an_order("1", by_card()))).order.payments[0].account == "sandbox"


async def test_production_without_an_account_takes_no_payment(ledger: Ledger, actor: Actor) -> None:
    production: Any = copy(ledger)
    production.processors = ConnectedAccounts(ledger.accounts, None, {}, lambda: None)  # type: ignore[arg-type, return-value]
    assert production.has_database
    with pytest.raises(MethodNotEnabled, match="No card processor is connected"):
        await create_order(production, actor, an_order("1", by_card()))
