"""The worker: one process that does everything that happens outside a request, until it is stopped.

Stop a part between two pieces of its work. What has begun is finished, or left for the next worker, which finds it by
the same query. Where nothing can be completed, because the database or its synchronous standby is away, all of it is
left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from uuid import UUID

from ledger.background.audits.runner import AuditRunner
from ledger.background.deliveries.sender import DeliverySender
from ledger.background.erasure import ErasureSweep
from ledger.background.inbox.delivery import open_delivery
from ledger.background.inbox.missed import MissedMessages, ReadMarks
from ledger.background.inbox.retention import EVERY_S, delete_applied
from ledger.background.log_sealing import LogSealer
from ledger.background.pace import Pace
from ledger.background.periodic import run_periodically
from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.reactions.numbering import EventNumbers
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.background.reactions.runner import ReactionRunner
from ledger.background.reconciliation.reconciler import Reconciliation
from ledger.background.recovery import Recovery, Windows
from ledger.background.scheduler.jobs import Jobs
from ledger.background.scheduler.lanes import PACED_KINDS
from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.journal.journal import Journal
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.payment_lookup import open_lookup
from ledger.operations.payment_methods.sweep import sweep_cards
from ledger.operations.processor_accounts.erase_keys import erase_expired_keys
from ledger.postgres.registration import Registration
from ledger.postgres.standstill import leave, standstill
from ledger.security.secrets import load_checkpoint_keys
from ledger.settings import Settings, log_origin
from ledger.slices import Slices
from ledger.telemetry.metrics import PROCESS, QUARANTINED, sampling
from ledger.tlog.checkpoint_files import CheckpointFiles, checkpoints_address
from ledger.tlog.keys import LogKeys
from ledger.wiring import document_place, open_ledger, start_tracing
from projections.erasures import Erasures
from projections.events.bodies import BodyRenderer
from projections.events.feed import FeedReader
from projections.events.states import StateReader
from projections.orders.open_calls import OpenCalls
from projections.orders.reconciliation import ReconciliationLog
from projections.processor_accounts import disconnected_accounts
from projections.search.compaction import SearchCompactor


@asynccontextmanager
async def _feed(settings: Settings, url: str, ledger: Ledger) -> AsyncIterator[FeedReader]:
    """Yields the feeds of all merchants. It connects for the first event that is delivered."""
    bodies = BodyRenderer(settings.environment, settings.base_path, settings.lps_base_path)
    events = FeedReader(url, StateReader(ledger.journal.reader, Slices(rests=False)), bodies)
    try:
        yield events
    finally:
        await events.stop()


@asynccontextmanager
async def _numbering(url: str, ledger: Ledger) -> AsyncIterator[EventNumbers]:
    numbers = EventNumbers(url, ledger.journal)
    try:
        yield numbers
    finally:
        await numbers.stop()


async def run(settings: Settings, ready: Callable[[], None], stop: asyncio.Event) -> None:
    """Runs all parts of the worker until `stop` is set, and calls `ready` once they run.

    Raises psycopg.OperationalError at the start.
    """
    assert settings.database_url is not None, "the supervisor names a worker's database"
    url = settings.database_url
    tracing = start_tracing(settings, PROCESS)
    checkpoint_files = CheckpointFiles(checkpoints_address(settings.checkpoints_url, settings.data_dir))
    log_keys = LogKeys(log_origin(settings), load_checkpoint_keys(settings))
    handlers = HANDLERS if tracing is None else tracing.handlers(HANDLERS)
    async with (
        AsyncExitStack() as ended,
        open_ledger(settings, tracing=tracing) as ledger,
        ledger.journal.disk.probing(settings.disk_probe_s),
        Registration(ledger.journal.announcer, document_place(settings)).running(),
        OpenCalls(url) as open_calls,
        SearchCompactor(url) as search,
        Erasures(url) as erasures,
        Jobs(url, ledger, handlers, pace=Pace(PACED_KINDS, settings.renewals_per_second, stop)) as jobs,
        open_delivery(url, ledger) as delivery,
        ReconciliationLog(url) as reconciled,
        open_lookup(url) as lookup,
        ReadMarks(url) as marks,
        _feed(settings, url, ledger) as events,
        _numbering(url, ledger) as numbers,
        LogSealer(url, log_keys, checkpoint_files, every_s=settings.seal_s) as sealer,
        AuditRunner(settings, url) as audits,
    ):
        leaving = asyncio.create_task(_leave_at_standstill(ledger.journal, stop))
        ended.callback(leaving.cancel)  # once all connections are closed
        dispatcher = Dispatcher(ledger.journal, jobs, REACTIONS)
        sender = DeliverySender(url, ledger, events)
        reactions = ReactionRunner(url, dispatcher, jobs, numbers, sender.wake)
        windows = Windows(margin_s=settings.recovery_margin_s, late_s=ledger.call_timeouts.not_found_late_s)
        recovery = Recovery(ledger, open_calls.due, windows)
        reconciliation = Reconciliation(ledger, lookup, reconciled.moved)
        erasure = ErasureSweep(ledger, erasures.unfinished, erasures.orders_of, erasures.finished)

        async def find_disconnected() -> Sequence[tuple[UUID, ProcessorAccount]]:
            assert ledger.accounts is not None, "a worker has access to accounts"
            async with ledger.accounts.keys.client.turn() as connection:
                return await disconnected_accounts(connection)

        def sample_quarantine() -> None:
            quarantined = dispatcher.quarantine.merchant_ids | numbers.quarantine.merchant_ids
            QUARANTINED.labels(PROCESS).set(len(quarantined))

        parts = (
            recovery.run,
            partial(run_periodically, search.pack),
            erasure.run,
            partial(run_periodically, partial(sweep_cards, ledger), pause_s=60.0),
            partial(run_periodically, partial(erase_expired_keys, ledger, find_disconnected), pause_s=3600.0),
            reactions.run,
            jobs.run,
            delivery.run,
            MissedMessages(ledger, delivery.inbox, marks).run,
            partial(run_periodically, partial(delete_applied, delivery.inbox, stop), pause_s=EVERY_S),
            partial(reconciliation.run, reconciled),
            sender.run,
            sealer.run,
            audits.run,
        )
        tasks = [asyncio.create_task(run_part(stop)) for run_part in parts]
        with sampling(ledger.journal.sample_metrics, sample_quarantine, sealer.sample):
            ready()
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            stop.set()  # if a part has failed, the others end before their connections do
            await asyncio.gather(*tasks)
    if tracing is not None:
        tracing.stop()


async def _leave_at_standstill(journal: Journal, stop: asyncio.Event) -> None:
    """Ends the process at a standstill once `stop` is set."""
    await stop.wait()
    leave(await standstill(journal.announcer, lambda: not journal.writer.is_reconnecting))
