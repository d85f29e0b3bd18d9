"""The worker: one process that runs the reactions until it is told to stop.

The rule a stranger would break: a reaction is stopped between two pieces of work, never inside one. Whatever was begun
is finished or left for the next worker, which finds it by the same question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

from ledger import board
from ledger.board import Reading
from ledger.figures import jobs_figures, journal_figures, process_figures, told
from ledger.reactions import tidying
from ledger.reactions.dispatcher import Dispatcher
from ledger.reactions.forgetting import Forgetting
from ledger.reactions.jobs import Jobs
from ledger.reactions.mail import open_mail
from ledger.reactions.recovery import Recovery, Windows
from ledger.reactions.registry import HANDLERS, REACTIONS
from ledger.reactions.watching import Watch
from ledger.settings import Settings
from ledger.wiring import open_ledger
from projections.open_intents import OpenIntents
from projections.payers import Payers
from projections.search_packing import SearchPacking


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
        OpenIntents(url) as intents,
        SearchPacking(url) as search,
        Payers(url) as payers,
        Jobs(url, ledger, HANDLERS) as jobs,
        open_mail(url, ledger) as mail,
    ):
        dispatcher = Dispatcher(ledger.journal, jobs, REACTIONS)
        watch = Watch(url, dispatcher, jobs)
        recovery = Recovery(ledger, intents.due, windows)
        forgetting = Forgetting(ledger, payers.unfinished, payers.orders_of, payers.finished)

        def figures() -> Iterator[Reading]:
            yield from journal_figures(ledger.journal)
            yield told("ledger_recovery_settled_total", recovery.settled)
            yield from jobs_figures(jobs)
            yield told("ledger_due_times_total", watch.enqueued)
            yield told("ledger_reactions_set_aside_merchants", dispatcher.aside.merchants)

        recovering = asyncio.create_task(recovery.run(stop), name="recovery")
        packing = asyncio.create_task(tidying.run(search.pack, stop), name="search packing")
        erasures = asyncio.create_task(forgetting.run(stop), name="forgetting")
        watching = asyncio.create_task(watch.run(stop), name="reactions")
        working = asyncio.create_task(jobs.run(stop), name="jobs")
        delivering = asyncio.create_task(mail.run(stop), name="mail")
        here = board.here("worker")
        with here.telling(figures, partial(process_figures, here)):
            ready()
            await asyncio.gather(recovering, packing, erasures, watching, working, delivering)
