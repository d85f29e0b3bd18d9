"""A long outage: the job of a subscription is given up, and its periods are billed all the same."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from tests.subscriptions.shop import Shop

from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.background.scheduler import timers
from ledger.background.scheduler.failed_jobs import failed_jobs, resume_given_up
from ledger.background.scheduler.jobs import Jobs, use_jobs_schema
from ledger.operations.context.ledger import Ledger
from ledger.postgres.connection import connect

pytestmark = [pytest.mark.anyio, pytest.mark.long]


async def test_every_period_is_billed_after_a_job_was_given_up(shop: Shop) -> None:
    made = await shop.subscribe(await shop.plan())
    await shop.move_only(timedelta(days=70))

    async def unavailable(_: Ledger, __: UUID, ___: UUID, ____: UUID, _____: datetime) -> None:
        raise ConnectionError

    async with (
        Jobs(shop.url, shop.ledger, dict.fromkeys(HANDLERS, unavailable)) as jobs,
        await connect(shop.url, "test") as connection,
    ):
        await use_jobs_schema(connection)
        await Dispatcher(shop.ledger.journal, jobs, REACTIONS).sweep(connection)
        assert await timers.enqueue_due(connection, jobs) == 2, "the renewal and the receipt"
        await jobs.run_all_of(connection, shop.merchant_id)
        await connection.execute("update procrastinate_jobs set attempts = 39, scheduled_at = now()")
        await jobs.run_all_of(connection, shop.merchant_id)
        given_up = await failed_jobs(connection)
        kinds = {"subscription-due", "subscription-notice"}
        assert {(one.kind, one.given_up, one.order_id) for one in given_up} == {
            (kind, True, made.subscription_id) for kind in kinds
        }
        assert await timers.enqueue_due(connection, jobs) == 0, "no timer is left: the job is all there is"
        jobs._handlers = HANDLERS
        await connection.execute("update procrastinate_jobs set scheduled_at = scheduled_at - interval '2 hours'")
        assert await resume_given_up(connection) == 2
        await jobs.run_all_of(connection, shop.merchant_id)
        assert await failed_jobs(connection) == []
    state = await shop.at(made.subscription_id)
    assert [(invoice.period, invoice.status) for invoice in state.invoices] == [(n, "PAID") for n in range(3)]
    assert len(await shop.charges()) == 3
