"""The application: every route on one page.

A route that needs something new gets it through `Dependencies`, never from a module's global.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from starlette.routing import Route
from starlette.types import ASGIApp

from api import description as document
from api.audits import create as create_audit
from api.audits import list as list_audits
from api.audits import show as show_audit
from api.customers import change
from api.customers import create as create_customer
from api.customers import delete as delete_customer
from api.customers import list as list_customers
from api.customers import show as show_customer
from api.events import list as list_events
from api.events import redeliver as redeliver_event
from api.events import show as show_event
from api.global_invoices import cancel as cancel_global
from api.global_invoices import create as create_global
from api.global_invoices import list as list_global
from api.global_invoices import show as show_global
from api.histories import events as histories
from api.histories import explain, summary
from api.http.dependencies import DependencyHolder, open_dependencies
from api.http.endpoint import Endpoint, RouteTable, ScopedOperation
from api.http.middleware import Middleware
from api.http.request_metrics import RequestMetrics
from api.log import consistency, entry_proof, signed, tiles
from api.merchant import create_key, fiscal_issuer, fiscal_logo, list_keys, meta, revoke_key, rotate_key
from api.merchant import settings as merchant
from api.orders import (
    add_payment,
    authenticate,
    cancel,
    capture,
    charge,
    create,
    payments,
    payout,
    refund,
    refunds,
    release,
    show,
)
from api.orders import change as change_order
from api.orders import list as list_orders
from api.orders.invoices import cancel as cancel_cfdi
from api.orders.invoices import cfdi_url, month_end, self_invoice_url, stamp
from api.pages.payer_return import PayerReturnPage
from api.pages.self_invoice import SelfInvoicePage
from api.payment_methods import authenticate as authenticate_card
from api.payment_methods import create as create_method
from api.payment_methods import delete, update
from api.payment_methods import list as list_methods
from api.payment_methods import show as show_method
from api.processor_accounts import check as check_account
from api.processor_accounts import connect as connect_account
from api.processor_accounts import disconnect as disconnect_account
from api.processor_accounts import show as show_account
from api.products import bulk_import
from api.products import list as list_products
from api.products import show as show_product
from api.response import ERRORS_PAGE
from api.sandbox import clock, deposits, disputes, payer_pages, processor_mode, settlements, stamping
from api.sandbox.payer_pages import PayerPage
from api.subscriptions import cancel as cancel_subscription
from api.subscriptions import change as change_subscription
from api.subscriptions import create as create_subscription
from api.subscriptions import invoices as subscription_invoices
from api.subscriptions import list as list_subscriptions
from api.subscriptions import preview as preview_subscription
from api.subscriptions import retry as retry_subscription
from api.subscriptions import show as show_subscription
from api.subscriptions.plans import archive
from api.subscriptions.plans import change as change_plan
from api.subscriptions.plans import create as create_plan
from api.subscriptions.plans import list as list_plans
from api.subscriptions.plans import show as show_plan
from api.system import docs_page, errors_page, events_page, health
from api.system.account_messages import AccountMessages
from api.system.file_links import FileLinks
from api.system.metrics import METRICS, Metrics
from api.system.processor_messages import ProcessorMessages
from api.system.readiness import ReadinessLog
from api.webhooks import change as change_endpoint
from api.webhooks import create as create_endpoint
from api.webhooks import delete as delete_endpoint
from api.webhooks import deliveries as list_deliveries
from api.webhooks import list as list_endpoints
from api.webhooks import replay as replay_events
from api.webhooks import rotate as rotate_secret
from api.webhooks import test as test_endpoint
from ledger.invoicing.files import FOLDER
from ledger.invoicing.self_invoice_links import PATH as SELF_INVOICES
from ledger.journal.journal import Journal
from ledger.postgres.standstill import leave, standstill
from ledger.processors.merchant_accounts import MESSAGES
from ledger.processors.payer_returns import PATH as PAYER_RETURNS
from ledger.security.secrets import load_processor_keys
from ledger.settings import Settings, errors_url
from ledger.telemetry.logs import AccessLog
from ledger.telemetry.metrics import PROCESS, sampling
from ledger.wiring import start_tracing


def create_app(settings: Settings) -> ASGIApp:
    """Returns the service as an ASGI application. It connects when the server starts it, by `settings.database_url`."""
    holder = DependencyHolder()
    logs = settings.access_log == "on" and settings.log_level in ("debug", "info")
    access_log = AccessLog(log_format=settings.log_format, process=PROCESS) if logs else None
    tracing = start_tracing(settings, PROCESS)
    if tracing is None:
        traffic = RequestMetrics(access_log)
    else:
        from api.system.request_spans import DescribedRequests, RequestSpans

        traffic = DescribedRequests(access_log)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        async with AsyncExitStack() as ended, open_dependencies(settings, tracing) as deps:
            holder.deps = deps
            are_answered = asyncio.Event()
            leaving = asyncio.create_task(leave_at_standstill(deps.ledger.journal, are_answered))
            ended.callback(leaving.cancel)  # once all connections are closed
            with sampling(deps.ledger.journal.sample_metrics):
                async with ReadinessLog(holder).running():
                    yield
            are_answered.set()
            holder.deps = None
        end_telemetry()

    def end_telemetry() -> None:
        traffic.close()
        if tracing is not None:
            tracing.stop()

    async def leave_at_standstill(journal: Journal, are_answered: asyncio.Event) -> None:
        """Answers the requests that wait for the database once it completes nothing and the process is to end, and then
        ends the process.
        """
        await app.ending.wait()
        names = await standstill(journal.announcer, lambda: not journal.writer.is_reconnecting)
        app.open_requests.end_at_standstill(is_unconfirmed=bool(names))
        await are_answered.wait()
        end_telemetry()
        leave(names)

    def has_database() -> bool:
        return holder.deps is None or holder.deps.ledger.has_database

    app = Middleware(
        RouteTable(routes(settings, holder), lifespan=lifespan),
        traffic,
        timeout_s=settings.request_timeout_s,
        errors_url=errors_url(settings),
        has_database=has_database,
    )
    return app if tracing is None else RequestSpans(tracing.tracer, app)


def describe_interface(settings: Settings) -> dict[str, Any]:
    """Returns the interface as an OpenAPI document."""
    return document.describe(routes(settings, DependencyHolder()))


def routes(settings: Settings, holder: DependencyHolder) -> list[Route]:
    """Returns every route of the service: each path with its operations by method."""
    return [
        *order_routes(settings, holder),
        *customer_routes(settings, holder),
        *product_routes(settings, holder),
        *subscription_routes(settings, holder),
        *merchant_routes(settings, holder),
        *account_routes(settings, holder),
        *event_routes(settings, holder),
        *log_routes(settings, holder),
        *audit_routes(settings, holder),
        *webhook_routes(settings, holder),
        *signed_routes(settings, holder),
        *sandbox_routes(settings, holder),
        *system_routes(settings, holder),
    ]


def order_routes(settings: Settings, holder: DependencyHolder) -> list[Route]:
    """Returns the routes of payment orders, their payments, refunds and invoices."""
    orders = f"{settings.base_path}/v2/payment-orders"
    one = f"{orders}/{{id}}"
    route = partial(_route, holder)
    return [
        route(orders, GET=list_orders.LIST_ORDERS, POST=create.CREATE),
        route(one, GET=show.SHOW, PATCH=change_order.CHANGE),
        route(f"{one}/events", GET=histories.LIST_ORDER_EVENTS),
        route(f"{one}/explain", GET=explain.EXPLAIN),
        route(f"{one}/charge", POST=charge.CHARGE),
        route(f"{one}/payments", GET=payments.LIST_PAYMENTS, POST=add_payment.ADD_PAYMENT),
        route(f"{one}/payments/{{paymentId}}", GET=payments.SHOW_PAYMENT),
        route(f"{one}/refund", POST=refund.REFUND),
        route(f"{one}/refunds", GET=refunds.LIST_REFUNDS),
        route(f"{one}/refunds/{{refundId}}", GET=refunds.SHOW_REFUND),
        route(f"{one}/refunds/{{refundId}}/confirm", POST=payout.CONFIRM),
        route(f"{one}/refunds/{{refundId}}/destination", PUT=payout.CHANGE_DESTINATION),
        route(f"{one}/cancel", POST=cancel.CANCEL),
        route(f"{one}/capture", POST=capture.CAPTURE),
        route(f"{one}/release", POST=release.RELEASE),
        route(f"{one}/stamp", POST=stamp.STAMP),
        route(f"{one}/cfdi-url", GET=cfdi_url.GET_LINKS, POST=cfdi_url.POST_LINKS),
        route(f"{one}/self-invoice-url", GET=self_invoice_url.GET_LINK),
        route(f"{one}/cfdi-cancel", POST=cancel_cfdi.CANCEL_CFDI),
        route(f"{one}/payer-authentication/device-data", POST=authenticate.SUBMIT_DEVICE_DATA),
        route(f"{one}/payer-authentication/validate", POST=authenticate.VALIDATE),
    ]


def customer_routes(settings: Settings, holder: DependencyHolder) -> list[Route]:
    """Returns the routes of customers and their saved payment methods."""
    customers = f"{settings.base_path}/customers"
    methods = f"{customers}/{{customerId}}/payment-methods"
    one = f"{settings.base_path}/payment-methods/{{id}}"
    route = partial(_route, holder)
    return [
        route(methods, GET=list_methods.LIST_METHODS, POST=create_method.CREATE),
        route(f"{methods}/{{paymentMethodId}}", DELETE=delete.DELETE),
        route(one, GET=show_method.SHOW, PUT=update.UPDATE),
        route(f"{one}/payer-authentication/device-data", POST=authenticate_card.SUBMIT_DEVICE_DATA),
        route(f"{one}/payer-authentication/validate", POST=authenticate_card.VALIDATE),
        route(customers, GET=list_customers.LIST_CUSTOMERS, POST=create_customer.CREATE),
        route(f"{customers}/{{id}}", GET=show_customer.SHOW, PUT=change.CHANGE, DELETE=delete_customer.DELETE),
        route(f"{customers}/{{id}}/events", GET=histories.LIST_CUSTOMER_EVENTS),
    ]


def product_routes(settings: Settings, holder: DependencyHolder) -> list[Route]:
    """Returns the routes of products."""
    products = f"{settings.lps_base_path}/products"
    route = partial(_route, holder)
    return [
        route(products, GET=list_products.LIST_PRODUCTS),
        route(f"{products}/bulk-import", POST=bulk_import.IMPORT_PRODUCTS),
        route(f"{products}/{{id}}", GET=show_product.SHOW_PRODUCT),
    ]


def subscription_routes(settings: Settings, holder: DependencyHolder) -> list[Route]:
    """Returns the routes of plans, subscriptions and their invoices."""
    plans = f"{settings.base_path}/v1/plans"
    subscriptions = f"{settings.base_path}/v1/subscriptions"
    one = f"{subscriptions}/{{id}}"
    route = partial(_route, holder)
    return [
        route(plans, GET=list_plans.LIST_PLANS, POST=create_plan.CREATE_PLAN),
        route(f"{plans}/{{id}}", GET=show_plan.SHOW_PLAN, PUT=change_plan.CHANGE_PLAN, DELETE=archive.ARCHIVE_PLAN),
        route(
            subscriptions,
            GET=list_subscriptions.LIST_SUBSCRIPTIONS,
            POST=create_subscription.CREATE_SUBSCRIPTION,
        ),
        route(one, GET=show_subscription.SHOW_SUBSCRIPTION, PUT=change_subscription.CHANGE_SUBSCRIPTION),
        route(f"{one}/cancel", POST=cancel_subscription.CANCEL_SUBSCRIPTION),
        route(f"{one}/resume", POST=cancel_subscription.RESUME_SUBSCRIPTION),
        route(f"{one}/retry", POST=retry_subscription.RETRY_SUBSCRIPTION),
        route(f"{one}/preview", POST=preview_subscription.PREVIEW_SUBSCRIPTION),
        route(f"{one}/invoices", GET=subscription_invoices.LIST_INVOICES),
        route(f"{one}/events", GET=histories.LIST_SUBSCRIPTION_EVENTS),
        route(f"{settings.base_path}/v1/subscription-invoices/{{id}}", GET=subscription_invoices.SHOW_INVOICE),
    ]


def merchant_routes(settings: Settings, holder: DependencyHolder) -> list[Route]:
    """Returns the routes of the merchant: its API keys, its settings, its data as an issuer and its invoices."""
    keys = f"{settings.base_path}/v1/api-keys"
    own = f"{settings.base_path}/v1/merchant"
    issuer = f"{own}/fiscal-issuer"
    globals_ = f"{settings.base_path}/v1/invoices/global"
    route = partial(_route, holder)
    return [
        route(keys, GET=list_keys.LIST_KEYS, POST=create_key.CREATE_KEY),
        route(f"{keys}/{{id}}", GET=list_keys.SHOW_KEY, DELETE=revoke_key.REVOKE_KEY),
        route(f"{keys}/{{id}}/rotate", POST=rotate_key.ROTATE_KEY),
        route(own, GET=merchant.SHOW_MERCHANT, PUT=merchant.CHANGE_MERCHANT),
        route(issuer, GET=fiscal_issuer.SHOW_ISSUER, PUT=fiscal_issuer.SET_ISSUER),
        route(f"{issuer}/logo", GET=fiscal_logo.SHOW_LOGO, PUT=fiscal_logo.SET_LOGO, DELETE=fiscal_logo.REMOVE_LOGO),
        route(globals_, GET=list_global.LIST, POST=create_global.CREATE),
        route(f"{globals_}/{{id}}", GET=show_global.SHOW),
        route(f"{globals_}/{{id}}/cancel", POST=cancel_global.CANCEL),
        route(f"{settings.base_path}/v1/invoices/month-end", GET=month_end.MONTH_END),
        route(f"{settings.base_path}/v1/summary", GET=summary.SUMMARIZE),
        route(f"{settings.base_path}/v1/meta", GET=meta.SHOW_META),
    ]


def account_routes(settings: Settings, holder: DependencyHolder) -> list[Route]:
    """Returns the routes of the merchant's accounts with payment processors."""
    accounts = f"{settings.base_path}/v1/processor-accounts"
    one = f"{accounts}/{{name}}"
    route = partial(_route, holder)
    return [
        route(accounts, GET=show_account.LIST_ACCOUNTS),
        route(
            one,
            GET=show_account.SHOW_ACCOUNT,
            PUT=connect_account.CONNECT_ACCOUNT,
            DELETE=disconnect_account.DISCONNECT_ACCOUNT,
        ),
        route(f"{one}/check", POST=check_account.CHECK_ACCOUNT),
    ]


def event_routes(settings: Settings, holder: DependencyHolder) -> list[Route]:
    """Returns the routes of the merchant's public events."""
    events = f"{settings.base_path}/v1/events"
    route = partial(_route, holder)
    return [
        route(events, GET=list_events.LIST_EVENTS),
        route(f"{events}/{{id}}", GET=show_event.SHOW_EVENT),
        route(f"{events}/{{id}}/redeliver", POST=redeliver_event.REDELIVER_EVENT),
    ]


def log_routes(settings: Settings, holder: DependencyHolder) -> list[Route]:
    """Returns the routes of the Merkle tree over the merchant's log."""
    log = f"{settings.base_path}/v1/log"
    route = partial(_route, holder)
    return [
        route(f"{log}/key", GET=signed.SHOW_KEYS),
        route(f"{log}/checkpoint", GET=signed.SHOW_CHECKPOINT),
        route(f"{log}/tile/{{tile:path}}", GET=tiles.SHOW_TILE),
        route(f"{log}/entries/{{position}}/proof", GET=entry_proof.PROVE_ENTRY),
        route(f"{log}/consistency", GET=consistency.PROVE_CONSISTENCY),
    ]


def audit_routes(settings: Settings, holder: DependencyHolder) -> list[Route]:
    """Returns the routes of the audits of the merchant's log."""
    audits = f"{settings.base_path}/v1/audits"
    route = partial(_route, holder)
    return [
        route(audits, GET=list_audits.LIST_AUDITS, POST=create_audit.CREATE_AUDIT),
        route(f"{audits}/{{id}}", GET=show_audit.SHOW_AUDIT),
    ]


def webhook_routes(settings: Settings, holder: DependencyHolder) -> list[Route]:
    """Returns the routes of the merchant's webhook endpoints."""
    endpoints = f"{settings.base_path}/v1/webhook-endpoints"
    route = partial(_route, holder)
    return [
        route(endpoints, GET=list_endpoints.LIST_ENDPOINTS, POST=create_endpoint.CREATE_ENDPOINT),
        route(
            f"{endpoints}/{{id}}",
            GET=list_endpoints.SHOW_ENDPOINT,
            PUT=change_endpoint.CHANGE_ENDPOINT,
            DELETE=delete_endpoint.DELETE_ENDPOINT,
        ),
        route(f"{endpoints}/{{id}}/rotate-secret", POST=rotate_secret.ROTATE_SECRET),
        route(f"{endpoints}/{{id}}/test", POST=test_endpoint.TEST_ENDPOINT),
        route(f"{endpoints}/{{id}}/deliveries", GET=list_deliveries.LIST_DELIVERIES),
        route(f"{endpoints}/{{id}}/replay", POST=replay_events.REPLAY),
    ]


def signed_routes(settings: Settings, holder: DependencyHolder) -> list[Route]:
    """Returns the routes that authenticate by a signature instead of an API key: processors' messages, links to files,
    and the payers' links to the page of self-invoicing.
    """
    messages = ProcessorMessages(holder, load_processor_keys(settings))
    return [
        Route(f"{settings.base_path}/{MESSAGES}/{{processor}}", messages),
        Route(f"{settings.base_path}/{MESSAGES}/{{merchantId}}/{{account}}", AccountMessages(holder)),
        Route(f"{settings.base_path}/{FOLDER}/{{key:path}}", FileLinks(holder)),
        Route(f"{settings.base_path}/{SELF_INVOICES}/{{token}}", SelfInvoicePage(holder)),
        Route(f"{settings.base_path}/{PAYER_RETURNS}/{{token}}", PayerReturnPage(holder)),
    ]


def sandbox_routes(settings: Settings, holder: DependencyHolder) -> list[Route]:
    """Returns the helpers that exist only where no money moves."""
    if settings.environment == "production":
        return []
    sandbox = f"{settings.base_path}/sandbox"
    route = partial(_route, holder)
    page = partial(PayerPage, holder, settings.base_path)
    return [
        route(f"{sandbox}/clock", GET=clock.SHOW_CLOCK, POST=clock.MOVE_CLOCK),
        route(f"{sandbox}/deposits", POST=deposits.SEND_DEPOSIT),
        route(f"{sandbox}/disputes", POST=disputes.REPORT_DISPUTE),
        route(f"{sandbox}/settlements", POST=settlements.SETTLE),
        route(f"{sandbox}/processor", POST=processor_mode.SET_PROCESSOR_MODE),
        route(f"{sandbox}/stamping", POST=stamping.SET_STAMPING_MODE),
        Route(f"{sandbox}/3ds/device-data/{{id}}", page(payer_pages.device_data)),
        Route(f"{sandbox}/3ds/challenge/{{id}}", page(payer_pages.challenge)),
        Route(f"{sandbox}/3ds/redirect/{{id}}", page(payer_pages.redirect)),
    ]


def system_routes(settings: Settings, holder: DependencyHolder) -> list[Route]:
    """Returns the routes of health, metrics and the documentation, which need no API key."""
    return [
        Route(health.LIVE, health.live()),
        Route(health.READY, health.ready(holder)),
        Route(METRICS, Metrics(holder, settings)),
        Route(docs_page.FIRST, docs_page.first_page()),
        Route(docs_page.DESCRIPTION, docs_page.description(partial(describe_interface, settings))),
        Route(docs_page.PAGE, docs_page.page()),
        Route(ERRORS_PAGE, errors_page.page(partial(_statuses, settings))),
        Route(events_page.PATH, events_page.page()),
        Route(docs_page.ASSET, docs_page.asset()),
    ]


def _route(holder: DependencyHolder, path: str, **operations: ScopedOperation) -> Route:
    return Route(path, Endpoint(holder, **operations))


def _statuses(settings: Settings) -> Mapping[str, Collection[int]]:
    return document.statuses(routes(settings, DependencyHolder()))
