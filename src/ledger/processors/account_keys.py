"""The secret keys of merchants' accounts with processors, held sealed.

Never log or return a key. It is stored under a sealing key of the installation, bound to its merchant, before the event
that names it is committed, so that no event names keys that are not there. Stored keys never change: others have
another id.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID, uuid4

import msgspec

from ledger.journal.encryption.rewrapping import WrappedKeys
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.postgres.connection import SharedClient
from ledger.processors.registry import AccountKeys
from ledger.ttl_cache import TtlCache

_KEEP: Final = """
insert into processor_account_key (merchant_id, secret_id, account_id, sealing_key_id, wrapped_key)
values (%s, %s, %s, %s, %s)
"""
_FIND: Final = "select sealing_key_id, wrapped_key from processor_account_key where merchant_id = %s and secret_id = %s"
# Destroys an account's keys that others have replaced, and those of a day ago that no event names: of a process that
# ended before it could commit the event.
_DESTROY: Final = """
delete from processor_account_key
 where merchant_id = %s and account_id = %s and secret_id is distinct from %s
   and (secret_id = %s or kept_at < clock_timestamp() - interval '1 day')
"""

PROCESSOR_KEYS: Final = WrappedKeys(
    next="""
select merchant_id, secret_id, sealing_key_id, wrapped_key from processor_account_key
 where (merchant_id, secret_id) > (%s, %s) and sealing_key_id <> %s order by merchant_id, secret_id limit %s
""",
    replace="""
update processor_account_key k set sealing_key_id = %s, wrapped_key = q.wrapped
  from unnest(%s::uuid[], %s::uuid[], %s::bytea[], %s::bytea[]) as q(merchant_id, secret_id, present, wrapped)
 where k.merchant_id = q.merchant_id and k.secret_id = q.secret_id and k.wrapped_key = q.present
""",
)
"""The keys of accounts, for `ledger keys rewrap`."""

_OPENED_MAX: Final = 1000
_OPENED_TTL_S: Final = 600.0
"""How many opened keys a process keeps, and for how long."""

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(AccountKeys).decode


class AccountKeyStore:
    """The keys of an installation's accounts. `url` is a libpq connection string; `keys` seal them.

    It connects for the first account with keys; others may share the connection of `client`. Every method raises
    DatabaseUnavailable.
    """

    def __init__(self, url: str, keys: SealingKeys) -> None:
        self.client = SharedClient(url, "ledger-account-keys")
        self._keys = keys
        self._opened = TtlCache[UUID, AccountKeys](_OPENED_MAX, _OPENED_TTL_S)

    async def stop(self) -> None:
        await self.client.stop()

    async def keep(self, merchant_id: UUID, account_id: UUID, account_keys: AccountKeys) -> UUID:
        """Stores keys for an event that is committed afterwards, and returns the id by which it names them."""
        secret_id = uuid4()
        wrapped = self._keys.wrap(merchant_id, secret_id, _encode(account_keys))
        async with self.client.turn() as connection:
            values = (merchant_id, secret_id, account_id, self._keys.newest, wrapped)
            await connection.execute(_KEEP.encode(), values)
        return secret_id

    async def open(self, merchant_id: UUID, secret_id: UUID) -> AccountKeys | None:
        """Returns keys, or None if they were destroyed: others have replaced them meanwhile.

        Raises KeyUnavailable and SealBroken if they do not open.
        """
        opened = self._opened.get(secret_id)
        if opened is None:
            async with self.client.turn() as connection:
                cursor = await connection.execute(_FIND.encode(), (merchant_id, secret_id), binary=True)
                row: tuple[Any, ...] | None = await cursor.fetchone()
            if row is None:
                return None
            sealing_key, wrapped = row
            opened = _decode(self._keys.unwrap(sealing_key, merchant_id, secret_id, wrapped))
            self._opened.put(secret_id, opened)
        return opened

    async def destroy(self, merchant_id: UUID, account_id: UUID, replaced: UUID | None, present: UUID | None) -> None:
        """Destroys the keys `replaced` of an account, and older ones that no event names, but never `present`."""
        if replaced is not None:
            self._opened.drop(replaced)
        async with self.client.turn() as connection:
            await connection.execute(_DESTROY.encode(), (merchant_id, account_id, present, replaced))
