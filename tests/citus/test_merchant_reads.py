"""What the journal reads for several merchants at once, while one node is down."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from uuid import UUID

import pytest
from campaigns.citus.cluster import CitusCluster
from tests.citus.shards import shard_to_move
from tests.journal.small_log import fetch
from tests.operations.conftest import an_order, by_card, register

from ledger.domain.streams import ClaimKind
from ledger.operations.context.inputs import Actor, CustomerInput, OrderInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.postgres.faults import DatabaseUnavailable

pytestmark = [pytest.mark.anyio, pytest.mark.long]

MERCHANTS = 8


async def test_merchants_of_a_node_that_is_down_leave_the_others_their_orders(
    cluster: CitusCluster, ledger: Ledger, distributed_url: str
) -> None:
    merchants, nodes = list[Actor](), dict[UUID, str]()
    while len(merchants) < MERCHANTS or len({*nodes.values()}) < 2:
        merchants.append(merchant := await register(ledger))
        nodes[merchant.merchant_id] = node_of(distributed_url, merchant.merchant_id)
    for merchant in merchants:
        await create_order(ledger, merchant, ordered("before"))
    down = cluster.nodes[1]

    async def create(merchant: Actor, name: str) -> str | None:
        with suppress(DatabaseUnavailable):
            return (await create_order(ledger, merchant, ordered(name))).order.terms.external_id
        return None

    down.stop(at_once=True)
    try:
        for name in ("before", "new"):  # one that is read and one that is written
            answers = await asyncio.gather(*[create(merchant, name) for merchant in merchants])
            is_up = [nodes[merchant.merchant_id] != str(down.cluster.sockets) for merchant in merchants]
            assert answers == [name if up else None for up in is_up]
        found = await asyncio.gather(
            *[
                ledger.journal.reader.claim_owner(each.merchant_id, ClaimKind.ORDER_EXTERNAL_ID, "new")
                for each in merchants
            ],
            return_exceptions=True,
        )
        assert [isinstance(each, DatabaseUnavailable) for each in found] == [not up for up in is_up]
    finally:
        while not down.tick():  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)


def ordered(name: str) -> OrderInput:
    return an_order(name, by_card(), customer=CustomerInput(external_id="ana"))


def node_of(url: str, merchant_id: UUID) -> str:
    query = "select nodename from pg_dist_node where nodeid = %s"
    ((node,),) = fetch(url, query, shard_to_move(url, merchant_id)[1])
    return str(node)
