"""The demo: the same key at every start, and never more than one merchant and one telling of its story."""

import json

import msgspec
import psycopg
import pytest

from ledger.operations.merchants import merchant_of, revoke_key
from ledger.security.api_keys import hash_key
from ledger.security.secrets import Purpose, load_secrets
from ledger.seeding import demo
from ledger.seeding.demo import DemoAccess, provide, welcome
from ledger.settings import CannotRun
from ledger.wiring import open_ledger

pytestmark = pytest.mark.anyio


@pytest.fixture
def short_story(monkeypatch, write, tmp_path):
    """A demo that does not take its time: a merchant and one order."""
    opening = {"as": demo.MERCHANT, "do": "register", "at": "2026-03-01T08:00:00-06:00", "body": {}}
    order = {"externalId": "o", "amount": 1, "currency": "MXN", "customer": {"externalId": "c"}, "pending": True}
    created = {"as": demo.MERCHANT, "do": "create", "at": "2026-03-01T09:00:00-06:00", "body": order}
    write(opening, created, name=demo.STORY)
    (tmp_path / demo.FIRST_ORDER).write_text("{}")
    monkeypatch.setattr(demo, "seeds_dir", lambda: tmp_path)
    return tmp_path / demo.STORY


def speaks(settings, database_url, access):
    key_hash = bytes.fromhex(hash_key(access.api_key, load_secrets(settings).key(Purpose.API_KEY_PEPPER)))
    with psycopg.connect(database_url) as connection:
        query = "select 1 from api_key where merchant_id = %s and key_hash = %s and revoked_at is null"
        return connection.execute(query, [access.merchant_id, key_hash]).fetchone() is not None


async def test_a_second_start_finds_the_key_and_leaves_the_log_alone(settings, database_url, short_story, log):
    first = await provide(settings)
    assert speaks(settings, database_url, first)
    before = log()
    assert len(before["payment_order"]) == 1
    assert await provide(settings) == first
    assert log() == before


async def test_a_told_story_is_not_even_opened_again(settings, short_story, monkeypatch):
    first = await provide(settings)
    monkeypatch.setattr(demo, "seed", None)
    assert await provide(settings) == first


async def test_a_story_that_has_grown_is_told_further(settings, short_story, log):
    await provide(settings)
    body = {"externalId": "p", "amount": 1, "currency": "MXN", "customer": {"externalId": "c"}, "pending": True}
    more = {"as": demo.MERCHANT, "do": "create", "at": "2026-03-02T09:00:00-06:00", "body": body}
    short_story.write_text(short_story.read_text() + json.dumps(more))
    await provide(settings)
    assert len(log()["payment_order"]) == 2


async def test_the_key_is_for_its_owners_eyes(settings, short_story):
    await provide(settings)
    assert (settings.data_dir / demo.MEMORY).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("memory", [None, b"{half a fi"])
async def test_a_lost_memory_is_another_key_of_the_same_merchant(settings, database_url, short_story, memory):
    first = await provide(settings)
    place = settings.data_dir / demo.MEMORY
    place.unlink() if memory is None else place.write_bytes(memory)
    second = await provide(settings)
    assert second.merchant_id == first.merchant_id
    assert second.api_key != first.api_key
    assert speaks(settings, database_url, second)


async def test_a_start_that_was_killed_before_the_end_goes_on_with_its_key(settings, database_url, short_story):
    demo._remember(
        settings, interrupted := DemoAccess(merchant_id=demo.merchant_id_of(demo.MERCHANT), api_key="sk_test_x")
    )
    finished = await provide(settings)
    assert finished.api_key == interrupted.api_key
    assert finished.story is not None
    assert speaks(settings, database_url, finished)


async def test_a_revoked_key_is_replaced(settings, database_url, short_story):
    first = await provide(settings)
    async with open_ledger(settings) as ledger:
        merchant = await merchant_of(ledger, first.merchant_id)
        await revoke_key(ledger, merchant.merchant_id, merchant.keys[0].key_id)
    second = await provide(settings)
    assert second.api_key != first.api_key
    assert speaks(settings, database_url, second)
    assert await provide(settings) == second


async def test_a_story_that_was_lived_otherwise_is_a_warning_and_no_obstacle(settings, short_story, capsys):
    await provide(settings)
    short_story.write_text(short_story.read_text().replace('"amount": 1', '"amount": 2'))
    access = await provide(settings)
    assert access.story is None
    assert "the demo's story ends early" in capsys.readouterr().err


async def test_production_has_no_demo(settings, short_story, log):
    with pytest.raises(CannotRun, match="production has no demo merchant"):
        await provide(msgspec.structs.replace(settings, environment="production"))
    assert log()["merchant"] == []


async def test_the_welcome_names_all_that_a_first_request_needs(settings, short_story):
    access = await provide(settings)
    text = welcome(settings, access)
    for needed in (access.api_key, str(access.merchant_id), "http://127.0.0.1:8000/api/v2/payment-orders", "--data @"):
        assert needed in text
