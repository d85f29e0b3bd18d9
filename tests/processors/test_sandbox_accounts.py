"""The further simulated accounts of a merchant: each has records, references and messages of its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from msgspec.structs import replace
from tests.processors.shop import NOW, Shop, question

from ledger.domain.orders.processor_outcomes import Approved
from ledger.processors.accounts import ProcessorAccount
from ledger.processors.contract import ProcessorRecord, ProcessorUnavailable
from ledger.processors.messages import DepositReceived
from ledger.processors.sandbox.accounts import SandboxAccounts
from ledger.processors.sandbox.call_executor import CallExecutor
from ledger.processors.sandbox.charge_rows import Mode
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.processors.sandbox.references import Deposit

pytestmark = pytest.mark.anyio


@pytest.fixture
def accounts(executor: CallExecutor) -> SandboxAccounts:
    return SandboxAccounts(executor, partial(SandboxProcessor, executor))


@pytest.fixture
def shop(accounts: SandboxAccounts) -> Shop:
    return Shop(accounts.sandbox)


async def backup_of(accounts: SandboxAccounts, shop: Shop, name: str = "backup") -> SandboxProcessor:
    account = await accounts.open(shop.merchant_id, name)
    assert isinstance(account.processor, SandboxProcessor)
    return account.processor


async def listed(account: ProcessorAccount) -> list[ProcessorRecord]:
    hour = timedelta(hours=1)
    now = datetime.now(UTC)
    return [record async for record in account.processor.records(now - hour, now + hour)]


async def test_a_merchant_has_sandbox_and_what_it_opened_and_no_account_of_another(
    accounts: SandboxAccounts, shop: Shop, executor: CallExecutor
) -> None:
    backup = await backup_of(accounts, shop)
    assert [each.name for each in await accounts.of_merchant(shop.merchant_id)] == ["sandbox", "backup"]
    assert await backup_of(accounts, shop) is backup
    elsewhere = SandboxAccounts(executor, partial(SandboxProcessor, executor))
    found = await elsewhere.named(shop.merchant_id, "backup")
    assert found is not None
    assert found.merchant_id == shop.merchant_id
    other = Shop(accounts.sandbox)
    assert await accounts.named(other.merchant_id, "backup") is None
    assert [each.name for each in await accounts.of_merchant(other.merchant_id)] == ["sandbox"]


async def test_what_one_account_carries_out_no_other_one_has(accounts: SandboxAccounts, shop: Shop) -> None:
    backup = await backup_of(accounts, shop)
    paid = shop.authorization("4242424242424242", capture=True)
    answer = await backup.authorize(paid)
    assert isinstance(answer, Approved)
    asked = question(shop.merchant_id, paid.idempotency_key)
    assert await backup.look_up(asked) == answer
    assert await shop.sandbox.look_up(asked) is None
    refused = await shop.sandbox.refund(shop.refund(answer.processor_reference))
    assert type(refused).__name__ == "RefundRefused"
    assert await shop.sandbox.look_up(replace(asked, fence=True)) is None, "a fence in one book"
    assert await backup.look_up(asked) == answer
    await backup.refund(shop.refund(answer.processor_reference, 4_000))
    every = [account async for account in accounts.every()]
    assert [(each.name, each.merchant_id) for each in every] == [("sandbox", None), ("backup", shop.merchant_id)]
    assert await listed(every[0]) == []
    assert [(record.merchant_id, record.captured, record.refunded) for record in await listed(every[1])] == [
        (shop.merchant_id, 10_000, 0),
        (shop.merchant_id, 0, 4_000),
    ]


async def test_a_mode_is_that_of_one_account(accounts: SandboxAccounts, shop: Shop) -> None:
    backup = await backup_of(accounts, shop)
    await backup.set_mode(shop.merchant_id, Mode.DOWN)
    with pytest.raises(ProcessorUnavailable):
        await backup.authorize(shop.authorization("4242424242424242"))
    assert isinstance(await shop.sandbox.authorize(shop.authorization("4242424242424242")), Approved)


async def test_a_message_names_its_account_and_its_id_is_that_of_one_account(
    accounts: SandboxAccounts, shop: Shop
) -> None:
    backup = await backup_of(accounts, shop)
    issued = await backup.issue_reference(shop.reference())
    here = await shop.issued()
    assert await shop.sandbox.order_of(shop.merchant_id, issued.reference) is None  # type: ignore[union-attr]
    assert await backup.order_of(shop.merchant_id, here.reference) is None
    sent = Deposit(
        merchant_id=shop.merchant_id,
        message_id="spei-1",
        sent_to=here.reference,
        amount=shop.reference().amount,
        at=NOW,
    )
    first = await shop.sandbox.deposit(sent)
    second = await backup.deposit(replace(sent, sent_to=issued.reference))  # type: ignore[union-attr]
    assert (first.account, first.account_name) == (None, "sandbox")
    assert (second.account, second.account_name, second.merchant_id) == ("backup", "backup", shop.merchant_id)
    assert await backup.deposit(replace(sent, sent_to=issued.reference)) == second  # type: ignore[union-attr]
    assert {type(each) for each in await shop.due_messages()} == {DepositReceived}
    assert await shop.due_messages() == [first, second] or await shop.due_messages() == [second, first]
    assert await shop.sandbox.outbox.merchants_waiting() == [shop.merchant_id]
    assert await shop.sandbox.outbox.next_due_at(shop.merchant_id) == NOW
    await shop.sandbox.outbox.delivered(second)
    assert await shop.due_messages() == [first]


async def test_a_page_for_the_payer_shows_the_merchant_of_the_account(accounts: SandboxAccounts, shop: Shop) -> None:
    backup = await backup_of(accounts, shop)
    required = await backup.authorize(shop.authorization("4000000000003220", authenticate=True))
    transaction_id = required.authentication_transaction_id  # type: ignore[union-attr]
    session = await shop.sandbox.pages.conclude(transaction_id, accepted=True)
    assert session is not None
    assert session.merchant_id == shop.merchant_id
    assert isinstance(await backup.validate_authentication(shop.continuation(transaction_id)), Approved)
