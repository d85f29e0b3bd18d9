"""The fake as an application: Stripe's interface, the payer's pages, and the controls of tests."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from campaigns.fake_stripe.accounts import Accounts
from campaigns.fake_stripe.clock import Clock
from campaigns.fake_stripe.controls import Controls
from campaigns.fake_stripe.faults import Faults
from campaigns.fake_stripe.pages import Pages
from campaigns.fake_stripe.record import Record
from campaigns.fake_stripe.requests import Requests
from campaigns.fake_stripe.webhooks import Sender

_EVERY = ["GET", "POST", "DELETE", "PUT", "PATCH"]
_TICK_S = 0.05


def create_app(record: Record, *names: str, seed: int = 1) -> Starlette:
    """Creates the fake with these accounts. It writes what happens to `record`.

    As at Stripe, any page may ask it with a publishable key.
    """
    clock, faults, sender = Clock(), Faults(), Sender()
    accounts = Accounts(clock, record, sender, seed)
    for name in names:
        accounts.open(name)
    requests = Requests(accounts, clock, record, faults)
    controls = Controls(accounts, clock, record, faults, sender, requests)
    pages = Pages(accounts)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with sender:
            ticking = asyncio.create_task(_tick(clock, record))
            yield
            ticking.cancel()
            with suppress(asyncio.CancelledError):
                await ticking

    return Starlette(
        routes=[
            Route("/v1/{rest:path}", requests.serve, methods=_EVERY),
            Route("/_test/{control}", controls.serve, methods=_EVERY),
            Route("/authenticate/{account}/{intent}", pages.authenticate, methods=["GET", "POST"]),
            Route("/vouchers/{account}/{intent}", pages.voucher),
            Route("/transfers/{account}/{intent}", pages.transfer),
        ],
        middleware=[Middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])],
        lifespan=lifespan,
    )


async def _tick(clock: Clock, record: Record) -> None:
    """Lets what is due happen where nothing is asked for."""
    while True:
        await asyncio.sleep(_TICK_S)
        try:
            clock.run_due()
        except Exception:  # noqa: BLE001 - what is due next has to happen all the same
            record.write(violations=[traceback.format_exc()[-1000:]])
