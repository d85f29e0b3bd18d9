"""The search: literal, without regard to case, at once after a commit, and about what is true now."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.core.story import NOON
from tests.projections.shop import Shop
from tests.projections.test_lists_filters import customer, ids, page, tell

from ledger.customers.state import Customer
from ledger.journal.journal import Journal
from projections import list_statements
from projections.loader import Reader
from projections.pages import parse_cursor
from projections.search_blocks import bits
from projections.search_packing import SearchPacking
from projections.search_text import fold, fold_search

pytestmark = pytest.mark.anyio


async def total(reader: Reader, shop: Shop, search: str, **query: Any) -> int:
    found: int = (await page(reader, shop, search=search, **query))["pagination"]["total"]
    return found


async def pack(database_url: str) -> int:
    """Pack and count whatever is there, a few lines to a row; the last of them are not packed, as ever."""
    async with SearchPacking(database_url, rows_min=1, block_bytes=120) as packing:
        return await packing.pack()


@pytest.mark.parametrize(
    ("external_id", "finds", "misses"),
    [
        ("100%", ["%", "0%", "100%"], ["1%0", "%%", "100%%"]),
        ("a_b", ["_", "a_b", "A_B"], ["a__b", "_b_"]),
        ("back\\slash", ["\\", "k\\s", "\\S"], ["\\\\", "\\_", "k\\%"]),
        ("o'brien", ["'", "O'B"], ["''", "o\\'b"]),
        ('say "hi"', ['"', 'Y "H'], ['""']),
        ("ÑANDÚ", ["ñandú", "Ñ", "ú"], ["nandu"]),
        ("straße", ["STRASSE", "ß", "SS"], ["strase"]),
        ("ΣΊΣΥΦΟΣ", ["σίσυφος", "φοσ"], ["ο φ"]),
        ("日本-1", ["日本", "本-"], ["本日"]),
        ("two words", ["o w", " "], ["  "]),
        ("emoji-😀", ["😀"], ["😁"]),
        ("flag-\U000e0067\U000e0062\U0010fffd", ["\U000e0067\U000e0062\U0010fffd"], ["\U000e0067\U000e0062\U0010fffc"]),
    ],
)
async def test_a_text_is_found_literally_and_in_any_case(
    shop: Shop, reader: Reader, database_url: str, external_id: str, finds: list[str], misses: list[str]
) -> None:
    await shop.order(external_id, order_number="NUMBER")
    for n in range(3):
        await shop.order(f"vw{n}")
    for packed in (False, True):
        if packed:
            await pack(database_url)
        for term in finds:
            assert await total(reader, shop, term) == 1, (term, packed)
        for term in misses:
            assert await total(reader, shop, term) == 0, (term, packed)


async def test_a_match_never_spans_two_fields_or_two_orders(shop: Shop, reader: Reader) -> None:
    await shop.order("ext", order_number="NUM", invoice_number="INV")
    await shop.order("ext2", order_number="NUM2")
    for term in ("NUMext", "NUM\x1fext", "INVNUM", "inv\nnum", "num ext", "\x1f", "\n", "\0"):
        assert await total(reader, shop, term) == 0, term
    assert await total(reader, shop, "num") == 2


async def test_an_order_that_matches_in_every_way_is_found_once(shop: Shop, reader: Reader) -> None:
    ana = await customer(shop, "twice", "same@example.com")
    await shop.order("same", order_number="SAME", invoice_number="same-same", customer_id=ana.customer_id)
    assert await total(reader, shop, "same") == 1


async def test_an_order_is_found_as_soon_as_it_is_acknowledged(shop: Shop, reader: Reader, database_url: str) -> None:
    async with SearchPacking(database_url) as packing:
        packer = asyncio.create_task(_pack_without_end(packing))
        for n in range(120):
            await shop.order(f"fresh-{n:03}.", at=NOON + timedelta(seconds=n))
            assert await total(reader, shop, f"FRESH-{n:03}.") == 1
            assert await total(reader, shop, "fresh") == n + 1
        packer.cancel()
        await asyncio.gather(packer, return_exceptions=True)


async def _pack_without_end(packing: SearchPacking) -> None:
    while True:
        await packing.pack()
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("packs", [False, True])
async def test_a_search_follows_the_customers_current_address(
    shop: Shop, reader: Reader, database_url: str, packs: bool
) -> None:
    async with SearchPacking(database_url) as packing:
        ana = await customer(shop, "moving", "Old@example.com")
        await shop.order("one", customer_id=ana.customer_id)
        for version, email in enumerate(["new@example.com", None, "third@example.com", "old@example.com", None], 1):
            ana = await tell(shop, ana, version, email)
            if packs:
                assert await packing.pack() == 1
                assert await packing.pack() == 0
            for term in ("old@", "new@", "third@"):
                assert await total(reader, shop, term) == (term in (email or "")), (email, term)


async def test_an_address_given_later_is_found(shop: Shop, reader: Reader, database_url: str) -> None:
    ana = await customer(shop, "silent", None)
    await shop.order("one", customer_id=ana.customer_id)
    await tell(shop, ana, 1, "Late@example.com")
    assert await total(reader, shop, "late@") == 1
    async with SearchPacking(database_url) as packing:
        await packing.pack()
    assert await total(reader, shop, "late@") == 1


async def test_an_address_that_was_taken_away_stands_nowhere_once_the_lines_are_tidied(
    shop: Shop, database_url: str
) -> None:
    ana = await customer(shop, "forgotten", "secret@example.com")
    await tell(shop, ana, 1, None)
    async with SearchPacking(database_url) as packing:
        await packing.pack()
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("select kind, texts from search_block where merchant_id = %s", (shop.merchant_id,))
        assert not [row for row in rows if "secret" in row[1] or row[0] == 3]


async def test_no_counter_keeps_the_end_of_an_address_that_nobody_has_any_more(shop: Shop, database_url: str) -> None:
    ana = await customer(shop, "forgotten", "qxw@family-qxw.example")
    for n in range(5):
        await shop.order(f"order-{n}", customer_id=ana.customer_id)
    await pack(database_url)
    with psycopg.connect(database_url, autocommit=True) as connection:
        kept = "select text, orders from search_count where text like '%qx%' order by text"
        assert connection.execute(kept).fetchall() == [("@family-qxw.example", 4), ("qx", 4)]
        await tell(shop, ana, 1, None)
        await pack(database_url)
        assert connection.execute(kept).fetchall() == []


async def test_counters_stay_exact_while_two_pack_and_orders_and_addresses_come_in(
    shop: Shop, database_url: str
) -> None:
    chance = random.Random(5)
    payers = [await customer(shop, f"c{n}", f"{a_word(chance)}@{chance.choice(DOMAINS)}") for n in range(4)]

    async def sell(payer: Customer) -> None:
        for n in range(12):
            await shop.order(f"{payer.external_id}-{n}{a_word(chance)}", customer_id=payer.customer_id)

    async def move(payer: Customer) -> None:
        for version in range(1, 12):
            payer = await tell(
                shop, payer, version, chance.choice([None, f"{a_word(chance)}@{chance.choice(DOMAINS)}"])
            )

    async def tidy() -> None:
        async with SearchPacking(database_url, rows_min=1, block_bytes=120) as packing:
            while not done.is_set():
                await packing.pack()

    done = asyncio.Event()
    packers = [asyncio.create_task(tidy()) for _ in range(2)]
    await asyncio.gather(*[sell(payer) for payer in payers], *[move(payer) for payer in payers])
    done.set()
    await asyncio.gather(*packers)
    await pack(database_url)
    said, expected = counted(database_url)
    assert said == expected
    assert said[1, "-"] > 40


async def test_packing_keeps_every_line_once_and_needs_no_more_than_a_page_for_fifty_long_ones(
    shop: Shop, reader: Reader, database_url: str
) -> None:
    for n in range(150):
        await shop.order(f"order-{n}-" + "x" * 40)
    with psycopg.connect(database_url, autocommit=True) as connection:
        lines = "select * from search_line order by id"
        before = connection.execute(lines).fetchall()
        async with SearchPacking(database_url) as packing, SearchPacking(database_url) as rival:
            await asyncio.gather(packing.pack(), rival.pack())
        assert connection.execute(lines).fetchall() == before
        rows = connection.execute("select packed, pg_column_size(b.*) from search_block b where kind = 1").fetchall()
        assert len(rows) == 4
        assert max(size for _, size in rows) < 8_160
        assert [packed for packed, _ in rows].count(False) == 1


async def test_a_packing_whose_connection_was_ended_connects_again(shop: Shop, database_url: str) -> None:
    async with SearchPacking(database_url) as packing:
        await packing.pack()
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'ledger-search-packing'"
            )
        with pytest.raises(Exception, match="Admin"):
            await packing.pack()
        assert await packing.pack() == 0


async def test_a_search_opens_only_its_own_merchants_lines(shop: Shop, journal: Journal, reader: Reader) -> None:
    other = await Shop(journal).open()
    await other.order("theirs")
    mine = await shop.order("mine")
    assert ids(await page(reader, shop, search="e")) == [str(mine.terms.order_id)]
    assert await total(reader, shop, "theirs") == 0


def test_folding_twice_changes_nothing_and_nothing_is_escaped() -> None:
    for text in ("İSTANBUL", "ẞ", "ﬁ", "ΌΣΟΣ", "a%_\\"):
        assert fold(fold(text)) == fold(text)
    assert fold_search("A%_\\") == "a%_\\"
    assert fold_search("a\tb") is None


async def test_a_text_that_every_order_has_filters_nothing_and_one_that_lacks_it_counts(
    shop: Shop, reader: Reader, database_url: str
) -> None:
    for n in range(300):
        await shop.order(f"Pedido-{n:03}", at=NOON + timedelta(seconds=n))
        if n == 250:
            async with SearchPacking(database_url) as packing:
                await packing.pack()
    for text, expected in (("PEDIDO-", 300), ("pedido-0", 100), ("do-2", 100), ("nowhere", 0), ("\n", 0)):
        assert await total(reader, shop, text) == expected, text
    everywhere = await page(reader, shop, search="pedido", limit=3, offset=2)
    assert everywhere == await page(reader, shop, limit=3, offset=2)
    await shop.order("other", order_number="OTHER")
    assert await total(reader, shop, "pedido-") == 300
    assert await total(reader, shop, "o") == 301


async def test_what_a_packed_block_shares_is_what_all_of_its_lines_begin_with(
    shop: Shop, reader: Reader, database_url: str
) -> None:
    for n in range(20):
        await shop.order(f"ñandú-{n:02}", order_number=f"PO{n:02}", invoice_number="a" if n else None)
    async with SearchPacking(database_url, rows_min=1, block_bytes=20 * 55) as packing:
        await packing.pack()
    with psycopg.connect(database_url) as connection:
        shared = connection.execute("select shared from search_block where kind = 1 and packed").fetchall()
    assert shared == [("po\x1fñandú-\x1f",)]
    assert [await total(reader, shop, text) for text in ("Ñ", "po", "a", "-0", "-1")] == [20, 20, 20, 10, 10]


LETTERS = "aAb0-%_\\ñÑ@."
DOMAINS = ("example.com", "example.org", "aa.b")


def a_word(chance: random.Random) -> str:
    return "".join(chance.choices(LETTERS, k=chance.randint(1, 9)))


def counted(database_url: str) -> tuple[Counter[tuple[int, str]], Counter[tuple[int, str]]]:
    """What the counters say, and what whoever reads every packed line and its customer's line would count."""
    with psycopg.connect(database_url) as connection:
        said = connection.execute("select kind, text, orders from search_count").fetchall()
        lines = connection.execute(
            "select u.text, l.text from search_block b"
            " cross join lateral unnest(b.ids, string_to_array(b.texts, chr(10))) as u(id, text)"
            " join payment_order o on o.order_id = u.id"
            " left join search_line l on l.kind = 2 and l.id = o.customer_id where b.kind = 1 and b.packed"
        ).fetchall()
    expected: Counter[tuple[int, str]] = Counter()
    for line, email in lines:
        fields = [*line.split("\x1f"), email or ""]
        expected.update({(1, field[at : at + size]) for field in fields for at in range(len(field)) for size in (1, 2)})
        expected.update([(2, email[email.index("@") :])] if email else [])
    return Counter({(kind, text): orders for kind, text, orders in said}), expected


@pytest.mark.parametrize("bounds", [(2_000, 8_000, 16_384), (100, 4, 40), (3, 0, 16_384)])
@pytest.mark.parametrize("seed", range(4))
async def test_whatever_is_looked_for_is_what_a_reader_of_all_texts_would_find(
    shop: Shop,
    reader: Reader,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    bounds: tuple[int, int, int],
) -> None:
    """Texts of a few letters, so that they come twice in a line, at ends, and across the lines' ends: packed, unpacked, changed.

    With bounds so low that a merchant of 150 orders goes every way that one of 200,000 goes.
    """
    for name, bound in zip(("FEW", "FEW_MAILS", "WALKED"), bounds, strict=True):
        monkeypatch.setattr(list_statements, name, bound)
    chance = random.Random(seed)
    payers = [await customer(shop, f"c{n}", f"{a_word(chance)}@{chance.choice(DOMAINS)}") for n in range(12)]
    versions = [1] * len(payers)
    texts: dict[str, tuple[int, tuple[str, ...]]] = {}
    for n in range(150):
        payer = chance.randrange(len(payers))
        named = (f"N{a_word(chance)}", f"{a_word(chance)}{n}", a_word(chance))
        made = await shop.order(
            named[1],
            order_number=named[0],
            invoice_number=named[2],
            customer_id=payers[payer].customer_id,
            at=NOON + timedelta(seconds=n),
        )
        texts[str(made.terms.order_id)] = (payer, named)
        if chance.random() < 0.05:
            email = chance.choice([None, f"new.{a_word(chance)}@{chance.choice(DOMAINS)}"])
            payers[payer] = await tell(shop, payers[payer], versions[payer], email)
            versions[payer] += 1
        if chance.random() < 0.05:
            await pack(database_url)
    if seed % 2:
        await pack(database_url)
        said, expected = counted(database_url)
        assert said == expected
        assert len(said) > 50
    newest_first = list(texts.items())[::-1]
    everything = [line for _, (payer, named) in newest_first for line in (*named, payers[payer].email or "")]
    for _ in range(80):
        line = chance.choice(everything)
        at = chance.randint(0, len(line))
        looked_for = line[at : at + chance.choice([1, 1, 2, 2, 3, 5, 12])] or a_word(chance)
        expected_ids = [
            order_id
            for order_id, (payer, named) in newest_first
            if any(fold(looked_for) in fold(text) for text in (*named, payers[payer].email or ""))
        ]
        ascending = chance.random() < 0.3
        if ascending:
            expected_ids.reverse()
        limit, offset = chance.choice([1, 2, 20]), chance.choice([0, 0, 3])
        query = {"search": looked_for, "limit": limit, "ascending": ascending}
        seen = await page(reader, shop, offset=offset, **query)
        assert (seen["pagination"]["total"], ids(seen)) == (
            len(expected_ids),
            expected_ids[offset : offset + limit],
        ), looked_for
        if len(expected_ids) > 2:
            wanted, places = expected_ids[1:-1], sorted(list(texts).index(one) for one in expected_ids[1:-1])
            span = {
                "created_from": NOON + timedelta(seconds=places[0]),
                "created_to": NOON + timedelta(seconds=places[-1]),
            }
            between = await page(reader, shop, **{**query, **span, "limit": 200})
            assert ids(between) == wanted, looked_for
        if cursor := seen["pagination"]["nextCursor"]:
            following = await page(reader, shop, cursor=parse_cursor(cursor), **query)
            assert ids(following) == expected_ids[offset + limit : offset + 2 * limit], looked_for


@pytest.mark.parametrize("spread", ["evenly", "only old ones", "only new ones", "old ones and one"])
async def test_what_e_mails_find_is_paged_wherever_in_the_list_it_stands(
    shop: Shop, reader: Reader, database_url: str, spread: str
) -> None:
    ana = await customer(shop, "ana", "ana@example.com")
    bea = await customer(shop, "bea", "bea@example.com")
    carl = await customer(shop, "carl", "carl@elsewhere.mx")
    is_wanted = {
        "evenly": lambda n: n % 7,
        "only old ones": lambda n: n < 190,
        "only new ones": lambda n: n > 50,
        "old ones and one": lambda n: n < 190 or n == 235,
    }[spread]
    wanted = []
    for n in range(240):
        payer = (ana, bea)[n % 2] if is_wanted(n) else carl
        made = await shop.order(
            f"{n:03}", order_number=f"N{n:03}", customer_id=payer.customer_id, at=NOON + timedelta(seconds=n)
        )
        if payer is not carl:
            wanted.append(str(made.terms.order_id))
    await pack(database_url)
    for ascending in (False, True):
        expected = wanted if ascending else wanted[::-1]
        for limit, offset in ((1, 0), (2, 0), (3, 2), (20, 0), (50, len(wanted) - 10)):
            seen = await page(reader, shop, search="@EXAMPLE", limit=limit, offset=offset, ascending=ascending)
            assert seen["pagination"]["total"] == len(wanted)
            assert ids(seen) == expected[offset : offset + limit], (limit, offset, ascending)
    await tell(shop, bea, 1, "bea@elsewhere.mx")
    remaining = await page(reader, shop, search="@example", limit=1)
    assert remaining["pagination"]["total"] < len(wanted)
    assert {order["customer"]["email"] for order in remaining["data"]} == {"ana@example.com"}


async def test_a_block_is_passed_over_only_where_its_bits_say_so(shop: Shop, reader: Reader, database_url: str) -> None:
    for n in range(21):
        await shop.order(f"{'ñandú' if n % 2 else 'gato'}-{n:02}")
    async with SearchPacking(database_url, rows_min=1, block_bytes=21 * 55) as packing:
        await packing.pack()
    with psycopg.connect(database_url, autocommit=True) as connection:
        every = "select texts, bit_count(grams) from search_block where kind = 1 and packed"
        [(texts, said)] = connection.execute(every).fetchall()
        lines = texts.encode()
        different = {lines[at : at + size] for size in (1, 2, 3) for at in range(len(lines) - size + 1)}
        assert 0.9 * len(different) < said <= len(different) + 2  # and the line's end behind the last bytes
        assert await total(reader, shop, "andú") == 10
        connection.execute("update search_block set grams = null where kind = 1")
        assert await total(reader, shop, "andú") == 10
        connection.execute("update search_block set grams = %s where kind = 1", [bits("gato")])
    assert [await total(reader, shop, text) for text in ("andú", "gat", "gato-")] == [0, 11, 0]
