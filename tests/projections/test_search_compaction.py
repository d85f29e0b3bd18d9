"""Compaction: full blocks with the bits and the beginnings of their lines, and exact counters."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import psycopg
import pytest
from tests.projections.listing import ids, page, total
from tests.projections.searching import Bazaar, a_word, an_address, counted, pack
from tests.projections.shop import Shop, change_email, customer

from ledger.domain.customers.state import Customer
from projections.queries import Queries
from projections.search import compaction, counts
from projections.search.blocks import gram_bits, grams
from projections.search.compaction import SearchCompactor

pytestmark = pytest.mark.anyio

# How many rows of orders have bits and are not counted, and how many have no bits.
_LEFT = """
select count(*) filter (where not packed and grams is not null), count(*) filter (where grams is null)
  from search_block where kind = 1
"""


@pytest.mark.parametrize(("counted_from", "unpacked"), [(0, 1), (1_000, 4)])
async def test_packing_keeps_every_line_once_and_fits_fifty_long_lines_on_a_page(
    shop: Shop, database_url: str, counted_from: int, unpacked: int
) -> None:
    for n in range(150):
        await shop.order(f"order-{n}-" + "x" * 40)
    with psycopg.connect(database_url, autocommit=True) as connection:
        lines = "select * from search_line order by id"
        before = connection.execute(lines).fetchall()
        packing, rival = (SearchCompactor(database_url, counted_from=counted_from) for _ in range(2))
        async with packing, rival:
            await asyncio.gather(packing.pack(), rival.pack())
        assert connection.execute(lines).fetchall() == before
        every = "select packed, grams is null, pg_column_size(b.*) from search_block b where kind = 1"
        rows = connection.execute(every).fetchall()
        assert len(rows) == 4
        assert max(row[2] for row in rows) < 8_160
        assert [row[0] for row in rows].count(False) == unpacked
        assert [row[1] for row in rows].count(True) == 1


async def test_a_compactor_whose_connection_was_ended_connects_again(shop: Shop, database_url: str) -> None:
    async with SearchCompactor(database_url) as packing:
        await packing.pack()
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
                " where application_name = 'ledger-search-packing' and datname = current_database()"
            )
        assert await packing.pack() == 0


async def test_an_e_mail_that_was_removed_is_in_no_line_after_compaction(shop: Shop, database_url: str) -> None:
    ana = await customer(shop, "forgotten", "secret@example.com")
    await change_email(shop, ana, 1, None)
    async with SearchCompactor(database_url) as packing:
        await packing.pack()
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("select kind, texts from search_block where merchant_id = %s", (shop.merchant_id,))
        assert not [row for row in rows if "secret" in row[1] or row[0] == 3]


@pytest.mark.parametrize("at_once", [1, 2, 1_000])
async def test_no_counter_keeps_the_end_of_an_e_mail_that_no_customer_has_any_more(
    shop: Shop, database_url: str, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(counts, "ORDERS_AT_ONCE", at_once)
    ana = await customer(shop, "forgotten", "qxw@family-qxw.example")
    for n in range(5):
        await shop.order(f"order-{n}", customer_id=ana.customer_id)
    await pack(database_url)  # all but the last
    with psycopg.connect(database_url, autocommit=True) as connection:
        kept = "select text, orders from search_count where text like '%qx%' order by text"
        assert connection.execute(kept).fetchall() == [("@family-qxw.example", 4), ("qx", 4)]
        await change_email(shop, ana, 1, None)
        await pack(database_url)
        assert connection.execute(kept).fetchall() == []


async def test_counters_stay_exact_while_two_compactors_run_and_orders_and_e_mails_change(
    shop: Shop, database_url: str
) -> None:
    chance = random.Random(5)
    payers = [await customer(shop, f"c{n}", an_address(chance)) for n in range(4)]

    async def create_orders(payer: Customer) -> None:
        for n in range(12):
            await shop.order(f"{payer.external_id}-{n}{a_word(chance)}", customer_id=payer.customer_id)

    async def change_emails(payer: Customer) -> None:
        for version in range(1, 12):
            payer = await change_email(shop, payer, version, chance.choice([None, an_address(chance)]))

    async def compact() -> None:
        async with SearchCompactor(database_url, rows_min=1, block_bytes=120) as packing:
            while not done.is_set():
                await packing.pack()

    done = asyncio.Event()
    packers = [asyncio.create_task(compact()) for _ in range(2)]
    await asyncio.gather(*[create_orders(payer) for payer in payers], *[change_emails(payer) for payer in payers])
    done.set()
    await asyncio.gather(*packers)
    await pack(database_url)
    stored, expected = counted(database_url)
    assert stored == expected
    assert stored[1, "-"] > 40


async def test_a_merchant_is_counted_once_it_has_enough_full_blocks_and_every_total_is_exact_on_the_way(
    shop: Shop, reader: Queries, database_url: str
) -> None:
    chance = random.Random(11)
    bazaar = await Bazaar.open(shop, chance, payers=4)
    texts = ["a", "0", "aa", "@", "e", "example", "@aa.b", "no", "N"]
    counted_yet = []
    for _ in range(7):
        for _ in range(12):
            await bazaar.sell(chance)
        for _ in range(2):
            await pack(database_url, counted_from=30)
            stored, expected = counted(database_url)
            assert stored == expected
            for text in texts:
                assert await total(reader, shop, text) == len(bazaar.having(text)), text
            await bazaar.move(chance.randrange(4), chance.choice([None, an_address(chance)]))
            for n in (chance.randrange(len(bazaar.orders)), bazaar.having("")[-1]):
                await bazaar.rename(n, chance.choice([None, a_word(chance)]))
            for text in texts:
                assert await total(reader, shop, text) == len(bazaar.having(text)), text
        counted_yet.append(bool(stored))
    assert counted_yet[0] is False
    assert counted_yet == sorted(counted_yet)
    assert counted_yet[-1] is True
    with psycopg.connect(database_url) as connection:
        assert connection.execute(_LEFT).fetchone() == (0, 1)


async def test_all_blocks_of_a_merchant_with_enough_are_counted_at_once_however_few_are_taken_at_a_time(
    shop: Shop, reader: Queries, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_BYTES_MAX", 150)
    chance = random.Random(12)
    bazaar = await Bazaar.open(shop, chance, payers=2)
    for _ in range(20):
        await bazaar.sell(chance)
        await pack(database_url, counted_from=1_000)
    assert counted(database_url) == (Counter(), Counter())
    async with SearchCompactor(database_url, rows_min=1, block_bytes=120, counted_from=3) as packing:
        await packing.pack()
    stored, expected = counted(database_url)
    assert stored == expected
    assert stored[1, "n"] >= 17
    assert await total(reader, shop, "n") == 20


async def test_counters_are_not_used_beside_full_blocks_that_are_not_counted(
    shop: Shop, reader: Queries, database_url: str
) -> None:
    for n in range(12):
        await shop.order(f"pedido-{n:02}")
    await pack(database_url, counted_from=1_000)
    with psycopg.connect(database_url, autocommit=True) as connection:
        wrong = "insert into search_count (merchant_id, kind, text, orders) values (%s, 1, 'o-', 5)"
        connection.execute(wrong, (shop.merchant_id,))
    assert (await page(reader, shop, search="o-", limit=5))["pagination"]["total"] == 12


async def test_a_packed_block_shares_the_beginnings_of_all_its_lines(
    shop: Shop, reader: Queries, database_url: str
) -> None:
    for n in range(20):
        await shop.order(f"ñandú-{n:02}", order_number=f"PO{n:02}", invoice_number="a" if n else None)
    await pack(database_url, block_bytes=20 * 55)
    with psycopg.connect(database_url) as connection:
        shared = connection.execute("select shared from search_block where kind = 1 and packed").fetchall()
    assert shared == [("po\x1fñandú-\x1f",)]
    assert [await total(reader, shop, text) for text in ("Ñ", "po", "a", "-0", "-1")] == [20, 20, 20, 10, 10]


async def test_a_block_is_skipped_only_by_its_bits(shop: Shop, reader: Queries, database_url: str) -> None:
    for n in range(21):
        await shop.order(f"{'ñandú' if n % 2 else 'gato'}-{n:02}")
    await pack(database_url, block_bytes=21 * 55)
    with psycopg.connect(database_url, autocommit=True) as connection:
        every = "select texts, bit_count(grams) from search_block where kind = 1 and packed"
        [(texts, bits)] = connection.execute(every).fetchall()
        lines = texts.encode()
        different = {lines[at : at + size] for size in (1, 2, 3) for at in range(len(lines) - size + 1)}
        assert 0.9 * len(different) < bits <= len(different) + 2  # two more: the end of the line after the last bytes
        assert await total(reader, shop, "andú") == 10
        connection.execute("update search_block set grams = null where kind = 1")
        assert await total(reader, shop, "andú") == 10
        connection.execute("update search_block set grams = %s where kind = 1", [grams("gato")])
    assert [await total(reader, shop, text) for text in ("andú", "gat", "gato-")] == [0, 11, 0]


async def test_orders_that_an_older_release_wrote_are_folded_once_their_lines_are_packed(
    shop: Shop, reader: Queries, database_url: str
) -> None:
    for n in range(40):
        await shop.order(f"{'Ñandú' if n % 2 else 'gato'}-{n:02}")
    unfolded = "select count(*) from payment_order where names_folded is null"
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert connection.execute(unfolded).fetchone() == (20,)
        connection.execute("update payment_order set names_folded = null")
        await pack(database_url)
        assert connection.execute(unfolded).fetchone() == (21,)  # the last line is not packed yet
    assert len(ids(await page(reader, shop, search="ñ", limit=19))) == 19


def test_a_worker_of_the_previous_release_gets_an_error_that_names_the_newer_release(database_url: str) -> None:
    with psycopg.connect(database_url) as connection, pytest.raises(psycopg.OperationalError, match="newer release"):
        connection.execute("select search_grams('pedido')")


@pytest.mark.parametrize("texts", ["", "a", "ab", "ñ", "abc"])
def test_no_text_is_too_short_for_its_grams(texts: str) -> None:
    bits = grams(texts)
    assert all(bits[bit >> 3] >> (bit & 7) & 1 for bit in gram_bits(texts) or ())
    assert any(bits) == bool(texts)
