"""API keys on a distributed database: each one is read from the node of its merchant, whose other nodes may be down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from uuid import UUID

import pytest
from campaigns.citus.cluster import CitusCluster
from msgspec import structs
from tests.citus.shards import shard_to_move
from tests.journal.small_log import fetch
from tests.operations.conftest import register

from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.merchants.api_keys import issue_key, revoke_key
from ledger.postgres.faults import DatabaseUnavailable
from ledger.security.api_keys import new_key
from ledger.settings import Settings
from projections.merchants import FoundKey
from projections.queries import Queries

pytestmark = [pytest.mark.anyio, pytest.mark.long]

MERCHANTS = 8


@pytest.fixture
async def queries(settings: Settings) -> AsyncIterator[Queries]:
    queries = Queries(settings.database_url or "")
    await queries.start()
    yield queries
    await queries.stop()


async def with_keys(ledger: Ledger, url: str) -> Mapping[bytes, Actor]:
    """Returns merchants of both nodes by the hash of a key that each one has."""
    found = dict[bytes, Actor]()
    while len(found) < MERCHANTS or len({*nodes_of(url, found).values()}) < 2:
        merchant = await register(ledger)
        operator = Actor(merchant_id=merchant.merchant_id)
        issued = await issue_key(ledger, operator, key := new_key("sandbox", b"pepper"))
        found[bytes.fromhex(key.key_hash)] = structs.replace(merchant, key_id=issued.key.key_id)
    return found


def nodes_of(url: str, keys: Mapping[bytes, Actor]) -> Mapping[bytes, str]:
    """Returns the node of each key's merchant."""
    query = "select nodename from pg_dist_node where nodeid = %s"
    return {
        key_hash: fetch(url, query, shard_to_move(url, merchant.merchant_id)[1])[0][0]
        for key_hash, merchant in keys.items()
    }


async def test_a_known_key_is_found_while_the_node_of_another_merchant_is_down(
    cluster: CitusCluster, ledger: Ledger, queries: Queries, distributed_url: str
) -> None:
    keys = await with_keys(ledger, distributed_url)
    nodes = nodes_of(distributed_url, keys)
    for key_hash in keys:
        assert await queries.find_key(key_hash) is not None
    down = cluster.nodes[1]
    down.stop(at_once=True)
    try:
        await queries.require_answers()
        for key_hash, node in nodes.items():
            if node == str(down.cluster.sockets):
                with pytest.raises(DatabaseUnavailable):
                    await queries.find_key(key_hash)
            else:
                assert merchant_of(await queries.find_key(key_hash)) == keys[key_hash].merchant_id
    finally:
        while not down.tick():  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)


async def test_the_merchant_of_a_key_is_kept_and_the_key_read_anew(
    ledger: Ledger, queries: Queries, distributed_url: str
) -> None:
    keys = await with_keys(ledger, distributed_url)
    for key_hash, merchant in keys.items():
        assert merchant_of(await queries.find_key(key_hash)) == merchant.merchant_id
    kept = dict(fetch(distributed_url, "select key_hash, merchant_id from api_key_lookup"))
    assert kept == {key_hash: merchant.merchant_id for key_hash, merchant in keys.items()}
    (key_hash, merchant), *_ = keys.items()
    other = await issue_key(ledger, Actor(merchant_id=merchant.merchant_id), new_key("sandbox", b"pepper"))
    assert merchant.key_id is not None
    await revoke_key(ledger, structs.replace(merchant, key_id=other.key.key_id), merchant.key_id)
    found = await queries.find_key(key_hash)
    assert found is not None
    assert found.revoked_at is not None
    assert await queries.find_key(bytes(32)) is None


def merchant_of(found: FoundKey | None) -> UUID | None:
    return None if found is None else found.merchant_id
