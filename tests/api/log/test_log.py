"""The log's tree over HTTP: what is answered is verified by the parts of `ledger.tlog` that read nothing of a database."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from tests.api.bodies import by_card, order
from tests.api.storefront import Merchant, Storefront
from tests.tlog.logs import append, entries, execute, sealer_of

from ledger.operations.context.inputs import Actor
from ledger.operations.erasure.erase_customer import delete_customer
from ledger.security.api_keys import Scope
from ledger.security.secrets import load_checkpoint_keys
from ledger.settings import Settings, log_origin
from ledger.tlog.checkpoints import Checkpoint, open_checkpoint
from ledger.tlog.keys import LogKeys
from ledger.tlog.merkle import consistency_ranges, inclusion_ranges, leaf_hash, verify_consistency, verify_inclusion
from ledger.tlog.notes import Unverified, Verifier, parse_verifier
from ledger.tlog.proofs import verify_proof
from ledger.tlog.tiles import bundles_in, decode_bundle, range_hash, tile_path, tiles_in

pytestmark = pytest.mark.anyio

LOG = "/api/v1/log"
TEXT = "text/plain; charset=utf-8"


def url_of(settings: Settings) -> str:
    assert settings.database_url is not None
    return settings.database_url


async def seal(settings: Settings) -> None:
    keys = LogKeys(log_origin(settings), load_checkpoint_keys(settings))
    async with sealer_of(url_of(settings), keys) as sealer:
        await sealer.seal(asyncio.Event())


async def keys_of(merchant: Merchant) -> list[Verifier]:
    answer = await merchant.get(f"{LOG}/key")
    assert (answer.status_code, answer.headers["content-type"]) == (200, TEXT)
    return [parse_verifier(line) for line in answer.text.splitlines()]


async def checkpoint_of(merchant: Merchant) -> Checkpoint:
    answer = await merchant.get(f"{LOG}/checkpoint")
    assert (answer.status_code, answer.headers["content-type"]) == (200, TEXT)
    return open_checkpoint(answer.content, await keys_of(merchant))


async def refused(merchant: Merchant, path: str) -> tuple[int, str]:
    answer = await merchant.get(f"{LOG}/{path}")
    assert "retry-after" in answer.headers if answer.status_code == 409 else True
    return answer.status_code, answer.json()["code"]


async def test_every_event_is_proved_to_a_verifier_that_has_the_key_alone(store: Storefront, merchant: Merchant):
    await merchant.create(order(externalId="1", paymentMethod=by_card()))
    await seal(store.settings)
    verifiers = await keys_of(merchant)
    assert [each.name for each in verifiers] == [f"127.0.0.1/v1/log/{merchant.merchant_id}"]
    logged = entries(url_of(store.settings), merchant.merchant_id)
    checkpoint = await checkpoint_of(merchant)
    assert checkpoint.size == len(logged) > 3
    for position, entry in enumerate(logged, 1):
        file = await merchant.get(f"{LOG}/entries/{position}/proof")
        assert (file.status_code, file.headers["content-type"], file.headers["vary"]) == (200, TEXT, "accept")
        assert verify_proof(file.content, entry, verifiers) == (position - 1, checkpoint)
        shown = (await merchant.get(f"{LOG}/entries/{position}/proof", accept="application/json")).json()
        assert (shown["entry"].encode(), shown["position"], shown["index"]) == (entry, position, position - 1)
        proof = [base64.b64decode(each) for each in shown["proof"]]
        root = open_checkpoint(shown["checkpoint"].encode(), verifiers).root
        assert verify_inclusion(leaf_hash(entry), shown["index"], shown["size"], proof, root)
        assert json.loads(entry)["position"] == position


async def test_a_log_of_several_tiles_is_read_tile_by_tile(store: Storefront, merchant: Merchant):
    """As a client of tlog-tiles does: everything follows from the tiles and the checkpoint."""
    url = url_of(store.settings)
    append(url, merchant.merchant_id, 700)
    await seal(store.settings)
    checkpoint, logged = await checkpoint_of(merchant), entries(url, merchant.merchant_id)
    tiles, bundles = {}, list[bytes]()
    for tile in (*tiles_in(checkpoint.size), *bundles_in(checkpoint.size)):
        answer = await merchant.get(f"{LOG}/tile/{tile_path(tile)}")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/octet-stream")
        assert "immutable" in answer.headers["cache-control"]
        if tile.level == "entries":
            bundles += decode_bundle(answer.content)
        else:
            tiles[tile.level, tile.number] = answer.content
    assert bundles == logged

    def read(level: int, number: int) -> bytes:
        return tiles[level, number]

    assert range_hash(range(checkpoint.size), read) == checkpoint.root
    for index in (0, 255, 256, 511, 600, checkpoint.size - 1):
        proof = [range_hash(entries, read) for entries in inclusion_ranges(index, checkpoint.size)]
        assert verify_inclusion(leaf_hash(logged[index]), index, checkpoint.size, proof, checkpoint.root)
        file = await merchant.get(f"{LOG}/entries/{index + 1}/proof")
        assert verify_proof(file.content, logged[index], await keys_of(merchant))[0] == index
    part = await merchant.get(f"{LOG}/tile/0/001.p/7")
    assert part.content == tiles[0, 1][: 7 * 32]
    escaped = await merchant.get(f"{LOG}/tile/0%2F001")
    assert escaped.content == tiles[0, 1]


async def test_checkpoints_continue_each_other(store: Storefront, merchant: Merchant):
    url, found = url_of(store.settings), list[Checkpoint]()
    for count in (0, 1, 250, 3, 300):
        append(url, merchant.merchant_id, count)
        await seal(store.settings)
        found.append(await checkpoint_of(merchant))
    sizes = [each.size for each in found]
    assert sizes == sorted({*sizes}) or count == 0
    for old in found:
        for new in found:
            if old.size > new.size:
                continue
            answer = await merchant.get(f"{LOG}/consistency?from={old.size}&to={new.size}")
            shown = answer.json()
            assert (shown["from"], shown["to"]) == (old.size, new.size)
            proof = [base64.b64decode(each) for each in shown["proof"]]
            assert verify_consistency(old.size, new.size, proof, old.root, new.root)
            assert len(proof) == len(consistency_ranges(old.size, new.size))
    newest = (await merchant.get(f"{LOG}/consistency?from=1")).json()
    assert newest["to"] == found[-1].size
    earlier = await merchant.get(f"{LOG}/entries/1/proof?size={found[1].size}")
    entry = entries(url, merchant.merchant_id)[0]
    assert verify_proof(earlier.content, entry, await keys_of(merchant)) == (0, found[1])
    assert await refused(merchant, f"entries/1/proof?size={found[1].size + 1}") == (404, "CHECKPOINT_NOT_FOUND")


async def test_what_is_not_there_yet_or_never(store: Storefront, merchant: Merchant):
    assert await refused(merchant, "checkpoint") == (404, "LOG_EMPTY")
    assert await refused(merchant, "consistency?from=1") == (404, "LOG_EMPTY")
    assert await refused(merchant, "entries/1/proof") == (409, "ENTRY_NOT_SEALED")
    assert await refused(merchant, "tile/0/000.p/1") == (404, "TILE_NOT_FOUND")
    await seal(store.settings)
    size = (await checkpoint_of(merchant)).size
    append(url_of(store.settings), merchant.merchant_id, 2)
    assert await refused(merchant, f"entries/{size + 1}/proof") == (409, "ENTRY_NOT_SEALED")
    assert await refused(merchant, f"entries/{size + 3}/proof") == (404, "ENTRY_NOT_FOUND")
    assert await refused(merchant, f"entries/1/proof?size={size + 1}") == (409, "ENTRY_NOT_SEALED")
    assert await refused(merchant, f"entries/1/proof?size={size + 3}") == (404, "CHECKPOINT_NOT_FOUND")
    assert await refused(merchant, f"consistency?from=1&to={size + 1}") == (409, "ENTRY_NOT_SEALED")
    assert await refused(merchant, f"consistency?from={size + 3}") == (404, "ENTRY_NOT_FOUND")
    for path in (f"0/000.p/{size + 1}", "0/000", "1/000.p/1", "0/001.p/1", "63/000", "entries/000", "0/x001", "x", "0/0",
                 f"entries/000.p/{size + 1}", "0/" + "x999/" * 6 + "999", "0/٠٠٠", "..%2F..%2Fkey", "0/000.p/0"):  # fmt: skip
        assert await refused(merchant, f"tile/{path}") == (404, "TILE_NOT_FOUND"), path
    assert (await merchant.get(f"{LOG}/tile/0/000.p/{size}")).status_code == 200


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("entries/0/proof", ["position"]),
        ("entries/-1/proof", ["position"]),
        ("entries/01/proof", ["position"]),
        ("entries/x/proof", ["position"]),
        ("entries/99999999999999999999/proof", ["position"]),
        ("entries/9007199254740992/proof", ["position"]),
        ("entries/1/proof?size=0", ["size"]),
        ("entries/2/proof?size=1", ["size"]),
        ("entries/1/proof?size=1e3&limit=3", ["size", "limit"]),
        ("consistency", ["from"]),
        ("consistency?from=0&to=0", ["from", "to"]),
        ("consistency?from=3&to=2", ["from"]),
        ("consistency?from=9007199254740992", ["from"]),
        ("checkpoint?size=1", ["size"]),
        ("key?x=1", ["x"]),
        ("tile/0/000?width=1", ["width"]),
    ],
)
async def test_wrong_parameters_are_named(merchant: Merchant, path: str, fields: list[str]):
    answer = await merchant.get(f"{LOG}/{path}")
    assert answer.status_code == 400, answer.text
    assert sorted({error["field"] for error in answer.json()["errors"]}) == sorted(fields)


async def test_a_key_sees_its_own_log_alone_and_needs_the_scope(store: Storefront, merchant: Merchant):
    other = await store.register()
    append(url_of(store.settings), merchant.merchant_id, 30)
    await seal(store.settings)
    own, foreign = await checkpoint_of(merchant), await checkpoint_of(other)
    assert own.size == foreign.size + 30
    assert own.origin != foreign.origin
    assert await refused(other, f"entries/{own.size}/proof") == (404, "ENTRY_NOT_FOUND")
    assert await refused(other, f"tile/0/000.p/{own.size}") == (404, "TILE_NOT_FOUND")
    with pytest.raises(Unverified):
        open_checkpoint((await merchant.get(f"{LOG}/checkpoint")).content, await keys_of(other))
    for scopes, status in ((frozenset({Scope.AUDIT}), 200), (frozenset(Scope) - {Scope.AUDIT}, 401)):
        key = await store.another_key(merchant, scopes=scopes)
        for path in ("key", "checkpoint", "tile/0/000.p/1", "entries/1/proof", "consistency?from=1"):
            assert (await key.get(f"{LOG}/{path}")).status_code == status, path


async def test_proofs_outlive_an_erasure_and_name_no_person(store: Storefront, merchant: Merchant):
    await merchant.create(order(externalId="1", customer={"externalId": "ana", "firstName": "Anastasia"}))
    await seal(store.settings)
    size = (await checkpoint_of(merchant)).size
    kept = [(await merchant.get(f"{LOG}/entries/{n}/proof")).content for n in range(1, size + 1)]
    logged = entries(url_of(store.settings), merchant.merchant_id)

    async def orders_of(*_: Any) -> list[Any]:
        return []

    await delete_customer(store.ledger, Actor(merchant_id=merchant.merchant_id), "ana", orders_of)
    await seal(store.settings)
    verifiers = await keys_of(merchant)
    for index, (file, entry) in enumerate(zip(kept, logged, strict=True)):
        assert verify_proof(file, entry, verifiers)[0] == index
        again = (await merchant.get(f"{LOG}/entries/{index + 1}/proof?size={size}")).content
        assert again == file
    bundle = (await merchant.get(f"{LOG}/tile/entries/000.p/{size}")).text
    assert "nastasia" not in bundle


async def test_a_removed_event_is_answered_and_an_edited_one_is_not_proved(store: Storefront, merchant: Merchant):
    url = url_of(store.settings)
    append(url, merchant.merchant_id, 30)
    await seal(store.settings)
    size = (await checkpoint_of(merchant)).size
    assert (await merchant.get(f"{LOG}/entries/9/proof")).status_code == 200
    event, mine = "update event set data = {} where merchant_id = %s and position = 9", merchant.merchant_id
    execute(url, event.format("'x'::bytea || data"), mine)
    assert (await merchant.get(f"{LOG}/entries/9/proof")).json()["code"] == "LOG_CHANGED"
    execute(url, event.format("substr(data, 2)"), mine)
    assert (await merchant.get(f"{LOG}/entries/9/proof")).status_code == 200
    execute(url, "update log_checkpoint set note = 'x' || substr(note, 60) where merchant_id = %s", mine)
    assert (await merchant.get(f"{LOG}/entries/9/proof")).json()["code"] == "LOG_CHANGED"
    execute(url, "delete from event where merchant_id = %s and position = 10", merchant.merchant_id)
    for path in ("entries/10/proof", "entries/1/proof", f"consistency?from=5&to={size}"):
        answer = await merchant.get(f"{LOG}/{path}")
        assert (answer.status_code, answer.json()["code"]) == (409, "LOG_CHANGED")
    assert await refused(merchant, f"tile/0/000.p/{size}") == (404, "TILE_NOT_FOUND")
    assert await refused(merchant, f"tile/entries/000.p/{size}") == (404, "TILE_NOT_FOUND")
