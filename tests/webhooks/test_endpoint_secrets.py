"""The secrets of endpoints: sealed, bound to their merchant and to their place, rewrapped, destroyed."""

from uuid import UUID

import psycopg
import pytest
from standardwebhooks import Webhook

from ledger.journal.append import SealBroken
from ledger.journal.encryption.rewrapping import rewrap
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.postgres.connection import connect
from ledger.webhooks.endpoint_secrets import WEBHOOK_SECRETS, EndpointSecretStore

OLD, NEW = bytes(range(32)), bytes(range(1, 33))
MERCHANT, OTHER, ENDPOINT, UNMADE = (UUID(int=n) for n in range(1, 5))
FIRST, SECOND, VALID, LEFT = (UUID(int=n) for n in range(5, 9))


@pytest.mark.anyio
async def test_a_secret_is_sealed_rewrapped_and_destroyed(database_url):
    store = EndpointSecretStore(database_url, SealingKeys([OLD]))
    secret, _ = [await store.create(MERCHANT, ENDPOINT, each) for each in (FIRST, SECOND)]
    assert Webhook(secret)
    assert await store.open(MERCHANT, FIRST) == secret
    await store.stop()

    both = SealingKeys([NEW, OLD])
    async with await connect(database_url, "test") as connection:
        assert await rewrap(connection, both, WEBHOOK_SECRETS) == 2
        assert await rewrap(connection, both, WEBHOOK_SECRETS) == 0
    store = EndpointSecretStore(database_url, SealingKeys([NEW]))
    assert await store.open(MERCHANT, FIRST) == secret
    assert await store.open(OTHER, FIRST) is None
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("select wrapped_key from webhook_secret").fetchall()
        assert not any(secret.encode() in bytes(row) for (row,) in rows)
        connection.execute("update webhook_secret set merchant_id = %s where secret_id = %s", (OTHER, SECOND))
    with pytest.raises(SealBroken, match="does not open"):
        await store.open(OTHER, SECOND)

    await store.destroy(MERCHANT, ENDPOINT, [VALID])  # the first may be of an event that is not committed yet
    await store.create(MERCHANT, ENDPOINT, VALID)
    await store.create(MERCHANT, UNMADE, LEFT)
    with psycopg.connect(database_url) as connection:
        row = (MERCHANT, ENDPOINT)
        connection.execute("insert into webhook_endpoint values (%s, %s, 1, 1, 'ENABLED', 1, now(), '')", row)
    assert await destroyed(store) == set()
    with psycopg.connect(database_url) as connection:
        connection.execute("update webhook_secret set kept_at = kept_at - interval '2 days'")
    assert await destroyed(store) == {FIRST, LEFT}, "LEFT is of an endpoint that was not created"
    await store.destroy(MERCHANT, ENDPOINT, [])
    assert await present(store) == {SECOND}, "of another merchant"
    await store.stop()


async def present(store: EndpointSecretStore) -> set[UUID]:
    """The secrets that are there."""
    async with store.client.turn() as connection:
        return {each for (each,) in await (await connection.execute("select secret_id from webhook_secret")).fetchall()}


async def destroyed(store: EndpointSecretStore) -> set[UUID]:
    """What a command of the endpoint with one valid secret destroys."""
    before = await present(store)
    await store.destroy(MERCHANT, ENDPOINT, [VALID])
    return before - await present(store)
