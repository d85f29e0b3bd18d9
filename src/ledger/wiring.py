"""One process's ledger, put together: the journal with its read models, the processor, the ordinals.

The rule a stranger would break: this is the only place of the `ledger` package that knows `projections`; everything
else is given what it needs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from ledger.journal.encryption.data_keys import DataKeys
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.journal.journal import Journal
from ledger.operations.clock import Clock, MerchantClocks
from ledger.operations.ledger import CallTimeouts, Ledger
from ledger.operations.order_numbers import OrderNumbers
from ledger.processors.contract import Processor
from ledger.processors.sandbox.call_executor import CallExecutor
from ledger.processors.sandbox.charge_writer import ChargeWriter
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.security.secrets import load_sealing_keys
from ledger.settings import Settings, public_url
from projections.inline import Inline


@asynccontextmanager
async def open_ledger(settings: Settings, *, clock: Clock | None = None) -> AsyncIterator[Ledger]:
    """A ledger on the settings' database for as long as the context lasts; what runs then is finished first.

    `settings.database_url` must be set. Raises psycopg.OperationalError where the database cannot be reached,
    SettingWrong where the secrets cannot be had.
    """
    assert settings.database_url is not None, "whoever starts a process tells it its database"
    url = settings.database_url
    async with AsyncExitStack() as stack:
        keys = DataKeys(url, SealingKeys(load_sealing_keys(settings)))
        journal = Journal(url, Inline(), keys, batch_max=settings.batch_max, queue_max=settings.journal_queue_max)
        await journal.start()
        stack.push_async_callback(journal.stop)
        processor = await _processor(settings, url, stack)
        call_timeouts = CallTimeouts(processor_timeout_s=settings.processor_timeout_s)
        if clock is None and settings.environment == "sandbox":
            clock = clocks = MerchantClocks(url)
            await clocks.start()
            stack.push_async_callback(clocks.stop)
        ledger = Ledger(journal, processor, OrderNumbers(url), clock=clock, call_timeouts=call_timeouts)
        stack.push_async_callback(ledger.drain)
        yield ledger


async def _processor(settings: Settings, url: str, stack: AsyncExitStack) -> Processor | None:
    """The sandbox has its own card company; production has none until a real one is connected."""
    if settings.environment == "production":
        return None
    book, teller = ChargeWriter(url), CallExecutor(url)
    await book.start()
    stack.push_async_callback(book.stop)
    await teller.start()
    stack.push_async_callback(teller.stop)
    return SandboxProcessor(
        book,
        teller,
        pages_url=f"{public_url(settings)}/sandbox/3ds",
        delay_s=settings.sandbox_delay_ms / 1000,
        silence_s=settings.sandbox_deadline_s,
    )
