"""A shop whose orders and e-mails consist of few letters, a model of every text, and the expected counters.

With so few letters, texts repeat within a line, at its ends and across lines, and every short search finds only some
orders.
"""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from uuid import UUID

import psycopg
from msgspec import Struct
from tests.domain.builders import NOON
from tests.projections.shop import Shop, change_email, customer

from ledger.domain.customers.state import Customer
from ledger.domain.orders.events import OrderInvoiceNumberChanged
from projections.search.compaction import SearchCompactor
from projections.search.lines import fold

LETTERS = "aAb0-%_\\ñÑ@."
DOMAINS = ("example.com", "example.org", "aa.b")

Counts = Counter[tuple[int, str]]


def a_word(chance: random.Random) -> str:
    return "".join(chance.choices(LETTERS, k=chance.randint(1, 9)))


def an_address(chance: random.Random) -> str:
    return f"{a_word(chance)}@{chance.choice(DOMAINS)}"


async def pack(database_url: str, block_bytes: int = 120, counted_from: int = 0) -> int:
    """Packs and counts all lines, a few to a row. The last lines stay unpacked, as always."""
    async with SearchCompactor(database_url, rows_min=1, block_bytes=block_bytes, counted_from=counted_from) as packing:
        return await packing.pack()


class Sold(Struct, frozen=True):
    """An order: its id, the number of its payer, and its own three texts."""

    order_id: str
    payer: int
    names: tuple[str, str, str]


class Bazaar(Struct):
    """A shop with every text by which its orders are found, oldest first and a second apart."""

    shop: Shop
    payers: list[Customer]
    versions: list[int]
    orders: list[Sold]

    @classmethod
    async def open(cls, shop: Shop, chance: random.Random, payers: int) -> Bazaar:
        customers = [await customer(shop, f"c{n}", an_address(chance)) for n in range(payers)]
        return cls(shop, customers, [1] * payers, [])

    async def sell(self, chance: random.Random) -> None:
        """Creates another order, of a random payer."""
        n, payer = len(self.orders), chance.randrange(len(self.payers))
        names = (f"N{a_word(chance)}", f"{a_word(chance)}{n}", a_word(chance))
        made = await self.shop.order(
            names[1],
            order_number=names[0],
            invoice_number=names[2],
            customer_id=self.payers[payer].customer_id,
            at=NOON + timedelta(seconds=n),
        )
        self.orders.append(Sold(str(made.terms.order_id), payer, names))

    async def rename(self, n: int, invoice_number: str | None) -> None:
        """Changes the invoice number of an order, or removes it."""
        sold, name = self.orders[n], UUID(self.orders[n].order_id)
        order, _ = self.shop.states[name]
        await self.shop.then(order, OrderInvoiceNumberChanged(invoice_number=invoice_number, at=NOON))
        self.orders[n] = Sold(sold.order_id, sold.payer, (*sold.names[:2], invoice_number or ""))

    async def move(self, payer: int, email: str | None) -> None:
        """Changes a payer's e-mail, or removes it."""
        self.payers[payer] = await change_email(self.shop, self.payers[payer], self.versions[payer], email)
        self.versions[payer] += 1

    def texts(self, order: Sold) -> tuple[str, ...]:
        return (*order.names, self.payers[order.payer].email or "")

    def having(self, text: str) -> list[int]:
        """Returns the indexes of the orders that a search for this text must find, oldest first."""
        wanted = fold(text)
        return [n for n, order in enumerate(self.orders) if any(wanted in fold(one) for one in self.texts(order))]

    def a_part(self, chance: random.Random) -> str:
        """Returns some letters of an existing text."""
        line = chance.choice(self.texts(chance.choice(self.orders)))
        at = chance.randint(0, len(line))
        return line[at : at + chance.choice([1, 1, 2, 2, 3, 5, 12])] or a_word(chance)


def counted(database_url: str) -> tuple[Counts, Counts]:
    """Returns the stored counters, and what counting every packed line with its customer's line gives."""
    with psycopg.connect(database_url) as connection:
        stored = connection.execute("select kind, text, orders from search_count").fetchall()
        lines = connection.execute(
            "select u.text, l.text from search_block b"
            " cross join lateral unnest(b.ids, string_to_array(b.texts, chr(10))) as u(id, text)"
            " join payment_order o on o.order_id = u.id"
            " left join search_line l on l.kind = 2 and l.id = o.customer_id where b.kind = 1 and b.packed"
        ).fetchall()
    expected: Counts = Counter()
    for line, email in lines:
        fields = [*line.split("\x1f"), email or ""]
        expected.update({(1, field[at : at + size]) for field in fields for at in range(len(field)) for size in (1, 2)})
        expected.update([(2, email[email.index("@") :])] if email else [])
    return Counter({(kind, text): orders for kind, text, orders in stored}), expected
