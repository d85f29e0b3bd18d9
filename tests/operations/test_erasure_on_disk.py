"""What an erasure leaves on the disk: nothing in any file of the database's directory, its log of writes included."""

from __future__ import annotations

from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from msgspec import Raw
from msgspec.structs import replace
from psycopg.conninfo import make_conninfo
from tests import postgres_server
from tests.operations.conftest import an_order, register
from tests.operations.test_sealing import personal_order
from tests.sealing import MASTER_KEY

from ledger.operations.context.inputs import Actor, CustomerFields, CustomerInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.customers.change import change_customer
from ledger.operations.customers.create import create_customer
from ledger.operations.erasure.erase_customer import delete_customer
from ledger.operations.orders.create import create_order
from ledger.postgres.migrate import migrate
from ledger.settings import Settings
from ledger.wiring import open_ledger
from projections.erasures import Erasures
from projections.search.compaction import SearchCompactor

pytestmark = [pytest.mark.anyio, pytest.mark.long]

PERSON = {
    "first_name": "Nombreviejo",
    "last_name": "Quetzallitl",
    "email": "Quetzallitl@unico.example.mx",
    "phone_number": "+525598761234",
}
WORDS = (*PERSON.values(), "Nombrenuevo", "quetzallitl", "unico.example.mx", "Segmentounico", "Huespedunico")
NEIGHBOUR = "vecina@conocida.example.mx"


async def write_the_person(ledger: Ledger, merchant: Actor) -> None:
    """Writes the person in every way: created, changed, in orders, in metadata; and a neighbour who stays."""
    metadata = Raw(b'{"segment":"Segmentounico"}')
    await create_customer(ledger, merchant, CustomerFields(external_id="c-7", metadata=metadata, **PERSON))
    await create_customer(ledger, merchant, CustomerFields(external_id="c-8", email=NEIGHBOUR))
    for n in range(20):
        ordered = personal_order(f"o-{n}", metadata=Raw(b'{"guest":"Huespedunico"}'))
        await create_order(ledger, merchant, replace(ordered, customer=CustomerInput(external_id="c-7")))
        await create_order(ledger, merchant, an_order(f"n-{n}", customer=CustomerInput(external_id="c-8")))
    await change_customer(ledger, merchant, "c-7", CustomerFields(first_name="Nombrenuevo"))


def executed(url: str, *statements: LiteralString) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def found_in_files(home: Path, words: tuple[str, ...]) -> dict[str, set[str]]:
    """Returns which words are in which files below a directory, whatever their case."""
    wanted = [word.lower().encode() for word in words]
    found: dict[str, set[str]] = {}
    for path in home.rglob("*"):
        if path.is_file():
            content = path.read_bytes().lower()
            if here := {word.decode() for word in wanted if word in content}:
                found[str(path.relative_to(home))] = here
    return found


async def test_no_file_of_the_database_holds_an_erased_person(short_dir: Path) -> None:
    home = short_dir / "erasure"
    with postgres_server.running(home) as server:
        # A segment of the log of writes that is recycled would keep its old bytes.
        executed(server, "create database shop", "alter system set wal_recycle = off", "select pg_reload_conf()")
        url = make_conninfo(server, dbname="shop")
        migrate(url)
        settings = Settings(database_url=url, master_key=MASTER_KEY)
        async with open_ledger(settings) as ledger, Erasures(url) as erasures, SearchCompactor(url) as search:
            merchant = await register(ledger)
            await write_the_person(ledger, merchant)
            await search.pack()
            executed(url, "analyze", "checkpoint")
            before = found_in_files(home, (*WORDS, NEIGHBOUR))
            assert set().union(*before.values()) == {word.lower() for word in (*WORDS, NEIGHBOUR)}
            assert any("pg_wal" in place for place in before), "the scan reads the log of writes too"
            await delete_customer(ledger, merchant, "c-7", erasures.orders_of)
            await search.pack()
            # The log of writes is dropped up to the checkpoint, in whole segments.
            executed(url, "vacuum (full, analyze)", "checkpoint", "select pg_switch_wal()", "checkpoint")
            assert found_in_files(home, WORDS) == {}
            assert found_in_files(home, (NEIGHBOUR,)), "the neighbour stays"
