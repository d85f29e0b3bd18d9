"""Rewraps the keys of saved cards under the newest sealing key while cards are kept, opened and destroyed.

Only the wrapping of a key changes, and only where the row still holds what was read: a card that is destroyed meanwhile
stays destroyed. The sealed number is never opened here.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Connection

_BATCH_MAX: Final = 500
_BEFORE_ALL: Final = UUID(int=0)

# The next cards whose key another sealing key than the newest wraps.
_NEXT: Final = """
select merchant_id, payment_method_id, sealing_key_id, wrapped_key from vault_card
 where (merchant_id, payment_method_id) > (%s, %s) and sealing_key_id <> %s
 order by merchant_id, payment_method_id limit %s
"""

# Puts them under the newest, unless another transaction has changed them since.
_REPLACE: Final = """
update vault_card v set sealing_key_id = %s, wrapped_key = q.wrapped
  from unnest(%s::uuid[], %s::uuid[], %s::bytea[], %s::bytea[]) as q(merchant_id, payment_method_id, present, wrapped)
 where v.merchant_id = q.merchant_id and v.payment_method_id = q.payment_method_id and v.wrapped_key = q.present
"""


async def rewrap_cards(connection: Connection, keys: SealingKeys) -> int:
    """Puts every card's key under the newest sealing key. Returns how many it changed.

    `connection` is the vault role's, in autocommit. Raises KeyUnavailable, SealBroken; the cards before it are done
    then, and a second call continues from there.
    """
    total = 0
    while changed := await _pass(connection, keys):  # a process that lacks the newest key may write behind one walk
        total += changed
    return total


async def _pass(connection: Connection, keys: SealingKeys) -> int:
    changed, last = 0, (_BEFORE_ALL, _BEFORE_ALL)
    while True:
        rows = await (await connection.execute(_NEXT, (*last, keys.newest, _BATCH_MAX), binary=True)).fetchall()
        if not rows:
            return changed
        changed += await _replace(connection, keys, rows)
        last = rows[-1][:2]


async def _replace(connection: Connection, keys: SealingKeys, rows: list[tuple[Any, ...]]) -> int:
    wrapped = [
        keys.wrap(merchant, method, keys.unwrap(sealing_key, merchant, method, present))
        for merchant, method, sealing_key, present in rows
    ]
    merchants, methods, _, present = zip(*rows, strict=True)
    answer = await connection.execute(
        _REPLACE,
        (
            keys.newest,
            ENCODE_ARRAY["uuid"]([merchant.bytes for merchant in merchants]),
            ENCODE_ARRAY["uuid"]([method.bytes for method in methods]),
            ENCODE_ARRAY["bytea"](present),
            ENCODE_ARRAY["bytea"](wrapped),
        ),
    )
    return answer.rowcount
