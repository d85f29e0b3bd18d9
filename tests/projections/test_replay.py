"""The rows that the journal wrote equal those of a replay of the log, byte for byte."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
import pytest
from msgspec import Raw
from msgspec.structs import replace
from tests.domain.builders import (
    NOON,
    THREE_PERCENT,
    authorization_requested,
    authorized_and_captured,
    declined,
    deposited,
    late_capture,
    paid,
    reference_open,
    refund_requested,
    refunded,
    started,
    unanswered,
)
from tests.domain.invoices.stamper import ENABLED, FISCAL, REFUSED, next_command
from tests.domain.invoices.stamper import stamped as document_stamped
from tests.domain.test_plans import MONTHLY, USED
from tests.domain.test_processor_accounts import CONNECTED, DISCONNECTED
from tests.domain.test_products import COFFEE
from tests.domain.test_webhook_endpoints import CREATED, DELETED, DISABLED
from tests.projections import merchants
from tests.projections.shop import Shop
from tests.whole_log import whole_log
from uuid_utils.compat import uuid7

from ledger.domain.customers.events import (
    CustomerDetailsChanged,
    CustomerMetadataChanged,
    NotificationPreferences,
    NotificationPreferencesChanged,
)
from ledger.domain.customers.evolve import evolve as evolve_customer
from ledger.domain.fold import fold
from ledger.domain.invoices.commands import CancelDocument, RecordStamping, StampRequest
from ledger.domain.invoices.decide.cancellation import decide_document_cancellation
from ledger.domain.invoices.decide.stamping import decide_next, decide_outcome
from ledger.domain.merchants.events import ApiKeyRevoked, MerchantClosed, MerchantRenamed
from ledger.domain.orders.invoices.terms import CancellationMotive
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import BillingAddress, FiscalData, MethodType, SurchargePolicy
from ledger.domain.plans.evolve import evolve as evolve_plan
from ledger.domain.processor_accounts.evolve import evolve as evolve_account
from ledger.domain.products.evolve import evolve as evolve_product
from ledger.domain.webhooks.evolve import evolve as evolve_endpoint
from ledger.journal.append import ClaimTaken
from ledger.journal.journal import Journal
from projections.rebuild import Replay, replay, stored

pytestmark = pytest.mark.anyio


async def various_events(shop: Shop, journal: Journal) -> None:
    """Commits events of every kind of stream, one or several at a time."""
    key = merchants.issued(shop.merchant_id, b"k" * 32, name="caja", scopes=("a", "b"))
    merchant = await merchants.commit(journal, None, 0, [merchants.registered(shop.merchant_id)])
    merchant = await merchants.commit(journal, merchant, 1, [key])
    revoked = ApiKeyRevoked(merchant_id=shop.merchant_id, key_id=key.key_id, at=NOON)
    merchant = await merchants.commit(journal, merchant, 2, [revoked])
    renamed = MerchantRenamed(merchant_id=shop.merchant_id, name="La Parroquia", at=NOON)
    await merchants.commit(journal, merchant, 3, [renamed, MerchantClosed(merchant_id=shop.merchant_id, at=NOON)])
    terms: dict[str, Any] = {
        "metadata": Raw(b'{ "b": 1,"a":[1.50]}'),
        "due_date": NOON,
        "billing_address": BillingAddress(address="Casa 1"),
        "fiscal": FiscalData(zip_code="03940"),
        "invoice_number": "F-1",
    }
    await shop.order("paid", *paid(1, 10_000), **terms)
    failed = await shop.order("failed", started(1, 10_000), authorization_requested(1, 10_000))
    failed = await shop.then(failed, declined(1))
    await shop.then(failed, started(2, 10_000), authorization_requested(2, 10_000))
    unknown = await shop.order("unknown", started(1, 10_000), authorization_requested(1, 10_000))
    unknown = await shop.then(unknown, unanswered(1))
    await shop.then(unknown, *authorized_and_captured(1, 5_000))
    split = await shop.order("split", amount="150.75", allow_partials=True, surcharge=THREE_PERCENT)
    split = await shop.then(split, *paid(1, "50.25", "1.51"))
    await shop.then(split, started(2, "100.5", "3.02"), authorization_requested(2, "103.52"), declined(2))
    await shop.then(
        await shop.order("late", started(1, 10_000), authorization_requested(1, 10_000), declined(1)),
        late_capture(1, 10_000),
    )
    changed = CustomerDetailsChanged(customer_id=shop.ana.customer_id, at=NOON, last_name=None, email="ana@example.org")
    metadata = CustomerMetadataChanged(customer_id=shop.ana.customer_id, at=NOON, metadata=Raw(b'{"vip":true}'))
    chosen = NotificationPreferences(sms=False, language="en")
    preferences = NotificationPreferencesChanged(customer_id=shop.ana.customer_id, at=NOON, preferences=chosen)
    events = [changed, metadata, preferences]
    await shop.change(shop.ana.customer_id, 1, events, shop.customer, fold(evolve_customer, shop.customer, events))
    product = evolve_product(None, COFFEE)
    await shop.change(product.product_id, 0, [COFFEE], None, product)
    cheaper = replace(COFFEE, price=Decimal("1.50"), status="archived")
    await shop.change(product.product_id, 1, [cheaper], product, evolve_product(product, cheaper))
    plan = evolve_plan(None, MONTHLY)
    await shop.change(plan.plan_id, 0, [MONTHLY], None, plan)
    await shop.change(plan.plan_id, 1, [USED], plan, evolve_plan(plan, USED))
    account = evolve_account(None, CONNECTED)
    await shop.change(account.account_id, 0, [CONNECTED], None, account)
    await shop.change(account.account_id, 1, [DISCONNECTED], account, evolve_account(account, DISCONNECTED))
    endpoint = evolve_endpoint(None, CREATED)
    await shop.change(endpoint.endpoint_id, 0, [CREATED], None, endpoint)
    disabled = evolve_endpoint(endpoint, DISABLED)
    await shop.change(endpoint.endpoint_id, 1, [DISABLED, DELETED], endpoint, evolve_endpoint(disabled, DELETED))


async def the_log(journal: Journal, database_url: str, merchant_id: UUID) -> list[tuple[UUID, int, Any]]:
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        feed = await whole_log(journal.reader, connection, merchant_id)
    return [(recorded.stream_id, recorded.version, recorded.event) for recorded in feed]


async def test_a_replay_of_the_log_gives_the_stored_rows(shop: Shop, journal: Journal, database_url: str) -> None:
    await various_events(shop, journal)
    log = await the_log(journal, database_url, shop.merchant_id)
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        rows = await stored(connection, shop.merchant_id)
    assert replay(shop.merchant_id, log) == rows
    assert {name: len(some) for name, some in rows.items()} == {
        "payment_order": 5, "customer": 1, "tally": 3, "search_line": 6, "merchant": 1, "api_key": 1,
        "payment_method": 0,
        "product": 1, "plan": 1, "subscription": 0, "subscription_invoice": 0,
        "global_invoice": 0, "global_invoice_order": 0, "processor_account": 1,
        "webhook_endpoint": 1,
    }  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 7])
async def test_a_replay_in_pieces_gives_the_same_rows(
    shop: Shop, journal: Journal, database_url: str, size: int
) -> None:
    await various_events(shop, journal)
    log = await the_log(journal, database_url, shop.merchant_id)
    whole = Replay(shop.merchant_id)
    for start in range(0, len(log), size):
        whole.take(log[start : start + size])
        whole.rows()
    assert whole.rows() == replay(shop.merchant_id, log)


async def test_a_replay_shows_stamped_refused_and_cancelled_documents_as_they_are(
    shop: Shop, journal: Journal, database_url: str
) -> None:
    """The surcharge makes a frozen part matter: the second deposit would divide the first refund anew."""
    policy = SurchargePolicy(rate=Decimal(3), methods=(MethodType.SPEI,))
    order = await shop.order("stamped", ENABLED, allow_partials=True, fiscal=FISCAL, surcharge=policy)
    order = await shop.then(order, *reference_open(1, 100, 3), deposited(1, 50))
    order = await shop.then(order, refund_requested(1, 25), refunded(1, 25))
    order = await stamp_all(shop, order, REFUSED)
    order = await stamp_all(shop, order)
    order = await shop.then(order, deposited(1, 53, "dep-2"), refund_requested(1, 60, 2), refunded(1, 60, 2))
    order = await stamp_all(shop, order)
    assert order.invoices is not None
    note = order.invoices.credit_notes[-1]
    cancel = CancelDocument(
        motive=CancellationMotive.WITHOUT_SUBSTITUTE, provider="sandbox", deadline_at=NOON, at=NOON,
        document_id=note.document_id,
    )  # fmt: skip
    await shop.then(order, *decide_document_cancellation(order, cancel))
    log = await the_log(journal, database_url, shop.merchant_id)
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        rows = await stored(connection, shop.merchant_id)
    assert replay(shop.merchant_id, log) == rows
    assert order.payments[0].frozen_refunds
    assert [each.status for each in order.invoices.documents] == ["EMITTED"] * 5


async def stamp_all(shop: Shop, order: Order, answer: Any = None) -> Order:
    """Commits what a request to stamp the order leads to, each call with this answer; None stamps."""
    while events := decide_next(order, next_command(request=StampRequest())):
        order = await shop.then(order, *events)
        assert order.invoices is not None
        started = order.invoices.next_document
        assert started is not None
        outcome = answer or document_stamped(started.document_id)
        record = RecordStamping(document_id=started.document_id, outcome=outcome, at=NOON)
        order = await shop.then(order, *decide_outcome(order, record))
        if answer is not None:
            break
    return order


async def test_a_changed_row_is_detected(shop: Shop, journal: Journal, database_url: str) -> None:
    await various_events(shop, journal)
    log = await the_log(journal, database_url, shop.merchant_id)
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        for table, change in (
            ("payment_order", "status = 'REFUNDED' where external_id = 'paid'"),
            ("customer", "email = 'eve@example.com'"),
            ("tally", "n = n + 1 where status = 'COMPLETED'"),
            ("api_key", "revoked_at = null"),
        ):
            await connection.execute(f"update {table} set {change}")  # type: ignore[arg-type]  # written above
            rows, right = await stored(connection, shop.merchant_id), replay(shop.merchant_id, log)
            assert [name for name in rows if rows[name] != right[name]] == [table]
            await connection.rollback()


async def test_a_gap_in_the_log_stops_the_replay(shop: Shop, journal: Journal, database_url: str) -> None:
    await various_events(shop, journal)
    log = await the_log(journal, database_url, shop.merchant_id)
    with pytest.raises(AssertionError, match="lacks version"):
        replay(shop.merchant_id, [event for event in log if event[1] != 2])


async def test_a_command_that_lost_writes_no_row(shop: Shop, journal: Journal, database_url: str) -> None:
    await shop.order("taken")
    with pytest.raises(ClaimTaken):
        await shop.order("taken")
    log = await the_log(journal, database_url, shop.merchant_id)
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        rows = await stored(connection, shop.merchant_id)
    assert replay(shop.merchant_id, log) == rows
    assert len(rows["payment_order"]) == 1


async def test_another_merchants_rows_are_left_out(shop: Shop, journal: Journal, database_url: str) -> None:
    await shop.order("mine")
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        assert all(rows == [] for rows in (await stored(connection, uuid7())).values())
