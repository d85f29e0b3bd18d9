"""A rebuild corrects every table in place from the log: edits, missing rows and rows that follow from nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.domain.builders import paid, started
from tests.edited_rows import edit_rows
from tests.journal.global_invoice_samples import GLOBAL_INVOICES
from tests.journal.samples import SAMPLES
from tests.journal.subscription_samples import SUBSCRIPTIONS
from tests.projections.shop import Shop, change_email, customer
from tests.projections.test_replay import various_events
from uuid_utils.compat import uuid7

from ledger.backup import rebuild as module
from ledger.backup.rebuild import Rebuild, rebuild
from ledger.domain.customers.events import CustomerErased
from ledger.domain.customers.evolve import evolve as evolve_customer
from ledger.domain.fold import fold
from ledger.domain.orders.terms import BillingAddress
from ledger.domain.payment_methods.state import stream_of
from ledger.domain.streams import GLOBAL_INVOICES as GLOBAL_STREAM
from ledger.domain.streams import PAYMENT_METHODS
from ledger.domain.streams import SUBSCRIPTIONS as SUBSCRIPTION_STREAM
from ledger.journal.journal import Journal
from ledger.postgres.connection import Connection, connect
from ledger.settings import CannotRun
from projections.inline import TABLES
from projections.read_models import CUSTOMER_COUNT, NAMES, READ_MODELS
from projections.rebuild import Rows, stored
from projections.search.compaction import SearchCompactor

pytestmark = pytest.mark.anyio


@pytest.fixture
async def full(shop: Shop, journal: Journal) -> Shop:
    """A shop with rows in every table."""
    await various_events(shop, journal)
    samples = (
        (PAYMENT_METHODS, [SAMPLES["payment-method-saved.v1"]], stream_of(SAMPLES["payment-method-saved.v1"].customer_id)),
        (
            SUBSCRIPTION_STREAM,
            [SUBSCRIPTIONS[f"subscription-{each}.v1"] for each in ("requested", "invoice-opened", "started")],
            SUBSCRIPTIONS["subscription-requested.v1"].subscription_id,
        ),
        (
            GLOBAL_STREAM,
            [GLOBAL_INVOICES["global-invoice-announced.v1"]],
            GLOBAL_INVOICES["global-invoice-announced.v1"].global_invoice_id,
        ),
    )  # fmt: skip
    for stream, events, stream_id in samples:
        await shop.change(stream_id, 0, events, None, fold(stream.evolve, None, events))
    await customer(shop, "luis", "luis@example.com")
    return shop


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as opened:
        yield opened


async def everything(connection: Any, merchant_id: UUID) -> tuple[Rows, list[Any]]:
    """Returns all rows of a merchant, the number of its customers too."""
    query = "select n from customer_count where merchant_id = %s"
    return await stored(connection, merchant_id), await (await connection.execute(query, (merchant_id,))).fetchall()


def differing(found: Rebuild) -> dict[str, int]:
    return {each.table: each.differing for each in found.tables if each.differing}


async def restored(shop: Shop, url: str, connection: Any, right: Any) -> dict[str, int]:
    """Returns what a check finds, after a rebuild that has found and corrected the same."""
    checked = await rebuild(url, shop.journal.reader, writes=False)
    assert checked.differs == bool(differing(checked))
    corrected = await rebuild(url, shop.journal.reader)
    assert differing(corrected) == differing(checked)
    assert await everything(connection, shop.merchant_id) == right
    assert not (await rebuild(url, shop.journal.reader)).differs
    return differing(checked)


async def test_every_table_has_a_model_with_its_own_primary_key(connection: Any) -> None:
    assert {*NAMES} == {*(table.name for table in TABLES), CUSTOMER_COUNT}
    query = (
        "select a.attname from pg_index i, unnest(i.indkey) with ordinality as k(n, place) join pg_attribute a on true"
        " where i.indrelid = %s::regclass and i.indisprimary and a.attrelid = i.indrelid and a.attnum = k.n and k.place <= i.indnkeyatts order by place"
    )
    for model in READ_MODELS:
        columns = await (await connection.execute(query, (model.name,))).fetchall()
        key = tuple(name for (name,) in columns)
        assert model.key == (key if key[-1] != "merchant_id" else key[:-1] or key), model.name  # so on Citus
        assert model.owner in dict(model.table.columns)


async def test_a_right_database_is_left_as_it_is(full: Shop, database_url: str, connection: Any) -> None:
    before = await everything(connection, full.merchant_id)
    assert all(rows for rows in before[0].values())
    versions = "select sum(n_tup_ins + n_tup_upd + n_tup_del) from pg_stat_user_tables where relname = any(%s)"
    counted = [await (await connection.execute(versions, (list(NAMES),))).fetchall()]
    found = await rebuild(database_url, full.journal.reader)
    assert differing(found) == {}
    assert {each.table: each.rows for each in found.tables} == {name: len(rows) for name, rows in before[0].items()} | {
        CUSTOMER_COUNT: 1
    }
    assert await everything(connection, full.merchant_id) == before
    assert counted == [await (await connection.execute(versions, (list(NAMES),))).fetchall()]


EDITS = [
    ("payment_order", "head = '{}', payments = ''"),
    ("payment_order", "status = 'REFUNDED', amount = null, external_id = 'other', version = 99"),
    ("customer", 'doc = convert_to(\'{"firstName":"Eva","active":true}\', \'UTF8\')'),
    ("customer", "erased = true, text_folded = null, external_id = 'x'"),
    ("merchant", "name = 'x', version = 9"),
    ("api_key", "scopes = 'x', revoked_at = null, key_id = gen_random_uuid()"),
    ("payment_method", "customer_id = gen_random_uuid(), is_default = not is_default"),
    ("product", "doc = '{}', id = 'x'"),
    ("plan", "external_id = null, summary = '{}'"),
    ("subscription", "status = 'ENDED', metadata = null"),
    ("subscription_invoice", "subscription_id = gen_random_uuid(), ordinal = 7"),
    ("global_invoice", "total = 1, status = 'x'"),
    ("global_invoice_order", "is_stated = 1 - is_stated, included_at = now()"),
    ("processor_account", "state = '{}', name = 'x'"),
    ("webhook_endpoint", "number = 7, state = '{}'"),
    ("tally", "n = n + 5"),
    (CUSTOMER_COUNT, "n = n + 5"),
]


async def test_edited_rows_are_corrected(full: Shop, database_url: str, connection: Any) -> None:
    right = await everything(connection, full.merchant_id)
    for table, edit in EDITS:
        await edit_rows(database_url, full.merchant_id, f"update {table} set {edit}")
        found = await restored(full, database_url, connection, right)
        assert found[table] == len(right[0].get(table, [()])) or table == "tally", (table, edit)
    assert {*NAMES} == {*(table for table, _ in EDITS), "search_line"}


async def test_missing_rows_are_written(full: Shop, database_url: str, connection: Any) -> None:
    right = await everything(connection, full.merchant_id)
    for name in NAMES:
        await connection.execute(f"delete from {'search_block' if name == 'search_line' else name}")
        found = await restored(full, database_url, connection, right)
        assert found[name] == len(right[0].get(name, [()]))
        assert {*found} <= {name, "search_line"}  # a line that is outdated shows the customer's row


ADDED = [
    ("payment_order", "order_id"),
    ("customer", "customer_id"),
    ("payment_method", "payment_method_id"),
    ("product", "product_id, id"),
    ("plan", "plan_id, external_id"),
    ("subscription", "subscription_id, external_id"),
    ("subscription_invoice", "invoice_id"),
    ("global_invoice", "global_invoice_id"),
    ("global_invoice_order", "order_id"),
    ("global_invoice_order", "global_invoice_id"),
    ("processor_account", "account_id"),
    ("webhook_endpoint", "endpoint_id"),
    ("api_key", "key_hash"),
    ("tally", "status"),
    *[(model.name, "merchant_id") for model in READ_MODELS if model.key != ("key_hash",)],
    ("tally", "merchant_id"),
    (CUSTOMER_COUNT, "merchant_id"),
    ("search_block", "merchant_id"),
]


async def test_surplus_rows_go(full: Shop, database_url: str, connection: Any) -> None:
    right = await everything(connection, full.merchant_id)
    query = "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped"
    texts = dict.fromkeys(("id", "external_id", "status"), "'surplus'") | {"key_hash": "'\\x01'::bytea"}
    for table, changed in ADDED:
        columns = [name for (name,) in await (await connection.execute(query, (table,))).fetchall()]
        new = {name: texts.get(name, "gen_random_uuid()") for name in changed.split(", ")}
        shown = ", ".join(new.get(name, name) for name in columns)
        await connection.execute(f"insert into {table} ({', '.join(columns)}) select {shown} from {table} limit 1")
        found = await restored(full, database_url, connection, right)
        assert found["search_line" if table == "search_block" else table] == 1, (table, changed)
        left = f"select count(*) from {table} where merchant_id <> %s"
        assert await (await connection.execute(left, (full.merchant_id,))).fetchone() == (0,)


async def test_only_the_named_tables_are_corrected(full: Shop, database_url: str, connection: Any) -> None:
    await connection.execute("update product set doc = '{}'")
    await connection.execute("update plan set doc = '{}'")
    await connection.execute("update tally set n = 9 where n <> 0")
    reader = full.journal.reader
    assert differing(await rebuild(database_url, reader, tables=["plan"])) == {"plan": 1}
    assert differing(await rebuild(database_url, reader, tables=["product"], merchant_id=full.merchant_id)) == {
        "product": 1
    }
    assert differing(await rebuild(database_url, reader)) == {"tally": 3}
    with pytest.raises(CannotRun, match="there is no merchant"):
        await rebuild(database_url, reader, merchant_id=uuid7())


LINE_EDITS = (
    "update search_block set texts = replace(texts, 'paid', 'void') where kind = 1",
    "update search_block set ats = array_fill(now(), array[cardinality(ats)]) where kind = 1",
    "update search_block set ids = array(select gen_random_uuid() from unnest(ids)) where kind in (1, 2)",
    "delete from search_block where kind = 2",
    "insert into search_block select * from search_block where kind in (1, 2) limit 2",
    "insert into search_block select merchant_id, 1, merchant_id, false, array[merchant_id], '{null}', '' from merchant",
    "update search_block set newest = '2001-01-01' where kind = 1",
    "update search_block set first_id = gen_random_uuid() where kind = 2",
    "update search_block set texts = texts || chr(10) || 'x' where kind in (1, 2)",
)
COUNTER_EDITS = (
    "update search_count set orders = orders + 1 where text = 'e'",
    "delete from search_count where kind = 2",
    "delete from search_count",
    "insert into search_count select merchant_id, 1, '~', 1 from merchant",
)


@pytest.mark.parametrize("is_packed", [False, True])
async def test_lines_of_searches_are_corrected(full: Shop, database_url: str, connection: Any, is_packed: bool) -> None:
    for n in range(4):
        await full.order(f"more-{n}")
    compactor = SearchCompactor(database_url, rows_min=1, block_bytes=40, counted_from=1)
    async with compactor:
        for _ in range(3 * is_packed):
            await compactor.pack()
        right = await everything(connection, full.merchant_id)
        counters = "select kind, text, orders from search_count order by 1, 2"
        counted = await (await connection.execute(counters)).fetchall()
        assert bool(counted) == is_packed
        for edit in LINE_EDITS + (COUNTER_EDITS if is_packed else ()):
            await edit_rows(database_url, full.merchant_id, edit)
            assert {*await restored(full, database_url, connection, right)} == {"search_line"}
            for _ in range(3 * is_packed):
                await compactor.pack()
            assert await everything(connection, full.merchant_id) == right
            assert await (await connection.execute(counters)).fetchall() == counted


@pytest.mark.parametrize("kind", [1, 2])
async def test_lines_that_a_compactor_moves_meanwhile_are_corrected(
    full: Shop, database_url: str, connection: Any, kind: int
) -> None:
    """A rebuild that waits for the compactor's transaction takes the lines out of the rows that this one has written,
    and leaves none of these rows packed without its counters.
    """
    for n in range(6):
        await full.order(f"more-{n}")
    right = await everything(connection, full.merchant_id)
    async with SearchCompactor(database_url, rows_min=1, block_bytes=40, counted_from=1_000_000) as before:
        await before.pack()
    await connection.execute("update search_block set packed = kind <> %s", [kind])  # it takes those of this kind alone
    await connection.execute("update search_block set grams = null where kind = 2")
    edited = "(select ctid from search_block where kind = %s order by texts limit 1)"
    await edit_rows(
        database_url, full.merchant_id, f"update search_block set texts = 'x' || texts where ctid = {edited}", kind
    )
    async with SearchCompactor(database_url, rows_min=1, block_bytes=40, counted_from=1) as compactor:
        packing = compactor._connection
        assert packing is not None
        async with compactor._transactions.begin(packing, full.merchant_id) as on_its_server:
            await compactor._compact(on_its_server, full.merchant_id)
            correcting = asyncio.create_task(rebuild(database_url, full.journal.reader))
            await waiting_for_a_lock(connection, correcting)
        await correcting
    assert await everything(connection, full.merchant_id) == right
    uncounted = "select count(*) from search_block where packed and kind = 1"
    assert await (await connection.execute(uncounted)).fetchone() == (0,)


async def waiting_for_a_lock(connection: Any, task: asyncio.Task[Rebuild]) -> None:
    query = (
        "select count(*) from pg_stat_activity where application_name = 'ledger-rebuild' and wait_event_type = 'Lock'"
    )
    if os.environ.get("LEDGER_TEST_CITUS"):
        query = f"select sum(result::int) from run_command_on_workers($${query}$$)"
    while await (await connection.execute(query)).fetchone() == (0,):
        assert not task.done()
        await asyncio.sleep(0.01)


async def test_a_log_with_a_gap_corrects_nothing(full: Shop, database_url: str, connection: Any) -> None:
    reader = full.journal.reader
    await connection.execute("delete from event where position = 3")
    with pytest.raises(CannotRun, match="up to the position"):
        await rebuild(database_url, reader)
    await connection.execute("update merchant_head set position = position - 1")
    with pytest.raises(CannotRun, match="a version of the stream"):
        await rebuild(database_url, reader)
    await connection.execute("delete from event where topic = 'order-created.v1'")
    await connection.execute("update merchant_head set position = (select count(*) from event)")
    with pytest.raises(CannotRun, match="has 5 streams without their first event"):
        await rebuild(database_url, reader)
    assert (await (await connection.execute("select count(*) from payment_order")).fetchone()) == (5,)


@pytest.mark.parametrize(
    "edit",
    [
        "update event set data = 'x' where topic = 'order-created.v1'",
        "update event set topic = 'payment-captured.v9' where topic = 'payment-captured.v1'",
        "update event set data = overlay(data placing 'AAAA' from 60) where topic = 'customer-created.v1'",
    ],
)
async def test_a_log_with_an_unreadable_event_corrects_nothing(
    full: Shop, database_url: str, connection: Any, edit: str
) -> None:
    await connection.execute(edit)
    with pytest.raises(CannotRun, match="an event of the log cannot be read"):
        await rebuild(database_url, full.journal.reader)


async def test_a_killed_rebuild_is_run_again(
    full: Shop, database_url: str, connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(30):
        await full.order(f"more-{n}", *paid(1, 10_000))
    right = await everything(connection, full.merchant_id)
    await connection.execute("update payment_order set head = '{}'")
    await connection.execute("update tally set n = n + 1 where n <> 0")
    written = module._Repair._write
    calls = []

    async def killed(self: Any, connection: Any, wrong: Any) -> None:
        calls.append(wrong)
        if len(calls) == 3:
            raise KeyboardInterrupt
        await written(self, connection, wrong)

    monkeypatch.setattr(module._Repair, "_write", killed)
    with pytest.raises(BaseException):  # noqa: B017 - as the process would end
        await rebuild(database_url, full.journal.reader)
    monkeypatch.undo()
    done = await (await connection.execute("select count(*) from payment_order where head <> '{}'")).fetchone()
    assert 0 < done[0] < 35
    found = await restored(full, database_url, connection, right)
    assert found == {"payment_order": 35 - done[0], "tally": 3}


async def test_commits_meanwhile_are_kept(full: Shop, database_url: str, connection: Any) -> None:
    """Each order changes between the snapshot and the lock of its page, or beside it."""
    orders = [await full.order(f"more-{n}", started(1, 10_000)) for n in range(40)]
    await connection.execute("update payment_order set payments = '[]', amount = 1")
    await connection.execute("update tally set n = n + 3")
    rows = "select count(*) from payment_order where head <> '' and external_id in ('paid', 'split')"

    async def read() -> None:
        while not rebuilding.done():
            assert await (await connection.execute(rows)).fetchone() == (2,)

    rebuilding = asyncio.create_task(rebuild(database_url, full.journal.reader))
    reading = asyncio.create_task(read())
    for n, order in enumerate(orders):
        await full.then(order, *paid(2, 10_000))
        await full.order(f"new-{n}")
    found = differing(await rebuilding)
    await reading
    assert found["payment_order"] >= 5
    assert "tally" in found
    assert not (await rebuild(database_url, full.journal.reader, writes=False)).differs


async def test_a_person_who_was_erased_meanwhile_is_not_written_again(
    full: Shop, database_url: str, connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    luis = await customer(full, "later", "later@example.com")
    await full.order("his", customer_id=luis.customer_id, billing_address=BillingAddress(address="Casa 77"))
    luis = await change_email(full, luis, 1, "last@example.com")
    await connection.execute("update payment_order set head = '{}'")
    await connection.execute("update customer set doc = '{}'")
    erased = CustomerErased(customer_id=luis.customer_id, at=luis.updated_at)
    written = module._Repair.write
    done = []

    async def erase_first(self: Any, wrong: Any) -> None:
        if not done:
            done.append(erased)
            await full.change(luis.customer_id, 2, [erased], luis, evolve_customer(luis, erased))
        await written(self, wrong)

    monkeypatch.setattr(module._Repair, "write", erase_first)
    await rebuild(database_url, full.journal.reader)
    monkeypatch.undo()
    row = await (
        await connection.execute("select doc, erased from customer where customer_id = %s", (luis.customer_id,))
    ).fetchone()
    assert b"last@" not in row[0]
    assert row[1]
    (head,) = await (await connection.execute("select head from payment_order where external_id = 'his'")).fetchone()
    assert head.startswith(b'{"id"')
    assert b"Casa 77" not in head
    assert not (await rebuild(database_url, full.journal.reader, writes=False)).differs


async def test_one_rebuild_at_a_time(full: Shop, database_url: str) -> None:
    async with await connect(database_url, "other") as other:
        assert isinstance(other, Connection)
        await other.execute("select pg_advisory_lock(%s)", (module._LOCK,))
        with pytest.raises(CannotRun, match="another rebuild runs"):
            await rebuild(database_url, full.journal.reader)
        assert not (await rebuild(database_url, full.journal.reader, writes=False)).differs


async def test_events_of_another_application_have_no_rows(full: Shop, database_url: str, connection: Any) -> None:
    await connection.execute(
        "insert into event select merchant_id, gen_random_uuid(), 1, position + 1, gen_random_uuid(), now(), 'other',"
        " '\\x00', '' from merchant_head"
    )
    await connection.execute("update merchant_head set position = position + 1")
    assert not (await rebuild(database_url, full.journal.reader)).differs


async def test_the_first_orders_are_explained(full: Shop, database_url: str, connection: Any) -> None:
    for n in range(25):
        await full.order(f"more-{n}")
    await edit_rows(
        database_url,
        full.merchant_id,
        "update payment_order set status = 'FAILED', head = convert_to(replace(convert_from(head, 'UTF8'),"
        " '\"amountPaid\":', '\"amountPaid\":9'), 'UTF8') where external_id like 'more%%' or external_id = 'paid'",
    )
    found = await rebuild(database_url, full.journal.reader, writes=False)
    assert len({change.order_id for change in found.orders}) == 20
    assert {change.field for change in found.orders} == {"amountPaid", "status"}
    await connection.execute("update payment_order set status = 'x', head = '' where external_id = 'paid'")
    await connection.execute("delete from payment_order where external_id = 'split'")
    by_field: dict[str, Any] = {}
    for change in (await rebuild(database_url, full.journal.reader, writes=False)).orders:
        by_field.setdefault(change.field, []).append((change.stored, change.computed))
    assert ("x", "COMPLETED") in by_field["status"]
