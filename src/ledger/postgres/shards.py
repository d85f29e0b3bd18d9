"""The shards of a log that Citus divides among servers: which one has a merchant, and the statements that write to it.

Citus refuses an insert inside `with`, of which the append consists. The journal therefore commits on the server that
has the merchant, to the tables of its shard, as it commits on an ordinary Postgres: by one transaction of one server,
which ends with one flush of that server's log.

Never write to the tables of a shard before `HOLD` has run in the same transaction. Citus moves a shard while it is
written, and keeps the former copy for a while: what is written there is lost.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import psycopg
from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ledger.postgres.distribution import DISTRIBUTED_NOW, HAS_CITUS, HEADS
from ledger.postgres.pipeline import Statement

# Every shard of every table that is colocated with the heads, with the first of its hashes, its node and where that is.
SHARDS: Final = """
select c.relname, s.shardid, s.shardminvalue::int4, n.groupid, n.nodename, n.nodeport
  from pg_dist_partition h
  join pg_dist_partition p on p.colocationid = h.colocationid and p.partmethod = 'h'
  join pg_class c on c.oid = p.logicalrelid
  join pg_dist_shard s on s.logicalrelid = p.logicalrelid
  join pg_dist_placement t on t.shardid = s.shardid
  join pg_dist_node n on n.groupid = t.groupid and n.noderole = 'primary'
 where h.logicalrelid = %s::regclass
"""

# Holds a shard where it is until the transaction ends, or fails if it is no longer on this server.
HOLD: Final = "select hold_shard({shard})"

HOLD_SOME: Final = "select hold_shard(s) from unnest(%s::int8[]) as s"
"""Holds several shards, in the order of the parameter."""
HOLD_ALL: Final = Statement(b"ledger_hold_all", HOLD_SOME.replace("%s", "$1").encode())
"""The same as a prepared statement."""

NOT_HELD: Final = (psycopg.errors.CannotConnectNow, psycopg.errors.InternalError_)
"""What `HOLD` raises: the shard is on another server now; or it is none any more, because it was split."""

WRITE_TO_SHARDS: Final = """
select set_config('citus.enable_manual_changes_to_shards', 'on', false),
       set_config('plan_cache_mode', 'force_generic_plan', false)
"""
"""The settings of a session that writes to the tables of shards, which Citus refuses by default. These statements need
no plan of Citus.
"""

_NAMED: Final = r'(?i)\b((?:from|join|into|update|on constraint)[\s(]+)("?)({tables})(_pkey)?\2(?![\w"])'
_WORDS: Final = struct.Struct("<4I")
_MASK: Final = 0xFFFFFFFF
_SIGN: Final = 0x80000000


class Shard(Struct, frozen=True, eq=False):
    """The merchants whose hashes are from `first` on, as far as the next shard's, and the node that has them.

    `ids` are the ids of this shard's tables, which end their names. They stay when the shard moves to another node.
    `node` is the id that Citus gives a node for good, and `url` the server that is this node now.
    """

    first: int
    node: int
    url: str
    ids: Mapping[str, int]

    @property
    def id(self) -> int:
        """The id of this shard's table of heads, which also names the shard."""
        return self.ids[HEADS]

    @property
    def place(self) -> tuple[object, ...]:
        """What a change of the shard changes."""
        return self.first, self.node, self.url, *sorted(self.ids.items())

    def statement(self, text: str) -> str:
        """Returns a statement for the tables of this shard."""
        return _on_shard(self, text)


@lru_cache(maxsize=4096)
def _on_shard(shard: Shard, text: str) -> str:
    named = re.compile(_NAMED.format(tables="|".join(shard.ids)))
    return named.sub(lambda found: f"{found[1]}{found[3]}{found[4] or ''}_{shard.ids[found[3]]}", text)


async def read_shards(connection: psycopg.AsyncConnection[Any], url: str) -> Sequence[Shard]:
    """Returns the shards of the database that `url` names, in the order of their hashes. Raises psycopg.Error."""
    return shards_in(await (await connection.execute(SHARDS, (HEADS,))).fetchall(), url)


def shards_in(rows: Iterable[tuple[Any, ...]], url: str) -> Sequence[Shard]:
    """Returns the shards that are in the rows of `SHARDS`, in the order of their hashes."""
    by_first: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows:
        by_first.setdefault(row[2], []).append(row)
    return [_shard(by_first[first], url) for first in sorted(by_first)]


class Shards:
    """All shards as they were read last, in the order of their hashes, and the servers of the nodes that have them."""

    def __init__(self, shards: Sequence[Shard] = ()) -> None:
        self._all: Sequence[Shard] = ()
        self.replace(shards)

    def replace(self, shards: Sequence[Shard]) -> None:
        """Takes what was read later. A shard that has not changed stays the same object: statements are kept for it."""
        known = {shard.place: shard for shard in self._all}
        self._all = [known.get(shard.place, shard) for shard in shards]
        self._firsts = [shard.first for shard in shards]
        self.servers: Mapping[int, str] = {shard.node: shard.url for shard in shards}

    def of(self, merchant_id: bytes) -> Shard:
        """Returns the shard of a merchant."""
        return self._all[bisect_right(self._firsts, hash_of(merchant_id)) - 1]

    def of_each_node(self, merchants: Iterable[bytes] | None = None) -> Sequence[Sequence[Shard]]:
        """Returns the shards of each node that has any; with `merchants`, those that have some of these."""
        of_nodes: dict[int, list[Shard]] = {}
        for shard in self._all if merchants is None else dict.fromkeys(map(self.of, merchants)):
            of_nodes.setdefault(shard.node, []).append(shard)
        return list(of_nodes.values())


async def is_divided(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Returns whether Citus divides the log of a database. Raises psycopg.Error."""
    if await (await connection.execute(HAS_CITUS)).fetchone() != (True,):
        return False
    return (HEADS,) in await (await connection.execute(DISTRIBUTED_NOW)).fetchall()


def _shard(rows: Sequence[tuple[Any, ...]], url: str) -> Shard:
    _, _, first, node, host, port = rows[0]
    ids = {table: shard_id for table, shard_id, *_ in rows}
    return Shard(first, node, _at(url, host, port), ids)


def _at(url: str, host: str, port: int) -> str:
    """Returns a connection string for another server. An address in the coordinator's would go before the host."""
    options = {name: value for name, value in conninfo_to_dict(url).items() if name != "hostaddr"}
    return make_conninfo("", **options | {"host": host, "port": port})


@lru_cache(maxsize=16_384)  # a command is asked for its shard several times, and the busy merchants' are few
def hash_of(merchant_id: bytes) -> int:
    """Returns the hash of a merchant's id by which its shard is found: that of Postgres for the type uuid.

    >>> hash_of(bytes(16))
    1353656403
    """
    words = _WORDS.unpack(merchant_id)
    begin = (0x9E3779B9 + len(merchant_id) + 3923095) & _MASK
    a, b, c = _mixed((begin + words[0]) & _MASK, (begin + words[1]) & _MASK, (begin + words[2]) & _MASK)
    found = _last((a + words[3]) & _MASK, b, c)
    return found - (1 << 32) if found & _SIGN else found


def _mixed(a: int, b: int, c: int) -> tuple[int, int, int]:
    a, c = (a - c & _MASK) ^ _rotated(c, 4), c + b & _MASK
    b, a = (b - a & _MASK) ^ _rotated(a, 6), a + c & _MASK
    c, b = (c - b & _MASK) ^ _rotated(b, 8), b + a & _MASK
    a, c = (a - c & _MASK) ^ _rotated(c, 16), c + b & _MASK
    b, a = (b - a & _MASK) ^ _rotated(a, 19), a + c & _MASK
    c, b = (c - b & _MASK) ^ _rotated(b, 4), b + a & _MASK
    return a, b, c


def _last(a: int, b: int, c: int) -> int:
    c = (c ^ b) - _rotated(b, 14) & _MASK
    a = (a ^ c) - _rotated(c, 11) & _MASK
    b = (b ^ a) - _rotated(a, 25) & _MASK
    c = (c ^ b) - _rotated(b, 16) & _MASK
    a = (a ^ c) - _rotated(c, 4) & _MASK
    b = (b ^ a) - _rotated(a, 14) & _MASK
    return (c ^ b) - _rotated(b, 24) & _MASK


def _rotated(word: int, bits: int) -> int:
    return (word << bits & _MASK) | word >> (32 - bits)
