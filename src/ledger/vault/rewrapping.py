"""The wrapped keys of saved cards, which are rewrapped while cards are kept, opened and destroyed.

A card that is destroyed meanwhile stays destroyed. The sealed number is never opened for it.
"""

from __future__ import annotations

from typing import Final

from ledger.journal.encryption.rewrapping import WrappedKeys

CARD_KEYS: Final = WrappedKeys(
    next="""
select merchant_id, payment_method_id, sealing_key_id, wrapped_key from vault_card
 where (merchant_id, payment_method_id) > (%s, %s) and sealing_key_id <> %s
 order by merchant_id, payment_method_id limit %s
""",
    replace="""
update vault_card v set sealing_key_id = %s, wrapped_key = q.wrapped
  from unnest(%s::uuid[], %s::uuid[], %s::bytea[], %s::bytea[]) as q(merchant_id, payment_method_id, present, wrapped)
 where v.merchant_id = q.merchant_id and v.payment_method_id = q.payment_method_id and v.wrapped_key = q.present
""",
)
"""Rewrap them with a connection of the vault's role, which alone reads the table."""
