"""A tree of more than one level of tiles, whose leaf hashes are those of no events."""

from __future__ import annotations

import hashlib
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from tests.tlog.logs import KEYS, execute

from ledger.audit.leaves import LeafFile
from ledger.audit.snapshot import take_snapshot
from ledger.audit.trees import TreeAuditor, read_trees
from ledger.postgres.connection import connect
from ledger.tlog.checkpoints import Checkpoint, sign_checkpoint
from ledger.tlog.growth import grow
from ledger.tlog.merkle import CompactRange
from ledger.tlog.store import SignedCheckpoint, write_checkpoints, write_growth
from ledger.tlog.tiles import WIDTH, tile_root

pytestmark = pytest.mark.anyio

SIZE = WIDTH * WIDTH + 3


def audited(url: str, merchant: UUID, leaves: LeafFile) -> list[str]:
    with take_snapshot(url) as (connection, _):
        stored = read_trees(connection, merchant, merchant)[merchant]
        auditor = TreeAuditor(connection, leaves, KEYS, {}, merchant, merchant)
        return [each.message for each in auditor.audit(merchant, SIZE, stored)[1]]


async def test_a_tile_has_the_roots_of_the_tiles_below_it(database_url: str, tmp_path: Path) -> None:
    merchant, hashes = uuid4(), [hashlib.sha256(b"%d" % n).digest() for n in range(SIZE)]
    tiles = [(n // WIDTH, b"".join(hashes[n : n + WIDTH])) for n in range(0, SIZE, WIDTH)]
    growth = grow(CompactRange(), SIZE, tiles)
    note = sign_checkpoint(Checkpoint(KEYS.origin(merchant), SIZE, growth.edge.root()), KEYS.signers(merchant))
    async with await connect(database_url, "test") as connection, connection.transaction():
        await connection.execute("insert into log_tree (merchant_id) values (%s)", (merchant,))
        await write_growth(connection, [(merchant, growth)])
        await write_checkpoints(connection, [SignedCheckpoint(merchant, SIZE, note, KEYS.signed_by)])
    (tmp_path / "leaves").write_bytes(b"".join(hashes))
    leaves = LeafFile(tmp_path / "leaves", {merchant.bytes: 0})
    assert audited(database_url, merchant, leaves) == []
    ((above,),) = execute(database_url, "select hashes from log_tile where level = 1 and merchant_id = %s", merchant)
    other = above[:-32] + hashlib.sha256(b"").digest()
    change = "update log_tile set hashes = %s, root = %s where level = 1 and merchant_id = %s"
    execute(database_url, change, other, tile_root(other), merchant)
    assert audited(database_url, merchant, leaves) == ["tile 1/0 has not the roots of the tiles below it"]
    execute(database_url, change, above, tile_root(above), merchant)
    execute(
        database_url, "delete from log_tile where level = 0 and number between 7 and 9 and merchant_id = %s", merchant
    )
    assert audited(database_url, merchant, leaves)[0] == "the tiles 0/7 to 0/9 are missing"
    leaves.close()
