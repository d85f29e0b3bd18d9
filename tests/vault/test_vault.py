"""The vault: what its table shows, and a change of the sealing key under load."""

from __future__ import annotations

from uuid import UUID

import psycopg
import pytest
from campaigns.vault.rotation import NEW, OLD, card_keys, rewrapped, rotate, with_keys
from msgspec.structs import replace
from tests.metric_values import metric_value
from tests.operations.test_sealing import fetch
from tests.sealing import MASTER_KEY
from uuid_utils.compat import uuid7

from ledger.journal.append import KeyUnavailable, SealBroken
from ledger.security.secrets import Purpose, load_secrets
from ledger.settings import Settings
from ledger.vault.sealed_card import fingerprint, open_card, seal_card
from ledger.vault.vault import Vault

pytestmark = pytest.mark.anyio

NUMBER = "4242424242424242"
MERCHANT, CUSTOMER, METHOD, OTHER = (UUID(int=n) for n in range(1, 5))


def opened(url: str, *keys: str) -> Vault:
    settings = with_keys(url, *keys)
    return Vault(url, card_keys(settings), load_secrets(settings).key(Purpose.CARD_FINGERPRINT))


def test_a_sealed_number_opens_only_in_its_own_row() -> None:
    keys = card_keys(with_keys("", OLD))
    for number in ("4222222222222", NUMBER, "6304000000000000001"):
        card = seal_card(keys, MERCHANT, METHOD, number)
        assert open_card(keys, MERCHANT, METHOD, card) == number
        assert len(card.sealed_number) == 12 + 19 + 16, "the ciphertext does not show the number's length"
        assert seal_card(keys, MERCHANT, METHOD, number).sealed_number != card.sealed_number
        for merchant, method in ((OTHER, METHOD), (MERCHANT, OTHER)):
            with pytest.raises(SealBroken):
                open_card(keys, merchant, method, card)
    with pytest.raises(KeyUnavailable, match=r"payment method .* is sealed under the sealing key"):
        open_card(card_keys(with_keys("", NEW)), MERCHANT, METHOD, card)


def test_a_number_that_does_not_open_under_its_own_key_is_counted() -> None:
    keys = card_keys(with_keys("", OLD))
    one, two = (seal_card(keys, MERCHANT, METHOD, NUMBER) for _ in range(2))
    before = metric_value("ledger_records_unopened_total", "payment method", "broken") or 0
    with pytest.raises(SealBroken, match="the number of payment method"):
        open_card(keys, MERCHANT, METHOD, replace(one, sealed_number=two.sealed_number))
    assert metric_value("ledger_records_unopened_total", "payment method", "broken") == before + 1


def test_a_fingerprint_needs_the_key_and_is_of_one_customer() -> None:
    key = load_secrets(Settings(master_key=MASTER_KEY)).key(Purpose.CARD_FINGERPRINT)
    mine = fingerprint(key, MERCHANT, CUSTOMER, NUMBER)
    assert mine == fingerprint(key, MERCHANT, CUSTOMER, NUMBER)
    others = [
        fingerprint(b"\0" * 32, MERCHANT, CUSTOMER, NUMBER),
        fingerprint(key, MERCHANT, OTHER, NUMBER),
        fingerprint(key, OTHER, CUSTOMER, NUMBER),
        fingerprint(key, MERCHANT, CUSTOMER, "4242424242424259"),
    ]
    assert len({mine, *others}) == 5


async def test_nothing_of_a_number_is_readable_in_the_table(database_url: str) -> None:
    vault = opened(database_url, OLD)
    await vault.start()
    method_id = await vault.keep(MERCHANT, CUSTOMER, NUMBER)
    assert await vault.keep(MERCHANT, CUSTOMER, NUMBER) == method_id
    assert await vault.open(MERCHANT, method_id, uuid7()) == NUMBER
    (row,) = fetch(database_url, "select sealed_number, wrapped_key, fingerprint from vault_card")
    assert all(NUMBER.encode() not in cell and NUMBER[:6].encode() not in cell for cell in row)
    await vault.destroy(MERCHANT, [method_id])
    assert await vault.open(MERCHANT, method_id, uuid7()) is None
    await vault.stop()


async def test_the_sealing_key_changes_while_cards_pay_and_no_request_fails(database_url: str) -> None:
    result = await rotate(database_url, cards=40, pause_s=0.05)
    assert result.failed == []
    assert (result.rewrapped, result.paid > 20) == (40, True)
    assert await rewrapped(with_keys(database_url, NEW, OLD)) == 0
    ids = {key for (key,) in fetch(database_url, "select distinct sealing_key_id from vault_card")}
    assert ids == {card_keys(with_keys(database_url, NEW)).newest}


async def test_a_copy_from_before_the_change_opens_with_the_old_key(database_url: str) -> None:
    before = opened(database_url, OLD)
    await before.start()
    method_id = await before.keep(MERCHANT, CUSTOMER, NUMBER)
    await before.stop()
    ((key_id, wrapped),) = fetch(database_url, "select sealing_key_id, wrapped_key from vault_card")
    assert await rewrapped(with_keys(database_url, NEW, OLD)) == 1
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update vault_card set sealing_key_id = %s, wrapped_key = %s", (key_id, wrapped))
    restored = opened(database_url, NEW, OLD)
    await restored.start()
    assert await restored.open(MERCHANT, method_id, uuid7()) == NUMBER
    await restored.stop()
