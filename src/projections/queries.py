"""Every read of a request: point reads, which share one round trip while they wait, and lists, which have a pool.

Take the merchant of a read from the caller's API key, never from a path or a body. An id of another merchant is
answered like an id that does not exist.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from functools import cache, lru_cache
from itertools import count
from typing import Any, Final, TypeVar
from uuid import UUID

from msgspec import Struct

from ledger.domain.fold import fold
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus
from ledger.domain.orders.timers import TimerKind
from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.journal.event_archive import NO_ARCHIVE, EventArchive
from ledger.postgres import archive_state
from ledger.postgres.connection import Connection
from ledger.postgres.dataloader import DataLoader
from ledger.postgres.faults import Fault, ReadModelBehind
from ledger.postgres.node_reads import NodeLoader, NodeReads, NumberedStatements, Reading
from ledger.postgres.pipeline import Rows, Statement
from ledger.postgres.registration import COUNT as COUNT_PROCESSES
from ledger.postgres.replica import WRITTEN, Position, ReplicaUse, written_in
from ledger.postgres.replication import STANDBYS, Standbys
from ledger.postgres.shards import Shard
from projections import (
    audits,
    customers,
    global_invoices,
    merchants,
    payment_methods,
    processor_accounts,
    products,
    webhook_deliveries,
    webhook_endpoints,
)
from projections.audits import AuditQuery
from projections.customers import RELATED_SHOWN_MAX, CustomerRow
from projections.erasures import orders_of_statement
from projections.events import numbered
from projections.global_invoices import GlobalInvoiceQuery
from projections.lists import references, tally
from projections.lists.customers import CustomerQuery, customer_page_body, customer_page_statement
from projections.lists.in_flight import with_heads
from projections.lists.pages import OrderQuery, page_body
from projections.lists.pool import ListPool, NodeLists, configure_node
from projections.lists.references import is_storable
from projections.lists.related_customers import customers_found, customers_statement, related_documents_statement
from projections.lists.replica import ListReplica, Lists
from projections.lists.shared_pages import READ_AT_ONCE, PageKey, SharedPage, is_shared, page_loader, pages_on_shard
from projections.lists.statements import page_statements
from projections.merchants import FoundKey, FoundMerchant, ListedKey
from projections.orders import month_end, open_calls, table
from projections.orders.month_end import Month
from projections.orders.table import OrderRow, ReadStream
from projections.payment_methods import MethodQuery
from projections.products import ProductDocument, ProductQuery
from projections.subscriptions import invoices, plans, subscriptions
from projections.subscriptions.invoices import InvoiceQuery
from projections.subscriptions.plans import PlanQuery
from projections.subscriptions.subscriptions import SubscriptionQuery
from projections.webhook_endpoints import FoundEndpoint

T = TypeVar("T")

Key = tuple[int, Any]
"""The kind of a point read, an index into _POINT_READS, and the key that is looked up."""


class _PointRead(Struct, frozen=True):
    """A kind of point read: a statement for many keys, whose rows begin with the number of the key that they answer.

    A key names its merchant first, or is a merchant's id, unless `is_of_merchant` is False. With `names_local`, the
    statement names a table that Citus does not divide.
    """

    statement: str
    parameters: Callable[[Sequence[Any]], Sequence[Any]]
    parse: Callable[[Sequence[Any]], Any]
    is_of_merchant: bool = True
    names_local: bool = False

    def merchant_of(self, key: Any) -> bytes | None:
        """Returns the id of a key's merchant, None if the key has none."""
        if not self.is_of_merchant:
            return None
        merchant_id: bytes = key[0] if isinstance(key, tuple) else key
        return merchant_id

    def of_one_merchant(self, merchant_id: bytes, keys: Sequence[Any]) -> tuple[str, Mapping[str, Any]]:
        """Returns the statement for keys of one merchant, and its parameters: it names the merchant as a constant."""
        columns = {f"c{n}": column for n, column in enumerate(self.parameters(keys))}
        return _naming_its_merchant(self.statement), columns | {"merchant_id": UUID(bytes=merchant_id)}


@cache
def _naming_its_merchant(statement: str) -> str:
    numbers = count()
    named = re.sub("%s", lambda _: f"%(c{next(numbers)})s", statement)
    return named.replace("q.merchant_id", "%(merchant_id)s")


# The number of messages that wait in the inbox (see `ledger.processors.inbox_store`), since when the oldest waits, and
# how many of them are quarantined for an operator. Without those that have waited for too long for the reason that no
# order matches them.
_WAITING_MESSAGES: Final = """
select count(*), min(received_at), count(*) filter (where next_try_at = 'infinity')
  from processor_message where handled_at is null
   and (waits_for = any(%(unmatched)s) and received_at <= current_timestamp - make_interval(secs => %(alarm_s)s)) is not true
"""

# The payments that wait for a due time, by its kind. A payment has one timer of these kinds at most; the final ones,
# nearly all payments of a large ledger, have none and are not read.
_OPEN_PAYMENTS: Final = "select kind, count(*) from due_time where kind = any(%(kinds)s) group by kind"
_STATUS_OF: Final = {
    TimerKind.EXPIRY: PaymentStatus.REQUIRES_ACTION,
    TimerKind.LAPSE: PaymentStatus.AUTHORIZED,
    TimerKind.CAPTURE: PaymentStatus.PENDING_CAPTURE,
}

# Writes when API keys were used. Another process may have written a later use.
_WRITE_KEY_USES: Final = """
insert into api_key_use (key_id, last_used_at) select * from unnest(%(key_ids)s::uuid[], %(times)s::timestamptz[]) order by 1
on conflict (key_id) do update set last_used_at = excluded.last_used_at
  where api_key_use.last_used_at < excluded.last_used_at
"""

_NO_KEY: Final = bytes(32)

(
    _ORDER,
    _CUSTOMER,
    _API_KEY,
    _CUSTOMER_BY_REFERENCE,
    _PRODUCT,
    _PAYMENT_METHOD,
    _PLAN,
    _SUBSCRIPTION,
    _INVOICE,
    _ACCOUNTS,
    _HEAD,
    _ENDPOINTS,
    _WRITTEN,
    _KEY_MERCHANT,
    _MERCHANT_KEY,
) = range(15)
_POINT_READS: Final = (
    _PointRead(table.FIND, table.find_parameters, table.found),
    _PointRead(customers.FIND, customers.find_parameters, customers.found),
    _PointRead(merchants.FIND_KEY, merchants.find_key_parameters, merchants.found_key, is_of_merchant=False),
    _PointRead(customers.FIND_BY_REFERENCE, customers.find_by_reference_parameters, customers.found_by_reference),
    _PointRead(products.FIND, products.find_parameters, products.found),
    _PointRead(payment_methods.FIND, payment_methods.find_parameters, payment_methods.found),
    _PointRead(plans.FIND, plans.find_parameters, plans.found),
    _PointRead(subscriptions.FIND, subscriptions.find_parameters, subscriptions.found),
    _PointRead(invoices.FIND, invoices.find_parameters, invoices.found),
    _PointRead(processor_accounts.FIND, processor_accounts.find_parameters, processor_accounts.found),
    _PointRead(numbered.FIND_HEAD, numbered.find_head_parameters, numbered.found_head),
    _PointRead(webhook_endpoints.FIND, webhook_endpoints.find_parameters, webhook_endpoints.found, names_local=True),
    _PointRead(WRITTEN, lambda _: (), written_in, is_of_merchant=False),
    _PointRead(
        merchants.FIND_KEY_MERCHANT, merchants.find_key_parameters, lambda row: row[1].bytes, is_of_merchant=False
    ),
    _PointRead(merchants.FIND_MERCHANT_KEY, merchants.find_merchant_key_parameters, merchants.found_key),
)


async def _without_log(_merchant_id: UUID, stream_id: UUID) -> Sequence[Any]:
    raise AssertionError(f"order {stream_id} is in flight and is rendered from the log: pass `read_stream`")


class Queries:
    """The reads of requests, on connections of their own. Call `start` before the first read and `stop` after the last.

    `read_stream` reads the log, from which orders in flight are rendered: reads of orders raise what it raises.
    `archive` has the contents of archived events, which a month's report raises ArchiveUnavailable without. Every
    read raises DatabaseUnavailable while the database is unavailable, and QueueFull while too many reads wait.

    The standby at `replica_url` answers merchants' lists, searches and reports, if it is as new as the primary.
    `replica` is whether it is used.
    """

    def __init__(
        self,
        url: str,
        read_stream: ReadStream = _without_log,
        replica_url: str | None = None,
        archive: EventArchive = NO_ARCHIVE,
    ) -> None:
        self._read_stream, self._archive = read_stream, archive
        self.replica = None if replica_url is None else ReplicaUse(replica_url, self.written)
        self._replica = None if self.replica is None else ListReplica(self.replica)
        self.points = DataLoader[Key, Any](url, "ledger-reads", _fetch)
        self._pages = page_loader(url)
        self._lists = ListPool(url)
        self._nodes = NodeReads(url, self.points.name, _Node)

    @property
    def alive(self) -> bool:
        """Whether point reads are answered."""
        return self.points.alive

    async def start(self) -> None:
        """Connects. Raises psycopg.OperationalError."""
        await self._nodes.start()  # before the loader, with whose connection it shares a name
        await self.points.start()
        await self._pages.start()
        await self._lists.start()
        if self.replica is not None and self._replica is not None:
            await self.replica.start()
            await self._replica.start()

    async def stop(self) -> None:
        if self.replica is not None and self._replica is not None:
            await self._replica.stop()
            await self.replica.stop()
        await self._nodes.stop()
        await self.points.stop()
        await self._pages.stop()
        await self._lists.stop()

    async def order(self, merchant_id: UUID, reference: str) -> OrderRow | None:
        """Returns the merchant's order with this service id, else with this external id."""
        if not is_storable(reference):
            return None
        found: OrderRow | None = await self._point(_ORDER, (merchant_id.bytes, reference))
        return found if found is None or found.head else await found.rendered(merchant_id, self._read_stream)

    async def customer(self, merchant_id: UUID, customer_id: UUID) -> bytes | None:
        """Returns the JSON object of the merchant's customer, as orders contain it."""
        found: bytes | None = await self._point(_CUSTOMER, (merchant_id.bytes, customer_id.bytes))
        return found

    async def customer_detail(self, merchant_id: UUID, reference: str) -> bytes | None:
        """Returns the whole document of the customer with this service id, else with this external id, and the
        customers that are related; None if there is none or the customer was erased.

        Most customers are related to none, and need no second read.
        """
        if not is_storable(reference):
            return None
        row: CustomerRow | None = await self._point(_CUSTOMER_BY_REFERENCE, (merchant_id.bytes, reference))
        if row is None:
            return None
        if not row.is_related:
            return row.document()
        statement = related_documents_statement(merchant_id, row.customer_id, RELATED_SHOWN_MAX + 1)
        related = [document for (document,) in await self._rows(merchant_id, *statement)]
        return row.document(related[:RELATED_SHOWN_MAX], has_more=len(related) > RELATED_SHOWN_MAX)

    async def customer_id(self, merchant_id: UUID, reference: str) -> UUID | None:
        """Returns the id of the customer with this service id, else with this external id; None as
        `customer_detail` does.
        """
        if not is_storable(reference):
            return None
        row: CustomerRow | None = await self._point(_CUSTOMER_BY_REFERENCE, (merchant_id.bytes, reference))
        return None if row is None else row.customer_id

    async def customers(self, merchant_id: UUID, query: CustomerQuery) -> bytes:
        """Returns one page of the merchant's customers as JSON."""
        return customer_page_body(query, await self._rows(merchant_id, *customer_page_statement(merchant_id, query)))

    async def orders_of(self, merchant_id: UUID, customer_id: UUID, after: UUID, limit: int) -> Sequence[UUID]:
        """Returns at most `limit` orders of a customer whose ids come after `after`, in the order of their ids."""
        rows = await self._written_rows(merchant_id, *orders_of_statement(merchant_id, customer_id, after, limit))
        return [order_id for (order_id,) in rows]

    async def product(self, merchant_id: UUID, product_id: str) -> bytes | None:
        """Returns the JSON object of the merchant's product with this id."""
        if not is_storable(product_id):
            return None
        found: bytes | None = await self._point(_PRODUCT, (merchant_id.bytes, product_id))
        return found

    async def products_by_id(self, merchant_id: UUID, product_ids: Collection[str]) -> Mapping[str, ProductDocument]:
        """Returns the merchant's products with these ids, without those that do not exist, in one round trip."""
        documents = await asyncio.gather(*[self.product(merchant_id, product_id) for product_id in product_ids])
        return {
            product_id: products.read_document(document)
            for product_id, document in zip(product_ids, documents, strict=True)
            if document is not None
        }

    async def products(self, merchant_id: UUID, query: ProductQuery) -> bytes:
        """Returns one page of the merchant's products as JSON."""
        return products.page_body(query, await self._rows(merchant_id, *products.page_statement(merchant_id, query)))

    async def global_invoices(self, merchant_id: UUID, query: GlobalInvoiceQuery) -> bytes:
        """Returns one page of the merchant's global invoices as JSON."""
        rows = await self._rows(merchant_id, *global_invoices.page_statement(merchant_id, query))
        return global_invoices.page_body(query, rows)

    async def audits(self, merchant_id: UUID, query: AuditQuery) -> bytes:
        """Returns one page of the merchant's audits as JSON."""
        return audits.page_body(query, await self._rows(None, *audits.page_statement(merchant_id, query)))

    async def audit(self, merchant_id: UUID, audit_id: UUID) -> Sequence[Any] | None:
        """Returns the columns of the merchant's audit, its report last, None if there is none."""
        rows = await self._rows(None, audits.FIND, {"merchant_id": merchant_id, "audit_id": audit_id})
        return rows[0] if rows else None

    async def violations(self) -> tuple[int, datetime | None]:
        """Returns how many violations the newest audits of all merchants have found, and when the last one ended."""
        ((number, ended_at),) = await self._lists.rows(audits.FOUND, {})
        return number, ended_at

    async def pending_global_invoices(self, merchant_id: UUID) -> Sequence[UUID]:
        """Returns the merchant's global invoices without an outcome."""
        return [
            each for (each,) in await self._written_rows(merchant_id, *global_invoices.pending_statement(merchant_id))
        ]

    async def global_candidates(
        self, merchant_id: UUID, begin: datetime, end: datetime, last: tuple[datetime, UUID] | None
    ) -> Sequence[tuple[datetime, UUID]]:
        """Returns the next orders that a global invoice of a time may state, after the last one that was returned."""
        rows = await self._written_rows(
            merchant_id, *global_invoices.candidates_statement(merchant_id, begin, end, last)
        )
        return [(created_at, order_id) for created_at, order_id in rows]

    async def month_end(self, merchant_id: UUID, year: int, month: int, zone: str) -> Month:
        """Returns the electronic invoices of a month in a time zone, and the documents that are not stamped."""

        async def read_order(order_id: UUID) -> Order:
            return fold(evolve, None, await self._read_stream(merchant_id, order_id))

        return await self._read(
            merchant_id,
            lambda lists: month_end.month_of(lists.rows, read_order, self._archive, merchant_id, year, month, zone),
        )

    async def payment_method(self, merchant_id: UUID, payment_method_id: UUID) -> bytes | None:
        """Returns the JSON object of the merchant's saved payment method, None if it was deleted."""
        found: bytes | None = await self._point(_PAYMENT_METHOD, (merchant_id.bytes, payment_method_id.bytes))
        return found

    async def payment_methods(self, merchant_id: UUID, customer_id: UUID, query: MethodQuery) -> bytes:
        """Returns one page of a customer's saved payment methods as JSON."""
        parameters = payment_methods.page_parameters(merchant_id, customer_id, query)
        return payment_methods.page_body(
            customer_id, query, await self._rows(merchant_id, payment_methods.PAGE, parameters)
        )

    async def plan(self, merchant_id: UUID, reference: str) -> bytes | None:
        """Returns the JSON object of the merchant's plan with this service id, else with this external id."""
        if not is_storable(reference):
            return None
        found: bytes | None = await self._point(_PLAN, (merchant_id.bytes, reference))
        return found

    async def plans(self, merchant_id: UUID, query: PlanQuery) -> bytes:
        """Returns one page of the merchant's plans as JSON."""
        return plans.page_body(query, await self._rows(merchant_id, *plans.page_statement(merchant_id, query)))

    async def subscription(self, merchant_id: UUID, reference: str) -> bytes | None:
        """Returns the JSON object of the merchant's subscription with this service id, else with this external id."""
        if not is_storable(reference):
            return None
        found: bytes | None = await self._point(_SUBSCRIPTION, (merchant_id.bytes, reference))
        return found

    async def subscriptions(self, merchant_id: UUID, query: SubscriptionQuery) -> bytes:
        """Returns one page of the merchant's subscriptions as JSON."""
        plan_ids = None
        if query.plan is not None:
            plan = await self.plan(merchant_id, query.plan)
            plan_ids = [] if plan is None else [plans.plan_id_in(plan)]

        async def read(lists: Lists) -> list[tuple[Any, ...]]:
            customers = None
            if query.customer is not None:
                customers = await self._customers(lists, merchant_id, query.customer, related=False)
            return await lists.rows(*subscriptions.page_statement(merchant_id, query, customers, plan_ids))

        return subscriptions.page_body(query, await self._read(merchant_id, read))

    async def subscription_invoice(self, merchant_id: UUID, invoice_id: UUID) -> bytes | None:
        """Returns the JSON object of the invoice of a merchant's subscription."""
        found: bytes | None = await self._point(_INVOICE, (merchant_id.bytes, invoice_id.bytes))
        return found

    async def subscription_invoices(self, merchant_id: UUID, subscription_id: UUID, query: InvoiceQuery) -> bytes:
        """Returns one page of a subscription's invoices as JSON."""
        parameters = invoices.page_parameters(merchant_id, subscription_id, query)
        return invoices.page_body(subscription_id, query, await self._rows(merchant_id, invoices.PAGE, parameters))

    async def find_key(self, key_hash: bytes) -> FoundKey | None:
        """Returns the API key with this keyed hash, also an expired or revoked one."""
        if self.points.has_citus:
            return await self._find_divided_key(key_hash)
        found: FoundKey | None = await self.points.get((_API_KEY, key_hash))
        return found

    async def _find_divided_key(self, key_hash: bytes) -> FoundKey | None:
        """Returns an API key from the node of its merchant. Only for a key that no request has had before, all nodes
        are asked.
        """
        merchant_id: bytes | None = await self.points.get((_KEY_MERCHANT, key_hash))
        found: FoundKey | None
        if merchant_id is not None:
            found = await self._point(_MERCHANT_KEY, (merchant_id, key_hash))
            return found
        found = await self.points.get((_API_KEY, key_hash))
        if found is not None:
            with suppress(Fault):  # the next request with the key keeps it
                await self._lists.write(
                    merchants.WRITE_KEY_MERCHANT, {"key_hash": key_hash, "merchant_id": found.merchant_id}
                )
        return found

    async def require_answers(self) -> None:
        """Returns once a point read was answered: on Citus, by the coordinator, whichever nodes are down."""
        await self.points.get((_KEY_MERCHANT, _NO_KEY))

    async def merchant(self, merchant_id: UUID) -> FoundMerchant:
        """Returns a registered merchant."""
        (row,) = await self._written_rows(merchant_id, merchants.FIND, {"merchant_id": merchant_id})
        return merchants.found_merchant(row)

    async def api_keys(self, merchant_id: UUID) -> list[ListedKey]:
        """Returns the merchant's API keys, the oldest first, expired and revoked ones included."""
        rows = await self._lists.rows(
            merchants.KEYS, {"merchant_id": merchant_id}
        )  # it names a table that is not divided
        return [merchants.listed_key(row) for row in rows]

    async def processor_accounts(self, merchant_id: UUID) -> Sequence[ProcessorAccount]:
        """Returns the merchant's accounts with processors that have a stream, in the order of connection."""
        found: Sequence[ProcessorAccount] | None = await self._point(_ACCOUNTS, merchant_id.bytes)
        return found or ()

    async def webhook_endpoints(self, merchant_id: UUID) -> Sequence[FoundEndpoint]:
        """Returns the merchant's webhook endpoints, oldest first, without deleted ones."""
        found: Sequence[FoundEndpoint] | None = await self._point(_ENDPOINTS, merchant_id.bytes)
        return found or ()

    async def log_head(self, merchant_id: UUID) -> int:
        """Returns the position of the last event of a merchant's log."""
        found: int | None = await self._point(_HEAD, merchant_id.bytes)
        return found or 0

    async def written(self) -> Position:
        """Returns the position of the primary, which a replica has to show (see `ledger.postgres.replica`)."""
        found: Position | None = await self._point(_WRITTEN, None)
        assert found is not None, "every primary has a position"
        return found

    async def write_key_uses(self, uses: Mapping[UUID, datetime]) -> None:
        """Writes the last use of each API key, in real time. It is no part of the log."""
        await self._lists.write(_WRITE_KEY_USES, {"key_ids": list(uses), "times": list(uses.values())})

    async def orders_by_status(self) -> dict[str, int]:
        """Returns the number of orders of all merchants in each status that one has had."""
        return dict(await self._lists.rows(tally.BY_STATUS, {}))

    async def open_payments(self) -> dict[str, int]:
        """Returns the number of payments of all merchants in each status in which a payment waits for a due time."""
        rows = dict(await self._lists.rows(_OPEN_PAYMENTS, {"kinds": list(_STATUS_OF)}))
        return {status.value: rows.get(kind.value, 0) for kind, status in _STATUS_OF.items()}

    async def webhook_deliveries(
        self, merchant_id: UUID, endpoint_id: UUID, query: webhook_deliveries.DeliveryQuery, stream_id: UUID | None
    ) -> Sequence[tuple[Any, ...]]:
        """Returns the rows of a page of an endpoint's deliveries, newest first, of one stream unless that is None.

        A row ends with whether the person was erased whom receivers' answers may repeat.
        """
        statement, values = webhook_deliveries.page_statement(merchant_id, endpoint_id, query, stream_id)
        rows = await self._lists.rows(statement, values)
        customers = {row[-1] for row in rows if row[-1] is not None}
        erased = set()
        if customers:
            persons = {"merchant_id": merchant_id, "customers": list(customers)}
            erased = {each for (each,) in await self._lists.rows(webhook_deliveries.ERASED, persons)}
        return [(*row[:-1], row[-1] in erased) for row in rows]

    async def endpoints_by_status(self) -> dict[str, int]:
        """Returns the number of webhook endpoints of all merchants in each status."""
        return {"ENABLED": 0, "DISABLED": 0, **dict(await self._lists.rows(webhook_deliveries.BY_STATUS, {}))}

    async def waiting_deliveries(self) -> tuple[int, datetime | None]:
        """Returns how many events wait for the enabled endpoints of all merchants, and since when the oldest does."""
        ((number, oldest),) = await self._lists.rows(webhook_deliveries.WAITING, {})
        return number, oldest

    async def open_calls(self) -> tuple[int, datetime | None]:
        """Returns the number of open calls of all merchants, and the oldest deadline among them in real time."""
        ((number, oldest),) = await self._lists.rows(open_calls.COUNT, {})
        return number, oldest

    async def oldest_call(self) -> datetime | None:
        """Returns the real time at which the oldest open call was announced, or None if none is open."""
        rows: list[tuple[UUID]] = await self._lists.rows(open_calls.ANNOUNCED, {})
        return datetime.fromtimestamp((rows[0][0].int >> 80) / 1000, UTC) if rows else None

    async def waiting_messages(self, unmatched: Sequence[str], alarm_s: float) -> tuple[int, datetime | None, int]:
        """Returns how many messages wait, since when (real time) the oldest does, and how many are quarantined.

        A message that waits for one of the reasons `unmatched` counts for `alarm_s` seconds.
        """
        parameters = {"unmatched": list(unmatched), "alarm_s": alarm_s}
        ((number, oldest, quarantined),) = await self._lists.rows(_WAITING_MESSAGES, parameters)
        return number, oldest, quarantined

    async def reacted_until(self) -> datetime:
        """Returns the real time up to which every appended event has been reacted to."""
        rows: list[tuple[datetime]] = await self._lists.rows("select as_of from reaction_progress", {})
        return rows[0][0]

    async def archive_failing_s(self) -> float:
        """Returns for how many seconds the database has failed to archive its log."""
        ((seconds,),) = await self._lists.rows(archive_state.FAILING, {})
        return float(seconds)

    async def service_processes(self) -> Mapping[tuple[str, ...], int]:
        """Returns how many processes of services run on this database, by host, role and release."""
        return {(host, role, release): n for host, role, release, n in await self._lists.rows(COUNT_PROCESSES, {})}

    async def standbys(self) -> Standbys:
        """Returns the standbys that the application's role sees."""
        return Standbys.of(await self._lists.rows(STANDBYS, {}))

    async def orders(self, merchant_id: UUID, query: OrderQuery, now: datetime) -> bytes:
        """Returns one page of the merchant's orders as JSON. `now` is by the merchant's clock.

        Raises InvalidField if a filter refers to too many customers or cards, ReadModelBehind if orders have not been
        rendered since an upgrade that added its columns.
        """
        if is_shared(query):
            page = None if self._replica is None else await self._replica.page((merchant_id, query))
            page = page or await self._page((merchant_id, query))
            assert page is not None, "every page is read"
            return await page.body(now, self._read_stream)
        rows = await self._read(merchant_id, lambda lists: self._order_rows(lists, merchant_id, query, now))
        return page_body(query, await with_heads(merchant_id, rows, self._read_stream), now)

    def _page(self, key: PageKey) -> Awaitable[SharedPage | None]:
        """Returns a page of orders that is read where they are written."""
        if not self._nodes.are_any:
            return self._pages.get(key)
        return self._nodes.read(
            key[0].bytes, lambda node, shard: node.pages.read(shard, key), lambda: self._pages.get(key)
        )

    async def _order_rows(
        self, lists: Lists, merchant_id: UUID, query: OrderQuery, now: datetime
    ) -> list[tuple[Any, ...]]:
        """Returns the rows of a page of orders. Raises like `orders`."""
        if query.has_columns and await lists.rows(*references.unfilled_statement(merchant_id)):
            raise ReadModelBehind("orders lack the columns of filters")
        named, cards = None, None
        if query.external_id is not None and is_storable(query.external_id):
            rows = await lists.rows(*references.named_statement(merchant_id, query.external_id))
            named = rows[0][0] if rows else None
        if query.last4 is not None:
            rows = await lists.rows(*references.cards_statement(merchant_id, query.last4))
            cards = [query.last4, *references.found(rows, "last4")]
        customers = await self._customers_of(lists, merchant_id, query)
        statements, parameters = page_statements(merchant_id, query, now, customers, cards, named)
        return await lists.first_rows(statements, parameters)

    def _point(self, kind: int, key: Any) -> Awaitable[Any]:
        """Returns the value of a point read's key."""
        read = _POINT_READS[kind]
        merchant_id = read.merchant_of(key)
        if merchant_id is None or read.names_local or not self._nodes.are_any:
            return self.points.get((kind, key))
        return self._nodes.read(
            merchant_id,
            lambda node, shard: node.points.read(shard, (kind, key)),
            lambda: self.points.get((kind, key)),
        )

    async def _rows(
        self, merchant_id: UUID | None, statement: str, parameters: Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        """Returns all rows of a query of a merchant's list."""
        return await self._read(merchant_id, lambda lists: lists.rows(statement, parameters))

    async def _read(self, merchant_id: UUID | None, read: Callable[[Lists], Awaitable[T]]) -> T:
        """Returns what `read` makes of lists: of the replica's if that can answer, else as `_read_written` does."""
        found = None if self._replica is None else await self._replica.read(read)
        return await self._read_written(merchant_id, read) if found is None else found

    async def _written_rows(
        self, merchant_id: UUID, statement: str, parameters: Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        """Returns all rows of a query of one merchant, never from a replica."""
        return await self._read_written(merchant_id, lambda lists: lists.rows(statement, parameters))

    async def _read_written(self, merchant_id: UUID | None, read: Callable[[Lists], Awaitable[T]]) -> T:
        """Returns what `read` makes of the lists where they are written. Without a merchant, a statement names tables
        that Citus does not divide.
        """
        if merchant_id is None or not self._nodes.are_any:
            return await read(self._lists)
        return await self._nodes.read(
            merchant_id.bytes, lambda node, shard: read(NodeLists(node.lists, shard)), lambda: read(self._lists)
        )

    async def _customers_of(self, lists: Lists, merchant_id: UUID, query: OrderQuery) -> list[UUID] | None:
        """Returns the customers that the filters by customer and by e-mail leave, None without such a filter."""
        customers = None
        if query.customer is not None:
            customers = await self._customers(lists, merchant_id, query.customer, related=query.related)
        if query.email is None:
            return customers
        rows = []
        if is_storable(query.email):
            rows = await lists.rows(*references.email_statement(merchant_id, query.email))
        owners: list[UUID] = references.found(rows, "email")
        return owners if customers is None else list(set(owners).intersection(customers))

    async def _customers(self, lists: Lists, merchant_id: UUID, reference: str, *, related: bool) -> list[UUID]:
        if not is_storable(reference):
            return []
        return customers_found(await lists.rows(*customers_statement(merchant_id, reference, related=related)))


class _Node:
    """What reads on a node of Citus."""

    def __init__(self, url: str) -> None:
        self.points = NodeLoader[Key, Any](url, "ledger-reads", _points_on_shard)
        self.pages = NodeLoader[PageKey, SharedPage](url, "ledger-list-pages", pages_on_shard, READ_AT_ONCE)
        self.lists = ListPool(url, configure=configure_node)

    async def start(self) -> None:
        """Connects. Raises psycopg.OperationalError."""
        await self.points.start()
        await self.pages.start()
        await self.lists.start()

    async def stop(self) -> None:
        await self.points.stop()
        await self.pages.stop()
        await self.lists.stop()


def _points_on_shard(_: NumberedStatements, shard: Shard, keys: Sequence[Key]) -> Reading[Key, Any]:
    """Looks up keys of one shard with one statement for each kind among them."""
    of_kind: dict[int, list[Any]] = {}
    for kind, key in keys:
        of_kind.setdefault(kind, []).append(key)

    def values(results: Sequence[Rows]) -> Mapping[Key, Any]:
        found: dict[Key, Any] = {}
        for (kind, some), rows in zip(of_kind.items(), results, strict=True):
            for row in rows:
                found[kind, some[row[0]]] = _POINT_READS[kind].parse(row)
        return found

    statements = [(_on_shard(kind, shard), _POINT_READS[kind].parameters(some)) for kind, some in of_kind.items()]
    return statements, values


@lru_cache(maxsize=4096)
def _on_shard(kind: int, shard: Shard) -> Statement:
    numbers = count(1)
    text = re.sub("%s", lambda _: f"${next(numbers)}", shard.statement(_POINT_READS[kind].statement))
    return Statement(b"ledger_read_%d_%d" % (kind, shard.id), text.encode())


async def _fetch(connection: Connection, keys: Sequence[Key]) -> Mapping[Key, Any]:
    """Looks up all keys in one round trip, with one statement for each kind among them."""
    if connection.has_citus:
        return await _fetch_by_merchant(connection, keys)
    keys_by_kind: dict[int, list[Any]] = {}
    for kind, key in keys:
        keys_by_kind.setdefault(kind, []).append(key)
    cursors = {kind: connection.cursor(binary=True) for kind in keys_by_kind}
    if len(cursors) == 1:
        await _execute(cursors, keys_by_kind)
    else:
        async with connection.pipeline():
            await _execute(cursors, keys_by_kind)
    found: dict[Key, Any] = {}
    for kind, cursor in cursors.items():
        keys_of_kind, parse = keys_by_kind[kind], _POINT_READS[kind].parse
        for row in await cursor.fetchall():
            found[kind, keys_of_kind[row[0]]] = parse(row)
    return found


async def _execute(cursors: Mapping[int, Any], keys_by_kind: Mapping[int, Sequence[Any]]) -> None:
    for kind, cursor in cursors.items():
        read = _POINT_READS[kind]
        await cursor.execute(read.statement, read.parameters(keys_by_kind[kind]))


async def _fetch_by_merchant(connection: Connection, keys: Sequence[Key]) -> Mapping[Key, Any]:
    """Looks up keys as `_fetch` does, with one statement for each merchant and kind among them: Citus has the node of
    the merchant run it, and refuses most of those that join the keys of several merchants.
    """
    groups: dict[tuple[int, bytes | None], list[Any]] = {}
    for kind, key in keys:
        groups.setdefault((kind, _POINT_READS[kind].merchant_of(key)), []).append(key)
    cursors = {group: connection.cursor(binary=True) for group in groups}
    async with connection.pipeline() if len(groups) > 1 else nullcontext():
        for (kind, merchant_id), cursor in cursors.items():
            read, of_group = _POINT_READS[kind], groups[kind, merchant_id]
            if merchant_id is None:
                await cursor.execute(read.statement, read.parameters(of_group))
            else:
                await cursor.execute(*read.of_one_merchant(merchant_id, of_group))
    found: dict[Key, Any] = {}
    for group, cursor in cursors.items():
        for row in await cursor.fetchall():
            found[group[0], groups[group][row[0]]] = _POINT_READS[group[0]].parse(row)
    return found
