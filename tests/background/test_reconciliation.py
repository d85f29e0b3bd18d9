"""Reconciliation: what the processor carried out and the log lacks is found and recorded, and what only the log has is
listed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from copy import copy
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import msgspec
import psycopg
import pytest
from structlog.testing import capture_logs
from tests.background.conftest import Open, register, rows, worker_connection
from tests.operations.conftest import an_order, by_card
from tests.operations.test_accounts import with_backup
from tests.operations.test_action_recovery import GIVEN_UP, order_named, recover, wrap
from tests.operations.test_actions import CHALLENGED, MANUAL

from ledger.background.effects import NoteAlias
from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.reactions.payment_index import PaymentIndex
from ledger.background.reconciliation import reconciler
from ledger.background.reconciliation.comparison import Difference, Kind, Missing, Unreachable, Unread
from ledger.background.reconciliation.reconciler import Reconciliation
from ledger.background.scheduler.jobs import Jobs
from ledger.domain.orders.events import PayerActionRequired
from ledger.domain.orders.processor_outcomes import Captured
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import NextAction, OrderStatus, PaymentStatus
from ledger.journal.event_archive import ArchiveUnavailable
from ledger.journal.reader import SeenEvent
from ledger.operations.context.inputs import Actor, CancelInput, CaptureInput, RefundInput, ValidateInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.authenticate import validate
from ledger.operations.orders.cancel import cancel_order
from ledger.operations.orders.capture import capture_order
from ledger.operations.orders.create import charge_order, create_order
from ledger.operations.orders.payment_lookup import open_lookup
from ledger.operations.orders.refund import refund_order
from ledger.processors.contract import LookUpRequest, ProcessorRecord, ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.messages import SettlementMatched
from projections.orders import reconciliation
from projections.orders.reconciliation import ReconciliationLog

pytestmark = pytest.mark.anyio

Compare = Callable[..., Awaitable[list[Any]]]
NOW = datetime.now(UTC)


@pytest.fixture
async def compare(ledger: Ledger, database_url: str, stack: AsyncExitStack) -> Compare:
    """Compares the last hour and the next one, after the payments' names are stored."""
    jobs = await stack.enter_async_context(Jobs(database_url, ledger, {}))
    log = await stack.enter_async_context(ReconciliationLog(database_url))
    connection = await worker_connection(database_url, stack)

    async def compare(*, repair: bool = True) -> list[Difference]:
        await Dispatcher(ledger.journal, jobs, [PaymentIndex()]).sweep(connection)
        now, hour = datetime.now(UTC), timedelta(hours=1)
        async with open_lookup(database_url) as names:
            findings = Reconciliation(ledger, names, log.moved).findings(now - hour, now + hour, repair=repair)
            return [finding async for finding in findings]

    return compare


def execute(database_url: str, statement: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(statement)


async def late(
    ledger: Ledger, stalling: Ledger, database_url: str, method: str, begin: Callable[[], Awaitable[Any]]
) -> Callable[[], Awaitable[Any]]:
    """Begins a request whose call stalls, lets the recovery settle it without a fence, and returns what makes the call."""
    sent, requests = asyncio.Event(), list[Any]()

    def stalled(call: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def never(request: Any) -> Any:
            requests.append((call, request))
            sent.set()
            raise asyncio.CancelledError

        return never

    wrap(stalling, method, stalled)
    with pytest.raises(asyncio.CancelledError):
        await begin()
    assert sent.is_set()
    processor: Any = ledger.processors.sandbox
    processor.capabilities = msgspec.structs.replace(processor.capabilities, can_fence=False, late_arrival_s=-7200.0)
    await recover(database_url, ledger, windows=GIVEN_UP)
    ((call, request),) = requests
    return lambda: call(request)


def summary(differences: Sequence[Difference]) -> list[tuple[Any, ...]]:
    return [(one.missing_in, one.captured, one.refunded, one.voided, one.repaired) for one in differences]


async def test_both_sides_agree_about_every_kind_of_effect(ledger: Ledger, merchant: Actor, compare: Compare) -> None:
    await create_order(ledger, merchant, an_order("sale", by_card()))
    await refund_order(ledger, merchant, "sale", RefundInput(amount=Decimal(4_000)))
    await create_order(ledger, merchant, an_order("manual", by_card(), **MANUAL))
    await capture_order(ledger, merchant, "manual", CaptureInput(amount=Decimal(3_000)))
    await create_order(ledger, merchant, an_order("void", by_card(), **MANUAL))
    await cancel_order(ledger, merchant, "void", CancelInput())
    await create_order(ledger, merchant, an_order("3ds", by_card(CHALLENGED)))
    session = (await order_named(ledger, merchant, "3ds")).payments[0].session
    assert session is not None
    await validate(ledger, merchant, "3ds", ValidateInput(transaction_id=session.transaction_id))
    assert await compare() == []


async def test_a_refund_that_was_carried_out_after_it_was_settled_and_requested_again_is_recorded(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str, compare: Compare
) -> None:
    """The processor gave back 8,000; without reconciliation, the ledger would record 4,000."""
    await create_order(ledger, merchant, an_order("1", by_card()))
    stalling = await open_another()
    request = RefundInput(amount=Decimal(4_000))
    call = await late(ledger, stalling, database_url, "refund", lambda: refund_order(stalling, merchant, "1", request))
    await refund_order(ledger, merchant, "1", request)
    await call()
    assert summary(await compare(repair=False)) == [(Missing.IN_LEDGER, 0, 4_000, False, False)]
    assert (await order_named(ledger, merchant, "1")).amount_refunded == 4_000
    assert summary(await compare()) == [(Missing.IN_LEDGER, 0, 4_000, False, True)]
    order = await order_named(ledger, merchant, "1")
    assert (order.amount_refunded, order.status) == (8_000, OrderStatus.PARTIALLY_REFUNDED)
    assert await compare() == []


async def test_a_capture_and_a_void_that_arrived_late_are_recorded(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str, compare: Compare
) -> None:
    stalling, calls = await open_another(), []
    for name, method in (("captured", "capture"), ("voided", "void")):
        await create_order(ledger, merchant, an_order(name, by_card(), **MANUAL))

        def begin(name: str = name, method: str = method) -> Awaitable[Any]:
            if method == "capture":
                return capture_order(stalling, merchant, name, CaptureInput(amount=Decimal(6_000)))
            return cancel_order(stalling, merchant, name, CancelInput())

        calls.append(await late(ledger, stalling, database_url, method, begin))
    for call in calls:
        await call()
    assert {(one.captured, one.voided, one.repaired) for one in await compare()} == {
        (6_000, False, True),
        (0, True, True),
    }
    assert (await order_named(ledger, merchant, "captured")).amount_paid == 6_000
    assert (await order_named(ledger, merchant, "voided")).payments[0].status is PaymentStatus.CANCELLED
    assert await compare() == []


async def test_a_payment_that_failed_as_never_arrived_and_was_charged_is_recorded_beside_the_one_that_replaced_it(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str, compare: Compare
) -> None:
    stalling = await open_another()
    call = await late(
        ledger, stalling, database_url, "authorize",
        lambda: create_order(stalling, merchant, an_order("1", by_card())),
    )  # fmt: skip
    await charge_order(ledger, merchant, "1", by_card())
    await call()
    assert summary(await compare()) == [(Missing.IN_LEDGER, 10_000, 0, False, True)]
    order: Order = await order_named(ledger, merchant, "1")
    assert (order.amount_paid, order.overpaid_amount) == (20_000, 10_000)
    assert await compare() == []


async def test_what_only_one_side_has_is_listed_and_not_repaired(
    ledger: Ledger, merchant: Actor, database_url: str, compare: Compare
) -> None:
    await create_order(ledger, merchant, an_order("1", by_card()))
    await refund_order(ledger, merchant, "1", RefundInput(amount=Decimal(4_000)))
    execute(database_url, "delete from sandbox_call where kind = 'REFUND'")
    execute(
        database_url,
        "insert into sandbox_charge (merchant_id, idempotency_key, amount, currency, capture, card_bin, card_last4, "
        "authorized, captured, reference) select merchant_id, 'unknown', amount, currency, capture, card_bin, "
        "card_last4, authorized, captured, 'unknown' from sandbox_charge",
    )
    first, second = await compare()
    assert (first.idempotency_key, first.order_id, first.missing_in) == ("unknown", None, Missing.IN_LEDGER)
    order = await order_named(ledger, merchant, "1")
    assert (second.order_id, second.refunded, second.missing_in) == (
        order.terms.order_id,
        4_000,
        Missing.AT_PROCESSOR,
    )
    assert [first.repaired, second.repaired] == [False, False]


async def test_a_refund_that_no_request_has_asked_for_is_recorded(
    ledger: Ledger, merchant: Actor, database_url: str, compare: Compare
) -> None:
    """The merchant made it on the processor's own pages, or the log lost it."""
    await create_order(ledger, merchant, an_order("1", by_card()))
    await refund_order(ledger, merchant, "1", RefundInput(amount=Decimal(4_000)))
    [payment] = (await order_named(ledger, merchant, "1")).payments
    key = f"{uuid4()}:{payment.payment_id}"
    execute(
        database_url,
        "insert into sandbox_call (merchant_id, kind, idempotency_key, reference, moved, accepted, answer) "
        f"select merchant_id, kind, '{key}', reference, moved, accepted, answer from sandbox_call where kind = 'REFUND'",
    )
    assert summary(await compare()) == [(Missing.IN_LEDGER, 0, 4_000, False, True)]
    assert (await order_named(ledger, merchant, "1")).amount_refunded == 8_000
    assert await compare() == []


async def test_an_order_that_cannot_be_read_is_named_and_the_others_are_compared(
    ledger: Ledger, merchant: Actor, database_url: str, compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("1", "2"):
        await create_order(ledger, merchant, an_order(name, by_card()))
    unread, other = [(await order_named(ledger, merchant, name)).terms.order_id for name in ("1", "2")]
    load = reconciler.load_order

    async def load_order(ledger: Ledger, merchant_id: UUID, order_id: UUID) -> Order:
        if order_id == unread:
            raise ArchiveUnavailable("its file is missing")
        return await load(ledger, merchant_id, order_id)

    execute(database_url, f"delete from sandbox_charge where merchant_id = '{merchant.merchant_id}'")
    monkeypatch.setattr(reconciler, "load_order", load_order)
    with capture_logs() as logs:
        found = await compare()
    assert Unread(merchant_id=merchant.merchant_id, order_id=unread, unread="its file is missing") in found
    assert [each.order_id for each in found if isinstance(each, Difference)] == [other]
    [line] = [line for line in logs if line["event"] == "reconciliation_order_unread"]
    assert (line["order_id"], line["reason"]) == (str(unread), "its file is missing")


async def test_look_ups_that_hang_for_one_merchant_delay_no_other(
    ledger: Ledger, merchant: Actor, database_url: str, stack: AsyncExitStack
) -> None:
    """The processor lists nothing, so it is asked about each capture, those of the slow merchant first."""
    slow, log = await register(ledger), await stack.enter_async_context(ReconciliationLog(database_url))
    for n in range(10):
        await create_order(ledger, slow, an_order(f"{n}", by_card()))
    await create_order(ledger, merchant, an_order("1", by_card()))
    hang, asked, answers = asyncio.Event(), Counter[UUID](), ledger.processors.sandbox.look_up  # type: ignore[union-attr]

    async def look_up(request: LookUpRequest) -> object:
        asked[request.merchant_id] += 1
        if request.merchant_id == slow.merchant_id:
            await hang.wait()
        return await answers(request)

    async def none(_since: datetime, _until: datetime) -> AsyncIterator[ProcessorRecord]:
        return
        yield

    async def slow_first(since: datetime, until: datetime) -> Sequence[tuple[UUID, UUID]]:
        return sorted(await log.moved(since, until), key=lambda place: place[0] != slow.merchant_id)

    execute(database_url, f"delete from sandbox_charge where merchant_id = '{merchant.merchant_id}'")
    ledger.processors.sandbox.look_up = look_up  # type: ignore[union-attr, method-assign, assignment]
    ledger.processors.sandbox.records = none  # type: ignore[union-attr, method-assign, assignment]
    now, hour = datetime.now(UTC), timedelta(hours=1)
    async with open_lookup(database_url) as names, asyncio.timeout(60):
        differences = Reconciliation(ledger, names, slow_first).findings(now - hour, now + hour)
        first = await anext(differences)
        assert first.merchant_id == merchant.merchant_id
        assert asked[merchant.merchant_id] == 1
        assert asked[slow.merchant_id] > 0
        hang.set()
        assert [one async for one in differences] == [], "the processor knows the others"
    assert asked[slow.merchant_id] >= 10


async def test_a_call_that_is_still_open_is_left_to_the_recovery(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str, compare: Compare
) -> None:
    await create_order(ledger, merchant, an_order("1", by_card()))
    dying = await open_another()

    def unrecorded(call: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def booked(request: Any) -> Any:
            await call(request)
            raise asyncio.CancelledError

        return booked

    wrap(dying, "refund", unrecorded)
    with pytest.raises(asyncio.CancelledError):
        await refund_order(dying, merchant, "1", RefundInput(amount=Decimal(4_000)))
    assert await compare() == []


async def test_the_events_of_a_day_are_found_by_an_index(database_url: str) -> None:
    # Only bitmaps are left to the planner, and those need an index on a condition: statistics decide nothing.
    options = "-c enable_seqscan=off -c enable_indexscan=off -c enable_indexonlyscan=off"
    with psycopg.connect(database_url, options=options) as connection:
        asked = (reconciliation._TOPICS, datetime.now(UTC), datetime.now(UTC))
        plan = connection.execute(f"explain {reconciliation._MOVED}", asked)
        assert any("event_recorded_at" in line for (line,) in plan)


async def test_one_of_several_workers_takes_a_day(database_url: str) -> None:
    now = datetime.now(UTC)
    async with ReconciliationLog(database_url) as one, ReconciliationLog(database_url) as other:
        assert await one.take_day(now) is None, "no day has passed since the installation"
        tomorrow = now + timedelta(days=1, minutes=1)
        taken = await asyncio.gather(*[log.take_day(tomorrow) for log in (one, other) * 4])
        assert sum(since is not None for since in taken) == 1
        assert await one.take_day(tomorrow + timedelta(hours=23)) is None
        assert await other.take_day(tomorrow + timedelta(hours=24)) == tomorrow


async def test_a_day_whose_comparison_fails_is_compared_again(
    ledger: Ledger, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> Any:
        raise LookupError("a fault of the program")
        yield

    monkeypatch.setattr(ledger.processors.sandbox, "records", fail)
    execute(database_url, "update reconciliation set compared_until = now() - interval '3 days'")
    (before,) = rows(database_url, "select compared_until from reconciliation")
    stop = asyncio.Event()
    async with ReconciliationLog(database_url) as log, open_lookup(database_url) as names:
        give_back = log.give_back

        async def last(since: datetime, until: datetime) -> None:
            await give_back(since, until)
            stop.set()

        log.give_back = last  # type: ignore[method-assign]
        with suppress(LookupError):
            async with asyncio.timeout(30):
                await Reconciliation(ledger, names, log.moved).run(log, stop)
    assert rows(database_url, "select compared_until from reconciliation") == [before]


async def test_accounts_that_were_not_reachable_are_compared_side_by_side(ledger: Ledger) -> None:
    stop, compared, has_compared = asyncio.Event(), list[str](), asyncio.Event()

    class Times:
        async def take_day(self, _: datetime) -> None:
            stop.set()

        async def take_due(self) -> Any:
            return [((uuid4(), name), NOW) for name in ("hangs", "answers")]

        async def caught_up(self, account: Any) -> None:
            compared.append(account[1])
            has_compared.set()

    class Compares(Reconciliation):
        async def findings(self, *_: Any, only: Any = None, **__: Any) -> AsyncIterator[Any]:
            if only[1] == "hangs":
                await has_compared.wait()
            for each in ():
                yield each

    names, times = Any, Times()
    async with asyncio.timeout(10):
        await Compares(ledger, names, moved=names).run(times, stop)  # type: ignore[arg-type]
    assert compared == ["answers", "hangs"]


async def test_an_account_that_is_not_reachable_is_compared_later_and_delays_no_other(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    """The day is compared; the account waits since then, is tried again after an hour, and until it answers."""
    backup: Any = (await with_backup(ledger, merchant, first=False)).processor
    await create_order(ledger, merchant, an_order("1", by_card()))
    execute(database_url, "update reconciliation set compared_until = now() - interval '3 days'")
    execute(database_url, "delete from reconciliation_waiting")
    asked, answers, outages = list[tuple[datetime, datetime]](), backup.records, ["for good"]

    async def records(since: datetime, until: datetime) -> AsyncIterator[ProcessorRecord]:
        asked.append((since, until))
        if outages:
            raise ProcessorUnavailable("Stripe refuses the key")
        async for record in answers(since, until):
            yield record

    backup.records = records
    async with ReconciliationLog(database_url) as log, open_lookup(database_url) as names:
        reconciliation = Reconciliation(ledger, names, log.moved)

        async def look_once() -> None:
            stop = asyncio.Event()
            take_due = log.take_due

            async def last() -> Any:
                stop.set()
                return await take_due()

            log.take_due = last  # type: ignore[method-assign]
            async with asyncio.timeout(60):
                await reconciliation.run(log, stop)
            log.take_due = take_due  # type: ignore[method-assign]

        with capture_logs() as logs:
            await look_once()
        [waits] = [line for line in logs if line["event"] == "reconciliation_waits"]
        assert (waits["account"], waits["merchant_id"]) == ("backup", str(merchant.merchant_id))
        assert "refuses the key" in waits["reason"]
        assert await log.take_day(datetime.now(UTC) - timedelta(minutes=20)) is None, "the day is compared"
        [(account, since)] = rows(database_url, "select account, since from reconciliation_waiting")
        assert (account, since) == ("backup", asked[0][0])
        await look_once()
        assert len(asked) == 1, "not before an hour has passed"
        gone = [each async for each in reconciliation.findings(since, NOW, only=(merchant.merchant_id, "closed"))]
        assert [type(each) for each in gone] == [Unreachable], "an account that cannot be opened stays put off"
        for tries in (2, 3):
            execute(database_url, "update reconciliation_waiting set next_try_at = now()")
            await look_once()
            assert (len(asked), asked[-1][0]) == (tries, since)
            outages.clear()
    assert rows(database_url, "select 1 from reconciliation_waiting") == []


async def test_the_comparison_goes_through_all_accounts(
    ledger: Ledger, merchant: Actor, database_url: str, compare: Compare
) -> None:
    backup: Any = (await with_backup(ledger, merchant)).processor
    await create_order(ledger, merchant, an_order("1", by_card(), **MANUAL))
    await create_order(ledger, merchant, an_order("2", by_card()))
    await capture_order(ledger, merchant, "1", CaptureInput())
    assert await compare() == []
    own: Any = ledger.processors.sandbox
    own.records = backup.records
    assert {(one.missing_in, one.order_id) for one in await compare()} == {(Missing.IN_LEDGER, None)}, (
        "not its payments"
    )

    async def away(*_: object) -> AsyncIterator[ProcessorRecord]:
        raise ProcessorTimedOut("away")
        yield

    del own.records
    await with_backup(ledger, merchant, first=False)
    await create_order(ledger, merchant, an_order("3", by_card()))
    execute(database_url, f"delete from sandbox_charge where merchant_id = '{merchant.merchant_id}'")
    backup.records = away
    *unreachable, missing = sorted(await compare(), key=lambda one: isinstance(one, Difference))
    assert unreachable == [Unreachable(merchant_id=merchant.merchant_id, account="backup", unreachable="away")]
    assert (missing.missing_in, missing.account) == (Missing.AT_PROCESSOR, "sandbox"), (
        "nothing is missing where it is away"
    )


async def test_an_account_with_two_names_is_read_once_and_compared_with_the_payments_of_both(
    ledger: Ledger, merchant: Actor, database_url: str, compare: Compare
) -> None:
    """Its keys under the older name are revoked: the account is read, and asked, by those that it has now."""
    backup: Any = await with_backup(ledger, merchant)
    now = msgspec.structs.replace(backup, also_named=("old",))
    old = msgspec.structs.replace(backup, name="old", also_named=("backup",))
    accounts: Any = ledger.processors
    shared, named, asked = await accounts.named(merchant.merchant_id, "sandbox"), accounts.named, list[str]()
    found = [old]

    async def of_merchant(_: Any) -> list[Any]:
        return found

    async def every() -> AsyncIterator[Any]:
        for each in (shared, *found):
            yield each

    async def old_or(merchant_id: UUID, name: str) -> Any:
        return old if name == "old" else await named(merchant_id, name)

    accounts.of_merchant, accounts.named, accounts.every = of_merchant, old_or, every
    await create_order(ledger, merchant, an_order("1", by_card()))
    [payment] = (await order_named(ledger, merchant, "1")).payments
    assert payment.account == "old"
    revoked: Any = copy(backup.processor)
    old = msgspec.structs.replace(old, processor=revoked, is_connected=False)
    found = [old, now]
    await create_order(ledger, merchant, an_order("2", by_card()))

    def counted(name: str, listed: Any) -> Any:
        async def records(since: datetime, until: datetime) -> AsyncIterator[ProcessorRecord]:
            asked.append(name)
            if name == "old":
                raise ProcessorUnavailable("Stripe refuses the key")
            async for record in listed(since, until):
                yield record

        return records

    async def lines(_since: datetime, _until: datetime) -> AsyncIterator[SettlementMatched]:
        about = {"merchant_id": merchant.merchant_id, "order_id": None, "payment_id": None}
        reference = {"batch_id": "po_1", "processor_reference": payment.processor_reference or ""}
        yield SettlementMatched(processor="sandbox", message_id="1", occurred_at=NOW, **about, **reference)

    answers = backup.processor.records
    backup.processor.records, revoked.records = counted("backup", answers), counted("old", answers)
    backup.processor.lines = lines
    [settled] = await compare()
    assert (settled.account, settled.kind, settled.repaired, asked) == ("old", Kind.MISSING, True, ["backup"])
    assert (await order_named(ledger, merchant, "1")).payments[0].status is PaymentStatus.SETTLED
    assert await compare() == []
    keys = [(await order_named(ledger, merchant, name)).payments[0].keys[0] for name in "12"]
    execute(database_url, f"delete from sandbox_charge where idempotency_key in ('{keys[0]}', '{keys[1]}')")
    assert sorted((one.account, one.missing_in) for one in await compare()) == [
        ("backup", Missing.AT_PROCESSOR),
        ("old", Missing.AT_PROCESSOR),
    ]
    backup.processor.records = counted("old", answers)
    [unreachable] = await compare()
    assert (unreachable.account, unreachable.unreachable) == ("old", "Stripe refuses the key")


async def test_an_account_is_compared_with_its_own_merchants_payments_alone(
    ledger: Ledger, merchant: Actor, compare: Compare
) -> None:
    """A merchant writes what his account lists: it names another merchant's payment, and would mark it as paid."""
    other = await register(ledger)
    await with_backup(ledger, merchant)
    backup: Any = (await with_backup(ledger, other)).processor
    await create_order(ledger, merchant, an_order("1", by_card(), **MANUAL))
    [payment] = (await order_named(ledger, merchant, "1")).payments
    asked = list[Any]()

    async def records(_since: datetime, _until: datetime) -> AsyncIterator[ProcessorRecord]:
        reference = payment.processor_reference or ""
        about = {"merchant_id": merchant.merchant_id, "processor_reference": reference, "recorded_at": NOW}
        yield ProcessorRecord(idempotency_key=payment.keys[0], captured=Decimal(10_000), **about)

    async def lines(_since: datetime, _until: datetime) -> AsyncIterator[SettlementMatched]:
        about = {"merchant_id": merchant.merchant_id, "order_id": None, "payment_id": payment.payment_id}
        reference = {"batch_id": "po_1", "processor_reference": payment.processor_reference or ""}
        yield SettlementMatched(processor="sandbox", message_id="1", occurred_at=NOW, **about, **reference)

    async def look_up(request: Any) -> Captured:
        asked.append(request)
        return Captured(amount=Decimal(10_000), processor_reference="theirs")

    backup.records, backup.lines = records, lines
    backup.look_up = backup.look_up_capture = look_up
    assert [one for one in await compare() if one.account == "backup"] == []
    assert asked == []
    assert (await order_named(ledger, merchant, "1")).amount_paid == 0


async def test_what_both_sides_have_differently_is_listed(
    ledger: Ledger, merchant: Actor, database_url: str, compare: Compare
) -> None:
    """Amounts and ends: nothing of it is repaired, because the log has recorded another answer of the processor's."""
    for name, terms in (("captured", {}), ("refunded", {}), ("failed", {}), ("refused", MANUAL)):
        await create_order(ledger, merchant, an_order(name, by_card(), **terms))
    for name in ("refunded", "failed"):
        await refund_order(ledger, merchant, name, RefundInput(amount=Decimal(4_000)))
    await capture_order(ledger, merchant, "refused", CaptureInput())
    orders = {name: await order_named(ledger, merchant, name) for name in ("captured", "refunded", "failed", "refused")}
    key = {
        name: f"{order.refunds[0].refund_id}:{order.payments[0].payment_id}"
        for name, order in orders.items()
        if order.refunds
    }
    own = orders["captured"].payments[0].keys[0]
    execute(database_url, f"update sandbox_charge set captured = 90000000 where idempotency_key = '{own}'")
    execute(database_url, f"update sandbox_call set moved = 50000000 where idempotency_key = '{key['refunded']}'")
    refused = """'{"type":"refund-refused","code":"ACCOUNT_CLOSED"}'"""
    execute(
        database_url,
        f"update sandbox_call set accepted = false, answer = {refused} where idempotency_key = '{key['failed']}'",
    )
    refused = """'{"type":"capture-refused","code":"LAPSED"}'"""
    capture = orders["refused"].payments[0].capture_keys[0]
    execute(
        database_url,
        f"update sandbox_call set accepted = false, answer = {refused} where idempotency_key = '{capture}'",
    )
    found = {
        one.idempotency_key: (one.kind, one.missing_in, one.in_ledger, one.at_processor, one.repaired)
        for one in await compare()
    }
    assert found == {
        own: (Kind.AMOUNT, Missing.AT_PROCESSOR, "10000", "9000", False),
        key["refunded"]: (Kind.AMOUNT, Missing.IN_LEDGER, "4000", "5000", False),
        key["failed"]: (Kind.STATUS, Missing.AT_PROCESSOR, "4000", "ACCOUNT_CLOSED", False),
        capture: (Kind.STATUS, Missing.AT_PROCESSOR, "10000", "LAPSED", False),
    }


def test_a_session_that_ends_without_money_is_found_by_the_processors_name_of_its_payment() -> None:
    """A processor lists such an end as a void, of whose key the names do not tell the payment."""
    asked = PayerActionRequired(
        payment_id=UUID(int=2), action=NextAction.CHALLENGE, expires_at=NOW, at=NOW, processor_reference="pi_1"
    )
    for event, names in ((asked, ["pi_1"]), (msgspec.structs.replace(asked, processor_reference=None), [])):
        seen = SeenEvent(position=1, stream_id=UUID(int=1), version=1, topic="payer-action-required.v1", event=event)
        assert seen.topic in PaymentIndex.topics
        assert list(PaymentIndex().react(seen)) == [NoteAlias(name, UUID(int=1), UUID(int=2)) for name in names]
