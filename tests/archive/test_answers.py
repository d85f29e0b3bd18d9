"""Every answer is the same, byte for byte, after the content of the events has gone into files."""

from __future__ import annotations

import json

import pytest
from tests.api.bodies import charge, order, paid_order
from tests.api.log.test_log import keys_of, url_of
from tests.api.storefront import ORDERS, Storefront
from tests.archive.shops import (
    LARGE,
    answers,
    archived,
    computed,
    count,
    files_of,
    fill,
    fill_tile,
    orders_of,
    paths_of,
    sold,
)

from ledger.journal.event_archive import EventArchive
from ledger.recorder.datastore import Store
from ledger.recorder.recorders import JournalApplicationRecorder
from ledger.tlog.event_lines import entry_in
from ledger.tlog.proofs import verify_proof

pytestmark = pytest.mark.anyio


async def test_every_answer_is_the_same_after_the_archive(store: Storefront):
    merchant = await fill(store, "same")
    paths = paths_of(store, merchant)
    before, whole = await answers(merchant, paths), await computed(store.settings, merchant.merchant_id)
    assert {path: answer for path, answer in before.items() if answer[0] != 200} == {}
    assert whole["clean"], whole["audit"]
    moved = await archived(store, merchant)
    assert moved.events == count(store, merchant) > 20
    assert count(store, merchant, LARGE) == 0, "an order's event has its content still"
    assert moved.files == len(files_of(store, merchant)) == 1
    after = await answers(merchant, paths)
    assert [path for path in paths if after[path] != before[path]] == []
    assert await computed(store.settings, merchant.merchant_id) == whole


async def test_the_lines_of_a_file_are_proved_without_the_service(store: Storefront):
    merchant = await sold(store)
    moved = await archived(store, merchant)
    lines = files_of(store, merchant)[0].read_bytes().splitlines()
    assert len(lines) == moved.events
    for line in lines[::7]:
        proof = await merchant.get(f"/api/v1/log/entries/{json.loads(line)['position']}/proof")
        index, _ = verify_proof(proof.content, entry_in(line), await keys_of(merchant))
        assert index == json.loads(line)["position"] - 1


async def test_a_later_event_of_an_archived_order_follows_it(store: Storefront):
    merchant = await fill(store, "late")
    await archived(store, merchant)
    pending = (await merchant.get(f"{ORDERS}/late-order")).json()
    paid = await merchant.post(f"{ORDERS}/late-order/payments", charge(amount=20_000, externalId="late-second"))
    assert paid.status_code == 201, paid.text
    shown = (await merchant.get(f"{ORDERS}/late-order")).json()
    assert shown["amountPaid"] == pending["amountPaid"] + 20_000
    events = (await merchant.get(f"{ORDERS}/{shown['id']}/events")).json()["data"]
    assert [event["version"] for event in events] == list(range(1, len(events) + 1))
    assert (await computed(store.settings, merchant.merchant_id))["clean"]
    references = count(store, merchant)
    await fill_tile(store, merchant)
    again = await archived(store, merchant)
    assert count(store, merchant) == references + again.events, "the later events are archived too"
    assert (await merchant.get(f"{ORDERS}/late-order")).json() == shown
    assert (await computed(store.settings, merchant.merchant_id))["clean"]


async def test_a_request_that_is_repeated_is_answered_from_its_archived_key(store: Storefront):
    merchant = await store.register()
    body = order(externalId="once", amount=77_000)
    first = await merchant.post(ORDERS, body, **{"idempotency-key": "one"})
    assert first.status_code == 201
    await fill_tile(store, merchant)
    await archived(store, merchant)
    again = await merchant.post(ORDERS, body, **{"idempotency-key": "one"})
    assert (again.status_code, again.json()["id"]) == (first.status_code, first.json()["id"])
    other = await merchant.post(ORDERS, order(externalId="two"), **{"idempotency-key": "one"})
    assert other.status_code in (409, 422), other.text


async def test_a_person_who_is_erased_is_in_no_archived_event(store: Storefront):
    """What is personal is sealed in the file too, and its key is destroyed."""
    merchant = await store.register()
    customer = {"externalId": "eva", "firstName": "Evangelina", "email": "eva@example.com"}
    address = {"address": "Insurgentes 1", "city": "Puebla", "country": "MX"}
    body = paid_order(externalId="hers", customer=customer, billingAddress=address)
    made = await merchant.create(body)
    assert made.status_code == 201, made.text
    await fill_tile(store, merchant)
    await archived(store, merchant)
    content = b"".join(file.read_bytes() for file in files_of(store, merchant))
    assert b'"topic":"order-created.v1"' in content
    assert b"Insurgentes" not in content
    before: list[bytes] = (await computed(store.settings, merchant.merchant_id))["export"][1]
    assert b"Insurgentes" in b"".join(before)
    erased = await merchant.delete("/api/customers/eva")
    assert erased.status_code in (200, 204), erased.text
    after: list[bytes] = (await computed(store.settings, merchant.merchant_id))["export"][1]
    assert b"Insurgentes" not in b"".join(after)


async def test_the_library_reads_archived_events(store: Storefront):
    merchant = await sold(store)
    url, merchant_id = url_of(store.settings), merchant.merchant_id
    archive = EventArchive(f"file://{store.settings.data_dir}/files")
    recorder = JournalApplicationRecorder(Store(url, merchant_id, {}, archive))
    order_id, _ = orders_of(store, merchant)[0]
    events, log = recorder.select_events(order_id), recorder.select_notifications(1, 1000)
    assert (await archived(store, merchant)).events > 0
    assert recorder.select_events(order_id) == events
    assert recorder.select_notifications(1, 1000) == log
