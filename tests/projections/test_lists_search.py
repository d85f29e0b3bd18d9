"""The search: literal, without regard to case, right after a commit, and on current data."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import pytest
from tests.domain.builders import NOON
from tests.projections.listing import ids, page, total
from tests.projections.searching import Bazaar, a_word, an_address, counted, pack
from tests.projections.shop import Shop, change_email, customer

from ledger.journal.journal import Journal
from projections.lists import statements
from projections.lists.cursor import CURSORS
from projections.queries import Queries
from projections.search.compaction import SearchCompactor
from projections.search.lines import fold, fold_search

pytestmark = pytest.mark.anyio


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
    shop: Shop, reader: Queries, database_url: str, external_id: str, finds: list[str], misses: list[str]
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


async def test_a_match_never_spans_two_fields_or_two_orders(shop: Shop, reader: Queries) -> None:
    await shop.order("ext", order_number="NUM", invoice_number="INV")
    await shop.order("ext2", order_number="NUM2")
    for term in ("NUMext", "NUM\x1fext", "INVNUM", "inv\nnum", "num ext", "\x1f", "\n", "\0"):
        assert await total(reader, shop, term) == 0, term
    assert await total(reader, shop, "num") == 2


async def test_an_order_that_matches_in_every_way_is_found_once(shop: Shop, reader: Queries) -> None:
    ana = await customer(shop, "twice", "same@example.com")
    await shop.order("same", order_number="SAME", invoice_number="same-same", customer_id=ana.customer_id)
    assert await total(reader, shop, "same") == 1


async def test_an_order_is_found_as_soon_as_its_creation_is_acknowledged(
    shop: Shop, reader: Queries, database_url: str
) -> None:
    async with SearchCompactor(database_url) as packing:
        packer = asyncio.create_task(_pack_without_end(packing))
        for n in range(120):
            await shop.order(f"fresh-{n:03}.", at=NOON + timedelta(seconds=n))
            assert await total(reader, shop, f"FRESH-{n:03}.") == 1
            assert await total(reader, shop, "fresh") == n + 1
        packer.cancel()
        await asyncio.gather(packer, return_exceptions=True)


async def _pack_without_end(packing: SearchCompactor) -> None:
    while True:
        await packing.pack()
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("packs", [False, True])
async def test_a_search_uses_the_customers_current_e_mail(
    shop: Shop, reader: Queries, database_url: str, packs: bool
) -> None:
    async with SearchCompactor(database_url) as packing:
        ana = await customer(shop, "moving", "Old@example.com")
        await shop.order("one", customer_id=ana.customer_id)
        for version, email in enumerate(["new@example.com", None, "third@example.com", "old@example.com", None], 1):
            ana = await change_email(shop, ana, version, email)
            if packs:
                assert await packing.pack() == 1
                assert await packing.pack() == 0
            for term in ("old@", "new@", "third@"):
                assert await total(reader, shop, term) == (term in (email or "")), (email, term)


async def test_an_e_mail_that_is_set_later_is_found(shop: Shop, reader: Queries, database_url: str) -> None:
    ana = await customer(shop, "silent", None)
    await shop.order("one", customer_id=ana.customer_id)
    await change_email(shop, ana, 1, "Late@example.com")
    assert await total(reader, shop, "late@") == 1
    async with SearchCompactor(database_url) as packing:
        await packing.pack()
    assert await total(reader, shop, "late@") == 1


async def test_a_search_reads_only_its_own_merchants_lines(shop: Shop, journal: Journal, reader: Queries) -> None:
    other = await Shop(journal).open()
    await other.order("theirs")
    mine = await shop.order("mine")
    assert ids(await page(reader, shop, search="e")) == [str(mine.terms.order_id)]
    assert await total(reader, shop, "theirs") == 0


async def test_the_counters_of_a_short_text_are_those_of_its_own_merchant(
    shop: Shop, journal: Journal, reader: Queries, database_url: str
) -> None:
    other = await Shop(journal).open()
    for n in range(20):
        await shop.order(f"mine-{n}")
        await other.order(f"theirs-{n}")
    await pack(database_url)
    assert await total(reader, shop, "ne", limit=1) == 20
    assert await total(reader, shop, "e", limit=1) == 20


def test_folding_twice_changes_nothing_and_nothing_is_escaped() -> None:
    for text in ("İSTANBUL", "ẞ", "ﬁ", "ΌΣΟΣ", "a%_\\"):
        assert fold(fold(text)) == fold(text)
    assert fold_search("A%_\\") == "a%_\\"
    assert fold_search("a\tb") is None


async def test_a_text_that_every_order_contains_filters_nothing_until_one_order_lacks_it(
    shop: Shop, reader: Queries, database_url: str
) -> None:
    for n in range(300):
        await shop.order(f"Pedido-{n:03}", at=NOON + timedelta(seconds=n))
        if n == 250:
            async with SearchCompactor(database_url) as packing:
                await packing.pack()
    for text, expected in (("PEDIDO-", 300), ("pedido-0", 100), ("do-2", 100), ("nowhere", 0), ("\n", 0)):
        assert await total(reader, shop, text) == expected, text
    everywhere, all_ = [await page(reader, shop, limit=3, offset=2, search=text) for text in ("pedido", None)]
    del everywhere["pagination"]["nextCursor"], all_["pagination"]["nextCursor"]  # which has the filters of its list
    assert everywhere == all_
    await shop.order("other", order_number="OTHER")
    assert await total(reader, shop, "pedido-") == 300
    assert await total(reader, shop, "o") == 301


@pytest.mark.parametrize("bounds", [(2_000, 8_000, 16_384), (100, 4, 40), (3, 0, 16_384)])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 4))])
async def test_any_search_finds_what_reading_all_texts_would_find(
    shop: Shop,
    reader: Queries,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    bounds: tuple[int, int, int],
) -> None:
    """Packed, unpacked and changed lines, with bounds so low that 150 orders take every path that 200,000 take."""
    for name, bound in zip(("LOOKUPS_MAX", "EMAIL_LOOKUPS_MAX", "SCANNED_MAX"), bounds, strict=True):
        monkeypatch.setattr(statements, name, bound)
    chance = random.Random(seed)
    bazaar = await Bazaar.open(shop, chance, payers=12)
    for _ in range(150):
        await bazaar.sell(chance)
        if chance.random() < 0.05:
            await bazaar.move(chance.randrange(12), chance.choice([None, f"new.{an_address(chance)}"]))
        if chance.random() < 0.1:
            await bazaar.rename(chance.randrange(len(bazaar.orders)), chance.choice([None, a_word(chance)]))
        if chance.random() < 0.05:
            await pack(database_url)
    if seed % 2:
        await pack(database_url)
        stored, expected = counted(database_url)
        assert stored == expected
        assert len(stored) > 50
    for _ in range(40):
        await _search(bazaar.a_part(chance), bazaar, reader, chance)


async def _search(text: str, bazaar: Bazaar, reader: Queries, chance: random.Random) -> None:
    """Compares a page of a search, in either direction, the page after it, and the matches of a date range."""
    ascending, limit, offset = chance.random() < 0.3, chance.choice([1, 2, 20]), chance.choice([0, 0, 3])
    places = bazaar.having(text) if ascending else bazaar.having(text)[::-1]
    expected = [bazaar.orders[place].order_id for place in places]
    query = {"search": text, "ascending": ascending}
    seen = await page(reader, bazaar.shop, **query, limit=limit, offset=offset)
    assert seen["pagination"]["total"] == len(expected), text
    assert ids(seen) == expected[offset : offset + limit], text
    if cursor := seen["pagination"]["nextCursor"]:
        following = await page(reader, bazaar.shop, **query, limit=limit, cursor=CURSORS.parse(cursor))
        assert ids(following) == expected[offset + limit : offset + 2 * limit], text
    if len(places) > 2:
        first, last = (NOON + timedelta(seconds=place) for place in sorted((places[1], places[-2])))
        between = await page(reader, bazaar.shop, **query, limit=200, created_from=first, created_to=last)
        assert ids(between) == expected[1:-1], text


@pytest.mark.parametrize("spread", ["evenly", "only old ones", "only new ones", "old ones and one"])
async def test_matches_by_e_mail_are_paged_wherever_they_are_in_the_list(
    shop: Shop, reader: Queries, database_url: str, spread: str
) -> None:
    ana = await customer(shop, "ana", "ana@example.com")
    bea = await customer(shop, "bea", "bea@example.com")
    carl = await customer(shop, "carl", "carl@elsewhere.mx")
    matches = {
        "evenly": lambda n: n % 7,
        "only old ones": lambda n: n < 190,
        "only new ones": lambda n: n > 50,
        "old ones and one": lambda n: n < 190 or n == 235,
    }[spread]
    wanted = []
    for n in range(240):
        payer = (ana, bea)[n % 2] if matches(n) else carl
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
    await change_email(shop, bea, 1, "bea@elsewhere.mx")
    remaining = await page(reader, shop, search="@example", limit=1)
    assert remaining["pagination"]["total"] < len(wanted)
    assert {order["customer"]["email"] for order in remaining["data"]} == {"ana@example.com"}
