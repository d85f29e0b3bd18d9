"""Direct access to the service's database: its log after each step, and the worker's sweeps at times that the test
chooses.

The worker's parts are the product's own. Only the times of their sweeps are the test's choice, so that the model knows
which message was tried when. The log is read on a connection of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from property_tests.stateful.move_coverage import LogFollower, MoveCoverage
from tests.sealing import MASTER_KEY, data_keys
from tests.whole_log import page_of_log

from ledger.background.fair_slots import FairSlots
from ledger.background.inbox.consumer import InboxConsumer
from ledger.background.inbox.message_handlers import MessageApplier
from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.background.scheduler.jobs import Jobs, use_jobs_schema
from ledger.journal.codec import CODEC
from ledger.journal.reader import LogReader
from ledger.operations.context.ledger import Ledger
from ledger.operations.merchants.registration import register_merchant
from ledger.operations.orders.payment_lookup import PaymentLookup
from ledger.postgres.connection import Connection, connect
from ledger.processors.clabe import check_digit
from ledger.processors.inbox_store import Inbox
from ledger.processors.sandbox import references
from ledger.security.api_keys import new_key
from ledger.security.secrets import Purpose, load_secrets
from ledger.settings import Settings
from ledger.wiring import open_ledger

PAGE = 10_000

# A clock at real time. The merchant is new, so that no process has cached yet that it has no clock. Without the row the
# first advance of every merchant's clock would wait half a second for these caches.
_INSERT_CLOCK = "insert into merchant_clock (merchant_id, ahead_us) values (%s, 0)"
# Skips the pause before the next attempt. The oldest message is first, as in the model.
_NEXT_TRY = "update processor_message set next_try_at = received_at where merchant_id = %s and handled_at is null"
_WAITING = "select count(*) from processor_message where merchant_id = %s and handled_at is null"
_NEXT_ACCOUNT = "select last_value + is_called::int from sandbox_account_number"


class RegisteredMerchant(NamedTuple):
    """A merchant with its API key, and its surcharge in thousandths of an amount."""

    merchant_id: UUID
    key: str
    rate: int | None


class LedgerAccess:
    """The ledger behind the service. `coverage` collects the moves of all merchants' orders."""

    def __init__(self, runner: asyncio.Runner, connection: Connection, ledger: Ledger, worker: _Worker) -> None:
        self.coverage = MoveCoverage()
        self._runner, self._connection, self._ledger, self._worker = runner, connection, ledger, worker
        self._reader = LogReader("", CODEC, data_keys())

    def merchant(self, rate: int | None) -> RegisteredMerchant:
        """Registers a merchant with this surcharge, whose clock can be advanced."""
        return self._runner.run(self._register(rate))

    def follow(self, merchant_id: UUID, follower: LogFollower) -> set[UUID]:
        """Passes the new events of the log to the follower, and returns the ids of their orders."""
        return self._runner.run(self._follow(merchant_id, follower))

    def work(self, merchant_id: UUID) -> int:
        """Runs the worker's sweeps until no further message can be applied. Returns how many messages are pending."""
        return self._runner.run(self._work(merchant_id))

    def next_clabe(self) -> str:
        """Returns the CLABE that the sandbox's bank issues next, if the next reference has one."""
        (number,) = self._runner.run(self._one(_NEXT_ACCOUNT, ()))
        account = f"{references._BANK_AND_CITY}{number * references._STRIDE % references._ACCOUNTS:011}"
        return account + check_digit(account)

    async def _register(self, rate: int | None) -> RegisteredMerchant:
        settings = Settings(master_key=MASTER_KEY)
        key = new_key(settings.environment, load_secrets(settings).key(Purpose.API_KEY_PEPPER))
        terms: dict[str, Any] = {"requests_per_minute": 0, "requests_per_second": 0}
        if rate is not None:
            terms["surcharge_rate"] = Decimal(rate) / 10  # percent
        merchant, _ = await register_merchant(self._ledger, "Shop", key, settings=terms)
        await self._connection.execute(_INSERT_CLOCK, (merchant.merchant_id,))
        return RegisteredMerchant(merchant.merchant_id, key.secret, rate)

    async def _follow(self, merchant_id: UUID, follower: LogFollower) -> set[UUID]:
        touched: set[UUID] = set()
        while page := await page_of_log(self._reader, self._connection, merchant_id, follower.position, PAGE):
            touched.update(recorded.stream_id for recorded in page)
            for recorded in page:
                follower.see(recorded)
        return touched & follower.orders.keys()

    async def _work(self, merchant_id: UUID) -> int:
        await self._worker.dispatcher.sweep(self._connection, [merchant_id])
        waited, waiting = -1, await self._waiting(merchant_id)
        while waiting not in (0, waited):  # another message may wait for one that was just applied
            waited = waiting
            await self._connection.execute(_NEXT_TRY, (merchant_id,))
            while await self._worker.messages.sweep():
                pass
            waiting = await self._waiting(merchant_id)
        return waiting

    async def _waiting(self, merchant_id: UUID) -> int:
        return int((await self._one(_WAITING, (merchant_id,)))[0])

    async def _one(self, statement: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        row = await (await self._connection.execute(statement, values)).fetchone()
        assert row is not None, "it counts"
        return row


class _Worker(NamedTuple):
    dispatcher: Dispatcher
    messages: InboxConsumer


@contextmanager
def ledger_access(url: str) -> Iterator[LedgerAccess]:
    """Yields access to the ledger on this database."""
    settings = Settings(database_url=url, master_key=MASTER_KEY, sandbox_delay_ms=0)
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            yield runner.run(_opened(runner, stack, settings))
        finally:
            runner.run(stack.aclose())


async def _opened(runner: asyncio.Runner, stack: AsyncExitStack, settings: Settings) -> LedgerAccess:
    url = settings.database_url
    assert url is not None, "it was given"
    ledger = await stack.enter_async_context(open_ledger(settings))
    inbox = await stack.enter_async_context(Inbox(url))
    names = PaymentLookup(url)
    await names.start()
    stack.push_async_callback(names.stop)
    jobs = await stack.enter_async_context(Jobs(url, ledger, HANDLERS))
    connection = await stack.enter_async_context(await connect(url, "property-tests"))
    await use_jobs_schema(connection)
    messages = InboxConsumer(inbox, MessageApplier(ledger, names).handles())
    messages._slots = FairSlots(at_once=1, of_a_merchant=1)  # side by side, a younger one may be applied first
    return LedgerAccess(runner, connection, ledger, _Worker(Dispatcher(ledger.journal, jobs, REACTIONS), messages))
