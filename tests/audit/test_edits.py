"""Every change that a superuser makes is found, and its place is named."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from random import Random
from uuid import UUID

import psycopg
import pytest
from msgspec import Struct, structs
from tests.audit.auditing import settings_of, wrong_in
from tests.audit.edits import CELLS, EDITS, UNIQUE, Target, copied, restore
from tests.audit.shops import fill_every_table, make_orders, pack, seal
from tests.databases import Databases
from tests.operations.conftest import opening, register

from ledger.audit.auditor import audit, read_saved
from ledger.audit.report import Report
from ledger.audit.tables import MERGED, STREAM_COLUMNS
from ledger.tlog.checkpoint_files import SavedCheckpoints
from projections.lists import tally
from projections.payment_methods import TABLE as METHODS

pytestmark = pytest.mark.anyio

_ROUND = 20
"""How many orders are made between two checkpoints."""


class Sealed(Struct, frozen=True):
    """A database whose log is sealed, its rows, and the checkpoints outside it."""

    url: str
    target: Target
    rows: Mapping[str, bytes]
    saved: SavedCheckpoints

    def audited(self) -> Report:
        return audit(settings_of(self.url), self.url, saved=self.saved)


@pytest.fixture(scope="module")
async def sealed(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sealed]:
    folder = tmp_path_factory.mktemp("checkpoints")
    with databases.lent() as url, psycopg.connect(url, autocommit=True) as connection:
        async with opening(url) as open_one:
            ledger = await open_one()
            merchant = await register(ledger)
            await fill_every_table(ledger, merchant, orders=0)
            await seal(url)
            for n in range(4):
                past = copied(connection)
                await make_orders(ledger, merchant, range(n * _ROUND, (n + 1) * _ROUND))
                await seal(url)
            await pack(url)
        await seal(url, folder)
        saved = await read_saved(structs.replace(settings_of(url), checkpoints_url=str(folder)))
        found = Sealed(url, Target(connection, merchant.merchant_id, past), copied(connection), saved)
        assert wrong_in(found.audited()) == []
        assert saved.sizes == {merchant.merchant_id: found.target.head}
        yield found


def _drawn(kinds: Iterable[str], count: int) -> list[str]:
    """Returns so many kinds of edits by chance, each before one comes again."""
    random, drawn = Random(30), list[str]()
    while len(drawn) < count:
        drawn += random.sample(sorted(kinds), min(len(list(kinds)), count - len(drawn)))
    return drawn


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param([*(EDITS.keys() - CELLS.keys()), *_drawn(CELLS, 10)], id="some"),
        pytest.param(_drawn(EDITS, 400), id="all", marks=pytest.mark.long),
    ],
)
async def test_every_edit_is_found_and_its_place_is_named(sealed: Sealed, kinds: Sequence[str]) -> None:
    wrong = list[str]()
    for seed, kind in enumerate(sorted(kinds)):
        sought = EDITS[kind](sealed.target, Random(seed))
        report = sealed.audited()
        missed = [each for each in sought if not each.is_in(report.violations)]
        if missed or not sought:
            wrong.append(f"{kind}, seed {seed}: {missed} not in {wrong_in(report)[:5]}")
        restore(sealed.target.connection, sealed.rows)
    assert wrong == []
    assert wrong_in(sealed.audited()) == []


async def test_rows_under_the_first_and_the_last_id_are_found_by_the_audit_of_one_merchant(sealed: Sealed) -> None:
    target, merchant_id = sealed.target, sealed.target.merchant_id
    for other in (UUID(int=0), UUID(int=(1 << 128) - 1)):
        for table in ("payment_order", "customer", "plan", "product"):
            columns = {STREAM_COLUMNS[table]: "%(other)s", **UNIQUE.get(table, {})}
            row = target.value(f"select ctid from {table} where merchant_id = %s limit 1", merchant_id)
            target.copy(table, row, columns, other=other)
        target.execute(
            "insert into event select merchant_id, %(other)s, 1, %(head)s + 1, command_id, recorded_at, topic, data, context"
            " from event where merchant_id = %(m)s and position = 1",
            other=other,
            head=target.head,
        )
        for workers in (1, 2):
            report = audit(settings_of(sealed.url), sealed.url, merchant_id, workers=workers)
            found = {each.table for each in report.violations if str(other) in f"{each.stream_id} {each.order_id}"}
            assert found >= {"payment_order", "customer", "plan", "product"}
            assert target.head + 1 in {each.position for each in report.violations}
        restore(target.connection, sealed.rows)


def test_there_is_an_edit_of_every_column_of_every_table() -> None:
    named = {name for name in EDITS if "." in name}
    assert named >= {
        f"{table.name}.{column}" for table in (*MERGED, METHODS, tally.TABLE) for column, _ in table.columns
    }
