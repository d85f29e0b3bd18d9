"""The secrets of merchants' endpoints, held sealed.

Never log a secret, and return it only in the answer that creates it. It is stored under a sealing key of the
installation, bound to its merchant, before the event that names it is committed (decision 0077).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from ledger.journal.encryption.rewrapping import WrappedKeys
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.postgres.connection import SharedClient
from ledger.ttl_cache import TtlCache
from ledger.webhooks.signing import new_secret

_KEEP: Final = """
insert into webhook_secret (merchant_id, secret_id, endpoint_id, sealing_key_id, wrapped_key) values (%s, %s, %s, %s, %s)
"""
_FIND: Final = "select sealing_key_id, wrapped_key from webhook_secret where merchant_id = %s and secret_id = %s"
# Destroys an endpoint's secrets but the valid ones, and those of a day: the event that names one may come yet.
_DESTROY: Final = """
delete from webhook_secret
 where merchant_id = %s and endpoint_id = %s and not secret_id = any(%s) and kept_at < clock_timestamp() - interval '1 day'
"""
# Destroys all secrets of an endpoint that was deleted.
_DESTROY_ALL: Final = "delete from webhook_secret where merchant_id = %s and endpoint_id = %s"
# Destroys the secrets that a process left when it ended between two writes: of endpoints that were not created, or that
# were deleted. Those of a day may be of an endpoint that is being created.
_SWEEP: Final = """
delete from webhook_secret
 where merchant_id = %s and not endpoint_id = any(%s) and kept_at < clock_timestamp() - interval '1 day'
"""
_ENDPOINTS: Final = "select endpoint_id from webhook_endpoint where merchant_id = %s and status <> 'DELETED'"

WEBHOOK_SECRETS: Final = WrappedKeys(
    next="""
select merchant_id, secret_id, sealing_key_id, wrapped_key from webhook_secret
 where (merchant_id, secret_id) > (%s, %s) and sealing_key_id <> %s order by merchant_id, secret_id limit %s
""",
    replace="""
update webhook_secret s set sealing_key_id = %s, wrapped_key = q.wrapped
  from unnest(%s::uuid[], %s::uuid[], %s::bytea[], %s::bytea[]) as q(merchant_id, secret_id, present, wrapped)
 where s.merchant_id = q.merchant_id and s.secret_id = q.secret_id and s.wrapped_key = q.present
""",
)
"""The secrets of endpoints, for `ledger keys rewrap`."""

_OPENED_MAX: Final = 10_000
_OPENED_TTL_S: Final = 600.0
"""How many opened secrets a process keeps, and for how long. Secrets never change."""


class EndpointSecretStore:
    """The secrets of an installation's endpoints. `url` is a libpq connection string; `keys` seal them.

    It connects for the first endpoint; others may share the connection of `client`. Every method raises
    DatabaseUnavailable.
    """

    def __init__(self, url: str, keys: SealingKeys) -> None:
        self.client = SharedClient(url, "ledger-webhook-secrets")
        self._keys = keys
        self._opened = TtlCache[tuple[UUID, UUID], str](_OPENED_MAX, _OPENED_TTL_S)

    async def stop(self) -> None:
        await self.client.stop()

    async def create(self, merchant_id: UUID, endpoint_id: UUID, secret_id: UUID) -> str:
        """Stores a new secret for an event that is committed afterwards and names it by `secret_id`. Returns it."""
        secret = new_secret()
        wrapped = self._keys.wrap(merchant_id, secret_id, secret.encode())
        async with self.client.turn() as connection:
            await connection.execute(_KEEP.encode(), (merchant_id, secret_id, endpoint_id, self._keys.newest, wrapped))
        return secret

    async def open(self, merchant_id: UUID, secret_id: UUID) -> str | None:
        """Returns a secret, or None if it was destroyed: the endpoint was deleted, or the secret has ended.

        Raises KeyUnavailable and SealBroken if it does not open.
        """
        opened = self._opened.get((merchant_id, secret_id))
        if opened is None:
            async with self.client.turn() as connection:
                cursor = await connection.execute(_FIND.encode(), (merchant_id, secret_id), binary=True)
                row: tuple[Any, ...] | None = await cursor.fetchone()
            if row is None:
                return None
            sealing_key, wrapped = row
            opened = self._keys.unwrap(sealing_key, merchant_id, secret_id, wrapped).decode()
            self._opened.put((merchant_id, secret_id), opened)
        return opened

    async def destroy(self, merchant_id: UUID, endpoint_id: UUID, valid: Sequence[UUID]) -> None:
        """Destroys the secrets of an endpoint but the `valid` ones and those of a day, and what the merchant's failed
        requests left. Without valid ones, the endpoint was deleted: all of its secrets.
        """
        async with self.client.turn() as connection:
            endpoints = await (await connection.execute(_ENDPOINTS, (merchant_id,))).fetchall()
            await connection.execute(_SWEEP, (merchant_id, [endpoint_id for (endpoint_id,) in endpoints]))
            if valid:
                await connection.execute(_DESTROY.encode(), (merchant_id, endpoint_id, list(valid)))
            else:
                await connection.execute(_DESTROY_ALL.encode(), (merchant_id, endpoint_id))
