"""Rewraps stored keys under the newest sealing key while the service runs, so that an old sealing key can be removed.

Only the wrapping of a key changes, never the key, and only if the row still holds what was read. A key that is
destroyed meanwhile stays destroyed.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Connection

_BATCH_MAX: Final = 500
_BEFORE_ALL: Final = UUID(int=0)


class WrappedKeys(Struct, frozen=True):
    """A table of wrapped keys, each bound to a merchant and to another id.

    `next` takes (merchant, other id, sealing key, limit) and returns rows (merchant, other id, sealing key, wrapped
    key) that follow the first two, without the keys of that sealing key. `replace` takes the new sealing key and arrays
    of merchant, other id, the wrapped key that was read, and the one that replaces it.
    """

    next: str
    replace: str


DATA_KEYS: Final = WrappedKeys(
    # The next keys that a sealing key other than the newest wraps.
    next="""
select merchant_id, customer_id, sealing_key_id, wrapped from data_key
 where (merchant_id, customer_id) > (%s, %s) and wrapped is not null and sealing_key_id <> %s
 order by merchant_id, customer_id limit %s
""",
    # Puts them under the newest, unless another transaction has changed them since.
    replace="""
update data_key d set sealing_key_id = %s, wrapped = q.wrapped
  from unnest(%s::uuid[], %s::uuid[], %s::bytea[], %s::bytea[]) as q(merchant_id, customer_id, present, wrapped)
 where d.merchant_id = q.merchant_id and d.customer_id = q.customer_id and d.wrapped = q.present
""",
)
"""The keys of customers' data."""


async def rewrap(connection: Connection, keys: SealingKeys, table: WrappedKeys = DATA_KEYS) -> int:
    """Puts every key of a table under the newest sealing key. Returns how many it changed.

    `connection` is in autocommit.

    Raises KeyUnavailable if a key is wrapped by a sealing key that `keys` lacks, SealBroken if one does not open.
    The keys before it are done then, and a second call continues from there.
    """
    total = 0
    while changed := await _pass(connection, keys, table):
        total += changed
    return total


async def _pass(connection: Connection, keys: SealingKeys, table: WrappedKeys) -> int:
    """Walks through the table once.

    A process that lacks the newest key may write behind the walk, so one is not enough.
    """
    changed, last = 0, (_BEFORE_ALL, _BEFORE_ALL)
    while True:
        rows = await (await connection.execute(table.next, (*last, keys.newest, _BATCH_MAX), binary=True)).fetchall()
        if not rows:
            return changed
        changed += await _replace(connection, keys, table, rows)
        last = rows[-1][:2]


async def _replace(connection: Connection, keys: SealingKeys, table: WrappedKeys, rows: list[tuple[Any, ...]]) -> int:
    wrapped = [
        keys.wrap(merchant, other, keys.unwrap(sealing_key, merchant, other, present))
        for merchant, other, sealing_key, present in rows
    ]
    merchants, others, _, present = zip(*rows, strict=True)
    answer = await connection.execute(
        table.replace,
        (
            keys.newest,
            ENCODE_ARRAY["uuid"]([merchant.bytes for merchant in merchants]),
            ENCODE_ARRAY["uuid"]([other.bytes for other in others]),
            ENCODE_ARRAY["bytea"](present),
            ENCODE_ARRAY["bytea"](wrapped),
        ),
    )
    return answer.rowcount
