"""The consumer of the how-to page: it has the ledger's totals, wherever it is stopped."""

from __future__ import annotations

import asyncio
import runpy
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.api.bodies import by_card, charge, order, paid_order
from tests.api.storefront import ORDERS, Merchant

pytestmark = pytest.mark.anyio

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to"
PROGRAM = runpy.run_path(str(HOW_TO / "feed_totals.py"))


async def test_a_consumer_that_is_stopped_anywhere_has_the_ledgers_totals(merchant: Merchant, tmp_path: Path):
    paid = (await merchant.create(paid_order())).json()
    split = (await merchant.create(order(externalId="split", allowPartials=True))).json()
    for amount in (50_000, 30_000):
        body = charge(amount=amount, paymentMethod=by_card())
        assert (await merchant.post(f"{ORDERS}/{split['id']}/payments", body)).status_code == 201
    for amount in (1_000, 2_500):
        assert (await merchant.post(f"{ORDERS}/{paid['id']}/refund", {"amount": amount})).status_code == 200
    pages = []

    async def read(path: str) -> dict[str, Any]:
        answer = await merchant.get(f"/api{path}".replace("limit=500", "limit=2"))
        page: dict[str, Any] = answer.json()
        pages.append(page)
        return page

    loop = asyncio.get_running_loop()

    def fetch(path: str) -> dict[str, Any]:
        return asyncio.run_coroutine_threadsafe(read(path), loop).result(10)

    def run_killed_twice_on_each_page() -> tuple[Any, list[Any]]:
        more, totals = True, []
        while more:
            database = PROGRAM["opened"](str(tmp_path / "totals.db"))
            before = database.execute("select * from payment").fetchall()
            with pytest.raises(ZeroDivisionError):  # killed before it has the answer
                PROGRAM["consume"](database, lambda _: 1 / 0, 0)
            # Killed after the effects and before the position: the statement that moves it fails.
            with pytest.raises(sqlite3.Error):
                PROGRAM["consume"](database, lambda path: {**fetch(path), "lastSequence": object()}, 0)
            assert database.execute("select * from payment").fetchall() == before
            more = PROGRAM["consume"](database, fetch, 0)
            totals.append(PROGRAM["totals"](database))
            database.close()
        return totals[-1], totals

    last, totals = await asyncio.to_thread(run_killed_twice_on_each_page)
    assert last == {"MXN": 150_000 + 80_000 - 3_500}
    assert len(totals) == 3
    assert [event["type"] for page in pages[::2] for event in page["data"]].count("payment.captured") == 3


def test_the_page_shows_the_program():
    assert (HOW_TO / "feed_totals.py").read_text().partition("def consume")[2].partition("\n\n\n")[0] in (
        HOW_TO / "follow-the-feed.md"
    ).read_text()


def test_the_program_without_its_arguments_shows_them():
    ended = subprocess.run([sys.executable, HOW_TO / "feed_totals.py"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr.partition(":")[0]) == (2, "usage")
