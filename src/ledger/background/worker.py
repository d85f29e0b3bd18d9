"""The worker: one process that runs the reactions until it is told to stop.

The rule a stranger would break: a reaction is stopped between two pieces of work, never inside one. Whatever was begun
is finished or left for the next worker, which finds it by the same question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ledger.background import periodic
from ledger.background.erasure import ErasureSweep
from ledger.background.inbox.delivery import open_delivery
from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.background.reactions.runner import ReactionRunner
from ledger.background.recovery import Recovery, Windows
from ledger.background.scheduler.jobs import Jobs
from ledger.settings import Settings
from ledger.telemetry.metrics import PROCESS, QUARANTINED, sampling
from ledger.wiring import open_ledger
from projections.erasures import Erasures
from projections.open_calls import OpenCalls
from projections.search.compaction import SearchCompactor


async def run(settings: Settings, ready: Callable[[], None], stop: asyncio.Event) -> None:
    """Run every reaction; `ready` is called once they all do. Raises psycopg.OperationalError at the start."""
    assert settings.database_url is not None, "whoever starts a worker tells it its database"
    windows = Windows(
        margin_s=settings.recovery_margin_s,
        late_s=max(0.0, settings.not_found_final_s - settings.processor_timeout_s),
    )
    url = settings.database_url
    async with (
        open_ledger(settings) as ledger,
        OpenCalls(url) as intents,
        SearchCompactor(url) as search,
        Erasures(url) as payers,
        Jobs(url, ledger, HANDLERS) as jobs,
        open_delivery(url, ledger) as mail,
    ):
        dispatcher = Dispatcher(ledger.journal, jobs, REACTIONS)
        watch = ReactionRunner(url, dispatcher, jobs)
        recovery = Recovery(ledger, intents.due, windows)
        forgetting = ErasureSweep(ledger, payers.unfinished, payers.orders_of, payers.finished)

        def sample_quarantine() -> None:
            QUARANTINED.labels(PROCESS).set(dispatcher.aside.merchants)

        recovering = asyncio.create_task(recovery.run(stop), name="recovery")
        packing = asyncio.create_task(periodic.run_periodically(search.pack, stop), name="search packing")
        erasures = asyncio.create_task(forgetting.run(stop), name="forgetting")
        watching = asyncio.create_task(watch.run(stop), name="reactions")
        working = asyncio.create_task(jobs.run(stop), name="jobs")
        delivering = asyncio.create_task(mail.run(stop), name="mail")
        with sampling(ledger.journal.sample_metrics, sample_quarantine):
            ready()
            await asyncio.gather(recovering, packing, erasures, watching, working, delivering)
