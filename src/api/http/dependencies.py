"""What the endpoints work with, and its wiring. Wire only here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import structlog
from msgspec import Struct

from api.http.auth import Authenticator
from api.http.rate_limits import RateLimiter
from api.http.waiting_requests import WaitingRequests
from ledger.background.audits.requests import Audits
from ledger.background.clock.advance import ClockAdvancer
from ledger.background.deliveries.repeats import Repeats
from ledger.background.inbox.delivery import open_delivery
from ledger.background.periodic import run_periodically
from ledger.background.reactions.feed import Feed
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.operations.context.audits import AuditRequests
from ledger.operations.context.clock import ClockControl
from ledger.operations.context.event_feed import EventFeed
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.repeats import DeliveryRepeats
from ledger.operations.message_delivery import MessageDelivery
from ledger.operations.orders.payment_lookup import PaymentLookup
from ledger.postgres.faults import DatabaseUnavailable, Fault
from ledger.postgres.listener import Listener
from ledger.postgres.registration import Registration
from ledger.security.api_keys import NewKey, new_key
from ledger.security.secrets import Purpose, load_checkpoint_keys, load_secrets
from ledger.settings import Settings, log_origin, request_limits
from ledger.telemetry.metrics import SHARED_DIRECTORY
from ledger.tlog.keys import LogKeys
from ledger.tlog.reading import TreeReader
from ledger.wiring import document_place, open_ledger
from projections.as_of.orders import PastOrderReader
from projections.as_of.reads import PastReader
from projections.as_of.reports import ReportClient, SnapshotClient
from projections.as_of.subscriptions import PastSubscriptionReader
from projections.as_of.summaries import SummaryReader
from projections.events.bodies import BodyRenderer
from projections.events.feed import FeedReader
from projections.events.samples import SampleRenderer
from projections.events.states import StateReader
from projections.histories.steps import HistoryReader
from projections.merchants import CHANGES, merchant_in
from projections.queries import Queries

if TYPE_CHECKING:
    from ledger.tracing.tracing import Tracing

_USES_S: Final = 60.0
_log: Final = structlog.get_logger()


class Dependencies(Struct, frozen=True):
    """What the operations work with while the application runs."""

    ledger: Ledger
    queries: Queries
    authenticator: Authenticator
    limiter: RateLimiter
    body_limit: int
    """The most bytes that a body may have."""
    import_body_limit: int
    """The same for an import of products."""
    commit_age_max_s: float
    """How long a commit may be in flight while the process is ready."""
    clock_ahead_s: Callable[[], float]
    """Returns how far this machine's clock is ahead of the database's."""
    fingerprint_key: bytes
    """Hashes the requests that come with an Idempotency-Key."""
    environment: Literal["sandbox", "production"]
    new_key: Callable[[], NewKey]
    """Draws a new API key of this installation."""
    delivery: MessageDelivery
    """Keeps and delivers processors' messages."""
    feed: EventFeed
    """Numbers a merchant's public events up to the end of its log."""
    events: FeedReader
    """Reads the numbered events."""
    past: PastReader
    """Reads resources as they were."""
    past_orders: PastOrderReader
    """Reads the list of orders as it was."""
    past_subscriptions: PastSubscriptionReader
    """Reads the list of subscriptions as it was."""
    summaries: SummaryReader
    """Reads the sums of orders and subscriptions."""
    histories: HistoryReader
    """Reads the events of resources."""
    repeats: DeliveryRepeats
    """Lets events be delivered to webhook endpoints again."""
    audits: AuditRequests
    """Lets the log be audited."""
    trees: TreeReader
    """Reads the Merkle trees of the logs."""
    log_keys: LogKeys
    """The keys that sign the checkpoints of the logs."""
    samples: SampleRenderer
    """Renders samples of public events."""
    waiting: WaitingRequests
    """The requests that wait for the next event."""
    clock_control: ClockControl | None = None
    """Moves merchants' clocks: only in the sandbox."""
    payment_lookup: PaymentLookup | None = None
    """Finds payments by their ids alone: only in the sandbox."""


class DependencyHolder:
    """Holds the dependencies between the application's start and its end. Routes exist before the start."""

    deps: Dependencies | None = None


def not_started() -> DatabaseUnavailable:
    """Returns the fault of a request before the application's start or after its end."""
    return DatabaseUnavailable("the application has not started")


@asynccontextmanager
async def open_dependencies(settings: Settings, tracing: Tracing | None = None) -> AsyncIterator[Dependencies]:
    """Opens the ledger, the queries and everything else that the endpoints work with, and closes them at the end."""
    assert settings.database_url is not None, "a process that serves has a database"
    async with AsyncExitStack() as stack:
        ledger = await stack.enter_async_context(open_ledger(settings, tracing=tracing))
        await stack.enter_async_context(ledger.journal.disk.probing(settings.disk_probe_s))
        registration = Registration(ledger.journal.announcer, document_place(settings))
        await stack.enter_async_context(registration.running())
        reader = ledger.journal.reader
        queries = Queries(settings.database_url, reader.stream, settings.read_database_url, reader.archive)
        await queries.start()
        stack.push_async_callback(queries.stop)
        limiter = stack.enter_context(
            closing(RateLimiter(SHARED_DIRECTORY, merchant_factor=settings.merchant_rate_factor))
        )
        secrets = load_secrets(settings)
        per_minute, per_second = request_limits(settings)
        authenticator = Authenticator(
            queries.find_key,
            secrets.key(Purpose.API_KEY_PEPPER),
            settings.environment,
            per_minute=per_minute,
            per_second=per_second,
        )
        await _follow_merchants(settings.database_url, ledger, authenticator, stack)
        await stack.enter_async_context(_writing_key_uses(authenticator, queries))
        delivery = await stack.enter_async_context(open_delivery(settings.database_url, ledger))
        repeats = Repeats(settings.database_url)
        stack.push_async_callback(repeats.stop)
        feed = Feed(settings.database_url, ledger.journal)
        stack.push_async_callback(feed.stop)
        bodies = BodyRenderer(settings.environment, settings.base_path, settings.lps_base_path)
        states = StateReader(ledger.journal.reader, ledger.slices)
        events = FeedReader(settings.database_url, states, bodies)
        stack.push_async_callback(events.stop)
        past, reports = (
            SnapshotClient(settings.database_url, "ledger-past"),
            ReportClient(settings.database_url, queries.replica),
        )
        stack.push_async_callback(past.stop)
        stack.push_async_callback(reports.stop)
        histories = HistoryReader(settings.database_url, ledger.journal.reader, ledger.slices)
        stack.push_async_callback(histories.stop)
        audits = Audits(settings.database_url)
        stack.push_async_callback(audits.stop)
        trees = TreeReader(settings.database_url)
        stack.push_async_callback(trees.stop)
        payment_lookup, clock_control = None, None
        if settings.environment == "sandbox":
            payment_lookup = PaymentLookup(settings.database_url)
            await payment_lookup.start()
            stack.push_async_callback(payment_lookup.stop)
            handlers = HANDLERS if tracing is None else tracing.handlers(HANDLERS)
            advancer = ClockAdvancer(settings.database_url, ledger, REACTIONS, handlers, delivery)
            clock_control = await stack.enter_async_context(advancer)
        yield Dependencies(
            ledger=ledger,
            queries=queries,
            authenticator=authenticator,
            limiter=limiter,
            body_limit=settings.body_limit,
            import_body_limit=settings.import_body_limit,
            commit_age_max_s=settings.commit_age_max_s,
            clock_ahead_s=lambda: registration.clock_ahead_s,
            fingerprint_key=secrets.key(Purpose.REQUEST_FINGERPRINT),
            environment=settings.environment,
            new_key=partial(new_key, settings.environment, secrets.key(Purpose.API_KEY_PEPPER)),
            delivery=delivery,
            feed=feed,
            events=events,
            past=PastReader(past, states),
            past_orders=PastOrderReader(past, reports, states),
            past_subscriptions=PastSubscriptionReader(reports, states),
            summaries=SummaryReader(reports, states),
            histories=histories,
            repeats=repeats,
            audits=audits,
            trees=trees,
            log_keys=LogKeys(log_origin(settings), load_checkpoint_keys(settings)),
            samples=SampleRenderer(settings.environment, settings.base_path, settings.lps_base_path),
            waiting=WaitingRequests(settings.request_timeout_s),
            clock_control=clock_control,
            payment_lookup=payment_lookup,
        )


@asynccontextmanager
async def _writing_key_uses(authenticator: Authenticator, queries: Queries) -> AsyncIterator[None]:
    """Writes when keys were used, once a minute and at the end."""
    stop = asyncio.Event()
    writing = partial(authenticator.write_uses, queries.write_key_uses)
    task = asyncio.create_task(run_periodically(writing, stop, pause_s=_USES_S, log_waiting=_log_uses_wait))
    try:
        yield
    finally:
        stop.set()
        await task
        with suppress(Fault):
            await writing()


def _log_uses_wait(reason: str) -> None:
    _log.warning("key_uses_wait", reason=reason)


async def _follow_merchants(url: str, ledger: Ledger, authenticator: Authenticator, stack: AsyncExitStack) -> None:
    """Lets this process drop what it has cached of a merchant whenever any process changes its keys or settings."""

    def forget(payload: str) -> None:
        merchant_id = merchant_in(payload)
        if merchant_id is not None:
            authenticator.forget(merchant_id)
            ledger.forget_merchant(merchant_id)

    listener = Listener(url, "ledger-merchants", CHANGES, forget, authenticator.forget)
    await listener.start()
    stack.push_async_callback(listener.stop)
