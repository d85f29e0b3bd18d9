"""Two API processes on one database for races that are run in rounds, and a check of the log and the processor
afterwards.

An order's own amounts are not enough: what its processor took and refunded is counted in the processor's rows, and
every transition of every order is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from campaigns.chaos.evidence import gather
from campaigns.chaos.installation import Installation, installed
from campaigns.chaos.rules import orders_keep_their_invariants
from campaigns.chaos.running import LEDGER, Running, new_merchant
from campaigns.races.money import RaceService
from ledger.domain.money import SCALE, ZERO
from ledger.postgres.connection import connect

# Long enough for every request to arrive while the first one is with the processor.
_SETTINGS = {"LEDGER_SANDBOX_DELAY_MS": "20", "LEDGER_PROCESSOR_TIMEOUT_S": "20", "LEDGER_NOT_FOUND_FINAL_S": "40"}

# The sum of the processor's refunds.
_GIVEN_BACK = "select coalesce(sum(moved), 0) from sandbox_call where kind = 'REFUND' and accepted"


@contextmanager
def two_processes(postgres_url: str, template_database: str, log: Path) -> Iterator[tuple[Installation, RaceService]]:
    """Runs two API processes for as long as the context lasts."""
    with installed(postgres_url, template_database, _SETTINGS) as installation:
        command, environment = [*LEDGER, "api", "--port", "0"], installation.environment
        with Running(command, environment, log) as one, Running(command, environment, log) as other:
            merchant = new_merchant("Races", environment)
            yield installation, RaceService((one.wait_port(), other.wait_port()), merchant.api_key)


async def wrong_in(installation: Installation) -> list[str]:
    """Returns broken invariants of orders, and money that only the log or only the processor's rows record."""
    (evidence,) = await gather(installation.url)
    wrong = list(orders_keep_their_invariants(evidence))
    taken = sum((order.amount_paid for order in evidence.orders.values()), start=ZERO)
    booked = sum((booked.captured for booked in evidence.book.values()), start=ZERO)
    if taken != booked:
        wrong.append(f"the ledger took {taken}, the processor {booked}")
    given_back = sum((order.amount_refunded for order in evidence.orders.values()), start=ZERO)
    async with await connect(installation.url, "races") as connection:
        row = await (await connection.execute(_GIVEN_BACK)).fetchone()
    assert row is not None, "a sum is a row"
    if given_back * SCALE != row[0]:
        wrong.append(f"the ledger gave back {given_back}, the processor {row[0] / SCALE}")
    return wrong
