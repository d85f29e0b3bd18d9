"""Accounts with processors on a database: their keys before their events, replaced, sealed anew, in two processes."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from msgspec.structs import replace
from tests.operations.conftest import register
from tests.processors.acme import FOREIGN, GOOD, OTHER, SIGNING, Acme
from tests.sealing import MASTER_KEY

from ledger.domain.processor_accounts.state import ProcessorAccount, account_id
from ledger.domain.rejections import (
    ConcurrentUpdate,
    InvalidField,
    ProcessorAccountExists,
    ProcessorAccountKeysErased,
)
from ledger.domain.streams import PROCESSOR_ACCOUNTS
from ledger.journal.append import KeyUnavailable, SealBroken
from ledger.journal.encryption.rewrapping import rewrap
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.operations.context.clock import Clock
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.accounts import rules_of
from ledger.operations.processor_accounts.check import check_account
from ledger.operations.processor_accounts.connect import ConnectInput, connect_account
from ledger.operations.processor_accounts.disconnect import disconnect_account
from ledger.operations.processor_accounts.erase_keys import erase_expired_keys
from ledger.operations.processor_accounts.words import without_secrets
from ledger.postgres.connection import connect
from ledger.processors.account_keys import PROCESSOR_KEYS, AccountKeyStore
from ledger.processors.accounts import ProcessorAccount as Opened
from ledger.processors.registry import AccountKeys
from ledger.security.secrets import Purpose, load_sealing_keys
from ledger.settings import Settings
from ledger.wiring import processor_kinds
from projections.processor_accounts import disconnected_accounts

pytestmark = pytest.mark.anyio

KEYS = AccountKeys(secret_key=GOOD, webhook_secrets=(SIGNING,))
REQUEST = ConnectInput(processor="acme", keys=KEYS)
REPLACED = replace(REQUEST, keys=replace(KEYS, secret_key=OTHER))
NAME = "acme-mx"


class Fixed(Clock):
    """A clock that stands still."""

    def __init__(self, at: datetime) -> None:
        self._at = at

    def now(self, merchant_id: UUID) -> datetime:  # noqa: ARG002 - the same for all
        return self._at


@pytest.fixture
async def actor(ledger: Ledger) -> Actor:
    assert ledger.accounts is not None
    ledger.accounts.kinds = {"acme": Acme()}
    return await register(ledger)


async def keys_in(ledger: Ledger, actor: Actor, account: ProcessorAccount) -> AccountKeys | None:
    assert ledger.accounts is not None
    assert account.terms.secret_id is not None
    return await ledger.accounts.keys.open(actor.merchant_id, account.terms.secret_id)


def rows_of(url: str, actor: Actor) -> list[UUID]:
    with psycopg.connect(url) as connection:
        statement = "select secret_id from processor_account_key where merchant_id = %s"
        return [secret_id for (secret_id,) in connection.execute(statement, [actor.merchant_id]).fetchall()]


async def test_the_same_keys_are_kept_and_others_replace_them(ledger: Ledger, actor: Actor, database_url: str):
    first = await connect_account(ledger, actor, NAME, REQUEST)
    again = await connect_account(ledger, actor, NAME, REQUEST)
    assert (first.is_new, again.is_new, again.account) == (True, False, first.account)
    assert rows_of(database_url, actor) == [first.account.terms.secret_id]
    other = (await connect_account(ledger, actor, NAME, REPLACED)).account
    assert rows_of(database_url, actor) == [other.terms.secret_id]
    assert await keys_in(ledger, actor, other) == REPLACED.keys
    assert await keys_in(ledger, actor, first.account) is None, "no process opens keys that were replaced"
    events = await ledger.journal.reader.stream(actor.merchant_id, other.account_id)
    assert [type(event).__name__ for event in events] == ["ProcessorAccountConnected", "ProcessorAccountChanged"]


async def test_a_key_of_another_account_at_the_processor_is_refused_and_not_kept(
    ledger: Ledger, actor: Actor, database_url: str
):
    account = (await connect_account(ledger, actor, NAME, REQUEST)).account
    assert account.terms.reference == "acct_one"
    foreign = replace(REQUEST, keys=replace(KEYS, secret_key=FOREIGN))
    with pytest.raises(
        ProcessorAccountExists, match=r"account acct_two at the processor, and .* is acct_one"
    ) as refused:
        await connect_account(ledger, actor, NAME, foreign)
    assert refused.value.facts == {"field": "secretKey"}
    assert rows_of(database_url, actor) == [account.terms.secret_id]
    await connect_account(ledger, actor, "another", foreign)


async def test_requests_at_once_leave_the_account_with_keys_that_are_stored(
    ledger: Ledger, actor: Actor, database_url: str
):
    requests = [REQUEST, REPLACED] * 4
    results = await asyncio.gather(
        *[connect_account(ledger, actor, NAME, request) for request in requests], return_exceptions=True
    )
    assert not [each for each in results if isinstance(each, BaseException) and not isinstance(each, ConcurrentUpdate)]
    assert sum(not isinstance(each, BaseException) and each.is_new for each in results) == 1
    account, _ = await ledger.journal.load(actor.merchant_id, PROCESSOR_ACCOUNTS, account_id(actor.merchant_id, NAME))
    assert account is not None
    assert account.terms.secret_id in rows_of(database_url, actor)
    assert await keys_in(ledger, actor, account) in (KEYS, REPLACED.keys)


async def test_a_commit_that_fails_leaves_keys_that_a_later_change_destroys(
    ledger: Ledger, actor: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    async def fail(*_: Any, **__: Any) -> None:
        raise ConcurrentUpdate("the process ends here")

    with monkeypatch.context() as patch:
        patch.setattr("ledger.operations.processor_accounts.connect.execute", _after_the_attempt(fail))
        with pytest.raises(ConcurrentUpdate):
            await connect_account(ledger, actor, NAME, REQUEST)
    [left] = rows_of(database_url, actor)
    account = (await connect_account(ledger, actor, NAME, REQUEST)).account
    assert set(rows_of(database_url, actor)) == {left, account.terms.secret_id}, "another request may still commit it"
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update processor_account_key set kept_at = kept_at - interval '25 hours'")
    account = (await connect_account(ledger, actor, NAME, REPLACED)).account
    assert rows_of(database_url, actor) == [account.terms.secret_id]


def _after_the_attempt(fail: Any) -> Any:
    async def execute(_: Any, attempt: Any) -> None:
        await attempt(None)
        await fail()

    return execute


async def test_keys_are_sealed_for_their_row_and_put_under_a_new_sealing_key(
    ledger: Ledger, actor: Actor, database_url: str
):
    account = (await connect_account(ledger, actor, NAME, REQUEST)).account
    secret_id = account.terms.secret_id
    assert secret_id is not None
    assert (await check_account(ledger, actor, NAME)).reachable
    [own] = load_sealing_keys(Settings(master_key=MASTER_KEY), Purpose.PROCESSOR_KEY_WRAPPING)
    new = b"n" * 32
    stores = [AccountKeyStore(database_url, SealingKeys(keys)) for keys in ((new,), (own,))]
    with pytest.raises(KeyUnavailable):
        await stores[0].open(actor.merchant_id, secret_id)
    async with await connect(database_url, "test") as connection:
        assert await rewrap(connection, SealingKeys((new, own)), PROCESSOR_KEYS) >= 1
    assert await stores[0].open(actor.merchant_id, secret_id) == KEYS
    with pytest.raises(KeyUnavailable):
        await stores[1].open(actor.merchant_id, secret_id)
    assert (await check_account(ledger, actor, NAME)).reachable, "this process has opened them before"
    other = uuid4()
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update processor_account_key set merchant_id = %s where secret_id = %s", [other, secret_id])
    with pytest.raises(SealBroken):
        await AccountKeyStore(database_url, SealingKeys((new,))).open(other, secret_id)
    for store in stores:
        await store.stop()


async def test_keys_that_do_not_open_are_a_problem_and_can_be_replaced(ledger: Ledger, actor: Actor, database_url: str):
    await connect_account(ledger, actor, NAME, REQUEST)
    assert ledger.accounts is not None
    strange = SealingKeys((b"s" * 32,))
    await ledger.accounts.keys.stop()
    ledger.accounts.keys = AccountKeyStore(database_url, strange)
    checked = await check_account(ledger, actor, NAME)
    assert (checked.reachable, list(checked.problems)) == (
        False,
        ["The stored keys cannot be opened: send them again by PUT."],
    )
    account = (await connect_account(ledger, actor, NAME, REQUEST)).account
    assert await keys_in(ledger, actor, account) == KEYS
    await ledger.accounts.keys.stop()


async def test_production_connects_no_simulated_processor(ledger: Ledger, actor: Actor):
    settings = Settings(database_url="postgresql://x/y")
    assert processor_kinds(settings).keys() == {"sandbox", "stripe"}
    assert ledger.accounts is not None
    ledger.accounts.kinds = processor_kinds(replace(settings, environment="production"))
    with pytest.raises(InvalidField, match="processor is unknown; use stripe"):
        await connect_account(ledger, actor, NAME, REQUEST)


def test_words_of_a_processor_show_no_key_and_no_card():
    assert repr(KEYS) == str(KEYS) == "AccountKeys(***)"
    assert f"{REQUEST}".count("***") == 1
    plain = AccountKeys(secret_key="plain secret", webhook_secrets=("another",))
    assert without_secrets("plain secret, another", plain) == "***, ***"
    words = f"Key {GOOD} or rk_live_0123456789 of\n4242 4242 4242 4242 is {SIGNING}." + "x" * 600
    shown = without_secrets(words, KEYS)
    assert shown.startswith("Key *** or *** of **** **** **** **** is ***.")
    assert len(shown) == 500


async def test_the_keys_of_a_disconnected_account_are_erased_once_nothing_can_be_refunded_there(
    ledger: Ledger, actor: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    """Until then they are kept; afterwards what needs them is refused, until the account is connected again."""
    account = (await connect_account(ledger, actor, NAME, REQUEST)).account
    assert ledger.processors.sandbox is not None
    opened = Opened(name=NAME, processor=ledger.processors.sandbox, is_connected=False)

    async def named(merchant_id: UUID, name: str) -> Opened | None:
        stored = [each for each in await ledger.accounts.stored(merchant_id) if each.name == name]  # type: ignore[union-attr]
        return opened if stored[0].keys_erased_at is None else None

    monkeypatch.setattr(ledger.processors, "named", named)

    async def disconnected() -> Any:
        async with await connect(database_url, "test") as connection:
            return await disconnected_accounts(connection)

    assert await disconnected() == []
    gone = await disconnect_account(ledger, actor, NAME)
    assert [each for _, each in await disconnected()] == [gone]
    assert gone.disconnected_at is not None
    capabilities = ledger.processors.sandbox.capabilities
    kept = timedelta(seconds=capabilities.authorization_validity_s + capabilities.refund_window_s)
    order: Any = SimpleNamespace(payments=[SimpleNamespace(account=NAME)])
    for before_s, erased in ((1, 0), (0, 1), (0, 0)):
        ledger.clock = Fixed(gone.disconnected_at + kept - timedelta(seconds=before_s))
        assert await erase_expired_keys(ledger, disconnected) == erased
        assert rows_of(database_url, actor) == ([] if before_s == 0 else [account.terms.secret_id])
        if before_s:
            assert await rules_of(ledger, actor.merchant_id, order)
    with pytest.raises(ProcessorAccountKeysErased, match=NAME):
        await rules_of(ledger, actor.merchant_id, order)
    checked = await check_account(ledger, actor, NAME)
    assert (checked.reachable, "erased" in checked.problems[0]) == (False, True)
    again = (await connect_account(ledger, actor, NAME, REQUEST)).account
    assert (again.keys_erased_at, await keys_in(ledger, actor, again)) == (None, KEYS)
    assert await erase_expired_keys(ledger, disconnected) == 0
    assert rows_of(database_url, actor) == [again.terms.secret_id]
