"""A worker's documents after a crash at any point of their stamping: each exactly once, in order, and none missing."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Any
from uuid import UUID

import psycopg
import pytest
from msgspec.structs import replace
from tests.background.conftest import Open, register, rows
from tests.background.test_recovery import AFTERWARDS, sweep
from tests.domain.invoices.stamper import FISCAL, documents_of
from tests.invoicing.kept_keys import kept_keys
from tests.invoicing.s3_server import BUCKET, KEY_ID, S3Server, s3
from tests.operations.conftest import an_order, by_card
from tests.sealing import MASTER_KEY

from ledger.background.clock.advance import ClockAdvancer
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.background.scheduler.failed_jobs import failed_jobs
from ledger.background.worker import run
from ledger.domain.invoices.commands import NotFound, NotSent, StampNext, Unanswered
from ledger.domain.invoices.decide.stamping import decide_next
from ledger.domain.invoices.due import InvoiceTimerKind, invoice_timers
from ledger.domain.orders.invoices.events import DocumentStamped, StampingRequested
from ledger.domain.orders.invoices.state import INVOICE_SLOT
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import LineItem
from ledger.invoicing.contract import ProviderTimedOut, ProviderUnavailable
from ledger.invoicing.files import DocumentFiles, FilesUnavailable
from ledger.invoicing.providers.sandbox import SandboxProvider
from ledger.journal.journal import Journal
from ledger.operations.context.inputs import Actor, StampInput
from ledger.operations.context.ledger import CallTimeouts, Ledger
from ledger.operations.orders.add_payment import add_payment
from ledger.operations.orders.create import create_order
from ledger.operations.orders.invoices.stamp import stamp_due, stamp_order
from ledger.operations.orders.open_calls import open_calls
from ledger.operations.pipeline.execute import record_outcome
from ledger.operations.pipeline.unit_of_work import UnitOfWork, load_order
from ledger.operations.stamping.building import load_libraries
from ledger.settings import Settings

__all__ = ["kept_keys", "s3"]

pytestmark = pytest.mark.anyio

EMITTED = [
    ("INVOICE", 10_000, "EMITTED"),
    ("REP", 1, 10_000, 4_000, 6_000, "EMITTED"),
    ("REP", 2, 6_000, 6_000, 0, "EMITTED"),
]


POINTS = (
    ("before-intent", 1, 0),
    ("after-intent", 2, 1),
    ("after-call", 1, 1),
    ("silent", 2, 2),
    ("no-disk", 1, 1),
    ("stored", 2, 2),
    ("before-outcome", 2, 2),
)
"""Where the worker ends, at which document, and how many the provider has stamped by then."""


class Crash(BaseException):
    """Ends an operation where the process would have ended."""


async def two_payments(ledger: Ledger, merchant: Actor) -> UUID:
    """Returns a split order with fiscal data and two captured payments."""
    result = await create_order(ledger, merchant, an_order("1", allow_partials=True, fiscal=FISCAL))
    for amount in (4_000, 6_000):
        await add_payment(ledger, merchant, "1", by_card(amount=Decimal(amount)))
    return result.order.terms.order_id


async def order_of(ledger: Ledger, merchant: Actor, order_id: UUID) -> Order:
    return await load_order(ledger, merchant.merchant_id, order_id)


def stamps(url: str, merchant: Actor) -> int:
    """Returns how many documents the provider has stamped for the merchant."""
    query = "select count(*) from sandbox_stamp where xml is not null and merchant_id = %s"
    [(count,)] = rows(url, query, merchant.merchant_id)
    return int(count)


def crash_at(point: str, monkeypatch: pytest.MonkeyPatch, nth: int) -> None:  # noqa: C901 - a wrapper for each point
    """Crashes at this point of the n-th document."""
    seen = 0

    def now() -> bool:
        nonlocal seen
        seen += 1
        return seen == nth

    commit, stamp, put = Journal.commit, SandboxProvider.stamp, DocumentFiles.put

    async def commit_or_crash(journal: Journal, merchant_id: UUID, command_id: UUID, changes: Any, *rest: Any) -> Any:
        kinds = {type(event) for change in changes for event in change.events}
        if point == "before-intent" and StampingRequested in kinds and now():
            raise Crash
        if point == "before-outcome" and DocumentStamped in kinds and now():
            raise Crash
        done = await commit(journal, merchant_id, command_id, changes, *rest)
        if point == "after-intent" and StampingRequested in kinds and now():
            raise Crash
        return done

    async def stamp_or_crash(provider: SandboxProvider, request: Any) -> Any:
        answer = await stamp(provider, request)
        if point == "after-call" and now():
            raise Crash
        if point == "silent" and now():
            raise ProviderTimedOut("no answer")
        return answer

    async def put_or_crash(files: DocumentFiles, *args: Any) -> Any:
        if point == "no-disk" and now():
            raise FilesUnavailable("the disk is full")
        stored = await put(files, *args)
        if point == "stored" and now():
            raise Crash
        return stored

    monkeypatch.setattr(Journal, "commit", commit_or_crash)
    monkeypatch.setattr(SandboxProvider, "stamp", stamp_or_crash)
    monkeypatch.setattr(DocumentFiles, "put", put_or_crash)


async def test_a_document_is_stamped_once_wherever_its_worker_ended(
    ledger: Ledger, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for point, nth, stamped_by_then in POINTS:
        merchant = await register(ledger)
        order_id = await two_payments(ledger, merchant)
        with monkeypatch.context() as patch:
            crash_at(point, patch, nth)
            try:
                await stamp_due(ledger, merchant.merchant_id, order_id)
            except Crash:
                pass
            else:
                assert point in {"silent", "no-disk"}
        assert documents_of(await order_of(ledger, merchant, order_id)) != EMITTED, point
        sent = stamps(database_url, merchant)
        assert sent == stamped_by_then, f"{point}: a document is sent once its intent is recorded"
        await sweep(ledger, database_url, AFTERWARDS)
        await stamp_due(ledger, merchant.merchant_id, order_id)
        assert documents_of(await order_of(ledger, merchant, order_id)) == EMITTED, point
        assert stamps(database_url, merchant) == 3, point


async def test_a_document_is_stored_once_the_object_store_is_there(
    ledger: Ledger, merchant: Actor, database_url: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ledger.invoicing is not None
    order_id = await two_payments(ledger, merchant)
    for bucket, key_id, stamped in (("other", KEY_ID, 1), (BUCKET, "AKIANONE", 1), (BUCKET, KEY_ID, 3)):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key_id)
        files = DocumentFiles(f"s3://{bucket}/tax", b"k" * 32, "http://127.0.0.1:8000/api/files")
        ledger.invoicing = replace(ledger.invoicing, files=files)
        await sweep(ledger, database_url, AFTERWARDS)
        await stamp_due(ledger, merchant.merchant_id, order_id)
        assert stamps(database_url, merchant) == stamped, f"{bucket} {key_id}"
    order = await order_of(ledger, merchant, order_id)
    assert documents_of(order) == EMITTED
    assert order.invoices is not None
    for document in order.invoices.documents:
        assert document.stamp is not None
        assert sha256(s3.buckets[BUCKET][f"tax/{document.stamp.xml_key}"]).hexdigest() == document.stamp.xml_sha256
        assert s3.buckets[BUCKET][f"tax/{document.stamp.pdf_key}"].startswith(b"%PDF")


async def test_an_open_call_is_left_to_the_recovery(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id = await two_payments(ledger, merchant)
    with monkeypatch.context() as patch:
        crash_at("after-intent", patch, 1)
        with pytest.raises(Crash):
            await stamp_due(ledger, merchant.merchant_id, order_id)
    order = await order_of(ledger, merchant, order_id)
    assert order.invoices is not None
    assert order.invoices.open_intent is not None
    await stamp_due(ledger, merchant.merchant_id, order_id)
    assert (await order_of(ledger, merchant, order_id)) == order


async def test_a_document_that_is_not_found_is_sent_again_only_once_that_is_final(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id = await two_payments(ledger, merchant)
    with monkeypatch.context() as patch:
        crash_at("after-intent", patch, 1)
        with pytest.raises(Crash):
            await stamp_due(ledger, merchant.merchant_id, order_id)
    open_call = await order_of(ledger, merchant, order_id)
    await sweep(ledger, database_url, replace(AFTERWARDS, late_s=3600.0))
    assert (await order_of(ledger, merchant, order_id)) == open_call
    await sweep(ledger, database_url, AFTERWARDS)
    after = await order_of(ledger, merchant, order_id)
    assert after.invoices is not None
    assert after.invoices.open_intent is None


async def test_a_stamp_that_came_in_time_is_recorded_even_if_its_files_are_stored_after_the_deadline(
    ledger: Ledger, merchant: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id = await two_payments(ledger, merchant)
    await asyncio.to_thread(load_libraries)
    ledger.call_timeouts = CallTimeouts(processor_timeout_s=2.0)
    put = DocumentFiles.put

    async def put_late(files: DocumentFiles, *args: Any) -> Any:
        await asyncio.sleep(2.5)
        return await put(files, *args)

    monkeypatch.setattr(DocumentFiles, "put", put_late)
    await stamp_due(ledger, merchant.merchant_id, order_id)
    assert documents_of(await order_of(ledger, merchant, order_id)) == EMITTED


async def test_the_late_end_of_a_call_leaves_the_one_that_began_since(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that stops before its call finds, when it goes on, that the document is being stamped by another."""
    order_id = await two_payments(ledger, merchant)
    calls: list[Any] = []
    while len(calls) < 2:
        with monkeypatch.context() as patch:
            crash_at("after-intent", patch, 1)
            with pytest.raises(Crash):
                await stamp_due(ledger, merchant.merchant_id, order_id)
        order = await order_of(ledger, merchant, order_id)
        calls += open_calls(ledger, merchant.merchant_id, order)
        if len(calls) == 1:
            await sweep(ledger, database_url, AFTERWARDS)
    late, current = calls
    assert late.key == current.key
    for outcome in (NotSent(), NotFound(), Unanswered("no answer")):
        await record_outcome(UnitOfWork(ledger, merchant), late, outcome)
        order = await order_of(ledger, merchant, order_id)
        assert order.invoices is not None
        assert order.invoices.open_intent == current.intent, f"{outcome} is that of the call before"
    await record_outcome(UnitOfWork(ledger, merchant), current, NotSent())
    after = await order_of(ledger, merchant, order_id)
    assert after.invoices is not None
    assert after.invoices.open_intent is None


async def test_what_is_due_is_stamped_before_a_deadline_is_warned_of(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    order_id = await two_payments(ledger, merchant)
    order = await order_of(ledger, merchant, order_id)
    (kind, about, _), *_ = [each for each in invoice_timers(order) if each[0] is InvoiceTimerKind.RECEIPT_DEADLINE]
    await HANDLERS[kind](ledger, merchant.merchant_id, order_id, about, order.updated_at)
    assert documents_of(await order_of(ledger, merchant, order_id)) == EMITTED


async def test_a_warning_that_is_due_during_a_crashed_call_comes_once_its_deadline_has_passed(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id = await two_payments(ledger, merchant)
    with monkeypatch.context() as patch:
        crash_at("after-intent", patch, 1)
        with pytest.raises(Crash):
            await stamp_due(ledger, merchant.merchant_id, order_id)
    order = await order_of(ledger, merchant, order_id)
    assert order.invoices is not None
    warnings = [each for each in invoice_timers(order) if each[0] is InvoiceTimerKind.RECEIPT_DEADLINE]
    due_at = max(at for _, _, at in warnings)
    advancer = ClockAdvancer(database_url, ledger, REACTIONS, HANDLERS)

    class During(datetime):  # before the deadline of the call, however slow the machine is
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.fromtimestamp(0, tz)

    with monkeypatch.context() as patch:
        patch.setattr("ledger.operations.orders.invoices.deadline.datetime", During)
        await advancer.advance(merchant.merchant_id, "advanceTo", lambda _: due_at)
    assert (await order_of(ledger, merchant, order_id)).invoices == order.invoices
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        left = [job.kind for job in await failed_jobs(connection) if job.merchant_id == merchant.merchant_id]
    assert left == ["RECEIPT_DEADLINE"] * 2, "both are tried again"

    class Afterwards(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime(2100, 1, 1, tzinfo=tz)

    monkeypatch.setattr("ledger.operations.orders.invoices.deadline.datetime", Afterwards)
    for kind, about, at in warnings * 2:
        await HANDLERS[kind](ledger, merchant.merchant_id, order_id, about, at)
    after = (await order_of(ledger, merchant, order_id)).invoices
    assert after is not None
    assert (after.warned, after.open_intent) == (tuple(about for _, about, _ in warnings), order.invoices.open_intent)


@pytest.mark.parametrize(("lines", "on_loop"), [(20, True), (21, False)])
async def test_an_invoice_of_many_lines_is_composed_beside_the_event_loop(
    lines: int, on_loop: bool, ledger: Ledger, merchant: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def decide(order: Order, command: StampNext) -> list[Any]:
        threads.append(threading.current_thread())
        return decide_next(order, command)

    monkeypatch.setattr("ledger.operations.orders.invoices.stamp.decide_next", decide)
    line = LineItem(description="Café", quantity=Decimal(1), unit_price=Decimal(500), tax_included=True)
    terms = {"amount": line.unit_price * lines, "line_items": (line,) * lines}
    made = await create_order(ledger, merchant, an_order("1", by_card(), fiscal=FISCAL, **terms))
    await stamp_due(ledger, merchant.merchant_id, made.order.terms.order_id)
    assert {each is threading.current_thread() for each in threads} == {on_loop}


async def test_two_workers_and_a_request_stamp_each_document_once(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    order_id = await two_payments(ledger, merchant)
    ledgers = [ledger, await open_another(), await open_another()]
    await asyncio.gather(*[stamp_due(one, merchant.merchant_id, order_id) for one in ledgers * 2])
    assert documents_of(await order_of(ledger, merchant, order_id)) == EMITTED
    assert stamps(database_url, merchant) == 3


async def test_an_outage_of_the_provider_ends_with_every_document_in_order(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    assert ledger.invoicing is not None
    provider = ledger.invoicing.provider
    assert isinstance(provider, SandboxProvider)
    order_id = await two_payments(ledger, merchant)
    await provider.set_mode(merchant.merchant_id, "DOWN", 3)
    advancer = ClockAdvancer(database_url, ledger, REACTIONS, HANDLERS)

    def hours(now: datetime) -> datetime:
        return now + timedelta(hours=2)

    await advancer.advance(merchant.merchant_id, "advanceBy", hours)
    order = await order_of(ledger, merchant, order_id)
    assert order.invoices is not None
    assert (documents_of(order), order.invoices.documents[0].attempts) == (EMITTED, 4)
    assert stamps(database_url, merchant) == 3


async def test_a_running_worker_stamps_what_was_captured(
    ledger: Ledger, merchant: Actor, database_url: str, tmp_path: Any
) -> None:
    order_id = await two_payments(ledger, merchant)
    settings = Settings(database_url=database_url, master_key=MASTER_KEY, data_dir=tmp_path)
    stop, ready = asyncio.Event(), asyncio.Event()
    worker = asyncio.create_task(run(settings, ready.set, stop))
    await ready.wait()
    async with asyncio.timeout(60):
        while documents_of(await order_of(ledger, merchant, order_id)) != EMITTED:
            assert not worker.done(), worker
            await asyncio.sleep(0.1)
    stop.set()
    await worker


async def test_without_a_provider_an_invoice_fails_once_and_is_stamped_after_one_is_connected(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    order_id = await two_payments(ledger, merchant)
    connected = ledger.invoicing
    assert connected is not None
    ledger.invoicing = replace(connected, provider=None)
    for _ in range(2):
        await stamp_due(ledger, merchant.merchant_id, order_id)
    with pytest.raises(ProviderUnavailable):
        await stamp_order(ledger, merchant, "1", StampInput())
    order = await order_of(ledger, merchant, order_id)
    assert order.invoices is not None
    failure = order.invoices.failure_of(INVOICE_SLOT)
    assert failure is not None
    assert failure.code == "STAMPING_NOT_CONFIGURED"
    assert InvoiceTimerKind.STAMP not in {kind for kind, *_ in invoice_timers(order)}
    ledger.invoicing = connected
    await stamp_order(ledger, merchant, "1", StampInput())
    assert stamps(database_url, merchant) == 3
