"""The rows of merchants and of their API keys, by which a key finds its merchant and the merchant's settings.

A revoked or expired key keeps its row. The caller decides by the times in it, so that the answers to a wrong key and to
an old key can differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ledger.domain.merchants.settings import MerchantSettings
from ledger.domain.merchants.state import ApiKey, Merchant
from ledger.journal.inline import InlineTable, Row
from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Connection
from projections.binary import micros, text

CHANGES: Final = "ledger_merchant"
"""The channel of a trigger that notifies, in the commit, whose merchant's settings or keys changed (migration 0023)."""

# Writes the merchant's row as it is after the commit.
_WRITE: Final = """
insert into merchant (merchant_id, version, name, settings, created_at, updated_at, closed_at)
select merchant_id, version, name, settings, created_at, updated_at, closed_at from {rows}
on conflict (merchant_id) do update set
  version = excluded.version, name = excluded.name, settings = excluded.settings, updated_at = excluded.updated_at,
  closed_at = excluded.closed_at
"""

TABLE: Final = InlineTable(
    "merchant",
    (
        ("merchant_id", "uuid"),
        ("version", "int4"),
        ("name", "text"),
        ("settings", "bytea"),
        ("created_at", "timestamptz"),
        ("updated_at", "timestamptz"),
        ("closed_at", "timestamptz"),
    ),
    _WRITE,
    is_rare=True,
    announced_as=CHANGES,
)

# Writes the row of a key as it is after the commit. Only its scopes and the end of its validity can change.
_WRITE_KEYS: Final = """
insert into api_key
  (key_hash, merchant_id, key_id, name, hint, scopes, created_at, expires_at, revoked_at, replaced_by)
select key_hash, merchant_id, key_id, name, hint, scopes, created_at, expires_at, revoked_at, replaced_by from {rows}
on conflict on constraint api_key_pkey do update set
  scopes = excluded.scopes, expires_at = excluded.expires_at, revoked_at = excluded.revoked_at,
  replaced_by = excluded.replaced_by
"""

KEY_TABLE: Final = InlineTable(
    "api_key",
    (
        ("key_hash", "bytea"),
        ("merchant_id", "uuid"),
        ("key_id", "uuid"),
        ("name", "text"),
        ("hint", "text"),
        ("scopes", "text"),
        ("created_at", "timestamptz"),
        ("expires_at", "timestamptz"),
        ("revoked_at", "timestamptz"),
        ("replaced_by", "uuid"),
    ),
    _WRITE_KEYS,
    is_rare=True,
)

# Keys by their hash, with the current settings of their merchant. Each row begins with the number of the key it
# answers.
FIND_KEY: Final = """
select q.n, k.merchant_id, k.key_id, k.scopes, k.expires_at, k.revoked_at, m.settings
  from unnest(%s::int4[], %s::bytea[]) as q(n, key_hash)
  join api_key k on k.key_hash = q.key_hash
  join merchant m on m.merchant_id = k.merchant_id
"""

# The merchants of keys by their hash, as far as they are known, where Citus divides the keys among its nodes.
FIND_KEY_MERCHANT: Final = """
select q.n, m.merchant_id from unnest(%s::int4[], %s::bytea[]) as q(n, key_hash) join api_key_lookup m using (key_hash)
"""

# Keeps the merchant of a key. It never changes.
WRITE_KEY_MERCHANT: Final = """
insert into api_key_lookup (key_hash, merchant_id) values (%(key_hash)s, %(merchant_id)s) on conflict do nothing
"""

# Keys like FIND_KEY, of merchants that are known.
FIND_MERCHANT_KEY: Final = """
select q.n, k.merchant_id, k.key_id, k.scopes, k.expires_at, k.revoked_at, m.settings
  from unnest(%s::int4[], %s::uuid[], %s::bytea[]) as q(n, merchant_id, key_hash)
  join api_key k on k.merchant_id = q.merchant_id and k.key_hash = q.key_hash
  join merchant m on m.merchant_id = q.merchant_id
"""

# All merchants, the oldest first, for operators; one merchant, as the merchant reads itself.
_ALL: Final = "select merchant_id, name, settings, created_at, updated_at, closed_at from merchant"
_MERCHANTS: Final = _ALL + " order by created_at, merchant_id"
FIND: Final = _ALL + " where merchant_id = %(merchant_id)s"

# A merchant's keys, the oldest first.
KEYS: Final = """
select key_id, name, hint, scopes, created_at, expires_at, revoked_at, replaced_by, last_used_at
  from api_key left join api_key_use using (key_id)
 where merchant_id = %(merchant_id)s order by created_at, key_id
"""


class FoundKey(Struct, frozen=True, kw_only=True):
    """The merchant of an API key, the key's validity and its scopes. Without scopes, the key allows everything."""

    merchant_id: UUID
    key_id: UUID
    scopes: tuple[str, ...]
    expires_at: datetime | None
    revoked_at: datetime | None
    settings: MerchantSettings


class FoundMerchant(Struct, frozen=True, kw_only=True):
    """A merchant with its settings."""

    merchant_id: UUID
    name: str
    settings: MerchantSettings
    created_at: datetime
    updated_at: datetime
    closed_at: datetime | None


class ListedKey(Struct, frozen=True, kw_only=True):
    """An API key in a list: its hint, never the key. The last use is UNSET if it was not read, None for none."""

    key_id: UUID
    name: str | None
    hint: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    replaced_by: UUID | None
    last_used_at: datetime | None | UnsetType = UNSET


_encode: Final = msgspec.json.Encoder().encode
_settings: Final = msgspec.json.Decoder(MerchantSettings).decode
_scopes: Final = msgspec.json.Decoder(tuple[str, ...]).decode


def row(merchant_id: UUID, version: int, merchant: Merchant) -> Row:
    """Returns the merchant's row at a version of its stream."""
    assert merchant.merchant_id == merchant_id, "a merchant's stream holds that merchant"
    return (
        merchant_id.bytes,
        version,
        merchant.name.encode(),
        _encode(merchant.settings),
        micros(merchant.registered_at),
        micros(merchant.updated_at),
        None if merchant.closed_at is None else micros(merchant.closed_at),
    )


def key_rows(merchant_id: UUID, before: Merchant | None, after: Merchant) -> list[Row]:
    """Returns the rows of the API keys that a change issued or revoked."""
    unchanged = () if before is None else before.keys
    return [_key_row(merchant_id, key) for key in after.keys if key not in unchanged]


def _key_row(merchant_id: UUID, key: ApiKey) -> Row:
    return (
        bytes.fromhex(key.key_hash),
        merchant_id.bytes,
        key.key_id.bytes,
        text(key.name),
        key.hint.encode(),
        _encode(key.scopes),
        micros(key.issued_at),
        None if key.expires_at is None else micros(key.expires_at),
        None if key.revoked_at is None else micros(key.revoked_at),
        None if key.replaced_by is None else key.replaced_by.bytes,
    )


def find_key_parameters(hashes: Sequence[bytes]) -> list[bytes]:
    """Returns the columns that FIND_KEY unnests."""
    return [ENCODE_ARRAY["int4"](range(len(hashes))), ENCODE_ARRAY["bytea"](hashes)]


def find_merchant_key_parameters(keys: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
    """Returns the columns that FIND_MERCHANT_KEY unnests, of merchants' ids and hashes."""
    merchant_ids, hashes = zip(*keys, strict=True)
    return [ENCODE_ARRAY["int4"](range(len(keys))), ENCODE_ARRAY["uuid"](merchant_ids), ENCODE_ARRAY["bytea"](hashes)]


def found_key(row: Sequence[Any]) -> FoundKey:
    """Returns the API key of a row of FIND_KEY."""
    _, merchant_id, key_id, scopes, expires_at, revoked_at, settings = row
    return FoundKey(
        merchant_id=merchant_id,
        key_id=key_id,
        scopes=_scopes(scopes),
        expires_at=expires_at,
        revoked_at=revoked_at,
        settings=_settings(settings),
    )


async def list_merchants(connection: Connection) -> list[FoundMerchant]:
    """Returns all merchants of the installation, the oldest first."""
    rows = await connection.execute(_MERCHANTS, binary=True)
    return [found_merchant(row) for row in await rows.fetchall()]


async def list_keys(connection: Connection, merchant_id: UUID) -> list[ListedKey]:
    """Returns a merchant's API keys, the oldest first, expired and revoked ones included."""
    rows = await connection.execute(KEYS, {"merchant_id": merchant_id}, binary=True)
    return [listed_key(row) for row in await rows.fetchall()]


def listed_key(row: Sequence[Any]) -> ListedKey:
    """Returns the API key of a row of KEYS."""
    key_id, name, hint, scopes, created_at, expires_at, revoked_at, replaced_by, last_used_at = row
    return ListedKey(
        key_id=key_id,
        name=name,
        hint=hint,
        scopes=_scopes(scopes),
        created_at=created_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
        replaced_by=replaced_by,
        last_used_at=last_used_at,
    )


def listed(key: ApiKey) -> ListedKey:
    """Returns a key of the merchant's state as lists show it."""
    return ListedKey(
        key_id=key.key_id,
        name=key.name,
        hint=key.hint,
        scopes=key.scopes,
        created_at=key.issued_at,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
        replaced_by=key.replaced_by,
    )


def found_merchant(row: Sequence[Any]) -> FoundMerchant:
    """Returns the merchant of a row of FIND."""
    merchant_id, name, settings, *times = row
    created_at, updated_at, closed_at = times
    return FoundMerchant(
        merchant_id=merchant_id,
        name=name,
        settings=_settings(settings),
        created_at=created_at,
        updated_at=updated_at,
        closed_at=closed_at,
    )


def merchant_in(payload: str) -> UUID | None:
    """Returns the merchant that a notification on CHANGES names, None if another program sent it."""
    try:
        return UUID(payload)
    except ValueError:
        return None
