"""The program of the how-to page works as described, beside a real ledger, although it is killed at any time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.docs.pages import ROOT, blocks
from tests.journal.small_log import fetch
from tests.operations.conftest import APPROVED, DECLINED, an_order, by_card, register

from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.settings import Settings
from ledger.wiring import open_ledger

PAGE = blocks(ROOT / "docs" / "how-to" / "write-a-projection-with-eventsourcing.md")
PROGRAM = next(content for language, content in PAGE if language == "python")
PREPARED, BEGUN_AGAIN = (content for language, content in PAGE if language == "sql")
COMMANDS = next(content for language, content in PAGE if language == "sh by-hand")


@pytest.fixture
def reporting_url(module_url: str) -> Iterator[str]:
    with psycopg.connect(module_url, autocommit=True) as owner:
        owner.execute(PREPARED)
        yield make_conninfo(module_url, user="reporting", password="…")
        owner.execute("drop owned by reporting; drop role reporting")


@contextmanager
def running(program: Path, env: dict[str, str]) -> Iterator[None]:
    """Runs the program until it is killed at the end of the block."""
    process = subprocess.Popen([sys.executable, program.name], cwd=program.parent, env=env, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


async def decline(ledger: Ledger, actor: Actor, numbers: range) -> None:
    """Creates a declined order for each number, and an approved one."""
    orders = [an_order(f"pedido-{n}", by_card(DECLINED)) for n in numbers]
    orders.append(an_order(f"pedido-{numbers}", by_card(APPROVED)))
    await asyncio.gather(*[create_order(ledger, actor, order) for order in orders])


@pytest.mark.long
@pytest.mark.anyio
async def test_the_program_of_the_page_counts_every_decline_once_although_it_is_killed(
    module_url, reporting_url, tmp_path
):
    program = tmp_path / "decline_reasons.py"
    program.write_text(PROGRAM)

    def counted() -> int:
        return fetch(module_url, "select coalesce(sum(payments), 0)::int from decline_reason")[0][0]

    async def reaches(total: int) -> None:
        end = time.monotonic() + 20
        while counted() < total:
            assert time.monotonic() < end, f"it counted {counted()} of {total}"
            await asyncio.sleep(0.01)

    async with open_ledger(Settings(database_url=module_url, data_dir=tmp_path)) as ledger:
        actor = await register(ledger)
        env = os.environ | {
            "PERSISTENCE_MODULE": "ledger.recorder",
            "LEDGER_DATABASE_URL": reporting_url,
            "LEDGER_MERCHANT_ID": str(actor.merchant_id),
            "PYTHONPATH": str(ROOT / "src"),
        }
        assert all(f"export {name}=" in COMMANDS for name in env.keys() - os.environ.keys() - {"PYTHONPATH"})

        await decline(ledger, actor, range(5))
        with running(program, env):
            await reaches(5)
            declining = asyncio.create_task(decline(ledger, actor, range(5, 200)))
            await reaches(20)  # and it is killed in the middle of its work
        in_the_middle = counted()
        await declining
        await decline(ledger, actor, range(200, 210))
        with running(program, env):
            await reaches(210)
        assert in_the_middle < 200, "it was killed too late to show anything"

        with psycopg.connect(module_url, autocommit=True) as owner:
            owner.execute(BEGUN_AGAIN.replace("…", str(actor.merchant_id)))
        with running(program, env), running(program, env):  # twice at once: the slower one ends
            await reaches(210)
            await asyncio.sleep(0.3)
        rows = fetch(module_url, "select merchant_id, code, sum(payments)::int from decline_reason group by 1, 2")
        assert rows == [(actor.merchant_id, "GENERIC_DECLINE", 210)]
