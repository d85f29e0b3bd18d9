"""The application: every route on one page, and what it is wired to while it runs.

The rule a stranger would break: wiring happens here and nowhere else. A route that needs something new gets it through
`Dependencies`, not from a module's global.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import partial
from typing import Any

from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from api.dependencies import Dependencies, DependencyHolder
from api.http.auth import Authenticator
from api.http.endpoint import Endpoint, ScopedOperation
from api.http.errors import ApiError
from api.http.middleware import Middleware
from api.http.rate_limits import RateLimiter
from api.http.request_metrics import RequestMetrics
from api.openapi import document
from api.orders import actions, endpoints, payments_and_refunds
from api.processor_messages import ProcessorMessages
from api.sandbox import clock, deposits, disputes, payer_pages, processor_mode, settlements
from api.sandbox.payer_pages import PayerPage
from api.system import docs_page, health
from api.system.metrics import METRICS, Metrics
from ledger.background.inbox.delivery import open_delivery
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.background.scheduler.clock_advance import ClockAdvancer
from ledger.operations.payment_lookup import PaymentLookup
from ledger.security.api_keys import Scope as Permission
from ledger.security.secrets import Purpose, load_processor_keys, load_secrets
from ledger.settings import Settings
from ledger.telemetry.logs import AccessLog
from ledger.telemetry.metrics import SHARED_DIRECTORY, sampling
from ledger.wiring import open_ledger
from projections.queries import Queries

READ, WRITE = Permission.ORDERS_READ, Permission.ORDERS_WRITE


def create_app(settings: Settings) -> ASGIApp:
    """The service as an ASGI application. It connects when the server starts it; `settings.database_url` must be set then."""
    house = DependencyHolder()
    logs = settings.access_log == "on" and settings.log_level in ("debug", "info")
    traffic = RequestMetrics(AccessLog() if logs else None)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        async with open_rooms(settings) as rooms:
            house.rooms = rooms
            with sampling(rooms.ledger.journal.sample_metrics):
                yield
            house.rooms = None
        traffic.close()

    router = Router(_routes(settings, house), redirect_slashes=False, default=_unknown_address, lifespan=lifespan)
    return Middleware(router, traffic, timeout_s=settings.request_timeout_s)


def describe_interface(settings: Settings) -> dict[str, Any]:
    """The interface as an OpenAPI document."""
    return document.describe(_routes(settings, DependencyHolder()))


def _routes(settings: Settings, house: DependencyHolder) -> list[Route]:
    orders = f"{settings.base_path}/v2/payment-orders"
    one = f"{orders}/{{id}}"
    return [
        Route(
            orders,
            Endpoint(
                house, GET=ScopedOperation(endpoints.show_list, READ), POST=ScopedOperation(endpoints.create, WRITE)
            ),
        ),
        Route(one, Endpoint(house, GET=ScopedOperation(endpoints.show, READ))),
        Route(f"{one}/charge", Endpoint(house, POST=ScopedOperation(endpoints.charge, WRITE))),
        Route(
            f"{one}/payments",
            Endpoint(
                house,
                GET=ScopedOperation(payments_and_refunds.show_payments, READ),
                POST=ScopedOperation(actions.pay, WRITE),
            ),
        ),
        Route(
            f"{one}/payments/{{paymentId}}",
            Endpoint(house, GET=ScopedOperation(payments_and_refunds.show_payment, READ)),
        ),
        Route(f"{one}/refund", Endpoint(house, POST=ScopedOperation(actions.refund, WRITE))),
        Route(f"{one}/refunds", Endpoint(house, GET=ScopedOperation(payments_and_refunds.show_refunds, READ))),
        Route(
            f"{one}/refunds/{{refundId}}", Endpoint(house, GET=ScopedOperation(payments_and_refunds.show_refund, READ))
        ),
        Route(f"{one}/cancel", Endpoint(house, POST=ScopedOperation(actions.cancel, WRITE))),
        Route(f"{one}/capture", Endpoint(house, POST=ScopedOperation(actions.capture, WRITE))),
        Route(
            f"{one}/payer-authentication/device-data",
            Endpoint(house, POST=ScopedOperation(actions.send_device_data, WRITE)),
        ),
        Route(
            f"{one}/payer-authentication/validate", Endpoint(house, POST=ScopedOperation(actions.validate_payer, WRITE))
        ),
        Route(
            f"{settings.base_path}/processor-messages/{{processor}}",
            ProcessorMessages(house, load_processor_keys(settings)),
        ),
        *_sandbox(settings, house),
        Route("/health/live", health.live()),
        Route("/health/ready", health.ready(house)),
        Route(METRICS, Metrics(house, settings)),
        Route(docs_page.DESCRIPTION, docs_page.description(partial(describe_interface, settings))),
        Route(docs_page.PAGE, docs_page.page()),
        Route(docs_page.ASSET, docs_page.asset()),
    ]


def _sandbox(settings: Settings, house: DependencyHolder) -> list[Route]:
    """The helpers that exist only where no money moves."""
    if settings.environment == "production":
        return []
    sandbox = f"{settings.base_path}/sandbox"
    return [
        Route(
            f"{sandbox}/clock",
            Endpoint(house, GET=ScopedOperation(clock.show, READ), POST=ScopedOperation(clock.move, WRITE)),
        ),
        Route(f"{sandbox}/deposits", Endpoint(house, POST=ScopedOperation(deposits.send, WRITE))),
        Route(f"{sandbox}/disputes", Endpoint(house, POST=ScopedOperation(disputes.report, WRITE))),
        Route(f"{sandbox}/settlements", Endpoint(house, POST=ScopedOperation(settlements.settle, WRITE))),
        Route(f"{sandbox}/processor", Endpoint(house, POST=ScopedOperation(processor_mode.set_mode, WRITE))),
        Route(f"{sandbox}/3ds/device-data/{{id}}", PayerPage(house, settings.base_path, payer_pages.device_data)),
        Route(f"{sandbox}/3ds/challenge/{{id}}", PayerPage(house, settings.base_path, payer_pages.challenge)),
        Route(f"{sandbox}/3ds/redirect/{{id}}", PayerPage(house, settings.base_path, payer_pages.redirect)),
    ]


@asynccontextmanager
async def open_rooms(settings: Settings) -> AsyncIterator[Dependencies]:
    """The ledger, the reader, the keys and the limits of one process, for as long as the context lasts."""
    assert settings.database_url is not None, "whoever starts a process tells it its database"
    async with AsyncExitStack() as stack:
        ledger = await stack.enter_async_context(open_ledger(settings))
        reader = Queries(settings.database_url)
        await reader.start()
        stack.push_async_callback(reader.stop)
        limiter = stack.enter_context(closing(RateLimiter(SHARED_DIRECTORY)))
        secrets = load_secrets(settings)
        keys = Authenticator(
            reader.find_key,
            secrets.key(Purpose.API_KEY_PEPPER),
            settings.environment,
            per_minute=settings.requests_per_minute,
            per_second=settings.requests_per_second,
        )
        fingerprint_key = secrets.key(Purpose.REQUEST_FINGERPRINT)
        mail = await stack.enter_async_context(open_delivery(settings.database_url, ledger))
        clocks, names = None, None
        if settings.environment == "sandbox":
            names = PaymentLookup(settings.database_url)
            await names.start()
            stack.push_async_callback(names.stop)
            hand = ClockAdvancer(settings.database_url, ledger, REACTIONS, HANDLERS, mail)
            clocks = await stack.enter_async_context(hand)
        yield Dependencies(ledger, reader, keys, limiter, settings.body_limit, fingerprint_key, clocks, mail, names)


async def _unknown_address(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise ApiError(404, "NOT_FOUND", "There is nothing at this address.")
