"""The demo: the same key at every start, one merchant, and one run of its scenario."""

import json

import msgspec
import psycopg
import pytest

from ledger.operations.context.inputs import Actor
from ledger.operations.merchants.api_keys import revoke_key
from ledger.operations.merchants.registration import merchant_of
from ledger.security.api_keys import hash_key
from ledger.security.secrets import Purpose, load_secrets
from ledger.seeding import demo
from ledger.seeding.demo import DemoAccess, provide, stored, welcome
from ledger.settings import CannotRun
from ledger.wiring import open_ledger

pytestmark = pytest.mark.anyio


@pytest.fixture
def short_scenario(monkeypatch, write, tmp_path):
    """A short demo: a merchant and one order."""
    opening = {"as": demo.MERCHANT, "do": "register", "at": "2026-03-01T08:00:00-06:00", "body": {}}
    order = {"externalId": "o", "amount": 1, "currency": "MXN", "customer": {"externalId": "c"}, "pending": True}
    created = {"as": demo.MERCHANT, "do": "create", "at": "2026-03-01T09:00:00-06:00", "body": order}
    write(opening, created, name=demo.SCENARIO)
    (tmp_path / demo.FIRST_ORDER).write_text("{}")
    monkeypatch.setattr(demo, "seeds_dir", lambda: tmp_path)
    return tmp_path / demo.SCENARIO


def is_valid(settings, database_url, access):
    key_hash = bytes.fromhex(hash_key(access.api_key, load_secrets(settings).key(Purpose.API_KEY_PEPPER)))
    with psycopg.connect(database_url) as connection:
        query = "select 1 from api_key where merchant_id = %s and key_hash = %s and revoked_at is null"
        return connection.execute(query, [access.merchant_id, key_hash]).fetchone() is not None


async def test_a_second_start_finds_the_key_and_leaves_the_log_alone(settings, database_url, short_scenario, log):
    first = await provide(settings)
    assert is_valid(settings, database_url, first)
    before = log()
    assert len(before["payment_order"]) == 1
    assert await provide(settings) == first
    assert log() == before


async def test_a_scenario_that_has_run_does_not_run_again(settings, short_scenario, monkeypatch):
    first = await provide(settings)
    monkeypatch.setattr(demo, "seed", None)
    assert await provide(settings) == first


async def test_a_scenario_that_has_grown_runs_its_new_lines(settings, short_scenario, log):
    await provide(settings)
    body = {"externalId": "p", "amount": 1, "currency": "MXN", "customer": {"externalId": "c"}, "pending": True}
    more = {"as": demo.MERCHANT, "do": "create", "at": "2026-03-02T09:00:00-06:00", "body": body}
    short_scenario.write_text(short_scenario.read_text() + json.dumps(more))
    await provide(settings)
    assert len(log()["payment_order"]) == 2


async def test_only_the_owner_can_read_the_file_of_the_key(settings, short_scenario):
    await provide(settings)
    assert (settings.data_dir / demo.ACCESS_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("stored", [None, b"{half a fi"])
async def test_a_lost_or_broken_file_gives_another_key_of_the_same_merchant(
    settings, database_url, short_scenario, stored
):
    first = await provide(settings)
    place = settings.data_dir / demo.ACCESS_FILE
    place.unlink() if stored is None else place.write_bytes(stored)
    second = await provide(settings)
    assert second.merchant_id == first.merchant_id
    assert second.api_key != first.api_key
    assert is_valid(settings, database_url, second)


async def test_a_start_that_was_killed_before_the_end_continues_with_its_key(settings, database_url, short_scenario):
    demo._save(settings, interrupted := DemoAccess(merchant_id=demo.merchant_id_of(demo.MERCHANT), api_key="sk_test_x"))
    finished = await provide(settings)
    assert finished.api_key == interrupted.api_key
    assert finished.scenario is not None
    assert is_valid(settings, database_url, finished)


async def test_a_revoked_key_is_replaced(settings, database_url, short_scenario):
    first = await provide(settings)
    async with open_ledger(settings) as ledger:
        merchant = await merchant_of(ledger, first.merchant_id)
        await revoke_key(ledger, Actor(merchant_id=merchant.merchant_id), merchant.keys[0].key_id)
    second = await provide(settings)
    assert second.api_key != first.api_key
    assert is_valid(settings, database_url, second)
    assert await provide(settings) == second


async def test_a_scenario_whose_orders_were_used_otherwise_is_a_warning(settings, short_scenario, capsys):
    await provide(settings)
    short_scenario.write_text(short_scenario.read_text().replace('"amount": 1', '"amount": 2'))
    access = await provide(settings)
    assert access.scenario is None
    assert "the demo's scenario ends early" in capsys.readouterr().err


async def test_production_has_no_demo(settings, short_scenario, log):
    with pytest.raises(CannotRun, match="production has no demo merchant"):
        await provide(msgspec.structs.replace(settings, environment="production"))
    assert log()["merchant"] == []


async def test_the_welcome_text_names_all_that_a_first_request_needs(settings, short_scenario):
    access = await provide(settings)
    text = welcome(settings, access)
    orders, reference = "http://127.0.0.1:8000/api/v2/payment-orders", "http://127.0.0.1:8000/docs\n"
    for needed in (str(access.merchant_id), orders, reference, "--data @"):
        assert needed in text
    assert access.api_key in text.splitlines()[-2], "the key is the last thing that is shown"
    assert stored(settings) == access


async def test_what_was_never_prepared_is_not_shown(settings):
    with pytest.raises(CannotRun, match="has no demo"):
        stored(settings)
